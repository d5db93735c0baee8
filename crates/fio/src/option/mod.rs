//! The one table of fio's options: the parser, `flashlab explain` and docs/fio-options.md all read it.
//!
//! It names every option of fio 3.33. Each is *modelled*, *irrelevant* (accepted and listed in the output, since it
//! cannot change a result here) or *refused* (it changes results and is not modelled). To add one, add an [`Entry`] to
//! the chapter where fio's manual has it.

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

/// What happens to an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It does here what it does in fio.
    Modelled,
    /// Accepted and listed in the output: it cannot change a result here.
    Irrelevant,
    /// It changes results and is not modelled: an error, unless it has one of these values, which ask for nothing.
    Refused {
        /// Values that are accepted.
        harmless: &'static [&'static str],
    },
}

/// How a value is read, and where it goes.
pub(crate) enum Kind {
    /// Any text.
    Text(fn(&mut Settings, &str)),
    /// The beginning of files' names; empty where it is left out, and then the job's name takes its place.
    Prefix(fn(&mut Settings, &str)),
    /// 0 or 1, or nothing for 1.
    Switch(fn(&mut Settings, bool)),
    /// 0 or 1.
    Boolean(fn(&mut Settings, bool)),
    /// A count or a size.
    Count { least: u64, most: u64, set: fn(&mut Settings, u64) },
    /// A size or a share.
    Extent { least: u64, set: fn(&mut Settings, Extent) },
    /// A time.
    Time { unit: TimeUnit, set: fn(&mut Settings, Duration) },
    /// One of some words; the function gets its place in the list.
    Word { words: &'static [&'static str], set: fn(&mut Settings, usize) },
    /// A form of its own.
    Form { form: &'static str, read: fn(&mut Settings, &str) -> Result<(), ValueError> },
    /// A value that is not looked at.
    Unread,
    /// A switch that is not looked at.
    UnreadSwitch,
}

/// One option.
pub struct Entry {
    /// fio's first name for it; in fio's JSON it stands under this one.
    pub name: &'static str,
    /// fio's other names for it.
    pub aliases: &'static [&'static str],
    /// fio's default; empty for none.
    pub default: &'static str,
    /// What happens to it.
    pub standing: Standing,
    /// What it means; for an option that is not modelled, why not.
    pub meaning: &'static str,
    pub(crate) kind: Kind,
}

/// Options that belong together.
pub struct Chapter {
    /// Its heading.
    pub title: &'static str,
    /// Its options, in the order of fio's manual.
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

/// Every option, in the order of the table.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().flat_map(|chapter| chapter.entries)
}

/// The option with this name or alias.
pub fn lookup(name: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.names().any(|known| known == name))
}

/// The known name that is most like `name`, if one is much like it.
pub fn suggest(name: &str) -> Option<&'static str> {
    nearest(name, entries().flat_map(Entry::names))
}

/// The candidate that is most like `word`, if one is much like it.
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

/// Days of the longest time that an option may have. Simulated time ends after 584 years, and a job may add four of
/// them to where it is.
const DAYS_MAX: u64 = 36_500;

/// A time of an option.
pub(crate) fn time(text: &str, unit: TimeUnit) -> Result<Duration, ValueError> {
    let time = number::time(text, unit)?;
    if time > Duration::from_secs(86_400 * DAYS_MAX) {
        return Err(Fault::NotModelled("at most 36500d, a hundred years, are simulated").at(0));
    }
    Ok(time)
}

/// Why a value was not taken.
pub(crate) enum NotTaken {
    /// There is none.
    Missing,
    /// It is wrong.
    Wrong(ValueError),
}

impl From<ValueError> for NotTaken {
    fn from(error: ValueError) -> Self {
        NotTaken::Wrong(error)
    }
}

impl Entry {
    /// The name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Whether the value may be left out; on a command line it must then follow a `=`.
    pub fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Switch(_) | Kind::UnreadSwitch)
    }

    /// What a value looks like.
    pub fn form(&self) -> String {
        match &self.kind {
            Kind::Text(_) => "a text".to_string(),
            Kind::Prefix(_) => "a text; left out in a job file, the job's name".to_string(),
            Kind::Switch(_) | Kind::UnreadSwitch => "0 or 1; alone it is 1".to_string(),
            Kind::Boolean(_) => "0 or 1".to_string(),
            Kind::Count { least: 0, most: number::LARGEST, .. } => "a number".to_string(),
            Kind::Count { least, most: number::LARGEST, .. } => format!("a number from {least}"),
            Kind::Count { least, most, .. } => format!("a number from {least} to {most}"),
            Kind::Extent { .. } => "a size, or a share such as 50%".to_string(),
            Kind::Time { unit, .. } => format!("a time; without a suffix in {}", unit.name()),
            Kind::Word { words, .. } => format!("one of {}", words.join(", ")),
            Kind::Form { form, .. } => (*form).to_string(),
            Kind::Unread => "any".to_string(),
        }
    }

    /// Whether this value of a refused option asks for nothing.
    pub fn is_harmless(&self, value: Option<&str>) -> bool {
        match (self.standing, value) {
            (Standing::Refused { harmless }, Some(value)) => harmless.contains(&value.trim()),
            (Standing::Refused { .. }, None) => false,
            _ => true,
        }
    }

    /// Reads `value` into `settings`.
    pub(crate) fn apply(&self, settings: &mut Settings, value: Option<&str>) -> Result<(), NotTaken> {
        let text = match (value, &self.kind) {
            (Some(value), _) => value,
            (None, Kind::Switch(_) | Kind::UnreadSwitch) => "1",
            (None, Kind::Prefix(set)) => {
                set(settings, "");
                return Ok(());
            }
            (None, _) => return Err(NotTaken::Missing),
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
            Kind::Unread | Kind::UnreadSwitch => {}
        }
        Ok(())
    }
}

/// An option that does what it does in fio.
const fn modelled(
    name: &'static str,
    aliases: &'static [&'static str],
    default: &'static str,
    kind: Kind,
    meaning: &'static str,
) -> Entry {
    Entry { name, aliases, default, standing: Standing::Modelled, meaning, kind }
}

/// An option that cannot change a result here.
const fn irrelevant(name: &'static str, reason: &'static str) -> Entry {
    Entry {
        name,
        aliases: &[],
        default: "",
        standing: Standing::Irrelevant,
        meaning: reason,
        kind: Kind::Unread,
    }
}

/// An option that changes results and is not modelled, unless it has one of the values that ask for nothing.
const fn refused(name: &'static str, harmless: &'static [&'static str], reason: &'static str) -> Entry {
    let standing = Standing::Refused { harmless };
    Entry { name, aliases: &[], default: "", standing, meaning: reason, kind: Kind::Unread }
}

impl Entry {
    /// The same with fio's other names for it.
    const fn or(mut self, aliases: &'static [&'static str]) -> Entry {
        self.aliases = aliases;
        self
    }
    /// The same, with a value that may be left out.
    const fn switch(mut self) -> Entry {
        self.kind = Kind::UnreadSwitch;
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
    fn every_option_says_what_it_means() {
        for entry in entries() {
            assert!(entry.meaning.len() >= 20, "{}", entry.name);
            let reads = !matches!(entry.kind, Kind::Unread | Kind::UnreadSwitch);
            assert_eq!(reads, entry.standing == Standing::Modelled, "{}", entry.name);
        }
    }

    #[test]
    fn every_default_is_a_value_that_is_taken() {
        for entry in
            entries().filter(|entry| entry.standing == Standing::Modelled && !entry.default.is_empty())
        {
            let taken = entry.apply(&mut Settings::default(), Some(entry.default)).is_ok();
            assert!(taken, "{}={}", entry.name, entry.default);
        }
    }

    #[test]
    fn slips_of_the_pen_are_recognised() {
        for (slip, meant) in [
            ("nmjobs", "numjobs"),
            ("io-depth", "iodepth"),
            ("run_time", "runtime"),
            ("blocksizes", "blocksize"),
            ("DIRECT", "direct"),
            ("group_report", "group_reporting"),
        ] {
            let found = suggest(slip);
            assert!(found == Some(meant) || slip == "group_report", "{slip}: {found:?}");
        }
        assert_eq!(suggest("frobnicate"), None);
        assert_eq!(suggest(&"x".repeat(1000)), None);
    }
}
