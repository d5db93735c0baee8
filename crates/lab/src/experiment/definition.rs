//! The definition of an experiment, from `experiment.toml`.
//!
//! Each kind of experiment is a module of code; each experiment of a kind is data. The modules of the kinds document
//! the keys beyond the common ones: [`super::matrix`], [`super::sweep`], [`super::wear`], [`super::endurance`],
//! [`super::gc`], [`super::recorded`], [`super::rootfs`], [`super::volume`], [`super::tiering`].

use super::error::ExperimentError;
use super::names::CellPlace;
use super::pattern::CellPattern;
use super::published::PublishedTables;
use crate::results::Role;
use flashlab_catalogue::library::Folder;
use flashlab_catalogue::profile::{Parameter, Source, SourceText, did_you_mean, suggest};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The content of `experiment.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The subject of the comparison, in one line.
    pub title: String,
    /// The kind of the experiment.
    pub kind: Kind,
    /// Origin of the published figures.
    pub source: String,
    /// Number of runs of each step of a matrix.
    #[serde(default = "one")]
    pub runs: u32,
    /// The columns in order, each with the device that it shows, or with the policy in kind [`Kind::Gc`].
    #[serde(default)]
    pub columns: toml::Table,
    /// Columns that show variants of the model for comparison. No published figures belong to them.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Rows of a matrix. Each row is a new device with additional keys. Without rows, the matrix has one row without a
    /// name.
    #[serde(default, rename = "row")]
    pub rows: Vec<Row>,
    /// The range of a sweep.
    pub range: Option<Range>,
    /// Workload, number of media and steadiness of an endurance experiment.
    pub endurance: Option<Endurance>,
    /// Recordings of an experiment of kind [`Kind::Recorded`].
    pub recorded: Option<super::recorded::Settings>,
    /// Images of an experiment of kind [`Kind::Rootfs`].
    pub rootfs: Option<super::rootfs::Settings>,
    /// Jobs and costs of an experiment of kind [`Kind::Volume`].
    pub volume: Option<super::volume::Settings>,
    /// Sizes, prices, load and layouts of an experiment of kind [`Kind::Tiering`].
    pub tiering: Option<super::tiering::Settings>,
    /// Size and duration of the simulations of garbage collection.
    pub gc: Option<super::gc::Settings>,
    /// Jobs that run before the measurements.
    #[serde(default)]
    pub preparation: Vec<Preparation>,
    /// The measurements.
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
    /// Requirements on the results.
    #[serde(default, rename = "bound")]
    pub bounds: Vec<BoundDefinition>,
    /// Sources of the numbers that columns, rows and filesystems set, by the path of the number. An entry has
    /// the form of an entry of `[source]` in profiles. The source `condition` is for numbers that the
    /// publication states. A number without an entry counts as set by hand.
    #[serde(default)]
    pub sources: BTreeMap<String, Source>,
    /// Limit for the free parameters of the model.
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
    /// Steps, rows and columns: a table of figures.
    Matrix,
    /// Steps over a range of values: one curve per column.
    Sweep,
    /// Steps of many iterations, and the resulting wear of the erase blocks.
    Wear,
    /// Days until the first erase block wears out, for several seeds.
    Endurance,
    /// Write amplification of garbage collection policies, compared with closed forms.
    Gc,
    /// Recorded workloads on several filesystems.
    Recorded,
    /// Recorded boots from root images.
    Rootfs,
    /// Volumes on timed devices, compared with the bare devices.
    Volume,
    /// Volumes over a fast and a slow drive with several sets of targets.
    Tiering,
}

impl Kind {
    /// Returns the name in `experiment.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Matrix => "matrix",
            Kind::Sweep => "sweep",
            Kind::Wear => "wear",
            Kind::Endurance => "endurance",
            Kind::Gc => "gc",
            Kind::Recorded => "recorded",
            Kind::Rootfs => "rootfs",
            Kind::Volume => "volume",
            Kind::Tiering => "tiering",
        }
    }
}

/// A row of a matrix: a variant of every device; in kind [`Kind::Gc`], a fill level.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Name of the row in results; may be empty.
    pub name: String,
    /// Settings that are added to the device's argument: `key=value,...`.
    #[serde(default)]
    pub keys: String,
}

/// The range of a sweep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Unit of the values, for display: `GiB`.
    pub unit: String,
    /// Values that replace `{range}` in the jobs, ascending.
    pub values: Vec<u64>,
}

/// Workload of an endurance experiment, number of media, and limit for steady wear.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endurance {
    /// An fio command line without `fio`: the workload, which repeats without end.
    pub job: String,
    /// Number of seeds; each seed draws one medium.
    pub seeds: u32,
    /// Wear is steady if all estimates since the midpoint of the history lie within this many percent of each other.
    pub steady_percent: f64,
}

/// A job that brings a device into the state that it had when the published measurements began.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preparation {
    /// An fio command line without `fio`.
    pub job: String,
}

/// One measurement, or one series of many iterations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name of the table that contains the step's cells.
    pub table: String,
    /// Title of the chart, in one line. The default is the name of the table.
    pub title: Option<String>,
    /// Unit of the figures. For throughput, the unit also selects requests or bytes.
    #[serde(default)]
    pub unit: String,
    /// The measured quantity.
    #[serde(default)]
    pub metric: Metric,
    /// The filesystem between job and device: `vfat`. The first step with a filesystem formats the device.
    pub filesystem: Option<String>,
    /// An fio command line without `fio`.
    pub job: String,
    /// `assumed` if the cells depend on an assumption that the publication does not state.
    pub role: Option<RoleDefinition>,
    /// Columns that the step runs on; the default is all columns.
    pub columns: Option<Vec<String>>,
    /// Rows that the step runs in; the default is all rows.
    pub rows: Option<Vec<String>>,
    /// Jobs that run before each point or iteration without being measured: fio command lines without `fio`.
    #[serde(default)]
    pub before: Vec<String>,
    /// Idle time after the jobs of `before`: `10s`.
    pub pause: Option<String>,
    /// Jobs that a wear step runs once, at its beginning.
    #[serde(default)]
    pub preparation: Vec<Preparation>,
    /// Number of times that a wear step runs its job.
    pub iterations: Option<u32>,
    /// Maximum number of points in each series of a wear step.
    pub points: Option<u32>,
    /// Figures that a wear step reports.
    #[serde(default, rename = "measure")]
    pub measures: Vec<super::wear::Measure>,
}

/// A quantity that a step measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Requests or bytes per second, depending on the unit.
    #[default]
    Throughput,
    /// Number of commands that the host sent to the card.
    Commands,
    /// Mean number of bytes per command.
    BytesACommand,
}

/// A role that an experiment can assign to its cells.
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

/// A requirement on cells. See [`super::bounds`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundDefinition {
    /// Name of the bound.
    pub name: String,
    /// Patterns of `table row/column`.
    pub cells: Vec<CellPattern>,
    /// First row that the bound applies to; the bound skips earlier rows.
    pub from: Option<String>,
    /// Largest error in percent of the published mean, of the reference, or of `expected`.
    pub percent: Option<f64>,
    /// Smallest error in percent of `expected`: the cells must miss these figures.
    pub apart_percent: Option<f64>,
    /// Figures by row that `percent` refers to instead of the published means, and that `apart_percent` refers to.
    pub expected: Option<toml::Table>,
    /// Largest error in published standard deviations.
    pub sd: Option<f64>,
    /// Another table. `at_least` counts the cells that are above or below the cell of that table as in the
    /// publication.
    pub against: Option<String>,
    /// Maximum difference in percent between the cells of one table and row.
    pub equal_percent: Option<f64>,
    /// Maximum difference in percent between the cells of one table and column.
    pub flat_percent: Option<f64>,
    /// Reference row. The bound limits the ratio of a cell to the cell in this row.
    pub ratio_to: Option<String>,
    /// The row after which a curve has its largest relative fall.
    pub knee: Option<String>,
    /// Maximum number of rows between `knee` and the largest relative fall.
    #[serde(default)]
    pub rows_away: usize,
    /// Minimum of a figure or a ratio; with `against`, of the number of cells that agree.
    pub at_least: Option<f64>,
    /// Maximum of a figure or a ratio.
    pub at_most: Option<f64>,
    /// Exclusive maximum of a figure.
    pub below: Option<f64>,
}

/// A limit for the free parameters of an experiment.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterBudget {
    /// Maximum number of free parameters of all kinds together.
    pub at_most: Option<usize>,
}

/// Units of throughput.
pub(super) const THROUGHPUTS: [&str; 5] = ["IOPS", "kIOPS", "B/s", "KiB/s", "MiB/s"];

/// Units of a number of bytes.
const SIZES: [&str; 4] = ["B", "KiB", "MiB", "GiB"];

/// Reads `experiment.toml` and `published.toml` of `folder`, and checks that the two files are consistent.
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
    /// Returns true if the experiment has a column of this name.
    pub(super) fn has_column(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    /// Returns the cells of a matrix or a sweep; `None` for other kinds, whose runs determine the cells.
    pub(super) fn cells(&self) -> Option<Vec<CellPlace>> {
        let rows: Vec<String> = match (self.kind, &self.range) {
            (Kind::Matrix, _) if self.rows.is_empty() => vec![String::new()],
            (Kind::Matrix, _) => self.rows.iter().map(|row| row.name.clone()).collect(),
            (Kind::Sweep, Some(range)) => {
                range.values.iter().map(|value| super::sweep::row(*value, range)).collect()
            }
            _ => return None,
        };
        let of_row = |step: &Step, row: &str| {
            let columns = self.columns.keys().filter(|column| step.is_on(column));
            columns.map(|column| [&step.table, row, column].map(str::to_owned)).collect::<Vec<_>>()
        };
        let of_step = |step: &Step| {
            let rows = rows.iter().filter(|row| self.kind == Kind::Sweep || step.is_in(row));
            rows.flat_map(|row| of_row(step, row)).collect::<Vec<_>>()
        };
        Some(self.steps.iter().flat_map(of_step).collect())
    }

    fn check(&self, published: &PublishedTables) -> Result<(), String> {
        for (column, device) in &self.columns {
            if !device.is_str() {
                return Err(format!("column {column}: expected the name of a device in quotes"));
            }
        }
        if let Some(missing) = self.variants.iter().find(|v| !self.has_column(v)) {
            return Err(format!("variants lists {missing}, which is not a column"));
        }
        let twice =
            self.rows.iter().enumerate().find(|(n, row)| self.rows[..*n].iter().any(|r| r.name == row.name));
        if let Some((_, row)) = twice {
            return Err(format!("row \"{}\" occurs twice", row.name));
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
        if self.steps.is_empty()
            != matches!(
                self.kind,
                Kind::Endurance | Kind::Recorded | Kind::Rootfs | Kind::Volume | Kind::Tiering
            )
        {
            return Err(match self.kind {
                Kind::Endurance => "an experiment of kind \"endurance\" has [endurance], not steps".into(),
                Kind::Recorded => "an experiment of kind \"recorded\" has [recorded], not steps".into(),
                Kind::Rootfs => "an experiment of kind \"rootfs\" has [rootfs], not steps".into(),
                Kind::Volume => "an experiment of kind \"volume\" has [volume], not steps".into(),
                Kind::Tiering => "an experiment of kind \"tiering\" has [tiering], not steps".into(),
                _ => "expected at least one run, one step and one column".to_owned(),
            });
        }
        Ok(())
    }

    /// Rejects a source for a number that the experiment does not set.
    fn check_source(&self, path: &str) -> Result<(), String> {
        let Some(parameter) = Parameter::at(path) else {
            let nearest = suggest(path, Parameter::all().iter().map(|p| p.path));
            return Err(format!("[sources]: unknown parameter {path}{}", did_you_mean(nearest)));
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

    /// Checks that keys of one kind exist in experiments of that kind and in no others.
    fn check_kind(&self) -> Result<(), String> {
        let kind = self.kind.name();
        let only = |there: bool, what: &str, of: Kind| match (there, self.kind == of) {
            (true, false) => Err(format!("{what} belongs to kind \"{}\", not to \"{kind}\"", of.name())),
            (false, true) => Err(format!("kind \"{kind}\" needs {what}")),
            _ => Ok(()),
        };
        only(self.range.is_some(), "[range]", Kind::Sweep)?;
        only(self.endurance.is_some(), "[endurance]", Kind::Endurance)?;
        only(self.gc.is_some(), "[gc]", Kind::Gc)?;
        only(self.recorded.is_some(), "[recorded]", Kind::Recorded)?;
        self.recorded.as_ref().map_or(Ok(()), super::recorded::check)?;
        only(self.rootfs.is_some(), "[rootfs]", Kind::Rootfs)?;
        self.rootfs.as_ref().map_or(Ok(()), |rootfs| super::rootfs::check(rootfs, &self.columns))?;
        only(self.volume.is_some(), "[volume]", Kind::Volume)?;
        let has_column = |column: &str| self.has_column(column);
        self.volume.as_ref().map_or(Ok(()), |settings| super::volume::check(settings, has_column))?;
        only(self.tiering.is_some(), "[tiering]", Kind::Tiering)?;
        self.tiering.as_ref().map_or(Ok(()), |settings| super::tiering::check(settings, has_column))?;
        if !self.rows.is_empty() && !matches!(self.kind, Kind::Matrix | Kind::Gc) {
            return Err("[[row]] belongs to kinds \"matrix\" and \"gc\"".into());
        }
        if let Some(settings) = &self.gc {
            super::gc::check(self, settings)?;
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
            if matches!(self.kind, Kind::Matrix | Kind::Gc)
                && (!step.before.is_empty() || step.pause.is_some())
            {
                return Err(format!(
                    "step \"{}\": before and pause belong to kinds \"sweep\" and \"wear\"",
                    step.table
                ));
            }
        }
        Ok(())
    }

    /// Checks a step. The error text continues a sentence that begins with the step's name.
    fn check_step(&self, step: &Step, published: &PublishedTables) -> Result<(), String> {
        if self.kind == Kind::Wear {
            step.check_measures(published)?;
        } else {
            let units: Option<&[&str]> = match step.metric {
                _ if self.kind == Kind::Gc => None,
                Metric::Throughput => Some(&THROUGHPUTS),
                Metric::BytesACommand => Some(&SIZES),
                _ => None,
            };
            if let Some(units) = units.filter(|units| !units.contains(&step.unit.as_str())) {
                return Err(format!(": the unit is {}; expected {}", step.unit, units.join(", ")));
            }
            let unit = published.tables.iter().find(|t| t.name == step.table).map(|t| &t.unit);
            if let Some(unit) = unit.filter(|unit| **unit != step.unit) {
                return Err(format!(" has the unit {}, but the published table has {unit}", step.unit));
            }
        }
        let column = step.columns.iter().flatten().find(|c| !self.has_column(c));
        let row = step.rows.iter().flatten().find(|r| !self.rows.iter().any(|d| d.name == **r));
        match column.or(row) {
            Some(missing) => Err(format!(" names {missing}, which is not a column or row")),
            None => Ok(()),
        }
    }
}

impl Step {
    /// Returns true if the step runs on this column.
    pub(super) fn is_on(&self, column: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(|c| c == column))
    }
    /// Returns true if the step runs in this row.
    pub(super) fn is_in(&self, row: &str) -> bool {
        self.rows.as_ref().is_none_or(|rows| rows.iter().any(|r| r == row))
    }
}

/// Returns a message on an unknown key that suggests the most similar valid key; `None` if no valid key is
/// similar.
fn suggested_key(message: &str) -> Option<String> {
    let (found, expected) = message.strip_prefix("unknown field ")?.split_once(", expected ")?;
    let known = expected.split('`').skip(1).step_by(2);
    let nearest = suggest(found.trim_matches('`'), known)?;
    Some(format!("unknown key {found}{}", did_you_mean(Some(nearest))))
}

pub(super) fn parse<T: DeserializeOwned>(folder: &Folder, file: &str) -> Result<T, ExperimentError> {
    let wrong = |what: String| ExperimentError::Wrong { path: folder.path_of(file), what };
    let bytes = folder.file(file).ok_or_else(|| wrong("the file is missing".into()))?;
    let text = std::str::from_utf8(bytes).map_err(|error| {
        wrong(format!("byte {} is not valid UTF-8; expected a text file", error.valid_up_to() + 1))
    })?;
    toml::from_str(text).map_err(|error| {
        let text = SourceText::new(folder.path_of(file), text);
        let place = text.place(error.span().unwrap_or(0..0));
        // The parser names types of Rust, which users do not know.
        let types = [
            ("u32", "a whole number"),
            ("u64", "a whole number"),
            ("usize", "a whole number"),
            ("f64", "a number"),
        ];
        let message = types.iter().fold(error.message().to_owned(), |message, (of_rust, plain)| {
            message.replace(&format!("expected {of_rust}"), &format!("expected {plain}"))
        });
        let message = suggested_key(&message).unwrap_or(message);
        let what = format!("{message}\n{}", place.picture());
        ExperimentError::Wrong { path: place.to_string(), what }
    })
}
