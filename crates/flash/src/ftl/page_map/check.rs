//! Consistency check of the whole structure, for a running layer and for one that was restored from a state file.

use super::block_states::{BlockState, Phase};
use super::place::Layout;
use super::programs::Source;
use super::write_buffer::WriteBuffer;
use super::{PageMap, PageMapParameters};
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::{self, ensure};
use alloc::collections::BTreeSet;
use alloc::vec;

/// Upper bound for most counts in a state file: 2^40 units of 4 KiB are 4 PiB. A count that grows from this
/// bound does not overflow.
const COUNT_MAX: u64 = 1 << 40;

impl PageMap {
    /// Checks the whole structure: every unit, every place, every block, every list.
    ///
    /// # Panics
    /// Panics if the structure is inconsistent; the message names the inconsistency.
    pub fn check(&self) {
        if let Err(inconsistent) = self.walk() {
            panic!("{inconsistent}");
        }
    }

    /// Checks that a layer that was restored from a state file has these parameters and this seed, is at rest and is
    /// consistent. The caller can then use it like a layer from [`PageMap::new`].
    ///
    /// # Errors
    /// Returns an error if the layer has other parameters, is not at rest or is inconsistent.
    pub fn validate_restored(&self, parameters: &PageMapParameters, seed: u64) -> Result<(), Inconsistent> {
        ensure!(
            self.parameters == *parameters && self.seed == seed,
            "the layer was saved with other parameters or another seed"
        );
        self.walk()?;
        self.check_at_rest()
    }

    fn walk(&self) -> Result<(), Inconsistent> {
        self.check_shape()?;
        self.check_map()?;
        let (accepted, has_slc) = (self.buffers.accepted(), self.parameters.slc.is_some());
        self.blocks.validate(&self.layout, has_slc, accepted, &|block, state| {
            let (base, units) = (self.layout.place(block, 0), self.layout.units_per_block);
            let written = state.next_page * self.layout.units_per_page;
            let beyond = self.map.valid_count(base + written, units - written);
            (beyond == 0).then(|| self.valid_in(block))
        })?;
        self.dies.validate(&self.blocks, &self.layout, &|die| self.can_program_host_data(die))?;
        let valid = |block| self.valid_in(block);
        self.collector.validate(&self.parameters, &self.layout, &self.blocks, accepted, &valid)?;
        self.check_programs()?;
        self.check_trim_log()?;
        self.check_counters()
    }

    /// Checks that every structure has the size that follows from the parameters.
    fn check_shape(&self) -> Result<(), Inconsistent> {
        let Layout { blocks, dies, units_per_page, .. } = self.layout;
        ensure!(
            self.layout == Layout::new(&self.parameters),
            "the layout does not follow from the parameters"
        );
        let pool = self.blocks.pool();
        let pool_parameters = (pool.count(), pool.pool_count(), pool.policy(), pool.seed());
        ensure!(
            self.blocks.holds(blocks)
                && pool_parameters == (blocks, dies, self.parameters.leveling, self.seed)
                && pool.endurance() == self.parameters.endurance.as_ref(),
            "the blocks were saved with other parameters"
        );
        ensure!(
            self.buffers.accepted().max(self.recoveries) < COUNT_MAX,
            "the counter of accepted requests or of recoveries exceeds its limit"
        );
        ensure!(self.programs.are_sound(units_per_page), "the table of programs is corrupt");
        Ok(())
    }

    /// Checks the write buffers and the map, which names the newest slot of each buffered unit.
    fn check_map(&self) -> Result<(), Inconsistent> {
        let newest = self
            .buffers
            .validate(self.parameters.data_slots(), &self.layout, &|unit| self.map.entry(unit))?;
        let in_slots = self.map.in_slots();
        ensure!(
            in_slots == newest,
            "{in_slots} units are mapped to slots, but the buffers hold {newest} newest slots"
        );
        let committed = |unit, entry| self.buffers.committed(unit, entry);
        self.map.validate(&self.layout, &committed, &|block| self.blocks.get(block).phase == Phase::Free)
    }

    /// Checks that the units of every program are at their sources, and that every block counts its moves in flight.
    fn check_programs(&self) -> Result<(), Inconsistent> {
        for die in self.collector.iter() {
            let gathering = die.gathering.iter().flatten().map(|link| link.index());
            let mut programs = gathering.chain(self.programs.queue(&die.full_pages));
            ensure!(
                self.programs.queue_is_sound(&die.full_pages) && programs.all(|id| self.programs.is_live(id)),
                "the garbage collector of a die lists a program that does not exist, or its queue is corrupt"
            );
        }
        let mut moving = vec![0u32; self.layout.blocks as usize];
        for id in self.programs.live() {
            let program = self.programs.get(id);
            let parts = &self.programs.parts(id)[..program.count as usize];
            ensure!(
                program.die < self.layout.dies && !parts.is_empty(),
                "program {id} has no die or no units: {program:?}"
            );
            for part in parts {
                let is_in =
                    |buffer: &WriteBuffer| buffer.get(part.from).is_some_and(|slot| slot.unit == part.unit);
                let sound = match program.source {
                    Source::Data => is_in(&self.buffers.data),
                    Source::Map => is_in(&self.buffers.map),
                    Source::Moved(_) => {
                        part.from < self.layout.places()
                            && part.unit < self.layout.logical()
                            && (!self.map.is_valid(part.from) || self.unit_at(part.from) == part.unit)
                    }
                };
                ensure!(sound, "program {id} has a unit that is not at its source: {part:?}");
                if matches!(program.source, Source::Moved(_)) {
                    moving[self.layout.block_of(part.from) as usize] += 1;
                }
            }
        }
        for ((block, state), moving) in self.blocks.iter().zip(moving) {
            ensure!(
                state.moves_in_flight == moving,
                "{moving} units of block {block} are being moved, but its state differs: {state:?}"
            );
        }
        Ok(())
    }

    fn unit_at(&self, place: u32) -> u32 {
        let (block, page, index) = self.layout.parts(place);
        self.map.reverse().unit(block, page, index)
    }

    /// Checks the limits of the counters, and that the units programmed by cause add up to the units of all
    /// programs.
    fn check_counters(&self) -> Result<(), Inconsistent> {
        // A trim takes no time, so a host can trim more than it can write.
        ensure!(
            self.counters.most() < COUNT_MAX && self.counters.trimmed < inconsistent::COUNT_MAX,
            "a counter exceeds its limit"
        );
        let programmed = self.counters.pages * u64::from(self.layout.units_per_page);
        let total = self.written().total();
        ensure!(
            total == programmed,
            "the units programmed sum to {total} by cause; the pages programmed have {programmed}"
        );
        Ok(())
    }

    /// Checks that no operation is in flight, and that every waiting program, block and slot is in its list.
    fn check_at_rest(&self) -> Result<(), Inconsistent> {
        ensure!(
            self.operations.none_is_ready() && self.operations.outstanding() == 0,
            "operations are in flight"
        );
        let rests = self.blocks.iter().all(|(_, state)| state.programs == 0)
            && self.dies.iter().all(|die| die.rests())
            && self.collector.iter().all(|die| die.reads == 0);
        ensure!(rests, "programs or reads are in flight");
        for buffer in [&self.buffers.data, &self.buffers.map] {
            ensure!(
                buffer.iter().all(|slot| !buffer.slot(slot).is_programming()),
                "a slot is being programmed"
            );
        }
        let mut gathered = vec![false; self.programs.len()];
        for (index, die) in (0..).zip(self.collector.iter()) {
            let gathering = die.gathering.iter().enumerate();
            let gathering = gathering.filter_map(|(stream, id)| Some((Some(stream), (*id)?.index())));
            for (stream, id) in gathering.chain(self.programs.queue(&die.full_pages).map(|id| (None, id))) {
                let program = self.programs.get(id);
                let Source::Moved(to) = program.source else {
                    return Err(Inconsistent {
                        what: alloc::format!("program {id} waits at rest, but moves no units"),
                    });
                };
                let right = program.die == index
                    && !program.is_issued
                    && program.count > 0
                    && stream.is_none_or(|stream| {
                        stream == to as usize && program.count < self.layout.units_per_page
                    });
                ensure!(
                    right && !core::mem::replace(&mut gathered[id as usize], true),
                    "program {id} waits on the wrong die, in the wrong state, or twice: {program:?}"
                );
            }
        }
        ensure!(
            self.programs.live().all(|id| gathered[id as usize]),
            "a program is neither being filled nor queued"
        );
        let open = self.dies.iter().map(|die| die.open_blocks().count()).sum::<usize>() as u32;
        ensure!(
            open == self.blocks.count(Phase::Open),
            "{} blocks are open, but {open} are open for a stream",
            self.blocks.count(Phase::Open)
        );
        let failing = self.collector.failed_count();
        ensure!(
            failing == self.blocks.count(Phase::Failed),
            "{} blocks are failing, but {failing} are listed",
            self.blocks.count(Phase::Failed)
        );
        self.check_victims()?;
        let drained = |state: &BlockState| state.phase == Phase::Drained && state.moves_in_flight == 0;
        ensure!(
            !self.blocks.iter().any(|(_, state)| drained(state)),
            "a block is drained and has no moves in flight, but was not retired"
        );
        self.check_trim_log_at_rest(self.blocks.count(Phase::Erasing))
    }

    /// Checks each victim: every valid unit of the pages read so far is being moved once, and no unit of the other
    /// pages is being moved.
    fn check_victims(&self) -> Result<(), Inconsistent> {
        let mut moving = BTreeSet::new();
        for id in self.programs.live() {
            for part in &self.programs.parts(id)[..self.programs.get(id).count as usize] {
                ensure!(moving.insert(part.from), "the unit at place {} is moved twice", part.from);
            }
        }
        for (block, state) in self.blocks.iter() {
            let read = match state.phase {
                Phase::Victim => self.collector.get(self.layout.die_of(block)).victim_page,
                Phase::Drained => state.next_page,
                _ => continue,
            };
            let places = |page: u32| self.layout.place(block, page)..self.layout.place(block, page + 1);
            let all_move = (0..read).flat_map(places).all(|p| moving.contains(&p) || !self.map.is_valid(p));
            let none_moves = (read..self.layout.pages).flat_map(places).all(|p| !moving.contains(&p));
            ensure!(
                all_move && none_moves,
                "block {block} was read up to page {read}, which differs from the units that are being \
                 moved: {state:?}"
            );
        }
        Ok(())
    }
}
