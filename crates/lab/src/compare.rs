//! One job on many devices: which card for my job?

use crate::bench::{Bench, BenchError};
use crate::device::{Device, Filesystem};
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

/// Runs `jobs` on a fresh one of each device. Devices know nothing of each other.
pub fn compare(
    devices: &[Device],
    filesystem: Option<&Filesystem>,
    jobs: &[Job],
    seed: u64,
    done: &dyn Fn(),
) -> Vec<Compared> {
    let run = |device: &Device| {
        let mut bench = Bench::new(device.build(seed));
        if let Some(filesystem) = filesystem {
            bench.format_once(&filesystem.vfat)?;
        }
        let statistics = bench.run(jobs, &Settings::default())?;
        let reports = statistics.reports(jobs);
        Ok(reports.iter().flat_map(|report| lines(&report.job.name, &report.stats)).collect())
    };
    let compared = devices.iter().map(|device| {
        let lines = run(device);
        done();
        Compared { device: device.argument.clone(), title: device.title.clone(), lines }
    });
    compared.collect()
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
