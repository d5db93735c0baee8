//! Runs one set of jobs on several devices and compares the results.

use crate::bench::{Bench, BenchError, Hint, hints, reads_unwritten, refusal, work};
use crate::dependence::{dependence, figures as compared_figures};
use crate::experiment::map_parallel::map_parallel;
use crate::figures::{DeviceFigures, JobFigures, SYNC, figures, syncs_per_second};
use crate::progress::Progress;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::{Direction, Job};
use flashlab_fio::stats::{JobStats, Report, Settings, Tail};
use flashlab_sim::{Duration, Histogram, Mechanism};

/// The row of one device.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The device as the argument names it: `sd/kingston`.
    pub device: String,
    /// The full name of the device.
    pub title: String,
    /// One line for each direction of each job or group that moved data, or the error that ended the jobs.
    pub lines: Result<Vec<Line>, BenchError>,
    /// Hints for the reader of the lines.
    pub hints: Vec<Hint>,
    /// Bytes that were written before the jobs because the jobs read them.
    pub written_first_bytes: u64,
    /// The complete figures of each line; empty if there are no lines.
    pub figures: Vec<JobFigures>,
    /// Notes on numbers of the device that have no source or that no measurement determines.
    pub remarks: Vec<String>,
}

impl Compared {
    /// Returns the row in the form that JSON, CSV and pages use.
    pub fn device_figures(&self) -> DeviceFigures {
        DeviceFigures {
            device: self.device.clone(),
            title: self.title.clone(),
            written_first_bytes: self.written_first_bytes,
            jobs: self.figures.clone(),
            notes: self.hints.iter().map(Hint::to_string).chain(self.remarks.iter().cloned()).collect(),
            error: self.lines.as_ref().err().map(BenchError::to_string),
        }
    }
}

/// One direction of one job or group, or its calls of `fsync` and `fdatasync`.
#[derive(Clone, Debug)]
pub struct Line {
    /// The job's name.
    pub job: String,
    /// Name of the direction, or [`SYNC`].
    pub direction: &'static str,
    /// Bytes per second; `None` for calls that move none.
    pub bytes_per_second: Option<u64>,
    /// Requests per second.
    pub requests_per_second: f64,
    /// Mean completion latency in nanoseconds.
    pub latency_ns_mean: f64,
    /// The tail of the completion latency.
    pub tail: Tail,
    /// The mechanism that took most of the time, and its share in percent.
    pub most: (Mechanism, f64),
    /// True if most of these reads addressed data that was never written and did not access the flash, so that the
    /// figures say nothing about it.
    pub unwritten: bool,
}

/// Runs `jobs` on each of `devices`. `prepare` creates the bench of a device. The devices are independent of each
/// other. With `write_first`, the ranges that the jobs read are written to each new device before the jobs begin.
/// `settings` are those of the statistics.
pub fn compare(
    devices: &[Device],
    library: &Library,
    prepare: &(dyn Fn(&Device) -> Result<Bench, BenchError> + Sync),
    jobs: &[Job],
    write_first: bool,
    settings: &Settings,
    progress: &Progress,
) -> Vec<Compared> {
    progress.plan(devices.iter().map(|device| work(jobs, device.capacity())).sum());
    map_parallel(devices, |device| {
        progress.enter(device.name.as_str());
        let run = |device: &Device, progress: Option<&Progress>| {
            let mut bench = prepare(device)?;
            if let Some(progress) = progress {
                bench.report_to(progress);
            }
            let written_first_bytes = match write_first && device.state.is_none() {
                true => bench.write_before_read(jobs)?,
                false => 0,
            };
            let reports = bench.run(jobs, settings)?.reports(jobs);
            refusal(&reports).map_or(Ok((reports, written_first_bytes)), Err)
        };
        let outcome = run(device, Some(progress));
        let written_first_bytes = outcome.as_ref().map_or(0, |(_, bytes)| *bytes);
        let reports = outcome.map(|(reports, _)| reports);
        let mut remarks = device.remarks();
        if let Ok(reports) = &reports {
            let again = |other: &Device| Ok(compared_figures(&run(other, None)?.0));
            let depends = dependence(device, library, reports, &again);
            remarks.extend(depends.iter().map(|what| format!("{} {what}", device.argument)));
        }
        let t_read = device.t_read();
        let ran = reports.as_deref().unwrap_or_default();
        let hints = hints(ran, t_read);
        let figures = ran.iter().flat_map(|report| figures(report, Some(t_read))).collect();
        let lines = reports.map(|reports| reports.iter().flat_map(|report| lines(report, t_read)).collect());
        Compared {
            device: device.label(),
            title: device.title.clone(),
            lines,
            hints,
            written_first_bytes,
            figures,
            remarks,
        }
    })
}

fn lines(report: &Report, t_read: Duration) -> Vec<Line> {
    let (job, stats) = (&report.job.name, &report.stats);
    let unwritten = reads_unwritten(report, t_read);
    let line = |direction| {
        let figures = stats.direction(direction);
        let tail = Tail::from_histogram(&figures.clat)?;
        Some(Line {
            job: job.clone(),
            direction: direction.name(),
            bytes_per_second: Some(figures.bytes_per_second()),
            requests_per_second: figures.requests_per_second(),
            latency_ns_mean: figures.clat.mean_ns(),
            tail,
            most: most(figures.mechanisms_ns(), &figures.clat)?,
            unwritten: direction == Direction::Read && unwritten,
        })
    };
    Direction::ALL.into_iter().filter_map(line).chain(sync_line(job, stats)).collect()
}

/// Returns the line of the calls of `fsync` and `fdatasync`, if they took time.
fn sync_line(job: &str, stats: &JobStats) -> Option<Line> {
    let sync = Some(&stats.sync).filter(|sync| sync.sum_ns() > 0)?;
    Some(Line {
        job: job.to_owned(),
        direction: SYNC,
        bytes_per_second: None,
        requests_per_second: syncs_per_second(stats),
        latency_ns_mean: sync.mean_ns(),
        tail: Tail::from_histogram(sync)?,
        most: most(stats.sync_mechanisms_ns(), sync)?,
        unwritten: false,
    })
}

/// Returns the mechanism that took most of the time, and its share in percent.
fn most(
    mechanisms_ns: impl Iterator<Item = (Mechanism, u64)>,
    latencies: &Histogram,
) -> Option<(Mechanism, f64)> {
    let (mechanism, ns) = mechanisms_ns.max_by_key(|(_, ns)| *ns)?;
    Some((mechanism, 100.0 * ns as f64 / (latencies.sum_ns() as f64).max(1.0)))
}

/// Returns the device with the most requests per second in one direction of a job. Returns `None` if fewer than two
/// devices have a figure, if the first two figures are equal when rounded as in a table, or if one of the figures comes
/// from reads of data that was never written.
pub fn fastest<'a>(compared: &'a [Compared], job: &str, direction: Direction) -> Option<&'a Compared> {
    let mut rates: Vec<(&Compared, f64)> = Vec::new();
    for device in compared {
        let lines = device.lines.as_ref().map_or(&[][..], Vec::as_slice);
        let Some(line) = lines.iter().find(|line| line.job == job && line.direction == direction.name())
        else {
            continue;
        };
        if line.unwritten {
            return None;
        }
        rates.push((device, line.requests_per_second.round()));
    }
    rates.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    match rates[..] {
        [(first, most), (_, next), ..] if most > next => Some(first),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(device: &str, iops: f64, unwritten: bool) -> Compared {
        let mut latencies = Histogram::new();
        latencies.record(Duration::from_us(1));
        let line = Line {
            job: "a".into(),
            direction: "read",
            bytes_per_second: Some(1),
            requests_per_second: iops,
            latency_ns_mean: 1.0,
            tail: Tail::from_histogram(&latencies).expect("the histogram has a latency"),
            most: (Mechanism::Bus, 100.0),
            unwritten,
        };
        let lines = Ok(vec![line]);
        Compared {
            device: device.into(),
            title: String::new(),
            lines,
            hints: vec![],
            written_first_bytes: 0,
            figures: vec![],
            remarks: vec![],
        }
    }

    #[test]
    fn nothing_is_fastest_among_equal_or_unmeasured_results() {
        let name = |compared: &[Compared]| {
            fastest(compared, "a", Direction::Read).map(|device| device.device.clone())
        };
        let (slow, fast) = (compared("slow", 10.0, false), compared("fast", 20.0, false));
        assert_eq!(name(&[slow.clone(), fast.clone()]), Some("fast".to_owned()));
        assert_eq!(name(&[fast.clone(), compared("as fast", 20.3, false), slow.clone()]), None);
        assert_eq!(name(&[fast.clone(), slow, compared("empty", 30.0, true)]), None);
        assert_eq!(name(&[fast]), None);
    }
}
