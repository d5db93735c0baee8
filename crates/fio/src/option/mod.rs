//! The table of fio's options, which the parser, `flashlab explain` and docs/fio-options.md share.
//!
//! The table lists every option of fio 3.33 as *modelled*, *irrelevant* (accepted and listed in the output, since it
//! cannot change a result here) or *refused* (it changes results and is not modelled). To add an option, add an
//! [`Entry`] to the chapter where fio's manual describes it.

mod engine;
mod files;
pub(crate) mod form;
mod integrity;
mod measurement;
mod pattern;
mod process;
pub(crate) mod settings;
mod timing;

use crate::job::Extent;
use crate::number::{self, Fault, TimeUnit, ValueError};
use flashlab_sim::Duration;
use settings::Settings;

/// The extent to which an option is supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// The option has its effect in fio, except for differences that [`Entry::meaning`] states.
    Modelled,
    /// The option cannot change a result here. It is accepted, and listed in the output.
    Irrelevant,
    /// The option changes results and is not modelled. It is an error, except with a value that has no effect.
    Refused {
        /// Values that are accepted because they have no effect.
        accepted_values: &'static [&'static str],
    },
}

/// Parser and destination of an option's value.
pub(crate) enum Kind {
    /// Any text.
    Text(fn(&mut Settings, &str)),
    /// A prefix of file names. Without a value the prefix is empty, and the job's name replaces it.
    Prefix(fn(&mut Settings, &str)),
    /// 0 or 1. No value means 1.
    Switch(fn(&mut Settings, bool)),
    /// 0 or 1.
    Boolean(fn(&mut Settings, bool)),
    /// A count or a size.
    Count { least: u64, most: u64, set: fn(&mut Settings, u64) },
    /// A size or a percentage.
    Extent { least: u64, set: fn(&mut Settings, Extent) },
    /// A time.
    Time { unit: TimeUnit, set: fn(&mut Settings, Duration) },
    /// One of several words. The function receives the index of the word.
    Word { words: &'static [&'static str], set: fn(&mut Settings, usize) },
    /// A value with its own syntax.
    Form { form: &'static str, read: fn(&mut Settings, &str) -> Result<(), ValueError> },
    /// A value that is ignored.
    Ignored,
    /// A switch that is ignored.
    IgnoredSwitch,
}

/// One option.
pub struct Entry {
    /// fio's first name for the option, which fio's JSON uses.
    pub name: &'static str,
    /// fio's other names for the option.
    pub aliases: &'static [&'static str],
    /// fio's default; empty if there is none.
    pub default: &'static str,
    /// Support of the option.
    pub support: Support,
    /// Meaning of a modelled option; for any other option, the reason why it is irrelevant or refused.
    pub meaning: &'static str,
    pub(crate) kind: Kind,
}

/// A group of related options.
pub struct Chapter {
    /// Heading of the chapter.
    pub title: &'static str,
    /// Options of the chapter, in the order of fio's manual.
    pub entries: &'static [Entry],
}

/// Every option of fio 3.33, by chapter.
pub static TABLE: &[Chapter] = &[
    Chapter { title: "Units and description", entries: process::UNITS },
    Chapter { title: "Files and devices", entries: files::FILES },
    Chapter { title: "Pattern", entries: pattern::PATTERN },
    Chapter { title: "Block sizes", entries: pattern::BLOCKS },
    Chapter { title: "Amount and region", entries: pattern::AMOUNT },
    Chapter { title: "Engine and queue", entries: engine::ENGINE },
    Chapter { title: "Durability", entries: engine::DURABILITY },
    Chapter { title: "Time and order", entries: timing::TIME },
    Chapter { title: "Rate and think time", entries: timing::RATE },
    Chapter { title: "Latency targets and steady state", entries: timing::TARGETS },
    Chapter { title: "Traces", entries: files::TRACES },
    Chapter { title: "Reports and logs", entries: measurement::REPORTS },
    Chapter { title: "Buffers and their contents", entries: process::BUFFERS },
    Chapter { title: "Processes and machine", entries: process::PROCESSES },
    Chapter { title: "Verification, trimming and errors", entries: integrity::INTEGRITY },
    Chapter { title: "Zoned devices", entries: integrity::ZONES },
    Chapter { title: "Options of single engines", entries: engine::ENGINE_DETAILS },
    Chapter { title: "Options of engines that are not modelled", entries: engine::OTHER_ENGINES },
];

/// Returns every option, in the order of the table.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().flat_map(|chapter| chapter.entries)
}

/// Returns the option with this name or alias.
pub fn lookup(name: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.names().any(|known| known == name))
}

/// Returns the known name that is most similar to `name`, if one is similar enough.
pub fn suggest(name: &str) -> Option<&'static str> {
    nearest(name, entries().flat_map(Entry::names))
}

/// Returns the candidate that is most similar to `word`, if one is similar enough.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let word = word.trim_start_matches('-').to_ascii_lowercase().replace('-', "_");
    let most = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::damerau_levenshtein(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Maximum value of a time option, in days. Simulated time ends after 584 years, and a job can add four such
/// values to its current time.
const DAYS_MAX: u64 = 36_500;

/// Parses the time of an option, which is at most [`DAYS_MAX`].
pub(crate) fn time(text: &str, unit: TimeUnit) -> Result<Duration, ValueError> {
    let time = number::time(text, unit)?;
    if time > Duration::from_secs(86_400 * DAYS_MAX) {
        return Err(Fault::NotModelled("at most 36500d, a hundred years, are simulated").at(0));
    }
    Ok(time)
}

/// The reason why a value was rejected.
pub(crate) enum Rejection {
    /// The value is missing.
    Missing,
    /// The value is faulty.
    Invalid(ValueError),
}

impl From<ValueError> for Rejection {
    fn from(error: ValueError) -> Self {
        Rejection::Invalid(error)
    }
}

impl Entry {
    /// Returns the name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Returns true if the option is a switch: the value may be omitted, and on a command line it must follow
    /// a `=`.
    pub fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Switch(_) | Kind::IgnoredSwitch)
    }

    /// Returns a description of the form of the option's value.
    pub fn form(&self) -> String {
        match &self.kind {
            Kind::Text(_) => "text".to_string(),
            Kind::Prefix(_) => "text; without a value in a job file, the job's name".to_string(),
            Kind::Switch(_) | Kind::IgnoredSwitch => "0 or 1; without a value, 1".to_string(),
            Kind::Boolean(_) => "0 or 1".to_string(),
            Kind::Count { least: 0, most: number::LARGEST, .. } => "a number".to_string(),
            Kind::Count { least, most: number::LARGEST, .. } => format!("a number from {least}"),
            Kind::Count { least, most, .. } => format!("a number from {least} to {most}"),
            Kind::Extent { .. } => "a size, or a percentage such as 50%".to_string(),
            Kind::Time { unit, .. } => format!("a time; without a suffix, in {}", unit.name()),
            Kind::Word { words, .. } => format!("one of {}", words.join(", ")),
            Kind::Form { form, .. } => (*form).to_string(),
            Kind::Ignored => "any".to_string(),
        }
    }

    /// Returns false if the option is refused and `value` is not one of its accepted values.
    pub fn is_accepted(&self, value: Option<&str>) -> bool {
        match (self.support, value) {
            (Support::Refused { accepted_values }, Some(value)) => accepted_values.contains(&value.trim()),
            (Support::Refused { .. }, None) => false,
            _ => true,
        }
    }

    /// Parses `value` and stores it in `settings`.
    pub(crate) fn apply(&self, settings: &mut Settings, value: Option<&str>) -> Result<(), Rejection> {
        let text = match (value, &self.kind) {
            (Some(value), _) => value,
            (None, Kind::Switch(_) | Kind::IgnoredSwitch) => "1",
            (None, Kind::Prefix(set)) => {
                set(settings, "");
                return Ok(());
            }
            (None, _) => return Err(Rejection::Missing),
        };
        let base = settings.kb_base;
        if text.is_empty() {
            return Err(Fault::Empty.at(0).into());
        }
        match &self.kind {
            Kind::Text(set) | Kind::Prefix(set) => set(settings, text),
            Kind::Switch(set) | Kind::Boolean(set) => set(settings, number::boolean(text)?),
            Kind::Count { least, most, set } => set(settings, number::bounded(text, base, *least, *most)?),
            Kind::Extent { least, set } => match number::extent(text, base)? {
                Extent::Bytes(n) if n < *least => {
                    return Err(Fault::OutOfRange { least: *least, most: number::LARGEST }.at(0).into());
                }
                Extent::Percent(0) if *least > 0 => {
                    return Err(Fault::OutOfRange { least: 1, most: 100 }.at(0).into());
                }
                extent => set(settings, extent),
            },
            Kind::Time { unit, set } => set(settings, time(text, *unit)?),
            Kind::Word { words, set } => set(settings, form::word(text, words)?),
            Kind::Form { read, .. } => read(settings, text)?,
            Kind::Ignored | Kind::IgnoredSwitch => {}
        }
        Ok(())
    }
}

/// Returns the entry of a modelled option.
const fn modelled(
    name: &'static str,
    aliases: &'static [&'static str],
    default: &'static str,
    kind: Kind,
    meaning: &'static str,
) -> Entry {
    Entry { name, aliases, default, support: Support::Modelled, meaning, kind }
}

/// Returns the entry of an option that cannot change a result here.
const fn irrelevant(name: &'static str, reason: &'static str) -> Entry {
    Entry {
        name,
        aliases: &[],
        default: "",
        support: Support::Irrelevant,
        meaning: reason,
        kind: Kind::Ignored,
    }
}

/// Returns the entry of an option that changes results and is not modelled. The `accepted_values` have no effect.
const fn refused(
    name: &'static str,
    accepted_values: &'static [&'static str],
    reason: &'static str,
) -> Entry {
    let support = Support::Refused { accepted_values };
    Entry { name, aliases: &[], default: "", support, meaning: reason, kind: Kind::Ignored }
}

impl Entry {
    /// Adds fio's other names for the option.
    const fn with_aliases(mut self, aliases: &'static [&'static str]) -> Entry {
        self.aliases = aliases;
        self
    }
    /// Turns the option into an ignored switch, whose value may be omitted.
    const fn switch(mut self) -> Entry {
        self.kind = Kind::IgnoredSwitch;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_for_one_option() {
        let mut names: Vec<&str> = entries().flat_map(Entry::names).collect();
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    #[test]
    fn every_option_has_a_meaning_and_a_parser_only_if_modelled() {
        for entry in entries() {
            assert!(entry.meaning.len() >= 20, "{}", entry.name);
            let reads = !matches!(entry.kind, Kind::Ignored | Kind::IgnoredSwitch);
            assert_eq!(reads, entry.support == Support::Modelled, "{}", entry.name);
        }
    }

    #[test]
    fn every_default_is_accepted() {
        for entry in entries().filter(|entry| entry.support == Support::Modelled && !entry.default.is_empty())
        {
            let accepted = entry.apply(&mut Settings::default(), Some(entry.default)).is_ok();
            assert!(accepted, "{}={}", entry.name, entry.default);
        }
    }

    #[test]
    fn misspelled_names_are_recognised() {
        for (misspelled, meant) in [
            ("nmjobs", "numjobs"),
            ("io-depth", "iodepth"),
            ("run_time", "runtime"),
            ("blocksizes", "blocksize"),
            ("DIRECT", "direct"),
        ] {
            let found = suggest(misspelled);
            assert_eq!(found, Some(meant), "{misspelled}");
        }
        assert_eq!(suggest("frobnicate"), None);
        assert_eq!(suggest(&"x".repeat(1000)), None);
    }
}
