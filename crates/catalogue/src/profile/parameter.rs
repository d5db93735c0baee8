//! The table of all parameters that profiles set. The parsers of profiles and arguments, `explain` and
//! reports use this table. The modules of the kinds declare its rows.

use super::{Shape, Text, Value, ValueError};
use crate::kind::{Kind, Parts};
use crate::units::Dimension;
use flashlab_host::FilesystemParameters;
use flashlab_host::fs::Unit;
use flashlab_sd::Mode;
use flashlab_sim::Duration;
use std::sync::LazyLock;

/// One parameter of a device, a host or a filesystem.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The kinds of profiles that have the parameter.
    pub(crate) kinds: Vec<Kind>,
    /// Section and key in a profile: `flash.t_prog`.
    pub path: &'static str,
    /// Short description, which ends with a period.
    pub meaning: &'static str,
    /// Meaning of the parameter's absence from a profile; `None` if the parameter is mandatory.
    pub default_meaning: Option<&'static str>,
    /// Least and greatest accepted value in base units. The range bounds simulated time and memory. The checks of the
    /// parameter structs reject values that are physically impossible.
    pub range: (u64, u64),
    pub(crate) field: Field,
}

/// The place in [`Parts`] that stores the value.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    Time(Lens<Duration>),
    TimeOrNone(Lens<Option<Duration>>),
    Size(Lens<u64>),
    SizeOrNone(Lens<Option<u64>>),
    ClockOrNone(Lens<Option<u64>>),
    Rate(Lens<u64>),
    Share(Lens<u32>),
    ShareOrNone(Lens<Option<u32>>),
    DelayOrNone(Lens<Option<u32>>),
    Count(Lens<u32>),
    CountOrNone(Lens<Option<u32>>),
    Modes(Lens<Vec<Mode>>),
    Flag(Lens<bool>),
    FlagOrNone(Lens<Option<bool>>),
    NumberOrNone(Lens<Option<f64>>),
    TextOrNone(Lens<Option<String>>, Text),
    Choice(Choice),
    OfFilesystem(&'static flashlab_host::fs::Parameter),
}

/// A field whose value is one of several words.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) names: &'static [&'static str],
    pub(crate) get: fn(&Parts) -> Option<&'static str>,
    pub(crate) set: fn(&mut Parts, &str),
}

#[derive(Debug)]
pub(crate) struct Lens<T> {
    pub(crate) get: fn(&Parts) -> &T,
    pub(crate) set: fn(&mut Parts) -> &mut T,
}

impl<T> Clone for Lens<T> {
    fn clone(&self) -> Self {
        Lens { ..*self }
    }
}

impl Parameter {
    /// Returns the parameter at `path`.
    pub fn at(path: &str) -> Option<&'static Parameter> {
        Parameter::all().iter().find(|p| p.path == path)
    }

    /// Returns all parameters, in the order of display.
    pub fn all() -> &'static [Parameter] {
        &TABLE
    }

    /// Returns the parameters whose path or key is `name`: `flash.t_prog`, `t_prog`.
    pub fn named<'a>(name: &'a str) -> impl Iterator<Item = &'static Parameter> + 'a {
        Parameter::all().iter().filter(move |p| p.is_named(name))
    }

    /// Returns true if the path or the key of the parameter is `name`.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.path == name || self.key() == name
    }

    /// Returns the section of the parameter in a profile.
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').expect("a path has a section").0
    }

    /// Returns the key of the parameter in its section.
    pub fn key(&self) -> &'static str {
        self.path.split_once('.').expect("a path has a key").1
    }

    /// Returns true if the parameter is a time of a host for a codec of volumes, on which no device depends.
    pub(crate) fn is_of_codecs(&self) -> bool {
        self.section() == "codec"
    }

    /// Returns the form of the parameter's value.
    pub(crate) fn shape(&self) -> Shape {
        match &self.field {
            Field::Time(_) | Field::TimeOrNone(_) => Shape::Quantity(Dimension::Time),
            Field::Size(_) | Field::SizeOrNone(_) => Shape::Quantity(Dimension::Size),
            Field::ClockOrNone(_) => Shape::Quantity(Dimension::Clock),
            Field::Rate(_) => Shape::Quantity(Dimension::Rate),
            Field::Share(_) | Field::ShareOrNone(_) => Shape::Quantity(Dimension::Share),
            Field::DelayOrNone(_) => Shape::Quantity(Dimension::Delay),
            Field::NumberOrNone(_) => Shape::Number,
            Field::Count(_) | Field::CountOrNone(_) => Shape::Count,
            Field::Modes(_) => Shape::Modes,
            Field::Flag(_) | Field::FlagOrNone(_) => Shape::Flag,
            Field::TextOrNone(_, text) => Shape::Text(*text),
            Field::Choice(choice) => Shape::Choice(choice.names),
            Field::OfFilesystem(parameter) => match parameter.unit {
                Unit::Size => Shape::Quantity(Dimension::Size),
                Unit::Time => Shape::Quantity(Dimension::Time),
                Unit::Count => Shape::Count,
            },
        }
    }

    /// Returns `value` if it lies in the accepted range.
    pub(crate) fn admit(&self, value: Value) -> Result<Value, ValueError> {
        if value.magnitude().is_none_or(|v| (self.range.0..=self.range.1).contains(&v)) {
            return Ok(value);
        }
        let (least, most) = self.limits().expect("only a number can be out of range");
        Err(ValueError::OutOfRange { found: value.to_string(), least, most })
    }

    /// Returns the formatted limits of the range; `None` if the value is not a quantity or a count.
    pub fn limits(&self) -> Option<(String, String)> {
        let (least, most) = self.range;
        match self.shape() {
            Shape::Quantity(dimension) => Some((dimension.print(least), dimension.print(most))),
            Shape::Count => Some((least.to_string(), most.to_string())),
            Shape::Modes | Shape::Choice(_) | Shape::Flag | Shape::Number | Shape::Text(_) => None,
        }
    }

    /// Describes the value: `time, 0us to 10s`.
    pub(crate) fn form(&self) -> String {
        let kind = self.shape().kind();
        match self.limits() {
            Some((least, most)) if self.range.1 < u64::MAX => format!("{kind}, {least} to {most}"),
            _ => kind,
        }
    }

    /// Returns the value in `parts`; `None` if an optional parameter is not set.
    pub fn get(&self, parts: &Parts) -> Option<Value> {
        let quantity = |dimension, value| Some(Value::Quantity(dimension, value));
        match &self.field {
            Field::Time(lens) => quantity(Dimension::Time, (lens.get)(parts).as_ns()),
            Field::TimeOrNone(lens) => (lens.get)(parts).and_then(|v| quantity(Dimension::Time, v.as_ns())),
            Field::Size(lens) => quantity(Dimension::Size, *(lens.get)(parts)),
            Field::SizeOrNone(lens) => (lens.get)(parts).and_then(|v| quantity(Dimension::Size, v)),
            Field::ClockOrNone(lens) => (lens.get)(parts).and_then(|v| quantity(Dimension::Clock, v)),
            Field::Rate(lens) => quantity(Dimension::Rate, *(lens.get)(parts)),
            Field::Share(lens) => quantity(Dimension::Share, u64::from(*(lens.get)(parts))),
            Field::ShareOrNone(lens) => (lens.get)(parts).and_then(|v| quantity(Dimension::Share, v.into())),
            Field::DelayOrNone(lens) => (lens.get)(parts).and_then(|v| quantity(Dimension::Delay, v.into())),
            Field::NumberOrNone(lens) => (lens.get)(parts).map(Value::number),
            Field::Count(lens) => Some(Value::Count(*(lens.get)(parts))),
            Field::CountOrNone(lens) => (lens.get)(parts).map(Value::Count),
            Field::Modes(lens) => Some(Value::Modes((lens.get)(parts).clone())),
            Field::Flag(lens) => Some(Value::Flag(*(lens.get)(parts))),
            Field::FlagOrNone(lens) => (lens.get)(parts).map(Value::Flag),
            Field::TextOrNone(lens, _) => (lens.get)(parts).clone().map(Value::Text),
            Field::Choice(choice) => (choice.get)(parts).map(Value::Choice),
            Field::OfFilesystem(parameter) => {
                let value = parts.get::<FilesystemParameters>().get(self.path);
                match parameter.unit {
                    Unit::Size => quantity(Dimension::Size, value),
                    Unit::Time => quantity(Dimension::Time, value),
                    Unit::Count => u32::try_from(value).ok().map(Value::Count),
                }
            }
        }
    }

    /// Sets the parameter in `parts`. `value` has the parameter's form and lies in its range.
    pub fn set(&self, parts: &mut Parts, value: &Value) {
        match (&self.field, value) {
            (Field::Time(lens), Value::Quantity(_, ns)) => *(lens.set)(parts) = Duration::from_ns(*ns),
            (Field::TimeOrNone(lens), Value::Quantity(_, ns)) => {
                *(lens.set)(parts) = Some(Duration::from_ns(*ns));
            }
            (Field::Size(lens) | Field::Rate(lens), Value::Quantity(_, v)) => *(lens.set)(parts) = *v,
            (Field::SizeOrNone(lens) | Field::ClockOrNone(lens), Value::Quantity(_, v)) => {
                *(lens.set)(parts) = Some(*v);
            }
            (Field::Share(lens), Value::Quantity(_, ppm)) => {
                *(lens.set)(parts) = u32::try_from(*ppm).expect("a share in range is at most 100 %");
            }
            (Field::ShareOrNone(lens), Value::Quantity(_, ppm)) => {
                *(lens.set)(parts) = Some(u32::try_from(*ppm).expect("a share in range is at most 100 %"));
            }
            (Field::DelayOrNone(lens), Value::Quantity(_, ps)) => {
                *(lens.set)(parts) = Some(u32::try_from(*ps).expect("a delay in range is below a clock"));
            }
            (Field::NumberOrNone(lens), Value::Number(bits)) => {
                *(lens.set)(parts) = Some(f64::from_bits(*bits))
            }
            (Field::Count(lens), Value::Count(count)) => *(lens.set)(parts) = *count,
            (Field::CountOrNone(lens), Value::Count(count)) => *(lens.set)(parts) = Some(*count),
            (Field::Modes(lens), Value::Modes(modes)) => (lens.set)(parts).clone_from(modes),
            (Field::Flag(lens), Value::Flag(flag)) => *(lens.set)(parts) = *flag,
            (Field::FlagOrNone(lens), Value::Flag(flag)) => *(lens.set)(parts) = Some(*flag),
            (Field::TextOrNone(lens, _), Value::Text(text)) => *(lens.set)(parts) = Some(text.clone()),
            (Field::Choice(choice), Value::Choice(name)) => (choice.set)(parts, name),
            (Field::OfFilesystem(_), Value::Quantity(_, value)) => {
                parts.get_mut::<FilesystemParameters>().set(self.path, *value)
            }
            (Field::OfFilesystem(_), Value::Count(count)) => {
                parts.get_mut::<FilesystemParameters>().set(self.path, (*count).into())
            }
            (field, value) => panic!("{}: {value:?} was parsed by the shape of {field:?}", self.path),
        }
    }
}

/// A mandatory parameter. A place that is not a plain path is written in parentheses: `KIND(path.of.the[0].field)`.
macro_rules! mandatory {
    ($path:literal, $kind:ident ($part:ident . $($place:tt)+), $range:expr, $meaning:literal) => {
        parameter!($path, $kind ($part . $($place)+), $range, $meaning, None)
    };
    ($path:literal, $kind:ident $part:ident . $($field:ident).+, $range:expr, $meaning:literal) => {
        parameter!($path, $kind ($part . $($field).+), $range, $meaning, None)
    };
}
/// An optional parameter, with the meaning of its absence.
macro_rules! optional {
    ($path:literal, $kind:ident ($part:ident . $($place:tt)+), $range:expr, $meaning:literal, $default:literal) => {
        parameter!($path, $kind ($part . $($place)+), $range, $meaning, Some($default))
    };
    ($path:literal, $kind:ident $part:ident . $($field:ident).+, $range:expr, $meaning:literal, $default:literal) => {
        parameter!($path, $kind ($part . $($field).+), $range, $meaning, Some($default))
    };
}
macro_rules! parameter {
    ($path:literal, $kind:ident ($part:ident . $($place:tt)+), $range:expr, $meaning:literal, $default:expr) => {
        Parameter {
            kinds: Vec::new(),
            path: $path,
            meaning: $meaning,
            default_meaning: $default,
            range: $range,
            field: Field::$kind(Lens {
                get: |parts| &parts.get::<$part>().$($place)+,
                set: |parts| &mut parts.get_mut::<$part>().$($place)+,
            }),
        }
    };
}
/// A text of a card's registers, with the meaning of its absence.
macro_rules! text {
    ($path:literal, $part:ident . $($field:ident).+, $text:expr, $meaning:literal, $default:literal) => {
        Parameter {
            kinds: Vec::new(),
            path: $path,
            meaning: $meaning,
            default_meaning: Some($default),
            range: ANY,
            field: Field::TextOrNone(Lens {
                get: |parts| &parts.get::<$part>().$($field).+,
                set: |parts| &mut parts.get_mut::<$part>().$($field).+,
            }, $text),
        }
    };
}
/// A parameter with a choice of words, each with the value that it stands for. An `optional` choice fills an `Option`;
/// the meaning of its absence follows the description.
macro_rules! choice {
    ($path:literal, $part:ident . $($field:ident).+, [$($name:literal = $value:expr),+ $(,)?], $meaning:literal) => {
        choice!($path, $part . $($field).+, [$($name = $value),+], $meaning, None)
    };
    ($path:literal, optional $part:ident . $($field:ident).+, [$($name:literal = $value:expr),+ $(,)?], $meaning:literal, $default:literal) => {
        choice!($path, $part . $($field).+, [$($name = Some($value)),+], $meaning, Some($default))
    };
    ($path:literal, $part:ident . $($field:ident).+, [$($name:literal = $value:expr),+], $meaning:literal, $default:expr) => {
        Parameter {
            kinds: Vec::new(),
            path: $path,
            meaning: $meaning,
            default_meaning: $default,
            range: ANY,
            field: Field::Choice(Choice {
                names: &[$($name),+],
                get: |parts| {
                    let words = [$(($name, $value)),+];
                    words.into_iter().find(|(_, value)| *value == parts.get::<$part>().$($field).+).map(|(name, _)| name)
                },
                set: |parts, name| {
                    let chosen = [$(($name, $value)),+].into_iter().find(|(known, _)| *known == name);
                    parts.get_mut::<$part>().$($field).+ = chosen.expect("the parser accepts only these words").1;
                },
            }),
        }
    };
}

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
/// Range of durations. No operation of a device or a host takes longer than 10 s, because Linux gives up on a
/// busy card after 3 s.
pub(crate) const TEN_SECONDS: (u64, u64) = (0, 10_000_000_000);
pub(crate) const AN_HOUR: (u64, u64) = (0, 3_600_000_000_000);
/// Range of the sizes of buffers, and of units that are erased, mapped or sent as a whole.
pub(crate) const UP_TO_A_GIB: (u64, u64) = (0, GIB);
/// Range of counts.
pub(crate) const UP_TO_2_32: (u64, u64) = (0, u32::MAX as u64);
pub(crate) const ANY: (u64, u64) = (0, u64::MAX);

pub(crate) use {choice, mandatory, optional, parameter, text};

/// All parameters in the order of display: those of devices before those of hosts and filesystems. Among devices, the
/// first tables of all kinds come first, then all second tables, and so on. A parameter that several kinds share
/// appears once.
static TABLE: LazyLock<Vec<Parameter>> = LazyLock::new(|| {
    let mut all: Vec<Parameter> = Vec::new();
    let mut add = |kind: Kind, table: &[Parameter]| {
        for parameter in table {
            match all.iter_mut().find(|known| known.path == parameter.path) {
                Some(known) => known.kinds.push(kind),
                None => all.push(Parameter { kinds: vec![kind], ..parameter.clone() }),
            }
        }
    };
    let devices = Kind::devices();
    for round in 0..devices.iter().map(|kind| kind.tables().len()).max().unwrap_or(0) {
        for kind in &devices {
            kind.tables().get(round).into_iter().for_each(|table| add(*kind, table));
        }
    }
    for kind in Kind::all().filter(|kind| !kind.is_device()) {
        kind.tables().iter().for_each(|table| add(kind, table));
    }
    all
});

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(parameter: &Parameter, salt: u64) -> Value {
        let number = (parameter.range.0 + salt).min(parameter.range.1);
        match parameter.shape() {
            Shape::Quantity(dimension) => Value::Quantity(dimension, number),
            Shape::Count => Value::Count(u32::try_from(salt).unwrap()),
            Shape::Modes => Value::Modes(vec![Mode::ALL[usize::try_from(salt).unwrap() % Mode::ALL.len()]]),
            Shape::Choice(names) => Value::Choice(names[names.len() - 1]),
            Shape::Flag => Value::Flag(true),
            Shape::Number => Value::number(salt as f64),
            Shape::Text(_) => Value::Text(salt.to_string()),
        }
    }

    #[test]
    fn each_parameter_has_its_own_place_in_the_parts() {
        let mut parts = Parts::blank();
        for (salt, parameter) in (1..).zip(Parameter::all()) {
            parameter.set(&mut parts, &sample(parameter, salt));
        }
        for (salt, parameter) in (1..).zip(Parameter::all()) {
            assert_eq!(parameter.get(&parts), Some(sample(parameter, salt)), "{}", parameter.path);
        }
    }

    #[test]
    fn optional_parameters_are_absent_in_blank_parts() {
        for parameter in Parameter::all() {
            assert_eq!(
                parameter.get(&Parts::blank()).is_none(),
                parameter.default_meaning.is_some(),
                "{}",
                parameter.path
            );
        }
    }

    #[test]
    fn paths_are_unique_and_meanings_end_with_a_period() {
        for (i, parameter) in Parameter::all().iter().enumerate() {
            assert!(Parameter::all()[..i].iter().all(|p| p.path != parameter.path), "{}", parameter.path);
            assert!(parameter.meaning.ends_with('.'), "{}", parameter.path);
        }
    }
}
