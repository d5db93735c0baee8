//! Parser for the names of devices that store bytes: `[NAME=]DEVICE[:key=value,...][+LAYER[:key=value,...]]...`. The
//! parser does not look up devices, except to report a misspelt layer. A plus sign begins a layer only if the name of a
//! layer follows, because a path may contain plus signs.

use crate::error::{Problem, ServedError};
use crate::layers;
use flashlab_block::layer::LayerError;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::{SourceText, suggest};
use flashlab_catalogue::units::{Dimension, clip};
use std::ops::Range;

/// An argument, divided into its export name and its device.
#[derive(Debug)]
pub(super) struct Argument {
    text: SourceText,
    /// Name of the export; empty if the argument has none.
    pub(super) name: Range<usize>,
    /// The device and its layers.
    pub(super) device: Range<usize>,
}

/// A device or a layer in an argument: a word, and the text after its colon.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    argument: &'a Argument,
    /// The whole part.
    pub(super) span: Range<usize>,
    /// The word before the colon; [`Part::first`] extends it to the first comma.
    pub(super) word: Range<usize>,
    /// The settings: key and value.
    settings: Vec<(Range<usize>, Range<usize>)>,
}

impl Argument {
    pub(super) fn new(argument: &str) -> Argument {
        let text = SourceText::new("argument", argument);
        // A name ends at an equals sign before the first colon.
        let start = match (argument.find('='), argument.find(':')) {
            (Some(equals), colon) if colon.is_none_or(|colon| equals < colon) => equals + 1,
            _ => 0,
        };
        Argument { text, name: 0..start.saturating_sub(1), device: start..argument.len() }
    }

    pub(super) fn slice(&self, span: &Range<usize>) -> &str {
        &self.text.text[span.clone()]
    }

    pub(super) fn error(&self, span: Range<usize>, problem: Problem) -> ServedError {
        ServedError::Argument { place: self.text.place(span), problem: Box::new(problem) }
    }

    /// Returns the device at the bottom and its layers, from the bottom up.
    pub(super) fn parts(&self) -> (Part<'_>, Vec<Part<'_>>) {
        let text = self.slice(&self.device);
        let begins = |at: &usize| {
            let rest = &text[at + 1..];
            let word = &rest[..rest.find([':', '+']).unwrap_or(rest.len())];
            layers::names().any(|name| name == word)
        };
        let mut starts: Vec<usize> = text.match_indices('+').map(|(at, _)| at).filter(begins).collect();
        starts.push(text.len());
        let offset = self.device.start;
        let layer = |pair: &[usize]| self.part(offset + pair[0] + 1..offset + pair[1]);
        (self.part(offset..offset + starts[0]), starts.windows(2).map(layer).collect())
    }

    /// Returns an error for a misspelt layer. A word after a plus sign may also be a part of a path. The word
    /// counts as a misspelt layer if `library` contains the device before the plus sign, or if the word is
    /// similar to the name of a layer.
    pub(super) fn misspelt_layer(&self, library: &Library) -> Option<ServedError> {
        let text = self.slice(&self.device);
        let end = text.find("state=").unwrap_or(text.len());
        if text.starts_with("file:") || text.contains("://") {
            return None;
        }
        text[..end].match_indices('+').find_map(|(at, _)| {
            let rest = &text[at + 1..];
            let word = &rest[..rest.find([':', '+']).unwrap_or(rest.len())];
            if layers::names().any(|name| name == word) {
                return None;
            }
            let nearest = suggest(word, layers::names());
            let follows_device = || library.device(text[..at].split(':').next().unwrap_or_default()).is_ok();
            if nearest.is_none() && !follows_device() {
                return None;
            }
            let start = self.device.start + at + 1;
            let problem = Problem::NoLayer {
                word: clip(word),
                did_you_mean: nearest,
                known: layers::names().collect(),
            };
            Some(self.error(start..start + word.len(), problem))
        })
    }

    fn part(&self, span: Range<usize>) -> Part<'_> {
        let colon = self.slice(&span).find(':').map_or(span.end, |at| span.start + at);
        Part { argument: self, word: span.start..colon, span, settings: Vec::new() }
    }
}

impl<'a> Part<'a> {
    pub(super) fn word(&self) -> &'a str {
        self.argument.slice(&self.word)
    }

    pub(super) fn text(&self) -> &'a str {
        self.argument.slice(&self.span)
    }

    pub(super) fn error(&self, problem: Problem) -> ServedError {
        self.argument.error(self.span.start..self.span.end.max(self.span.start + 1), problem)
    }

    /// Adds the place in the argument to the error of a layer.
    pub(super) fn layer_error(&self, error: LayerError) -> ServedError {
        let key = match &error {
            LayerError::Setting { key, .. } => *key,
            LayerError::Missing { .. } => None,
            LayerError::File { .. } => return ServedError::Layer(error),
        };
        let value = key.and_then(|key| self.value(key)).map(|(_, span)| span);
        match value {
            Some(span) => self.argument.error(span, Problem::Layer(error)),
            None => self.error(Problem::Layer(error)),
        }
    }

    /// Returns the text between the colon and the first comma, such as a path. Settings follow the comma.
    pub(super) fn first(&mut self) -> Option<&'a str> {
        let start = (self.word.end + 1).min(self.span.end);
        let text = self.argument.slice(&(start..self.span.end));
        let end = text.find(',').map_or(self.span.end, |length| start + length);
        self.word.end = end;
        Some(self.argument.slice(&(start..end))).filter(|first| !first.is_empty())
    }

    /// Parses the settings. Their keys must be in `known`.
    pub(super) fn read(
        &mut self,
        of: &'static str,
        known: &'static [&'static str],
        example: &'static str,
    ) -> Result<(), ServedError> {
        let argument = self.argument;
        let mut start = self.word.end + 1;
        while start <= self.span.end {
            let text = argument.slice(&(start..self.span.end));
            let end = text.find(',').map_or(self.span.end, |length| start + length);
            let equals = text[..end - start].find('=').map(|length| start + length);
            let Some(at) = equals.filter(|at| *at > start && at + 1 < end) else {
                let key = clip(argument.slice(&(start..end)));
                return Err(argument.error(
                    start..end,
                    match known {
                        [] => Problem::UnknownKey { of, key, known, did_you_mean: None },
                        _ => Problem::NotASetting { example },
                    },
                ));
            };
            let key = argument.slice(&(start..at));
            if !known.contains(&key) {
                let did_you_mean = suggest(key, known.iter().copied()).map(str::to_owned);
                let problem = Problem::UnknownKey { of, key: clip(key), known, did_you_mean };
                return Err(argument.error(start..at, problem));
            }
            if self.settings.iter().any(|(other, _)| argument.slice(other) == key) {
                return Err(argument.error(start..at, Problem::Twice(clip(key))));
            }
            self.settings.push((start..at, at + 1..end));
            start = end + 1;
        }
        Ok(())
    }

    /// Returns the value of a setting and its position.
    pub(super) fn value(&self, key: &str) -> Option<(&'a str, Range<usize>)> {
        let (_, value) = self.settings.iter().find(|(known, _)| self.argument.slice(known) == key)?;
        Some((self.argument.slice(value), value.clone()))
    }

    /// Returns an error at the value of a setting.
    #[cfg(feature = "volume")]
    pub(super) fn error_at(&self, key: &str, problem: Problem) -> ServedError {
        match self.value(key) {
            Some((_, span)) => self.argument.error(span, problem),
            None => self.error(problem),
        }
    }

    /// Returns the value of a setting as a number with a unit.
    pub(super) fn number(&self, key: &'static str, dimension: Dimension) -> Result<Option<u64>, ServedError> {
        let Some((text, span)) = self.value(key) else { return Ok(None) };
        let number = dimension.parse_argument(text);
        number.map(Some).map_err(|error| self.argument.error(span, Problem::Unit { key, error }))
    }

    /// Returns the value of a setting as a whole number of at least 1.
    pub(super) fn count(&self, key: &'static str) -> Result<Option<u64>, ServedError> {
        let Some((text, span)) = self.value(key) else { return Ok(None) };
        let count = text.parse().ok().filter(|count| *count > 0);
        let problem = || Problem::Word { key, word: clip(text), known: &["a whole number of at least 1"] };
        count.map(Some).ok_or_else(|| self.argument.error(span, problem()))
    }

    /// Returns the value of a setting as the number of a file descriptor.
    #[cfg(feature = "volume")]
    pub(super) fn descriptor(&self, key: &'static str) -> Result<Option<u32>, ServedError> {
        let Some((text, span)) = self.value(key) else { return Ok(None) };
        // The kernel numbers descriptors with a C int.
        let number = text.parse().ok().filter(|fd| *fd <= i32::MAX as u32);
        let problem = || Problem::Word { key, word: clip(text), known: &["the number of a file descriptor"] };
        number.map(Some).ok_or_else(|| self.argument.error(span, problem()))
    }

    /// Returns the index of a setting's value in `known`.
    pub(super) fn choice(
        &self,
        key: &'static str,
        known: &'static [&'static str],
    ) -> Result<Option<usize>, ServedError> {
        let Some((text, span)) = self.value(key) else { return Ok(None) };
        let place = known.iter().position(|word| *word == text);
        let problem = || Problem::Word { key, word: clip(text), known };
        place.map(Some).ok_or_else(|| self.argument.error(span, problem()))
    }
}
