//! Mechanisms of a translation layer that only some cards show. A mechanism is inactive if its parameter is absent.
//!
//! The state of the active mechanisms follows the layer's state in a state file, so the format of the layer's
//! state does not depend on these mechanisms.

use super::Mapping;
use super::small_writes::SmallArea;
use crate::Impossible;
use crate::nand::Nand;
use alloc::format;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Greatest number of pages that are programmed in parallel.
const WAYS_MAX: u64 = 1024;

/// Parameters of the mechanisms.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LayerRefinements {
    /// Bytes that the array programs at a time, over all dies and planes. A program fills one page of this stripe, and
    /// the pages of a stripe are programmed in parallel. `None` means that one page is programmed at a time.
    pub stripe: Option<u64>,
    /// Busy time of a write command after its last program. Writes to the area for small writes do not have
    /// this busy time.
    pub t_write: Option<Duration>,
    /// Time in which the array copies a whole rewrite unit internally. A copy of a part takes a proportional time.
    /// `None` means that a copy streams the data out of the array and programs it like host data.
    pub t_copy: Option<Duration>,
    /// Time to switch from the rewrite unit in which the previous write ended to another rewrite unit. Writes
    /// of whole rewrite units and writes to the area for small writes do not take this time.
    pub t_switch: Option<Duration>,
    /// Maximum number of bytes of valid data that garbage collection moves ahead of each write; a value below
    /// a page counts as a page.
    pub collect_step: Option<u64>,
    /// Bytes that the host writes between two pauses for housekeeping.
    pub housekeeping_every: Option<u64>,
    /// Duration of a pause for housekeeping.
    pub t_housekeeping: Option<Duration>,
    /// Area for small writes.
    pub small: SmallWrites,
}

/// Parameters of the area for small writes. In this area, pages are programmed in the order of the writes, whatever
/// their addresses are. The blocks of the area are not part of the spare blocks; their wear is not modelled.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SmallWrites {
    /// Length in bytes of the longest write that goes to the area; `None` means that there is no area. Writes
    /// that continue a run do not go to the area.
    pub max: Option<u64>,
    /// Bytes of a page of the area; `None` means the page of the array.
    pub page: Option<u64>,
    /// Time to program a page of the area; `None` means the time of the array.
    pub t_prog: Option<Duration>,
    /// Size of the area in bytes; `None` means that it never fills up.
    pub size: Option<u64>,
    /// Idle time after which the card folds data out of the area; `None` means that it folds only for lack of room.
    pub t_idle: Option<Duration>,
}

impl LayerRefinements {
    /// Returns true if a mechanism with a saved state is active.
    pub(super) fn keep_state(&self) -> bool {
        self.t_switch.is_some() || self.housekeeping_every.is_some() || self.small.max.is_some()
    }

    /// Checks that the parameters are possible for this array.
    ///
    /// # Errors
    /// Returns the first parameter that is impossible for this array and mapping.
    pub fn check(&self, nand: &Nand, mapping: &Mapping) -> Result<(), Impossible> {
        if let Some(stripe) = self.stripe
            && (stripe == 0 || !stripe.is_multiple_of(nand.page) || stripe / nand.page > WAYS_MAX)
        {
            let why = format!("is not 1 to {WAYS_MAX} pages of {} B", nand.page);
            return Err(Impossible::new("flash.stripe", why));
        }
        if self.housekeeping_every.is_some() != self.t_housekeeping.is_some() {
            return Err(Impossible::new(
                "ftl.t_housekeeping",
                "and ftl.housekeeping_every belong together; the profile has only one of them",
            ));
        }
        if self.housekeeping_every == Some(0) {
            return Err(Impossible::new(
                "ftl.housekeeping_every",
                "is 0; no data could be written between two pauses",
            ));
        }
        if self.collect_step == Some(0) {
            return Err(Impossible::new("ftl.collect_step", "is 0; collection would never end"));
        }
        self.small.check(nand, mapping)
    }
}

impl SmallWrites {
    fn check(&self, nand: &Nand, mapping: &Mapping) -> Result<(), Impossible> {
        let Some(max) = self.max else {
            let others =
                self.page.is_some() || self.t_prog.is_some() || self.size.is_some() || self.t_idle.is_some();
            return if others {
                Err(Impossible::new(
                    "ftl.small_max",
                    "is absent, so no write goes to the area that ftl.small_* describe",
                ))
            } else {
                Ok(())
            };
        };
        if self.t_idle.is_some() && self.size.is_none() {
            let why = "needs ftl.small_size: an area that never fills up is not folded";
            return Err(Impossible::new("ftl.small_idle", why));
        }
        let granule = super::granule(nand);
        let page = self.page.unwrap_or(nand.page);
        if page == 0 || !page.is_multiple_of(granule) {
            return Err(Impossible::new(
                "ftl.small_page",
                format!("is not a whole number of granules of {granule} B"),
            ));
        }
        if max == 0 || max >= mapping.rewrite_unit {
            let why = format!("is not between 1 B and the rewrite unit of {} B", mapping.rewrite_unit);
            return Err(Impossible::new("ftl.small_max", why));
        }
        // A write may touch one page more than its length fills.
        let least = (max.div_ceil(page) + 1) * page;
        if self.size.is_some_and(|size| size < least || size > 1 << 36) {
            let why = format!("is not between {least} B (one write of ftl.small_max) and 64 GiB");
            return Err(Impossible::new("ftl.small_size", why));
        }
        Ok(())
    }
}

/// State of the active mechanisms.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RefinementState {
    /// Data in the area for small writes.
    pub(super) small: Option<SmallArea>,
    /// Device offset at which the previous write ended.
    pub(super) previous_end: u64,
    /// Bytes that the host has written since the last housekeeping.
    pub(super) since_housekeeping: u64,
    /// Bytes of the pages that were programmed in the area for small writes.
    pub(super) small_programmed: u64,
}

/// Time after the last program of a write, by mechanism.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Commit {
    /// Time to make the write durable: its log record and map pages.
    pub map: Duration,
    /// Busy time of the write command ([`LayerRefinements::t_write`]).
    pub busy: Duration,
    /// Pause for housekeeping.
    pub housekeeping: Duration,
}

impl Commit {
    /// Returns the sum of all parts.
    pub fn total(&self) -> Duration {
        self.map + self.busy + self.housekeeping
    }
}
