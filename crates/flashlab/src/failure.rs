//! Failures of a command: an error message with an exit code.

use flashlab_catalogue::device::{DeviceError, StateError};
use flashlab_catalogue::library::LibraryError;
use flashlab_catalogue::units::take_notes;
use flashlab_lab::bench::BenchError;
use flashlab_lab::experiment::ExperimentError;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Error message of a command with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Text for standard error; `None` if the reader of standard output closed the pipe, which is no error to report.
    message: Option<String>,
    code: u8,
}

/// Exit code of a process that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Exit code of a bench or a measurement that Ctrl-C stopped, and that printed or kept its results; the same as fio's.
pub(crate) const STOPPED: u8 = 128;

impl Failure {
    /// Returns the failure for invalid arguments, or an invalid job, profile or experiment.
    pub(crate) fn usage(message: impl Display) -> Self {
        Failure { message: Some(message.to_string()), code: 2 }
    }
    /// Returns the failure for an I/O error on `path`.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Failure { message: Some(format!("{}: {error}", path.display())), code: 1 }
    }
    /// Returns the failure of a valid request that could not be carried out.
    pub(crate) fn failed(message: impl Display) -> Self {
        Failure { message: Some(message.to_string()), code: 1 }
    }
    /// Returns the failure of a system call on something other than a file, such as a socket or a process.
    #[cfg(any(feature = "serve", feature = "volume", feature = "web"))]
    pub(crate) fn system(what: &str, error: &io::Error) -> Self {
        Failure { message: Some(format!("{what}: {error}")), code: 1 }
    }
    /// Returns the failure for an error on standard output.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        let closed = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { message: (!closed).then(|| format!("standard output: {error}")), code: 1 }
    }

    /// Returns the failure of a command that a signal stopped, with the way to go on.
    #[cfg(feature = "volume")]
    pub(crate) fn interrupted(message: impl Display) -> Self {
        Failure { message: Some(message.to_string()), code: INTERRUPTED }
    }

    /// Returns true if a signal stopped the command.
    #[cfg(feature = "volume")]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.code == INTERRUPTED
    }

    /// Returns the failure with another exit code. A closed pipe keeps its own.
    #[cfg(any(feature = "fit", feature = "serve"))]
    pub(crate) fn with_code(self, code: u8) -> Self {
        let code = if self.message.is_none() { self.code } else { code };
        Failure { code, ..self }
    }

    /// Prints the message to standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if let Some(message) = &self.message {
            say(message);
        }
        ExitCode::from(self.code)
    }
}

/// Returns the first error of some work and of the work after it, such as closing a device. Prints a second error.
pub(crate) fn and_then_end<T>(done: Result<T, Failure>, ended: Result<(), Failure>) -> Result<T, Failure> {
    match (done, ended) {
        (Ok(done), ended) => ended.map(|()| done),
        (Err(first), ended) => {
            if let Err(second) = ended {
                second.report();
            }
            Err(first)
        }
    }
}

/// Prints a line to standard error. Ignores errors: a message that cannot be printed is no reason to fail.
pub(crate) fn say(message: impl Display) {
    let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("flashlab: {message}\n"));
}

/// Prints how the quantities parsed so far were rounded.
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
        if error.is_of_device() { Failure::failed(error) } else { Failure::usage(error) }
    }
}
impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        Failure::usage(error)
    }
}

/// Returns advice on a volume that did not open or did not permit a change; empty if there is none.
#[cfg(feature = "volume")]
pub(crate) fn way_out(error: &flashlab_volume::VolumeError) -> String {
    use flashlab_served::volume::ways_to_room;
    use flashlab_volume::VolumeError;
    let degraded = |rule: &str| format!("--degraded {rule} (in serve and bench: degraded={rule})");
    match error {
        VolumeError::Missing { missing, .. } => {
            let them = if missing.len() == 1 { "it" } else { "them" };
            format!(
                "; add {them} to the list of devices, or open the volume without {them} with {}",
                degraded("yes")
            )
        }
        VolumeError::Stale { .. } => {
            format!("; leave it out and open the volume with {}", degraded("yes"))
        }
        VolumeError::DataMissing { .. } => {
            format!("; {} opens the volume without them, and reads of this data fail", degraded("very"))
        }
        VolumeError::Unchangeable(flashlab_block::IoError::NoSpace) => {
            "; free some space below its members, or read it with serve --read-only (-r)".to_owned()
        }
        error => ways_to_room(error, &|key, value| format!("`volume set --{key} {value}`")),
    }
}

impl From<flashlab_served::ServedError> for Failure {
    fn from(error: flashlab_served::ServedError) -> Self {
        match error {
            // The members could be opened, but not their volume, or a change of the volume failed.
            #[cfg(feature = "volume")]
            flashlab_served::ServedError::Volume(flashlab_served::volume::PoolError {
                error: ref fault,
                ..
            }) if !matches!(fault, flashlab_volume::VolumeError::Option(_)) => {
                Failure::failed(format!("{error}{}", way_out(fault)))
            }
            #[cfg(feature = "volume")]
            flashlab_served::ServedError::Locked(_) => Failure::failed(error),
            flashlab_served::ServedError::System { .. }
            | flashlab_served::ServedError::Edge { error: flashlab_served::EdgeError::Failed(_), .. } => {
                Failure::failed(error)
            }
            error => Failure::usage(error),
        }
    }
}
#[cfg(feature = "serve")]
impl From<flashlab_serve::load::LoadError> for Failure {
    fn from(error: flashlab_serve::load::LoadError) -> Self {
        use flashlab_serve::load::LoadError;
        match error {
            // The command line or the certificates are wrong.
            LoadError::Job(_) | LoadError::Tls(_) => Failure::usage(error),
            error => Failure { message: Some(error.to_string()), code: 1 },
        }
    }
}
