//! The syntax of devices and filesystems on the command line: `name`, `name:key=value,...`.
//!
//! A name that ends in `.toml` is the path of a file. A key is the path of a parameter, or the last part of
//! that path if it is unique among the parameters of the device with its host, or of the filesystem. For
//! devices, the key `host` names the host, and `state` a state file. Sizes accept the suffixes K, M, G and T,
//! as in fio. The value `none` removes an optional parameter.

use crate::library::UnknownName;
use crate::profile::{
    Kind, Number, Parameter, Place, Shape, Source, SourceText, ValueError, present_name, suggest,
};
use crate::units::{clip, or_list};
use flashlab_flash::Impossible;
use std::fmt;
use std::ops::Range;

/// A mistake in an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgumentError {
    /// Position in the argument, or in the profile that names an unknown host.
    pub place: Place,
    /// The kind of mistake.
    pub problem: Box<ArgumentProblem>,
}

/// A kind of mistake in an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArgumentProblem {
    /// The name before the colon is missing.
    NoName,
    /// Text after the colon is not of the form `key=value`.
    NotASetting,
    /// There is nothing after the equals sign.
    NoValue,
    /// The device or filesystem has no parameter of that name.
    UnknownKey {
        /// The key as written.
        key: String,
        /// The most similar existing key.
        did_you_mean: Option<String>,
    },
    /// The key is the last part of more than one path.
    Ambiguous {
        /// The key as written.
        key: String,
        /// Paths of the parameters that the key can mean.
        of: Vec<&'static str>,
    },
    /// The parameter belongs to another kind of profile, or to another filesystem model.
    WrongSection {
        /// Path of the parameter.
        path: &'static str,
        /// The kind of profile that has the parameter.
        kind: Kind,
    },
    /// The key is set twice.
    DuplicateKey {
        /// Path of the parameter, or `host` or `state`.
        path: &'static str,
    },
    /// The value is `none`, but the parameter is mandatory.
    CannotBeNone {
        /// The parameter.
        path: &'static str,
    },
    /// The value is not valid for this parameter.
    BadValue {
        /// The parameter.
        path: &'static str,
        /// The reason.
        error: ValueError,
    },
    /// No device, host or filesystem has this name.
    Unknown(UnknownName),
    /// The profile describes another kind of thing.
    WrongKind {
        /// Path of the file, or name of the profile.
        file: String,
        /// The kind that the profile describes.
        found: Kind,
        /// The accepted kinds.
        expected: Vec<Kind>,
    },
    /// Each value alone is possible, but their combination is not.
    Impossible {
        /// The parameter and the reason.
        impossible: Impossible,
        /// Value of the parameter, and its origin unless the argument itself sets it.
        value: Option<(String, Option<String>)>,
    },
}

impl fmt::Display for ArgumentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentProblem::NoName => write!(f, "the name is missing; expected NAME or NAME:key=value,..."),
            ArgumentProblem::NotASetting => write!(f, "expected key=value, for example flash.t_prog=250us"),
            ArgumentProblem::NoValue => write!(f, "the value is missing; expected key=value"),
            ArgumentProblem::UnknownKey { key, did_you_mean: nearest } => {
                let nearest = present_name(key, nearest.as_deref());
                let stop = if nearest.ends_with('?') { "" } else { ";" };
                write!(
                    f,
                    "unknown parameter {key}{nearest}{stop} `flashlab explain NAME` lists the parameters"
                )
            }
            ArgumentProblem::Ambiguous { key, of } => {
                write!(f, "{key} is ambiguous: {}; write the whole path", or_list(of))
            }
            ArgumentProblem::WrongSection { path, kind } if *kind == Kind::FILESYSTEM => {
                let (section, key) = path.split_once('.').unwrap_or((path, path));
                write!(f, "{path} belongs to the filesystem {section}: --fs {section}:{key}=...")
            }
            ArgumentProblem::WrongSection { path, kind } => {
                write!(f, "{path} is a parameter of {}; it cannot be set here", kind.noun())
            }
            ArgumentProblem::DuplicateKey { path } => write!(f, "{path} is set twice"),
            ArgumentProblem::CannotBeNone { path } => {
                write!(f, "{path} cannot be none; it must have a value")
            }
            ArgumentProblem::BadValue { path, error } => write!(f, "{path}: {error}"),
            ArgumentProblem::Unknown(unknown) => unknown.fmt(f),
            ArgumentProblem::WrongKind { file, found, expected } => {
                let nouns: Vec<_> = expected.iter().map(|kind| kind.noun()).collect();
                write!(f, "{file} describes {}; expected {}", found.noun(), or_list(&nouns))
            }
            ArgumentProblem::Impossible { impossible, value: None } => impossible.fmt(f),
            ArgumentProblem::Impossible { impossible, value: Some((value, None)) } => {
                write!(f, "{} = {value} {}", impossible.path, impossible.why)
            }
            ArgumentProblem::Impossible { impossible, value: Some((value, Some(from))) } => {
                write!(
                    f,
                    "with these settings, {} = {value} (from {from}) {}",
                    impossible.path, impossible.why
                )
            }
        }
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.place, self.problem, self.place.picture())
    }
}

impl std::error::Error for ArgumentError {}

/// An argument split into its name and its settings. Neither has been looked up yet.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub(super) text: SourceText,
    pub(super) name: Range<usize>,
    settings: Vec<(Range<usize>, Range<usize>)>,
}

/// The settings of an argument.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Numbers that the argument sets, each with the span of its value in the argument.
    pub(super) numbers: Vec<Number>,
    /// Optional parameters that the argument removes.
    pub(super) none: Vec<&'static Parameter>,
    /// Span of the host's name.
    pub(super) host: Option<Range<usize>>,
    /// Span of the path of the state file.
    pub(super) state: Option<Range<usize>>,
}

impl Argument {
    pub(super) fn parse(text: &str) -> Result<Argument, ArgumentError> {
        let mut argument =
            Argument { text: SourceText::new("argument", text), name: 0..0, settings: Vec::new() };
        // A `.toml` after an equals sign belongs to the path of the host's profile.
        let name_end = text.find('=').unwrap_or(text.len());
        let colon = match text[..name_end].find(".toml") {
            Some(at) if text[at + 5..].starts_with(':') => Some(at + 5),
            Some(at) if at + 5 == text.len() => None,
            _ => text.find(':'),
        };
        argument.name = 0..colon.unwrap_or(text.len());
        if argument.name.is_empty() {
            return Err(argument.error_at(0..1, ArgumentProblem::NoName));
        }
        let mut start = colon.map_or(text.len(), |at| at + 1);
        while colon.is_some() {
            let end = text[start..].find(',').map_or(text.len(), |length| start + length);
            let equals = text[start..end].find('=').map(|length| start + length);
            match equals {
                Some(at) if at > start && at + 1 < end => argument.settings.push((start..at, at + 1..end)),
                Some(at) if at > start => return Err(argument.error_at(at..end, ArgumentProblem::NoValue)),
                _ => return Err(argument.error_at(start..end, ArgumentProblem::NotASetting)),
            }
            if end == text.len() {
                break;
            }
            start = end + 1;
        }
        Ok(argument)
    }

    pub(super) fn error_at(&self, span: Range<usize>, problem: ArgumentProblem) -> ArgumentError {
        ArgumentError { place: self.text.place(span), problem: Box::new(problem) }
    }

    pub(super) fn slice(&self, span: &Range<usize>) -> &str {
        &self.text.text[span.clone()]
    }

    pub(super) fn place_of_name(&self) -> Place {
        self.text.place(self.name.clone())
    }

    pub(super) fn name(&self) -> &str {
        self.slice(&self.name)
    }

    /// Returns the span from the first key to the last value.
    pub(super) fn settings_span(&self) -> Range<usize> {
        match (self.settings.first(), self.settings.last()) {
            (Some((key, _)), Some((_, value))) => key.start..value.end,
            _ => self.name.clone(),
        }
    }

    /// Looks up the keys in `scope` and parses their values. The keys `host` and `state` exist for devices only.
    pub(super) fn settings(&self, scope: Scope<'_>) -> Result<Settings, ArgumentError> {
        let mut settings = Settings::default();
        for (key, value) in &self.settings {
            let special = match self.slice(key) {
                _ if !scope.is_of_a_device() => None,
                "host" => Some(("host", &mut settings.host)),
                "state" => Some(("state", &mut settings.state)),
                _ => None,
            };
            if let Some((path, place)) = special {
                if place.replace(value.clone()).is_some() {
                    return Err(self.error_at(key.clone(), ArgumentProblem::DuplicateKey { path }));
                }
                continue;
            }
            let parameter = self.parameter(key, scope)?;
            let set = settings.numbers.iter().map(|n| n.parameter.path);
            if set.chain(settings.none.iter().map(|p| p.path)).any(|path| path == parameter.path) {
                return Err(
                    self.error_at(key.clone(), ArgumentProblem::DuplicateKey { path: parameter.path })
                );
            }
            match self.value(parameter, value)? {
                Some(number) => settings.numbers.push(number),
                None => settings.none.push(parameter),
            }
        }
        Ok(settings)
    }

    fn parameter(&self, key: &Range<usize>, scope: Scope<'_>) -> Result<&'static Parameter, ArgumentError> {
        let found = look_up(self.slice(key), scope, Parameter::all());
        found.map_err(|problem| self.error_at(key.clone(), problem))
    }

    /// Returns the number that the argument sets; `None` if the argument removes an optional number.
    fn value(
        &self,
        parameter: &'static Parameter,
        span: &Range<usize>,
    ) -> Result<Option<Number>, ArgumentError> {
        let path = parameter.path;
        let text = self.slice(span);
        let is_a_word = matches!(parameter.shape(), Shape::Choice(names) if names.contains(&"none"));
        if text == "none" && !is_a_word {
            return match parameter.default_meaning {
                Some(_) => Ok(None),
                None => Err(self.error_at(span.clone(), ArgumentProblem::CannotBeNone { path })),
            };
        }
        let bad = |error| self.error_at(span.clone(), ArgumentProblem::BadValue { path, error });
        let parsed = parameter.shape().parse_argument(text);
        let value = parsed.and_then(|value| parameter.admit(value)).map_err(bad)?;
        let source = Source::SetByKey(self.text.text.clone());
        Ok(Some(Number { parameter, value, source, span: span.clone() }))
    }
}

/// The parameters that an argument can set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope<'a> {
    /// All parameters of a device and of its host.
    Kinds(&'a [Kind]),
    /// The parameters of the filesystem model that a profile selects by the name of its section.
    FilesystemModel(&'a str),
}

impl Scope<'_> {
    fn is_of_a_device(self) -> bool {
        matches!(self, Scope::Kinds(kinds) if kinds.iter().any(|kind| kind.is_device()))
    }

    fn has(self, parameter: &Parameter) -> bool {
        match self {
            Scope::Kinds(kinds) => kinds.iter().any(|kind| kind.has(parameter)),
            Scope::FilesystemModel(section) => {
                Kind::FILESYSTEM.has(parameter) && parameter.section() == section
            }
        }
    }
}

/// Returns the parameter in `table` whose path or key is `name`. Several filesystem models may have the same
/// key. Only the key of the model in `scope` counts.
fn look_up<'t>(
    name: &str,
    scope: Scope<'_>,
    table: &'t [Parameter],
) -> Result<&'t Parameter, ArgumentProblem> {
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        table.iter().filter(|p| p.is_named(name)).partition(|p| scope.has(p));
    match (here.as_slice(), elsewhere.as_slice()) {
        ([parameter], _) => Ok(parameter),
        ([], [parameter, ..]) => {
            let kind = Kind::all().find(|kind| kind.has(parameter));
            Err(ArgumentProblem::WrongSection {
                path: parameter.path,
                kind: kind.expect("every section belongs to a kind"),
            })
        }
        ([], []) => {
            let keys = table.iter().filter(|p| scope.has(p)).map(|p| p.path);
            let special = if scope.is_of_a_device() { &["host", "state"][..] } else { &[] };
            let nearest = suggest(name, keys.chain(special.iter().copied())).map(str::to_owned);
            Err(ArgumentProblem::UnknownKey { key: clip(name), did_you_mean: nearest })
        }
        _ => {
            let of = here.iter().map(|p| p.path).collect();
            Err(ArgumentProblem::Ambiguous { key: name.to_owned(), of })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the parameters of vfat and of a second model, which has the keys of vfat and one further key.
    fn two_filesystem_models() -> Vec<Parameter> {
        let vfat = Kind::FILESYSTEM.parameters().filter(|p| p.section() == "vfat");
        let mut table: Vec<Parameter> = vfat.cloned().collect();
        let second =
            table.clone().into_iter().map(|p| Parameter { path: format!("other.{}", p.key()).leak(), ..p });
        table.extend(second.collect::<Vec<_>>());
        table.push(Parameter { path: "other.journal", ..table[0].clone() });
        table
    }

    #[test]
    fn a_key_of_two_filesystem_models_means_the_model_of_the_profile() {
        let table = two_filesystem_models();
        for section in ["vfat", "other"] {
            let found = look_up("align", Scope::FilesystemModel(section), &table);
            assert_eq!(found.map(|p| p.path), Ok(&*format!("{section}.align")));
        }
    }

    #[test]
    fn a_parameter_of_another_filesystem_model_is_refused_with_the_name_of_the_model() {
        let table = two_filesystem_models();
        for name in ["journal", "other.journal"] {
            let problem = look_up(name, Scope::FilesystemModel("vfat"), &table).expect_err("another model");
            assert_eq!(
                problem.to_string(),
                "other.journal belongs to the filesystem other: --fs other:journal=..."
            );
        }
    }

    #[test]
    fn a_misspelled_key_suggests_only_the_model_of_the_profile() {
        let table = two_filesystem_models();
        let problem = look_up("alignn", Scope::FilesystemModel("other"), &table).expect_err("misspelled");
        assert_eq!(
            problem,
            ArgumentProblem::UnknownKey { key: "alignn".into(), did_you_mean: Some("other.align".into()) }
        );
    }
}
