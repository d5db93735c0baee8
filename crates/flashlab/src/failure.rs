//! How a command ends when it does not end well.

use flashlab_lab::bench::BenchError;
use flashlab_lab::device::{DeviceError, StateError};
use flashlab_lab::experiment::ExperimentError;
use flashlab_lab::library::LibraryError;
use flashlab_lab::units::take_notes;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// What is said, and the exit code that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Nothing where a reader closed the pipe: it has seen enough.
    message: Option<String>,
    code: u8,
}

/// Exit code of a process that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

impl Failure {
    /// Bad arguments, job, profile or experiment.
    pub(crate) fn usage(message: impl Display) -> Self {
        Failure { message: Some(message.to_string()), code: 2 }
    }
    /// Reading or writing failed.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Failure { message: Some(format!("{}: {error}", path.display())), code: 1 }
    }
    /// What was asked for could not be done.
    pub(crate) fn failed(message: impl Display) -> Self {
        Failure { message: Some(message.to_string()), code: 1 }
    }
    /// The system refused something that has no file: sockets, processes.
    pub(crate) fn system(what: &str, error: &io::Error) -> Self {
        Failure { message: Some(format!("{what}: {error}")), code: 1 }
    }
    /// Writing to standard output failed.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        let closed = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { message: (!closed).then(|| format!("standard output: {error}")), code: 1 }
    }

    /// Says it on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        if let Some(message) = &self.message {
            say(message);
        }
        ExitCode::from(self.code)
    }
}

/// A line on standard error; one that nobody can read is no reason to fail.
pub(crate) fn say(message: impl Display) {
    let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("flashlab: {message}\n"));
}

/// Says how quantities were rounded that were read until now.
pub(crate) fn say_notes() {
    take_notes().into_iter().for_each(say);
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
impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
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
        Failure::usage(error)
    }
}
impl From<flashlab_lab::served::ServedError> for Failure {
    fn from(error: flashlab_lab::served::ServedError) -> Self {
        Failure::usage(error)
    }
}
#[cfg(feature = "serve")]
impl From<flashlab_serve::load::LoadError> for Failure {
    fn from(error: flashlab_serve::load::LoadError) -> Self {
        use flashlab_serve::load::LoadError;
        match error {
            // What was asked for makes no sense here.
            LoadError::Job(_) | LoadError::Tls(_) => Failure::usage(error),
            error => Failure { message: Some(error.to_string()), code: 1 },
        }
    }
}
