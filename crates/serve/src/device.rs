//! Devices from their names on the command line: `memory:size=1GiB`, `scratch=memory:size=1G,pages=small`.

use crate::Export;
use flashlab_block::{Memory, MemoryError, Pages};
use flashlab_lab::profile::{Place, SourceText, suggest};
use flashlab_lab::units::{Dimension, UnitError};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A mistake in an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceError {
    /// Where; the line is always 1.
    pub place: Place,
    /// What.
    pub problem: Box<DeviceProblem>,
}

/// What can be wrong in an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceProblem {
    /// Nothing that carries bytes is called so.
    Unknown(String),
    /// It is timed but carries no bytes.
    Simulated(String),
    /// Something that is not `key=value`.
    NotASetting,
    /// A key that the device does not have.
    UnknownKey {
        /// As written.
        key: String,
        /// The nearest that it has.
        did_you_mean: Option<String>,
    },
    /// The same key again.
    Twice(&'static str),
    /// It needs to be told how large it is.
    NoSize,
    /// Not a size.
    Size(UnitError),
    /// Not a kind of pages.
    Pages(String),
    /// There is no such memory device.
    Memory(MemoryError),
}

impl fmt::Display for DeviceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceProblem::Unknown(name) => {
                write!(
                    f,
                    "no device that carries bytes is called {name:?}; there is memory: memory:size=1GiB"
                )
            }
            DeviceProblem::Simulated(name) => write!(
                f,
                "{name} is simulated: it says when, and carries no bytes; `flashlab bench {name}` runs jobs on it. \
                 There is memory: memory:size=1GiB"
            ),
            DeviceProblem::NotASetting => f.write_str("expected key=value, for example size=1GiB"),
            DeviceProblem::UnknownKey { key, did_you_mean: Some(nearest) } => {
                write!(f, "memory has no {key}; did you mean {nearest}?")
            }
            DeviceProblem::UnknownKey { key, did_you_mean: None } => {
                write!(f, "memory has no {key}; it has size and pages")
            }
            DeviceProblem::Twice(key) => write!(f, "{key} is set twice"),
            DeviceProblem::NoSize => f.write_str("how large? memory:size=1GiB"),
            DeviceProblem::Size(error) => write!(f, "size: {error}"),
            DeviceProblem::Pages(word) => write!(f, "pages: {word:?} is neither huge nor small"),
            DeviceProblem::Memory(error) => write!(f, "size: {error}"),
        }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.place, self.problem, self.place.picture())
    }
}

impl std::error::Error for DeviceError {}

const KEYS: [&str; 2] = ["size", "pages"];

/// Makes the device of an argument `[NAME=]DEVICE`, as an export under that name.
pub fn open(argument: &str, read_only: bool) -> Result<Export, DeviceError> {
    let text = SourceText::new("argument", argument);
    let refuse =
        |span: Range<usize>, problem| DeviceError { place: text.place(span), problem: Box::new(problem) };
    // A name ends at an equals sign that stands before any colon.
    let start = match (argument.find('='), argument.find(':')) {
        (Some(equals), colon) if colon.is_none_or(|colon| equals < colon) => equals + 1,
        _ => 0,
    };
    let name = argument[..start.saturating_sub(1)].to_owned();
    let end = argument[start..].find(':').map_or(argument.len(), |at| start + at);
    match &argument[start..end] {
        "memory" => {}
        other if other.contains('/') || other.ends_with(".toml") => {
            return Err(refuse(start..end, DeviceProblem::Simulated(clip(other))));
        }
        other => return Err(refuse(start..end.max(start + 1), DeviceProblem::Unknown(clip(other)))),
    }
    let (mut size, mut pages) = (None, None);
    for (key, value) in settings(argument, end).map_err(|span| refuse(span, DeviceProblem::NotASetting))? {
        let word = &argument[value.clone()];
        match &argument[key.clone()] {
            "size" if size.is_some() => return Err(refuse(key, DeviceProblem::Twice("size"))),
            "pages" if pages.is_some() => return Err(refuse(key, DeviceProblem::Twice("pages"))),
            "size" => {
                let bytes = Dimension::Size.parse_argument(word);
                size = Some((bytes.map_err(|e| refuse(value.clone(), DeviceProblem::Size(e)))?, value));
            }
            "pages" => {
                pages = Some(match word {
                    "huge" => Pages::Huge,
                    "small" => Pages::Small,
                    other => return Err(refuse(value, DeviceProblem::Pages(clip(other)))),
                });
            }
            other => {
                let did_you_mean = suggest(other, KEYS).map(str::to_owned);
                return Err(refuse(key, DeviceProblem::UnknownKey { key: clip(other), did_you_mean }));
            }
        }
    }
    let (size, span) = size.ok_or_else(|| refuse(start..argument.len(), DeviceProblem::NoSize))?;
    let memory = Memory::new(size, pages.unwrap_or_default());
    let memory = memory.map_err(|error| refuse(span, DeviceProblem::Memory(error)))?;
    Ok(Export { name, description: argument[start..].to_owned(), device: Arc::new(memory), read_only })
}

/// A key and its value, as ranges of the argument.
type Setting = (Range<usize>, Range<usize>);

/// The settings behind the colon at `colon`; the error is the place of what is none.
fn settings(argument: &str, colon: usize) -> Result<Vec<Setting>, Range<usize>> {
    let mut found = Vec::new();
    let mut start = colon + 1;
    while start <= argument.len() {
        let end = argument[start..].find(',').map_or(argument.len(), |length| start + length);
        match argument[start..end].find('=').map(|length| start + length) {
            Some(at) if at > start && at + 1 < end => found.push((start..at, at + 1..end)),
            _ => return Err(start..end),
        }
        start = end + 1;
    }
    Ok(found)
}

/// What a message quotes of a word that may be long.
fn clip(word: &str) -> String {
    word.chars().take(40).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
