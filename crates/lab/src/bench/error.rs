//! Errors of the bench: jobs that cannot run, and jobs that ended early.

use super::{Unmodelled, YEARS};
use flashlab_fio::job::Direction;
use flashlab_fio::stats::Report;
use flashlab_fio::workload::{Cause, WorkloadError};
use flashlab_host::fs::NoRoom;
use flashlab_sim::{Duration, Instant, Status};
use std::fmt;

/// The reason why jobs could not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BenchError {
    /// A job names no directory although the device has a filesystem. The job would write to the device below
    /// that filesystem.
    NoDirectory {
        /// The job.
        job: String,
    },
    /// A job trims files, which the filesystem does not support.
    NoTrim {
        /// The job.
        job: String,
        /// Name of the filesystem's model.
        filesystem: &'static str,
    },
    /// A job states no file size, and its files do not exist.
    NoSize {
        /// The job.
        job: String,
    },
    /// A file does not fit on the filesystem.
    NoRoom {
        /// The file.
        file: String,
        /// The error of the filesystem, with a size that fits.
        error: NoRoom,
    },
    /// A file does not fit on the bare device.
    NoSpace {
        /// The file.
        file: String,
        /// Size of the file in bytes.
        size: u64,
        /// Free bytes after the other files.
        left: u64,
    },
    /// A buffered job has no model.
    Unmodelled {
        /// The job.
        job: String,
        /// The reason.
        why: Unmodelled,
        /// Command that records the job under a real kernel.
        record: Option<String>,
    },
    /// The device is too small for the filesystem.
    TooSmall,
    /// A size or offset of a job is not a multiple of the device's block size.
    NotWholeBlocks {
        /// The job.
        job: String,
        /// The option: `bs`, `offset`, ...
        option: &'static str,
        /// Value of the option in bytes.
        bytes: u64,
        /// Block size of the device in bytes.
        block: u64,
    },
    /// A job has `verify=`, but the device only simulates times and stores no bytes.
    NoBytes {
        /// The job.
        job: String,
    },
    /// A job sets `write_iolog=` in a wave in which a job sets `verify=`.
    IologOfVerify {
        /// The job.
        job: String,
    },
    /// A job cannot replay its recording.
    Recording {
        /// The job.
        job: String,
        /// The reason.
        error: RecordingError,
    },
    /// The device rejected a request.
    Refused {
        /// The job.
        job: String,
        /// Direction of the request.
        direction: Direction,
        /// First byte of the request.
        offset: u64,
        /// Length of the request in bytes.
        length: u64,
        /// Status of the request.
        status: Status,
    },
    /// The device rejected a flush.
    FlushRejected {
        /// The job.
        job: String,
        /// Status of the flush.
        status: Status,
    },
    /// A request took longer than `max_latency=` allows, which ended its job.
    MaxLatency {
        /// The job.
        job: String,
        /// Direction of the request.
        direction: Direction,
        /// First byte of the request.
        offset: u64,
        /// Latency of the request.
        took: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The device is read-only because too many of its erase blocks are bad.
    ReadOnly {
        /// The job whose write or flush the device rejected.
        job: String,
        /// Bytes that all jobs had written by then.
        written: u64,
        /// Simulated time since the bench was created.
        after: Duration,
    },
    /// The jobs would run beyond the end of simulated time.
    TooLong,
    /// The user stopped the run, so the figures would be incomplete.
    Stopped,
    /// A job cannot run on its files or its device.
    Workload(WorkloadError),
}

/// Formats a quantity in the largest of `units` that it contains at least twice, or else in the smallest.
/// `units` are in descending order.
fn in_words(quantity: f64, units: &[(f64, &str)]) -> String {
    let unit = units.iter().find(|(worth, _)| quantity >= 2.0 * worth).or(units.last());
    let (worth, name) = unit.expect("there is a unit");
    format!("{:.1} {name}", quantity / worth)
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::NoDirectory { job } => write!(
                f,
                "job `{job}` would write to the device below a filesystem: add directory=/mnt, or leave --fs out"
            ),
            BenchError::NoTrim { job, filesystem } => {
                write!(
                    f,
                    "job `{job}` trims files, which {filesystem} does not support: leave --fs and directory= out to \
                     trim the device"
                )
            }
            BenchError::NoSize { job } => {
                write!(f, "job `{job}` does not state the size of its files: add size= or filesize=")
            }
            BenchError::NoRoom { file, error } => write!(f, "{file}: {error}; lower size= or filesize="),
            BenchError::NoSpace { file, size, left } => write!(
                f,
                "{file}: a file of {size} B does not fit on the device, which has {left} B left; lower size= or filesize="
            ),
            BenchError::Unmodelled { job, why, record } => {
                write!(f, "job `{job}` is buffered (direct=0, fio's default): {why}")?;
                match record {
                    Some(command) => write!(
                        f,
                        ". To record the job under a real kernel and replay it on any device:\n    {command}"
                    ),
                    None => Ok(()),
                }
            }
            BenchError::TooSmall => write!(f, "the device is too small for a FAT32 filesystem"),
            BenchError::NotWholeBlocks { job, option, bytes, block } => write!(
                f,
                "job `{job}`: {option}={bytes} is not a multiple of the device's block of {block} bytes, as direct I/O requires"
            ),
            BenchError::NoBytes { job } => write!(
                f,
                "job `{job}` has verify=, but this run only simulates times and stores no bytes: use `bench --bytes`, memory:, \
                 file: or a device with layers"
            ),
            BenchError::IologOfVerify { job } => write!(
                f,
                "job `{job}` has write_iolog= and verify=, but the iolog would lack the reads of verify=: remove one of \
                 the two options"
            ),
            BenchError::Recording { job, error } => write!(f, "job `{job}`{error}"),
            BenchError::Refused { job, direction, offset, length, status } => {
                let (direction, why) = (direction.name(), reason_of_rejection(*status, *direction));
                write!(
                    f,
                    "job `{job}` ended early: the device rejected a {direction} of {length} bytes at byte {offset}: {why}"
                )
            }
            BenchError::FlushRejected { job, status } => {
                let why = reason_of_rejected_flush(*status);
                write!(f, "job `{job}` ended early: the device rejected a flush: {why}")
            }
            BenchError::MaxLatency { job, direction, offset, took, limit } => write!(
                f,
                "job `{job}` ended early: a {} at byte {offset} took {:.3} ms, longer than max_latency={}us; the results end \
                 with this request",
                direction.name(),
                took.as_ns() as f64 / 1e6,
                limit.as_ns() / 1_000
            ),
            BenchError::ReadOnly { job, written, after } => write!(
                f,
                "job `{job}` ended early: the device became read-only because too many of its erase blocks are bad. By then, \
                 {} after the start, the jobs had written {}",
                in_words(after.as_ns() as f64 / 1e9, &[(3_600.0, "h"), (60.0, "min"), (1.0, "s")]),
                in_words(*written as f64, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")])
            ),
            BenchError::TooLong => write!(
                f,
                "the jobs are not done after {YEARS} years of simulated time: lower runtime=, startdelay= or thinktime=, or \
                 shorten the iolog"
            ),
            BenchError::Stopped => f.write_str("stopped before the jobs were done"),
            BenchError::Workload(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BenchError {}

impl BenchError {
    /// Returns true if the device failed or was too slow, and the job itself is valid.
    pub fn is_of_device(&self) -> bool {
        matches!(
            self,
            BenchError::Refused { .. }
                | BenchError::FlushRejected { .. }
                | BenchError::ReadOnly { .. }
                | BenchError::MaxLatency { .. }
        )
    }
}

/// Returns the reason why a device rejects a request with this status.
fn reason_of_rejection(status: Status, direction: Direction) -> &'static str {
    match status {
        Status::OutOfRange => "it is beyond the end of the device or not made of whole blocks",
        Status::Unreadable if direction == Direction::Read => "the data there can no longer be read",
        Status::Unreadable => "its medium failed",
        Status::Ok | Status::Unsupported | Status::ReadOnly => "the device does not support it",
    }
}

/// Returns the reason why a device rejects a flush with this status, or the consequence.
fn reason_of_rejected_flush(status: Status) -> &'static str {
    match status {
        Status::Unsupported => {
            "the device does not support it: leave fsync=, fdatasync=, end_fsync= and sync= out"
        }
        Status::Ok | Status::OutOfRange | Status::ReadOnly | Status::Unreadable => {
            "written data may not be durable"
        }
    }
}

/// The reason why a job cannot replay its recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordingError {
    /// The job sets an option that does not apply to a recording.
    Option(&'static str),
    /// The recording would run together with other jobs, but must run alone.
    NotAlone {
        /// True if the other jobs are clones.
        clones: bool,
    },
    /// The recording would run on a device with a filesystem or files, but needs the bare device.
    OnFiles,
    /// The recording reaches beyond the end of the device.
    TooLarge {
        /// Number of the step that reaches furthest, counted from 0.
        step: u64,
        /// End of the step's range in bytes.
        end: u64,
        /// Capacity of the device in bytes.
        capacity: u64,
    },
    /// The recording cannot be read or replayed. The text states the place and kind of the fault.
    Faulty(String),
}

/// Continues a message that begins with the name of the job.
impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::Option(option) => {
                write!(f, " replays a recording, whose requests and pauses are recorded: remove {option}")
            }
            RecordingError::NotAlone { clones: true } => {
                f.write_str(" replays a recording, which runs alone: leave numjobs= out")
            }
            RecordingError::NotAlone { clones: false } => f.write_str(
                " replays a recording, which runs alone: add stonewall to it and to the job after it",
            ),
            RecordingError::OnFiles => f.write_str(
                " replays a recording, which contains requests to a device: leave --fs out, and directory= in the jobs \
                 before it",
            ),
            RecordingError::TooLarge { step, end, capacity } => write!(
                f,
                ": step {step} of the recording reaches byte {end}, but the device has {capacity} bytes; choose a larger \
                 device"
            ),
            RecordingError::Faulty(problem) => write!(f, ": the recording cannot be replayed: {problem}"),
        }
    }
}

/// Returns, as an error, the failure of the first report that has one: a request or flush that failed, or a
/// request that took too long. The failure ended its job.
pub fn refusal(reports: &[Report]) -> Option<BenchError> {
    let failed = reports.iter().find_map(|report| Some((report, report.stats.failure?)));
    failed.map(|(report, failure)| match failure.cause {
        Cause::MaxLatency { took, limit } => BenchError::MaxLatency {
            job: report.job.name.clone(),
            direction: failure.io.direction,
            offset: failure.io.offset,
            took,
            limit,
        },
        Cause::Device(Status::ReadOnly) | Cause::Flush(Status::ReadOnly) => BenchError::ReadOnly {
            job: report.job.name.clone(),
            written: reports.iter().map(|report| report.stats.direction(Direction::Write).io_bytes).sum(),
            after: failure.at.since(Instant::ZERO),
        },
        Cause::Flush(status) => BenchError::FlushRejected { job: report.job.name.clone(), status },
        Cause::Device(status) => BenchError::Refused {
            job: report.job.name.clone(),
            direction: failure.io.direction,
            offset: failure.io.offset,
            length: failure.io.length,
            status,
        },
    })
}
