//! What can be wrong with a value, and where in it: said so that a person can mend it.

use std::fmt;

use crate::error::quoted;
use crate::number::LARGEST;

/// What is wrong with a value, and where in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueError {
    /// Characters before the fault.
    pub at: usize,
    /// The fault.
    pub fault: Fault,
}

/// What is wrong with a value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing stands after the `=`.
    Empty,
    /// Neither a digit nor anything else that a number begins with.
    NotANumber,
    /// A `-` before a number that counts something.
    Negative,
    /// Something after the number that is no suffix.
    Suffix {
        /// What follows the number.
        rest: String,
        /// The suffixes that are taken.
        expected: &'static str,
    },
    /// `4.5k`: fio takes whole numbers.
    Fraction,
    /// More than 2^63 - 1.
    TooLarge,
    /// Below or above what the option takes.
    OutOfRange {
        /// Least value.
        least: u64,
        /// Greatest value.
        most: u64,
    },
    /// `10%` where fio takes no share.
    Percent,
    /// A share above 100 %.
    OverHundred,
    /// `10z`: zones.
    Zones,
    /// Something other than 0 or 1.
    NotBoolean,
    /// Not one of the words that the option takes.
    NotOneOf {
        /// The words.
        words: Vec<&'static str>,
        /// The nearest of them.
        did_you_mean: Option<&'static str>,
    },
    /// A range, a list or a clock form where one value is taken.
    OneValue {
        /// What to write.
        instead: &'static str,
    },
    /// More parts than the option takes.
    TooManyParts {
        /// The greatest number of them.
        most: usize,
    },
    /// A part of a structured value is missing or not as it should be.
    Malformed {
        /// The form that is expected.
        expected: &'static str,
    },
    /// Shares that should sum to 100.
    SharesSum {
        /// What they sum to.
        sum: u64,
        /// Of what.
        of: &'static str,
    },
    /// An expression in parentheses that cannot be evaluated.
    Expression(&'static str),
    /// Taken by fio, not modelled here.
    NotModelled(&'static str),
}

impl Fault {
    /// This fault, `at` characters into the value.
    pub fn at(self, at: usize) -> ValueError {
        ValueError { at, fault: self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Empty => write!(f, "it has no value"),
            Fault::NotANumber => write!(f, "this is not a number"),
            Fault::Negative => write!(f, "it must not be negative"),
            Fault::Suffix { rest, expected } => {
                write!(f, "{} is no suffix of it; expected {expected}", quoted(rest))
            }
            Fault::Fraction => {
                write!(
                    f,
                    "only whole numbers are taken (fio drops what follows the point); use a smaller unit"
                )
            }
            Fault::TooLarge => write!(f, "it is larger than 2^63 - 1, the most that fio takes"),
            Fault::OutOfRange { least, most: LARGEST } => write!(f, "it must be at least {least}"),
            Fault::OutOfRange { least, most } => write!(f, "it must be between {least} and {most}"),
            Fault::Percent => write!(f, "it is not a share; write it without %"),
            Fault::OverHundred => write!(f, "a share is at most 100%"),
            Fault::Zones => write!(f, "z counts zones, and zoned devices are not modelled; write bytes"),
            Fault::NotBoolean => write!(f, "it must be 0 or 1"),
            Fault::NotOneOf { words, did_you_mean } => {
                write!(f, "it must be one of {}", words.join(", "))?;
                match did_you_mean {
                    Some(word) => write!(f, "; did you mean {word}?"),
                    None => Ok(()),
                }
            }
            Fault::OneValue { instead } => write!(f, "only one value is taken; {instead}"),
            Fault::TooManyParts { most } => write!(f, "at most {most} parts are taken"),
            Fault::Malformed { expected } => write!(f, "expected {expected}"),
            Fault::SharesSum { sum, of } => write!(f, "the shares of {of} sum to {sum}, not to 100"),
            Fault::Expression(why) => write!(f, "{why}"),
            Fault::NotModelled(what) => write!(f, "{what}"),
        }
    }
}
