//! What changes when an operation has finished: only now is a unit's new copy the committed one.

use super::place::{Entry, Mapped};
use super::state::{Program, Source};
use super::{Outcome, PageMap};
use crate::nand::{Cause, Kind, Operation};

impl PageMap {
    #[inline]
    pub(super) fn commit(&mut self, operation: &Operation, outcome: Outcome) {
        let failed = outcome == Outcome::Failed;
        match operation.kind {
            Kind::Read { .. } => {
                self.counters.reads += 1;
                self.read_finished(operation, outcome == Outcome::Uncorrectable);
            }
            Kind::Program { .. } => self.program_finished(operation.tag, failed),
            Kind::Erase => self.erase_finished(operation.block.0, failed),
        }
    }

    fn program_finished(&mut self, id: u32, failed: bool) {
        let program = self.programs.get(id);
        match (program.source, failed) {
            (Source::Moved(_), false) => self.commit_moved(id, &program),
            (Source::Moved(stream), true) => {
                let gathered = &mut self.dies[program.die as usize].gathered[stream as usize];
                (0..program.count).for_each(|n| gathered.push(self.programs.unit(id, n)));
            }
            (_, false) => self.commit_accepted(id, &program),
            (_, true) => self.requeue(id, &program),
        }
        let units = u64::from(self.layout.units_per_page);
        self.counters.pages += 1;
        if failed {
            self.counters.failed += 1;
            self.counters.failed_units += units;
        } else {
            self.counters.padding += units - u64::from(program.count);
        }
        let die = &mut self.dies[program.die as usize];
        match program.source {
            Source::Moved(_) => die.move_programs -= 1,
            _ => die.programs -= 1,
        }
        self.programs.end(id);
        self.program_ended(program.block, failed);
        self.collect(program.die);
        let die = self.layout.die_of(program.block);
        if die != program.die {
            self.collect(die);
        }
    }

    fn commit_accepted(&mut self, id: u32, program: &Program) {
        let base = self.layout.place(program.block, program.page);
        if program.source == Source::Data {
            self.counters.host += u64::from(program.count);
        } else {
            self.counters.map += u64::from(program.count);
        }
        for n in 0..program.count {
            let slot = self.programs.unit(id, n);
            self.commit_slot(program.source, slot, base + n);
        }
    }

    /// A unit's copy at `place` is durable.
    #[inline]
    fn commit_slot(&mut self, source: Source, slot: u32, place: u32) {
        let buffer = if source == Source::Data { &mut self.data } else { &mut self.map };
        let state = *buffer.slot(slot);
        let unit = state.unit;
        if state.overtaken {
            buffer.vacate(slot);
            return;
        }
        buffer.overtake(slot);
        let Mapped::Slot(newest) = self.l2p[unit as usize].decode() else {
            unreachable!("unit {unit} is in slot {slot}")
        };
        let committed = buffer.slot(newest).committed;
        buffer.vacate(slot);
        if let Some(old) = committed.place() {
            self.invalidate(old);
        }
        let entry = if state.trimmed > 0 && self.is_pending(unit, state.trimmed) {
            self.mark_trimmed(place, state.trimmed)
        } else if state.trimmed > 0 {
            Entry::NOWHERE
        } else {
            self.validate(place);
            Entry::at(place)
        };
        if newest == slot {
            self.l2p[unit as usize] = entry;
        } else {
            // A trim of the newest copy, too, voids this one.
            let trimmed = self.buffer(unit).slot(newest).trimmed;
            let void = entry.place().filter(|_| trimmed > 0);
            let entry = void.map_or(entry, |place| self.trim_place(place, trimmed));
            let newest = self.buffer_mut(unit).slot_mut(newest);
            newest.committed = entry;
            newest.voided = void.is_some();
        }
        if unit == self.layout.record() {
            self.record_written();
        }
    }

    /// Queues the units of a program that failed again, before all others.
    fn requeue(&mut self, id: u32, program: &Program) {
        let buffer = if program.source == Source::Data { &mut self.data } else { &mut self.map };
        for n in (0..program.count).rev() {
            let slot = self.programs.unit(id, n);
            buffer.slot_mut(slot).programming = false;
            buffer.queue.push_front(slot);
        }
    }

    /// Moved units are committed where their originals are still the committed copies.
    fn commit_moved(&mut self, id: u32, program: &Program) {
        let base = self.layout.place(program.block, program.page);
        let mut kept = 0u64;
        let mut n = 0;
        while n < program.count {
            // Units that were read in one block, mostly all of them.
            let block = self.layout.block_of(self.programs.unit(id, n));
            let start = self.layout.place(block, 0);
            let (first, kept_before) = (n, kept.count_ones());
            while n < program.count {
                let from = self.programs.unit(id, n);
                if from.wrapping_sub(start) >= self.layout.units_per_block {
                    break;
                }
                if self.validity.take(from) {
                    kept |= 1 << n;
                    let entry = Entry::at(base + n);
                    let unit = self.p2l[(base + n) as usize];
                    let mapped = &mut self.l2p[unit as usize];
                    match mapped.decode() {
                        Mapped::Slot(slot) => self.buffer_mut(unit).slot_mut(slot).committed = entry,
                        _ => *mapped = entry,
                    }
                }
                n += 1;
            }
            let state = &mut self.states[block as usize];
            let moved = match state.cause {
                Cause::Levelling => &mut self.counters.levelling,
                Cause::Fold => &mut self.counters.fold,
                _ => &mut self.counters.collection,
            };
            *moved += u64::from(n - first);
            state.valid -= kept.count_ones() - kept_before;
            self.moved(block, n - first);
        }
        self.validity.set_mask(base, kept);
        self.states[program.block as usize].valid += kept.count_ones();
    }
}
