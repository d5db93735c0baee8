//! The published figures of an experiment, from `published.toml`.

use super::definition::Definition;
use super::error::ExperimentError;
use crate::results::Published;
use flashlab_catalogue::library::Folder;
use serde::Deserialize;

/// The content of `published.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedTables {
    /// One entry per table and row.
    #[serde(default, rename = "table")]
    pub(super) tables: Vec<PublishedTable>,
    /// Verbal descriptions of curves for which no figures are published.
    #[serde(default, rename = "shape")]
    pub(super) shapes: Vec<Shape>,
}

/// A verbal description of a table's curves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shape {
    /// Name of the table.
    pub(super) table: String,
    /// The description.
    pub(super) text: String,
}

/// A row of a published table, with one figure per column.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PublishedTable {
    /// Name of the table.
    pub(super) name: String,
    /// Name of the row; empty if the table has only one row.
    #[serde(default)]
    pub(super) row: String,
    /// Unit of the figures.
    pub(super) unit: String,
    /// The publication, if the figures come from a simulation and were not measured on hardware.
    pub(super) simulation: Option<String>,
    /// The figures by column.
    #[serde(flatten)]
    pub(super) columns: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedFigure {
    mean: Option<f64>,
    sd: Option<f64>,
    below: Option<f64>,
    text: Option<String>,
}

impl PublishedTables {
    /// Returns the published figure of a cell and its unit.
    pub(super) fn cell(&self, table: &str, row: &str, column: &str) -> Option<(Published, &str)> {
        let table = self.tables.iter().find(|t| t.name == table && t.row == row && t.simulation.is_none())?;
        Some((figure(table.columns.get(column)?)?, &table.unit))
    }

    /// Returns the mean of a cell in a published simulation, and the publication.
    pub(super) fn simulated(&self, table: &str, row: &str, column: &str) -> Option<(f64, &str)> {
        let table = self.tables.iter().find(|t| t.name == table && t.row == row && t.simulation.is_some())?;
        match figure(table.columns.get(column)?)? {
            Published::Figure { mean, .. } => Some((mean, table.simulation.as_deref()?)),
            _ => None,
        }
    }
}

fn figure(value: &toml::Value) -> Option<Published> {
    let PublishedFigure { mean, sd, below, text } = value.clone().try_into().ok()?;
    // No published quantity is negative.
    if [mean, sd, below].into_iter().flatten().any(|number| !number.is_finite() || number < 0.0) {
        return None;
    }
    match (mean, sd, below, text) {
        (Some(mean), sd, None, None) => Some(Published::Figure { mean, sd }),
        (None, None, Some(below), None) => Some(Published::Below { below }),
        (None, None, None, Some(text)) => Some(Published::Text { text }),
        _ => None,
    }
}

impl PublishedTables {
    /// Rejects invalid figures, duplicate rows, and tables, rows, columns and shapes that the experiment does
    /// not have.
    pub(super) fn check(&self, folder: &Folder, definition: &Definition) -> Result<(), ExperimentError> {
        let wrong = |what: String| ExperimentError::Wrong { path: folder.path_of("published.toml"), what };
        for table in &self.tables {
            for (column, value) in &table.columns {
                if !definition.has_column(column) {
                    let what = format!("table \"{}\": the experiment has no column {column}", table.name);
                    return Err(wrong(what));
                }
                if figure(value).is_none() {
                    let number = value.as_float().or(value.as_integer().map(|number| number as f64));
                    let example = number.filter(|number| *number >= 0.0).map_or(String::new(), |number| {
                        format!(", for example {column} = {{ mean = {number} }}")
                    });
                    let what = format!(
                        "table \"{}\", {column}: expected {{ mean, sd }}, {{ mean }}, {{ below }} or {{ text \
                         }}{example}; no number is below 0",
                        table.name
                    );
                    return Err(wrong(what));
                }
            }
            let is_row = |row: &super::definition::Row| row.name == table.row;
            if !definition.rows.is_empty() && !definition.rows.iter().any(is_row) {
                let what = format!("table \"{}\": the experiment has no row \"{}\"", table.name, table.row);
                return Err(wrong(what));
            }
            let is_same = |other: &&PublishedTable| {
                (&other.name, &other.row, other.simulation.is_some())
                    == (&table.name, &table.row, table.simulation.is_some())
            };
            if self.tables.iter().filter(is_same).count() > 1 {
                let of_row =
                    if table.row.is_empty() { String::new() } else { format!(", row \"{}\"", table.row) };
                return Err(wrong(format!("table \"{}\"{of_row} occurs twice", table.name)));
            }
            if !definition.steps.is_empty() && !definition.steps.iter().any(|step| step.table == table.name) {
                return Err(wrong(format!(
                    "table \"{}\": the experiment has no step of that name",
                    table.name
                )));
            }
        }
        match self.shapes.iter().find(|shape| !definition.steps.iter().any(|step| step.table == shape.table))
        {
            Some(shape) => {
                Err(wrong(format!("shape of \"{}\": the experiment has no step of that name", shape.table)))
            }
            None => Ok(()),
        }
    }
}
