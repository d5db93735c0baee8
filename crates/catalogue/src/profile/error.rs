//! Mistakes in profiles, each with its place in the file.

use super::place::Place;
use super::source::Source;
use super::suggest::{did_you_mean, present_name};
use super::value::ValueError;
use crate::units::or_list;
use flashlab_flash::Impossible;
use std::fmt;

/// A mistake in a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// Position of the mistake in the file.
    pub place: Place,
    /// The kind of mistake.
    pub problem: Problem,
}

/// The mistakes in a profile, in the order of the text: at least one, at most 100. A file that is not valid TOML has
/// one mistake, its first syntax error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfileError {
    /// The mistakes.
    pub mistakes: Vec<Mistake>,
}

/// A kind of mistake in a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// A byte is not valid UTF-8.
    NotText,
    /// The file is too long.
    TooLong {
        /// Maximum length in bytes.
        most: usize,
    },
    /// The text is not valid TOML. The string is the parser's message.
    Syntax(String),
    /// No profile of this kind has such a key or section, or an entry in `[source]` has an unknown word.
    UnknownKey {
        /// The key as written, with its section.
        path: String,
        /// The most similar valid key.
        did_you_mean: Option<String>,
        /// The valid keys.
        expected: Vec<&'static str>,
    },
    /// A mandatory key or section is missing.
    MissingKey {
        /// The key with its section.
        path: String,
        /// Description of a valid value.
        expected: String,
    },
    /// The value has the wrong TOML type, for example a string instead of an integer.
    WrongType {
        /// The key with its section.
        path: String,
        /// The type of the value: "an integer".
        found: &'static str,
        /// Description of a valid value.
        expected: String,
    },
    /// The value is not valid for this parameter.
    BadValue {
        /// Path of the parameter.
        path: &'static str,
        /// The reason.
        error: ValueError,
    },
    /// The word is not one of the allowed words.
    NotOneOf {
        /// The key.
        path: &'static str,
        /// The word as written.
        found: String,
        /// The allowed words.
        expected: Vec<&'static str>,
    },
    /// The text is empty, or the list of cells or one of its entries is.
    Empty {
        /// The key.
        path: String,
    },
    /// The number has no entry in `[source]`.
    NoSource {
        /// Path of the parameter.
        path: &'static str,
    },
    /// `[source]` has an entry for a number that the profile does not set.
    SourceWithoutNumber {
        /// The path in the entry.
        path: String,
        /// The most similar path among the profile's numbers.
        did_you_mean: Option<String>,
    },
    /// A path in `[source]` lacks quotes, so that TOML reads it as a table.
    SourceNotQuoted {
        /// The first part of the path.
        section: String,
    },
    /// An entry in `[source]` names no source or more than one.
    NotOneSource {
        /// The path in the entry.
        path: String,
    },
    /// The number was fitted on the cells of another device.
    FittedElsewhere {
        /// Path of the parameter.
        path: &'static str,
        /// The cell.
        cell: String,
        /// The experiment that has the cell.
        experiment: String,
        /// Device for which the number was fitted, for example `sd/kingston`.
        of: String,
    },
    /// Each value alone is possible, but their combination is not.
    Impossible {
        /// The parameter and the reason.
        impossible: Impossible,
        /// Value of the parameter.
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
                write!(f, "unknown key {path}{}", present_name(path, nearest.as_deref()))?;
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
            Problem::Empty { path } => write!(f, "{path} is empty; expected a text"),
            Problem::NoSource { path } => write!(
                f,
                "{path} has no source; add under [source]: \"{path}\" = {{ measured = \"...\" }}, or {}",
                or_list(&Source::WORDS.into_iter().filter(|w| *w != "measured").collect::<Vec<_>>())
            ),
            Problem::SourceWithoutNumber { path, did_you_mean: nearest } => {
                write!(
                    f,
                    "[source] has an entry for {path}, which this profile does not set{}",
                    did_you_mean(nearest.as_deref())
                )
            }
            Problem::SourceNotQuoted { section } => {
                write!(f, "the path of a source must be in quotes: \"{section}.KEY\" = {{ ... }}")
            }
            Problem::NotOneSource { path } => {
                write!(f, "{path} needs exactly one source: {}", or_list(&Source::WORDS))
            }
            Problem::FittedElsewhere { path, cell, experiment, of } => write!(
                f,
                "{path} is fitted on {cell}, which belongs to {of} in the experiment {experiment}: a copied number \
                 gives the results of {of}; name another source, for example {{ typical = \"as {of}\" }}, or omit \
                 [source]: the profile is then a draft, and its results are marked unsourced"
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
