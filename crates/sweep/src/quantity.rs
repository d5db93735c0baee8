//! Quantities of points in base units: `1ms` of `flash.t_prog` is 1000000 in the column `flash.t_prog_ns`, so that values
//! sort and plot as numbers.

use crate::row::Cell;
use flashlab_catalogue::units::Dimension;

/// Dimensions of the numbers of a device, with the ends of the names of their columns.
const DIMENSIONS: [(Dimension, &str, f64); 5] = [
    (Dimension::Time, "ns", 1.0),
    (Dimension::Size, "bytes", 1.0),
    (Dimension::Clock, "hz", 1.0),
    (Dimension::Rate, "bytes_per_second", 1.0),
    // Shares are in millionths.
    (Dimension::Share, "percent", 1e-4),
];

/// Options of a job that are sizes, which may have fio's suffixes; a number without a suffix is in bytes.
const SIZES: [&str; 4] = ["bs", "size", "io_size", "offset"];

/// Returns the name and the values of the column with the quantities of `name`; `None` if no value has a
/// unit, if a value is not a quantity, or if the values have different dimensions.
pub(crate) fn column(name: &str, cells: &[Option<&Cell>]) -> Option<(String, Vec<Option<f64>>)> {
    let has_unit = cells.iter().flatten().any(|cell| matches!(cell, Cell::Text(_)));
    if !has_unit {
        return None;
    }
    DIMENSIONS.iter().find_map(|(dimension, end, factor)| {
        let is_size = *dimension == Dimension::Size && SIZES.contains(&name);
        let values: Option<Vec<Option<f64>>> = cells
            .iter()
            .map(|cell| match cell {
                None => Some(None),
                Some(Cell::Text(text)) => value(*dimension, is_size, text).map(|value| Some(value * factor)),
                Some(Cell::Number(number)) if is_size => Some(Some(*number)),
                Some(Cell::Count(count)) if is_size => Some(Some(*count as f64)),
                Some(_) => None,
            })
            .collect();
        Some((format!("{name}_{end}"), values?))
    })
}

/// Returns true if `column` contains the quantities of the name `of`.
pub(crate) fn is_of(column: &str, of: &str) -> bool {
    let end = column.strip_prefix(of).and_then(|rest| rest.strip_prefix('_'));
    end.is_some_and(|end| DIMENSIONS.iter().any(|(_, known, _)| *known == end))
}

/// Returns a number with a unit in base units.
fn value(dimension: Dimension, is_size: bool, text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let suffixes = [("k", 1u64 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];
    let known = dimension.units().iter().find(|(name, _)| *name == unit).map(|(_, worth)| *worth);
    let suffix = || suffixes.iter().find(|(name, _)| is_size && name.eq_ignore_ascii_case(unit));
    let worth = known.or_else(|| suffix().map(|(_, worth)| *worth))?;
    // The product of decimals is rounded to whole base units, as 0.7us would otherwise be 699.9999999999999 ns.
    number.parse::<f64>().ok().map(|number| (number * worth as f64).round())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, values: &[&str]) -> Option<(String, Vec<Option<f64>>)> {
        let cells: Vec<Cell> = values.iter().map(|text| Cell::Text((*text).to_owned())).collect();
        column(name, &cells.iter().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn quantities_have_the_name_of_their_base_unit() {
        let values = |name: &str, values: &[&str]| {
            let (name, values) = of(name, values).expect("quantities");
            (name, values.into_iter().flatten().collect::<Vec<f64>>())
        };
        assert_eq!(values("flash.t_prog", &["1ms", "0.7us"]), ("flash.t_prog_ns".into(), vec![1e6, 700.0]));
        assert_eq!(values("bs", &["4k", "1MiB"]), ("bs_bytes".into(), vec![4096.0, 1048576.0]));
        assert_eq!(values("flash.spread", &["2.5%"]), ("flash.spread_percent".into(), vec![2.5]));
        let rate = values("flash.read_rate", &["2KiB/s"]);
        assert_eq!(rate, ("flash.read_rate_bytes_per_second".into(), vec![2048.0]));
    }

    #[test]
    fn names_and_the_times_of_fio_are_not_quantities() {
        // fio's `1m` of a runtime is a minute, not a size.
        for (name, values) in
            [("victim", ["greedy", "fifo"]), ("runtime", ["1m", "2m"]), ("x", ["1ms", "4KiB"])]
        {
            assert_eq!(of(name, &values), None, "{name}");
        }
    }
}
