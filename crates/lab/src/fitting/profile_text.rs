//! The profile that a fit writes.

use super::table::Row;
use super::{CardFit, Change, FittingError, SPREAD};
use flashlab_catalogue::device::SourcedNumber;
use flashlab_catalogue::profile::{Profile, Source, Value};
use flashlab_fit::estimate::{Determined, NumberEstimate};
use std::fmt::Write;

impl CardFit {
    /// Returns the profile of a card as TOML. Its fitted numbers list their cells. The sources of the other
    /// numbers state the base profile or another origin. `title` is the title, unless the card's own profile
    /// is updated.
    pub fn profile(&self, card: usize, title: &str) -> Result<String, FittingError> {
        if let Some(text) = &self.own_texts[card] {
            return self.updated(card, text);
        }
        let device = &self.devices[card];
        let mut own: Vec<&SourcedNumber> =
            device.sourced_numbers().iter().filter(|n| n.profile == self.base).collect();
        // The table of parameters may return to an earlier section; a TOML file cannot.
        own.sort_by_key(|number| number.number.parameter.section());
        let mut text = format!(
            "# Written by `flashlab fit` from the measurements of {}; base profile {}.\n",
            self.cards[card], self.base
        );
        let kind = quoted(device.kind().name());
        text += &format!("kind = {kind}\nname = {}\nhost = {}\n", quoted(title), quoted(&self.host));
        let mut section = "";
        for number in &own {
            let path = number.number.parameter.path;
            let (of, key) = path.split_once('.').expect("a path has a section");
            if of != section {
                section = of;
                write!(text, "\n[{section}]\n").expect("a text takes everything");
            }
            writeln!(text, "{key} = {}", toml_value(&number.number.value)).expect("a text takes everything");
        }
        text += "\n[source]\n";
        for number in &own {
            let path = number.number.parameter.path;
            let source = self.source(card, number);
            writeln!(text, "\"{path}\" = {source}").expect("a text takes everything");
        }
        // A profile that does not parse is a bug in this function, but a panic would cost the user the whole fit.
        Profile::parse("fitted.toml", text.as_bytes()).map_err(|e| FittingError::Device(e.to_string()))?;
        Ok(text)
    }

    /// Returns the card's own profile with the fitted numbers and their sources replaced, or added where it lacks them.
    /// All other lines stay.
    fn updated(&self, card: usize, profile: &str) -> Result<String, FittingError> {
        let mut sections = sections(profile);
        let is_companion = |path: &str| self.companions[card].iter().any(|companion| companion.path == path);
        for number in self.devices[card].sourced_numbers() {
            let path = number.number.parameter.path;
            if self.estimate_of(card, path).is_none() && !is_companion(path) {
                continue;
            }
            let (section, key) = path.split_once('.').expect("a path has a section");
            let source = self.source(card, number);
            let placed = set(&mut sections, section, key, &toml_value(&number.number.value))
                && set(&mut sections, "source", &format!("\"{path}\""), &source);
            if !placed {
                return Err(FittingError::Device(format!(
                    "{}: expected the sections [{section}] and [source]; write the numbers as `key = value`",
                    self.base
                )));
            }
        }
        let lines = sections.into_iter().flat_map(|(_, lines)| lines);
        let text: String = lines.map(|line| line + "\n").collect();
        Profile::parse("fitted.toml", text.as_bytes()).map_err(|e| FittingError::Device(e.to_string()))?;
        Ok(text)
    }

    /// In a fit on an experiment, returns the cells that no estimated number lists. Every fitted number of
    /// the profile lists these cells too, so that the experiment does not count them as predicted. Returns
    /// nothing for any other fit.
    fn cells_of_no_number(&self) -> impl Iterator<Item = &String> {
        let named = |cell: &String| self.estimate.numbers.iter().any(|number| number.cells.contains(cell));
        self.estimate
            .cells
            .iter()
            .map(|cell| &cell.name)
            .filter(move |cell| self.is_of_experiment && !named(cell))
    }

    /// Returns the estimate of a number of a card.
    fn estimate_of(&self, card: usize, path: &str) -> Option<&NumberEstimate> {
        let long = format!("{}:{path}", self.cards[card]);
        self.estimate.numbers.iter().find(|number| number.name == path || number.name == long)
    }

    /// Returns the other values with which an assumed number of a card explains the measurements; `None` if there are none.
    fn other_values(&self, card: usize, path: &str) -> Option<String> {
        let long = format!("{}:{path}", self.cards[card]);
        let sizes = self.alternatives.iter().filter_map(|other| match &other.change {
            Change::Size(size) => Some(size),
            _ => None,
        });
        let its = sizes.filter(|size| size.number == path || size.number == long);
        let mut values: Vec<f64> = its.map(|size| size.other).collect();
        values.sort_by(f64::total_cmp);
        let row = Row::at(path)?;
        match values[..] {
            [] => None,
            [only] => Some(row.print(only)),
            [least, .., most] => Some(format!("{} to {}", row.print(least), row.print(most))),
        }
    }

    /// Returns the source of a number as a TOML value.
    fn source(&self, card: usize, number: &SourcedNumber) -> String {
        let path = number.number.parameter.path;
        if let Some(estimate) = self.estimate_of(card, path) {
            let limit = |end: f64| Row::at(path).map_or(end.to_string(), |row| row.print(end));
            return match estimate.determined {
                Determined::AtLeast if estimate.cells.is_empty() => format!(
                    "{{ undetermined = {} }}",
                    quoted(&format!("the measurements permit any value of at least {}", limit(estimate.low)))
                ),
                Determined::AtMost if estimate.cells.is_empty() => format!(
                    "{{ undetermined = {} }}",
                    quoted(&format!("the measurements permit any value of at most {}", limit(estimate.high)))
                ),
                _ if estimate.cells.is_empty() => format!(
                    "{{ undetermined = {} }}",
                    quoted("values near this one give the same measurements")
                ),
                Determined::No => {
                    format!("{{ undetermined = {} }}", quoted(&no_limit(path, estimate)))
                }
                _ => {
                    let cells = estimate.cells.iter().chain(self.cells_of_no_number());
                    let cells: Vec<String> = cells.map(|cell| quoted(cell)).collect();
                    format!("{{ fitted = [{}] }}", cells.join(", "))
                }
            };
        }
        if let Some(companion) = self.companions[card].iter().find(|companion| companion.path == path) {
            return format!("{{ follows = {} }}", quoted(&companion.reason));
        }
        if let Some(others) = self.other_values(card, path) {
            let text = format!("the measurements do not show it; {others} would explain them too");
            return format!("{{ undetermined = {} }}", quoted(&text));
        }
        let (word, text) = match &number.number.source {
            Source::Spec(text) => ("spec", text.clone()),
            Source::Follows(text) => ("follows", text.clone()),
            Source::Catalogue(text) => ("catalogue", text.clone()),
            Source::Measured(text) => ("measured", text.clone()),
            Source::Typical(text) => ("typical", text.clone()),
            Source::SetByKey(_) if path == "card.capacity" => {
                ("measured", "capacity of the target".to_owned())
            }
            Source::SetByKey(_) if path == SPREAD => {
                ("typical", "a few per cent between erase blocks".to_owned())
            }
            _ => ("typical", format!("as {}", self.base)),
        };
        format!("{{ {word} = {} }}", quoted(&text))
    }
}

/// Returns the sentence on a number that the measurements do not limit.
fn no_limit(path: &str, estimate: &NumberEstimate) -> String {
    let bounds = Row::at(path).map(|row| row.bounds);
    let origin = match estimate.value {
        value if value == estimate.start => "the value is where the search began",
        value if bounds.is_some_and(|(low, _)| value <= low) => "the value is the least that a fit tries",
        value if bounds.is_some_and(|(_, high)| value >= high) => {
            "the value is the greatest that a fit tries"
        }
        _ => "other values explain them as well",
    };
    format!("the measurements do not limit it; {origin}")
}

/// Splits a profile into its sections, each with its name and its lines. The first one has no name.
fn sections(profile: &str) -> Vec<(String, Vec<String>)> {
    let mut sections = vec![(String::new(), Vec::new())];
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push((name.to_owned(), Vec::new()));
        }
        sections.last_mut().expect("there is one").1.push(line.to_owned());
    }
    sections
}

/// Sets a key of a section. A section without the key gets a new line. Returns false if there is no such section.
fn set(sections: &mut [(String, Vec<String>)], section: &str, key: &str, value: &str) -> bool {
    let Some((_, lines)) = sections.iter_mut().find(|(name, _)| name == section) else { return false };
    let line = format!("{key} = {value}");
    match lines.iter_mut().find(|line| line.split_once(" = ").is_some_and(|(found, _)| found == key)) {
        Some(found) => *found = line,
        None => {
            let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
            lines.insert(end, line);
        }
    }
    true
}

fn toml_value(value: &Value) -> String {
    match value {
        Value::Quantity(..) | Value::Choice(_) | Value::Text(_) => quoted(&value.to_string()),
        Value::Modes(modes) => {
            let names: Vec<String> = modes.iter().map(|mode| quoted(mode.name())).collect();
            format!("[{}]", names.join(", "))
        }
        Value::Count(_) | Value::Flag(_) | Value::Number(_) => value.to_string(),
    }
}

/// Returns a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::{Companion, TYPICAL, with_typical};
    use super::*;
    use flashlab_catalogue::device::Device;
    use flashlab_catalogue::library::Library;
    use flashlab_fit::estimate::Estimate;

    /// Returns a fit of a card with an area for small writes, without estimates.
    fn fit(base: &str, own_text: Option<String>) -> CardFit {
        let library = with_typical(&Library::built_in().expect("the built-in library is valid"));
        let argument = format!("{base}:ftl.small_max=16KiB,flash.t_prog_small=500us,ftl.small_page=8KiB");
        CardFit {
            base: base.to_owned(),
            host: "raspberry-pi-4".into(),
            hosts: vec!["raspberry-pi-4".into()],
            cards: vec!["card".into()],
            estimate: Estimate {
                numbers: vec![],
                cells: vec![],
                chi2: 0.0,
                degrees_of_freedom: 0,
                inflation: 1.0,
                inseparable: vec![],
                next: vec![],
                contradictions: vec![],
                evaluations: 0,
            },
            alternatives: Vec::new(),
            separations: Vec::new(),
            held: vec![],
            mechanisms_ns: vec![],
            notes: vec![],
            devices: vec![Device::open(&argument, &library).expect("a possible card")],
            companions: vec![
                ["ftl.small_max", "ftl.small_page", "flash.t_prog_small"]
                    .map(|path| Companion { path, reason: "a test".into() })
                    .to_vec(),
            ],
            own_texts: vec![own_text],
            is_of_experiment: false,
        }
    }

    #[test]
    fn numbers_that_the_base_lacks_are_in_their_sections_once() {
        let text = fit(TYPICAL, None).profile(0, "A card").expect("a profile");
        assert_eq!(text.matches("\n[flash]\n").count(), 1, "{text}");
        assert!(
            text.contains("\nt_prog_small = \"500us\"\n") && text.contains("\nsmall_max = \"16KiB\"\n"),
            "{text}"
        );
        assert!(text.contains("\"ftl.small_page\" = { follows = \"a test\" }"), "{text}");
    }

    #[test]
    fn a_refitted_profile_gets_the_lines_that_it_lacks() {
        let own = "kind = \"card\"\nname = \"A\"\nhost = \"raspberry-pi-4\"\n\n".to_owned()
            + include_str!("typical.toml").split_once("\n\n").expect("a head and sections").1;
        let text = fit(TYPICAL, Some(own.clone())).profile(0, "A card").expect("a profile");
        let added: Vec<&str> = text.lines().filter(|line| !own.lines().any(|old| old == *line)).collect();
        let expected = [
            "t_prog_small = \"500us\"",
            "small_max = \"16KiB\"",
            "small_page = \"8KiB\"",
            "\"ftl.small_max\" = { follows = \"a test\" }",
            "\"ftl.small_page\" = { follows = \"a test\" }",
            "\"flash.t_prog_small\" = { follows = \"a test\" }",
        ];
        assert_eq!(added, expected);
        assert!(
            text.contains("map_page = \"4KiB\"\nsmall_max = \"16KiB\"\nsmall_page = \"8KiB\"\n\n[source]"),
            "{text}"
        );
    }
}
