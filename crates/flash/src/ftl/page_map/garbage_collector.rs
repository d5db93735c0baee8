//! Garbage collection: the layer reads a die's victim page by page and programs its valid units elsewhere.
//!
//! A die has one victim at a time. The layer reads a page of the victim when the host has consumed more space than
//! garbage collection has freed, when free blocks run out, when the device is idle, or when the data must move for
//! another reason (a failed program, wear leveling). Pages without valid units cost no read. The layer starts a victim
//! only if there is room for all its valid units, so it can always finish the victim.

use super::{PageMap, Streams};

use super::bits::count_valid;
use super::programs::{ProgramLink, Source};
use super::state::{BlockState, Phase, Stream};
use crate::nand::{Cause, EraseBlock, Kind, Operation};

/// Maximum number of reads of a victim in flight.
const VICTIM_READS_MAX: u32 = 2;

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

    /// Does background work on dies without operations in flight: folds the SLC buffer, and collects until the number
    /// of free blocks reaches `idle_free`. The caller calls it while the host is idle. Returns true if there are
    /// operations to poll.
    pub fn idle(&mut self) -> bool {
        let dies = self.layout.dies;
        for n in 0..dies {
            let die = (self.next_idle_die + n) % dies;
            let state = &self.dies[die as usize];
            let rests = state.reads == 0 && state.move_programs == 0 && state.programs == 0;
            if rests && (!state.slc_closed.is_empty() || self.idle_gc_is_due(die)) {
                self.dies[die as usize].idle_step = true;
                self.collect_garbage(die);
            }
        }
        self.next_idle_die = (self.next_idle_die + 1) % dies;
        !self.ready.is_empty()
    }

    fn idle_gc_is_due(&self, die: u32) -> bool {
        self.free_beyond_slc(die) < self.parameters.idle_free && self.can_free_a_block(die)
    }

    /// Returns true if garbage collection of a die can eventually free a block.
    fn can_free_a_block(&self, die: u32) -> bool {
        self.candidates.invalid_units(die) >= u64::from(self.layout.units_per_block)
    }

    #[inline(always)]
    fn host_waits_for_folding(&self, die: u32) -> bool {
        let state = &self.dies[die as usize];
        let full = |slc: super::slc::Slc| state.slc >= slc.blocks;
        state.open[Stream::Host as usize].is_none() && self.parameters.slc.is_some_and(full)
    }

    #[inline(always)]
    fn is_short_of_free_blocks(&self, die: u32) -> bool {
        self.free_beyond_slc(die) <= self.parameters.floor()
    }

    /// Returns true if the next page of the die's victim should be read although the garbage-collection backlog is
    /// empty.
    #[inline(never)]
    fn must_read_victim(&self, die: u32) -> bool {
        let state = &self.dies[die as usize];
        let must = |block: EraseBlock| {
            let victim = &self.states[block.index() as usize];
            victim.must_retire || victim.cause == Cause::WearLeveling
        };
        state.fold_backlog_ppm > 0
            || state.idle_step
            || !state.failed_blocks.is_empty()
            || state.leveling_victim.is_some()
            || state.victim.is_some_and(must)
            || self.is_short_of_free_blocks(die)
            || self.host_waits_for_folding(die)
    }

    /// Reads the next victim page that has valid units, if one should be read. Returns true if it made progress.
    #[inline]
    fn read_next_victim_page(&mut self, die: u32) -> bool {
        let state = &self.dies[die as usize];
        if state.reads >= VICTIM_READS_MAX || (state.gc_backlog <= 0 && !self.must_read_victim(die)) {
            return false;
        }
        let Some(victim) = state.victim else { return self.choose_victim(die) };
        if state.full_pages.len() >= VICTIM_READS_MAX {
            return false;
        }
        self.read_victim_page(die, victim)
    }

    /// Reads the next page of a die's victim that has valid units. Returns true if it made progress.
    #[inline]
    fn read_victim_page(&mut self, die: u32, victim: EraseBlock) -> bool {
        let per_page = self.layout.units_per_page;
        let state = &mut self.dies[die as usize];
        let block = victim.index();
        let BlockState { next_page: written, slc, cause, .. } = self.states[block as usize];
        let before = state.victim_page;
        let mut page = before;
        let mut mask = 0;
        while page < written && mask == 0 {
            mask = self.map.valid_mask(self.layout.place(block, page), per_page);
            page += 1;
        }
        let valid = count_valid(mask);
        state.victim_page = page;
        let read = page - 1;
        let units = i64::from((page - before) * per_page);
        if slc {
            state.fold_backlog_ppm -= units * 1_000_000;
        } else {
            state.gc_backlog -= units - i64::from(valid);
        }
        if valid == 0 {
            return self.finish_victim(die, block);
        }
        state.reads += 1;
        state.idle_step = false;
        if page >= state.victim_loaded && page < written {
            self.prefetch_victim(die, block, page);
        }
        let kind = Kind::Read { bytes: valid * self.parameters.unit as u32 };
        self.ready.push(Operation { kind, block: victim, page: read, slc, cause, tag: die });
        true
    }

    /// Finishes a die's victim, which has no valid units left to read. Returns false while reads of it are in flight.
    #[cold]
    fn finish_victim(&mut self, die: u32, block: u32) -> bool {
        let state = &mut self.dies[die as usize];
        if state.reads > 0 {
            return false;
        }
        state.victim = None;
        self.states[block as usize].phase = Phase::Drained;
        if self.states[block as usize].moves_in_flight == 0 {
            self.victim_emptied(block);
        }
        true
    }

    /// Prefetches the map entries of the valid units of a page of a die's victim and of the neighbouring pages, so that
    /// the memory accesses overlap.
    #[inline]
    fn prefetch_victim(&mut self, die: u32, block: u32, page: u32) {
        let pages = self.layout.pages_per_line;
        let first = page & !(pages - 1);
        self.dies[die as usize].victim_loaded = first + pages;
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
    pub(super) fn destination(&self, block: u32) -> Stream {
        let state = &self.states[block as usize];
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

    /// Chooses the die's next victim. Returns true if it made progress.
    #[inline(never)]
    fn choose_victim(&mut self, die: u32) -> bool {
        if let Some(block) = self.dies[die as usize].failed_blocks.pop_front() {
            self.start_victim(die, block, Cause::GarbageCollection);
            return true;
        }
        let leveling_victim = self.dies[die as usize].leveling_victim.take().map(EraseBlock::index);
        if let Some(block) = leveling_victim
            && self.states[block as usize].phase == Phase::Closed
        {
            self.states[block as usize].cause = Cause::WearLeveling;
            if self.has_room_for_victim(die, block, 0) {
                self.start_victim(die, block, Cause::WearLeveling);
                return true;
            }
        }
        let urgent = self.is_short_of_free_blocks(die);
        let state = &self.dies[die as usize];
        let fold = state.fold_backlog_ppm > 0 || state.idle_step || self.host_waits_for_folding(die);
        let main = state.gc_backlog > 0 || urgent || (state.idle_step && self.idle_gc_is_due(die));
        let slc = state.slc_closed.front().copied().filter(|_| fold);
        let victim = if main && self.can_free_a_block(die) {
            self.candidates.choose(die, self.buffers.accepted())
        } else {
            None
        };
        let mut wanted = [slc.map(|b| (b, Cause::Fold)), victim.map(|b| (b, Cause::GarbageCollection))];
        if urgent {
            wanted.reverse();
        }
        for (block, cause) in wanted.into_iter().flatten() {
            self.states[block as usize].cause = cause;
            if self.has_room_for_victim(die, block, u32::from(cause == Cause::Fold)) {
                self.start_victim(die, block, cause);
                return true;
            }
        }
        let state = &self.dies[die as usize];
        let rests = (state.reads, state.programs, state.move_programs) == (0, 0, 0)
            && state.full_pages.front().is_none();
        // The units that wait for a full page may be all that the buffer holds.
        let pads = wanted.iter().flatten().next().is_some() || (rests && self.host_waits_for_folding(die));
        let padded = pads && self.pad_gathered_page(die);
        let state = &mut self.dies[die as usize];
        state.gc_backlog = state.gc_backlog.min(0);
        state.fold_backlog_ppm = state.fold_backlog_ppm.min(0);
        state.idle_step = false;
        padded
    }

    /// Returns true if there are pages for all valid units of a block and for the units that already wait on the die,
    /// with `kept` free blocks left over.
    fn has_room_for_victim(&self, die: u32, block: u32, kept: u32) -> bool {
        let to = self.destination(block) as usize;
        let state = &self.dies[die as usize];
        let left = |open: EraseBlock| self.layout.pages - self.states[open.index() as usize].next_page;
        let open = state.open[to].map_or(0, left);
        let pages = open + state.free.saturating_sub(kept) * self.layout.pages;
        let gathering = state.gathering.iter().flatten().map(|link| link.index());
        let waiting = self.programs.queue(&state.full_pages).chain(gathering);
        let waiting: u32 = waiting.map(|id| self.programs.get(id).count).sum();
        let units = u64::from(waiting) + u64::from(self.valid_in(block));
        u64::from(pages) * u64::from(self.layout.units_per_page) >= units
    }

    /// Programs the units that wait for a full page, so that the victims they came from can be erased.
    fn pad_gathered_page(&mut self, die: u32) -> bool {
        let state = &mut self.dies[die as usize];
        let Some(id) = state.gathering.iter_mut().find_map(Option::take) else { return false };
        self.programs.push_back(&mut state.full_pages, id.index());
        self.program_moved_pages(die);
        true
    }

    /// Programs all gathered units of a die that have a free page, when no other work is possible. Units that wait for
    /// a full page, or behind units without a free page, prevent the erase of the blocks that they were read from.
    pub(super) fn program_all_gathered(&mut self, die: u32) {
        while self.pad_gathered_page(die) {}
        for _ in 0..self.dies[die as usize].full_pages.len() {
            let full = &mut self.dies[die as usize].full_pages;
            if let Some(first) = self.programs.pop_front(full) {
                self.programs.push_back(full, first);
            }
            self.program_moved_pages(die);
        }
        self.update_writable(die);
    }

    fn start_victim(&mut self, die: u32, block: u32, cause: Cause) {
        let state = self.states[block as usize];
        match state.phase {
            Phase::Closed if state.slc => {
                self.dies[die as usize].slc_closed.retain(|closed| *closed != block);
            }
            Phase::Closed => self.candidates.remove(die, block),
            Phase::Failed => {}
            phase => unreachable!("block {block} is {phase:?}"),
        }
        match cause {
            Cause::Fold => self.counters.folded_blocks += 1,
            Cause::WearLeveling => self.counters.leveled_blocks += 1,
            _ => self.counters.gc_blocks += 1,
        }
        self.states[block as usize].phase = Phase::Victim;
        self.states[block as usize].cause = cause;
        let to = self.destination(block);
        let die = &mut self.dies[die as usize];
        die.victim = Some(EraseBlock::new(block));
        die.victim_page = 0;
        die.destination = to;
        die.victim_loaded = 0;
        self.map.reverse_mut().expand(block);
        self.map.reverse().prefetch(block, 0);
    }

    /// Gathers the valid units of a page that was read, or marks them as unreadable.
    pub(super) fn read_finished(&mut self, operation: &Operation, uncorrectable: bool) {
        let die = operation.tag;
        let block = operation.block.index();
        self.dies[die as usize].reads -= 1;
        let base = self.layout.place(block, operation.page);
        let mut mask = self.map.valid_mask(base, self.layout.units_per_page);
        if uncorrectable {
            self.counters.uncorrectable += 1;
            while mask != 0 {
                let place = base + mask.trailing_zeros();
                self.mark_unreadable(place);
                mask &= mask - 1;
            }
        } else {
            self.gather(die, block, operation.page, mask);
        }
        self.collect_garbage(die);
    }

    /// Gathers the units of a page of a victim, one for each set bit of `mask`, until they fill a page.
    #[inline]
    fn gather(&mut self, die: u32, block: u32, page: u32, mask: u64) {
        if mask == 0 {
            return;
        }
        let per_page = self.layout.units_per_page;
        let state = &mut self.dies[die as usize];
        let base = self.layout.place(block, page);
        let within = (page * per_page) as usize;
        let units = &self.map.reverse().victim(block)[within..within + per_page as usize];
        let gathering = &mut state.gathering[state.destination as usize];
        let id = match *gathering {
            Some(link) => link.index(),
            None => self.programs.begin(die, Source::Moved(state.destination)),
        };
        let before = self.programs.get(id).count;
        let count = self.programs.append(id, base, units, mask);
        self.states[block as usize].moves_in_flight += count - before;
        if count >= per_page {
            *gathering = self.programs.split(id).map(ProgramLink::new);
            self.programs.push_back(&mut state.full_pages, id);
        } else {
            *gathering = Some(ProgramLink::new(id));
        }
    }

    /// Records that `units` units read from `block` are programmed elsewhere.
    #[inline]
    pub(super) fn moves_finished(&mut self, block: u32, units: u32) {
        let state = &mut self.states[block as usize];
        state.moves_in_flight -= units;
        if state.moves_in_flight == 0 && state.phase == Phase::Drained {
            self.victim_emptied(block);
        }
    }

    /// Erases or retires `block`, which holds no valid units and has no moves in flight.
    fn victim_emptied(&mut self, block: u32) {
        assert_eq!(self.valid_in(block), 0, "block {block} was drained");
        self.erase_or_retire(block);
    }
}
