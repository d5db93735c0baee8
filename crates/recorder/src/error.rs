//! Reasons why a recording could not be made.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use flashlab_recording::capture::{DeriveError, TraceError};

/// A recording that could not be made.
#[derive(Debug)]
pub enum RecordError {
    /// Programs that are not installed on the host, each with the Debian package that contains it, if known.
    MissingPrograms(Vec<(String, Option<&'static str>)>),
    /// No folder contains a kernel.
    NoKernel {
        /// Folders that were searched.
        searched: Vec<PathBuf>,
    },
    /// The kernel lacks a module.
    MissingModule {
        /// Name of the module.
        module: String,
        /// Kernel release.
        release: String,
    },
    /// A setting has a value that the guest cannot have.
    Setting(String),
    /// A file of the host cannot be read or written, or a program cannot be started.
    Io {
        /// File or program.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The guest failed, or did not end in time.
    Guest {
        /// Reason for the failure.
        fault: String,
        /// Output of the guest's console.
        console: String,
    },
    /// The recording was stopped.
    Stopped,
    /// The guest's trace is not well-formed.
    Trace(TraceError),
    /// The guest's trace is not a run of one device.
    Derive(DeriveError),
}

impl RecordError {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        RecordError::Io { path: path.to_owned(), error }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::MissingPrograms(programs) => {
                let names: Vec<&str> = programs.iter().map(|(name, _)| name.as_str()).collect();
                write!(f, "missing programs: {}", names.join(", "))?;
                let mut packages: Vec<&str> = programs.iter().filter_map(|(_, package)| *package).collect();
                packages.sort_unstable();
                packages.dedup();
                match packages.is_empty() {
                    true => Ok(()),
                    false => write!(f, "; on Debian: apt-get install {}", packages.join(" ")),
                }
            }
            RecordError::NoKernel { searched } => {
                let searched: Vec<String> =
                    searched.iter().map(|folder| folder.display().to_string()).collect();
                write!(
                    f,
                    "the guest needs a kernel with its modules; on Debian: apt-get install linux-image-amd64, or \
                     apt-get download linux-image-VERSION-amd64, dpkg-deb -x PACKAGE FOLDER and --kernel FOLDER \
                     (there is none in {})",
                    searched.join(", ")
                )
            }
            RecordError::MissingModule { module, release } => write!(
                f,
                "the kernel {release} lacks the module {module}; the packages linux-image-VERSION-amd64 of Debian \
                 contain it, and those with `cloud` in their names do not (--kernel FOLDER)"
            ),
            RecordError::Setting(fault) => f.write_str(fault),
            RecordError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            RecordError::Guest { fault, console } => {
                write!(f, "the guest failed: {fault}; its console:\n{}", console.trim_end())
            }
            RecordError::Stopped => f.write_str("the recording was stopped"),
            RecordError::Trace(error) => error.fmt(f),
            RecordError::Derive(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecordError {}

impl From<TraceError> for RecordError {
    fn from(error: TraceError) -> Self {
        RecordError::Trace(error)
    }
}

impl From<DeriveError> for RecordError {
    fn from(error: DeriveError) -> Self {
        RecordError::Derive(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_missing_programs_names_each_package_once() {
        let programs = vec![
            ("fsck.vfat".into(), Some("dosfstools")),
            ("mkfs.vfat".into(), Some("dosfstools")),
            ("mine".into(), None),
        ];
        let text = RecordError::MissingPrograms(programs).to_string();
        assert_eq!(
            text,
            "missing programs: fsck.vfat, mkfs.vfat, mine; on Debian: apt-get install dosfstools"
        );
    }
}
