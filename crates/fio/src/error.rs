//! What can be wrong with a job file or a command line, where, and what to do about it.

use std::fmt;
use std::sync::Arc;

use crate::number::ValueError;

/// Where something stands. Lines, columns (in characters) and arguments count from 1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// In a job file or a file that it includes.
    File {
        /// As it was named.
        name: Arc<str>,
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
    /// On the command line.
    Argument {
        /// Which argument.
        number: usize,
        /// Which character of it.
        column: usize,
    },
    /// The command line as a whole.
    CommandLine,
}

impl Place {
    /// `characters` further on the same line.
    pub(crate) fn further(&self, characters: usize) -> Place {
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

/// Why jobs were not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Where.
    pub place: Place,
    /// What is wrong there.
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

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// A file cannot be loaded.
    Unreadable {
        /// Its name.
        file: String,
        /// What the loader said.
        reason: String,
    },
    /// The bytes are not UTF-8.
    NotText,
    /// A control character: the file is not a text.
    ControlCharacter {
        /// Its code.
        code: u32,
    },
    /// fio's own limit for a line.
    LineTooLong {
        /// Bytes of the line.
        bytes: usize,
        /// Most bytes.
        most: usize,
    },
    /// An option before the first `[section]`.
    OutsideSection {
        /// The line.
        text: String,
    },
    /// `[name` without `]`.
    UnclosedSection,
    /// `[name] something`.
    TextAfterSection {
        /// What follows.
        text: String,
    },
    /// `[]`
    UnnamedSection,
    /// A `[section]` in an included file.
    SectionInInclude {
        /// Its name.
        name: String,
    },
    /// `include` without a file.
    IncludeWithoutFile,
    /// A file that includes itself, directly or through others.
    IncludeCycle {
        /// The files from the outermost to the repeated one.
        chain: Vec<String>,
    },
    /// Includes nested too deeply, or too many of them.
    TooManyIncludes {
        /// The limit that was met.
        most: usize,
        /// Whether it is the nesting that is limited.
        nested: bool,
    },
    /// `${NAME` without `}`.
    UnclosedVariable,
    /// `${NAME}` where the environment has no such name.
    UnsetVariable {
        /// The name.
        name: String,
    },
    /// `$ncpus` or `$mb_memory`: their values differ between machines.
    MachineKeyword {
        /// The keyword.
        keyword: &'static str,
    },
    /// Not an option of fio 3.33.
    UnknownOption {
        /// As written.
        name: String,
        /// The nearest known name.
        did_you_mean: Option<&'static str>,
    },
    /// An abbreviation of several options.
    AmbiguousOption {
        /// As written.
        name: String,
        /// What it may stand for.
        candidates: Vec<&'static str>,
    },
    /// An option that needs a value has none.
    MissingValue {
        /// The option.
        option: &'static str,
    },
    /// A program option that takes no value has one.
    UnwantedValue {
        /// The option.
        option: &'static str,
    },
    /// A value that the option cannot have.
    BadValue {
        /// The option.
        option: &'static str,
        /// As written.
        value: String,
        /// What is wrong with it.
        error: ValueError,
    },
    /// An option that changes results and is not modelled.
    Refused {
        /// The option.
        option: &'static str,
        /// Its value.
        value: Option<String>,
        /// Why it is refused.
        reason: &'static str,
        /// Values with which it would be accepted.
        harmless: &'static [&'static str],
    },
    /// An option of fio's program that is not taken here.
    RefusedProgramOption {
        /// The option.
        option: &'static str,
        /// Why, and what to use.
        reason: &'static str,
    },
    /// Options of one job that do not go together.
    Contradiction {
        /// The job.
        job: String,
        /// Which ones, and what to do.
        what: Contradiction,
    },
    /// `numjobs=1` or the `0` of `--time_based 0` on a command line: a job file's name to fio.
    NotAJobFile {
        /// The word.
        word: String,
        /// What was probably meant.
        did_you_mean: String,
    },
    /// `bs 4k` in a job file.
    MissingEquals {
        /// The option.
        option: &'static str,
    },
    /// `--section=` names no section.
    UnknownSection {
        /// As written.
        name: String,
        /// The nearest section.
        did_you_mean: Option<String>,
    },
    /// There is nothing to run.
    NoJobs,
    /// More than fio runs.
    TooManyJobs {
        /// Most jobs.
        most: usize,
    },
    /// The texts of all jobs together are too long.
    TooMuchText {
        /// Most bytes.
        most: usize,
    },
}

/// Options of a job that do not go together.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Contradiction {
    /// Neither `direct=1` nor `ioengine=null`.
    Buffered {
        /// Whether the job asks for it, by `direct=0` or `buffered=1`; otherwise it is fio's default.
        asked: bool,
        /// What to write: with dashes on a command line.
        write: &'static str,
    },
    /// `time_based` without `runtime`.
    TimeBasedWithoutRuntime,
    /// `rate` with `rate_iops`.
    RateAndRateIops,
    /// `bsrange` with `bssplit`.
    RangeAndSplit,
    /// `size` below the least block size.
    SizeBelowBlock {
        /// `size`, `filesize`.
        option: &'static str,
        /// Its bytes.
        size: u64,
        /// The least block.
        block: u64,
    },
    /// A region that cannot hold a block: `offset=100%`.
    NothingAfterOffset,
    /// A job that writes or trims, with `--readonly`.
    WritesWhileReadOnly,
    /// `directory=` and a `filename=` that is a path of its own.
    AbsoluteNameInDirectory {
        /// The path.
        path: String,
    },
    /// `rate` where a request of `bs` would take more than an hour.
    RateTooLow {
        /// Bytes a second.
        rate: u64,
        /// Largest block.
        block: u64,
    },
    /// More files than fio takes.
    TooManyFiles {
        /// Most files.
        most: usize,
    },
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contradiction::Buffered { asked: true, write } => {
                write!(f, "this asks for buffered I/O, and no page cache is modelled: write\n    {write}")
            }
            Contradiction::Buffered { asked: false, write } => {
                write!(
                    f,
                    "it does buffered I/O (fio's default), and no page cache is modelled: add\n    {write}"
                )
            }
            Contradiction::TimeBasedWithoutRuntime => {
                write!(f, "time_based needs a runtime: add runtime=60, or leave time_based out")
            }
            Contradiction::RateAndRateIops => {
                write!(f, "rate and rate_iops exclude each other; keep one of them")
            }
            Contradiction::RangeAndSplit => {
                write!(f, "bsrange and bssplit exclude each other; keep one of them")
            }
            Contradiction::SizeBelowBlock { option, size, block } => {
                write!(
                    f,
                    "{option}={size} is less than one block of {block} bytes; raise {option} or lower bs"
                )
            }
            Contradiction::NothingAfterOffset => {
                write!(f, "offset=100% leaves nothing to read or write; lower it")
            }
            Contradiction::WritesWhileReadOnly => {
                write!(f, "it writes or trims, and --readonly forbids both; take --readonly away")
            }
            Contradiction::AbsoluteNameInDirectory { path } => {
                write!(f, "filename={} is a path of its own; leave it or directory out", quoted(path))
            }
            Contradiction::RateTooLow { rate, block } => write!(
                f,
                "at rate={rate} bytes a second one block of {block} bytes takes over an hour; rate is in bytes a second"
            ),
            Contradiction::TooManyFiles { most } => write!(f, "it has more than {most} files"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unreadable { file, reason } => {
                write!(f, "cannot read the job file {}: {reason}", quoted(file))
            }
            Problem::NotText => write!(f, "a byte that is not UTF-8; a job file is a text"),
            Problem::ControlCharacter { code } => {
                write!(f, "a control character (code {code}); a job file is a text")
            }
            Problem::LineTooLong { bytes, most } => {
                write!(f, "this line has {bytes} bytes; fio takes at most {most}")
            }
            Problem::OutsideSection { text } => {
                write!(
                    f,
                    "{} stands before the first section; put [global] or a [job] above it",
                    quoted(text)
                )
            }
            Problem::UnclosedSection => write!(f, "this section's name has no closing ]"),
            Problem::TextAfterSection { text } => {
                write!(f, "{} follows the section's name; begin a new line", quoted(text))
            }
            Problem::UnnamedSection => write!(f, "this section has no name; write [job]"),
            Problem::SectionInInclude { name } => {
                write!(
                    f,
                    "[{}] begins a section in an included file; fio takes only options there",
                    inner(name)
                )
            }
            Problem::IncludeWithoutFile => write!(f, "include needs a file: include common.fio"),
            Problem::IncludeCycle { chain } => {
                write!(f, "these files include each other: {}", chain.join(" -> "))
            }
            Problem::TooManyIncludes { most, nested: true } => {
                write!(f, "includes are nested more than {most} deep")
            }
            Problem::TooManyIncludes { most, nested: false } => {
                write!(f, "more than {most} files are included")
            }
            Problem::UnclosedVariable => write!(f, "this ${{ has no closing }}"),
            Problem::UnsetVariable { name } => write!(
                f,
                "the environment has no {} (fio would take it as empty); set it, or write the value",
                inner(name)
            ),
            Problem::MachineKeyword { keyword } => {
                write!(f, "{keyword} differs between machines, so results would too; write the number")
            }
            Problem::UnknownOption { name, did_you_mean } => {
                write!(f, "fio 3.33 has no option {}", quoted(name))?;
                match did_you_mean {
                    Some(known) => write!(f, "; did you mean {known}?"),
                    None => write!(f, "; `flashlab explain` lists those it has"),
                }
            }
            Problem::AmbiguousOption { name, candidates } => {
                write!(f, "{} may be {}; write it out", quoted(name), candidates.join(", "))
            }
            Problem::MissingValue { option } => write!(f, "{option} needs a value: {option}=..."),
            Problem::UnwantedValue { option } => write!(f, "--{option} takes no value"),
            Problem::BadValue { option, value, error } => {
                write!(f, "{option}={}: {}", inner(value), error.fault)
            }
            Problem::Refused { option, value, reason, harmless } => {
                match value {
                    Some(value) => write!(f, "{option}={} is not modelled: {reason}", inner(value))?,
                    None => write!(f, "{option} is not modelled: {reason}")?,
                }
                match harmless {
                    [] => write!(f, "; take it out"),
                    [one] => write!(f, "; take it out, or write {option}={one}"),
                    all => {
                        let all: Vec<String> = all.iter().map(|value| format!("{option}={value}")).collect();
                        write!(f, "; take it out, or write {}", all.join(" or "))
                    }
                }
            }
            Problem::RefusedProgramOption { option, reason } => {
                write!(f, "--{option} is not taken here: {reason}")
            }
            Problem::Contradiction { job, what } => write!(f, "job {}: {what}", quoted(job)),
            Problem::NotAJobFile { word, did_you_mean } => write!(
                f,
                "{} is the name of a job file to fio; did you mean {}?",
                quoted(word),
                inner(did_you_mean)
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
                write!(
                    f,
                    "there is no job in it: add a section such as [job], or --name=job before the options"
                )
            }
            Problem::TooManyJobs { most } => {
                write!(f, "this makes more than {most} jobs, the most that fio runs")
            }
            Problem::TooMuchText { most } => {
                write!(f, "the options of all jobs together have more than {most} bytes")
            }
        }
    }
}

/// Characters of foreign text that a message shows.
const SHOWN: usize = 60;

/// Foreign text for a message: control characters escaped, cut where it is long.
pub(crate) fn inner(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

/// The same in quotation marks.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", inner(text))
}
