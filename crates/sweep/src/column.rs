//! Columns of a table of rows.

use crate::quantity;
use crate::row::{Cell, Row};
use std::borrow::Cow;

/// The figures that come first, in this order. The other figures follow in the order of their names.
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
    name: Cow<'a, str>,
    pub(crate) kind: Kind,
    cells: Vec<Option<Cow<'a, Cell>>>,
}

impl<'a> Column<'a> {
    fn new(name: impl Into<Cow<'a, str>>, cells: Vec<Option<Cow<'a, Cell>>>) -> Column<'a> {
        let all = |kind: fn(&Cell) -> bool| cells.iter().flatten().all(|cell| kind(cell));
        // A column without values counts as text. An example is the column of errors in a sweep without
        // errors.
        let is_empty = cells.iter().all(Option::is_none);
        let kind = if is_empty || !all(|cell| !matches!(cell, Cell::Text(_))) {
            Kind::Text
        } else if all(|cell| matches!(cell, Cell::Count(_))) {
            Kind::Count
        } else {
            Kind::Number
        };
        Column { name: name.into(), kind, cells }
    }

    /// Returns a column of whole numbers as counts, and any other column unchanged.
    fn whole(mut self) -> Column<'a> {
        let is_whole = |cell: &Cell| count(cell).is_some();
        if self.kind == Kind::Number && self.cells.iter().flatten().all(|cell| is_whole(cell)) {
            self.kind = Kind::Count;
        }
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Returns true if every value is a number, but the values are not counts.
    pub fn has_numbers(&self) -> bool {
        self.kind == Kind::Number
    }
    /// Returns true if every value is a count, or a whole number in a column of points.
    pub fn has_counts(&self) -> bool {
        self.kind == Kind::Count
    }
    /// Returns the numbers, one for each row.
    pub fn numbers(&self) -> impl Iterator<Item = Option<f64>> {
        self.cells.iter().map(|cell| match cell.as_deref() {
            Some(Cell::Number(number)) => Some(*number),
            Some(Cell::Count(count)) => Some(*count as f64),
            _ => None,
        })
    }
    /// Returns the counts, one for each row.
    pub fn counts(&self) -> impl Iterator<Item = Option<i64>> {
        self.cells.iter().map(|cell| cell.as_deref().and_then(count))
    }
    /// Returns the values as texts, one for each row.
    pub fn texts(&self) -> impl Iterator<Item = Option<String>> {
        self.cells.iter().map(|cell| {
            cell.as_deref().map(|cell| match cell {
                Cell::Number(number) => number.to_string(),
                Cell::Count(count) => count.to_string(),
                Cell::Text(text) => text.clone(),
            })
        })
    }
}

/// Returns the value of a cell with a whole number that a double represents exactly.
fn count(cell: &Cell) -> Option<i64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match cell {
        Cell::Count(count) => Some(*count),
        Cell::Number(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX => Some(*number as i64),
        _ => None,
    }
}

/// Returns the columns of `rows`. The first column contains `keys`. The columns of the points follow, then those of their
/// quantities in base units, then the figures.
pub fn columns<'a>(rows: &'a [Row], keys: &'a [Cell]) -> Vec<Column<'a>> {
    let mut columns = vec![Column::new("key", keys.iter().map(|key| Some(Cow::Borrowed(key))).collect())];
    let mut quantities = Vec::new();
    for name in point_names(rows) {
        let cell = |row: &'a Row| row.point.iter().find(|(known, _)| known == name).map(|(_, cell)| cell);
        let cells: Vec<Option<&Cell>> = rows.iter().map(cell).collect();
        quantities.extend(quantity::column(name, &cells).map(|(name, values)| {
            let cells = values.into_iter().map(|value| value.map(|value| Cow::Owned(Cell::Number(value))));
            Column::new(name, cells.collect()).whole()
        }));
        columns
            .push(Column::new(name, cells.into_iter().map(|cell| cell.map(Cow::Borrowed)).collect()).whole());
    }
    let mut names: Vec<&str> =
        rows.iter().flat_map(|row| row.figures.keys().map(String::as_str)).chain(["error"]).collect();
    columns.extend(quantities);
    let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    names.sort_by_key(|name| (rank(name), *name));
    names.dedup();
    let figure = |row: &'a Row, name: &str| row.figures.get(name).map(Cow::Borrowed);
    columns.extend(
        names.iter().map(|name| Column::new(*name, rows.iter().map(|row| figure(row, name)).collect())),
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
