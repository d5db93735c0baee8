//! Steps of garbage collection: the choice of a victim, the read of its pages, the gathering of their valid units, and
//! the erase of the empty block.

use super::bits::count_valid;
use super::block_states::{AfterProgram, BlockState, Phase, Stream};
use super::garbage_collector::VICTIM_READS_MAX;
use super::programs::{ProgramLink, Source};
use super::{PageMap, Streams};
use crate::nand::{Cause, EraseBlock, Kind, Operation};

impl PageMap {
    /// Runs garbage collection on a die: programs gathered units and reads further pages of the victim.
    #[inline(never)]
    pub(super) fn collect_garbage(&mut self, die: u32) {
        self.program_moved_pages(die);
        while self.read_next_victim_page(die) {}
        self.update_writable(die);
    }

    pub(super) fn collect_garbage_on_all_dies(&mut self) {
        for die in 0..self.layout.dies {
            self.collect_garbage(die);
        }
    }

    /// Does one step of background work on each die that has no reads of a victim and no programs in flight:
    /// folds the SLC buffer, or collects garbage while fewer than `idle_free` blocks are free. The caller
    /// repeats the call while the host is idle. Returns true if there are operations to poll.
    pub fn idle(&mut self) -> bool {
        for die in self.collector.idle_turns() {
            let collection = self.collector.get(die);
            let rests = collection.reads == 0 && self.dies.get(die).rests();
            if rests && (collection.has_closed_slc() || self.idle_gc_is_due(die)) {
                self.collector.get_mut(die).idle_step = true;
                self.collect_garbage(die);
            }
        }
        !self.operations.none_is_ready()
    }

    fn idle_gc_is_due(&self, die: u32) -> bool {
        let free = self.dies.get(die).free_beyond_slc(&self.parameters);
        free < self.parameters.idle_free && self.can_free_a_block(die)
    }

    fn can_free_a_block(&self, die: u32) -> bool {
        self.collector.can_free_a_block(die, self.layout.units_per_block)
    }

    /// Returns true if the next page of the die's victim should be read although the garbage-collection backlog is
    /// empty.
    #[inline(never)]
    fn must_read_victim(&self, die: u32) -> bool {
        let collection = self.collector.get(die);
        let must = |block: u32| {
            let victim = self.blocks.get(block);
            victim.must_retire || victim.cause == Cause::WearLeveling
        };
        let state = self.dies.get(die);
        collection.fold_backlog_ppm > 0
            || collection.idle_step
            || collection.has_forced_victim()
            || collection.victim().is_some_and(must)
            || state.is_short_of_free_blocks(&self.parameters)
            || state.host_waits_for_folding(&self.parameters)
    }

    /// Reads the next victim page that has valid units, or chooses a victim if the die has none, if garbage
    /// collection should work now. Returns true if the call made progress.
    #[inline]
    fn read_next_victim_page(&mut self, die: u32) -> bool {
        let collection = self.collector.get(die);
        if collection.reads >= VICTIM_READS_MAX || (collection.gc_backlog <= 0 && !self.must_read_victim(die))
        {
            return false;
        }
        let Some(victim) = collection.victim() else { return self.choose_victim(die) };
        if collection.full_pages.len() >= VICTIM_READS_MAX {
            return false;
        }
        self.read_victim_page(die, victim)
    }

    /// Reads the next page of a die's victim that has valid units, or finishes the victim if no such page is
    /// left. Returns true if the call made progress.
    #[inline]
    fn read_victim_page(&mut self, die: u32, block: u32) -> bool {
        let per_page = self.layout.units_per_page;
        let collection = self.collector.get_mut(die);
        let BlockState { next_page: written, slc, cause, .. } = *self.blocks.get(block);
        let before = collection.victim_page;
        let mut page = before;
        let mut mask = 0;
        while page < written && mask == 0 {
            mask = self.map.valid_mask(self.layout.place(block, page), per_page);
            page += 1;
        }
        let valid = count_valid(mask);
        let read = page - 1;
        collection.advance(page, (page - before) * per_page, valid, slc);
        if valid == 0 {
            return self.finish_victim(die, block);
        }
        collection.reads += 1;
        collection.idle_step = false;
        if page >= collection.victim_loaded && page < written {
            self.prefetch_victim(die, block, page);
        }
        let kind = Kind::Read { bytes: valid * self.parameters.unit as u32 };
        self.operations.push(Operation {
            kind,
            block: EraseBlock::new(block),
            page: read,
            slc,
            cause,
            tag: die,
        });
        true
    }

    /// Finishes a die's victim, which has no valid units left to read. Returns false while reads of the
    /// victim are in flight.
    #[cold]
    fn finish_victim(&mut self, die: u32, block: u32) -> bool {
        let ended = self.collector.end(die);
        if ended && self.blocks.drain(block) {
            self.victim_emptied(block);
        }
        ended
    }

    /// Prefetches the map entries of the valid units of a page of a die's victim and of the neighbouring pages, so that
    /// the memory accesses overlap.
    #[inline]
    fn prefetch_victim(&mut self, die: u32, block: u32, page: u32) {
        let pages = self.layout.pages_per_line;
        let first = page & !(pages - 1);
        self.collector.get_mut(die).victim_loaded = first + pages;
        let (base, within) = (self.layout.place(block, first), first * self.layout.units_per_page);
        let units = (pages * self.layout.units_per_page).min(self.layout.units_per_block - within);
        self.map.reverse().prefetch(block, within + units);
        let mut mask = self.map.valid_mask(base, units);
        let units = &self.map.reverse().victim(block)[within as usize..];
        while mask != 0 {
            self.map.prefetch(units[mask.trailing_zeros() as usize]);
            mask &= mask - 1;
        }
    }

    /// Returns the stream that the valid units of a victim go to.
    fn destination(&self, block: u32) -> Stream {
        let state = self.blocks.get(block);
        match (state.stream, self.parameters.streams) {
            (Stream::Map, _) => Stream::Map,
            _ if state.cause == Cause::WearLeveling => Stream::WearLeveling,
            (Stream::Host, Streams::One) if self.parameters.slc.is_none() => Stream::Host,
            (Stream::WearLeveling, Streams::One) if self.parameters.slc.is_none() => Stream::Host,
            (Stream::GarbageCollection | Stream::Cold | Stream::WearLeveling, Streams::HotCold) => {
                Stream::Cold
            }
            _ => Stream::GarbageCollection,
        }
    }

    /// Chooses the die's next victim. Returns true if the call made progress.
    #[inline(never)]
    fn choose_victim(&mut self, die: u32) -> bool {
        if let Some(block) = self.collector.take_failed(die) {
            self.start_victim(die, block, Cause::GarbageCollection);
            return true;
        }
        if let Some(block) = self.collector.take_leveling_victim(die)
            && self.blocks.get(block).phase == Phase::Closed
        {
            self.blocks.set_cause(block, Cause::WearLeveling);
            if self.has_room_for_victim(die, block, 0) {
                self.start_victim(die, block, Cause::WearLeveling);
                return true;
            }
        }
        let state = self.dies.get(die);
        let urgent = state.is_short_of_free_blocks(&self.parameters);
        let host_waits = state.host_waits_for_folding(&self.parameters);
        let collection = self.collector.get(die);
        let fold = collection.fold_backlog_ppm > 0 || collection.idle_step || host_waits;
        let main = collection.gc_backlog > 0 || urgent || (collection.idle_step && self.idle_gc_is_due(die));
        let slc = collection.oldest_slc().filter(|_| fold);
        let victim = if main && self.can_free_a_block(die) {
            self.collector.choose(die, self.buffers.accepted())
        } else {
            None
        };
        let mut wanted = [slc.map(|b| (b, Cause::Fold)), victim.map(|b| (b, Cause::GarbageCollection))];
        if urgent {
            wanted.reverse();
        }
        for (block, cause) in wanted.into_iter().flatten() {
            self.blocks.set_cause(block, cause);
            if self.has_room_for_victim(die, block, u32::from(cause == Cause::Fold)) {
                self.start_victim(die, block, cause);
                return true;
            }
        }
        let rests = self.collector.get(die).rests() && self.dies.get(die).rests();
        // The host may wait for folding while the last units of the SLC buffer wait for a full page.
        let pads = wanted.iter().flatten().next().is_some()
            || (rests && self.dies.get(die).host_waits_for_folding(&self.parameters));
        let padded = pads && self.pad_gathered_page(die);
        self.collector.get_mut(die).forgive();
        padded
    }

    /// Returns true if there are pages for all valid units of a block and for the units that already wait on the die,
    /// with `kept` free blocks left over.
    fn has_room_for_victim(&self, die: u32, block: u32, kept: u32) -> bool {
        let state = self.dies.get(die);
        let left = |open: u32| self.layout.pages - self.blocks.get(open).next_page;
        let open = state.open_block(self.destination(block)).map_or(0, left);
        let pages = open + state.free().saturating_sub(kept) * self.layout.pages;
        let waiting = self.collector.get(die).waiting_units(&self.programs);
        let units = u64::from(waiting) + u64::from(self.valid_in(block));
        u64::from(pages) * u64::from(self.layout.units_per_page) >= units
    }

    /// Programs the gathered units of one stream, although they do not fill a page, so that the blocks from
    /// which they were read can be erased. Returns false if no units wait for a full page.
    fn pad_gathered_page(&mut self, die: u32) -> bool {
        let padded = self.collector.get_mut(die).pad_gathered_page(&mut self.programs);
        if padded {
            self.program_moved_pages(die);
        }
        padded
    }

    /// Programs all gathered units of a die for which a page is free. This is the last resort when no other
    /// work is possible. A unit that waits for a full page, or behind units without a free page, prevents the
    /// erase of the block that the unit was read from.
    pub(super) fn program_all_gathered(&mut self, die: u32) {
        while self.pad_gathered_page(die) {}
        for _ in 0..self.collector.get(die).full_pages.len() {
            let full = &mut self.collector.get_mut(die).full_pages;
            if let Some(first) = self.programs.pop_front(full) {
                self.programs.push_back(full, first);
            }
            self.program_moved_pages(die);
        }
        self.update_writable(die);
    }

    fn start_victim(&mut self, die: u32, block: u32, cause: Cause) {
        match cause {
            Cause::Fold => self.counters.folded_blocks += 1,
            Cause::WearLeveling => self.counters.leveled_blocks += 1,
            _ => self.counters.gc_blocks += 1,
        }
        let was = *self.blocks.get(block);
        self.blocks.begin_victim(block, cause);
        self.collector.begin(die, block, &was, self.destination(block));
        self.map.reverse_mut().expand(block);
        self.map.reverse().prefetch(block, 0);
    }

    /// Gathers the valid units of a page that was read, or marks them as unreadable if the read failed.
    pub(super) fn read_finished(&mut self, operation: &Operation, uncorrectable: bool) {
        let die = operation.tag;
        let block = operation.block.index();
        self.counters.reads += 1;
        self.collector.get_mut(die).reads -= 1;
        let base = self.layout.place(block, operation.page);
        let mut mask = self.map.valid_mask(base, self.layout.units_per_page);
        if uncorrectable {
            self.counters.uncorrectable += 1;
            while mask != 0 {
                self.mark_unreadable(base + mask.trailing_zeros());
                mask &= mask - 1;
            }
        } else {
            self.gather(die, block, operation.page, mask);
        }
        self.collect_garbage(die);
    }

    /// Gathers the units of a page of a victim, one for each set bit of `mask`. When the gathered units fill a page,
    /// queues their program.
    #[inline]
    fn gather(&mut self, die: u32, block: u32, page: u32, mask: u64) {
        if mask == 0 {
            return;
        }
        let per_page = self.layout.units_per_page;
        let collection = self.collector.get_mut(die);
        let base = self.layout.place(block, page);
        let within = (page * per_page) as usize;
        let units = &self.map.reverse().victim(block)[within..within + per_page as usize];
        let gathering = &mut collection.gathering[collection.destination as usize];
        let id = match *gathering {
            Some(link) => link.index(),
            None => self.programs.begin(die, Source::Moved(collection.destination)),
        };
        let before = self.programs.get(id).count;
        let count = self.programs.append(id, base, units, mask);
        self.blocks.moves_begun(block, count - before);
        if count >= per_page {
            *gathering = self.programs.split(id).map(ProgramLink::new);
            self.programs.push_back(&mut collection.full_pages, id);
        } else {
            *gathering = Some(ProgramLink::new(id));
        }
    }

    /// Records that `units` units read from `block` are programmed elsewhere.
    #[inline]
    pub(super) fn moves_finished(&mut self, block: u32, units: u32) {
        if self.blocks.moves_finished(block, units) {
            self.victim_emptied(block);
        }
    }

    /// Erases or retires `block`, which holds no valid units and has no moves in flight.
    fn victim_emptied(&mut self, block: u32) {
        assert_eq!(self.valid_in(block), 0, "the drained block {block} still has valid units");
        self.erase_or_retire(block);
    }

    /// Returns the number of valid units of a block.
    pub(super) fn valid_in(&self, block: u32) -> u32 {
        self.map.valid_count(self.layout.place(block, 0), self.layout.units_per_block)
    }

    /// Closes a block after its last program, or queues a failed block for the move of its data.
    #[inline(always)]
    pub(super) fn after_program(&mut self, block: u32, step: AfterProgram) {
        match step {
            AfterProgram::Nothing => {}
            AfterProgram::Close => {
                self.blocks.fill(block, self.buffers.accepted());
                self.close_block(block);
            }
            AfterProgram::MoveData => self.collector.add_failed(self.layout.die_of(block), block),
        }
    }

    /// Closes `block` and makes it a candidate for garbage collection or for folding.
    #[inline(never)]
    pub(super) fn close_block(&mut self, block: u32) {
        self.blocks.close(block);
        let slc = self.blocks.get(block).slc;
        let valid = if slc { 0 } else { self.valid_in(block) };
        let closed_at = self.blocks.history(block).closed_at;
        self.collector.add(self.layout.die_of(block), block, slc, valid, closed_at);
    }

    /// Issues the erase of an empty block.
    pub(super) fn issue_erase(&mut self, block: u32) {
        let &BlockState { slc, cause, .. } = self.blocks.get(block);
        let kind = Kind::Erase;
        self.operations.push(Operation { kind, block: EraseBlock::new(block), page: 0, slc, cause, tag: 0 });
    }

    /// Records the end of the erase of `block`, and asks wear leveling for a block whose data should move.
    pub(super) fn erase_finished(&mut self, block: u32, failed: bool) {
        let die = self.layout.die_of(block);
        let slc = self.blocks.get(block).slc;
        let is_free = self.blocks.erased(block, failed);
        self.returned(block, slc, is_free);
        if is_free && !self.collector.leveling_is_requested(die) {
            let victim = self.blocks.to_level(die);
            self.collector.request_leveling(die, victim);
        }
        self.collect_garbage(die);
    }

    /// Retires `block`, in which a program failed, after its data has been moved.
    pub(super) fn retire(&mut self, block: u32) {
        let slc = self.blocks.get(block).slc;
        self.blocks.retire(block);
        self.returned(block, slc, false);
    }

    /// Records that a block, which was used in SLC mode if `slc` is true, is free or bad now.
    fn returned(&mut self, block: u32, slc: bool, is_free: bool) {
        let die = self.layout.die_of(block);
        self.map.reverse_mut().erase(block);
        self.dies.returned(die, slc, is_free);
        if !is_free {
            // When a block with one bit per cell is retired, the die may open another one.
            self.update_writable(die);
            self.update_read_only();
        }
    }

    /// Makes the device read-only if the good blocks, without the reserve, the open blocks and the SLC
    /// buffer, cannot hold all units.
    pub(super) fn update_read_only(&mut self) {
        let units = u64::from(self.layout.units) + u64::from(self.layout.map_pages);
        if units > self.parameters.room(self.blocks.pool().usable_count()) {
            self.read_only = true;
        }
    }
}
