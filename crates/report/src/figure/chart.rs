//! Assigns cells to charts: the tables of one pattern side by side (raw next to vfat), or one table by its rows. A
//! table with more columns than there are colours has a chart for each row, whose bars carry the names of the columns.

use crate::grid::{self, Table};
use flashlab_lab::results::{Cell, Results};

/// The cells of one chart, grouped.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) title: String,
    /// The names of the tables in the chart.
    pub(crate) tables: Vec<&'a str>,
    /// The row of the table that the chart shows; `None` for all rows.
    pub(crate) row: Option<&'a str>,
    pub(crate) unit: &'a str,
    /// The names of the bars in a group: `raw` and `vfat`, or the cards; one empty name if a group has only one bar.
    pub(crate) series: Vec<&'a str>,
    pub(crate) groups: Vec<Group<'a>>,
    /// The conversion from another unit to the unit of the chart.
    pub(crate) conversion: Option<String>,
}

impl Chart<'_> {
    /// Returns true if any bar has a figure to compare it with.
    pub(crate) fn is_compared(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.bars).any(|bar| grid::is_compared(bar.cell))
    }
}

/// A group of bars.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) label: &'a str,
    pub(crate) bars: Vec<Bar<'a>>,
}

/// A cell in a chart.
#[derive(Debug)]
pub(crate) struct Bar<'a> {
    pub(crate) series: usize,
    pub(crate) cell: &'a Cell,
    /// Factor that converts the figures of the cell to the unit of the chart.
    pub(crate) factor: f64,
}

/// Returns the charts of all cells of `results`, except for the points of curves. Each cell is in one chart.
pub(crate) fn charts(results: &Results) -> Vec<Chart<'_>> {
    let mut tables = grid::tables(results);
    tables.retain(|table| !grid::is_curve(results, table.name));
    let mut taken = vec![false; tables.len()];
    let mut charts = vec![];
    for first in 0..tables.len() {
        if taken[first] {
            continue;
        }
        let mut together = vec![first];
        for i in first + 1..tables.len() {
            if !taken[i] && together.iter().all(|&other| is_pair(&tables[other], &tables[i])) {
                together.push(i);
            }
        }
        for &i in &together {
            taken[i] = true;
        }
        let together: Vec<&Table<'_>> = together.iter().map(|&i| &tables[i]).collect();
        match together.as_slice() {
            [table] => charts.extend(alone(table)),
            tables => charts.push(side_by_side(tables)),
        }
    }
    let titles: Vec<String> = charts.iter().map(|chart| chart.title.clone()).collect();
    for chart in &mut charts {
        if titles.iter().filter(|title| **title == chart.title).count() > 1 {
            chart.title = match chart.groups.as_slice() {
                [only] if !only.label.is_empty() => format!("{}: {}", chart.title, only.label),
                _ => format!("{}, {}", chart.title, chart.unit),
            };
        }
    }
    charts
}

/// Returns true for two tables without rows whose names are different targets and the same pattern, with comparable
/// units. A first word with a comma is the name of a job, not a target.
fn is_pair(a: &Table<'_>, b: &Table<'_>) -> bool {
    !a.has_rows()
        && !b.has_rows()
        && match (a.name.split_once(' '), b.name.split_once(' ')) {
            (Some((first, pattern)), Some((other, same))) => {
                pattern == same && first != other && !first.ends_with(',') && is_pattern(pattern)
            }
            _ => false,
        }
        && factor(a, b.unit).or(factor(b, a.unit)).is_some()
}

fn side_by_side<'a>(tables: &[&Table<'a>]) -> Chart<'a> {
    let pattern = tables[0].name.split_once(' ').map_or(tables[0].name, |(_, pattern)| pattern);
    // Requests per second can be converted to bytes per second. The reverse would state requests that nobody made.
    let unit = tables.iter().map(|t| t.unit).find(|unit| *unit != "IOPS").unwrap_or("IOPS");
    let mut groups: Vec<Group<'a>> = vec![];
    let mut conversion = None;
    for (series, table) in tables.iter().enumerate() {
        let factor = factor(table, unit).unwrap_or(1.0);
        if table.unit != unit {
            let target = table.name.split(' ').next().unwrap_or_default();
            conversion = Some(format!("{target}: 1 {} is {factor} {unit}", table.unit));
        }
        for &cell in &table.cells {
            let bar = Bar { series, cell, factor };
            match groups.iter_mut().find(|group| group.label == cell.column) {
                Some(group) => group.bars.push(bar),
                None => groups.push(Group { label: &cell.column, bars: vec![bar] }),
            }
        }
    }
    Chart {
        title: pattern_title(pattern),
        tables: tables.iter().map(|t| t.name).collect(),
        row: None,
        unit,
        series: tables.iter().map(|t| t.name.split(' ').next().unwrap_or(t.name)).collect(),
        groups,
        conversion,
    }
}

/// Returns the charts of a table that is shown alone.
fn alone<'a>(table: &Table<'a>) -> Vec<Chart<'a>> {
    if !table.has_rows() || table.columns.len() <= super::SERIES {
        return vec![whole(table)];
    }
    let of_row = |row: &&'a str| {
        let cells = table.cells.iter().filter(|cell| cell.row == *row);
        let bar = |cell: &'a Cell| vec![Bar { series: 0, cell, factor: 1.0 }];
        Chart {
            title: format!("{}, {row}", pattern_title(table.name)),
            tables: vec![table.name],
            row: Some(row),
            unit: table.unit,
            series: vec![""],
            groups: cells.map(|cell| Group { label: &cell.column, bars: bar(cell) }).collect(),
            conversion: None,
        }
    };
    table.rows.iter().map(of_row).collect()
}

/// Returns the chart of all rows of a table.
fn whole<'a>(table: &Table<'a>) -> Chart<'a> {
    let by_row = table.has_rows();
    let mut groups: Vec<Group<'a>> = vec![];
    for &cell in &table.cells {
        let label = if by_row { &cell.row } else { &cell.column };
        let series =
            if by_row { table.columns.iter().position(|c| *c == cell.column).unwrap_or(0) } else { 0 };
        let bar = Bar { series, cell, factor: 1.0 };
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group { label, bars: vec![bar] }),
        }
    }
    Chart {
        title: pattern_title(table.name),
        tables: vec![table.name],
        row: None,
        unit: table.unit,
        series: if by_row { table.columns.clone() } else { vec![""] },
        groups,
        conversion: None,
    }
}

/// Returns the factor that converts the table's figures to `unit`.
fn factor(table: &Table<'_>, unit: &str) -> Option<f64> {
    if table.unit == unit {
        return Some(1.0);
    }
    let bytes = match unit {
        "B/s" => 1.0,
        "KiB/s" => 1024.0,
        "MiB/s" => 1_048_576.0,
        _ => return None,
    };
    let request = request_bytes(table.name.rsplit(' ').next()?)?;
    (table.unit == "IOPS").then_some(request / bytes)
}

/// Parses a request size as fio does: `4K` is 4096.
fn request_bytes(word: &str) -> Option<f64> {
    let digits = word.trim_end_matches(['K', 'M']);
    let value: u32 = digits.parse().ok()?;
    match &word[digits.len()..] {
        "" => Some(f64::from(value)),
        "K" => Some(f64::from(value) * 1024.0),
        "M" => Some(f64::from(value) * 1_048_576.0),
        _ => None,
    }
}

/// Returns true for a fio pattern: `randwrite` or `randwrite 4K`.
fn is_pattern(text: &str) -> bool {
    pattern_title(text) != text
}

/// Returns `Random write, 4 KiB` for `randwrite 4K`. Returns text that is not a fio pattern with its size unchanged.
pub(crate) fn pattern_title(pattern: &str) -> String {
    let (rw, size) = pattern.split_once(' ').unwrap_or((pattern, ""));
    let words = match rw {
        "read" => "Sequential read",
        "write" => "Sequential write",
        "randread" => "Random read",
        "randwrite" => "Random write",
        _ => return pattern.into(),
    };
    match (size, size.trim_end_matches(['K', 'M'])) {
        ("", _) => words.into(),
        (size, number) if request_bytes(size).is_some() && number.len() + 1 == size.len() => {
            format!("{words}, {number} {}iB", &size[number.len()..])
        }
        _ => pattern.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the titles of the charts of tables with one cell each, given by name and unit.
    fn titles(tables: &[(&str, &str)]) -> Vec<String> {
        let cell = |(table, unit): &(&str, &str)| Cell {
            table: (*table).into(),
            unit: (*unit).into(),
            ..crate::explain::tests::cell(&[])
        };
        let results = Results { cells: tables.iter().map(cell).collect(), ..Results::default() };
        charts(&results).into_iter().map(|chart| chart.title).collect()
    }

    #[test]
    fn tables_of_jobs_are_not_joined_by_their_direction() {
        assert_eq!(titles(&[("seq, read", "IOPS"), ("rand, read", "IOPS")]), ["seq, read", "rand, read"]);
        let spaced = [("my seq, read", "IOPS"), ("a seq, read", "IOPS")];
        assert_eq!(titles(&spaced), ["my seq, read", "a seq, read"]);
        assert_eq!(titles(&[("raw read 4K", "IOPS"), ("vfat read 4K", "IOPS")]), ["Sequential read, 4 KiB"]);
    }

    #[test]
    fn all_tables_of_a_chart_have_comparable_units() {
        let tables = [("raw read 4K", "IOPS"), ("vfat read 4K", "MiB/s"), ("ext4 read 4K", "KiB/s")];
        assert_eq!(titles(&tables).len(), 2, "MiB/s and KiB/s are apart");
    }

    #[test]
    fn known_patterns_have_titles_in_words() {
        assert_eq!(pattern_title("randwrite 4K"), "Random write, 4 KiB");
        assert_eq!(pattern_title("read"), "Sequential read");
        assert_eq!(pattern_title("read of <x>"), "read of <x>");
        assert_eq!(pattern_title("interrupts"), "interrupts");
        assert_eq!(pattern_title("read K"), "read K");
    }
}
