//! Columns of a table of rows.

use crate::row::{Cell, Row};

/// The figures that come first, in this order; the others follow by name.
const FIRST: [&str; 13] = [
    "error",
    "requests",
    "bytes",
    "runtime_ms",
    "iops",
    "bytes_per_second",
    "latency_ns_mean",
    "latency_ns_p50",
    "latency_ns_p90",
    "latency_ns_p99",
    "latency_ns_p99_9",
    "latency_ns_max",
    "write_amplification",
];

/// Type of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Count,
    Text,
}

/// A column: its name, its type, and a cell for each row.
pub struct Column<'a> {
    name: &'a str,
    pub(crate) kind: Kind,
    cells: Vec<Option<&'a Cell>>,
}

impl<'a> Column<'a> {
    fn new(name: &'a str, cells: Vec<Option<&'a Cell>>) -> Column<'a> {
        let all = |kind: fn(&Cell) -> bool| cells.iter().flatten().all(|cell| kind(cell));
        let kind = if all(|cell| matches!(cell, Cell::Number(_))) {
            Kind::Number
        } else if all(|cell| matches!(cell, Cell::Count(_))) {
            Kind::Count
        } else {
            Kind::Text
        };
        // A column without values contains text, such as the errors of a sweep without errors.
        let is_empty = cells.iter().all(Option::is_none);
        Column { name, kind: if is_empty { Kind::Text } else { kind }, cells }
    }

    /// Returns the name.
    pub fn name(&self) -> &'a str {
        self.name
    }
    /// Returns true if every value is a number.
    pub fn has_numbers(&self) -> bool {
        self.kind == Kind::Number
    }
    /// Returns true if every value is a count.
    pub fn has_counts(&self) -> bool {
        self.kind == Kind::Count
    }
    /// Returns the numbers, one for each row.
    pub fn numbers(&self) -> impl Iterator<Item = Option<f64>> {
        self.cells.iter().map(|cell| match cell {
            Some(Cell::Number(number)) => Some(*number),
            _ => None,
        })
    }
    /// Returns the counts, one for each row.
    pub fn counts(&self) -> impl Iterator<Item = Option<i64>> {
        self.cells.iter().map(|cell| match cell {
            Some(Cell::Count(count)) => Some(*count),
            _ => None,
        })
    }
    /// Returns the values as texts, one for each row.
    pub fn texts(&self) -> impl Iterator<Item = Option<String>> {
        self.cells.iter().map(|cell| {
            cell.map(|cell| match cell {
                Cell::Number(number) => number.to_string(),
                Cell::Count(count) => count.to_string(),
                Cell::Text(text) => text.clone(),
            })
        })
    }
}

/// Returns the columns of `rows`. The first column contains `keys`.
pub fn columns<'a>(rows: &'a [Row], keys: &'a [Cell]) -> Vec<Column<'a>> {
    let mut columns = vec![Column::new("key", keys.iter().map(Some).collect())];
    for name in point_names(rows) {
        let cell = |row: &'a Row| row.point.iter().find(|(known, _)| known == name).map(|(_, cell)| cell);
        columns.push(Column::new(name, rows.iter().map(cell).collect()));
    }
    let mut names: Vec<&str> =
        rows.iter().flat_map(|row| row.figures.keys().map(String::as_str)).chain(["error"]).collect();
    let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    names.sort_by_key(|name| (rank(name), *name));
    names.dedup();
    columns.extend(
        names.iter().map(|name| Column::new(name, rows.iter().map(|row| row.figures.get(*name)).collect())),
    );
    columns
}

/// Returns the names of all points, in the order in which they first appear.
pub(crate) fn point_names(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.point) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}
