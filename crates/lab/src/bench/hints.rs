//! Hints on results whose numbers alone would mislead.

use flashlab_fio::job::Direction;
use flashlab_fio::stats::Report;
use flashlab_sim::{Duration, Mechanism};
use std::fmt;

/// A fact that a reader of results should know and that the numbers do not show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hint {
    /// Most reads of a job addressed data that was never written, or that was trimmed.
    ReadsUnwritten {
        /// The job.
        job: String,
        /// True if a job of the run trimmed data.
        trimmed: bool,
    },
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::ReadsUnwritten { job, trimmed: true } => write!(
                f,
                "job `{job}` mostly reads data that was trimmed or never written, which a device answers without \
                 accessing its flash: a used device is slower. To read written data, add a job that writes \
                 the data after the trims, and add `stonewall` to that job and to this one"
            ),
            Hint::ReadsUnwritten { job, trimmed: false } => write!(
                f,
                "job `{job}` mostly reads data that was never written, which a device answers without accessing its flash: a \
                 used device is slower. To read written data, omit --unwritten, or add a job that writes the \
                 data before this job, and add `stonewall` to this job"
            ),
        }
    }
}

/// Returns true if fewer than half of the reads of the device accessed the array. One access takes `t_read`.
pub(crate) fn reads_unwritten(report: &Report, t_read: Duration) -> bool {
    let reads = report.stats.direction(Direction::Read);
    // An access takes at least about three quarters of t_read: profiles let it vary around t_read by up to 25 %.
    let access_ns_min = (t_read.as_ns() * 3 / 4).max(1);
    let accesses_at_most = reads.mechanism_ns(Mechanism::Read) / access_ns_min;
    let of_device = match report.job.buffered {
        // Only reads that wait for the device take longer than an access; the page cache answers the others.
        true => reads.clat.occupied().filter(|(ns, _)| *ns >= access_ns_min).map(|(_, count)| count).sum(),
        false => reads.total_ios(),
    };
    accesses_at_most < of_device.div_ceil(2)
}

/// Returns the hints on jobs that ran on a device whose array access takes `t_read` (`flash.t_read`). A
/// device that reads ahead has no `t_read` and gets no hints, because many of its reads of written data need
/// no access.
pub fn hints(reports: &[Report], t_read: Option<Duration>) -> Vec<Hint> {
    let mut hints: Vec<Hint> = Vec::new();
    let Some(t_read) = t_read else { return hints };
    let trimmed = reports.iter().any(|report| report.stats.direction(Direction::Trim).total_ios() > 0);
    for report in reports.iter().filter(|report| reads_unwritten(report, t_read)) {
        let hint = Hint::ReadsUnwritten { job: report.job.name.clone(), trimmed };
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use flashlab_catalogue::{device::Device, library::Library};
    use flashlab_fio::{cmdline::Invocation, loader::NoFiles, stats::Settings};

    #[test]
    fn the_hint_on_a_run_with_trims_mentions_trimmed_data() {
        let library = Library::built_in().expect("the repository's own library");
        let device = Device::open("sd/kingston", &library).expect("it exists");
        let hint = |line: &str| {
            let jobs =
                Invocation::parse(&line.split(' ').collect::<Vec<_>>(), &NoFiles).expect("a valid line").jobs;
            let mut bench = Bench::with(&device, 1);
            let statistics = bench.run(&jobs, &Settings::default()).expect("the jobs run");
            hints(&statistics.reports(&jobs), device.t_read()).iter().map(Hint::to_string).collect::<String>()
        };
        let reads = "--size=1m --direct=1 --name=a --stonewall --rw=randread --bs=4k";
        assert!(hint(reads).contains("omit --unwritten"));
        let after =
            hint(&format!("--size=1m --direct=1 --name=w --rw=write --name=t --stonewall --rw=trim {reads}"));
        assert!(after.contains("was trimmed") && !after.contains("--unwritten"), "{after}");
    }
}
