//! Traces that a job replays with `read_iolog=`: iologs of fio and recordings.
//!
//! An iolog is the source of requests of an ordinary job. A recording has dependencies and a schedule of its own, so its
//! job runs alone, on the bare device, and most options of a job do not apply to it.

use super::{BenchError, RecordingError};
use flashlab_catalogue::digest::of_bytes;
use flashlab_fio::iolog::Iolog;
use flashlab_fio::job::{Extent, Job};
use flashlab_recording::{Mode, Source};
use flashlab_sim::Duration;

/// A trace that `read_iolog=` names.
#[derive(Clone, Debug)]
pub enum Trace {
    /// An iolog of fio.
    Iolog(Iolog),
    /// A recording of flashlab.
    Recording(Box<Source>),
}

impl Trace {
    /// Returns the digest of the trace's content in 16 hexadecimal digits.
    pub(crate) fn digest(&self) -> String {
        match self {
            Trace::Iolog(iolog) => of_bytes(format!("{iolog:?}").as_bytes()),
            Trace::Recording(source) => source.digest().to_owned(),
        }
    }

    /// Returns the iolog, unless the trace is a recording.
    pub(crate) fn iolog(&self) -> Option<&Iolog> {
        match self {
            Trace::Iolog(iolog) => Some(iolog),
            Trace::Recording(_) => None,
        }
    }

    /// Returns the recording, unless the trace is an iolog.
    pub(crate) fn recording(&self) -> Option<&Source> {
        match self {
            Trace::Iolog(_) => None,
            Trace::Recording(source) => Some(source),
        }
    }
}

/// Returns the rule by which `job` replays `recording`. With `replay_no_stall`, requests follow each other as
/// fast as `iodepth=` allows. Otherwise the dependencies of the recording apply, or its timestamps if it has
/// no dependencies.
pub(super) fn mode(job: &Job, recording: &Source) -> Mode {
    if job.replay_no_stall {
        Mode::Fast { depth: job.depth.max(1) }
    } else if recording.header().has_dependencies {
        Mode::Dependencies
    } else {
        Mode::Timestamps { numerator: 1, denominator: 1 }
    }
}

/// Checks that `job` can replay `recording` on a device of `capacity` bytes.
pub(super) fn check(job: &Job, recording: &Source, capacity: u64) -> Result<(), BenchError> {
    let fault = |error| BenchError::Recording { job: job.name.clone(), error };
    if let Some(option) = inapplicable(job) {
        return Err(fault(RecordingError::Option(option)));
    }
    let summary = recording.summary();
    if summary.end > capacity {
        return Err(fault(RecordingError::TooLarge {
            step: summary.highest_step,
            end: summary.end,
            capacity,
        }));
    }
    Ok(())
}

/// Returns an option of `job` that would have no effect on a recording.
fn inapplicable(job: &Job) -> Option<&'static str> {
    let options = [
        (job.directory.is_some(), "directory="),
        (job.clone > 0, "numjobs="),
        (job.loops > 1, "loops="),
        (job.number_ios.is_some(), "number_ios="),
        (job.io_size.is_some(), "io_size="),
        (job.size.is_some(), "size="),
        (job.offset != Extent::Bytes(0), "offset="),
        (job.rate.iter().any(Option::is_some), "rate="),
        (job.rate_iops.iter().any(Option::is_some), "rate_iops="),
        (job.max_latency.iter().any(Option::is_some), "max_latency="),
        (job.time_based, "time_based"),
        (job.ramp_time > Duration::ZERO, "ramp_time="),
        (job.start_delay > Duration::ZERO, "startdelay="),
        (job.think_time > Duration::ZERO, "thinktime="),
        (job.fsync > 0, "fsync="),
        (job.fdatasync > 0, "fdatasync="),
        (job.fsync_on_close, "fsync_on_close"),
        (job.end_fsync, "end_fsync"),
        (job.sync.is_some(), "sync="),
        (job.verify.method().is_some(), "verify="),
    ];
    options.into_iter().find_map(|(is_set, option)| is_set.then_some(option))
}
