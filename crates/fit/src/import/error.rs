//! Errors of importers, with their places.

use crate::observation::FileError;
use std::fmt;

/// A fault in an imported text.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportError {
    /// Line, from 1; `None` for the text as a whole.
    pub line: Option<usize>,
    /// Fault.
    pub problem: Problem,
}

/// The fault.
#[derive(Clone, PartialEq, Debug)]
pub enum Problem {
    /// The text contains nothing but white space.
    Empty,
    /// The text is larger than [`BYTES_MAX`](super::BYTES_MAX).
    TooLarge {
        /// Size in bytes.
        bytes: usize,
    },
    /// No line is a result of a known program.
    Unknown {
        /// Start of the first line.
        line: String,
    },
    /// fio's terse output lacks the options of the jobs.
    Terse {
        /// Version of fio.
        version: String,
    },
    /// A number is malformed, negative or zero.
    Value {
        /// Name of the number.
        what: String,
        /// Text of the number.
        text: String,
    },
    /// Two numbers contradict each other.
    Contradiction(String),
    /// A line lacks information that is needed to know its job, or contains an unknown word.
    Missing {
        /// Description of the line.
        of: String,
        /// The missing information, and the way to add it.
        what: String,
    },
    /// The options of a job are invalid or have no model.
    Job {
        /// Name of the job.
        job: String,
        /// Fault.
        message: String,
    },
    /// A key of the JSON is missing, or its value has the wrong type.
    Json {
        /// Path of the key: `jobs[0].read.iops`.
        path: String,
        /// Description of the expected value.
        expected: &'static str,
    },
    /// The JSON is malformed.
    Syntax(String),
    /// A fault of a measurement file, or of the resulting steps.
    File(FileError),
}

impl ImportError {
    pub(super) fn at(line: usize, problem: Problem) -> Self {
        ImportError { line: Some(line), problem }
    }

    pub(super) fn whole(problem: Problem) -> Self {
        ImportError { line: None, problem }
    }
}

impl From<FileError> for ImportError {
    fn from(error: FileError) -> Self {
        ImportError::whole(Problem::File(error))
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}", self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Empty => f.write_str("the file is empty"),
            Problem::TooLarge { bytes } => {
                write!(f, "the file has {bytes} bytes, more than the maximum of {}", super::BYTES_MAX)
            }
            Problem::Unknown { line } => write!(
                f,
                "no line is a result of a known program (fio's JSON, hdparm, dd, iozone, flashbench, agnostics, sdbench, \
                 or a table `job,value,sd`); the first line is `{line}`"
            ),
            Problem::Terse { version } => write!(
                f,
                "{version} wrote terse output, which lacks the options of the jobs: run fio with --output-format=json"
            ),
            Problem::Value { what, text } => {
                write!(f, "{what} is `{text}`: expected a finite number above zero")
            }
            Problem::Contradiction(message) => f.write_str(message),
            Problem::Missing { of, what } => write!(f, "{of}: {what}"),
            Problem::Job { job, message } => write!(f, "job `{job}`: {message}"),
            Problem::Json { path, expected } => {
                write!(f, "{path}: expected {expected}; the file should be fio's JSON")
            }
            Problem::Syntax(message) => write!(f, "{message}; is the file complete?"),
            Problem::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}
