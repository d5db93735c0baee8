//! Reads results: the JSON of `run` and `compare`, and everything that `fit` reads (fio's JSON, measurements, logs of
//! other programs).

use super::fio::{Documents, add};
use super::inputs::add_options;
use super::{Figure, Kind, Line, ResultFile};
use crate::run_inputs::DeviceInputs;
use flashlab_fit::import::{self, Bins, ImportError, Problem};
use flashlab_fit::observation::{FileError, Measurements, Quantity};
use serde::Deserialize;
use std::fmt;

/// Largest file that is read.
pub const BYTES_MAX: usize = import::BYTES_MAX;

/// The reasons why a file is not a result.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadError {
    /// The bytes are not text.
    NotText {
        /// Number of the first byte that is not UTF-8, from 1.
        at: usize,
    },
    /// A member of a result of `flashlab` is missing, or has the wrong type.
    Member {
        /// Line of the text.
        line: usize,
        /// Column of the line.
        column: usize,
        /// Message of the parser.
        message: String,
    },
    /// The text is JSON of another program.
    Foreign,
    /// The text is not a measurement in a known format.
    Import(ImportError),
}

/// Description of the accepted files, for errors.
const FORMS: &str = "the JSON of `flashlab run`, `compare`, `bench` or `measure`, or of fio, or a log that `flashlab fit` \
                     reads";

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotText { at } => write!(f, "byte {at} is not text; expected {FORMS}"),
            ReadError::Foreign => write!(f, "this JSON is of another program; expected {FORMS}"),
            ReadError::Member { line, column, message } => {
                write!(f, "line {line}, column {column}: {message}; is the file a complete result?")
            }
            ReadError::Import(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl ReadError {
    fn of_import(error: ImportError) -> ReadError {
        match error.problem {
            Problem::File(FileError::Foreign { looks_like: None }) => ReadError::Foreign,
            _ => ReadError::Import(error),
        }
    }
}

impl ResultFile {
    /// Reads a result in any format that a command writes.
    ///
    /// # Errors
    /// Returns the fault and its place.
    pub fn parse(bytes: &[u8]) -> Result<ResultFile, ReadError> {
        let text = std::str::from_utf8(bytes).map_err(|e| ReadError::NotText { at: e.valid_up_to() + 1 })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // Files larger than the limit are left to the importer, which refuses them.
        let head: Option<Head> = if text.len() > BYTES_MAX { None } else { serde_json::from_str(text).ok() };
        let head = head.unwrap_or_default();
        if head.cells && head.experiment {
            return member(text).map(ExperimentFile::into_result);
        }
        if head.devices {
            return member(text).map(ComparisonFile::into_result);
        }
        let measurements = import::parse_all(text, "").map_err(ReadError::of_import)?;
        let mut result = of_measurements(&measurements, &Documents::read(text));
        result.lines.iter_mut().for_each(limit_percentiles);
        Ok(result)
    }
}

/// Limits the percentiles of a line to its maximum. fio's percentiles are midpoints of histogram buckets, so the highest
/// ones may exceed the maximum, which is exact.
fn limit_percentiles(line: &mut Line) {
    let Some(maximum) = line.figures.iter().find(|figure| figure.quantity == MAXIMUM) else { return };
    let limit = maximum.value;
    let is_percentile = |figure: &&mut Figure| {
        figure.quantity.strip_prefix('p').is_some_and(|percent| percent.parse::<f64>().is_ok())
    };
    line.figures.iter_mut().filter(is_percentile).for_each(|figure| figure.value = figure.value.min(limit));
}

/// The members of a JSON file that identify its format.
#[derive(Deserialize, Default)]
struct Head {
    #[serde(default, deserialize_with = "exists")]
    experiment: bool,
    #[serde(default, deserialize_with = "exists")]
    cells: bool,
    #[serde(default, deserialize_with = "exists")]
    devices: bool,
}

fn exists<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

fn member<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|error| {
        let text = error.to_string();
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
        ReadError::Member { line: error.line(), column: error.column(), message: message.to_owned() }
    })
}

/// The members of [`crate::results::Results`] that are compared.
#[derive(Deserialize)]
struct ExperimentFile {
    experiment: String,
    seed: u64,
    version: String,
    #[serde(default)]
    commit: Option<String>,
    inputs: String,
    digest: String,
    parameters: Vec<ParameterFile>,
    cells: Vec<CellFile>,
    bounds: Vec<BoundFile>,
}

#[derive(Deserialize)]
struct ParameterFile {
    path: String,
    value: String,
}

#[derive(Deserialize)]
struct BoundFile {
    name: String,
    held: bool,
}

#[derive(Deserialize)]
struct CellFile {
    table: String,
    row: String,
    column: String,
    unit: String,
    simulated: FigureFile,
    latency_ns_mean: Option<f64>,
    mechanisms: Ordered,
    #[serde(default)]
    tail: Option<TailFile>,
}

#[derive(Deserialize)]
struct FigureFile {
    mean: Option<f64>,
    sd: Option<f64>,
}

#[derive(Deserialize)]
struct TailFile {
    p99_ns: u64,
    p99_9_ns: u64,
    max_ns: u64,
}

impl ExperimentFile {
    fn into_result(self) -> ResultFile {
        let line = |cell: CellFile| {
            let mut figures = Vec::new();
            if let Some(value) = cell.simulated.mean {
                let sd = cell.simulated.sd.filter(|sd| *sd > 0.0);
                figures.push(Figure { quantity: cell.unit.clone(), unit: cell.unit, value, sd });
            }
            let timed = cell.latency_ns_mean.filter(|mean| *mean > 0.0);
            figures.extend(timed.map(|mean| nanoseconds("mean latency", mean)));
            if let Some(tail) = cell.tail {
                let tail = [("p99", tail.p99_ns), ("p99.9", tail.p99_9_ns), (MAXIMUM, tail.max_ns)];
                figures.extend(tail.map(|(name, ns)| nanoseconds(name, ns as f64)));
            }
            Line { name: [cell.table, cell.row, cell.column], figures, mechanisms: cell.mechanisms.0 }
        };
        let facts = [
            ("experiment", self.experiment),
            ("seed", self.seed.to_string()),
            ("inputs", self.inputs),
            ("digest", self.digest),
            ("version", self.version),
        ];
        ResultFile {
            kind: Kind::Experiment,
            facts: facts.into_iter().chain(self.commit.map(|commit| ("commit", commit))).collect(),
            inputs: self.parameters.into_iter().map(|number| (number.path, number.value)).collect(),
            devices: Vec::new(),
            options: Vec::new(),
            states_flags: false,
            bounds: self.bounds.into_iter().map(|bound| (bound.name, bound.held)).collect(),
            errors: Vec::new(),
            lines: self.cells.into_iter().map(line).collect(),
        }
    }
}

/// The JSON of `flashlab compare`: the members of [`crate::figures::DeviceFigures`] that are compared.
#[derive(Deserialize)]
struct ComparisonFile {
    #[serde(default)]
    run: Option<RunFile>,
    devices: Vec<DeviceFile>,
}

/// The members of [`crate::run_inputs::RunInputs`].
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RunFile {
    version: String,
    commit: Option<String>,
    seed: u64,
    filesystem: Option<String>,
    unwritten: bool,
    #[serde(rename = "global options", deserialize_with = "crate::results::pairs")]
    global_options: Vec<(String, String)>,
    jobs: Vec<JobOptionsFile>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobOptionsFile {
    #[serde(rename = "jobname")]
    name: String,
    #[serde(rename = "job options", deserialize_with = "crate::results::pairs")]
    options: Vec<(String, String)>,
}

impl RunFile {
    /// Adds the facts and the options of the run to `result`.
    pub(super) fn add_to(&self, result: &mut ResultFile) {
        result.facts.extend([
            ("seed", self.seed.to_string()),
            ("filesystem", self.filesystem.clone().unwrap_or_else(|| "none".to_owned())),
            ("unwritten", if self.unwritten { "yes" } else { "no" }.to_owned()),
            ("version", self.version.clone()),
        ]);
        result.facts.extend(self.commit.clone().map(|commit| ("commit", commit)));
        result.options.clear();
        for job in &self.jobs {
            let all = job.options.iter().chain(&self.global_options);
            let all = all.map(|(key, value)| (key.as_str(), value.as_str()));
            add_options(&job.name, self.jobs.len() > 1, all, &mut result.options);
        }
        result.states_flags = true;
    }
}

#[derive(Deserialize)]
struct DeviceFile {
    device: String,
    jobs: Vec<JobFile>,
    #[serde(default)]
    inputs: Option<DeviceInputs>,
}

#[derive(Deserialize)]
struct JobFile {
    job: String,
    direction: String,
    #[serde(default)]
    requests: u64,
    iops: f64,
    bytes_per_second: f64,
    latency: LatencyFile,
    mechanisms_ns: Ordered,
}

#[derive(Deserialize)]
struct LatencyFile {
    mean_ns: f64,
    max_ns: u64,
    percentiles_ns: Vec<(f64, f64)>,
    #[serde(default)]
    histogram_ns: Vec<(u64, u64)>,
}

impl JobFile {
    /// Adds the figures of a clone of this job. Rates and requests are summed. The percentiles become those
    /// of the sum of both histograms.
    fn add_clone(&mut self, clone: JobFile) {
        let requests = (self.requests + clone.requests).max(1) as f64;
        let of_self = self.requests as f64 / requests;
        let of_clone = clone.requests as f64 / requests;
        let (latency, other) = (&mut self.latency, clone.latency);
        latency.mean_ns = of_self * latency.mean_ns + of_clone * other.mean_ns;
        latency.max_ns = latency.max_ns.max(other.max_ns);
        latency.histogram_ns.extend(other.histogram_ns);
        let bins: Bins = latency.histogram_ns.iter().copied().collect();
        for (percent, ns) in &mut latency.percentiles_ns {
            *ns = bins.percentile(*percent).map_or(*ns, |ns| ns as f64);
        }
        let mut mechanisms = Vec::new();
        for (share, all) in [(of_self, &self.mechanisms_ns), (of_clone, &clone.mechanisms_ns)] {
            all.0.iter().for_each(|(name, ns)| add(&mut mechanisms, name, share * ns));
        }
        self.mechanisms_ns = Ordered(mechanisms);
        self.requests += clone.requests;
        self.iops += clone.iops;
        self.bytes_per_second += clone.bytes_per_second;
    }
}

/// Combines the clones of each job as the importer of fio's JSON does. All clones of a job have its name.
fn combined(jobs: Vec<JobFile>) -> Vec<JobFile> {
    let mut all: Vec<JobFile> = Vec::new();
    for job in jobs {
        let is_clone = |other: &&mut JobFile| (&other.job, &other.direction) == (&job.job, &job.direction);
        match all.iter_mut().find(is_clone) {
            Some(first) => first.add_clone(job),
            None => all.push(job),
        }
    }
    all
}

impl ComparisonFile {
    fn into_result(self) -> ResultFile {
        let line = |device: &str, job: JobFile| {
            let latency = job.latency;
            let mut figures = vec![
                figure_of(Quantity::Iops, job.iops),
                figure_of(Quantity::BytesPerSecond, job.bytes_per_second),
                figure_of(Quantity::LatencyMean, latency.mean_ns),
            ];
            let percentiles = latency.percentiles_ns.into_iter();
            figures.extend(percentiles.map(|(p, ns)| figure_of(Quantity::LatencyPercentile(p), ns)));
            figures.push(figure_of(Quantity::LatencyMax, latency.max_ns as f64));
            let name = [device.to_owned(), job.job, job.direction];
            let mut line = Line { name, figures, mechanisms: job.mechanisms_ns.0 };
            limit_percentiles(&mut line);
            line
        };
        let mut result = ResultFile {
            kind: Kind::Jobs,
            facts: vec![("engine", SIMULATED.to_owned())],
            inputs: Vec::new(),
            devices: Vec::new(),
            options: Vec::new(),
            states_flags: false,
            bounds: Vec::new(),
            errors: Vec::new(),
            lines: Vec::new(),
        };
        for DeviceFile { device, jobs, inputs } in self.devices {
            // The label of a draft ends with a mark. The inputs contain the plain name.
            let name = inputs.as_ref().map_or(device, |inputs| inputs.device.clone());
            result.lines.extend(combined(jobs).into_iter().map(|job| line(&name, job)));
            result.devices.extend(inputs);
        }
        if let Some(run) = self.run {
            run.add_to(&mut result);
        }
        result
    }
}

/// Engine of results that `bench` and `compare` write.
pub(super) const SIMULATED: &str = "simulated";

/// An object of numbers in the order of the file.
#[derive(Default)]
struct Ordered(Vec<(String, f64)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Ordered;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of mechanisms and their nanoseconds")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut all = Vec::new();
                while let Some((name, ns)) = map.next_entry::<String, Option<f64>>()? {
                    all.extend(ns.map(|ns| (name, ns)));
                }
                Ok(Ordered(all))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

const MAXIMUM: &str = "maximum";

fn nanoseconds(quantity: &str, value: f64) -> Figure {
    Figure { quantity: quantity.to_owned(), unit: "ns".to_owned(), value, sd: None }
}

pub(super) fn figure_of(quantity: Quantity, value: f64) -> Figure {
    let (name, unit) = match quantity {
        Quantity::Iops => ("IOPS".to_owned(), "IOPS"),
        Quantity::BytesPerSecond => ("bandwidth".to_owned(), "B/s"),
        Quantity::LatencyMean => ("mean latency".to_owned(), "ns"),
        Quantity::LatencyPercentile(percent) => (format!("p{percent}"), "ns"),
        Quantity::LatencyMax => (MAXIMUM.to_owned(), "ns"),
    };
    Figure { quantity: name, unit: unit.to_owned(), value, sd: None }
}

/// Returns the observations of all steps as lines, one for each direction of a job.
fn of_measurements(measurements: &Measurements, documents: &Documents) -> ResultFile {
    let device = documents.device().unwrap_or_else(|| DeviceInputs {
        device: measurements.target.name.clone(),
        host: measurements.host.clone(),
        ..DeviceInputs::default()
    });
    let mut lines: Vec<Line> = Vec::new();
    for step in &measurements.steps {
        for seen in &step.observations {
            let job = seen.job.as_deref().unwrap_or(&step.name);
            let name = [device.device.as_str(), job, seen.direction.name()];
            let at = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
                lines.push(Line {
                    name: name.map(str::to_owned),
                    figures: Vec::new(),
                    mechanisms: documents.mechanisms(&measurements.steps, job, seen.direction.name()),
                });
                lines.len() - 1
            });
            let figure =
                Figure { sd: seen.sd.filter(|sd| *sd > 0.0), ..figure_of(seen.quantity, seen.value) };
            lines[at].figures.push(figure);
        }
    }
    for line in &mut lines {
        // The maximum follows the percentiles. The sort is stable.
        line.figures.sort_by_key(|figure| figure.quantity == MAXIMUM);
    }
    documents.add_lines(&measurements.steps, &device.device, &mut lines);
    let engine = if documents.is_simulated() { SIMULATED } else { &measurements.engine };
    let engine = Some(("engine", engine.to_owned())).filter(|(_, engine)| !engine.is_empty());
    let mut result = ResultFile {
        kind: Kind::Jobs,
        facts: engine.into_iter().collect(),
        inputs: Vec::new(),
        devices: vec![device],
        options: documents.options().unwrap_or_else(|| options(measurements)),
        states_flags: false,
        bounds: Vec::new(),
        errors: documents.errors(&measurements.steps),
        lines,
    };
    if let Some(run) = documents.run() {
        run.add_to(&mut result);
    }
    result
}

/// Returns the options of each job. If there are several steps, the name of the step precedes the name of the
/// option.
fn options(measurements: &Measurements) -> Vec<(String, String)> {
    let steps = &measurements.steps;
    let mut all = Vec::new();
    for step in steps {
        let words = step.job.iter().filter_map(|word| word.strip_prefix("--"));
        let words = words.map(|option| option.split_once('=').unwrap_or((option, "1")));
        add_options(&step.name, steps.len() > 1, words, &mut all);
    }
    all
}
