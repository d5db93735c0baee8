//! Faults in the value of an option. Their messages tell the user how to correct the value.

use std::fmt;

use crate::error::quoted;
use crate::number::LARGEST;

/// A fault in a value, with its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueError {
    /// Number of characters before the fault.
    pub at: usize,
    /// The fault.
    pub fault: Fault,
}

/// A fault in a value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The text after the `=` is empty.
    Empty,
    /// The text does not begin with a digit, nor with any other character that can begin a number.
    NotANumber,
    /// The number, or the result of the expression, is negative.
    Negative,
    /// The text after the number is not a valid suffix.
    Suffix {
        /// Text after the number.
        rest: String,
        /// Valid suffixes.
        expected: &'static str,
    },
    /// `4.5k`: fio accepts only whole numbers.
    Fraction,
    /// The number is larger than 2^63 - 1.
    TooLarge,
    /// The number is outside the option's limits.
    OutOfRange {
        /// Minimum.
        least: u64,
        /// Maximum.
        most: u64,
    },
    /// `10%` for an option that fio does not accept as a percentage.
    Percent,
    /// A percentage above 100.
    OverHundred,
    /// `10z`: a number of zones.
    Zones,
    /// The value is neither 0 nor 1.
    NotBoolean,
    /// The value is none of the option's words.
    NotOneOf {
        /// Valid words.
        words: Vec<&'static str>,
        /// Valid word that is nearest to the value, if one is near.
        did_you_mean: Option<&'static str>,
    },
    /// A range, a list or a clock time (`1:30`) for an option that takes one value.
    OneValue {
        /// Advice on the form to use instead.
        instead: &'static str,
    },
    /// The value has more parts than the option accepts.
    TooManyParts {
        /// Maximum number of parts.
        most: usize,
    },
    /// A part of a structured value is missing or malformed.
    Malformed {
        /// Expected form.
        expected: &'static str,
    },
    /// Percentages that do not sum to 100.
    SharesSum {
        /// Sum of the percentages.
        sum: u64,
        /// Name of the quantity that the percentages divide.
        of: &'static str,
    },
    /// An invalid expression in parentheses, with the reason.
    Expression(&'static str),
    /// A value that fio accepts but that is not modelled here, with the reason.
    NotModelled(&'static str),
}

impl Fault {
    /// Returns this fault with its position, `at` characters into the value.
    pub fn at(self, at: usize) -> ValueError {
        ValueError { at, fault: self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Empty => write!(f, "the value is empty"),
            Fault::NotANumber => write!(f, "this is not a number"),
            Fault::Negative => write!(f, "it must not be negative"),
            Fault::Suffix { rest, expected } => {
                write!(f, "{} is not a valid suffix; expected {expected}", quoted(rest))
            }
            Fault::Fraction => {
                write!(
                    f,
                    "only whole numbers are accepted (fio drops everything after the point, including the suffix); \
                     use a smaller unit"
                )
            }
            Fault::TooLarge => write!(f, "it is larger than 2^63 - 1, fio's maximum"),
            Fault::OutOfRange { least, most: LARGEST } => write!(f, "it must be at least {least}"),
            Fault::OutOfRange { least, most } => write!(f, "it must be between {least} and {most}"),
            Fault::Percent => write!(f, "it is not a percentage; write it without %"),
            Fault::OverHundred => write!(f, "a percentage is at most 100%"),
            Fault::Zones => write!(f, "z counts zones, and zoned devices are not modelled; write bytes"),
            Fault::NotBoolean => write!(f, "it must be 0 or 1"),
            Fault::NotOneOf { words, did_you_mean } => {
                write!(f, "it must be one of {}", words.join(", "))?;
                match did_you_mean {
                    Some(word) => write!(f, "; did you mean {word}?"),
                    None => Ok(()),
                }
            }
            Fault::OneValue { instead } => write!(f, "only one value is accepted; {instead}"),
            Fault::TooManyParts { most } => write!(f, "at most {most} parts are accepted"),
            Fault::Malformed { expected } => write!(f, "expected {expected}"),
            Fault::SharesSum { sum, of } => write!(f, "the shares of {of} sum to {sum}, not to 100"),
            Fault::Expression(why) => write!(f, "{why}"),
            Fault::NotModelled(what) => write!(f, "{what}"),
        }
    }
}
