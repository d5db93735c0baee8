//! One job on many devices: which card for my job?

use crate::bench::{Bench, BenchError, Hint, hints, refusal, work};
use crate::device::Device;
use crate::experiment::side_by_side::side_by_side;
use crate::progress::Progress;
use flashlab_fio::job::{Direction, Job};
use flashlab_fio::stats::{JobStats, Settings, Tail};
use flashlab_sim::Mechanism;

/// A device's row.
#[derive(Clone, Debug)]
pub struct Compared {
    /// As it was asked for: `sd/kingston`.
    pub device: String,
    /// What it is.
    pub title: String,
    /// What came out, a line for each direction of each job or group that moved data; or why nothing did.
    pub lines: Result<Vec<Line>, BenchError>,
    /// What a reader of the lines should know.
    pub hints: Vec<Hint>,
}

/// One direction of one job or group.
#[derive(Clone, Debug)]
pub struct Line {
    /// The job's name.
    pub job: String,
    /// The direction.
    pub direction: Direction,
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Requests a second.
    pub requests_per_second: f64,
    /// Mean completion latency in nanoseconds.
    pub latency_ns_mean: f64,
    /// The tail of the completion latency.
    pub tail: Tail,
    /// The mechanism that took most of the time, with its share in percent.
    pub most: (Mechanism, f64),
}

/// Runs `jobs` on each device, which `prepare` puts on a bench. Devices know nothing of each other.
pub fn compare(
    devices: &[Device],
    prepare: &(dyn Fn(&Device) -> Result<Bench, BenchError> + Sync),
    jobs: &[Job],
    progress: &Progress,
) -> Vec<Compared> {
    progress.plan(devices.iter().map(|device| work(jobs, device.capacity())).sum());
    side_by_side(devices, |device| {
        progress.enter(device.name.as_str());
        let reports = prepare(device).and_then(|mut bench| {
            bench.report_to(progress);
            let reports = bench.run(jobs, &Settings::default())?.reports(jobs);
            refusal(&reports).map_or(Ok(reports), Err)
        });
        let hints = reports.as_ref().map_or(Vec::new(), |reports| hints(reports, device.t_read()));
        let lines =
            reports.map(|reports| reports.iter().flat_map(|r| lines(&r.job.name, &r.stats)).collect());
        Compared { device: device.argument.clone(), title: device.title.clone(), lines, hints }
    })
}

fn lines(job: &str, stats: &JobStats) -> Vec<Line> {
    let line = |direction| {
        let figures = stats.direction(direction);
        let tail = Tail::of(&figures.clat)?;
        let (mechanism, ns) = figures.mechanisms_ns().max_by_key(|(_, ns)| *ns)?;
        let share = 100.0 * ns as f64 / (figures.clat.sum_ns() as f64).max(1.0);
        Some(Line {
            job: job.to_owned(),
            direction,
            bytes_per_second: figures.bytes_per_second(),
            requests_per_second: figures.requests_per_second(),
            latency_ns_mean: figures.clat.mean_ns(),
            tail,
            most: (mechanism, share),
        })
    };
    Direction::ALL.into_iter().filter_map(line).collect()
}
