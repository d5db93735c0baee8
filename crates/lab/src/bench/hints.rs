//! Hints on results whose numbers alone would mislead.

use flashlab_fio::job::Direction;
use flashlab_fio::stats::Report;
use flashlab_sim::{Duration, Mechanism};
use std::fmt;

/// A fact that a reader of results should know and that the numbers do not show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hint {
    /// Most reads of a job addressed data that was never written.
    ReadsUnwritten {
        /// The job.
        job: String,
    },
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::ReadsUnwritten { job } => write!(
                f,
                "job `{job}` mostly reads data that was never written, which a device answers without accessing its flash: a \
                 used device is slower. To read written data, omit --unwritten, or add a job before it that writes \
                 the data, and `stonewall` to this job"
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

/// Returns the hints on jobs that ran on a device whose array access takes `t_read` (`flash.t_read`); none for a card
/// that reads ahead, many of whose reads of written data need no access.
pub fn hints(reports: &[Report], t_read: Option<Duration>) -> Vec<Hint> {
    let mut hints: Vec<Hint> = Vec::new();
    let Some(t_read) = t_read else { return hints };
    for report in reports.iter().filter(|report| reads_unwritten(report, t_read)) {
        let hint = Hint::ReadsUnwritten { job: report.job.name.clone() };
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints
}
