//! The translation layer of a card: rewrite units, log blocks or log-structured erase blocks, and a cache of map pages.

mod log_blocks;
mod log_structured;
mod map_cache;
mod mapped_granules;
mod medium;
mod placement;
mod refinements;
mod rewrite_units;
mod sequential_streams;
mod small_writes;
mod translation;

use map_cache::MapCache;
pub use medium::{Run, Work};
pub use refinements::{Commit, LayerRefinements, RefinementState, SmallWrites};
pub use rewrite_units::{Copies, Form, RewriteUnits};
pub use translation::Translation;

use crate::Impossible;
use crate::nand::{GRANULE_MAX, Nand};
use alloc::format;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Returns the bytes that the finest map entry covers.
fn granule(nand: &Nand) -> u64 {
    GRANULE_MAX.min(nand.page)
}

/// The card's handling of a partial overwrite of a sequentially mapped rewrite unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Overwrite {
    /// The card reads the data that is not overwritten, and rewrites the whole rewrite unit in page-mapped
    /// form at once; later overwrites in it copy nothing.
    Convert,
    /// The card opens the rewrite unit and logs its new data. The rewrite unit is merged when another one needs its
    /// place.
    Log,
}

/// The parameters of a card's translation layer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mapping {
    /// Program unit in bytes, which is also the size of the card's buffer. A write command that begins or ends inside a
    /// program unit takes `t_commit` longer, because it leaves a partly filled unit in the array.
    pub program_unit: u64,
    /// Time to write the log record and map pages that make a write durable. A write outside the area for
    /// small writes takes this time if it leaves a program unit partly filled or does not continue where an
    /// earlier write ended.
    pub t_commit: Duration,
    /// Bytes that one entry of the map covers where data was written sequentially: a whole number of program
    /// units, or a part of a program unit that consists of whole granules.
    pub map_unit: u64,
    /// Bytes that are rewritten together when part of them is overwritten; a whole number of map units. If a
    /// rewrite unit is one granule, the layer is page-mapped: no write copies anything.
    pub rewrite_unit: u64,
    /// Handling of a partial overwrite.
    pub overwrite: Overwrite,
    /// Greatest number of rewrite units that are open at the same time.
    pub open_units: u32,
    /// Bytes of the controller's memory that hold map pages; `None` if the whole map fits.
    pub map_cache: Option<u64>,
    /// Bytes of a map page, which is loaded as a whole.
    pub map_page: u64,
}

impl Mapping {
    /// Returns true if each rewrite unit is in an erase block of its own: overwrites are logged, and a rewrite unit is as
    /// large as an erase block.
    pub fn is_block_mapped(&self, nand: &Nand) -> bool {
        self.overwrite == Overwrite::Log && self.rewrite_unit == nand.erase_block
    }

    /// Checks that the parameters are possible for the array `nand`.
    pub fn check(&self, nand: &Nand) -> Result<(), Impossible> {
        let (page, granule) = (nand.page, granule(nand));
        let whole = |path, bytes: u64, of: u64, what: &str| {
            if bytes >= of && bytes.is_multiple_of(of) {
                return Ok(());
            }
            Err(Impossible::new(path, format!("is not a whole number of {what} of {of} B")))
        };
        whole("ftl.program_unit", self.program_unit, page, "pages")?;
        // A page-mapped layer has an entry for each part of a program unit, so that a page holds data of any addresses.
        let is_part = self.program_unit.checked_rem(self.map_unit) == Some(0);
        if !is_part || !self.map_unit.is_multiple_of(granule) {
            whole("ftl.map_unit", self.map_unit, self.program_unit, "program units")?;
        }
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
