//! The translation layer of a card: rewrite units, log blocks or log-structured erase blocks, and
//! a cache of map pages.

mod log_blocks;
mod log_structured;
mod map_cache;
mod mapped_granules;
mod medium;
mod rewrite_units;
mod sequential_streams;
mod translation;

pub use map_cache::MapCache;
pub use medium::{Run, Work};
pub use rewrite_units::{Copies, Form, RewriteUnits};
pub use translation::Translation;

use crate::Impossible;
use alloc::format;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// What a card does when part of a sequentially mapped rewrite unit is overwritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Overwrite {
    /// The rewrite unit is read and rewritten in page-mapped form at once; later overwrites in it cost one program.
    Convert,
    /// The rewrite unit is opened and its new data logged; it is merged when it has to give way to another one.
    Log,
}

/// The parameters of a card's translation layer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mapping {
    /// Bytes after which nothing is left open in the array, and what the card buffers; a write command that begins or
    /// ends inside one pays `t_commit`.
    pub program_unit: u64,
    /// Time to make a write durable that leaves a program unit open, or does not go on where one before it ended: its
    /// log record and map pages.
    pub t_commit: Duration,
    /// Bytes that one entry of the map covers where data was written in sequence.
    pub map_unit: u64,
    /// Bytes that are rewritten together when part of them is overwritten; a whole number of map units.
    pub rewrite_unit: u64,
    /// What an overwrite does.
    pub overwrite: Overwrite,
    /// How many rewrite units can be open at a time.
    pub open_units: u32,
    /// Bytes of the controller's memory that hold map pages; `None`: the whole map fits.
    pub map_cache: Option<u64>,
    /// Bytes of a map page: what one load brings.
    pub map_page: u64,
}

impl Mapping {
    /// Refuses what no translation layer can have, given the array's page size in bytes.
    pub fn check(&self, page: u64) -> Result<(), Impossible> {
        let whole = |path, bytes: u64, of: u64, what: &str| {
            if bytes >= of && bytes.is_multiple_of(of) {
                return Ok(());
            }
            Err(Impossible::new(path, format!("is not a whole number of {what} of {of} B")))
        };
        whole("ftl.program_unit", self.program_unit, page, "pages")?;
        whole("ftl.map_unit", self.map_unit, self.program_unit, "program units")?;
        whole("ftl.rewrite_unit", self.rewrite_unit, self.map_unit, "map units")?;
        whole("ftl.map_page", self.map_page, 512, "blocks")?;
        if self.open_units == 0 {
            return Err(Impossible::new(
                "ftl.open_units",
                "is 0; a card needs one open unit to write at all",
            ));
        }
        if self.map_cache.is_some_and(|bytes| bytes < self.map_page) {
            return Err(Impossible::new(
                "ftl.map_cache",
                format!("holds no map page of {} B", self.map_page),
            ));
        }
        Ok(())
    }
}
