//! Comparison of a simulated run with a real one, figure by figure, from the JSON that fio wrote on hardware.
//!
//! The JSON is untrusted input: its size is limited, and an error names the path of each value that is missing or has
//! the wrong type.

mod comparison;
mod pairs;

pub use comparison::{ComparedFigure, Comparison, Measure};

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

/// A job of a real run, or a group of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct RealJob {
    /// `jobname`.
    pub name: String,
    /// `error`; not 0 if the job failed.
    pub error: i64,
    /// `groupid`: number of the group. All jobs of a group run together.
    pub group: u64,
    /// `numjobs` of the job's options.
    pub clones: usize,
    /// Figures of the directions that transferred bytes, under fio's names (`read`, `write`, `trim`,
    /// `mixed`), and of the job's calls of `fsync` and `fdatasync` ([`SYNC`]).
    pub directions: Vec<(String, Figures)>,
}

/// fio's name for the calls of `fsync` and `fdatasync`, which it reports besides the directions.
pub const SYNC: &str = "sync";

/// The compared figures of one direction, and its number of requests. Percentiles are limited to the maximum
/// latency. The file may lack some figures: the rates of flushes, percentiles outside of the list, and all
/// latencies under `gtod_reduce=1`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Number of requests.
    pub requests: f64,
    /// Bytes a second.
    pub bytes_per_second: Option<f64>,
    /// Requests a second.
    pub iops: Option<f64>,
    /// Mean clat in nanoseconds; for flushes, their mean latency.
    pub mean_ns: Option<f64>,
    /// Median of the latencies in nanoseconds.
    pub p50_ns: Option<f64>,
    /// 99th percentile of the latencies in nanoseconds.
    pub p99_ns: Option<f64>,
    /// 99.9th percentile of the latencies in nanoseconds.
    pub p99_9_ns: Option<f64>,
}

impl RealRun {
    /// Parses fio's JSON. Text before the first line that begins with `{` (fio's notes), and text after the
    /// JSON object, is skipped.
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
        let global = value.get("global options");
        let mut simulated = false;
        let mut jobs = Vec::with_capacity(items.len());
        for (i, value) in items.iter().enumerate() {
            let job = JsonNode { value, path: format!("jobs[{i}]") };
            simulated |= value.get("flashlab").is_some();
            let numjobs = [value.get("job options"), global].into_iter().flatten().find_map(numjobs);
            jobs.push(real_job(&job, numjobs.unwrap_or(1))?);
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

/// Returns the number of clones that options request, if it is a plain number.
fn numjobs(options: &Value) -> Option<usize> {
    options.get("numjobs")?.as_str()?.parse().ok()
}

fn real_job(job: &JsonNode<'_>, clones: usize) -> Result<RealJob, AgainstError> {
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
    // fio 3.0 to 3.7 has no flushes.
    if job.value.get(SYNC).is_some() {
        let sync = job.get(SYNC)?;
        if sync.get("total_ios")?.number()? > 0.0 {
            directions.push((SYNC.to_owned(), latencies(&sync, &sync.get("lat_ns")?)?));
        }
    }
    Ok(RealJob {
        name: job.get("jobname")?.string()?,
        error: job.get("error")?.number()? as i64,
        group: job.value.get("groupid").and_then(Value::as_u64).unwrap_or(0),
        clones,
        directions,
    })
}

fn figures(direction: &JsonNode<'_>) -> Result<Figures, AgainstError> {
    let clat = direction.get("clat_ns")?;
    // `bw` is in KiB/s; `bw_bytes` exists since fio 3.3.
    let bytes_per_second = match direction.value.get("bw_bytes") {
        Some(_) => direction.get("bw_bytes")?.number()?,
        None => 1_024.0 * direction.get("bw")?.number()?,
    };
    let iops = direction.get("iops")?.number()?;
    let latencies = latencies(direction, &clat)?;
    Ok(Figures { bytes_per_second: Some(bytes_per_second), iops: Some(iops), ..latencies })
}

/// Returns the figures of `latency`, a member of `direction`, without rates.
fn latencies(direction: &JsonNode<'_>, latency: &JsonNode<'_>) -> Result<Figures, AgainstError> {
    // fio states zero for a latency that it did not measure.
    let stated = |node: JsonNode<'_>| node.number().map(|ns| Some(ns).filter(|ns| *ns > 0.0));
    // fio's percentiles are midpoints of histogram buckets, so the highest ones may exceed the maximum, which is exact.
    let max = latency.value.get("max").and_then(Value::as_f64).unwrap_or(f64::INFINITY);
    let percentile = |key: &str| match latency.value.get("percentile").and_then(|list| list.get(key)) {
        None => Ok(None),
        Some(_) => stated(latency.get("percentile")?.get(key)?).map(|ns| ns.map(|ns| ns.min(max))),
    };
    Ok(Figures {
        requests: direction.value.get("total_ios").and_then(Value::as_f64).unwrap_or(0.0),
        bytes_per_second: None,
        iops: None,
        mean_ns: stated(latency.get("mean")?)?,
        p50_ns: percentile("50.000000")?,
        p99_ns: percentile("99.000000")?,
        p99_9_ns: percentile("99.900000")?,
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
