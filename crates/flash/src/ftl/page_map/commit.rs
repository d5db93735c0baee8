//! Commit of finished programs: a unit's new copy becomes the committed one only when its program has finished.

use super::PageMap;
use super::place::{Entry, Mapped};
use super::programs::{Part, Program, Source};
use super::write_buffer::Slot;
use crate::nand::Cause;
use flashlab_sim::fault;

impl PageMap {
    pub(super) fn program_finished(&mut self, id: u32, failed: bool) {
        let program = *self.programs.get(id);
        debug_assert!(program.is_issued, "program {id} ends, but it is not issued");
        let units = self.layout.units_per_page;
        self.counters.pages += 1;
        if failed && !fault("failed-program-is-committed") {
            self.counters.failed += 1;
            self.counters.failed_units += u64::from(units);
            self.clear_versions(id);
            self.program_again(id, &program);
        } else {
            self.counters.padding += u64::from(units - program.count);
            match program.source {
                Source::Moved(_) => self.commit_moved(id, &program),
                _ => self.commit_accepted(id, &program),
            }
            self.programs.end(id);
        }
        let state = self.dies.get_mut(program.die);
        match program.source {
            Source::Moved(_) => state.move_programs -= 1,
            _ => state.programs -= 1,
        }
        let die = self.layout.die_of(program.block);
        let next = self.blocks.program_ended(program.block, failed, &self.layout);
        if failed {
            self.dies.abandon(die, program.block);
        }
        self.after_program(program.block, next);
        self.collect_garbage(program.die);
        if die != program.die {
            self.collect_garbage(die);
        }
    }

    /// Queues the units of a failed program to be programmed again, before all others.
    #[cold]
    fn program_again(&mut self, id: u32, program: &Program) {
        let buffer = match program.source {
            Source::Data => &mut self.buffers.data,
            Source::Map => &mut self.buffers.map,
            Source::Moved(_) => {
                self.programs.get_mut(id).is_issued = false;
                self.programs.push_front(&mut self.collector.get_mut(program.die).full_pages, id);
                return;
            }
        };
        for part in self.programs.parts(id)[..program.count as usize].iter().rev() {
            buffer.requeue(part.from);
        }
        self.programs.end(id);
    }

    fn commit_accepted(&mut self, id: u32, program: &Program) {
        if program.source == Source::Data {
            self.counters.host += u64::from(program.count);
        } else {
            self.counters.map += u64::from(program.count);
        }
        let (mut valid, mut units) = (0u64, 0);
        for n in 0..program.count {
            let Part { from, unit } = self.programs.part(id, n);
            if self.commit_slot(program.source, from, unit, program.place + n) {
                valid |= 1 << n;
                units += 1;
            }
        }
        self.map.validate_places(program.place, valid, units);
    }

    /// Prefetches the state that changes when the program ends: the map entries, and the state of the copies
    /// that become invalid. Both are scattered in memory.
    #[inline]
    pub(super) fn prefetch_commit(&self, id: u32, source: Source) {
        let buffer = self.buffers.source(source);
        let program = self.programs.get(id);
        for part in &self.programs.parts(id)[..program.count as usize] {
            self.map.prefetch(part.unit);
            if let Some(place) = buffer.slot(part.from).committed.place() {
                self.prefetch_place(place);
            }
        }
    }

    /// Commits a unit's copy at `place`, which is durable now. Returns true if the caller has to mark the
    /// copy as valid.
    #[inline]
    fn commit_slot(&mut self, source: Source, slot: u32, unit: u32, place: u32) -> bool {
        let buffer = self.buffers.source_mut(source);
        let state = buffer.slot(slot);
        if state.is_single() {
            let committed = state.committed;
            buffer.release(slot);
            if fault("lost-unit-stays-unreadable") && committed == Entry::UNREADABLE {
                self.map.set(unit, committed);
                return false;
            }
            self.map.set(unit, Entry::at(place));
            if let Some(old) = committed.place() {
                self.invalidate(old);
            }
            if unit == self.layout.log_unit() {
                self.log_page_written();
            }
            return true;
        }
        self.commit_one_of_several(source, slot, place);
        false
    }

    /// Commits a copy of a unit that has other copies in the buffer or was trimmed.
    #[cold]
    fn commit_one_of_several(&mut self, source: Source, slot: u32, place: u32) {
        let buffer = self.buffers.source_mut(source);
        let state = *buffer.slot(slot);
        let unit = state.unit;
        if state.overtaken && !fault("older-copy-is-committed-last") {
            buffer.unlink(slot);
            buffer.release(slot);
            return;
        }
        buffer.mark_overtaken(slot);
        let Mapped::Slot(newest) = self.map.entry(unit).decode() else {
            unreachable!("unit {unit} is in slot {slot}")
        };
        let Slot { committed, .. } = *buffer.slot(newest);
        // A trim of a newer copy voids this copy, too.
        let trimmed = buffer.first_trim(slot);
        buffer.unlink(slot);
        buffer.release(slot);
        if let Some(old) = committed.place() {
            self.invalidate(old);
        }
        let entry = match trimmed {
            _ if fault("trimmed-copy-is-committed") => Entry::at(place),
            0 => Entry::at(place),
            number if self.is_pending(unit, number) => self.mark_trimmed(place, number),
            _ => Entry::NOWHERE,
        };
        if entry.place().is_some() {
            self.map.validate_places(place, 1, 1);
        }
        if newest == slot {
            self.map.set(unit, entry);
        } else {
            let newest = self.buffers.of_mut(unit).slot_mut(newest);
            newest.committed = entry;
            newest.committed_is_trimmed = state.trimmed == 0 && trimmed > 0;
        }
        if unit == self.layout.log_unit() {
            self.log_page_written();
        }
    }

    /// Commits the moved units whose originals are still the committed copies.
    #[inline]
    fn commit_moved(&mut self, id: u32, program: &Program) {
        let parts = &self.programs.parts(id)[..program.count as usize];
        let buffers = &mut self.buffers;
        self.map.commit_moves(program.place, parts, |unit, slot, entry| {
            buffers.of_mut(unit).slot_mut(slot).committed = entry;
        });
        let block = self.layout.block_of(parts[0].from);
        if block == self.layout.block_of(parts[parts.len() - 1].from) {
            self.count_moves(block, program.count);
        } else {
            self.count_moves_by_block(id, program.count);
        }
    }

    /// Counts moved units that were read from several blocks and are now programmed elsewhere.
    #[cold]
    fn count_moves_by_block(&mut self, id: u32, units: u32) {
        for n in 0..units {
            let from = self.programs.part(id, n).from;
            self.count_moves(self.layout.block_of(from), 1);
        }
    }

    /// Counts moved units that were read from `block` and are now programmed elsewhere.
    #[inline(always)]
    fn count_moves(&mut self, block: u32, units: u32) {
        let moved = match self.blocks.get(block).cause {
            Cause::WearLeveling => &mut self.counters.leveling,
            Cause::Fold => &mut self.counters.fold,
            _ => &mut self.counters.gc,
        };
        *moved += u64::from(units);
        self.moves_finished(block, units);
    }
}
