//! Text form of a stick's quirk and its trigger: `NAME[=VALUE][@WHEN]`, parsed and formatted.

use super::{PlannedStickQuirk, STICK_QUIRKS, StickQuirk, StickTrigger};
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use flashlab_sd::quirk::{LargestUnit, Operand};
use flashlab_sim::Instant;

/// Reason why a text is not a quirk of a stick.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StickQuirkError {
    /// No quirk has this name.
    Unknown(String),
    /// The value after `=` is missing, superfluous or malformed.
    Operand {
        /// Name of the quirk.
        name: &'static str,
        /// Kind of value that the quirk expects.
        expected: Operand,
    },
    /// The text after `@` is not a trigger.
    Trigger(String),
}

impl fmt::Display for StickQuirkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StickQuirkError::Unknown(name) => {
                write!(f, "unknown quirk {name:?} of a stick; the quirks are ")?;
                for (n, entry) in STICK_QUIRKS.iter().enumerate() {
                    write!(f, "{}{}", if n == 0 { "" } else { ", " }, entry.name)?;
                }
                Ok(())
            }
            StickQuirkError::Operand { name, expected } => expected.write_expectation(name, f),
            StickQuirkError::Trigger(text) => write!(
                f,
                "{text:?} is not a trigger; expected a time (2s) or a number of blocks read or written (block100)"
            ),
        }
    }
}

impl core::error::Error for StickQuirkError {}

impl FromStr for PlannedStickQuirk {
    type Err = StickQuirkError;

    /// Parses `NAME[=VALUE][@WHEN]`.
    fn from_str(text: &str) -> Result<PlannedStickQuirk, StickQuirkError> {
        let (what, trigger) = match text.split_once('@') {
            Some((what, text)) => {
                (what, trigger(text).ok_or_else(|| StickQuirkError::Trigger(text.to_string()))?)
            }
            None => (text, StickTrigger::Always),
        };
        let (name, operand) = match what.split_once('=') {
            Some((name, operand)) => (name, Some(operand)),
            None => (what, None),
        };
        let entry = STICK_QUIRKS.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| StickQuirkError::Unknown(name.to_string()))?;
        let value = match (operand, entry.default) {
            (None, Some(default)) => Some(default),
            _ => entry.operand.parse(operand),
        };
        let wrong = StickQuirkError::Operand { name: entry.name, expected: entry.operand };
        Ok(PlannedStickQuirk { quirk: (entry.make)(value.ok_or(wrong)?), trigger })
    }
}

fn trigger(text: &str) -> Option<StickTrigger> {
    match text.strip_prefix("block") {
        Some(count) => Operand::Count.parse(Some(count)).map(StickTrigger::Block),
        None => Operand::Time.parse(Some(text)).map(|ns| StickTrigger::At(Instant::from_ns(ns))),
    }
}

impl fmt::Display for StickQuirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.entry();
        entry.operand.write(entry.name, self.operand(), f)
    }
}

impl fmt::Display for PlannedStickQuirk {
    /// Formats the text form that [`FromStr`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quirk = self.quirk;
        match self.trigger {
            StickTrigger::Always => quirk.fmt(f),
            StickTrigger::At(at) => write!(f, "{quirk}@{}", LargestUnit::time(at.as_ns())),
            StickTrigger::Block(count) => write!(f, "{quirk}@block{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quirk_text_round_trips() {
        for (text, formatted) in [
            ("needs-reset", "needs-reset=3s"),
            ("needs-reset=1500ms", "needs-reset=1500ms"),
            ("appears-after=8s@2s", "appears-after=8s@2s"),
            ("ready-after=1s", "ready-after=1s"),
            ("capacity=64M", "capacity=64MiB"),
            ("write-protected@block1000", "write-protected@block1000"),
            ("disconnect@block5", "disconnect=1s@block5"),
        ] {
            let planned = text.parse::<PlannedStickQuirk>().map(|planned| planned.to_string());
            assert_eq!(planned, Ok(formatted.into()), "{text}");
        }
    }

    #[test]
    fn invalid_quirk_texts_report_the_expected_form() {
        let read = |text: &str| text.parse::<PlannedStickQuirk>().expect_err("it is no quirk");
        for wrong in ["appears-after", "ready-after=3", "capacity=100", "write-protected=1", "disconnect=-1s"]
        {
            assert!(matches!(read(wrong), StickQuirkError::Operand { .. }), "{wrong}");
        }
        for wrong in ["disconnect@", "disconnect@CMD25", "disconnect@block0", "disconnect@5"] {
            assert!(matches!(read(wrong), StickQuirkError::Trigger(_)), "{wrong}");
        }
        let unknown = read("stuck-busy").to_string();
        assert!(unknown.contains("\"stuck-busy\"") && unknown.contains("needs-reset, "), "{unknown}");
    }
}
