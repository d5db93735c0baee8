//! The profile that a fit writes.

use super::{CardFit, FittingError, SPREAD};
use flashlab_catalogue::device::SourcedNumber;
use flashlab_catalogue::profile::{Profile, Source, Value};
use flashlab_fit::estimate::{Determined, NumberEstimate};
use std::fmt::Write;

impl CardFit {
    /// Returns the profile of a card as TOML, titled `title`. Its fitted numbers list their cells; all other numbers are
    /// those of the base profile and say so.
    pub fn profile(&self, card: usize, title: &str) -> Result<String, FittingError> {
        if let Some(text) = &self.own_texts[card] {
            return self.updated(card, text);
        }
        let device = &self.devices[card];
        let own: Vec<&SourcedNumber> =
            device.sourced_numbers().iter().filter(|n| n.profile == self.base).collect();
        let mut text = format!(
            "# Written by `flashlab fit` from the measurements of {}; base profile {}.\n",
            self.cards[card], self.base
        );
        text += &format!("kind = \"card\"\nname = {}\nhost = {}\n", quoted(title), quoted(&self.host));
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
        // A profile that does not parse would be a fault of this function, but the user must not lose the fit to it.
        Profile::parse("fitted.toml", text.as_bytes()).map_err(|e| FittingError::Device(e.to_string()))?;
        Ok(text)
    }

    /// Returns the card's own profile with the fitted numbers and their sources replaced. All other lines stay.
    fn updated(&self, card: usize, profile: &str) -> Result<String, FittingError> {
        let (mut text, mut section) = (String::new(), "");
        let fitted = |path: &str| {
            let number =
                self.devices[card].sourced_numbers().iter().find(|n| n.number.parameter.path == path);
            number.filter(|_| self.estimate_of(card, path).is_some())
        };
        let mut replaced = 0;
        for line in profile.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
            }
            let key = line.split_once(" = ").map_or("", |(key, _)| key.trim_matches('"'));
            let is_source = section == "source";
            let path = if is_source { key.to_owned() } else { format!("{section}.{key}") };
            let number = fitted(&path);
            replaced += usize::from(number.is_some());
            text += &match number {
                Some(number) if is_source => format!("\"{path}\" = {}\n", self.source(card, number)),
                Some(number) => format!("{key} = {}\n", toml_value(&number.number.value)),
                None => format!("{line}\n"),
            };
        }
        let numbers = self.devices[card].sourced_numbers().iter();
        let estimated = numbers.filter(|n| fitted(n.number.parameter.path).is_some()).count();
        if replaced != 2 * estimated {
            return Err(FittingError::Device(format!(
                "{}: expected one line for each fitted number and one for its source; write them as `key = value`",
                self.base
            )));
        }
        Profile::parse("fitted.toml", text.as_bytes()).map_err(|e| FittingError::Device(e.to_string()))?;
        Ok(text)
    }

    /// Returns the cells of the fit that no number names. Every number of a profile that was fitted on an experiment names
    /// them too, so that the experiment does not count them as predicted.
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

    /// Returns the source of a number as a TOML value.
    fn source(&self, card: usize, number: &SourcedNumber) -> String {
        let path = number.number.parameter.path;
        if let Some(estimate) = self.estimate_of(card, path) {
            let limit = |end: f64| {
                let row = super::table::TABLE.iter().find(|row| row.path == path);
                row.map_or(end.to_string(), |row| row.dimension.print(end.round() as u64))
            };
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
                    quoted("the measurements do not change with values near this one")
                ),
                Determined::No => format!(
                    "{{ undetermined = {} }}",
                    quoted(&format!("the measurements do not limit it; {} is a start value", self.base))
                ),
                _ => {
                    let cells = estimate.cells.iter().chain(self.cells_of_no_number());
                    let cells: Vec<String> = cells.map(|cell| quoted(cell)).collect();
                    format!("{{ fitted = [{}] }}", cells.join(", "))
                }
            };
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
