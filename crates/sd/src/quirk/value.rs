//! Values of quirks as text: numbers, times and sizes, parsed and formatted.

use super::Operand;
use core::fmt;

const SIZES: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("B", 1),
];
const TIMES: &[(&str, u64)] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

impl Operand {
    /// Parses the text after the `=` of a quirk; `None` stands for a quirk without `=`. Returns nanoseconds for a time,
    /// bytes for a size, and `None` if the text is not a valid value of this kind.
    pub fn parse(self, text: Option<&str>) -> Option<u64> {
        match (self, text) {
            (Operand::None, None) => Some(0),
            (Operand::Count, Some(text)) => {
                number(text, &[]).filter(|n| (1..=u64::from(u32::MAX)).contains(n))
            }
            (Operand::Time, Some(text)) => time(text),
            (Operand::Size, Some(text)) => {
                number(text, SIZES).filter(|size| *size > 0 && size.is_multiple_of(512))
            }
            _ => None,
        }
    }

    /// Formats a quirk with its value, as [`Operand::parse`] reads it.
    pub fn write(self, name: &str, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name)?;
        match self {
            Operand::None => Ok(()),
            Operand::Count => write!(f, "={value}"),
            Operand::Time => write!(f, "={}", LargestUnit::time(value)),
            Operand::Size => write!(f, "={}", LargestUnit(value, SIZES)),
        }
    }

    /// Writes the value that the quirk `name` expects, for an error message.
    pub fn write_expectation(self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::None => write!(f, "{name} takes no value"),
            Operand::Count => write!(f, "{name} needs a number of at least 1, such as {name}=3"),
            Operand::Time => write!(f, "{name} needs a time, such as {name}=400ms"),
            Operand::Size => write!(f, "{name} needs a size in blocks of 512B, such as {name}=16MiB"),
        }
    }
}

/// Parses a whole number, which one of `units` may follow.
pub(super) fn number(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let stripped = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = stripped.unwrap_or((text, 1));
    // `parse` would accept a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| plain)?.checked_mul(factor)
}

/// Parses a time of at most one day. Longer times serve no purpose.
pub(super) fn time(text: &str) -> Option<u64> {
    let has_unit = TIMES.iter().any(|(unit, _)| text.ends_with(unit));
    number(text, TIMES).filter(|ns| has_unit && *ns <= 86_400_000_000_000)
}

/// Displays a number in the largest unit of which it is a multiple.
#[derive(Clone, Copy, Debug)]
pub struct LargestUnit(u64, &'static [(&'static str, u64)]);

impl LargestUnit {
    /// Displays a time in nanoseconds.
    pub fn time(ns: u64) -> LargestUnit {
        LargestUnit(ns, TIMES)
    }
}

impl fmt::Display for LargestUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LargestUnit(value, units) = self;
        let fits = units.iter().filter(|(_, unit)| value.is_multiple_of(*unit) && *unit <= (*value).max(1));
        // Of two names for the same unit, the first is used.
        let (name, unit) =
            fits.reduce(|best, next| if next.1 > best.1 { next } else { best }).unwrap_or(&("", 1));
        write!(f, "{}{name}", value / unit)
    }
}
