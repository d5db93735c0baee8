//! Errors in iologs, with their position.

use std::fmt;

/// An error in a line of an iolog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IologError {
    /// Line number, from 1.
    pub line: usize,
    /// Column number in characters, from 1.
    pub column: usize,
    /// Cause of the error.
    pub problem: IologProblem,
}

/// Cause of an error in an iolog.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IologProblem {
    /// The first line is not a header of version 2 or 3.
    Header {
        /// Text of the first line.
        found: String,
    },
    /// A header occurs after the first line.
    SecondHeader,
    /// The line is not UTF-8.
    NotText,
    /// The action does not exist in iologs.
    UnknownAction {
        /// Name as written.
        name: String,
        /// Most similar action, if one is similar.
        did_you_mean: Option<&'static str>,
    },
    /// No earlier `add` line names the file.
    UnknownFile {
        /// Name as written.
        name: String,
        /// Most similar file, if one is similar.
        did_you_mean: Option<String>,
    },
    /// The line ends too early.
    Missing {
        /// Name of the missing field.
        field: &'static str,
    },
    /// The line has an additional field.
    Unexpected {
        /// Text of the additional field.
        found: String,
    },
    /// A field is not a whole number.
    NotANumber {
        /// Name of the field.
        field: &'static str,
        /// Text as written.
        found: String,
    },
    /// A number exceeds 64 bits.
    TooLarge {
        /// Name of the number.
        quantity: &'static str,
    },
    /// The line is longer than 1 MiB.
    LineTooLong,
    /// The log adds more than 2^32 files.
    TooManyFiles,
    /// A read, write or trim has no length.
    NoLength,
    /// The log cannot be read.
    Unreadable {
        /// Error of the operating system.
        why: String,
    },
    /// A `wait` line, which version 3 does not have.
    WaitInVersionThree,
}

/// Returns text for an error message, truncated to a readable length.
pub(super) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push_str("...");
    }
    shown
}

impl fmt::Display for IologError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.problem)
    }
}

impl fmt::Display for IologProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IologProblem::Header { found } => write!(
                f,
                "expected `fio version 2 iolog` or `fio version 3 iolog`, found `{found}`; `flashlab \
                 recording import --from blktrace` reads files of blktrace"
            ),
            IologProblem::SecondHeader => write!(
                f,
                "this is a second header: several clones have written to this log; give each clone its own \
                 log, or split the log here"
            ),
            IologProblem::NotText => write!(f, "this is not UTF-8 text"),
            IologProblem::UnknownAction { name, did_you_mean: Some(known) } => {
                write!(f, "unknown action `{name}`; did you mean `{known}`?")
            }
            IologProblem::UnknownAction { name, did_you_mean: None } => write!(
                f,
                "unknown action `{name}`: expected add, open, close, read, write, trim, sync, datasync or wait"
            ),
            IologProblem::UnknownFile { name, did_you_mean: Some(known) } => {
                write!(f, "file `{name}` was not added before; did you mean `{known}`?")
            }
            IologProblem::UnknownFile { name, did_you_mean: None } => {
                write!(f, "file `{name}` was not added before: a line `{name} add` must precede this line")
            }
            IologProblem::Missing { field } => write!(f, "the line ends where {field} should follow"),
            IologProblem::Unexpected { found } => write!(f, "the line should end before `{found}`"),
            IologProblem::NotANumber { field, found } => {
                write!(f, "{field} should be a whole decimal number, not `{found}`")
            }
            IologProblem::TooLarge { quantity } => write!(f, "{quantity} exceeds 64 bits"),
            IologProblem::LineTooLong => write!(f, "the line is longer than 1 MiB"),
            IologProblem::TooManyFiles => write!(f, "the log has too many files: the limit is 2^32"),
            IologProblem::NoLength => write!(f, "the request has no bytes: give a length above zero"),
            IologProblem::Unreadable { why } => f.write_str(why),
            IologProblem::WaitInVersionThree => {
                write!(f, "`wait` exists only in version 2; in version 3 each line has a time")
            }
        }
    }
}

impl std::error::Error for IologError {}
