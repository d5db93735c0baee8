//! How a command ends when it does not end well.

use flashlab_lab::bench::BenchError;
use flashlab_lab::device::DeviceError;
use flashlab_lab::experiment::ExperimentError;
use flashlab_lab::library::LibraryError;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// A message and the exit code that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

/// Exit code of a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

impl Failure {
    /// Bad arguments, job, profile or experiment.
    pub(crate) fn usage(message: impl Display) -> Self {
        Failure { message: message.to_string(), code: 2 }
    }
    /// Reading or writing failed.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Failure { message: format!("{}: {error}", path.display()), code: 1 }
    }
    /// Writing to standard output failed.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        Failure::io(Path::new("standard output"), error)
    }

    /// Says it on standard error. A reader that closed the pipe has seen enough: nothing is said.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.contains("Broken pipe") {
            eprintln!("flashlab: {}", self.message);
        }
        ExitCode::from(self.code)
    }
}

impl From<LibraryError> for Failure {
    fn from(error: LibraryError) -> Self {
        Failure::usage(error)
    }
}
impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Failure::usage(error)
    }
}
impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        Failure::usage(error)
    }
}
impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        let code = if error == ExperimentError::Stopped { INTERRUPTED } else { 2 };
        Failure { message: error.to_string(), code }
    }
}
