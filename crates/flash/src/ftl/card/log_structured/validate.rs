//! Validation of the locations of granules, both of a running device and of a state file.

use super::idle_victim::IdleVictim;
use super::{CHUNK, Granule, Location, LogStructured};
use crate::ftl::Inconsistent;
use crate::ftl::card::mapped_granules::MappedGranules;
use crate::ftl::card::medium::{Medium, OpenBlock};
use crate::ftl::gc::VictimPolicy;
use crate::ftl::inconsistent::ensure;
use crate::nand::EraseBlock;
use alloc::collections::BTreeSet;
use alloc::vec;

impl LogStructured {
    /// Validates the complete state, and compares its sizes with those of `like`, which was created with the same
    /// parameters.
    ///
    /// # Errors
    /// Returns the first inconsistency. If the state passes, calls that keep to the contract do not panic.
    pub(in crate::ftl) fn validate(
        &self,
        like: &LogStructured,
        mapped: &MappedGranules,
        medium: &Medium,
    ) -> Result<(), Inconsistent> {
        let shape = |a: &LogStructured| (a.granule, a.page, a.slots, a.slot_bits, a.data_blocks);
        let lengths = |a: &LogStructured| {
            [
                a.locations.len(),
                a.reverse_map.len(),
                a.valid.len(),
                a.closed.len(),
                a.open_blocks.leveled.len(),
            ]
        };
        ensure!(shape(self) == shape(like), "the locations were saved with other parameters");
        ensure!(lengths(self) == lengths(like), "the number of locations or of blocks is wrong");
        self.validate_places(mapped, medium)?;
        self.validate_blocks(medium)?;
        self.validate_idle()
    }

    /// Checks that each mapped granule is in a slot that records it, and that no other granule has a location.
    fn validate_places(&self, mapped: &MappedGranules, medium: &Medium) -> Result<(), Inconsistent> {
        let blocks = medium.blocks.count();
        let mut valid = vec![0; blocks as usize];
        for (chunk, locations) in self.locations.iter().enumerate() {
            let first = chunk * CHUNK;
            let Some(locations) = locations else {
                let last = (first + CHUNK).min(mapped.len()).max(first);
                let range = first as u64 * self.granule..last as u64 * self.granule;
                ensure!(
                    mapped.bytes(&range) == 0,
                    "a granule of the chunk at {first} is mapped but has no location"
                );
                continue;
            };
            ensure!(
                locations.len() == CHUNK,
                "a chunk of the map has {} locations, expected {CHUNK}",
                locations.len()
            );
            for (granule, location) in (first..).zip(locations) {
                let is_mapped = granule < mapped.len() && mapped.contains(granule as u64 * self.granule);
                ensure!(
                    is_mapped == location.is_some(),
                    "the map bit of granule {granule} is {is_mapped}, but its location is {location:?}"
                );
                let Some(location) = location.map(Location::index) else { continue };
                let (block, slot) = (location >> self.slot_bits, location & ((1 << self.slot_bits) - 1));
                ensure!(
                    block < blocks
                        && self.reverse_map[block as usize].get(slot as usize)
                            == Some(&Granule::new(granule as u32)),
                    "slot {slot} of block {block} does not record granule {granule}, which is located there"
                );
                valid[block as usize] += 1;
            }
        }
        ensure!(
            valid == self.valid,
            "the valid granules that are counted per block differ from the locations"
        );
        let said = |block: u32| self.closed[block as usize].then(|| valid[block as usize]);
        self.candidates.validate(VictimPolicy::Greedy, (1, blocks, self.slots), 0, &said)
    }

    /// Checks that each used block is either open, or full and closed.
    fn validate_blocks(&self, medium: &Medium) -> Result<(), Inconsistent> {
        let open_block = || self.open_blocks.iter();
        let is_sound = |open_block: &OpenBlock| medium.can_write_to(open_block) && !open_block.is_slc();
        ensure!(open_block().all(is_sound), "an open block cannot be programmed, or is in SLC mode");
        for OpenBlock { block, filled, .. } in open_block() {
            let free = self.reverse_map[block.index() as usize].get((filled / self.granule) as usize..);
            ensure!(
                free.is_some_and(|free| free.iter().all(Option::is_none)),
                "{block:?} records a granule beyond the {filled} B that are programmed"
            );
        }
        for (block, reverse_map) in (0..).zip(&self.reverse_map) {
            let used = medium.blocks.is_used(EraseBlock::new(block));
            let whole = if used { self.slots as usize } else { 0 };
            ensure!(
                reverse_map.len() == whole,
                "block {block} has {} slots, expected {whole}",
                reverse_map.len()
            );
            let fillings = open_block().filter(|open_block| open_block.block.index() == block).count();
            let closed = usize::from(self.closed[block as usize]);
            ensure!(
                fillings + closed == usize::from(used),
                "block {block} is open {fillings} times and closed {closed} times; its used state is {used}"
            );
            ensure!(
                closed == 0 || self.valid[block as usize] > 0,
                "block {block} is closed but has no valid granule"
            );
        }
        Ok(())
    }

    /// Checks that the remaining granules of the idle victim are in that block, in write order.
    fn validate_idle(&self) -> Result<(), Inconsistent> {
        let IdleVictim { victim, remaining } = &self.idle_victim;
        if remaining.is_empty() {
            return Ok(());
        }
        let Some(victim) = victim.map(EraseBlock::index) else {
            return Err(Inconsistent { what: "granules remain to be moved, but there is no victim".into() });
        };
        ensure!(
            self.closed.get(victim as usize) == Some(&true),
            "the victim is block {victim}, which is not closed"
        );
        let mut reverse_map = self.reverse_map[victim as usize].iter();
        let mut seen = BTreeSet::new();
        let mut lives = 0;
        for granule in remaining {
            ensure!(
                seen.insert(granule) && reverse_map.any(|content| *content == Granule::new(*granule)),
                "granule {granule} is to be moved twice, or is not in block {victim}"
            );
            ensure!(
                (*granule as usize) < self.locations.len() * CHUNK,
                "granule {granule} is beyond the capacity"
            );
            lives += u32::from(self.block_of(self.location_of(*granule)) == Some(victim));
        }
        let left = remaining.len();
        ensure!(
            lives == self.valid[victim as usize],
            "{lives} of the {left} granules that remain to be moved from block {victim} are valid, expected {}",
            self.valid[victim as usize]
        );
        Ok(())
    }
}
