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
                gathered.extend((0..program.count).map(|n| self.programs.unit(id, n)));
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
        let entry = if state.trimmed > 0 {
            self.mark_trimmed(place, state.trimmed)
        } else {
            self.validate(place);
            Entry::at(place)
        };
        if newest == slot {
            self.l2p[unit as usize] = entry;
        } else {
            self.buffer_mut(unit).slot_mut(newest).committed = entry;
            // A trim of the older copy leaves nothing valid; one of the newest is told when that is programmed.
            if let (Some(place), trimmed @ 1..) = (entry.place(), self.buffer(unit).slot(newest).trimmed) {
                let entry = self.trim_place(place, trimmed);
                self.buffer_mut(unit).slot_mut(newest).committed = entry;
            }
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

    fn commit_moved(&mut self, id: u32, program: &Program) {
        let base = self.layout.place(program.block, program.page);
        let mut kept = 0;
        for n in 0..program.count {
            let (from, to) = (self.programs.unit(id, n), base + n);
            let block = self.layout.block_of(from);
            match self.states[block as usize].cause {
                Cause::Levelling => self.counters.levelling += 1,
                Cause::Fold => self.counters.fold += 1,
                _ => self.counters.collection += 1,
            }
            if self.validity.get(from) {
                self.validity.clear(from);
                self.validity.set(to);
                self.states[block as usize].valid -= 1;
                kept += 1;
                let unit = self.p2l[to as usize];
                let entry = &mut self.l2p[unit as usize];
                match entry.decode() {
                    Mapped::Slot(slot) => self.buffer_mut(unit).slot_mut(slot).committed = Entry::at(to),
                    _ => *entry = Entry::at(to),
                }
            }
            self.moved(block);
        }
        self.states[program.block as usize].valid += kept;
    }
}
