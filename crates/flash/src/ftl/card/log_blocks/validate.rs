//! Validation of the rewrite units, both of a running device and of a state file.

use super::{ABANDONED_MAX, LogBlocks, OpenUnit, UnitIndex};
use crate::ftl::Inconsistent;
use crate::ftl::card::medium::Medium;
use crate::ftl::inconsistent::ensure;
use crate::nand::EraseBlock;
use alloc::vec::Vec;

impl LogBlocks {
    /// Validates the complete state, and compares its sizes with those of `like`, which was created with the same
    /// parameters.
    ///
    /// # Errors
    /// Returns the first inconsistency. If the state passes, calls that keep to the contract do not panic.
    pub(in crate::ftl) fn validate(&self, like: &LogBlocks, medium: &Medium) -> Result<(), Inconsistent> {
        let shape = |l: &LogBlocks| (l.capacity, l.bytes, l.page, l.open_max);
        let lengths = |l: &LogBlocks| (l.data.len(), l.owner.len(), l.last_block.len());
        ensure!(shape(self) == shape(like), "the rewrite units were saved with other parameters");
        ensure!(lengths(self) == lengths(like), "the number of rewrite units or of blocks is wrong");
        self.mapped.validate(self.capacity, &like.mapped)?;
        self.validate_data(medium)?;
        ensure!(
            self.open.len() <= self.open_max,
            "{} rewrite units are open, expected at most {}",
            self.open.len(),
            self.open_max
        );
        for (at, open) in self.open.iter().enumerate() {
            ensure!(
                self.open_index(open.rewrite_unit) == Some(at) && self.is_open(open, medium),
                "an open rewrite unit is inconsistent: {open:?}"
            );
        }
        if let Some(slc_copy) = &self.slc_copy {
            let known = (slc_copy.rewrite_unit as usize) < self.data.len();
            ensure!(
                known
                    && self.data[slc_copy.rewrite_unit as usize].is_none()
                    && medium.nand.t_prog_slc.is_some(),
                "rewrite unit {} cannot lie in SLC blocks: it does not exist, has a data block, or the flash \
                 has no SLC mode",
                slc_copy.rewrite_unit
            );
        }
        let partial = self.partial.as_ref();
        ensure!(
            partial.is_none_or(|open_block| medium.can_write_to(open_block) && !open_block.is_slc()),
            "the block for partial pages cannot be programmed, or is in SLC mode: {partial:?}"
        );
        ensure!(
            self.latest.is_none_or(|latest| (latest.index() as usize) < self.data.len()),
            "the rewrite unit written last, {:?}, does not exist",
            self.latest
        );
        self.validate_use(medium)
    }

    /// Checks that data blocks have owners, and that mapped data is in some block.
    fn validate_data(&self, medium: &Medium) -> Result<(), Inconsistent> {
        let blocks = medium.blocks.count();
        for (rewrite_unit, block) in (0..).zip(&self.data) {
            let is_own = |block: EraseBlock| {
                self.owner.get(block.index() as usize) == Some(&Some(UnitIndex::new(rewrite_unit)))
            };
            ensure!(
                block.is_none_or(is_own),
                "rewrite unit {rewrite_unit} does not own its data block {block:?}"
            );
            let mapped = self.mapped.bytes(&self.span(rewrite_unit));
            ensure!(
                self.is_stored(rewrite_unit) == (mapped > 0),
                "{mapped} B of rewrite unit {rewrite_unit} are mapped, which contradicts its blocks; its data \
                 block is {block:?}"
            );
        }
        let owned = self.owner.iter().flatten().count();
        let data = self.data.iter().flatten().count();
        ensure!(owned == data, "{data} blocks are data blocks, but {owned} have an owner");
        ensure!(
            self.last_block.iter().all(|last_block| *last_block < blocks),
            "the last block of a rewrite unit does not exist"
        );
        Ok(())
    }

    fn is_open(&self, open: &OpenUnit, medium: &Medium) -> bool {
        if open.rewrite_unit as usize >= self.data.len() || !medium.can_write_to(&open.open_block) {
            return false;
        }
        let span = self.span(open.rewrite_unit);
        let is_slc = open.open_block.is_slc();
        let streams = open.next.is_none_or(|next| {
            let written = (next - next.min(span.start)) / self.page * self.page;
            let in_place = open.full.is_empty() && open.open_block.filled == written;
            span.start <= next && next <= span.end && (is_slc || in_place)
        });
        let logs = open.run.is_none_or(|run| {
            span.start <= run.start
                && run.start <= run.end
                && run.end <= span.end
                && run.before <= open.full.len()
                && open.next.is_none()
        });
        streams && logs && open.abandoned.len() <= ABANDONED_MAX && (open.abandoned.is_empty() || !is_slc)
    }

    /// Checks that every used block has exactly one use.
    fn validate_use(&self, medium: &Medium) -> Result<(), Inconsistent> {
        let mut used: Vec<EraseBlock> = self.data.iter().flatten().copied().collect();
        used.extend(self.open.iter().flat_map(OpenUnit::blocks));
        used.extend(self.slc_copy.iter().flat_map(|slc_copy| slc_copy.blocks.iter().copied()));
        used.extend(self.partial.map(|open_block| open_block.block));
        used.sort_unstable();
        let count = used.len();
        used.dedup();
        ensure!(used.len() == count, "a block has two uses at once");
        ensure!(
            used.iter().all(|block| block.index() < medium.blocks.count() && medium.blocks.is_used(*block)),
            "a block holds data but does not exist or is not marked as used"
        );
        let free_or_bad = medium.blocks.free_count_total() + medium.blocks.bad_count();
        ensure!(
            count as u32 + free_or_bad == medium.blocks.count(),
            "{count} blocks have a use and {free_or_bad} are free or bad, but there are {} blocks",
            medium.blocks.count()
        );
        Ok(())
    }
}
