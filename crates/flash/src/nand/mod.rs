//! The NAND array. [`Nand`] describes the array of a card as one unit; [`Channels`] simulates dies that work
//! independently.

mod binomial;
mod cell;
mod channels;
mod endurance;
mod geometry;
mod operation;
mod reliability;
mod scheduling;
pub mod strict;
mod timing;
mod variation;

pub use cell::Cell;
pub use channels::Channels;
pub use endurance::Endurance;
pub use geometry::{Die, EraseBlock, Geometry};
pub use operation::{Cause, Cut, Finished, Kind, Operation};
pub use reliability::{Decoder, ReadOutcome, Reliability};
pub use scheduling::{Scheduling, Suspend};
pub use timing::Timing;
pub use variation::{Factor, Variation};

use crate::Impossible;
use alloc::format;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Bytes that the finest entry of a card's map covers, unless the page is smaller. A larger page holds whole granules.
pub(crate) const GRANULE_MAX: u64 = 4 << 10;

/// Geometry and timing of a card's flash array. Dies and planes that work in parallel count as one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Nand {
    /// Size in bytes of one program operation.
    pub page: u64,
    /// Time from a command for mapped data to its first byte: firmware access plus t_R.
    pub t_read: Duration,
    /// Rate in bytes per second at which data streams out of the array after the access.
    pub read_rate: u64,
    /// Time to program one page.
    pub t_prog: Duration,
    /// Time to program one page in SLC mode; `None` if the card has no SLC mode.
    pub t_prog_slc: Option<Duration>,
    /// Bits per cell. An erase block in SLC mode holds 1/`bits` of its bytes. `None` means 3.
    pub bits: Option<u32>,
    /// Erase block size in bytes.
    pub erase_block: u64,
    /// Time to erase one block, spent with the first page that is programmed in the block. A block in SLC mode takes
    /// the same time, because the model has no separate parameter for it.
    pub t_bers: Duration,
    /// Standard deviation of `t_read`, `t_prog` and `t_prog_slc` between erase blocks, in parts per million.
    pub spread_ppm: u32,
}

impl Nand {
    /// Returns the bits per cell.
    pub fn cell_bits(&self) -> u32 {
        self.bits.unwrap_or(3)
    }

    /// Checks the parameters.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.page < 512 || !self.page.is_multiple_of(512) {
            return Err(Impossible::new("flash.page", "is not a whole number of 512 B blocks"));
        }
        if self.page > GRANULE_MAX && !self.page.is_multiple_of(GRANULE_MAX) {
            return Err(Impossible::new(
                "flash.page",
                format!("is {} B; expected at most 4 KiB, or a multiple of 4 KiB", self.page),
            ));
        }
        if self.t_prog == Duration::ZERO {
            return Err(Impossible::new(
                "flash.t_prog",
                "is 0; programming a page takes time, for example \"600us\"",
            ));
        }
        if self.t_read == Duration::ZERO {
            return Err(Impossible::new(
                "flash.t_read",
                "is 0; reading a page takes time, for example \"60us\"",
            ));
        }
        if self.t_prog_slc == Some(Duration::ZERO) {
            return Err(Impossible::new(
                "flash.t_prog_slc",
                "is 0; programming a page takes time, for example \"200us\"; without a fast mode, leave it out",
            ));
        }
        if !(1..=5).contains(&self.cell_bits()) {
            return Err(Impossible::new(
                "flash.bits",
                format!("is {}; a cell holds 1 to 5 bits, 3 in TLC", self.cell_bits()),
            ));
        }
        if self.read_rate == 0 {
            return Err(Impossible::new("flash.read_rate", "is 0; expected a rate, for example \"90MiB/s\""));
        }
        if self.erase_block < self.page || !self.erase_block.is_multiple_of(self.page) {
            return Err(Impossible::new(
                "flash.erase_block",
                format!("is not a whole number of pages of {} B", self.page),
            ));
        }
        if self.spread_ppm > 200_000 {
            return Err(Impossible::new(
                "flash.spread",
                "is above 20 %, the maximum; beyond 28 %, times could become negative",
            ));
        }
        Ok(())
    }
}
