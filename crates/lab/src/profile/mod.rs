//! Profiles: cards, SSDs, hosts and filesystems as TOML, every number with its unit and its source.
//!
//! ```toml
//! kind = "card"
//! name = "Kingston Canvas Select Plus microSD"
//! host = "raspberry-pi-4"
//!
//! [flash]
//! t_prog = "300us"
//!
//! [source]
//! "flash.t_prog" = { fitted = ["raw write 1M/kingston"] }
//! ```
//! Guarantees: what is loaded has every number of its kind and passes the checks of the parameter structs that it fills. Each
//! number has exactly one source, except in a draft, a profile without `[source]`, where none has. A refusal names file, line,
//! column and what was expected.

mod error;
mod number;
mod parameter;
mod parts;
mod place;
mod read;
mod registers;
mod source;
mod suggest;
mod value;

pub use error::{Mistake, Problem, ProfileError};
pub use number::Number;
pub use parameter::Parameter;
pub use parts::{Optional, Parts, Suspending};
pub use place::{Picture, Place, SourceText};
pub use registers::Registers;
pub use source::Source;
pub(crate) use suggest::did_you_mean;
pub use suggest::suggest;
pub use value::{Shape, Text, Value, ValueError};

use flashlab_flash::Impossible;
use flashlab_nvme::SsdParameters;
use flashlab_sd::CardParameters;

/// The most bytes of a profile that are read.
pub const PROFILE_BYTES_MAX: usize = 1 << 20;

/// What a profile describes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// An SD card.
    Card,
    /// An NVMe SSD.
    Ssd,
    /// A machine that a card is plugged into.
    Host,
    /// A machine that an SSD is plugged into.
    Pc,
    /// A filesystem on a card.
    Filesystem,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [Kind::Card, Kind::Ssd, Kind::Host, Kind::Pc, Kind::Filesystem];

    /// As profiles write it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Card => "card",
            Kind::Ssd => "ssd",
            Kind::Host => "host",
            Kind::Pc => "pc",
            Kind::Filesystem => "filesystem",
        }
    }

    /// The sections that hold its numbers.
    pub const fn sections(self) -> &'static [&'static str] {
        match self {
            Kind::Card => &["card", "flash", "ftl", "wear"],
            Kind::Ssd => &["nvme", "nand", "scheduling", "ftl", "map", "hmb", "reliability", "wear"],
            Kind::Host => &["host"],
            Kind::Pc => &["pc"],
            Kind::Filesystem => &["vfat"],
        }
    }

    /// With its article: "a card".
    pub const fn noun(self) -> &'static str {
        match self {
            Kind::Card => "a card",
            Kind::Ssd => "an ssd",
            Kind::Host => "a host",
            Kind::Pc => "a pc",
            Kind::Filesystem => "a filesystem",
        }
    }

    /// The kind of machine that it is plugged into; `None` for what is no device.
    pub const fn host(self) -> Option<Kind> {
        match self {
            Kind::Card => Some(Kind::Host),
            Kind::Ssd => Some(Kind::Pc),
            Kind::Host | Kind::Pc | Kind::Filesystem => None,
        }
    }

    /// Whether jobs run on it.
    pub const fn is_device(self) -> bool {
        self.host().is_some()
    }

    /// Whether its profiles hold `parameter`; some belong to several kinds.
    pub fn has(self, parameter: &Parameter) -> bool {
        parameter.kinds.contains(&self)
    }

    /// Its parameters, in the table's order.
    pub fn parameters(self) -> impl Iterator<Item = &'static Parameter> {
        Parameter::all().iter().filter(move |p| self.has(p))
    }

    /// Refuses what nothing of this kind can be, and what is too large to be simulated.
    pub fn check(self, parts: &Parts) -> Result<(), Impossible> {
        match self {
            Kind::Card => parts.card().and_then(|card| {
                simulable(&card)?;
                parts.registers.identity(&card).map(|_| ())
            }),
            Kind::Ssd => parts.ssd().and_then(|ssd| simulable_ssd(&ssd)),
            Kind::Host => parts.machine.check(),
            Kind::Pc => Ok(()),
            Kind::Filesystem => parts.vfat.check(),
        }
    }
}

/// Refuses a checked card whose map would not fit in the memory of an ordinary machine.
fn simulable(card: &CardParameters) -> Result<(), Impossible> {
    /// At up to 16 bytes each.
    const UNITS_MAX: u64 = 1 << 26;
    /// At one bit each.
    const PAGES_MAX: u64 = 1 << 33;
    let units = card.capacity.div_ceil(card.mapping.map_unit);
    if units > UNITS_MAX {
        let why = format!("makes {units} map units of the capacity; a simulation holds {UNITS_MAX} at most");
        return Err(Impossible::new("ftl.map_unit", why));
    }
    let pages = card.capacity / card.nand.page.min(4096);
    if pages > PAGES_MAX {
        let why = format!("makes {pages} mapped pages; a simulation holds {PAGES_MAX} at most");
        return Err(Impossible::new("card.capacity", why));
    }
    Ok(())
}

/// The same for a checked SSD.
fn simulable_ssd(ssd: &SsdParameters) -> Result<(), Impossible> {
    /// At up to 10 bytes each.
    const UNITS_MAX: u64 = 1 << 31;
    let units = ssd.page_map.geometry.raw_bytes() / ssd.page_map.unit;
    if units > UNITS_MAX {
        let why = format!("makes {units} units of the array; a simulation holds {UNITS_MAX} at most");
        return Err(Impossible::new("ftl.unit", why));
    }
    Ok(())
}

/// A profile that was read and checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// What it describes.
    pub kind: Kind,
    /// The full name of the thing: "Kingston Canvas Select Plus microSD".
    pub title: String,
    /// The maker's number, where known.
    pub model: Option<String>,
    /// The host that a card was measured on, and is simulated with unless another one is asked for.
    pub host: Option<String>,
    /// What else there is to say, in plain text.
    pub notes: Option<String>,
    /// Its numbers, in the table's order.
    pub numbers: Vec<Number>,
    /// The file and its text.
    pub text: SourceText,
}

impl Profile {
    /// Reads the bytes of `file`.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Profile, ProfileError> {
        read::profile(file, bytes)
    }

    /// The number of the parameter at `path`.
    pub fn number(&self, path: &str) -> Option<&Number> {
        self.numbers.iter().find(|n| n.parameter.path == path)
    }

    /// Returns true if it says of no number where that comes from.
    pub fn is_draft(&self) -> bool {
        self.numbers.iter().any(|number| number.source == Source::Unsourced)
    }

    /// Its title with the maker's number, marked where it is a draft.
    pub fn full_title(&self) -> String {
        let model = self.model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
        let draft = if self.is_draft() { " (unsourced)" } else { "" };
        format!("{}{model}{draft}", self.title)
    }

    /// Puts its numbers into `parts`.
    pub fn fill(&self, parts: &mut Parts) {
        for number in &self.numbers {
            number.parameter.set(parts, &number.value);
        }
    }

    /// Where `number` stands: `profiles/sd/kingston.toml:14`.
    pub fn line_of(&self, number: &Number) -> String {
        format!("{}:{}", self.text.file, self.text.line(number.span.start))
    }
}
