//! An experiment as its folder describes it: `experiment.toml`.
//!
//! The kinds of experiment are code; an experiment of a kind is data. What a kind's file may hold beyond the common part is
//! told where the kind is: [`super::matrix`], [`super::sweep`], [`super::wear`], [`super::endurance`].

use super::error::ExperimentError;
use super::pattern::CellPattern;
use super::published::PublishedTables;
use crate::library::Folder;
use crate::profile::{Parameter, Source, SourceText, did_you_mean, suggest};
use crate::results::Role;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

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
    /// Runs of each step of a matrix.
    #[serde(default = "one")]
    pub runs: u32,
    /// Column names and the devices under them, in order.
    #[serde(default)]
    pub columns: toml::Table,
    /// Columns that are variants of the model, shown beside it; nothing published belongs to them.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Rows of a matrix: each a fresh device with keys of its own. None: one row without a name.
    #[serde(default, rename = "row")]
    pub rows: Vec<Row>,
    /// The range of a sweep.
    pub range: Option<Range>,
    /// What an endurance experiment runs and how long.
    pub endurance: Option<Endurance>,
    /// Jobs that are run first and not measured.
    #[serde(default)]
    pub preparation: Vec<Preparation>,
    /// What is measured.
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
    /// What must hold.
    #[serde(default, rename = "bound")]
    pub bounds: Vec<BoundDefinition>,
    /// Sources of the numbers that columns, rows and filesystems set by key, by the path of the number, as profiles have them
    /// in `[source]`; or `condition`, for what the publication states. A number that is not here counts as set by hand.
    #[serde(default)]
    pub sources: BTreeMap<String, Source>,
    /// What the model may cost.
    #[serde(default)]
    pub parameters: ParameterBudget,
}

fn one() -> u32 {
    1
}

/// The kinds of experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Steps by rows by columns: a table of figures.
    Matrix,
    /// Steps over a range: curves, one a column.
    Sweep,
    /// Steps of many iterations, and what they leave of the erase blocks.
    Wear,
    /// Days until the first erase block wears out, over seeds.
    Endurance,
}

impl Kind {
    /// As experiments write it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Matrix => "matrix",
            Kind::Sweep => "sweep",
            Kind::Wear => "wear",
            Kind::Endurance => "endurance",
        }
    }
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

/// What a sweep goes over.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The unit of its values, for people: `GiB`.
    pub unit: String,
    /// What stands for `{range}` in the jobs, ascending.
    pub values: Vec<u64>,
}

/// What an endurance experiment runs and how long.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endurance {
    /// An fio command line without `fio`: the workload, which repeats without end.
    pub job: String,
    /// Media that are drawn.
    pub seeds: u32,
    /// Wear counts as steady when an estimate differs from the one before, with twice the history, by at most so much.
    pub steady_percent: f64,
}

/// A job that puts a device into the state that the measurements found it in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preparation {
    /// An fio command line without `fio`.
    pub job: String,
}

/// One measurement, or one run of many iterations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The table that its cells belong to.
    pub table: String,
    /// What is shown, in a line; the table's name where not given.
    pub title: Option<String>,
    /// The unit of its figures, which says what is measured unless `metric` does.
    #[serde(default)]
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
    /// Jobs that are run before each point or iteration and not measured: fio command lines without `fio`.
    #[serde(default)]
    pub before: Vec<String>,
    /// A pause after them in which nothing is asked: `10s`.
    pub pause: Option<String>,
    /// Jobs of a wear step that are run once, first.
    #[serde(default)]
    pub preparation: Vec<Preparation>,
    /// How often a wear step runs its job.
    pub iterations: Option<u32>,
    /// The most points that a wear step's series have.
    pub points: Option<u32>,
    /// What is taken from a wear step.
    #[serde(default, rename = "measure")]
    pub measures: Vec<super::wear::Measure>,
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

/// A bound on cells: a limit, and what is held against it. See [`super::bounds`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundDefinition {
    /// What is bounded, in words.
    pub name: String,
    /// Patterns of `table row/column`.
    pub cells: Vec<CellPattern>,
    /// Of the matching cells, only those of this row and the ones after it.
    pub from: Option<String>,
    /// Largest error in percent of the published mean, or of `expected`.
    pub percent: Option<f64>,
    /// What `percent` counts from instead of the published mean: figures by row.
    pub expected: Option<toml::Table>,
    /// Largest error in published standard deviations.
    pub sd: Option<f64>,
    /// A table; each cell must be on the same side of its cell there as published.
    pub against: Option<String>,
    /// Cells of one table and row differ from column to column by at most so many percent.
    pub equal_percent: Option<f64>,
    /// Cells of one table and column differ from row to row by at most so many percent.
    pub flat_percent: Option<f64>,
    /// A row; what is bounded is a cell's ratio to the cell of this row.
    pub ratio_to: Option<String>,
    /// The row after which a curve falls most, relative to what it was.
    pub knee: Option<String>,
    /// The knee may lie so many rows away.
    #[serde(default)]
    pub rows_away: usize,
    /// The least: of a figure or a ratio; of columns that agree, with `against`.
    pub at_least: Option<f64>,
    /// The most: of a figure or a ratio.
    pub at_most: Option<f64>,
    /// A figure is below this.
    pub below: Option<f64>,
}

/// How many free parameters the experiment may cost.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterBudget {
    /// Fitted and chosen together.
    pub at_most: Option<usize>,
}

/// The units of throughput.
const THROUGHPUTS: [&str; 5] = ["IOPS", "kIOPS", "B/s", "KiB/s", "MiB/s"];

/// Reads both files of `folder` and checks them against each other.
pub(super) fn read(folder: &Folder) -> Result<(Definition, PublishedTables), ExperimentError> {
    let definition: Definition = parse(folder, "experiment.toml")?;
    let published: PublishedTables = parse(folder, "published.toml")?;
    published.check(folder, &definition)?;
    definition
        .check(&published)
        .map_err(|what| ExperimentError::Wrong { path: folder.path_of("experiment.toml"), what })?;
    Ok((definition, published))
}

impl Definition {
    /// Whether there is a column of this name.
    pub(super) fn has_column(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    fn check(&self, published: &PublishedTables) -> Result<(), String> {
        for (column, device) in &self.columns {
            if !device.is_str() {
                return Err(format!("column {column}: expected the name of a device in quotes"));
            }
        }
        if let Some(missing) = self.variants.iter().find(|v| !self.has_column(v)) {
            return Err(format!("variants names {missing}, which is no column"));
        }
        self.check_kind()?;
        for path in self.sources.keys() {
            self.check_source(path)?;
        }
        for step in &self.steps {
            self.check_step(step, published).map_err(|what| format!("step \"{}\"{what}", step.table))?;
        }
        for bound in &self.bounds {
            bound.check().map_err(|what| format!("bound \"{}\": {what}", bound.name))?;
        }
        if self.runs == 0 || self.columns.is_empty() {
            return Err("expected at least one run, one step and one column".into());
        }
        if self.steps.is_empty() != (self.kind == Kind::Endurance) {
            return Err(match self.kind {
                Kind::Endurance => "an experiment of kind \"endurance\" has no steps, but [endurance]".into(),
                _ => "expected at least one run, one step and one column".to_owned(),
            });
        }
        Ok(())
    }

    /// Refuses a source that no number of the experiment can have.
    fn check_source(&self, path: &str) -> Result<(), String> {
        let Some(parameter) = Parameter::at(path) else {
            let nearest = suggest(path, Parameter::all().iter().map(|p| p.path));
            return Err(format!("[sources]: there is no number {path}{}", did_you_mean(nearest)));
        };
        let columns = self.columns.values().filter_map(|device| device.as_str()?.split_once(':'));
        let filesystems = self.steps.iter().filter_map(|step| step.filesystem.as_ref()?.split_once(':'));
        let keys = columns.chain(filesystems).map(|(_, keys)| keys);
        let mut keys = keys.chain(self.rows.iter().map(|row| row.keys.as_str())).flat_map(|k| k.split(','));
        let sets = |key: &str| {
            let name = key.split_once('=').map_or(key, |(name, _)| name);
            name == parameter.path || name == parameter.key()
        };
        if keys.any(sets) {
            return Ok(());
        }
        Err(format!("[sources] names {path}, which no column, row or filesystem sets"))
    }

    /// What only one kind has is there and nowhere else.
    fn check_kind(&self) -> Result<(), String> {
        let kind = self.kind.name();
        let only = |there: bool, what: &str, of: Kind| match (there, self.kind == of) {
            (true, false) => Err(format!("{what} belongs to kind \"{}\", not to \"{kind}\"", of.name())),
            (false, true) => Err(format!("kind \"{kind}\" needs {what}")),
            _ => Ok(()),
        };
        only(self.range.is_some(), "[range]", Kind::Sweep)?;
        only(self.endurance.is_some(), "[endurance]", Kind::Endurance)?;
        if !self.rows.is_empty() && self.kind != Kind::Matrix {
            return Err("[[row]] belongs to kind \"matrix\"".into());
        }
        if !self.variants.is_empty() && self.kind != Kind::Sweep {
            return Err(format!("variants belongs to kind \"sweep\", not to \"{kind}\""));
        }
        if self.runs != 1 && self.kind != Kind::Matrix {
            return Err(format!("runs belongs to kind \"matrix\", not to \"{kind}\""));
        }
        let unordered = |range: &Range| range.values.is_empty() || !range.values.is_sorted_by(|a, b| a < b);
        if self.range.as_ref().is_some_and(unordered) {
            return Err("[range]: expected values in ascending order".into());
        }
        let wrong = |endurance: &Endurance| {
            endurance.seeds == 0 || !(0.01..=50.0).contains(&endurance.steady_percent)
        };
        if self.endurance.as_ref().is_some_and(wrong) {
            return Err("[endurance]: expected at least one seed, and steady_percent from 0.01 to 50".into());
        }
        for step in &self.steps {
            let of_wear =
                [step.iterations.is_some(), !step.measures.is_empty(), !step.preparation.is_empty()];
            let of_wear = of_wear.contains(&true) || step.points.is_some();
            if of_wear && self.kind != Kind::Wear {
                return Err(format!(
                    "step \"{}\": iterations, points, measure and a preparation of its own belong to kind \"wear\"",
                    step.table
                ));
            }
            if step.filesystem.is_some() && self.kind != Kind::Matrix {
                return Err(format!("step \"{}\": filesystem belongs to kind \"matrix\"", step.table));
            }
            if self.kind == Kind::Matrix && (!step.before.is_empty() || step.pause.is_some()) {
                return Err(format!(
                    "step \"{}\": before and pause belong to kinds \"sweep\" and \"wear\"",
                    step.table
                ));
            }
        }
        Ok(())
    }

    /// What is wrong with a step, to be said behind its name.
    fn check_step(&self, step: &Step, published: &PublishedTables) -> Result<(), String> {
        if self.kind == Kind::Wear {
            step.check_measures(published)?;
        } else {
            if step.metric == Metric::Throughput && !THROUGHPUTS.contains(&step.unit.as_str()) {
                return Err(format!(": the unit is {}; expected {}", step.unit, THROUGHPUTS.join(", ")));
            }
            let unit = published.tables.iter().find(|t| t.name == step.table).map(|t| &t.unit);
            if let Some(unit) = unit.filter(|unit| **unit != step.unit) {
                return Err(format!(" is in {}, the published table in {unit}", step.unit));
            }
        }
        let column = step.columns.iter().flatten().find(|c| !self.has_column(c));
        let row = step.rows.iter().flatten().find(|r| !self.rows.iter().any(|d| d.name == **r));
        match column.or(row) {
            Some(missing) => Err(format!(" names {missing}, which is no column or row")),
            None => Ok(()),
        }
    }
}

impl Step {
    /// Whether it is run on this column.
    pub(super) fn is_on(&self, column: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(|c| c == column))
    }
}

pub(super) fn parse<T: DeserializeOwned>(folder: &Folder, file: &str) -> Result<T, ExperimentError> {
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
