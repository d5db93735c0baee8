//! Text form of a stick's quirk and its trigger: `NAME[=VALUE][@WHEN]`, parsed and formatted.

use super::{PlannedStickQuirk, STICK_QUIRKS, StickQuirk, StickTrigger};
use alloc::string::ToString;
use core::fmt;
use core::str::FromStr;
use flashlab_sd::quirk::{LargestUnit, Operand, QuirkError, QuirkText};
use flashlab_sim::Instant;

const TRIGGERS: &str = "a time (2s) or a number of blocks read or written (block100)";

impl FromStr for PlannedStickQuirk {
    type Err = QuirkError;

    /// Parses `NAME[=VALUE][@WHEN]`.
    fn from_str(text: &str) -> Result<PlannedStickQuirk, QuirkError> {
        let QuirkText { name, value, trigger: when } = QuirkText::split(text);
        let wrong_trigger = |text: &str| QuirkError::Trigger { text: text.to_string(), expected: TRIGGERS };
        let trigger =
            when.map_or(Ok(StickTrigger::Always), |text| trigger(text).ok_or_else(|| wrong_trigger(text)))?;
        let entry = STICK_QUIRKS.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| QuirkError::Unknown {
            name: name.to_string(),
            known: STICK_QUIRKS.iter().map(|entry| entry.name).collect(),
        })?;
        let value = match (value, entry.default) {
            (None, Some(default)) => Some(default),
            _ => entry.operand.parse(value),
        };
        let wrong = QuirkError::Operand { name: entry.name, expected: entry.operand };
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
            assert!(matches!(read(wrong), QuirkError::Operand { .. }), "{wrong}");
        }
        for wrong in ["disconnect@", "disconnect@CMD25", "disconnect@block0", "disconnect@5"] {
            assert!(matches!(read(wrong), QuirkError::Trigger { .. }), "{wrong}");
        }
        let unknown = read("stuck-busy").to_string();
        assert!(unknown.contains("\"stuck-busy\"") && unknown.contains("needs-reset, "), "{unknown}");
    }
}
