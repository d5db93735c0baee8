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
    /// There are too many jobs for a session.
    TooManyJobs {
        /// Number of jobs, clones included.
        jobs: usize,
    },
    /// The job cannot run on the device.
    Bench(BenchError),
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
            SessionError::TooManyJobs { jobs } => {
                write!(f, "{jobs} jobs are too many here; the limit is {}", super::job::JOBS_MAX)
            }
            SessionError::Bench(error) => error.fmt(f),
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
