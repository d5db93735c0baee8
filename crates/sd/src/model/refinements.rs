//! Mechanisms of a card that only some profiles have. A mechanism is inactive while its number is absent.

use crate::Mode;
use alloc::format;
use flashlab_flash::Impossible;
use flashlab_flash::ftl::card::{LayerRefinements, Mapping};
use flashlab_flash::nand::Nand;
use flashlab_sim::Duration;

/// Numbers of the mechanisms.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Refinements {
    /// Mechanisms of the translation layer.
    pub layer: LayerRefinements,
    /// Bytes that the array programs at a time, over all dies and planes. A program fills one page of this stripe, and
    /// the pages of a stripe are programmed in parallel. `None` means that one page is programmed at a time.
    pub stripe: Option<u64>,
    /// Bytes behind the end of a read that the card reads ahead into its buffer.
    pub read_ahead: Option<u64>,
    /// Access time of a read in each mode, by [`Mode::index`], beyond the array's.
    pub access: [Option<Duration>; Mode::COUNT],
}

/// Greatest number of pages that are programmed in parallel.
const WAYS_MAX: u64 = 1024;

impl Refinements {
    /// Returns the number of pages that are programmed in parallel.
    pub(crate) fn ways(&self, nand: &Nand) -> usize {
        self.stripe.map_or(1, |stripe| (stripe / nand.page) as usize)
    }

    /// Returns the name of a mechanism that only the timed model has, if one is active.
    pub fn only_timed(&self) -> Option<&'static str> {
        let small = self.layer.small.max.map(|_| "ftl.small_max");
        let read_ahead = self.read_ahead.map(|_| "card.read_ahead");
        let access = self.access.iter().any(Option::is_some).then_some("card.t_access_*");
        small.or(read_ahead).or(access)
    }

    /// Checks that the numbers are possible for this array.
    ///
    /// # Errors
    /// Returns the first number that no card can have.
    pub fn check(&self, nand: &Nand, mapping: &Mapping) -> Result<(), Impossible> {
        if let Some(stripe) = self.stripe
            && (stripe == 0 || !stripe.is_multiple_of(nand.page) || stripe / nand.page > WAYS_MAX)
        {
            let why = format!("is not 1 to {WAYS_MAX} pages of {} B", nand.page);
            return Err(Impossible::new("flash.stripe", why));
        }
        self.layer.check(nand, mapping)
    }
}
