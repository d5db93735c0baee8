//! The values of parameters: a quantity, a count, a number, a list of bus modes, a choice, a flag, or the text of a
//! register.

use super::suggest::{did_you_mean, suggest};
use crate::units::{Dimension, UnitError, clip, or_list};
use flashlab_sd::Mode;
use std::fmt;

/// The form of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A number with its unit, in a string: `"225us"`.
    Quantity(Dimension),
    /// A whole number without a unit: `8`.
    Count,
    /// Bus modes: `["default-speed", "high-speed"]`; in an argument `default-speed+high-speed`.
    Modes,
    /// One of several words: `"convert"`.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A number without a unit: `2.5`, `1e-5`.
    Number,
    /// Contents of a register: `"deadbeef"`, `"QEMU!"`, `"2006-02"`.
    Text(Text),
}

/// The form of a register's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    /// The given number of printable ASCII characters.
    Letters(usize),
    /// The given number of bytes in hexadecimal.
    Hex(usize),
    /// At most the given number of bytes in hexadecimal. Omitted bytes at the end are 0.
    HexUpTo(usize),
    /// A year from 2000 to 2255, and a month.
    Date,
}

impl Text {
    fn expected(self) -> String {
        match self {
            Text::Letters(n) => format!("{n} printable letters in quotes"),
            Text::Hex(n) => {
                format!("{n} bytes in hexadecimal, in quotes, for example \"{}\"", "5a".repeat(n.min(4)))
            }
            Text::HexUpTo(n) => format!("1 to {n} bytes in hexadecimal, in quotes, for example \"5a5a\""),
            Text::Date => "a year and a month in quotes, for example \"2024-11\"".to_owned(),
        }
    }

    fn admits(self, text: &str) -> bool {
        match self {
            Text::Letters(n) => text.len() == n && text.bytes().all(|b| (b' '..=b'~').contains(&b)),
            Text::Hex(n) => text.len() == 2 * n && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Text::HexUpTo(n) => {
                (1..=n).contains(&(text.len() / 2))
                    && text.len().is_multiple_of(2)
                    && text.bytes().all(|b| b.is_ascii_hexdigit())
            }
            Text::Date => date(text).is_some(),
        }
    }
}

/// Returns the year and the month of `2024-11`.
pub(crate) fn date(text: &str) -> Option<(u16, u8)> {
    let (year, month) = text.split_once('-').filter(|(year, month)| year.len() == 4 && month.len() == 2)?;
    // `parse` alone would also accept a sign.
    if !(year.bytes().chain(month.bytes())).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, month) = (year.parse().ok()?, month.parse().ok()?);
    ((2000..2256).contains(&year) && (1..13).contains(&month)).then_some((year, month))
}

/// Returns the bytes of a text that was already checked as hexadecimal. Bytes beyond its end are 0.
pub(crate) fn hex<const N: usize>(text: &str) -> [u8; N] {
    std::array::from_fn(|n| {
        let digits = text.get(2 * n..2 * n + 2).unwrap_or("0");
        u8::from_str_radix(digits, 16).expect("the digits of a value were read as hexadecimal")
    })
}

impl Shape {
    /// Describes a valid value for a user: "a time in quotes, for example \"225us\"".
    pub fn expected(self) -> String {
        match self {
            Shape::Quantity(d) => format!("{} in quotes, for example \"{}\"", d.noun(), d.example()),
            Shape::Count => "a whole number, for example 8".to_owned(),
            Shape::Modes => format!("a list of bus modes from {}", or_list(&mode_names())),
            Shape::Choice(names) => format!("{} in quotes", or_list(names)),
            Shape::Flag => "true or false".to_owned(),
            Shape::Number => "a number of at least 0, for example 2.5".to_owned(),
            Shape::Text(text) => text.expected(),
        }
    }

    /// Names the form for a table of parameters: `time`, `count`, `convert or log`.
    pub fn kind(self) -> String {
        match self {
            Shape::Quantity(d) => d.noun().trim_start_matches("a ").to_owned(),
            Shape::Count => "count".to_owned(),
            Shape::Modes => "list of bus modes".to_owned(),
            Shape::Choice(names) => or_list(names),
            Shape::Flag => "true or false".to_owned(),
            Shape::Number => "number".to_owned(),
            Shape::Text(Text::Letters(_)) => "letters".to_owned(),
            Shape::Text(Text::Hex(_) | Text::HexUpTo(_)) => "hexadecimal".to_owned(),
            Shape::Text(Text::Date) => "date".to_owned(),
        }
    }

    /// Parses the text of a value; `+` separates bus modes.
    pub fn parse(self, text: &str) -> Result<Value, ValueError> {
        match self {
            Shape::Quantity(dimension) => Ok(Value::Quantity(dimension, dimension.parse(text)?)),
            Shape::Count => parse_count(text),
            Shape::Modes => parse_modes(text.split('+')),
            Shape::Choice(names) => parse_choice(names, text),
            Shape::Number => {
                let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
                number.map(Value::number).ok_or_else(|| ValueError::NotANumber(clip(text)))
            }
            Shape::Text(kind) if kind.admits(text) => Ok(Value::Text(text.to_owned())),
            Shape::Text(kind) => {
                Err(ValueError::NotThatText { found: clip(text), expected: kind.expected() })
            }
            Shape::Flag => match text {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err(ValueError::NotOneOf {
                    found: clip(text),
                    expected: vec!["true", "false"],
                    did_you_mean: None,
                }),
            },
        }
    }

    /// Parses a value of a command-line argument as [`Shape::parse`] does, but sizes also accept K, M, G and
    /// T.
    pub fn parse_argument(self, text: &str) -> Result<Value, ValueError> {
        match self {
            Shape::Quantity(dimension) => Ok(Value::Quantity(dimension, dimension.parse_argument(text)?)),
            other => other.parse(text),
        }
    }
}

fn mode_names() -> Vec<&'static str> {
    Mode::every().map(Mode::name).collect()
}

fn parse_count(text: &str) -> Result<Value, ValueError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(count) if digits => Ok(Value::Count(count)),
        _ if digits => Err(ValueError::CountTooLarge(clip(text))),
        _ => Err(ValueError::NotACount(clip(text))),
    }
}

/// Parses the names of bus modes. Each mode may appear once.
pub(crate) fn parse_modes<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Value, ValueError> {
    let mut modes = Vec::new();
    for name in names {
        let mode = Mode::every().find(|m| m.name() == name).ok_or_else(|| ValueError::NotOneOf {
            found: clip(name),
            expected: mode_names(),
            did_you_mean: suggest(name, mode_names()),
        })?;
        if modes.contains(&mode) {
            return Err(ValueError::Twice(mode.name()));
        }
        modes.push(mode);
    }
    Ok(Value::Modes(modes))
}

fn parse_choice(names: &'static [&'static str], text: &str) -> Result<Value, ValueError> {
    let found = names.iter().find(|name| **name == text);
    found.map(|name| Value::Choice(name)).ok_or_else(|| ValueError::NotOneOf {
        found: clip(text),
        expected: names.to_vec(),
        did_you_mean: suggest(text, names.iter().copied()),
    })
}

/// The value of a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A quantity in base units of its dimension.
    Quantity(Dimension, u64),
    /// A whole number.
    Count(u32),
    /// Bus modes, in the order of the text.
    Modes(Vec<Mode>),
    /// The chosen word.
    Choice(&'static str),
    /// `true` or `false`.
    Flag(bool),
    /// A number as the bits of its `f64`, so that values can be compared for equality.
    Number(u64),
    /// Contents of a register.
    Text(String),
}

impl Value {
    /// Returns a value from a number that is not negative.
    pub(crate) fn number(number: f64) -> Self {
        Value::Number(number.to_bits())
    }

    /// Returns the value in base units; `None` if the value is not a quantity or a count.
    pub(crate) fn magnitude(&self) -> Option<u64> {
        match self {
            Value::Quantity(_, base_units) => Some(*base_units),
            Value::Count(count) => Some(u64::from(*count)),
            Value::Modes(_) | Value::Choice(_) | Value::Flag(_) | Value::Number(_) | Value::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    /// Formats the value as in a command-line argument; `+` joins bus modes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Quantity(dimension, base_units) => f.write_str(&dimension.print(*base_units)),
            Value::Count(count) => write!(f, "{count}"),
            Value::Modes(modes) => f.write_str(&modes.iter().map(|m| m.name()).collect::<Vec<_>>().join("+")),
            Value::Choice(name) => f.write_str(name),
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Text(text) => f.write_str(text),
            Value::Number(bits) => match f64::from_bits(*bits) {
                small if small > 0.0 && small < 1e-3 => write!(f, "{small:e}"),
                number => write!(f, "{number}"),
            },
        }
    }
}

/// The reason why a text is not a valid value of a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueError {
    /// The text is not a valid quantity.
    Unit(UnitError),
    /// The text is not a whole number.
    NotACount(String),
    /// The number is above 4294967295.
    CountTooLarge(String),
    /// The text is not a number, or the number is negative or infinite.
    NotANumber(String),
    /// The text is not one of the allowed words.
    NotOneOf {
        /// The text as written.
        found: String,
        /// The allowed words.
        expected: Vec<&'static str>,
        /// The most similar allowed word.
        did_you_mean: Option<&'static str>,
    },
    /// The value is outside the range of the parameter.
    OutOfRange {
        /// The value.
        found: String,
        /// Minimum of the range.
        least: String,
        /// Maximum of the range.
        most: String,
    },
    /// The text does not have the form that the register requires.
    NotThatText {
        /// The text as written.
        found: String,
        /// Description of the form.
        expected: String,
    },
    /// The bus mode appears twice.
    Twice(&'static str),
}

impl From<UnitError> for ValueError {
    fn from(error: UnitError) -> Self {
        ValueError::Unit(error)
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::Unit(error) => error.fmt(f),
            ValueError::NotACount(text) => {
                write!(f, "{text} is not a count; expected {}", Shape::Count.expected())
            }
            ValueError::CountTooLarge(text) => {
                write!(f, "{text} is too large; a count is at most {}", u32::MAX)
            }
            ValueError::NotANumber(text) => {
                write!(f, "{text} is not a valid number; expected {}", Shape::Number.expected())
            }
            ValueError::NotOneOf { found, expected, did_you_mean: nearest } => {
                let nearest = did_you_mean(*nearest);
                write!(
                    f,
                    "\"{found}\" is unknown{nearest}{} expected {}",
                    if nearest.is_empty() { ";" } else { "" },
                    or_list(expected)
                )
            }
            ValueError::NotThatText { found, expected } => write!(f, "\"{found}\" is not {expected}"),
            ValueError::OutOfRange { found, least, most } => {
                write!(f, "{found} is out of range; expected {least} to {most}")
            }
            ValueError::Twice(mode) => write!(f, "{mode} is listed twice"),
        }
    }
}

impl std::error::Error for ValueError {}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn a_date_consists_of_digits() {
        assert_eq!(date("2024-11"), Some((2024, 11)));
        for wrong in ["+2024-1", "2024-+1", "2024-1", "02024-1", "2024-13", "2024/11"] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }
}
