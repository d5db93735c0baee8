//! Arranges cells as tables: rows, columns, common decimals, and names of cells.

use crate::number;
use flashlab_lab::results::{Bound, Cell, Published, Results, Role};

/// The cells of one table that share a unit.
pub(crate) struct Table<'a> {
    pub(crate) name: &'a str,
    pub(crate) unit: &'a str,
    /// Rows in order of first appearance; one empty name if the table has no rows.
    pub(crate) rows: Vec<&'a str>,
    /// Columns in order of first appearance.
    pub(crate) columns: Vec<&'a str>,
    /// Cells by row, then by column.
    pub(crate) cells: Vec<&'a Cell>,
    /// Number of decimals of the table's printed figures, as [`decimals`] returns it.
    pub(crate) decimals: usize,
}

impl Table<'_> {
    /// Returns true if the rows have names.
    pub(crate) fn has_rows(&self) -> bool {
        self.rows.iter().any(|row| !row.is_empty())
    }
}

/// Returns the tables of `results` in order of first appearance. A table with two units becomes two tables.
pub(crate) fn tables(results: &Results) -> Vec<Table<'_>> {
    let mut tables: Vec<Table<'_>> = Vec::new();
    for cell in &results.cells {
        let at =
            tables.iter().position(|t| t.name == cell.table && t.unit == cell.unit).unwrap_or_else(|| {
                tables.push(Table {
                    name: &cell.table,
                    unit: &cell.unit,
                    rows: vec![],
                    columns: vec![],
                    cells: vec![],
                    decimals: 0,
                });
                tables.len() - 1
            });
        let table = &mut tables[at];
        if !table.rows.contains(&cell.row.as_str()) {
            table.rows.push(&cell.row);
        }
        if !table.columns.contains(&cell.column.as_str()) {
            table.columns.push(&cell.column);
        }
        table.cells.push(cell);
    }
    for table in &mut tables {
        let place = |names: &[&str], name: &str| names.iter().position(|n| *n == name);
        let (rows, columns) = (&table.rows, &table.columns);
        table.cells.sort_by_key(|cell| (place(rows, &cell.row), place(columns, &cell.column)));
        table.decimals = decimals(&table.cells);
    }
    tables
}

/// Row of the median of the lives of a device's media.
pub(crate) const LIFE_MEDIAN: &str = "median";
/// Rows of the ends of the 95 % interval of the median.
pub(crate) const LIFE_FROM: &str = "95 % from";
pub(crate) const LIFE_TO: &str = "95 % to";

/// Returns true if a table contains the lives of devices in days.
pub(crate) fn is_lifetime(table: &Table<'_>) -> bool {
    table.unit == "days" && [LIFE_MEDIAN, LIFE_FROM].iter().any(|row| table.rows.contains(row))
}

/// Returns true if the cells of `table` are points of a curve.
pub(crate) fn is_curve(results: &Results, table: &str) -> bool {
    results.curves.iter().any(|curve| curve.chart == table)
}

/// Returns true if a cell is compared, listed and explained on its own. A point of a curve qualifies only if it has a
/// published figure.
pub(crate) fn stands_alone(results: &Results, cell: &Cell) -> bool {
    cell.published.is_some() || !is_curve(results, &cell.table)
}

/// Returns the figure that a cell is compared with: the published one or, without it, the reference.
pub(crate) fn compared(cell: &Cell) -> Option<Published> {
    let reference = cell.reference.as_ref().map(|found| Published::Figure { mean: found.mean, sd: found.sd });
    cell.published.clone().or(reference)
}

/// Returns true if the cell has a figure to compare with.
pub(crate) fn is_compared(cell: &Cell) -> bool {
    cell.published.is_some() || cell.reference.is_some()
}

/// Returns the name of a role on a page. Only a figure that is compared with another figure counts as a
/// prediction.
pub(crate) fn role_name(role: Role, is_compared: bool) -> &'static str {
    match role {
        Role::Predicted if !is_compared => "simulated",
        role => role.name(),
    }
}

/// Returns the name of the figures that the cells of a table are compared with: `published`, `closed form`.
pub(crate) fn compared_name<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> &'static str {
    let mut names: Vec<&str> = cells.into_iter().filter_map(origin).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => "published",
        [only] => only,
        _ => "reference",
    }
}

/// Returns the name of the figure that a cell is compared with, if there is one.
fn origin(cell: &Cell) -> Option<&'static str> {
    let reference = cell.reference.as_ref().map(|found| found.kind.name());
    if cell.published.is_some() { Some("published") } else { reference }
}

/// Returns the number of decimals for one cell printed on its own.
pub(crate) fn decimals_of(cell: &Cell) -> usize {
    decimals(&[cell])
}

/// Minimum number of decimals beside references. Simulated figures may differ from references by less than a
/// percent.
const DECIMALS_OF_REFERENCES: usize = 3;

/// Returns the greatest number of decimals in the published figures of these cells. If none is published, returns the
/// number that shows three digits of the smallest simulated figure, at most 3, but at least [`DECIMALS_OF_REFERENCES`]
/// beside references.
fn decimals(cells: &[&Cell]) -> usize {
    let published = cells.iter().filter_map(|cell| match cell.published {
        Some(Published::Figure { mean, sd }) => {
            Some(number::decimals_written(mean).max(sd.map_or(0, number::decimals_written)))
        }
        // Three digits at least, so that 9.9 below 10 does not round to 10.
        Some(Published::Below { below }) => {
            Some(number::decimals_written(below).max(number::decimals_for(below, 3).min(3)))
        }
        _ => None,
    });
    published.max().unwrap_or_else(|| {
        let least = cells.iter().map(|cell| cell.simulated.mean.abs()).fold(f64::INFINITY, f64::min);
        let has_references = cells.iter().any(|cell| cell.reference.is_some());
        number::decimals_for(least, 3).min(3).max(if has_references { DECIMALS_OF_REFERENCES } else { 0 })
    })
}

/// Returns the name of a cell as experiments use it: `raw write 1M/kingston` or, with a row,
/// `read 1-block 30MHz 1bit/sandisk-2gb`.
pub(crate) fn name(cell: &Cell) -> String {
    let space = if cell.row.is_empty() { "" } else { " " };
    let slash = if cell.column.is_empty() { "" } else { "/" };
    format!("{}{space}{}{slash}{}", cell.table, cell.row, cell.column)
}

/// Returns the name of a cell within its table: its row and column, if it has them.
pub(crate) fn place(cell: &Cell) -> String {
    let words: Vec<&str> = [cell.row.as_str(), &cell.column].into_iter().filter(|w| !w.is_empty()).collect();
    if words.is_empty() { cell.table.clone() } else { words.join(" · ") }
}

/// Returns the bound on this cell: one that the cell misses if there is one, otherwise the first bound.
pub(crate) fn bound_of<'a>(results: &'a Results, cell: &Cell) -> Option<&'a Bound> {
    let name = name(cell);
    let of_cell = || results.bounds.iter().filter(|bound| bound.cells.contains(&name));
    of_cell().find(|bound| bound.missed.contains(&name)).or_else(|| of_cell().next())
}

/// Returns true if the cell misses a bound. A bound that other cells miss may also concern cells that meet
/// it.
pub(crate) fn is_missed(results: &Results, cell: &Cell) -> bool {
    let name = name(cell);
    results.bounds.iter().any(|bound| bound.missed.contains(&name))
}

/// Formats the worst value of a bound: an error with its sign and unit, or a count.
pub(crate) fn worst(bound: &Bound) -> String {
    match limit(bound) {
        Some((_, "%")) => number::signed_percent(bound.worst, 2),
        Some((_, unit @ "sd")) => number::with_unit(number::signed(bound.worst, 2), unit),
        _ => number::fixed(bound.worst, number::decimals_written(bound.worst).min(2)),
    }
}

/// Returns the number in a limit and its unit: `2 %` is 2 in `%`.
pub(crate) fn limit(bound: &Bound) -> Option<(f64, &str)> {
    let text = bound.limit.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

/// Returns a limit in percent of this cell's published figure, or `None` if it cannot be converted.
pub(crate) fn limit_percent(bound: &Bound, cell: &Cell) -> Option<f64> {
    match limit(bound)? {
        (value, "%") => Some(value),
        (value, "sd") => Some(value * sd_percent(cell)?),
        _ => None,
    }
}

/// Returns the published standard deviation in percent of the published mean.
pub(crate) fn sd_percent(cell: &Cell) -> Option<f64> {
    match cell.published {
        Some(Published::Figure { mean, sd: Some(sd) }) if mean != 0.0 => Some(100.0 * sd / mean.abs()),
        _ => None,
    }
}
