//! The parser of profiles, which turns the bytes of a TOML file into a [`Profile`] or a list of mistakes.

use super::suggest::suggest;
use super::value::parse_modes;
use super::{
    Kind, Mistake, Number, PROFILE_BYTES_MAX, Parameter, Parts, Problem, Profile, ProfileError, Shape,
    Source, SourceText, Value,
};
use crate::units::{clip, or_list};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

type Span = Range<usize>;

/// Keys at the top of a device's profile, before its sections. Other profiles lack `model` and `host`.
const HEAD: [&str; 5] = ["kind", "name", "model", "host", "notes"];

/// Limit for reported mistakes. Finding the position of each mistake takes time, and readers correct the
/// first mistakes first.
const MISTAKES_MAX: usize = 100;

pub(super) fn profile(file: &str, bytes: &[u8]) -> Result<Profile, ProfileError> {
    let text = source_text(file, bytes)?;
    let root = DeTable::parse(&text.text).map_err(|e| {
        let place = text.place(e.span().unwrap_or(0..0));
        let problem = Problem::Syntax(e.message().to_owned());
        ProfileError { mistakes: vec![Mistake { place, problem }] }
    })?;
    let mut reader = Reader { text: &text, mistakes: Vec::new() };
    let profile = reader.read(&in_order(root.get_ref()));
    let mut mistakes = reader.mistakes;
    mistakes.sort_by_key(|(span, _)| span.start);
    mistakes.truncate(MISTAKES_MAX);
    let mistakes: Vec<_> =
        mistakes.into_iter().map(|(span, problem)| Mistake { place: text.place(span), problem }).collect();
    match profile {
        Some(profile) if mistakes.is_empty() => Ok(Profile { text, ..profile }),
        _ => Err(ProfileError { mistakes }),
    }
}

fn source_text(file: &str, bytes: &[u8]) -> Result<SourceText, ProfileError> {
    let only = |text: &[u8], span: Span, problem| {
        let text = SourceText::new(file, String::from_utf8_lossy(text));
        Err(ProfileError { mistakes: vec![Mistake { place: text.place(span), problem }] })
    };
    if bytes.len() > PROFILE_BYTES_MAX {
        return only(b"", 0..0, Problem::TooLong { most: PROFILE_BYTES_MAX });
    }
    match str::from_utf8(bytes) {
        Ok(text) => Ok(SourceText::new(file, text)),
        Err(e) => {
            let at = e.valid_up_to();
            only(bytes, at..at + 1, Problem::NotText)
        }
    }
}

/// An entry of a table.
#[derive(Clone, Copy)]
struct Entry<'a> {
    key: &'a str,
    key_at: (usize, usize),
    value: &'a DeValue<'a>,
    value_at: (usize, usize),
}

impl Entry<'_> {
    fn key_span(&self) -> Span {
        self.key_at.0..self.key_at.1
    }
    fn value_span(&self) -> Span {
        self.value_at.0..self.value_at.1
    }
}

/// Returns the entries of `table` in the order of the text.
fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref(),
            key_at: (key.span().start, key.span().end),
            value: value.get_ref(),
            value_at: (value.span().start, value.span().end),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_at);
    entries
}

/// Returns true if the profile has the key of `parameter`, with a valid value or an invalid one.
fn has_key(root: &[Entry<'_>], parameter: &Parameter) -> bool {
    let section = root.iter().find(|entry| entry.key == parameter.section());
    match section.map(|entry| entry.value) {
        Some(DeValue::Table(table)) => table.contains_key(parameter.key()),
        _ => false,
    }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a decimal number without a unit",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

struct Reader<'t> {
    text: &'t SourceText,
    mistakes: Vec<(Span, Problem)>,
}

impl Reader<'_> {
    fn report(&mut self, span: Span, problem: Problem) {
        self.mistakes.push((span, problem));
    }

    /// Reads the whole profile; `None` if its kind is missing or unknown.
    fn read(&mut self, root: &[Entry<'_>]) -> Option<Profile> {
        let kind = self.kind(root)?;
        let meant = self.unknown_at_top(kind, root);
        let title = self.head(root, "name");
        // In the profile of a host, `host` is the section, not the name of a host.
        let of_device = |key| if kind.is_device() { key } else { "" };
        let host = self.head(root, of_device("host"));
        let is_missing = |key: &str| !root.iter().any(|e| e.key == key) && !meant.contains(&key);
        if is_missing("name") {
            self.missing(0..0, "name", "the full name, in quotes");
        }
        if kind.is_device() && is_missing("host") {
            let example = kind.host_example().expect("a device has a host");
            let expected =
                format!("the host that the {} was measured on, for example \"{example}\"", kind.name());
            self.missing(0..0, "host", &expected);
        }
        let mut numbers = Vec::new();
        // The section of a filesystem's profile selects its model.
        let is_selected = |section: &&str| root.iter().any(|e| e.key == *section);
        let by_section = kind == Kind::FILESYSTEM && kind.sections().iter().any(is_selected);
        for section in kind.sections().iter().filter(|section| !meant.contains(section)) {
            if !by_section || is_selected(section) {
                self.section(kind, section, root, &mut numbers);
            }
        }
        numbers.sort_by_key(|n| Parameter::all().iter().position(|p| p.path == n.parameter.path));
        if !meant.contains(&"source") {
            self.sources(kind, root, &mut numbers);
        }
        let profile = Profile {
            kind,
            title: title.unwrap_or_default(),
            model: self.head(root, of_device("model")),
            host,
            host_span: root.iter().find(|e| e.key == "host").map_or(0..0, Entry::value_span),
            notes: self.head(root, "notes"),
            numbers,
            text: SourceText::new("", ""),
        };
        if self.mistakes.is_empty() {
            self.check_parameters(&profile);
        }
        Some(profile)
    }

    fn kind(&mut self, root: &[Entry<'_>]) -> Option<Kind> {
        let names: Vec<&str> = Kind::all().map(Kind::name).collect();
        let Some(entry) = root.iter().find(|e| e.key == "kind") else {
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            self.missing(0..0, "kind", &format!("kind = {}", or_list(&quoted)));
            return None;
        };
        let found = self.string(entry, "kind", &or_list(&names))?;
        let kind = Kind::named(found);
        if kind.is_none() {
            let problem = Problem::NotOneOf { path: "kind", found: clip(found), expected: names };
            self.report(entry.value_span(), problem);
        }
        kind
    }

    /// Rejects unknown keys and sections at the top. Returns the valid keys and sections that the author
    /// probably meant; the reader does not report these sections as missing.
    fn unknown_at_top(&mut self, kind: Kind, root: &[Entry<'_>]) -> Vec<&'static str> {
        let mut known: Vec<&'static str> =
            if kind.is_device() { HEAD.to_vec() } else { vec!["kind", "name", "notes"] };
        known.extend(kind.sections());
        known.push("source");
        self.unknown(root, "", &known)
    }

    /// Rejects the entries that are not in `known`. Returns the keys in `known` that the author probably
    /// meant and that the table lacks.
    fn unknown(&mut self, entries: &[Entry<'_>], section: &str, known: &[&'static str]) -> Vec<&'static str> {
        let free: Vec<_> = known.iter().filter(|k| !entries.iter().any(|e| e.key == **k)).copied().collect();
        let mut meant = Vec::new();
        for entry in entries.iter().filter(|e| !known.contains(&e.key)) {
            let nearest = suggest(entry.key, free.iter().copied());
            meant.extend(nearest);
            let problem = Problem::UnknownKey {
                path: format!("{section}{}", clip(entry.key)),
                did_you_mean: nearest.map(|key| format!("{section}{key}")),
                expected: known.to_vec(),
            };
            self.report(entry.key_span(), problem);
        }
        meant
    }

    fn missing(&mut self, span: Span, path: &str, expected: &str) {
        self.report(span, Problem::MissingKey { path: path.to_owned(), expected: expected.to_owned() });
    }

    /// Returns the text of a key at the top of the profile; rejects an empty text.
    fn head(&mut self, root: &[Entry<'_>], key: &str) -> Option<String> {
        let entry = root.iter().find(|e| e.key == key && !key.is_empty())?;
        self.words(entry, key)
    }

    fn words(&mut self, entry: &Entry<'_>, path: &str) -> Option<String> {
        let text = self.string(entry, path, "text in quotes")?;
        if text.trim().is_empty() {
            self.report(entry.value_span(), Problem::Empty { path: clip(path) });
            return None;
        }
        Some(text.trim_end().to_owned())
    }

    fn string<'a>(&mut self, entry: &Entry<'a>, path: &str, expected: &str) -> Option<&'a str> {
        match entry.value {
            DeValue::String(text) => Some(text),
            other => {
                self.wrong_type(entry.value_span(), path, other, expected);
                None
            }
        }
    }

    fn wrong_type(&mut self, span: Span, path: &str, found: &DeValue<'_>, expected: &str) {
        let problem =
            Problem::WrongType { path: clip(path), found: type_name(found), expected: expected.to_owned() };
        self.report(span, problem);
    }

    /// Reads the numbers of one section.
    fn section(&mut self, kind: Kind, section: &'static str, root: &[Entry<'_>], numbers: &mut Vec<Number>) {
        let Some(entry) = root.iter().find(|e| e.key == section) else {
            if kind.parameters().filter(|p| p.section() == section).all(|p| p.default_meaning.is_some()) {
                return;
            }
            let end = self.text.text.trim_end().len();
            let required =
                kind.parameters().filter(|p| p.section() == section && p.default_meaning.is_none());
            let required: Vec<&str> = required.map(Parameter::key).collect();
            let expected = format!("a section of that name with the keys {}", required.join(", "));
            self.missing(end..end, &format!("[{section}]"), &expected);
            return;
        };
        let DeValue::Table(table) = entry.value else {
            return self.wrong_type(
                entry.value_span(),
                section,
                entry.value,
                &format!("a section, [{section}]"),
            );
        };
        let known: Vec<_> = kind.parameters().filter(|p| p.section() == section).collect();
        let entries = in_order(table);
        let keys: Vec<_> = known.iter().map(|p| p.key()).collect();
        let meant = self.unknown(&entries, &format!("{section}."), &keys);
        for entry in &entries {
            let parameter = known.iter().find(|p| p.key() == entry.key);
            numbers.extend(parameter.and_then(|p| self.number(p, entry)));
        }
        for parameter in known {
            let there = entries.iter().any(|e| e.key == parameter.key());
            if !there && parameter.default_meaning.is_none() && !meant.contains(&parameter.key()) {
                self.missing(entry.key_span(), parameter.path, &parameter.shape().expected());
            }
        }
    }

    fn number(&mut self, parameter: &'static Parameter, entry: &Entry<'_>) -> Option<Number> {
        let value = self.value(parameter, entry)?;
        Some(Number { parameter, value, source: Source::Unsourced, span: entry.value_span() })
    }

    fn value(&mut self, parameter: &'static Parameter, entry: &Entry<'_>) -> Option<Value> {
        let shape = parameter.shape();
        let parsed = match (shape, entry.value) {
            (Shape::Quantity(_) | Shape::Choice(_) | Shape::Text(_), DeValue::String(text)) => {
                shape.parse(text)
            }
            (Shape::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (Shape::Number, DeValue::Float(number)) => shape.parse(number.as_str()),
            (Shape::Number, DeValue::Integer(number)) if number.radix() == 10 => shape.parse(number.as_str()),
            (Shape::Count, DeValue::Integer(number)) => {
                let digits = if number.radix() == 10 { number.as_str() } else { "" };
                shape.parse(digits.trim_start_matches('+'))
            }
            (Shape::Modes, DeValue::Array(array)) => {
                let names: Option<Vec<&str>> = array.iter().map(|v| v.get_ref().as_str()).collect();
                let Some(names) = names else {
                    self.wrong_type(
                        entry.value_span(),
                        parameter.path,
                        entry.value,
                        "a list that contains only names in quotes",
                    );
                    return None;
                };
                parse_modes(names)
            }
            (_, other) => {
                self.wrong_type(entry.value_span(), parameter.path, other, &shape.expected());
                return None;
            }
        };
        let refuse =
            |error| self.report(entry.value_span(), Problem::BadValue { path: parameter.path, error });
        parsed.and_then(|value| parameter.admit(value)).map_err(refuse).ok()
    }

    /// Sets the source of every number. Without `[source]` the profile is a draft, and its numbers stay unsourced.
    fn sources(&mut self, kind: Kind, root: &[Entry<'_>], numbers: &mut [Number]) {
        let entries = match root.iter().find(|e| e.key == "source") {
            Some(Entry { value: DeValue::Table(table), .. }) => in_order(table),
            Some(entry) => {
                return self.wrong_type(entry.value_span(), "source", entry.value, "a section, [source]");
            }
            None => return,
        };
        for number in numbers.iter_mut() {
            let path = number.parameter.path;
            match entries.iter().find(|e| e.key == path) {
                Some(entry) => {
                    if let Some(source) = self.source(entry) {
                        number.source = source;
                    }
                }
                // A path without quotes appears as a table with the section's name; the loop below rejects it.
                None if entries.iter().any(|e| e.key == number.parameter.section()) => {}
                None => self.report(number.span.clone(), Problem::NoSource { path }),
            }
        }
        for entry in entries {
            if !numbers.iter().any(|n| n.parameter.path == entry.key) {
                self.source_without_number(kind, root, &entry, numbers);
            }
        }
    }

    fn source_without_number(
        &mut self,
        kind: Kind,
        root: &[Entry<'_>],
        entry: &Entry<'_>,
        numbers: &[Number],
    ) {
        if Kind::all().any(|k| k.sections().contains(&entry.key)) {
            return self.report(entry.key_span(), Problem::SourceNotQuoted { section: entry.key.to_owned() });
        }
        // Missing mandatory numbers and invalid numbers have been reported already.
        let is_reported = |p: &Parameter| p.default_meaning.is_none() || has_key(root, p);
        if kind.parameters().any(|p| p.path == entry.key && is_reported(p)) {
            return;
        }
        let nearest = suggest(entry.key, numbers.iter().map(|n| n.parameter.path));
        let problem =
            Problem::SourceWithoutNumber { path: clip(entry.key), did_you_mean: nearest.map(str::to_owned) };
        self.report(entry.key_span(), problem);
    }

    fn source(&mut self, entry: &Entry<'_>) -> Option<Source> {
        let path = entry.key;
        let DeValue::Table(table) = entry.value else {
            let expected = "for example { measured = \"...\" }";
            self.wrong_type(entry.value_span(), &format!("source \"{path}\""), entry.value, expected);
            return None;
        };
        let words = in_order(table);
        self.unknown(&words, "", &Source::WORDS);
        let word = match words.as_slice() {
            [word] if Source::WORDS.contains(&word.key) => word,
            words if words.iter().all(|w| Source::WORDS.contains(&w.key)) => {
                self.report(entry.value_span(), Problem::NotOneSource { path: path.to_owned() });
                return None;
            }
            _ => return None,
        };
        if word.key == "fitted" {
            return self.cells(word).map(Source::Fitted);
        }
        self.words(word, word.key).and_then(|text| Source::of(word.key, text))
    }

    fn cells(&mut self, word: &Entry<'_>) -> Option<Vec<String>> {
        let expected = "a list of cells, for example [\"raw write 1M/kingston\"]";
        let cells: Option<Vec<String>> = match word.value {
            DeValue::Array(array) => array.iter().map(|v| v.get_ref().as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        let Some(cells) = cells else {
            self.wrong_type(word.value_span(), "fitted", word.value, expected);
            return None;
        };
        if cells.is_empty() || cells.iter().any(|c| c.trim().is_empty()) {
            self.report(word.value_span(), Problem::Empty { path: "fitted".to_owned() });
            return None;
        }
        Some(cells)
    }

    /// Runs the checks of the parameter structs and reports a failure at the number that causes it.
    fn check_parameters(&mut self, profile: &Profile) {
        let mut parts = Parts::blank();
        profile.fill(&mut parts);
        if let Err(impossible) = profile.kind.check(&parts) {
            let number = profile.number(impossible.path);
            let span = number.map_or(0..0, |n| n.span.clone());
            let value = number.map(|n| match n.value {
                Value::Quantity(..) | Value::Choice(..) | Value::Text(..) => format!("\"{}\"", n.value),
                _ => n.value.to_string(),
            });
            self.report(span, Problem::Impossible { impossible, value });
        }
    }
}
