//! Observations of a device, and the file that stores them: `card.json`.
//!
//! A measurement file lists the steps of a measurement in the order in which they ran. A step contains everything that a
//! simulator needs to repeat it: the options of the fio jobs, the state of the device before them, and the rest. A step
//! without observations only prepares the device for the steps after it.
//!
//! [`Measurements::parse`] reads a file and names the place of each fault. [`Measurements::to_json`] writes one.

mod error;
mod quantity;
mod read;
mod wire;

pub use error::{FileError, Problem};
pub use quantity::{Quantity, UnknownQuantity};
pub use read::problem_of;

use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::{Direction, Job};
use flashlab_fio::loader::NoFiles;
use flashlab_sim::{Duration, Histogram};
use serde::{Deserialize, Serialize};

/// Version of the file format that this crate writes. It reads this version and all versions before it.
pub const VERSION: u32 = 1;

/// A measurement of one device: the contents of a measurement file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// The measured device.
    pub target: Target,
    /// Name of the host's profile, such as `raspberry-pi-4`; `None` if the host is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Program that measured, such as `simulated`, `flashlab threads`, `fio-3.36` or `hdparm`.
    pub engine: String,
    /// Name of the plan, if a plan determined the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Steps in the order in which they ran.
    pub steps: Vec<Step>,
}

/// The measured device, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name by which the user refers to the device: a path, a URI, the name of a virtual device.
    pub name: String,
    /// Capacity in bytes; of a file, its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Logical block in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
    /// Model, as the device or the user states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Identity of the filesystem, if the device was measured in a directory: the UUID, or else the `f_fsid` of
    /// statvfs(3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem_id: Option<String>,
}

/// State of the addresses that a step accesses, before the step begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The state in which the preceding steps of the file left the device.
    #[default]
    AsLeft,
    /// Nothing is known about the state. Outputs of other programs seldom describe it.
    Unknown,
    /// The whole device has never been written. A simulator starts from a new device.
    New,
    /// The addresses were discarded; the rest of the device is as the preceding steps left it.
    Discarded,
    /// The addresses were written once, in ascending order and with large requests.
    WrittenInSequence,
    /// The addresses were written in random order, with requests of the step's size.
    WrittenAtRandom,
}

/// A reservation about the observations of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// The step ended before its jobs were complete. Its observations describe the part that ran.
    Incomplete,
    /// The program or the device reported a warning; [`Step::notes`] contains it.
    Warned,
}

/// One step: fio jobs that ran, their preparation, and their results.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name of the step; unique in its file.
    pub name: String,
    /// Options of fio's command line, one per element: `--name=read`, `--rw=randread`, `--bs=4k`. Several jobs follow
    /// one another; each begins with its `--name`.
    pub job: Vec<String>,
    /// State of the accessed addresses before the step.
    #[serde(default)]
    pub before: State,
    /// Time between the end of the preceding step and the start of this one, during which the device was idle.
    #[serde(default, rename = "rest_ns", with = "wire::nanoseconds", skip_serializing_if = "wire::is_zero")]
    pub rest: Duration,
    /// Filesystem under the jobs, such as `vfat` or `ext4`; `None` for the bare device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
    /// Assumptions about the job or the state that the source of the numbers does not state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// Results. A step without any only prepares the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<Observation>,
    /// Distributions of the completion latencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<Latencies>,
    /// Reservations about the observations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Text of warnings and errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One measured number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// Name of the job among the jobs of the step; `None` for all of them together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Direction of the requests.
    #[serde(with = "wire::direction")]
    pub direction: Direction,
    /// Quantity and its unit.
    pub quantity: Quantity,
    /// Mean over the runs, in the unit of the quantity; above zero.
    pub value: f64,
    /// Sample standard deviation over the runs; `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd: Option<f64>,
    /// Number of runs; at least 1.
    #[serde(default = "wire::one")]
    pub runs: u32,
}

/// The distribution of the completion latencies of one direction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Name of the job among the jobs of the step; `None` for all of them together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Direction of the requests.
    #[serde(with = "wire::direction")]
    pub direction: Direction,
    /// Number of requests.
    pub count: u64,
    /// Shortest latency.
    pub min_ns: u64,
    /// Longest latency.
    pub max_ns: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Non-empty buckets of fio's histogram, in ascending order: midpoint in nanoseconds and count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<(u64, u64)>,
    /// Latencies one by one, in the order of completion, for steps whose order matters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series_ns: Vec<u64>,
}

impl Measurements {
    /// Returns the step with this name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }
}

impl Step {
    /// Parses the options of the step's jobs.
    pub fn jobs(&self) -> Result<Vec<Job>, flashlab_fio::error::Error> {
        Ok(Invocation::parse(&self.job, &NoFiles)?.jobs)
    }

    /// Returns the first observation with this direction and quantity.
    pub fn find(&self, direction: Direction, quantity: Quantity) -> Option<&Observation> {
        self.observations.iter().find(|o| o.direction == direction && o.quantity == quantity)
    }

    /// Returns true if the step has this mark.
    pub fn is_marked(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }
}

impl Observation {
    /// Returns an observation of one run over all jobs of a step.
    pub fn new(direction: Direction, quantity: Quantity, value: f64) -> Self {
        Observation { job: None, direction, quantity, value, sd: None, runs: 1 }
    }
}

impl Latencies {
    /// Returns the summary of `histogram`, without a series.
    pub fn of(direction: Direction, histogram: &Histogram) -> Self {
        Latencies {
            job: None,
            direction,
            count: histogram.count(),
            min_ns: histogram.min().as_ns(),
            max_ns: histogram.max().as_ns(),
            mean_ns: histogram.mean_ns(),
            buckets: histogram.occupied().collect(),
            series_ns: Vec::new(),
        }
    }

    /// Returns the midpoint of the bucket that contains the percentile, as fio does; `None` without buckets.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let rank = ((self.count as f64 * percent / 100.0).ceil() as u64).max(1);
        let mut below = 0;
        self.buckets.iter().find_map(|(midpoint, count)| {
            below += count;
            (below >= rank).then_some(*midpoint)
        })
    }
}
