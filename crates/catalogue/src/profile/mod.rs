//! Profiles: TOML files that describe cards, SSDs, hosts and filesystems. Every number has a unit and a source.
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
//!
//! A parsed profile has every mandatory number of its kind and passes the checks of the parameter structs that it
//! fills. Each number has exactly one source. The exception is a draft, a profile without `[source]`, in which no
//! number has a source. An error names the file, the line, the column and the expected value.

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
pub use suggest::did_you_mean;
pub use suggest::suggest;
pub use value::{Shape, Text, Value, ValueError};

use flashlab_flash::Impossible;
use flashlab_nvme::SsdParameters;
use flashlab_sd::CardParameters;

/// Maximum length of a profile in bytes.
pub const PROFILE_BYTES_MAX: usize = 1 << 20;

/// The kind of thing that a profile describes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// An SD card.
    Card,
    /// An NVMe SSD.
    Ssd,
    /// A machine with a slot for a card.
    Host,
    /// A machine with a slot for an SSD.
    Pc,
    /// A filesystem on a card.
    Filesystem,
}

impl Kind {
    /// All kinds, in the order of listings.
    pub const ALL: [Kind; 5] = [Kind::Card, Kind::Ssd, Kind::Host, Kind::Pc, Kind::Filesystem];

    /// Returns the value of `kind` in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Card => "card",
            Kind::Ssd => "ssd",
            Kind::Host => "host",
            Kind::Pc => "pc",
            Kind::Filesystem => "filesystem",
        }
    }

    /// Returns the sections that contain the numbers of this kind.
    pub const fn sections(self) -> &'static [&'static str] {
        match self {
            Kind::Card => &["card", "flash", "ftl", "wear"],
            Kind::Ssd => &["nvme", "nand", "scheduling", "ftl", "map", "hmb", "reliability", "wear"],
            Kind::Host => &["host"],
            Kind::Pc => &["pc"],
            Kind::Filesystem => &["vfat"],
        }
    }

    /// Returns the kind with its article: "a card".
    pub const fn noun(self) -> &'static str {
        match self {
            Kind::Card => "a card",
            Kind::Ssd => "an ssd",
            Kind::Host => "a host",
            Kind::Pc => "a pc",
            Kind::Filesystem => "a filesystem",
        }
    }

    /// Returns the kind of machine that devices of this kind are plugged into; `None` if the kind is not a device.
    pub const fn host(self) -> Option<Kind> {
        match self {
            Kind::Card => Some(Kind::Host),
            Kind::Ssd => Some(Kind::Pc),
            Kind::Host | Kind::Pc | Kind::Filesystem => None,
        }
    }

    /// Returns true if jobs can run on this kind.
    pub const fn is_device(self) -> bool {
        self.host().is_some()
    }

    /// Returns true if profiles of this kind contain `parameter`. Some parameters belong to several kinds.
    pub fn has(self, parameter: &Parameter) -> bool {
        parameter.kinds.contains(&self)
    }

    /// Returns the parameters of this kind, in the order of the parameter table.
    pub fn parameters(self) -> impl Iterator<Item = &'static Parameter> {
        Parameter::all().iter().filter(move |p| self.has(p))
    }

    /// Rejects values that are impossible for this kind, and devices that are too large to simulate.
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

/// Rejects a valid card whose map would not fit into the memory of an ordinary machine.
fn simulable(card: &CardParameters) -> Result<(), Impossible> {
    /// Limit for map units, of up to 16 bytes each.
    const UNITS_MAX: u64 = 1 << 26;
    /// Limit for mapped pages, of one bit each.
    const PAGES_MAX: u64 = 1 << 33;
    let units = card.capacity.div_ceil(card.mapping.map_unit);
    if units > UNITS_MAX {
        let why =
            format!("divides the capacity into {units} map units; a simulation supports at most {UNITS_MAX}");
        return Err(Impossible::new("ftl.map_unit", why));
    }
    let pages = card.capacity / card.nand.page.min(4096);
    if pages > PAGES_MAX {
        let why = format!("contains {pages} mapped pages; a simulation supports at most {PAGES_MAX}");
        return Err(Impossible::new("card.capacity", why));
    }
    Ok(())
}

/// Rejects a valid SSD whose map would not fit into the memory of an ordinary machine.
fn simulable_ssd(ssd: &SsdParameters) -> Result<(), Impossible> {
    /// Limit for units, of up to 10 bytes each.
    const UNITS_MAX: u64 = 1 << 31;
    let units = ssd.page_map.geometry.raw_bytes() / ssd.page_map.unit;
    if units > UNITS_MAX {
        let why = format!("divides the array into {units} units; a simulation supports at most {UNITS_MAX}");
        return Err(Impossible::new("ftl.unit", why));
    }
    Ok(())
}

/// A parsed and checked profile.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// The kind of thing that the profile describes.
    pub kind: Kind,
    /// Full name of the product: "Kingston Canvas Select Plus microSD".
    pub title: String,
    /// Model number of the manufacturer, if known.
    pub model: Option<String>,
    /// Name of the host that the device was measured on. Simulations use this host unless an argument names another
    /// one.
    pub host: Option<String>,
    /// Remarks in plain text.
    pub notes: Option<String>,
    /// The numbers, in the order of the parameter table.
    pub numbers: Vec<Number>,
    /// The file's path and its text.
    pub text: SourceText,
}

impl Profile {
    /// Parses and checks the bytes of `file`.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Profile, ProfileError> {
        read::profile(file, bytes)
    }

    /// Returns the number of the parameter at `path`.
    pub fn number(&self, path: &str) -> Option<&Number> {
        self.numbers.iter().find(|n| n.parameter.path == path)
    }

    /// Returns true if the profile is a draft: its numbers have no sources.
    pub fn is_draft(&self) -> bool {
        self.numbers.iter().any(|number| number.source == Source::Unsourced)
    }

    /// Returns the title with the model number, marked "(unsourced)" if the profile is a draft.
    pub fn full_title(&self) -> String {
        let model = self.model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
        let draft = if self.is_draft() { " (unsourced)" } else { "" };
        format!("{}{model}{draft}", self.title)
    }

    /// Sets the profile's numbers in `parts`.
    pub fn fill(&self, parts: &mut Parts) {
        for number in &self.numbers {
            number.parameter.set(parts, &number.value);
        }
    }

    /// Returns the file and line of `number`: `profiles/sd/kingston.toml:14`.
    pub fn line_of(&self, number: &Number) -> String {
        format!("{}:{}", self.text.file, self.text.line(number.span.start))
    }
}
