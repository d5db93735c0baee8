//! Names of cells, and patterns for these names: `raw write 1M/kingston`, `read * 30MHz 1bit/*`.

use serde::Deserialize;

/// A pattern for names of cells. `*` stands for any characters.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(transparent)]
pub struct CellPattern(String);

impl CellPattern {
    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the pattern matches the name of a cell.
    pub fn matches(&self, cell: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = cell.strip_prefix(first) else { return false };
        let parts: Vec<&str> = parts.collect();
        for (i, part) in parts.iter().enumerate() {
            if i + 1 == parts.len() {
                return rest.ends_with(part);
            }
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.is_empty()
    }
}

/// Returns the name of a cell: `table row/column`, or `table/column` if the row has no name.
pub fn cell_name(table: &str, row: &str, column: &str) -> String {
    let space = if row.is_empty() { "" } else { " " };
    format!("{table}{space}{row}/{column}")
}

/// Separator between an experiment and a column in the name of a cell that a fit writes into the source of a number.
pub(super) const OF_EXPERIMENT: char = ':';

/// Returns true if `fitted_on`, a cell in the source of a number, is the cell `cell`. If a fit starts from a
/// profile other than that of the column, the name contains the experiment too:
/// `raw write 1M/sd-cards:kingston`.
pub(super) fn is_fitted_cell(fitted_on: &str, cell: &str) -> bool {
    let Some((table, column)) = fitted_on.rsplit_once('/') else { return false };
    let column = column.rsplit_once(OF_EXPERIMENT).map_or(column, |(_, column)| column);
    cell.rsplit_once('/') == Some((table, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_may_name_the_experiment_of_its_column() {
        assert!(is_fitted_cell("raw write 1M/kingston", "raw write 1M/kingston"));
        assert!(is_fitted_cell("raw write 1M/sd-cards:kingston", "raw write 1M/kingston"));
        assert!(!is_fitted_cell("raw write 1M/sd-cards:sandisk", "raw write 1M/kingston"));
        assert!(!is_fitted_cell("raw write 4K/sd-cards:kingston", "raw write 1M/kingston"));
        assert!(!is_fitted_cell("kingston", "kingston"));
    }

    #[test]
    fn a_star_stands_for_any_characters_and_nothing_else_does() {
        let matches = |pattern: &str, cell| CellPattern(pattern.into()).matches(cell);
        assert!(matches("raw write 1M/*", "raw write 1M/kingston"));
        assert!(!matches("raw write 1M/*", "vfat write 1M/kingston"));
        assert!(matches("read * 30MHz 1bit/*", "read 64-block 30MHz 1bit/sandisk-2gb"));
        assert!(!matches("read * 30MHz 1bit/*", "read 64-block 15MHz 4bit/sandisk-2gb"));
        assert!(matches("a/b", "a/b") && !matches("a/b", "a/bc"));
        assert!(matches("*", ""));
        assert_eq!(cell_name("read", "1-block", "x"), "read 1-block/x");
        assert_eq!(cell_name("raw write 1M", "", "x"), "raw write 1M/x");
    }
}
