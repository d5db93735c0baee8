//! Errors of measurement files, with their places.

use super::VERSION;
use std::fmt;

/// A fault in a measurement file.
#[derive(Clone, PartialEq, Debug)]
pub enum FileError {
    /// The file contains nothing but white space.
    Empty,
    /// The text is not JSON, or a key or value of the format is wrong.
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Fault.
        message: String,
    },
    /// The text is JSON without the key of a measurement file.
    Foreign {
        /// Program that the keys suggest.
        looks_like: Option<&'static str>,
    },
    /// A newer flashlab wrote the file.
    Newer {
        /// Version of the file.
        version: u64,
    },
    /// A step contains a fault.
    Step {
        /// Number of the step, from 1.
        number: usize,
        /// Name of the step.
        name: String,
        /// Fault.
        problem: Problem,
    },
}

/// A fault in a step.
#[derive(Clone, PartialEq, Debug)]
pub enum Problem {
    /// An earlier step has the same name.
    SameName,
    /// The step has no name.
    NoName,
    /// The options of the jobs are invalid.
    Job(String),
    /// The options contain no job.
    NoJob,
    /// A number is outside its range or contradicts another one, or a list is not in order.
    Value {
        /// Name of the number.
        of: String,
        /// Text of the number.
        value: String,
        /// Condition that the number should meet.
        expected: &'static str,
    },
    /// An observation or a distribution refers to a job that the step does not have.
    UnknownJob(String),
    /// An observation or a distribution has a direction in which the job submits no requests.
    Direction {
        /// Name of the observation or the distribution.
        of: String,
    },
    /// The same observation occurs twice.
    Twice {
        /// Name of the observation.
        of: String,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Empty => f.write_str("the file is empty: it contains no measurement"),
            FileError::Syntax { line, column, message } => {
                write!(f, "line {line}, column {column}: {message}")
            }
            FileError::Foreign { looks_like: Some(program) } => {
                write!(f, "this is not a measurement file but output of {program}")
            }
            FileError::Foreign { looks_like: None } => f.write_str(
                "this JSON is neither a file of `flashlab measure` (no key `flashlab_measurements`) nor output of fio \
                 (no key `fio version`)",
            ),
            FileError::Newer { version } => write!(
                f,
                "the file has version {version}, and this flashlab reads versions up to {VERSION}: use the flashlab \
                 that wrote it, or a newer one"
            ),
            FileError::Step { number, name, problem } => write!(f, "step {number} `{name}`: {problem}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::SameName => {
                f.write_str("an earlier step has the same name: give each step a name of its own")
            }
            Problem::NoName => f.write_str("the step has no name"),
            Problem::Job(message) => write!(f, "job: {message}"),
            Problem::NoJob => f.write_str("the key `job` contains no job: add `--name=NAME` and its options"),
            Problem::Value { of, value, expected } => write!(f, "{of} is {value}: expected {expected}"),
            Problem::UnknownJob(job) => {
                write!(f, "a result refers to job `{job}`, which the step does not have")
            }
            Problem::Direction { of } => write!(f, "{of}: the job submits no requests in this direction"),
            Problem::Twice { of } => write!(f, "{of} occurs twice"),
        }
    }
}

impl std::error::Error for FileError {}
impl std::error::Error for Problem {}
