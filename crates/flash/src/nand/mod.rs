//! The array. [`Nand`] is a card's, all of it taken together; [`Channels`] is of dies that work apart.

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
pub use geometry::{Block, Die, Geometry};
pub use operation::{Cause, Cut, Finished, Kind, Operation};
pub use reliability::{Decoder, ReadOutcome, Reliability};
pub use scheduling::{Scheduling, Suspend};
pub use timing::Timing;
pub use variation::{Factor, Variation};

use crate::Impossible;
use alloc::format;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Geometry and timing of a card's flash array, all dies and planes that work as one taken together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Nand {
    /// Bytes that one program operation writes.
    pub page: u64,
    /// From a command for mapped data to its first byte: the firmware's access and t_R.
    pub t_read: Duration,
    /// Bytes a second at which the following pages come out of the array.
    pub read_rate: u64,
    /// Time to program one page.
    pub t_prog: Duration,
    /// Time to program one page in fast mode, with one bit a cell; `None`: the card does not use it.
    pub t_prog_slc: Option<Duration>,
    /// Bits of a cell: an erase block in fast mode holds that part of its bytes. `None`: 3.
    pub bits: Option<u32>,
    /// Bytes that one erase operation frees.
    pub erase_block: u64,
    /// Time to erase one erase block, paid once for every `erase_block` bytes programmed.
    pub t_bers: Duration,
    /// Standard deviation of t_read and t_prog from erase block to erase block, in parts per million.
    pub spread_ppm: u32,
}

impl Nand {
    /// Bits of a cell.
    pub fn cell_bits(&self) -> u32 {
        self.bits.unwrap_or(3)
    }

    /// Refuses what no array can have.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.page < 512 || !self.page.is_multiple_of(512) {
            return Err(Impossible::new("flash.page", "is not a whole number of 512 B blocks"));
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
            return Err(Impossible::new("flash.spread", "is above 20 %; times would become negative"));
        }
        Ok(())
    }
}
