//! An experiment as its folder describes it: `experiment.toml` and the published figures beside it.
//!
//! The kinds of experiment are code; an experiment of a kind is data.

use super::error::ExperimentError;
use super::pattern::CellPattern;
use crate::library::Folder;
use crate::profile::SourceText;
use crate::results::{Published, Role};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// `experiment.toml`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What is compared with what, in a line.
    pub title: String,
    /// How it is run.
    pub kind: Kind,
    /// Where the published figures come from.
    pub source: String,
    /// Runs of each step.
    pub runs: u32,
    /// Column names and the devices under them, in order.
    pub columns: toml::Table,
    /// Rows: each a fresh device with keys of its own. None: one row without a name.
    #[serde(default, rename = "row")]
    pub rows: Vec<Row>,
    /// Jobs that are run first and not measured.
    #[serde(default)]
    pub preparation: Vec<Preparation>,
    /// What is measured, in this order, each step on the state that the one before left.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
    /// What must hold.
    #[serde(default, rename = "bound")]
    pub bounds: Vec<BoundDefinition>,
    /// What the model may cost.
    #[serde(default)]
    pub parameters: ParameterBudget,
}

/// The kinds of experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Steps by rows by columns: a table of figures.
    Matrix,
}

/// A variant of every device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name in results; may be empty.
    pub name: String,
    /// `key=value,...`, added to the device's name.
    #[serde(default)]
    pub keys: String,
}

/// A job that puts a device into the state that the measurements found it in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preparation {
    /// An fio command line without `fio`.
    pub job: String,
}

/// One measurement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The table that its cells belong to.
    pub table: String,
    /// The unit of its figures, which says what is measured unless `metric` does.
    pub unit: String,
    /// What is measured.
    #[serde(default)]
    pub metric: Metric,
    /// The filesystem between job and device: `vfat`. The first step that names one formats the device.
    pub filesystem: Option<String>,
    /// An fio command line without `fio`.
    pub job: String,
    /// `assumed` where the cells rest on something that the source does not say.
    pub role: Option<RoleDefinition>,
    /// The columns it is run on; all where not given.
    pub columns: Option<Vec<String>>,
    /// The rows it is run in; all where not given.
    pub rows: Option<Vec<String>>,
}

/// What a step measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Requests or bytes a second, as the unit says.
    #[default]
    Throughput,
    /// Commands that the host sent to the card.
    Commands,
    /// Bytes that a command carried, in the mean.
    BytesACommand,
}

/// The only role that an experiment itself can give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleDefinition {
    /// See [`Role::Assumed`].
    Assumed,
}

impl From<RoleDefinition> for Role {
    fn from(role: RoleDefinition) -> Role {
        match role {
            RoleDefinition::Assumed => Role::Assumed,
        }
    }
}

/// A bound on cells: exactly one of `percent`, `sd` and `against`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundDefinition {
    /// What is bounded, in words.
    pub name: String,
    /// Patterns of `table row/column`.
    pub cells: Vec<CellPattern>,
    /// Largest error in percent of the published mean.
    pub percent: Option<f64>,
    /// Largest error in published standard deviations.
    pub sd: Option<f64>,
    /// A table; each cell must be on the same side of its cell there as published.
    pub against: Option<String>,
    /// In so many columns at least.
    pub at_least: Option<usize>,
}

/// How many free parameters the experiment may cost.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterBudget {
    /// Fitted and chosen together.
    pub at_most: Option<usize>,
}

/// `published.toml`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedTables {
    /// One a table and row.
    #[serde(rename = "table")]
    pub(super) tables: Vec<PublishedTable>,
}

/// A row of a published table: a figure a column.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PublishedTable {
    /// The table.
    pub(super) name: String,
    /// The row; empty where there is one.
    #[serde(default)]
    pub(super) row: String,
    /// The unit of its figures.
    pub(super) unit: String,
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
    /// The figure of a cell and the unit it is in.
    pub(super) fn cell(&self, table: &str, row: &str, column: &str) -> Option<(Published, &str)> {
        let table = self.tables.iter().find(|t| t.name == table && t.row == row)?;
        Some((figure(table.columns.get(column)?)?, &table.unit))
    }
}

fn figure(value: &toml::Value) -> Option<Published> {
    let PublishedFigure { mean, sd, below, text } = value.clone().try_into().ok()?;
    if [mean, sd, below].into_iter().flatten().any(|number| !number.is_finite()) {
        return None;
    }
    match (mean, sd, below, text) {
        (Some(mean), sd, None, None) => Some(Published::Figure { mean, sd }),
        (None, None, Some(below), None) => Some(Published::Below { below }),
        (None, None, None, Some(text)) => Some(Published::Text { text }),
        _ => None,
    }
}

/// The units of throughput.
const THROUGHPUTS: [&str; 4] = ["IOPS", "B/s", "KiB/s", "MiB/s"];

/// Reads both files of `folder` and checks them against each other.
pub(super) fn read(folder: &Folder) -> Result<(Definition, PublishedTables), ExperimentError> {
    let definition: Definition = parse(folder, "experiment.toml")?;
    let published: PublishedTables = parse(folder, "published.toml")?;
    let wrong = |file: &str, what: String| ExperimentError::Wrong { path: folder.path_of(file), what };
    for table in &published.tables {
        for (column, value) in &table.columns {
            if !definition.columns.contains_key(column) {
                let what = format!("table \"{}\": the experiment has no column {column}", table.name);
                return Err(wrong("published.toml", what));
            }
            if figure(value).is_none() {
                let what = format!(
                    "table \"{}\", {column}: expected {{ mean, sd }}, {{ mean }}, {{ below }} or {{ text }}",
                    table.name
                );
                return Err(wrong("published.toml", what));
            }
        }
    }
    let wrong = |what: String| wrong("experiment.toml", what);
    for step in &definition.steps {
        if step.metric == Metric::Throughput && !THROUGHPUTS.contains(&step.unit.as_str()) {
            let what = format!(
                "step \"{}\": the unit is {}; expected {}",
                step.table,
                step.unit,
                THROUGHPUTS.join(", ")
            );
            return Err(wrong(what));
        }
        let unit = published.tables.iter().find(|t| t.name == step.table).map(|t| &t.unit);
        if unit.is_some_and(|unit| *unit != step.unit) {
            return Err(wrong(format!(
                "step \"{}\" is in {}, the published table in {}",
                step.table,
                step.unit,
                unit.unwrap_or(&step.unit)
            )));
        }
        let column = step.columns.iter().flatten().find(|c| !definition.columns.contains_key(*c));
        let row = step.rows.iter().flatten().find(|r| !definition.rows.iter().any(|d| d.name == **r));
        if let Some(missing) = column.or(row) {
            return Err(wrong(format!("step \"{}\" names {missing}, which is no column or row", step.table)));
        }
    }
    for (column, device) in &definition.columns {
        if !device.is_str() {
            return Err(wrong(format!("column {column}: expected the name of a device in quotes")));
        }
    }
    for bound in &definition.bounds {
        let kinds = [bound.percent.is_some(), bound.sd.is_some(), bound.against.is_some()];
        if kinds.iter().filter(|given| **given).count() != 1
            || bound.against.is_some() != bound.at_least.is_some()
        {
            let what = format!("bound \"{}\": expected percent, or sd, or against with at_least", bound.name);
            return Err(wrong(what));
        }
    }
    if definition.runs == 0 || definition.steps.is_empty() || definition.columns.is_empty() {
        return Err(wrong("expected at least one run, one step and one column".into()));
    }
    Ok((definition, published))
}

fn parse<T: DeserializeOwned>(folder: &Folder, file: &str) -> Result<T, ExperimentError> {
    let wrong = |what: String| ExperimentError::Wrong { path: folder.path_of(file), what };
    let bytes = folder.file(file).ok_or_else(|| wrong("the file is missing".into()))?;
    let text = std::str::from_utf8(bytes).map_err(|error| {
        wrong(format!("byte {} is not UTF-8; it should be a text", error.valid_up_to() + 1))
    })?;
    toml::from_str(text).map_err(|error| {
        let text = SourceText::new(folder.path_of(file), text);
        let place = text.place(error.span().unwrap_or(0..0));
        let what = format!("{}\n{}", error.message(), place.picture());
        ExperimentError::Wrong { path: place.to_string(), what }
    })
}
