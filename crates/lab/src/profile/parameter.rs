//! The table of all parameters that profiles set: parser, `explain`, overrides and the numbers of a report come from it.

use super::{Shape, Value, ValueError};
use crate::units::Dimension;
use flashlab_flash::ftl::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_host::{Machine, vfat::VfatParameters};
use flashlab_sd::{CardParameters, Mode};
use flashlab_sim::Duration;

/// One parameter of a card, a host or a filesystem.
#[derive(Debug)]
pub struct Parameter {
    /// Its section and key in a profile: `flash.t_prog`.
    pub path: &'static str,
    /// What it is, in one sentence.
    pub meaning: &'static str,
    /// What it means that a profile leaves it out; `None`: it must not.
    pub absent: Option<&'static str>,
    /// The least and the greatest value taken, in base units. They keep simulated time and memory within bounds;
    /// what is physically impossible, the parameter structs say themselves.
    pub range: (u64, u64),
    field: Field,
}

/// Where in [`Parts`] it is kept.
#[derive(Debug)]
enum Field {
    Time(Lens<Duration>),
    Size(Lens<u64>),
    SizeOrNone(Lens<Option<u64>>),
    ClockOrNone(Lens<Option<u64>>),
    Rate(Lens<u64>),
    Share(Lens<u32>),
    Count(Lens<u32>),
    CountOrNone(Lens<Option<u32>>),
    Modes(Lens<Vec<Mode>>),
    Flag(Lens<bool>),
    Choice(Choice),
}

/// A field that is one of several words.
#[derive(Debug)]
struct Choice {
    names: &'static [&'static str],
    get: fn(&Parts) -> Option<&'static str>,
    set: fn(&mut Parts, &str),
}

#[derive(Debug)]
struct Lens<T> {
    get: fn(&Parts) -> &T,
    set: fn(&mut Parts) -> &mut T,
}

/// What the numbers of profiles fill. A device fills `card` and `machine`, a filesystem `vfat`.
#[derive(Clone, PartialEq, Debug)]
pub struct Parts {
    /// From a card's profile.
    pub card: CardParameters,
    /// From a host's.
    pub machine: Machine,
    /// From a filesystem's.
    pub vfat: VfatParameters,
}

impl Parts {
    /// Nothing set yet: zeros, which the checks of the parts refuse.
    pub fn blank() -> Self {
        let none = Duration::ZERO;
        Parts {
            card: CardParameters {
                capacity: 0,
                modes: Vec::new(),
                nand: Nand {
                    page: 0,
                    t_read: none,
                    read_rate: 0,
                    t_prog: none,
                    erase_block: 0,
                    t_bers: none,
                    spread_ppm: 0,
                },
                mapping: Mapping {
                    program_unit: 0,
                    t_commit: none,
                    map_unit: 0,
                    superblock: 0,
                    overwrite: Overwrite::Convert,
                    open_units: 0,
                    map_cache: None,
                    map_page: 0,
                },
            },
            machine: Machine {
                modes: Vec::new(),
                bus_clock_hz: None,
                bus_width: None,
                command_max: 0,
                t_request: none,
                t_command: none,
                t_block: none,
            },
            vfat: VfatParameters {
                cluster: 0,
                partition_start: 0,
                align: 0,
                write_back: none,
                t_unexplained: none,
            },
        }
    }
}

impl Parameter {
    /// The parameter at `path`.
    pub fn at(path: &str) -> Option<&'static Parameter> {
        TABLE.iter().find(|p| p.path == path)
    }

    /// All parameters, in the order of their sections.
    pub fn all() -> &'static [Parameter] {
        TABLE
    }

    /// Those whose path is `name` or ends in it: `t_prog`, `flash.t_prog`; or that have it as another name: `hmb`.
    pub fn named<'a>(name: &'a str) -> impl Iterator<Item = &'static Parameter> + 'a {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, path)| *path);
        TABLE.iter().filter(move |p| p.path == name || p.key() == name || alias == Some(p.path))
    }

    /// The section of a profile that it stands in.
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').expect("a path has a section").0
    }

    /// Its name in the section.
    pub fn key(&self) -> &'static str {
        self.path.split_once('.').expect("a path has a key").1
    }

    /// The kind of its value.
    pub fn shape(&self) -> Shape {
        match &self.field {
            Field::Time(_) => Shape::Quantity(Dimension::Time),
            Field::Size(_) | Field::SizeOrNone(_) => Shape::Quantity(Dimension::Size),
            Field::ClockOrNone(_) => Shape::Quantity(Dimension::Clock),
            Field::Rate(_) => Shape::Quantity(Dimension::Rate),
            Field::Share(_) => Shape::Quantity(Dimension::Share),
            Field::Count(_) | Field::CountOrNone(_) => Shape::Count,
            Field::Modes(_) => Shape::Modes,
            Field::Flag(_) => Shape::Flag,
            Field::Choice(choice) => Shape::Choice(choice.names),
        }
    }

    /// `value`, if it lies in the range taken.
    pub fn admit(&self, value: Value) -> Result<Value, ValueError> {
        if value.magnitude().is_none_or(|v| (self.range.0..=self.range.1).contains(&v)) {
            return Ok(value);
        }
        let (least, most) = self.limits().expect("only a number can be out of range");
        Err(ValueError::OutOfRange { found: value.to_string(), least, most })
    }

    /// The ends of the range, printed; `None` where the value is not a number.
    pub fn limits(&self) -> Option<(String, String)> {
        let (least, most) = self.range;
        match self.shape() {
            Shape::Quantity(dimension) => Some((dimension.print(least), dimension.print(most))),
            Shape::Count => Some((least.to_string(), most.to_string())),
            Shape::Modes | Shape::Choice(_) | Shape::Flag => None,
        }
    }

    /// The value in `parts`; `None` where an optional one is not set.
    pub fn get(&self, parts: &Parts) -> Option<Value> {
        let quantity = |dimension, value| Some(Value::Quantity(dimension, value));
        match &self.field {
            Field::Time(lens) => quantity(Dimension::Time, (lens.get)(parts).as_ns()),
            Field::Size(lens) => quantity(Dimension::Size, *(lens.get)(parts)),
            Field::SizeOrNone(lens) => (lens.get)(parts).and_then(|v| quantity(Dimension::Size, v)),
            Field::ClockOrNone(lens) => (lens.get)(parts).and_then(|v| quantity(Dimension::Clock, v)),
            Field::Rate(lens) => quantity(Dimension::Rate, *(lens.get)(parts)),
            Field::Share(lens) => quantity(Dimension::Share, u64::from(*(lens.get)(parts))),
            Field::Count(lens) => Some(Value::Count(*(lens.get)(parts))),
            Field::CountOrNone(lens) => (lens.get)(parts).map(Value::Count),
            Field::Modes(lens) => Some(Value::Modes((lens.get)(parts).clone())),
            Field::Flag(lens) => Some(Value::Flag(*(lens.get)(parts))),
            Field::Choice(choice) => (choice.get)(parts).map(Value::Choice),
        }
    }

    /// Puts `value`, which has this parameter's shape and lies in its range, into `parts`.
    pub fn set(&self, parts: &mut Parts, value: &Value) {
        match (&self.field, value) {
            (Field::Time(lens), Value::Quantity(_, ns)) => *(lens.set)(parts) = Duration::from_ns(*ns),
            (Field::Size(lens) | Field::Rate(lens), Value::Quantity(_, v)) => *(lens.set)(parts) = *v,
            (Field::SizeOrNone(lens) | Field::ClockOrNone(lens), Value::Quantity(_, v)) => {
                *(lens.set)(parts) = Some(*v);
            }
            (Field::Share(lens), Value::Quantity(_, ppm)) => {
                *(lens.set)(parts) = u32::try_from(*ppm).expect("a share in range is at most 100 %");
            }
            (Field::Count(lens), Value::Count(count)) => *(lens.set)(parts) = *count,
            (Field::CountOrNone(lens), Value::Count(count)) => *(lens.set)(parts) = Some(*count),
            (Field::Modes(lens), Value::Modes(modes)) => (lens.set)(parts).clone_from(modes),
            (Field::Flag(lens), Value::Flag(flag)) => *(lens.set)(parts) = *flag,
            (Field::Choice(choice), Value::Choice(name)) => (choice.set)(parts, name),
            (field, value) => panic!("{}: {value:?} was parsed by the shape of {field:?}", self.path),
        }
    }
}

/// A parameter that every profile of its kind sets. `KIND(path.of.the[0].field)` for a place that is no plain path.
macro_rules! must {
    ($path:literal, $kind:ident ($($place:tt)+), $range:expr, $meaning:literal) => {
        parameter!($path, $kind ($($place)+), $range, $meaning, None)
    };
    ($path:literal, $kind:ident $($field:ident).+, $range:expr, $meaning:literal) => {
        parameter!($path, $kind ($($field).+), $range, $meaning, None)
    };
}
/// One that may be left out, and what that means.
macro_rules! may {
    ($path:literal, $kind:ident ($($place:tt)+), $range:expr, $meaning:literal, $absent:literal) => {
        parameter!($path, $kind ($($place)+), $range, $meaning, Some($absent))
    };
    ($path:literal, $kind:ident $($field:ident).+, $range:expr, $meaning:literal, $absent:literal) => {
        parameter!($path, $kind ($($field).+), $range, $meaning, Some($absent))
    };
}
macro_rules! parameter {
    ($path:literal, $kind:ident ($($place:tt)+), $range:expr, $meaning:literal, $absent:expr) => {
        Parameter {
            path: $path,
            meaning: $meaning,
            absent: $absent,
            range: $range,
            field: Field::$kind(Lens { get: |parts| &parts.$($place)+, set: |parts| &mut parts.$($place)+ }),
        }
    };
}
/// One that is one of several words, each with the value that it stands for.
macro_rules! choice {
    ($path:literal, $($field:ident).+, [$($name:literal = $value:expr),+], $meaning:literal) => {
        Parameter {
            path: $path,
            meaning: $meaning,
            absent: None,
            range: ANY,
            field: Field::Choice(Choice {
                names: &[$($name),+],
                get: |parts| {
                    [$(($name, $value)),+].into_iter().find(|(_, v)| *v == parts.$($field).+).map(|(name, _)| name)
                },
                set: |parts, name| {
                    let chosen = [$(($name, $value)),+].into_iter().find(|(n, _)| *n == name);
                    parts.$($field).+ = chosen.expect("the word was read by these names").1;
                },
            }),
        }
    };
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// No operation of a card or a host takes longer: Linux gives up on a busy card after 3 s.
const TEN_SECONDS: (u64, u64) = (0, 10_000_000_000);
const AN_HOUR: (u64, u64) = (0, 3_600_000_000_000);
/// Of anything that is erased, mapped or sent as one.
const UP_TO_A_GIB: (u64, u64) = (0, GIB);
const ANY: (u64, u64) = (0, u64::MAX);

/// Short names that people use, and what they stand for.
const ALIASES: [(&str, &str); 1] = [("hmb", "pc.host_memory_max")];

static TABLE: &[Parameter] = &[
    must!("card.capacity", Size card.capacity, (MIB, 128 << 40), "Bytes that can be addressed."),
    must!("card.modes", Modes card.modes, ANY, "Bus modes that the card offers; the host chooses among them."),
    must!("flash.page", Size card.nand.page, UP_TO_A_GIB,
        "Bytes that one program operation writes, over all dies and planes that work as one."),
    must!("flash.t_read", Time card.nand.t_read, TEN_SECONDS,
        "Time from a command for mapped data to its first byte: the firmware's access and t_R."),
    must!("flash.read_rate", Rate card.nand.read_rate, (64 * KIB, 1024 * GIB),
        "Rate at which the pages after the first come out of the array."),
    must!("flash.t_prog", Time card.nand.t_prog, TEN_SECONDS, "Time to program one page (t_PROG)."),
    must!("flash.erase_block", Size card.nand.erase_block, UP_TO_A_GIB, "Bytes that one erase operation frees."),
    must!("flash.t_bers", Time card.nand.t_bers, TEN_SECONDS,
        "Time to erase one erase block (t_BERS), paid once for every erase block's worth of programs."),
    must!("flash.spread", Share card.nand.spread_ppm, (0, 200_000),
        "Standard deviation of t_read and t_prog from erase block to erase block; the seed draws from it."),
    must!("ftl.program_unit", Size card.mapping.program_unit, UP_TO_A_GIB,
        "Bytes after which nothing is left open in the array, and what the card buffers; a write that ends inside one pays t_commit."),
    must!("ftl.t_commit", Time card.mapping.t_commit, TEN_SECONDS,
        "Time to make a write durable that leaves a program unit open or begins a new run: its log record and map pages."),
    must!("ftl.map_unit", Size card.mapping.map_unit, UP_TO_A_GIB,
        "Bytes that one entry of the map covers where data was written in sequence."),
    must!("ftl.superblock", Size card.mapping.superblock, UP_TO_A_GIB,
        "Bytes that are rewritten together when part of them is overwritten."),
    choice!(
        "ftl.overwrite",
        card.mapping.overwrite,
        ["convert" = Overwrite::Convert, "log" = Overwrite::Log],
        "What overwriting part of a superblock does: convert it to page-mapped form at once, or log and merge later."
    ),
    must!("ftl.open_units", Count card.mapping.open_units, (0, 65_536), "Superblocks that can be open at a time."),
    may!("ftl.map_cache", SizeOrNone card.mapping.map_cache, (0, 64 * GIB),
        "Bytes of the controller's memory that hold map pages.", "the whole map fits"),
    must!("ftl.map_page", Size card.mapping.map_page, UP_TO_A_GIB,
        "Bytes of a map page: what one load of mapping information brings."),
    must!("host.modes", Modes machine.modes, ANY,
        "Bus modes that the host drives, best first; the first that the card offers too is used."),
    may!("host.bus_clock", ClockOrNone machine.bus_clock_hz, (100_000, 1_000_000_000),
        "Clock of the bus.", "the mode's highest"),
    may!("host.bus_width", CountOrNone machine.bus_width, ANY, "Data lines of the bus.", "the mode's, 4"),
    must!("host.command_max", Size machine.command_max, UP_TO_A_GIB,
        "Bytes of the largest data transfer that one command carries; larger requests are split."),
    must!("host.t_request", Time machine.t_request, TEN_SECONDS,
        "The software's time for each request that reaches the block layer."),
    must!("host.t_command", Time machine.t_command, TEN_SECONDS,
        "The software's time for each command: building it, its interrupts."),
    must!("host.t_block", Time machine.t_block, TEN_SECONDS,
        "The software's time for each 512-byte block, while the data moves: the copy."),
    must!("vfat.cluster", Size vfat.cluster, UP_TO_A_GIB, "Bytes of a cluster, the unit of allocation."),
    must!("vfat.partition_start", Size vfat.partition_start, (0, 128 << 40), "Byte of the device at which the partition begins."),
    must!("vfat.align", Size vfat.align, UP_TO_A_GIB,
        "The cluster heap begins at a multiple of this many bytes, counted on the device."),
    must!("vfat.write_back", Time vfat.write_back, AN_HOUR, "Age at which dirty metadata is written back."),
    must!("vfat.t_unexplained", Time vfat.t_unexplained, TEN_SECONDS,
        "An unexplained constant: time for each cluster that a write request touches, beyond the raw device's."),
];

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
    fn what_may_be_absent_is_absent_in_blank_parts() {
        for parameter in Parameter::all() {
            assert_eq!(
                parameter.get(&Parts::blank()).is_none(),
                parameter.absent.is_some(),
                "{}",
                parameter.path
            );
        }
    }

    #[test]
    fn paths_are_unique_and_meanings_are_sentences() {
        for (i, parameter) in Parameter::all().iter().enumerate() {
            assert!(Parameter::all()[..i].iter().all(|p| p.path != parameter.path), "{}", parameter.path);
            assert!(parameter.meaning.ends_with('.'), "{}", parameter.path);
        }
    }
}
