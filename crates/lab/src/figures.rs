//! The figures of jobs on devices, which `bench` and `compare` write as JSON, CSV and pages.

use crate::bench::reads_unwritten;
use crate::results::Mechanisms;
use crate::run_inputs::DeviceInputs;
use flashlab_fio::job::Direction;
use flashlab_fio::stats::{JobStats, Report, Timeline};
use flashlab_sim::{Duration, Histogram, Mechanism};
use serde::Serialize;

/// The percentiles in a job's figures.
pub const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// The figures of all jobs on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// The argument that selected the device: `sd/kingston`.
    pub device: String,
    /// Full name of the device.
    pub title: String,
    /// Bytes that were written before the jobs began.
    pub written_first_bytes: u64,
    /// One entry for each direction of each job or group that moved data.
    pub jobs: Vec<JobFigures>,
    /// Remarks that a reader of the figures should know.
    pub notes: Vec<String>,
    /// The reason why the device has no figures.
    pub error: Option<String>,
    /// Inputs of the run that belong to the device.
    pub inputs: DeviceInputs,
}

/// Name that the figures of `fsync` and `fdatasync` calls have in place of a direction.
pub const SYNC: &str = "sync";

/// The figures of one direction of one job or group, or of its calls of `fsync` and `fdatasync`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobFigures {
    /// The job's name.
    pub job: String,
    /// `read`, `write`, `trim`, or `mixed` with `unified_rw_reporting`; [`SYNC`] for `fsync` and `fdatasync`.
    pub direction: &'static str,
    /// Requests or calls that completed.
    pub requests: u64,
    /// Bytes that these requests moved.
    pub bytes: u64,
    /// Simulated milliseconds from the first request to the end.
    pub runtime_ms: u64,
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: u64,
    /// Completion latency.
    pub latency: Latency,
    /// Mean nanoseconds per request by mechanism; they sum to the mean latency.
    pub mechanisms_ns: Mechanisms,
    /// True if most of these reads addressed data that was never written, and therefore did not access the
    /// flash.
    pub unwritten: bool,
    /// Bytes programmed in the flash per byte that the host wrote, over all jobs on the device; only for writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    /// Latencies over time, if the run collected them.
    #[serde(skip)]
    pub timeline: Option<Timeline>,
}

impl JobFigures {
    /// Sets the write amplification of the device if these figures are those of writes.
    pub fn set_write_amplification(&mut self, ratio: Option<f64>) {
        self.write_amplification = ratio.filter(|_| matches!(self.direction, "write" | "mixed"));
    }
}

/// Completion latency in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Minimum.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Maximum.
    pub max_ns: u64,
    /// Percent and nanoseconds for each of [`PERCENTILES`].
    pub percentiles_ns: Vec<(f64, u64)>,
    /// Midpoint in nanoseconds and count of each non-empty bucket of fio's histogram.
    pub histogram_ns: Vec<(u64, u64)>,
}

impl Latency {
    /// Returns one of the [`PERCENTILES`] in nanoseconds.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        self.percentiles_ns.iter().find(|(of, _)| *of == percent).map(|(_, ns)| *ns)
    }
}

/// Returns the figures of each direction of `report` in which a request completed, and those of its calls of
/// `fsync` and `fdatasync` if they took time. `t_read` is the read time of the device's array; `None` for a
/// device that reads ahead.
pub fn figures(report: &Report, t_read: Option<Duration>) -> Vec<JobFigures> {
    let unwritten = t_read.is_some_and(|t_read| reads_unwritten(report, t_read));
    let figure = |(direction, name): &(Direction, &'static str)| {
        Some(JobFigures {
            unwritten: *direction == Direction::Read && unwritten,
            ..figure(report, *direction, name)?
        })
    };
    report.shown().iter().filter_map(figure).chain(sync_figure(&report.job.name, &report.stats)).collect()
}

fn sync_figure(job: &str, stats: &JobStats) -> Option<JobFigures> {
    let calls = stats.sync.count();
    (stats.sync.sum_ns() > 0).then(|| JobFigures {
        job: job.to_owned(),
        direction: SYNC,
        requests: calls,
        bytes: 0,
        runtime_ms: runtime_ms(stats),
        iops: syncs_per_second(stats),
        bytes_per_second: 0,
        latency: latency(&stats.sync),
        mechanisms_ns: mechanisms(stats.sync_mechanisms_ns(), calls),
        unwritten: false,
        write_amplification: None,
        timeline: stats.sync_timeline.as_deref().cloned(),
    })
}

/// Returns the calls of `fsync` and `fdatasync` per second over the runtime of the job.
fn syncs_per_second(stats: &JobStats) -> f64 {
    let runtime_ms = runtime_ms(stats);
    if runtime_ms == 0 { 0.0 } else { 1_000.0 * stats.sync.count() as f64 / runtime_ms as f64 }
}

/// Returns the runtime of a job: the longest of its directions.
fn runtime_ms(stats: &JobStats) -> u64 {
    stats.directions.iter().map(|way| way.runtime_ms).max().unwrap_or(0)
}

/// Returns the summary of a histogram.
pub fn latency(of: &Histogram) -> Latency {
    let percentile = |percent: f64| (percent, of.percentile(percent).min(of.max()).as_ns());
    Latency {
        min_ns: of.min().as_ns(),
        mean_ns: of.mean_ns(),
        stddev_ns: of.stddev_ns(),
        max_ns: of.max().as_ns(),
        percentiles_ns: PERCENTILES.map(percentile).to_vec(),
        histogram_ns: of.occupied().collect(),
    }
}

/// Returns the mean time of each mechanism that took time.
fn mechanisms(totals_ns: impl Iterator<Item = (Mechanism, u64)>, requests: u64) -> Mechanisms {
    let spent = totals_ns.filter(|(_, ns)| *ns > 0);
    Mechanisms(spent.map(|(mechanism, ns)| (mechanism.name(), ns as f64 / requests as f64)).collect())
}

fn figure(report: &Report, direction: Direction, name: &'static str) -> Option<JobFigures> {
    let stats = report.stats.direction(direction);
    let clat = &stats.clat;
    if clat.count() == 0 {
        return None;
    }
    let requests = clat.count();
    Some(JobFigures {
        job: report.job.name.clone(),
        direction: name,
        requests,
        bytes: stats.io_bytes,
        runtime_ms: stats.runtime_ms,
        iops: stats.requests_per_second(),
        bytes_per_second: stats.bytes_per_second(),
        latency: latency(clat),
        mechanisms_ns: mechanisms(stats.mechanisms_ns(), requests),
        unwritten: false,
        write_amplification: None,
        timeline: stats.timeline.as_deref().cloned(),
    })
}
