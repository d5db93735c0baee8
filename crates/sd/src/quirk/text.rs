//! Text form of a quirk and its trigger: `NAME[=VALUE][@WHEN]`, parsed and formatted.

use super::value::{LargestUnit, number, time};
use super::{Operand, Planned, Quirk, TABLE, Trigger};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use flashlab_sim::Instant;

/// Reason why a text is not a quirk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QuirkError {
    /// No quirk has this name.
    Unknown {
        /// The name.
        name: String,
        /// The names of the quirks.
        known: Vec<&'static str>,
    },
    /// The value after `=` is missing, superfluous or malformed.
    Operand {
        /// Name of the quirk.
        name: &'static str,
        /// Kind of value that the quirk expects.
        expected: Operand,
    },
    /// The text after `@` is not a trigger.
    Trigger {
        /// The text.
        text: String,
        /// The forms of triggers.
        expected: &'static str,
    },
}

impl fmt::Display for QuirkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuirkError::Unknown { name, known } => {
                write!(f, "unknown quirk {name:?}; the quirks are {}", known.join(", "))
            }
            QuirkError::Operand { name, expected } => expected.write_expectation(name, f),
            QuirkError::Trigger { text, expected } => {
                write!(f, "{text:?} is not a trigger; expected {expected}")
            }
        }
    }
}

impl core::error::Error for QuirkError {}

/// The parts of `NAME[=VALUE][@WHEN]`, the text form of a quirk of any device.
#[derive(Clone, Copy, Debug)]
pub struct QuirkText<'a> {
    /// The name.
    pub name: &'a str,
    /// The text after `=`.
    pub value: Option<&'a str>,
    /// The text after `@`.
    pub trigger: Option<&'a str>,
}

impl<'a> QuirkText<'a> {
    /// Splits the text of a quirk.
    pub fn split(text: &'a str) -> QuirkText<'a> {
        let split = |text: &'a str, at| match text.split_once(at) {
            Some((before, after)) => (before, Some(after)),
            None => (text, None),
        };
        let (rest, trigger) = split(text, '@');
        let (name, value) = split(rest, '=');
        QuirkText { name, value, trigger }
    }
}

const TRIGGERS: &str =
    "a time (2s), a command (CMD25, CMD25#3 for the third), or a number of blocks written (block100)";

impl FromStr for Planned {
    type Err = QuirkError;

    /// Parses `NAME[=VALUE][@WHEN]`.
    fn from_str(text: &str) -> Result<Planned, QuirkError> {
        let QuirkText { name, value, trigger: when } = QuirkText::split(text);
        let wrong_trigger = |text: &str| QuirkError::Trigger { text: text.to_string(), expected: TRIGGERS };
        let trigger =
            when.map_or(Ok(Trigger::Always), |text| trigger(text).ok_or_else(|| wrong_trigger(text)))?;
        let entry = TABLE.iter().find(|entry| entry.name == name).ok_or_else(|| QuirkError::Unknown {
            name: name.to_string(),
            known: TABLE.iter().map(|entry| entry.name).collect(),
        })?;
        let wrong = QuirkError::Operand { name: entry.name, expected: entry.operand };
        let value = entry.operand.parse(value).ok_or(wrong)?;
        Ok(Planned { quirk: (entry.make)(value), trigger })
    }
}

fn trigger(text: &str) -> Option<Trigger> {
    if let Some(count) = text.strip_prefix("block") {
        return number(count, &[]).map(Trigger::Block);
    }
    if let Some(command) = text.strip_prefix("CMD") {
        let (index, nth) = command.split_once('#').unwrap_or((command, "1"));
        let index = number(index, &[]).filter(|index| *index < 64)? as u8;
        let nth = number(nth, &[]).filter(|nth| (1..=u64::from(u32::MAX)).contains(nth))? as u32;
        return Some(Trigger::Command { index, nth });
    }
    time(text).map(|ns| Trigger::At(Instant::from_ns(ns)))
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.entry();
        entry.operand.write(entry.name, self.operand(), f)
    }
}

impl fmt::Display for Planned {
    /// Formats the text form that [`FromStr`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quirk = self.quirk;
        match self.trigger {
            Trigger::Always => quirk.fmt(f),
            Trigger::At(at) => write!(f, "{quirk}@{}", LargestUnit::time(at.as_ns())),
            Trigger::Command { index, nth: 1 } => write!(f, "{quirk}@CMD{index}"),
            Trigger::Command { index, nth } => write!(f, "{quirk}@CMD{index}#{nth}"),
            Trigger::Block(count) => write!(f, "{quirk}@block{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode;
    use flashlab_sim::Duration;

    fn read(text: &str) -> Result<Planned, QuirkError> {
        text.parse()
    }

    #[test]
    fn quirks_are_read_with_value_and_trigger() {
        assert_eq!(read("no-crc-mode"), Ok(Quirk::NoCrcMode.into()));
        assert_eq!(read("busy=400ms"), Ok(Quirk::Busy(Duration::from_ms(400)).into()));
        assert_eq!(read("wraps=16MiB"), Ok(Quirk::Wraps(16 << 20).into()));
        let third = Trigger::Command { index: opcode::WRITE_MULTIPLE_BLOCK, nth: 3 };
        assert_eq!(read("stuck-busy@CMD25#3"), Ok(Planned { quirk: Quirk::StuckBusy, trigger: third }));
        assert_eq!(
            read("remove@block100"),
            Ok(Planned { quirk: Quirk::Remove, trigger: Trigger::Block(100) })
        );
        let later = Trigger::At(Instant::from_ns(2_000_000_000));
        assert_eq!(read("power-cut@2s"), Ok(Planned { quirk: Quirk::PowerCut, trigger: later }));
    }

    #[test]
    fn invalid_quirk_texts_report_the_expected_form() {
        for wrong in
            ["busy", "busy=4", "busy=-1s", "no-crc-mode=1", "wraps=100", "keeps-other=0", "busy=9999999999s"]
        {
            assert!(matches!(read(wrong), Err(QuirkError::Operand { .. })), "{wrong}");
        }
        for wrong in ["remove@", "remove@CMD64", "remove@CMD1#0", "remove@blocks", "remove@5"] {
            assert!(matches!(read(wrong), Err(QuirkError::Trigger { .. })), "{wrong}");
        }
        let error = read("slow").expect_err("no quirk has this name").to_string();
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
