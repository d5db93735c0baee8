//! What can be wrong with a profile, each mistake with its place.

use super::place::Place;
use super::source::Source;
use super::suggest::did_you_mean;
use super::value::ValueError;
use crate::units::or_list;
use flashlab_flash::Impossible;
use std::fmt;

/// One mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: Problem,
}

/// What is wrong with a profile, in the order of the text: at least one mistake, at most 100. Of what is not TOML, the
/// first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfileError {
    /// The mistakes.
    pub mistakes: Vec<Mistake>,
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// A byte that does not belong to UTF-8 text.
    NotText,
    /// More bytes than a profile can have.
    TooLong {
        /// The most that is read.
        most: usize,
    },
    /// Not TOML.
    Syntax(String),
    /// A key or section that no profile of this kind has.
    UnknownKey {
        /// As written, with its section.
        path: String,
        /// The nearest that exists.
        did_you_mean: Option<String>,
        /// What there is.
        expected: Vec<&'static str>,
    },
    /// A key or section that a profile of this kind must have.
    MissingKey {
        /// With its section.
        path: String,
        /// What belongs there.
        expected: String,
    },
    /// A string where a number belongs, and the like.
    WrongType {
        /// With its section.
        path: String,
        /// What stands there: "an integer".
        found: &'static str,
        /// What belongs there.
        expected: String,
    },
    /// Not a value of this parameter.
    BadValue {
        /// The parameter.
        path: &'static str,
        /// Why not.
        error: ValueError,
    },
    /// A word that is none of the allowed ones.
    NotOneOf {
        /// The key.
        path: &'static str,
        /// The word.
        found: String,
        /// The allowed ones.
        expected: Vec<&'static str>,
    },
    /// A text that has to say something is empty.
    Empty {
        /// The key.
        path: String,
    },
    /// A number without an entry in `[source]`.
    NoSource {
        /// The parameter.
        path: &'static str,
    },
    /// An entry in `[source]` without its number.
    SourceWithoutNumber {
        /// The entry.
        path: String,
        /// The nearest number that there is.
        did_you_mean: Option<String>,
    },
    /// A path in `[source]` without quotes, which TOML takes for a table.
    SourceNotQuoted {
        /// The first part of the path.
        section: String,
    },
    /// An entry in `[source]` with no source, or with two.
    NotOneSource {
        /// The entry.
        path: String,
    },
    /// A number that was fitted on another device's cells.
    Borrowed {
        /// The parameter.
        path: &'static str,
        /// The cell.
        cell: String,
        /// The experiment that has the cell.
        experiment: String,
        /// Device for which the number was fitted, for example `sd/kingston`.
        of: String,
    },
    /// Each value is possible, but not this device.
    Impossible {
        /// Which parameter and why.
        impossible: Impossible,
        /// Its value.
        value: Option<String>,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NotText => write!(f, "this byte is not UTF-8 text; a profile is a TOML file"),
            Problem::TooLong { most } => {
                write!(f, "longer than {most} bytes; a profile is a short TOML file")
            }
            Problem::Syntax(what) => write!(f, "not TOML: {what}"),
            Problem::UnknownKey { path, did_you_mean: nearest, expected } => {
                write!(f, "there is no {path} here{}", did_you_mean(nearest.as_deref()))?;
                if nearest.is_none() {
                    write!(f, "; expected {}", or_list(expected))?;
                }
                Ok(())
            }
            Problem::MissingKey { path, expected } => write!(f, "{path} is missing; expected {expected}"),
            Problem::WrongType { path, found, expected } => {
                write!(f, "{path} is {found}; expected {expected}")
            }
            Problem::BadValue { path, error } => write!(f, "{path}: {error}"),
            Problem::NotOneOf { path, found, expected } => {
                write!(f, "{path} is \"{found}\"; expected {}", or_list(expected))
            }
            Problem::Empty { path } => write!(f, "{path} is empty; it has to say something"),
            Problem::NoSource { path } => write!(
                f,
                "{path} has no source; add under [source]: \"{path}\" = {{ measured = \"...\" }}, or {}",
                or_list(&Source::WORDS.into_iter().filter(|w| *w != "measured").collect::<Vec<_>>())
            ),
            Problem::SourceWithoutNumber { path, did_you_mean: nearest } => {
                write!(
                    f,
                    "the source of {path}, which this profile does not set{}",
                    did_you_mean(nearest.as_deref())
                )
            }
            Problem::SourceNotQuoted { section } => {
                write!(f, "the path of a source stands in quotes: \"{section}.KEY\" = {{ ... }}")
            }
            Problem::NotOneSource { path } => {
                write!(f, "{path} needs exactly one source: {}", or_list(&Source::WORDS))
            }
            Problem::Borrowed { path, cell, experiment, of } => write!(
                f,
                "{path} is fitted on {cell}, which belongs to {of} in the experiment {experiment}: a copy gives the results \
                 of {of}; give it a source of its own, for example {{ typical = \"as {of}\" }}, or leave [source] out: \
                 such a draft runs, marked unsourced"
            ),
            Problem::Impossible { impossible, value: Some(value) } => {
                write!(f, "{} = {value} {}", impossible.path, impossible.why)
            }
            Problem::Impossible { impossible, value: None } => impossible.fmt(f),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.place, self.problem, self.place.picture())
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 10;
        for (i, mistake) in self.mistakes.iter().take(SHOWN).enumerate() {
            write!(f, "{}{mistake}", if i == 0 { "" } else { "\n" })?;
        }
        match self.mistakes.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for ProfileError {}
