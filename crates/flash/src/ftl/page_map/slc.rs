//! SLC buffer: the page-mapped layer runs a share of the blocks in SLC mode (one bit per cell), and writes host data to
//! them first.
//!
//! A block in SLC mode has 1/n of the pages, where n is the number of bits of a cell. Its pages program and
//! read faster. The layer later *folds* the buffer, oldest block first: it reads the data of a block in SLC
//! mode and programs it into blocks in native mode (n bits per cell). Folding runs at full speed while the
//! host is idle. While the host writes, `fold_ppm` units are folded per million units written; once the
//! buffer is full, one unit is folded per unit written. If the host writes at speed B_in and folding runs at
//! speed B_fold meanwhile, a buffer of C bytes is full once C / (1 - B_fold/B_in) bytes have been written.
//! Any block can serve in either mode, so wear leveling sees one pool. Not modelled: the higher endurance of
//! blocks in SLC mode.

use crate::Impossible;
use crate::nand::{Cell, Geometry};
use alloc::format;
use serde::{Deserialize, Serialize};

/// The parameters of an SLC buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slc {
    /// Maximum number of blocks of each die that are in SLC mode at a time.
    pub blocks: u32,
    /// Units folded per million units that the host writes, while the buffer still has room.
    pub fold_ppm: u32,
}

impl Slc {
    /// Checks that the parameters are possible for this geometry and cell.
    pub fn check(&self, geometry: &Geometry, cell: Cell) -> Result<(), Impossible> {
        if self.blocks < 2 || self.blocks >= geometry.blocks {
            let why = format!(
                "is impossible on dies of {} blocks; expected at least 2 (one to write and one to fold) and fewer than all",
                geometry.blocks
            );
            return Err(Impossible::new("ftl.slc.blocks", why));
        }
        if self.fold_ppm > 1_000_000 {
            let why =
                "folds more than a million units per million written; folding cannot outpace the writes";
            return Err(Impossible::new("ftl.slc.fold", why));
        }
        if geometry.pages < cell.bits() {
            let why = format!("leaves a block in SLC mode without a page; expected at least {}", cell.bits());
            return Err(Impossible::new("nand.pages", why));
        }
        Ok(())
    }
}
