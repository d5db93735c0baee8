//! Errors in job files and command lines, with their position and advice on how to correct them.

mod contradiction;
mod structure;

use std::fmt;
use std::sync::Arc;

use crate::number::ValueError;
pub use contradiction::Contradiction;
pub use structure::{IncludeProblem, SectionProblem};

/// A position in the input. Lines, columns (in characters) and arguments count from 1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// A position in a job file, or in a file that it includes.
    File {
        /// Name of the file as given.
        name: Arc<str>,
        /// Line number.
        line: usize,
        /// Column number.
        column: usize,
    },
    /// A position on the command line.
    Argument {
        /// Number of the argument.
        number: usize,
        /// Number of the character within the argument.
        column: usize,
    },
    /// The command line as a whole.
    CommandLine,
}

impl Place {
    /// Returns the place that lies `characters` further along the same line.
    pub(crate) fn advanced_by(&self, characters: usize) -> Place {
        let mut place = self.clone();
        match &mut place {
            Place::File { column, .. } | Place::Argument { column, .. } => *column += characters,
            Place::CommandLine => {}
        }
        place
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Place::Argument { number, column } => write!(f, "argument {number}, character {column}"),
            Place::CommandLine => write!(f, "command line"),
        }
    }
}

/// An error in a job file or on a command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Position of the error.
    pub place: Place,
    /// Cause of the error.
    pub problem: Box<Problem>,
}

impl Error {
    pub(crate) fn new(place: Place, problem: Problem) -> Self {
        Error { place, problem: Box::new(problem) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

impl std::error::Error for Error {}

/// Cause of an error.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// A file cannot be loaded.
    Unreadable {
        /// Name of the file.
        file: String,
        /// Message of the loader.
        reason: String,
    },
    /// The file is not valid UTF-8.
    NotText,
    /// The file contains a control character, so it is not a text file.
    ControlCharacter {
        /// Code of the character.
        code: u32,
    },
    /// A line exceeds fio's limit.
    LineTooLong {
        /// Length of the line in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        most: usize,
    },
    /// An option before the first `[section]`.
    OutsideSection {
        /// Text of the line.
        text: String,
    },
    /// The file is an iolog.
    Iolog {
        /// Name of the file.
        file: String,
    },
    /// A fault in the line that begins a section.
    Section(SectionProblem),
    /// A fault in an `include` line or in an included file.
    Include(IncludeProblem),
    /// `${NAME` without `}`.
    UnclosedVariable,
    /// `${NAME}` where the environment variable is unset or empty.
    UnsetVariable {
        /// Name of the variable.
        name: String,
    },
    /// `$ncpus` or `$mb_memory`: their values differ between machines.
    MachineKeyword {
        /// The keyword.
        keyword: &'static str,
    },
    /// fio 3.33 has no option of this name.
    UnknownOption {
        /// Name as written.
        name: String,
        /// Nearest known name, if one is near.
        did_you_mean: Option<&'static str>,
    },
    /// The name abbreviates several options.
    AmbiguousOption {
        /// Name as written.
        name: String,
        /// Options that the name may stand for.
        candidates: Vec<&'static str>,
    },
    /// An option that needs a value has none.
    MissingValue {
        /// Name of the option.
        option: &'static str,
    },
    /// A program option that takes no value has one.
    UnwantedValue {
        /// Name of the option.
        option: &'static str,
    },
    /// The value is not valid for the option.
    BadValue {
        /// Name of the option.
        option: &'static str,
        /// Value as written.
        value: String,
        /// Fault in the value.
        error: ValueError,
    },
    /// An option that changes results and is not modelled.
    Refused {
        /// Name of the option.
        option: &'static str,
        /// Value as written, if there is one.
        value: Option<String>,
        /// Reason for the refusal.
        reason: &'static str,
        /// Values with which the option is accepted.
        accepted_values: &'static [&'static str],
    },
    /// A program option of fio that is not supported here.
    RefusedProgramOption {
        /// Name of the option.
        option: &'static str,
        /// Reason, and the alternative if there is one.
        reason: &'static str,
    },
    /// Options of one job contradict each other.
    Contradiction {
        /// Name of the job.
        job: String,
        /// The contradiction.
        contradiction: Contradiction,
    },
    /// `numjobs=1`, or the `0` of `--time_based 0`, on a command line. fio takes such a word for the name of a job
    /// file.
    UnlikelyJobFile {
        /// Word as written.
        word: String,
        /// Argument that was probably meant.
        did_you_mean: String,
    },
    /// `bs 4k` in a job file; the `=` is missing.
    MissingEquals {
        /// Name of the option.
        option: &'static str,
    },
    /// `--section=` names a section that does not exist.
    UnknownSection {
        /// Name as written.
        name: String,
        /// Name of the nearest section, if one is near.
        did_you_mean: Option<String>,
    },
    /// The input defines no job.
    NoJobs,
    /// More jobs than fio runs.
    TooManyJobs {
        /// Maximum number of jobs.
        most: usize,
    },
    /// The texts of all jobs together are too long.
    TooMuchText {
        /// Maximum in bytes.
        most: usize,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unreadable { file, reason } => {
                write!(f, "cannot read the job file {}: {reason}", quoted(file))
            }
            Problem::NotText => write!(f, "this byte is not valid UTF-8; a job file must be text"),
            Problem::ControlCharacter { code } => {
                write!(f, "this is a control character (code {code}); a job file must be text")
            }
            Problem::LineTooLong { bytes, most } => {
                write!(f, "this line has {bytes} bytes; fio takes at most {most}")
            }
            Problem::OutsideSection { text } => {
                write!(f, "{} precedes the first section; put [global] or a [job] above it", quoted(text))
            }
            Problem::Iolog { file } => write!(
                f,
                "this is an iolog and no job file; replay it with --name=r --read_iolog={}",
                printable(file)
            ),
            Problem::Section(problem) => problem.fmt(f),
            Problem::Include(problem) => problem.fmt(f),
            Problem::UnclosedVariable => write!(f, "this ${{ has no closing }}"),
            Problem::UnsetVariable { name } => write!(
                f,
                "the environment variable {} is unset or empty (fio would insert nothing); set it, or write the value",
                printable(name)
            ),
            Problem::MachineKeyword { keyword } => {
                write!(f, "{keyword} differs between machines, so results would too; write the number")
            }
            Problem::UnknownOption { name, did_you_mean } => {
                write!(f, "fio 3.33 has no option {}", quoted(name))?;
                match did_you_mean {
                    Some(known) => write!(f, "; did you mean {known}?"),
                    None => write!(f, "; `flashlab explain` lists the modelled options"),
                }
            }
            Problem::AmbiguousOption { name, candidates } => {
                write!(f, "{} may be {}; write the name in full", quoted(name), candidates.join(", "))
            }
            Problem::MissingValue { option } => write!(f, "{option} needs a value: {option}=..."),
            Problem::UnwantedValue { option } => write!(f, "--{option} takes no value"),
            Problem::BadValue { option, value, error } => {
                write!(f, "{option}={}: {}", printable(value), error.fault)
            }
            Problem::Refused { option, value, reason, accepted_values } => {
                match value {
                    Some(value) => write!(f, "{option}={} is not modelled: {reason}", printable(value))?,
                    None => write!(f, "{option} is not modelled: {reason}")?,
                }
                write_alternatives(f, option, accepted_values)
            }
            Problem::RefusedProgramOption { option, reason } => {
                write!(f, "--{option} is not supported here: {reason}")
            }
            Problem::Contradiction { job, contradiction } => {
                write!(f, "job {}: {contradiction}", quoted(job))
            }
            Problem::UnlikelyJobFile { word, did_you_mean } => write!(
                f,
                "fio would take {} for the name of a job file; did you mean {}?",
                quoted(word),
                printable(did_you_mean)
            ),
            Problem::MissingEquals { option } => write!(f, "a = is missing; write {option}=..."),
            Problem::UnknownSection { name, did_you_mean } => {
                write!(f, "no section is named {}", quoted(name))?;
                match did_you_mean {
                    Some(known) => write!(f, "; did you mean {}?", quoted(known)),
                    None => Ok(()),
                }
            }
            Problem::NoJobs => {
                write!(f, "no job is defined: add a section such as [job], or --name=job before the options")
            }
            Problem::TooManyJobs { most } => {
                write!(f, "this makes more than {most} jobs, fio's maximum")
            }
            Problem::TooMuchText { most } => {
                write!(f, "the options of all jobs together have more than {most} bytes")
            }
        }
    }
}

/// Writes the corrections for an option that is not modelled: to remove it, or to set an accepted value.
fn write_alternatives(
    f: &mut fmt::Formatter<'_>,
    option: &str,
    accepted_values: &[&'static str],
) -> fmt::Result {
    if accepted_values.is_empty() {
        return write!(f, "; remove it");
    }
    let settings: Vec<String> = accepted_values.iter().map(|value| format!("{option}={value}")).collect();
    write!(f, "; remove it, or write {}", settings.join(" or "))
}

/// Maximum number of characters of the input that a message quotes.
const SHOWN_CHARS: usize = 60;

/// Returns text of the input in a form fit for a message: control characters are escaped, and long text is truncated.
pub(crate) fn printable(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push_str("...");
    }
    shown
}

/// Returns the text of [`printable`] in quotation marks.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", printable(text))
}
