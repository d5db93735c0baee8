//! An SLC buffer: a share of the blocks is used with one bit a cell, and the host's data goes there first.
//!
//! Such a block has as many pages fewer as its cells have bits, and its pages program and read faster. What it holds is
//! *folded*: read and programmed into blocks of all bits, eldest block first, when the host is idle, while the host
//! writes at the pace of `fold_ppm`, and at the host's own pace once the buffer is full. With B_in the speed of writing
//! to a buffer of C bytes and B_fold that of folding meanwhile, it is full after C / (1 - B_fold/B_in) bytes.
//! Any block can be used either way, so that wear leveling sees one pool. Left out: that cells used with one bit stand
//! more cycles.

use crate::Impossible;
use crate::nand::{Cell, Geometry};
use alloc::format;
use serde::{Deserialize, Serialize};

/// The parameters of an SLC buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slc {
    /// Blocks of each die that are used with one bit a cell.
    pub blocks: u32,
    /// Units that are folded for a million units that the host writes while there is still room.
    pub fold_ppm: u32,
}

impl Slc {
    /// Refuses what no buffer can be.
    pub fn check(&self, geometry: &Geometry, cell: Cell) -> Result<(), Impossible> {
        if self.blocks < 2 || self.blocks >= geometry.blocks {
            let why = format!(
                "is {} blocks of a die of {}; expected at least 2, one to write and one to fold, and not all",
                self.blocks, geometry.blocks
            );
            return Err(Impossible::new("ftl.slc.blocks", why));
        }
        if self.fold_ppm > 1_000_000 {
            let why = format!(
                "is {} units folded for a million written; expected at most a million: more than is written cannot be \
                 folded for long",
                self.fold_ppm
            );
            return Err(Impossible::new("ftl.slc.fold", why));
        }
        if geometry.pages < cell.bits() {
            return Err(Impossible::new("nand.pages", "is less than one page with one bit a cell"));
        }
        Ok(())
    }
}
