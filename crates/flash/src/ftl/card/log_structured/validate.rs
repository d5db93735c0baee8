//! A walk through all places, for those that were made here and those that were read back.

use super::{CHUNK, LogStructured, NONE};
use crate::ftl::Inconsistent;
use crate::ftl::card::mapped::Mapped;
use crate::ftl::card::medium::{Filling, Medium};
use crate::ftl::gc::VictimPolicy;
use crate::ftl::inconsistent::ensure;
use crate::nand::EraseBlock;
use alloc::collections::BTreeSet;
use alloc::vec;

impl LogStructured {
    /// Walks all of it, and compares its sizes with those of `like`, which was made from the same parameters.
    ///
    /// # Errors
    /// With what is wrong. Where nothing is, no call that keeps to the contract panics.
    pub(in crate::ftl) fn validate(
        &self,
        like: &LogStructured,
        mapped: &Mapped,
        medium: &Medium,
    ) -> Result<(), Inconsistent> {
        let shape = |a: &LogStructured| (a.granule, a.page, a.slots, a.slot_bits, a.data_blocks);
        let lengths = |a: &LogStructured| {
            [a.places.len(), a.contents.len(), a.live.len(), a.closed.len(), a.moved.len()]
        };
        ensure!(shape(self) == shape(like), "the places are of other parameters");
        ensure!(lengths(self) == lengths(like), "places or blocks are missing");
        self.validate_places(mapped, medium)?;
        self.validate_blocks(medium)?;
        self.validate_idle()
    }

    /// What is mapped lies in a slot that knows it, and nothing else lies anywhere.
    fn validate_places(&self, mapped: &Mapped, medium: &Medium) -> Result<(), Inconsistent> {
        let blocks = medium.blocks.count();
        let mut live = vec![0; blocks as usize];
        for (chunk, places) in self.places.iter().enumerate() {
            let first = chunk * CHUNK;
            let Some(places) = places else {
                let last = (first + CHUNK).min(mapped.len()).max(first);
                let range = first as u64 * self.granule..last as u64 * self.granule;
                ensure!(mapped.bytes(&range) == 0, "granules from {first} on are mapped and lie nowhere");
                continue;
            };
            ensure!(places.len() == CHUNK, "a chunk of the map has {} places", places.len());
            for (granule, place) in (first..).zip(places) {
                let is_mapped = granule < mapped.len() && mapped.holds(granule as u64 * self.granule);
                ensure!(
                    is_mapped == (*place != NONE),
                    "granule {granule} is mapped or not, and has the place {place}"
                );
                if *place == NONE {
                    continue;
                }
                let (block, slot) = (place >> self.slot_bits, place & ((1 << self.slot_bits) - 1));
                ensure!(
                    block < blocks
                        && self.contents[block as usize].get(slot as usize) == Some(&(granule as u32)),
                    "granule {granule} is not in slot {slot} of block {block}"
                );
                live[block as usize] += 1;
            }
        }
        ensure!(live == self.live, "the counts of what lives in blocks are not those of the places");
        let said = |block: u32| self.closed[block as usize].then(|| live[block as usize]);
        self.candidates.validate(VictimPolicy::Greedy, (1, blocks, self.slots), 0, &said)
    }

    /// A used block is being filled, or full and closed.
    fn validate_blocks(&self, medium: &Medium) -> Result<(), Inconsistent> {
        let filling = || self.moved.iter().chain([&self.streamed, &self.scattered]).flatten();
        let is_sound = |filling: &Filling| medium.can_fill(filling) && !filling.is_slc();
        ensure!(filling().all(is_sound), "a block that is filled is not one, or not so");
        for Filling { block, filled, .. } in filling() {
            let free = self.contents[block.0 as usize].get((filled / self.granule) as usize..);
            ensure!(
                free.is_some_and(|free| free.iter().all(|slot| *slot == NONE)),
                "{block:?} holds something beyond {filled} B"
            );
        }
        for (block, contents) in (0..).zip(&self.contents) {
            let used = medium.blocks.is_used(EraseBlock(block));
            let whole = if used { self.slots as usize } else { 0 };
            ensure!(contents.len() == whole, "block {block} has {} slots", contents.len());
            let fillings = filling().filter(|filling| filling.block.0 == block).count();
            let closed = usize::from(self.closed[block as usize]);
            ensure!(
                fillings + closed == usize::from(used),
                "block {block} is used {used}, closed {closed}, filled {fillings}"
            );
            ensure!(
                closed == 0 || self.live[block as usize] > 0,
                "block {block} is closed, and nothing lives in it"
            );
        }
        Ok(())
    }

    /// What is left to collect is in the block that is collected, in the order in which it was written.
    fn validate_idle(&self) -> Result<(), Inconsistent> {
        if self.idle_left.is_empty() {
            return Ok(());
        }
        let victim = self.idle_victim;
        ensure!(self.closed.get(victim as usize) == Some(&true), "block {victim} is not collected");
        let mut contents = self.contents[victim as usize].iter();
        let mut seen = BTreeSet::new();
        let mut lives = 0;
        for granule in &self.idle_left {
            ensure!(
                seen.insert(granule) && contents.any(|content| content == granule),
                "granule {granule} is collected twice, or not in block {victim}"
            );
            ensure!(
                (*granule as usize) < self.places.len() * CHUNK,
                "granule {granule} is beyond the capacity"
            );
            lives += u32::from(self.place_of(*granule) >> self.slot_bits == victim);
        }
        let left = self.idle_left.len();
        ensure!(
            lives == self.live[victim as usize],
            "{left} granules of block {victim} are left, of which {lives} live"
        );
        Ok(())
    }
}
