//! The differences between two results: the figures that changed, the mechanisms that explain them, and the inputs that
//! differ.
//!
//! [`ResultFile::parse`] reads the output of any command that measures: experiments, comparisons, fio's own JSON, and
//! measurements. [`Difference::between`] pairs their lines by name.

mod fio;
mod inputs;
mod read;
#[cfg(test)]
mod tests;

pub use read::{BYTES_MAX, ReadError};

use crate::run_inputs::DeviceInputs;
use serde::Serialize;
use std::collections::BTreeMap;

/// A result that was read from a file, reduced to the parts that can be compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultFile {
    /// The kind of the result. Only results of one kind have figures in common.
    pub kind: Kind,
    /// Name and value of each fact about the run: `experiment`, `seed`, `filesystem`, `unwritten`, `inputs`,
    /// `digest`, `version`, `commit`, `engine`.
    pub facts: Vec<(&'static str, String)>,
    /// Name and value of each parameter of an experiment.
    pub inputs: Vec<(String, String)>,
    /// Devices of the jobs, as far as the file states their inputs.
    pub devices: Vec<DeviceInputs>,
    /// Name and value of each option of the jobs.
    pub options: Vec<(String, String)>,
    /// True if the options include flags, which have no value and which fio's JSON leaves out.
    pub states_flags: bool,
    /// Name of each bound of an experiment, and whether it held.
    pub bounds: Vec<(String, bool)>,
    /// Name and error number of each job that failed.
    pub errors: Vec<(String, i64)>,
    /// Everything that was measured.
    pub lines: Vec<Line>,
}

/// The kind of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The cells of an experiment.
    Experiment,
    /// Jobs on devices: simulated, or measured on hardware.
    Jobs,
}

impl Kind {
    /// Returns the places of a line's name that are ignored if each of the two files has a single name there.
    fn ignorable_places(self) -> &'static [usize] {
        match self {
            // The column, which is usually the device.
            Kind::Experiment => &[2],
            // The job. Devices have rules of their own.
            Kind::Jobs => &[1],
        }
    }
}

/// The figures of one cell, or of one direction of a job, or of its flushes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Table, row and column of an experiment; device, job and direction of a job. A name may be empty.
    pub name: [String; 3],
    /// Figures in the order of the file.
    pub figures: Vec<Figure>,
    /// Mechanisms and their nanoseconds per request; empty if the file has none.
    pub mechanisms: Vec<(String, f64)>,
}

/// One number of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the quantity: `IOPS`, `mean latency`, `p99`.
    pub quantity: String,
    /// Unit of the value: `B/s`, `ns`, or the unit of an experiment's cell. Empty for a plain number.
    pub unit: String,
    /// The value.
    pub value: f64,
    /// Standard deviation over runs, if the file has one.
    pub sd: Option<f64>,
}

/// The reasons why two results cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceError {
    /// One result is of an experiment, and the other of jobs.
    Kinds,
    /// The results are of different experiments.
    Experiments(String, String),
    /// No line of one result has a counterpart in the other.
    NothingInCommon {
        /// Name of a line of the first result.
        a: String,
        /// Name of a line of the second result.
        b: String,
    },
}

impl std::fmt::Display for DifferenceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DifferenceError::Kinds => write!(
                f,
                "one file is the result of an experiment, the other of jobs on devices: they have no figures in common"
            ),
            DifferenceError::Experiments(a, b) => {
                write!(
                    f,
                    "one file is a result of experiment {a}, the other of {b}: they have no cells in common"
                )
            }
            DifferenceError::NothingInCommon { a, b } => {
                write!(f, "the files have no line in common: one has {a}; the other has {b}")
            }
        }
    }
}

impl std::error::Error for DifferenceError {}

/// The differences between result A and result B.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Facts about the runs and their devices that differ, or that only one file states.
    pub facts: Vec<Changed<String>>,
    /// Inputs that differ.
    pub inputs: Vec<Changed<String>>,
    /// Bounds that hold in one result only.
    pub bounds: Vec<Changed<bool>>,
    /// Jobs that failed in one result only, or with different error numbers.
    pub errors: Vec<Changed<i64>>,
    /// Lines that both results have.
    pub lines: Vec<LineDifference>,
    /// Names of the lines that only A has.
    pub only_a: Vec<String>,
    /// Names of the lines that only B has.
    pub only_b: Vec<String>,
    /// True for A and for B if the result contains mechanisms.
    #[serde(skip)]
    pub has_mechanisms: [bool; 2],
}

/// A named value that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed<T> {
    /// Name of the value.
    pub name: String,
    /// Value in A, if A has one.
    pub a: Option<T>,
    /// Value in B, if B has one.
    pub b: Option<T>,
}

/// The figures that a line has in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineDifference {
    /// Name of the line, without the parts that all lines of both files share.
    pub name: String,
    /// Figures that both results have, changed or not.
    pub figures: Vec<FigureDifference>,
    /// Mechanisms, if both results have them: the largest change of time per request first.
    pub mechanisms: Vec<MechanismDifference>,
}

/// A figure in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureDifference {
    /// Name of the quantity.
    pub quantity: String,
    /// Unit of the values.
    pub unit: String,
    /// Value in A.
    pub a: f64,
    /// Value in B.
    pub b: f64,
    /// 100 (B - A) / A; `None` if A is zero.
    pub percent: Option<f64>,
    /// |B - A| in standard deviations of the difference; `None` if neither file states a deviation above zero.
    pub deviations: Option<f64>,
}

/// Time of a mechanism in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MechanismDifference {
    /// Name of the mechanism.
    pub mechanism: String,
    /// Nanoseconds per request in A.
    pub a_ns: f64,
    /// Nanoseconds per request in B.
    pub b_ns: f64,
}

impl MechanismDifference {
    /// Returns the nanoseconds per request by which B exceeds A.
    pub fn change_ns(&self) -> f64 {
        self.b_ns - self.a_ns
    }
}

impl FigureDifference {
    fn new(a: &Figure, b: &Figure) -> FigureDifference {
        let sd = (a.sd.unwrap_or(0.0).powi(2) + b.sd.unwrap_or(0.0).powi(2)).sqrt();
        let change = b.value - a.value;
        FigureDifference {
            quantity: a.quantity.clone(),
            unit: a.unit.clone(),
            a: a.value,
            b: b.value,
            percent: (a.value != 0.0).then(|| 100.0 * change / a.value),
            deviations: (sd > 0.0).then(|| change.abs() / sd),
        }
    }

    /// Returns true if the values differ by more than `tolerance` percent of A.
    pub fn is_changed(&self, tolerance: f64) -> bool {
        100.0 * (self.b - self.a).abs() > tolerance * self.a.abs()
    }
}

impl LineDifference {
    fn new(name: String, a: &Line, b: &Line) -> LineDifference {
        let figures = a.figures.iter().filter_map(|figure| {
            let is_same = |other: &&Figure| other.quantity == figure.quantity && other.unit == figure.unit;
            Some(FigureDifference::new(figure, b.figures.iter().find(is_same)?))
        });
        LineDifference { name, figures: figures.collect(), mechanisms: mechanisms(a, b) }
    }

    /// Returns true if a figure differs by more than `tolerance` percent.
    pub fn is_changed(&self, tolerance: f64) -> bool {
        self.figures.iter().any(|figure| figure.is_changed(tolerance))
    }
}

/// Returns the mechanisms of two lines; empty unless both lines have mechanisms.
fn mechanisms(a: &Line, b: &Line) -> Vec<MechanismDifference> {
    if a.mechanisms.is_empty() || b.mechanisms.is_empty() {
        return Vec::new();
    }
    let of =
        |line: &Line, name: &str| line.mechanisms.iter().find(|(other, _)| other == name).map(|(_, ns)| *ns);
    let only_b = b.mechanisms.iter().filter(|(name, _)| of(a, name).is_none());
    let mut all: Vec<MechanismDifference> = a
        .mechanisms
        .iter()
        .chain(only_b)
        .map(|(name, _)| MechanismDifference {
            mechanism: name.clone(),
            a_ns: of(a, name).unwrap_or(0.0),
            b_ns: of(b, name).unwrap_or(0.0),
        })
        .filter(|mechanism| mechanism.a_ns != 0.0 || mechanism.b_ns != 0.0)
        .collect();
    // The sort is stable: mechanisms that changed equally keep the order of the file.
    all.sort_by(|x, y| y.change_ns().abs().total_cmp(&x.change_ns().abs()));
    all
}

impl Difference {
    /// Compares B with A.
    ///
    /// Lines are paired by their names. Several lines with the same name are paired in order. If each file
    /// has only one device, or only one job, these names may differ, as between a run on hardware and a
    /// simulation. The keys of a device may differ too, if each file has the device only once.
    ///
    /// # Errors
    /// Returns an error if the results are of different kinds, or have no line in common.
    pub fn between(a: &ResultFile, b: &ResultFile) -> Result<Difference, DifferenceError> {
        if a.kind != b.kind {
            return Err(DifferenceError::Kinds);
        }
        let names = Names::of(a, b);
        let mut taken = vec![false; b.lines.len()];
        let (mut lines, mut only_a) = (Vec::new(), Vec::new());
        for line in &a.lines {
            let found = (0..b.lines.len()).find(|i| !taken[*i] && names.are_equal(line, &b.lines[*i]));
            match found {
                Some(i) => {
                    taken[i] = true;
                    lines.push(LineDifference::new(names.shown(line), line, &b.lines[i]));
                }
                None => only_a.push(names.shown(line)),
            }
        }
        let left = b.lines.iter().zip(taken).filter(|(_, taken)| !taken);
        let only_b: Vec<String> = left.map(|(line, _)| names.shown(line)).collect();
        if lines.is_empty() {
            return Err(nothing_in_common(a, b));
        }
        Ok(Difference {
            facts: inputs::facts(a, b, &names.devices),
            inputs: inputs::inputs(a, b, &names.devices),
            bounds: changed(&a.bounds, &b.bounds),
            errors: changed(&a.errors, &b.errors),
            lines,
            only_a,
            only_b,
            has_mechanisms: [a, b].map(|file| file.lines.iter().any(|line| !line.mechanisms.is_empty())),
        })
    }

    /// Returns true if a figure differs by more than `tolerance` percent, if one result lacks a line of the other, or if
    /// a job failed in one result only or with different errors.
    pub fn is_changed(&self, tolerance: f64) -> bool {
        let has_only = !self.only_a.is_empty() || !self.only_b.is_empty();
        has_only || !self.errors.is_empty() || self.lines.iter().any(|line| line.is_changed(tolerance))
    }
}

fn nothing_in_common(a: &ResultFile, b: &ResultFile) -> DifferenceError {
    let experiment = |file: &ResultFile| {
        let fact = file.facts.iter().find(|(name, _)| *name == "experiment");
        fact.map(|(_, value)| value.clone())
    };
    if let (Some(a), Some(b)) = (experiment(a), experiment(b))
        && a != b
    {
        return DifferenceError::Experiments(a, b);
    }
    let first = |file: &ResultFile| {
        file.lines.first().map_or_else(|| "no line at all".to_owned(), |line| joined(&line.name))
    };
    DifferenceError::NothingInCommon { a: first(a), b: first(b) }
}

/// Returns the values that differ or exist on one side only: the values of A in their order, then the values
/// that only B has. Values that both sides have are left out first. The remaining values with equal names are
/// paired in order.
fn changed<N: AsRef<str> + PartialEq, T: PartialEq + Clone>(a: &[(N, T)], b: &[(N, T)]) -> Vec<Changed<T>> {
    let mut left: Vec<&(N, T)> = b.iter().collect();
    let mut take = |is: &dyn Fn(&(N, T)) -> bool| {
        left.iter().position(|value| is(value)).map(|found| left.remove(found))
    };
    let unequal: Vec<&(N, T)> = a.iter().filter(|value| take(&|other| other == *value).is_none()).collect();
    let mut all: Vec<Changed<T>> = Vec::new();
    for (name, value) in unequal {
        let other = take(&|(other, _)| other == name).map(|(_, other)| other.clone());
        all.push(Changed { name: name.as_ref().to_owned(), a: Some(value.clone()), b: other });
    }
    let only_b = left.into_iter();
    all.extend(only_b.map(|(name, value)| Changed {
        name: name.as_ref().to_owned(),
        a: None,
        b: Some(value.clone()),
    }));
    all
}

/// The rules by which the names of lines are compared and shown.
struct Names<'a> {
    /// Devices of B by their counterparts in A.
    devices: BTreeMap<&'a str, &'a str>,
    /// True if the first place is a device; in an experiment, it is a table.
    has_devices: bool,
    /// Places in which two names must be equal.
    compared: [bool; 3],
    /// Places that are shown, because they differ among the lines.
    shown: [bool; 3],
}

impl<'a> Names<'a> {
    fn of(a: &'a ResultFile, b: &'a ResultFile) -> Names<'a> {
        let single = |file: &ResultFile, place: usize| {
            let mut names = file.lines.iter().map(|line| &line.name[place]);
            let first = names.next();
            names.all(|name| Some(name) == first)
        };
        let places = [0, 1, 2];
        let is_single = places.map(|place| single(a, place) && single(b, place));
        let ignorable = a.kind.ignorable_places();
        let devices = match a.kind {
            Kind::Jobs => inputs::counterparts(a, b),
            Kind::Experiment => BTreeMap::new(),
        };
        let has_devices = a.kind == Kind::Jobs;
        let compared = places.map(|place| {
            let is_ignored = is_single[place] && ignorable.contains(&place);
            !(is_ignored || place == 0 && has_devices)
        });
        let shown = is_single.map(|single| !single);
        // A single line needs no name to distinguish it, but it is shown with its job and direction, or its
        // row and column.
        let shown = if shown.contains(&true) { shown } else { [false, true, true] };
        Names { devices, has_devices, compared, shown }
    }

    fn are_equal(&self, a: &Line, b: &Line) -> bool {
        let are_counterparts =
            !self.has_devices || self.devices.get(a.name[0].as_str()) == Some(&b.name[0].as_str());
        are_counterparts && (0..3).all(|place| !self.compared[place] || a.name[place] == b.name[place])
    }

    fn shown(&self, line: &Line) -> String {
        let parts = line.name.iter().zip(self.shown).filter(|(_, shown)| *shown);
        let parts: Vec<String> = parts.map(|(part, _)| part.clone()).collect();
        if parts.iter().all(String::is_empty) { joined(&line.name) } else { joined(&parts) }
    }
}

fn joined(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}
