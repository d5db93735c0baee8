//! Text form of a quirk and its moment: `NAME[=VALUE][@WHEN]`, parsed and formatted.

use super::{Operand, Planned, Quirk, TABLE, When};
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use flashlab_sim::Instant;

/// Reason why a text is not a quirk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QuirkError {
    /// No quirk has this name.
    Unknown(String),
    /// The value after `=` is missing, superfluous or malformed.
    Operand {
        /// Name of the quirk.
        name: &'static str,
        /// Kind of value that the quirk expects.
        expected: Operand,
    },
    /// The text after `@` is not a moment.
    When(String),
}

impl fmt::Display for QuirkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuirkError::Unknown(name) => {
                write!(f, "unknown quirk {name:?}; the quirks are ")?;
                for (n, entry) in TABLE.iter().enumerate() {
                    write!(f, "{}{}", if n == 0 { "" } else { ", " }, entry.name)?;
                }
                Ok(())
            }
            QuirkError::Operand { name, expected } => match expected {
                Operand::None => write!(f, "{name} takes no value"),
                Operand::Count => write!(f, "{name} needs a number of at least 1, such as {name}=3"),
                Operand::Time => write!(f, "{name} needs a time, such as {name}=400ms"),
                Operand::Size => write!(f, "{name} needs a size in blocks of 512B, such as {name}=16MiB"),
            },
            QuirkError::When(when) => write!(
                f,
                "{when:?} is not a moment; a moment is a time (2s), a command (CMD25, CMD25#3 for the third), or a \
                 number of blocks written (block100)"
            ),
        }
    }
}

impl core::error::Error for QuirkError {}

impl FromStr for Planned {
    type Err = QuirkError;

    /// Parses `NAME[=VALUE][@WHEN]`.
    fn from_str(text: &str) -> Result<Planned, QuirkError> {
        let (what, when) = match text.split_once('@') {
            Some((what, when)) => (what, moment(when).ok_or_else(|| QuirkError::When(when.to_string()))?),
            None => (text, When::Always),
        };
        let (name, operand) = match what.split_once('=') {
            Some((name, operand)) => (name, Some(operand)),
            None => (what, None),
        };
        let entry = TABLE.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| QuirkError::Unknown(name.to_string()))?;
        let value = match (entry.operand, operand) {
            (Operand::None, None) => Some(0),
            (Operand::Count, Some(text)) => {
                number(text, &[]).filter(|n| (1..=u64::from(u32::MAX)).contains(n))
            }
            (Operand::Time, Some(text)) => time(text),
            (Operand::Size, Some(text)) => {
                number(text, SIZES).filter(|size| *size > 0 && size.is_multiple_of(512))
            }
            _ => None,
        };
        let wrong = QuirkError::Operand { name: entry.name, expected: entry.operand };
        Ok(Planned { quirk: (entry.make)(value.ok_or(wrong)?), when })
    }
}

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

fn number(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let stripped = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = stripped.unwrap_or((text, 1));
    // `parse` would accept a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| plain)?.checked_mul(factor)
}

/// Parses a time of at most one day. Longer times serve no purpose.
fn time(text: &str) -> Option<u64> {
    let has_unit = TIMES.iter().any(|(unit, _)| text.ends_with(unit));
    number(text, TIMES).filter(|ns| has_unit && *ns <= 86_400_000_000_000)
}

fn moment(text: &str) -> Option<When> {
    if let Some(count) = text.strip_prefix("block") {
        return number(count, &[]).map(When::Block);
    }
    if let Some(command) = text.strip_prefix("CMD") {
        let (index, nth) = command.split_once('#').unwrap_or((command, "1"));
        let index = number(index, &[]).filter(|index| *index < 64)? as u8;
        let nth = number(nth, &[]).filter(|nth| (1..=u64::from(u32::MAX)).contains(nth))? as u32;
        return Some(When::Command { index, nth });
    }
    time(text).map(|ns| When::At(Instant::from_ns(ns)))
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entry, value) = (self.entry(), self.operand());
        f.write_str(entry.name)?;
        match entry.operand {
            Operand::None => Ok(()),
            Operand::Count => write!(f, "={value}"),
            Operand::Time => write!(f, "={}", LargestUnit(value, TIMES)),
            Operand::Size => write!(f, "={}", LargestUnit(value, SIZES)),
        }
    }
}

impl fmt::Display for Planned {
    /// Formats the text form that [`FromStr`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quirk = self.quirk;
        match self.when {
            When::Always => quirk.fmt(f),
            When::At(at) => write!(f, "{quirk}@{}", LargestUnit(at.as_ns(), TIMES)),
            When::Command { index, nth: 1 } => write!(f, "{quirk}@CMD{index}"),
            When::Command { index, nth } => write!(f, "{quirk}@CMD{index}#{nth}"),
            When::Block(count) => write!(f, "{quirk}@block{count}"),
        }
    }
}

/// Displays a number in the largest unit of which it is a multiple.
struct LargestUnit(u64, &'static [(&'static str, u64)]);

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

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::Duration;

    fn read(text: &str) -> Result<Planned, QuirkError> {
        text.parse()
    }

    #[test]
    fn quirks_are_read_with_value_and_moment() {
        assert_eq!(read("no-crc-mode"), Ok(Quirk::NoCrcMode.into()));
        assert_eq!(read("busy=400ms"), Ok(Quirk::Busy(Duration::from_ms(400)).into()));
        assert_eq!(read("wraps=16MiB"), Ok(Quirk::Wraps(16 << 20).into()));
        let third = When::Command { index: 25, nth: 3 };
        assert_eq!(read("stuck-busy@CMD25#3"), Ok(Planned { quirk: Quirk::StuckBusy, when: third }));
        assert_eq!(read("remove@block100"), Ok(Planned { quirk: Quirk::Remove, when: When::Block(100) }));
        let later = When::At(Instant::from_ns(2_000_000_000));
        assert_eq!(read("power-cut@2s"), Ok(Planned { quirk: Quirk::PowerCut, when: later }));
    }

    #[test]
    fn invalid_quirk_texts_report_the_expected_form() {
        for wrong in
            ["busy", "busy=4", "busy=-1s", "no-crc-mode=1", "wraps=100", "keeps-other=0", "busy=9999999999s"]
        {
            assert!(matches!(read(wrong), Err(QuirkError::Operand { .. })), "{wrong}");
        }
        for wrong in ["remove@", "remove@CMD64", "remove@CMD1#0", "remove@blocks", "remove@5"] {
            assert!(matches!(read(wrong), Err(QuirkError::When(_))), "{wrong}");
        }
        let error = read("slow").expect_err("there is none").to_string();
        assert!(error.contains("\"slow\"") && error.contains("stuck-busy"), "{error}");
    }

    #[test]
    fn every_quirk_of_the_table_can_be_read() {
        for entry in TABLE {
            let operand = match entry.operand {
                Operand::None => "",
                Operand::Count => "=3",
                Operand::Time => "=3ms",
                Operand::Size => "=3MiB",
            };
            let text = [entry.name, operand].concat();
            assert!(read(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn quirk_text_round_trips() {
        for text in [
            "no-crc-mode",
            "busy=400ms",
            "busy-after-app=1500us",
            "wraps=4GiB",
            "drops=1025KiB",
            "reset-retries=3",
            "stuck-busy@CMD25#3",
            "silent@CMD13",
            "power-cut@2s",
            "remove@0ns",
            "remove@block100",
        ] {
            assert_eq!(read(text).map(|planned| planned.to_string()), Ok(text.into()));
        }
    }
}
