//! Comparison of a simulated run with a real one, figure by figure, from the JSON that fio wrote on hardware.
//!
//! The JSON is untrusted input: its size is limited, and an error names the path of each value that is missing or has
//! the wrong type.

use crate::job::Direction;
use crate::output::{Base, count, rate};
use crate::stats::Report;
use serde_json::Value;
use std::fmt::{self, Display, Formatter};

/// Maximum size of the file in bytes. The largest files that fio writes (`json+` of hundreds of jobs) take a few
/// megabytes.
pub const BYTES_MAX: usize = 64 << 20;

/// The reasons why a file cannot be used for a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgainstError {
    /// The file is larger than [`BYTES_MAX`].
    TooLarge {
        /// Size of the file in bytes.
        bytes: usize,
    },
    /// The file contains no JSON object.
    NoObject,
    /// The JSON is malformed.
    Syntax {
        /// Line number, from 1.
        line: usize,
        /// Column number, from 1.
        column: usize,
        /// Message of the parser.
        message: String,
    },
    /// The file is valid JSON, but a figure is missing or has the wrong type.
    Unexpected {
        /// Path of the figure, such as `jobs[0].read.clat_ns.mean`.
        path: String,
        /// Description of the expected value.
        expected: &'static str,
    },
}

impl Display for AgainstError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AgainstError::TooLarge { bytes } => write!(
                f,
                "the file has {bytes} bytes, more than the maximum of {BYTES_MAX}; write it with --output-format=json"
            ),
            AgainstError::NoObject => {
                write!(f, "no JSON object found; run fio with --output-format=json --output=FILE")
            }
            AgainstError::Syntax { line, column, message } => {
                write!(f, "line {line}, column {column}: {message}; is the file complete fio JSON?")
            }
            AgainstError::Unexpected { path, expected } => {
                write!(f, "{path}: expected {expected}; the file should be the JSON of fio 3")
            }
        }
    }
}

impl std::error::Error for AgainstError {}

/// A run of real fio.
#[derive(Clone, Debug, PartialEq)]
pub struct RealRun {
    /// Version of fio, such as `fio-3.33`.
    pub version: String,
    /// True if flashlab wrote the file, in which case this run is simulated, too.
    pub simulated: bool,
    /// Jobs of the run.
    pub jobs: Vec<RealJob>,
}

/// A job of a real run.
#[derive(Clone, Debug, PartialEq)]
pub struct RealJob {
    /// `jobname`.
    pub name: String,
    /// `error`; not 0 if the job failed.
    pub error: i64,
    /// Figures of the directions that transferred bytes, under fio's names (`read`, `write`, `trim`, `mixed`).
    pub directions: Vec<(String, Figures)>,
}

/// The figures of one direction that are compared. Percentiles are limited to the maximum.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Requests a second.
    pub iops: f64,
    /// Mean clat in nanoseconds.
    pub clat_ns_mean: f64,
    /// Median of clat in nanoseconds, if the percentile list contains it.
    pub clat_ns_p50: Option<f64>,
    /// 99th percentile of clat in nanoseconds, if the percentile list contains it.
    pub clat_ns_p99: Option<f64>,
    /// 99.9th percentile of clat in nanoseconds, if the percentile list contains it.
    pub clat_ns_p99_9: Option<f64>,
}

impl RealRun {
    /// Parses fio's JSON. Text before the first line that begins with `{` (fio's notes) is skipped.
    ///
    /// # Errors
    /// Returns the fault and its position.
    pub fn parse(bytes: &[u8]) -> Result<RealRun, AgainstError> {
        if bytes.len() > BYTES_MAX {
            return Err(AgainstError::TooLarge { bytes: bytes.len() });
        }
        let (lines_before, json) = object(bytes).ok_or(AgainstError::NoObject)?;
        // fio may print notes or the results in a second format after the object; only the first value is read.
        let value = serde_json::Deserializer::from_slice(json).into_iter::<Value>().next();
        let value = value.ok_or(AgainstError::NoObject)?.map_err(|error| AgainstError::Syntax {
            line: lines_before + error.line(),
            column: error.column(),
            message: cause(&error),
        })?;
        let document = JsonNode { value: &value, path: String::new() };
        let version = document.get("fio version")?.string()?;
        let list = document.get("jobs")?;
        let Value::Array(items) = list.value else { return Err(list.unexpected("a list of jobs")) };
        let mut simulated = false;
        let mut jobs = Vec::with_capacity(items.len());
        for (i, value) in items.iter().enumerate() {
            let job = JsonNode { value, path: format!("jobs[{i}]") };
            simulated |= value.get("flashlab").is_some();
            jobs.push(real_job(&job)?);
        }
        Ok(RealRun { version, simulated, jobs })
    }
}

/// Returns serde_json's message without the position, which the error reports separately.
fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// Returns the number of lines before the first line that begins with `{`, and the bytes from that line on.
fn object(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut start = 0;
    for (number, line) in bytes.split_inclusive(|&b| b == b'\n').enumerate() {
        if line.trim_ascii_start().starts_with(b"{") {
            return Some((number, &bytes[start..]));
        }
        start += line.len();
    }
    None
}

fn real_job(job: &JsonNode<'_>) -> Result<RealJob, AgainstError> {
    let mut directions = Vec::new();
    for name in ["read", "write", "trim", "mixed"] {
        if job.value.get(name).is_none() {
            continue;
        }
        let direction = job.get(name)?;
        if direction.get("io_bytes")?.number()? > 0.0 {
            directions.push((name.to_owned(), figures(&direction)?));
        }
    }
    Ok(RealJob { name: job.get("jobname")?.string()?, error: job.get("error")?.number()? as i64, directions })
}

fn figures(direction: &JsonNode<'_>) -> Result<Figures, AgainstError> {
    let clat = direction.get("clat_ns")?;
    // fio's percentiles are midpoints of histogram buckets, so the highest ones may exceed the maximum, which is exact.
    let max = clat.value.get("max").and_then(Value::as_f64).unwrap_or(f64::INFINITY);
    let percentile = |key: &str| match clat.value.get("percentile").and_then(|list| list.get(key)) {
        None => Ok(None),
        Some(_) => clat.get("percentile")?.get(key)?.number().map(|ns| Some(ns.min(max))),
    };
    // `bw` is in KiB/s; `bw_bytes` exists since fio 3.3.
    let bytes_per_second = match direction.value.get("bw_bytes") {
        Some(_) => direction.get("bw_bytes")?.number()?,
        None => 1_024.0 * direction.get("bw")?.number()?,
    };
    Ok(Figures {
        bytes_per_second,
        iops: direction.get("iops")?.number()?,
        clat_ns_mean: clat.get("mean")?.number()?,
        clat_ns_p50: percentile("50.000000")?,
        clat_ns_p99: percentile("99.000000")?,
        clat_ns_p99_9: percentile("99.900000")?,
    })
}

/// A JSON value and its path.
struct JsonNode<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> JsonNode<'a> {
    fn get(&self, key: &str) -> Result<JsonNode<'a>, AgainstError> {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        match self.value.get(key) {
            Some(value) => Ok(JsonNode { value, path }),
            None => Err(AgainstError::Unexpected { path, expected: "this member" }),
        }
    }
    fn string(&self) -> Result<String, AgainstError> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.unexpected("a string"))
    }
    fn number(&self) -> Result<f64, AgainstError> {
        self.value.as_f64().filter(|n| *n >= 0.0).ok_or_else(|| self.unexpected("a non-negative number"))
    }
    fn unexpected(&self, expected: &'static str) -> AgainstError {
        AgainstError::Unexpected { path: self.path.clone(), expected }
    }
}

/// The kind of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Bytes a second.
    Bandwidth,
    /// Requests a second.
    Iops,
    /// Mean clat in nanoseconds.
    ClatMean,
    /// Median of clat.
    ClatP50,
    /// 99th percentile of clat.
    ClatP99,
    /// 99.9th percentile of clat.
    ClatP999,
}

impl Measure {
    /// Returns the name as printed.
    pub const fn name(self) -> &'static str {
        match self {
            Measure::Bandwidth => "bw",
            Measure::Iops => "iops",
            Measure::ClatMean => "clat mean",
            Measure::ClatP50 => "clat p50",
            Measure::ClatP99 => "clat p99",
            Measure::ClatP999 => "clat p99.9",
        }
    }

    fn print(self, value: f64) -> String {
        match self {
            Measure::Bandwidth => rate(value as u64, Base::Binary),
            Measure::Iops if value < 100.0 => format!("{value:.2}"),
            Measure::Iops if value < 1_000.0 => format!("{value:.1}"),
            Measure::Iops => count(value.round() as u64),
            _ => latency(value),
        }
    }
}

/// Formats a latency with three significant digits, in the unit that fits. The unit and the number of decimals are
/// those of the rounded value.
fn latency(ns: f64) -> String {
    let units = [(ns, "ns"), (ns / 1e3, "us"), (ns / 1e6, "ms")];
    let (value, unit) = units.into_iter().find(|(value, _)| value.round() < 1e3).unwrap_or((ns / 1e9, "s"));
    let with_decimals = [format!("{value:.2}"), format!("{value:.1}")];
    let digits = with_decimals.into_iter().find(|digits| digits.len() <= "9.99".len());
    format!("{} {unit}", digits.unwrap_or_else(|| format!("{value:.0}")))
}

/// One figure of a real and of a simulated run.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparedFigure {
    /// Name of the job.
    pub job: String,
    /// `read`, `write`, `trim` or `mixed`.
    pub direction: String,
    /// Kind of the figure.
    pub measure: Measure,
    /// Value of the real run.
    pub real: f64,
    /// Value of the simulated run.
    pub simulated: f64,
}

impl ComparedFigure {
    /// Returns 100 (simulated - real) / real, or `None` if the real value is zero.
    pub fn error_percent(&self) -> Option<f64> {
        (self.real != 0.0).then(|| 100.0 * (self.simulated - self.real) / self.real)
    }
}

/// The comparison of a simulated run with a real one.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// Figures that exist in both runs, job by job.
    pub figures: Vec<ComparedFigure>,
    /// Notes on jobs and directions that only one run has, and on jobs that failed, with the reason.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Compares the runs. Jobs are paired by name, jobs of equal name in order. If each run has a single job, the two
    /// are paired regardless of their names. Then the directions of each pair are compared.
    pub fn new(real: &RealRun, simulated: &[Report]) -> Comparison {
        let mut out = Comparison { figures: Vec::new(), notes: Vec::new() };
        if real.simulated {
            out.notes.push(
                "flashlab wrote the file to compare with, so its figures are simulated, too".to_owned(),
            );
        }
        let mut taken = vec![false; real.jobs.len()];
        let single = real.jobs.len() == 1 && simulated.len() == 1;
        for report in simulated {
            let name = &report.job.name;
            let found = (0..real.jobs.len()).find(|&i| !taken[i] && (single || real.jobs[i].name == *name));
            if single && real.jobs[0].name != *name {
                out.notes.push(format!(
                    "job {name} is compared with {}, the only job of the real run",
                    real.jobs[0].name
                ));
            }
            match found {
                Some(i) => {
                    taken[i] = true;
                    out.compare_job(&real.jobs[i], report);
                }
                None => out.notes.push(format!("job {name}: not in the real run")),
            }
        }
        for (job, _) in real.jobs.iter().zip(taken).filter(|(_, taken)| !taken) {
            out.notes.push(format!("job {}: not in the simulated run", job.name));
        }
        out
    }

    fn compare_job(&mut self, real: &RealJob, report: &Report) {
        let name = &report.job.name;
        if real.error != 0 {
            self.notes.push(format!("job {name}: the real run failed with error {}", real.error));
        }
        if let Some(failure) = &report.stats.failure {
            self.notes.push(format!("job {name}: the simulated run failed with error {}", failure.errno()));
        }
        let mut ours: Vec<(&str, Figures)> = Vec::new();
        for &(direction, direction_name) in report.shown() {
            if report.stats.direction(direction).runtime_ms > 0 {
                ours.push((direction_name, simulated_figures(report, direction)));
            }
        }
        for (direction, real) in &real.directions {
            match ours.iter().position(|(name, _)| name == direction) {
                Some(i) => self.compare_direction(name, direction, real, &ours.remove(i).1),
                None => self.notes.push(format!("job {name}: {direction} is not in the simulated run")),
            }
        }
        for (direction, _) in ours {
            self.notes.push(format!("job {name}: {direction} is not in the real run"));
        }
    }

    fn compare_direction(&mut self, job: &str, direction: &str, real: &Figures, simulated: &Figures) {
        let pairs = [
            (Measure::Bandwidth, Some(real.bytes_per_second), Some(simulated.bytes_per_second)),
            (Measure::Iops, Some(real.iops), Some(simulated.iops)),
            (Measure::ClatMean, Some(real.clat_ns_mean), Some(simulated.clat_ns_mean)),
            (Measure::ClatP50, real.clat_ns_p50, simulated.clat_ns_p50),
            (Measure::ClatP99, real.clat_ns_p99, simulated.clat_ns_p99),
            (Measure::ClatP999, real.clat_ns_p99_9, simulated.clat_ns_p99_9),
        ];
        for (measure, real, simulated) in pairs {
            if let (Some(real), Some(simulated)) = (real, simulated) {
                let (job, direction) = (job.to_owned(), direction.to_owned());
                self.figures.push(ComparedFigure { job, direction, measure, real, simulated });
            }
        }
    }
}

fn simulated_figures(report: &Report, direction: Direction) -> Figures {
    let stats = report.stats.direction(direction);
    let percentile = |percent: f64| Some(stats.clat.percentile(percent).min(stats.clat.max()).as_ns() as f64);
    Figures {
        bytes_per_second: stats.bytes_per_second() as f64,
        iops: stats.requests_per_second(),
        clat_ns_mean: stats.clat.mean_ns(),
        clat_ns_p50: percentile(50.0),
        clat_ns_p99: percentile(99.0),
        clat_ns_p99_9: percentile(99.9),
    }
}

impl Display for Comparison {
    /// Writes a table that names each job and direction once, followed by the notes.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["job", "direction", "figure", "real", "simulated", "error"].map(str::to_owned)];
        let mut last = ("", "");
        for figure in &self.figures {
            let here = (figure.job.as_str(), figure.direction.as_str());
            let shown = if here == last && figure.measure != Measure::Bandwidth { ("", "") } else { here };
            last = here;
            rows.push([
                shown.0.to_owned(),
                shown.1.to_owned(),
                figure.measure.name().to_owned(),
                figure.measure.print(figure.real),
                figure.measure.print(figure.simulated),
                figure.error_percent().map_or_else(|| "-".to_owned(), |e| format!("{e:+.1} %")),
            ]);
        }
        let widths: Vec<usize> =
            (0..6).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
        for row in &rows {
            let mut line = String::new();
            for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += if i == 0 { "" } else { "  " };
                line += &if i < 3 { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_has_three_digits_in_the_unit_of_its_rounded_value() {
        for (ns, expected) in [
            (0.0, "0.00 ns"),
            (9_994.0, "9.99 us"),
            (9_996.0, "10.0 us"),
            (99_940.0, "99.9 us"),
            (99_960.0, "100 us"),
            (999_400.0, "999 us"),
            (999_600.0, "1.00 ms"),
            (999_600_000.0, "1.00 s"),
            (12_345e9, "12345 s"),
        ] {
            assert_eq!(latency(ns), expected, "{ns}");
        }
    }
}
