//! SLC buffer: the layer uses a share of the blocks with one bit per cell, and host data goes to these blocks first.
//!
//! A block with one bit per cell has 1/n of the pages, where n is the number of bits of a cell. Its pages program and
//! read faster. The layer later *folds* the data of the buffer: it reads the data and programs it into blocks with all
//! bits per cell, oldest block first. Folding runs while the host is idle, at the pace of `fold_ppm` while the host
//! writes, and at the pace of the host once the buffer is full. With B_in the speed of writing to a buffer of C bytes
//! and B_fold the speed of folding during the writes, the buffer is full after C / (1 - B_fold/B_in) bytes were
//! written. Any block can serve in either mode, so wear leveling sees one pool. Not modelled: the higher endurance of
//! cells that hold one bit.

use crate::Impossible;
use crate::nand::{Cell, Geometry};
use alloc::format;
use serde::{Deserialize, Serialize};

/// The parameters of an SLC buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slc {
    /// Number of blocks of each die that are used with one bit per cell.
    pub blocks: u32,
    /// Units folded per million units that the host writes, while the buffer still has room.
    pub fold_ppm: u32,
}

impl Slc {
    /// Checks that the parameters are possible for this geometry and cell.
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
