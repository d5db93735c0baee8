//! Faults in the structure of a job file: its sections and the files that it includes.

use super::{printable, quoted};
use std::fmt;

/// A fault in the line that begins a section.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SectionProblem {
    /// `[name` without `]`.
    Unclosed,
    /// `[name] something`.
    TextAfterName {
        /// Text after the bracket.
        text: String,
    },
    /// `[]`, a section without a name.
    Unnamed,
}

impl fmt::Display for SectionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SectionProblem::Unclosed => write!(f, "this section's name has no closing ]"),
            SectionProblem::TextAfterName { text } => {
                write!(f, "{} follows the section's name; begin a new line", quoted(text))
            }
            SectionProblem::Unnamed => write!(f, "this section has no name; write [job]"),
        }
    }
}

/// A fault in an `include` line or in an included file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IncludeProblem {
    /// `include` without a file.
    WithoutFile,
    /// A `[section]` in an included file.
    ContainsSection {
        /// Name of the section.
        name: String,
    },
    /// A file that includes itself, directly or through others.
    Cycle {
        /// Files from the outermost to the repeated one.
        chain: Vec<String>,
    },
    /// Includes are nested too deeply.
    TooDeep {
        /// Maximum depth.
        most: usize,
    },
    /// Too many files are included.
    TooMany {
        /// Maximum number of included files.
        most: usize,
    },
}

impl fmt::Display for IncludeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IncludeProblem::WithoutFile => write!(f, "include needs a file: include common.fio"),
            IncludeProblem::ContainsSection { name } => write!(
                f,
                "[{}] begins a section in an included file; fio takes only options there",
                printable(name)
            ),
            IncludeProblem::Cycle { chain } => {
                write!(f, "these files include each other: {}", chain.join(" -> "))
            }
            IncludeProblem::TooDeep { most } => write!(f, "includes are nested more than {most} deep"),
            IncludeProblem::TooMany { most } => write!(f, "more than {most} files are included"),
        }
    }
}
