//! Profiles: TOML files that describe cards, eMMC devices, USB sticks, SSDs, their hosts, and filesystems.
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
//! A parsed profile has every mandatory number of its kind (for a filesystem, of its model) and passes the
//! checks of the parameter structs that it fills. Every quantity has a unit. Each number has exactly one
//! source. The exception is a draft, a profile without `[source]`, in which no number has a source. An error
//! names the file, the line and the column.

mod error;
mod number;
pub(crate) mod parameter;
mod place;
mod read;
mod source;
mod suggest;
mod value;

pub use error::{Mistake, Problem, ProfileError};
pub use number::Number;
pub use parameter::Parameter;
pub use place::{Picture, Place, SourceText};
pub use source::Source;
pub use suggest::did_you_mean;
pub use suggest::present_name;
pub use suggest::suggest;
pub use value::{Shape, Text, Value, ValueError};
pub(crate) use value::{date, hex};

pub use crate::kind::{Kind, Parts};

use std::ops::Range;

/// Maximum length of a profile in bytes.
pub(crate) const PROFILE_BYTES_MAX: usize = 1 << 20;

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
    /// Span of the host's name in the text; empty if the profile names no host.
    pub(crate) host_span: Range<usize>,
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

    /// Returns the name of the model that the profile of a filesystem selects by its section.
    pub(crate) fn filesystem_model(&self) -> &'static str {
        let first = self.numbers.first().filter(|_| self.kind == Kind::FILESYSTEM);
        first.expect("a filesystem's profile has numbers of one model").parameter.section()
    }

    /// Returns the title with the model number, marked "(unsourced)" if the profile is a draft.
    pub(crate) fn full_title(&self) -> String {
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

    /// Returns the place of the host's name.
    pub(crate) fn host_place(&self) -> Place {
        self.text.place(self.host_span.clone())
    }

    /// Returns the file and line of `number`: `profiles/sd/kingston.toml:14`.
    pub(crate) fn line_of(&self, number: &Number) -> String {
        format!("{}:{}", self.text.file, self.text.line(number.span.start))
    }
}
