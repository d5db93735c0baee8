//! Reasons why a session cannot begin or a command does not apply.

use super::SPEEDS;
use crate::bench::BenchError;
use flashlab_catalogue::device::DeviceError;
use std::fmt;

/// The reason why a session cannot begin or a command does not apply.
#[derive(Debug)]
pub enum SessionError {
    /// The device cannot be opened.
    Device(Box<DeviceError>),
    /// The job cannot be parsed.
    Job(Box<flashlab_fio::error::Error>),
    /// The job uses an option that a session does not support.
    JobOption {
        /// The job.
        job: String,
        /// The option.
        option: &'static str,
    },
    /// A quotation mark in the options is not closed.
    OpenQuote,
    /// There are too many jobs for a session.
    TooManyJobs {
        /// Number of jobs, clones included.
        jobs: usize,
    },
    /// The job cannot run on the device.
    Bench(BenchError),
    /// There is no device with this index.
    NoDevice {
        /// The index.
        device: usize,
    },
    /// The power of the device is off.
    PowerIsOff,
    /// The power of the device is on.
    PowerIsOn,
    /// The data that the job reads is not written yet, so the job has not begun.
    NotPrepared,
    /// No job runs, because the last one has finished or could not begin.
    NoJob,
    /// A command states zero requests.
    NoRequests,
    /// The session has one device only.
    OneDevice,
    /// A range to discard lies beyond the end of the device, or does not consist of whole blocks.
    Range {
        /// Capacity of the device in bytes.
        capacity: u64,
        /// Bytes of a block.
        block: u64,
    },
    /// The page may not show this device, because its argument names files.
    Files {
        /// Name of the device with its settings.
        device: String,
    },
    /// The page may not change this setting.
    Setting {
        /// The setting.
        setting: String,
    },
    /// The speed is out of range.
    Speed {
        /// The speed.
        factor: f64,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Device(error) => error.fmt(f),
            SessionError::Job(error) => error.fmt(f),
            SessionError::JobOption { job, option } => {
                write!(f, "job `{job}`: {option} is not supported here; use `flashlab bench`")
            }
            SessionError::OpenQuote => {
                f.write_str("a quotation mark in the options of the job is not closed")
            }
            SessionError::TooManyJobs { jobs } => {
                write!(f, "{jobs} jobs are too many here; the limit is {}", super::job::JOBS_MAX)
            }
            SessionError::Bench(error) => error.fmt(f),
            SessionError::NoDevice { device } => write!(f, "there is no device {device}; the first one is 0"),
            SessionError::PowerIsOff => f.write_str("the power of the device is off: plug it in first"),
            SessionError::PowerIsOn => f.write_str("the power of the device is on already"),
            SessionError::NotPrepared => {
                f.write_str("the device is not prepared for its job yet: try again when the job runs")
            }
            SessionError::NoJob => f.write_str("no job runs on the device: give it another job"),
            SessionError::NoRequests => f.write_str("expected at least 1 request"),
            SessionError::OneDevice => f.write_str("there is no second device"),
            SessionError::Files { device } => write!(
                f,
                "{device} cannot be shown here: expected the name of a device and its numbers, such as \
                 sd/kingston:flash.t_prog=300us; files can be named on the command line only"
            ),
            SessionError::Range { capacity, block } => write!(
                f,
                "a range to discard must consist of whole blocks of {block} bytes and lie within the {capacity} bytes \
                 of the device"
            ),
            SessionError::Setting { setting } => write!(
                f,
                "{setting} cannot be set here: expected the path of a number and a value, such as flash.t_prog and 300us; \
                 files can be named on the command line only"
            ),
            SessionError::Speed { factor } => {
                write!(f, "the speed {factor} is not between {:e} and {:e}", SPEEDS.start(), SPEEDS.end())
            }
        }
    }
}

impl std::error::Error for SessionError {}

impl From<DeviceError> for SessionError {
    fn from(error: DeviceError) -> Self {
        SessionError::Device(Box::new(error))
    }
}
impl From<BenchError> for SessionError {
    fn from(error: BenchError) -> Self {
        SessionError::Bench(error)
    }
}
