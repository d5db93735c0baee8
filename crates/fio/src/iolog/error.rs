//! What can be wrong with an iolog, and where.

use std::fmt;

/// A line that is not one of an iolog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IologError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: IologProblem,
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IologProblem {
    /// The first line is no header of version 2 or 3.
    Header {
        /// What it is.
        found: String,
    },
    /// A header stands in the middle.
    SecondHeader,
    /// The line is not UTF-8.
    NotText,
    /// An action that iologs do not have.
    UnknownAction {
        /// As written.
        name: String,
        /// The most similar one.
        did_you_mean: Option<&'static str>,
    },
    /// A file that no `add` line names.
    UnknownFile {
        /// As written.
        name: String,
        /// The most similar one.
        did_you_mean: Option<String>,
    },
    /// The line ends too early.
    Missing {
        /// What should follow.
        what: &'static str,
    },
    /// The line goes on.
    Unexpected {
        /// With this.
        found: String,
    },
    /// No whole number.
    NotANumber {
        /// What it should be.
        what: &'static str,
        /// As written.
        found: String,
    },
    /// More than 64 bits hold.
    TooLarge {
        /// What is too large.
        what: &'static str,
    },
    /// A read, write or trim of no bytes.
    NoLength,
    /// `wait`, which version 3 does not have.
    WaitInVersionThree,
}

/// Text of an error message, cut to a length that a person reads.
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
                "expected `fio version 2 iolog` or `fio version 3 iolog`, found `{found}`; a binary blktrace must be \
                 converted first"
            ),
            IologProblem::SecondHeader => write!(
                f,
                "a second header: several clones have written into this log; give each its own log, or split it here"
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
                write!(f, "file `{name}` was not added before: a line `{name} add` must stand above")
            }
            IologProblem::Missing { what } => write!(f, "the line ends where {what} should follow"),
            IologProblem::Unexpected { found } => write!(f, "the line should end before `{found}`"),
            IologProblem::NotANumber { what, found } => {
                write!(f, "{what} should be a whole decimal number, not `{found}`")
            }
            IologProblem::TooLarge { what } => write!(f, "{what} is larger than 64 bits hold"),
            IologProblem::NoLength => write!(f, "a request of no bytes: give a length above zero"),
            IologProblem::WaitInVersionThree => {
                write!(f, "`wait` is of version 2; in version 3 the times of the lines say it")
            }
        }
    }
}

impl std::error::Error for IologError {}
