//! Consistency check of the whole structure, for a layer that was created here and for one that was read back.

use super::place::Layout;
use super::programs::Source;
use super::state::{Phase, STREAMS, Stream};
use super::write_buffer::WriteBuffer;
use super::{PageMap, PageMapParameters};
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use crate::nand::EraseBlock;
use alloc::collections::BTreeSet;
use alloc::vec;

/// Limit for counts that no device comes near, so that counting on cannot overflow: 2^40 units of 4 KiB are 4 EiB.
const COUNT_MAX: u64 = 1 << 40;

impl PageMap {
    /// Checks the whole structure: every unit, every place, every block, every list.
    ///
    /// # Panics
    /// If the structure is inconsistent; the message names the inconsistency.
    pub fn check(&self) {
        if let Err(inconsistent) = self.walk() {
            panic!("{inconsistent}");
        }
    }

    /// Checks that a layer that was read back has these parameters and this seed, is at rest and is consistent, so that
    /// the caller can use it like a layer that was created here.
    ///
    /// # Errors
    /// If the layer has other parameters, is not at rest or is inconsistent.
    pub fn validate_restored(&self, parameters: &PageMapParameters, seed: u64) -> Result<(), Inconsistent> {
        ensure!(self.parameters == *parameters && self.seed == seed, "it is a layer of other parameters");
        self.walk()?;
        self.check_at_rest()
    }

    fn walk(&self) -> Result<(), Inconsistent> {
        self.check_shape()?;
        self.check_candidates()?;
        self.blocks.validate()?;
        self.check_map()?;
        self.check_programs()?;
        self.check_trim_log()?;
        self.check_blocks()?;
        self.check_dies()?;
        self.check_counters()
    }

    /// Checks that every structure has the size that follows from the parameters, and that every number of a block, a
    /// die, a place or a program is in range.
    fn check_shape(&self) -> Result<(), Inconsistent> {
        let Layout { blocks, dies, units_per_page, .. } = self.layout;
        ensure!(self.layout == Layout::new(&self.parameters), "the sizes are not those of the parameters");
        let lengths = [(self.states.len(), blocks), (self.histories.len(), blocks), (self.dies.len(), dies)];
        ensure!(lengths.iter().all(|(len, wanted)| *len == *wanted as usize), "lengths: {lengths:?}");
        ensure!(self.writable_dies.holds(dies), "a set of bits has another length");
        let pool = (self.blocks.count(), self.blocks.pool_count(), self.blocks.policy(), self.blocks.seed());
        ensure!(
            pool == (blocks, dies, self.parameters.leveling, self.seed)
                && self.blocks.endurance() == self.parameters.endurance.as_ref(),
            "the blocks are of other parameters"
        );
        let next = [self.next_die, self.next_map_die, self.next_idle_die];
        ensure!(next.iter().all(|die| *die < dies), "the next dies: {next:?}");
        ensure!(
            self.buffers.accepted().max(self.recoveries) < COUNT_MAX,
            "more was accepted than is possible"
        );
        ensure!(self.programs.are_sound(units_per_page), "programs and their units do not hold together");
        for (block, state) in (0..).zip(&self.states) {
            let history = &self.histories[block as usize];
            ensure!(
                state.next_page <= self.layout.pages_of(state.slc)
                    && (!state.slc || self.parameters.slc.is_some())
                    && history.trimmed.max(history.closed_at) <= self.buffers.accepted(),
                "block {block}: {state:?}, {history:?}"
            );
        }
        for (index, die) in (0..).zip(&self.dies) {
            let mine = |block: &u32| *block < blocks && self.layout.die_of(*block) == index;
            let single = die.open.iter().chain([&die.victim, &die.leveling_victim]).flatten();
            let gathering = die.gathering.iter().flatten().map(|link| link.index());
            let mut programs = gathering.chain(self.programs.queue(&die.full_pages));
            ensure!(
                single.map(|block| block.index()).all(|block| mine(&block))
                    && die.failed_blocks.iter().chain(&die.slc_closed).all(mine)
                    && self.programs.queue_is_sound(&die.full_pages)
                    && programs.all(|id| self.programs.is_live(id)),
                "die {index} has blocks or programs that it cannot have"
            );
            ensure!(
                die.victim_page <= self.layout.pages
                    && die.gc_backlog.unsigned_abs() < COUNT_MAX
                    && die.fold_backlog_ppm.unsigned_abs() < COUNT_MAX * 1_000_000,
                "die {index}: page {} of its victim, {} and {} units owed",
                die.victim_page,
                die.gc_backlog,
                die.fold_backlog_ppm
            );
        }
        Ok(())
    }

    /// Checks that the closed blocks are candidates, with their numbers of valid units.
    fn check_candidates(&self) -> Result<(), Inconsistent> {
        let shape = (self.layout.dies, self.layout.blocks, self.layout.units_per_block);
        self.candidates.validate(self.parameters.victim, shape, self.buffers.accepted(), &|block| {
            let state = &self.states[block as usize];
            (state.phase == Phase::Closed && !state.slc).then(|| self.valid_in(block))
        })
    }

    /// Checks the write buffers and the map, which names the newest slot of each buffered unit.
    fn check_map(&self) -> Result<(), Inconsistent> {
        let newest = self
            .buffers
            .validate(self.parameters.data_slots(), &self.layout, &|unit| self.map.entry(unit))?;
        let in_slots = self.map.in_slots();
        ensure!(in_slots == newest, "units in slots and newest slots: {in_slots} and {newest}");
        let committed = |unit, entry| self.buffers.committed(unit, entry);
        self.map.validate(&self.layout, &committed, &|block| self.states[block as usize].phase == Phase::Free)
    }

    /// Checks that the units of every program are at their sources, and that every block counts its moves in flight.
    fn check_programs(&self) -> Result<(), Inconsistent> {
        let mut moving = vec![0u32; self.states.len()];
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
                ensure!(sound, "program {id} has {part:?}");
                if matches!(program.source, Source::Moved(_)) {
                    moving[self.layout.block_of(part.from) as usize] += 1;
                }
            }
        }
        for (block, (state, moving)) in self.states.iter().zip(moving).enumerate() {
            ensure!(
                state.moves_in_flight == moving,
                "block {block} has {moving} units on their way: {state:?}"
            );
        }
        Ok(())
    }

    fn check_blocks(&self) -> Result<(), Inconsistent> {
        for (block, state) in (0..).zip(&self.states) {
            let base = self.layout.place(block, 0);
            let written = state.next_page * self.layout.units_per_page;
            let valid = self.valid_in(block);
            let beyond = self.map.valid_count(base + written, self.layout.units_per_block - written);
            ensure!(beyond == 0, "block {block} has valid units that were never programmed");
            let (used, bad) =
                (self.blocks.is_used(EraseBlock::new(block)), self.blocks.is_bad(EraseBlock::new(block)));
            let right = match state.phase {
                Phase::Free | Phase::Bad => {
                    (valid, state.moves_in_flight, used) == (0, 0, false)
                        && bad == (state.phase == Phase::Bad)
                }
                Phase::Closed => used && state.programs == 0 && state.moves_in_flight == 0,
                Phase::Erasing => used && valid == 0 && state.moves_in_flight == 0,
                Phase::Victim | Phase::Drained => used,
                Phase::Open | Phase::Failed => used && state.moves_in_flight == 0,
            };
            ensure!(right, "block {block}, used: {used}, bad: {bad}: {state:?}");
        }
        // Each block is in one phase, and the pool's counts of free and bad blocks agree.
        let free = self.count(|phase| phase == Phase::Free);
        ensure!(free == self.blocks.free_count_total(), "{free} free blocks, not those of the pool");
        let bad = self.count(|phase| phase == Phase::Bad);
        ensure!(bad == self.blocks.bad_count(), "{bad} bad blocks, not those of the pool");
        Ok(())
    }

    fn unit_at(&self, place: u32) -> u32 {
        let (block, page, index) = self.layout.parts(place);
        self.map.reverse().unit(block, page, index)
    }

    fn count(&self, phase: impl Fn(Phase) -> bool) -> u32 {
        self.states.iter().filter(|state| phase(state.phase)).count() as u32
    }

    fn check_dies(&self) -> Result<(), Inconsistent> {
        let mut listed = vec![false; self.states.len()];
        let mut list = |block: u32| !core::mem::replace(&mut listed[block as usize], true);
        for (index, die) in (0..).zip(&self.dies) {
            ensure!(die.free == self.blocks.free_count(index), "free blocks of die {index}: {}", die.free);
            let mine = || {
                let dies = self.layout.dies as usize;
                (0..).zip(&self.states).skip(index as usize).step_by(dies)
            };
            let slc = mine().filter(|(_, state)| state.slc).count() as u32;
            ensure!(slc == die.slc, "blocks of die {index} with one bit a cell: {slc} and {}", die.slc);
            let is_slc_closed = |state: &super::BlockState| state.phase == Phase::Closed && state.slc;
            let closed = mine().filter(|(_, state)| is_slc_closed(state)).count();
            for block in &die.slc_closed {
                ensure!(
                    is_slc_closed(&self.states[*block as usize]) && list(*block),
                    "block {block} is listed as closed"
                );
            }
            ensure!(closed == die.slc_closed.len(), "closed blocks of die {index} with one bit a cell");
            for block in &die.failed_blocks {
                let failing = self.states[*block as usize].phase == Phase::Failed;
                ensure!(failing && list(*block), "block {block} is listed as failing");
            }
            let victims = mine().filter(|(_, state)| state.phase == Phase::Victim).map(|(block, _)| block);
            ensure!(
                victims.eq(die.victim.map(EraseBlock::index)),
                "the victim of die {index}: {:?}",
                die.victim
            );
            let open =
                die.open.iter().enumerate().filter_map(|(stream, block)| Some((stream, (*block)?.index())));
            for (stream, block) in open {
                let state = &self.states[block as usize];
                let right = state.phase == Phase::Open
                    && state.stream as usize == stream
                    && state.next_page < self.layout.pages_of(state.slc)
                    && (stream == Stream::Host as usize || !state.slc);
                ensure!(
                    right && list(block),
                    "block {block} is open for stream {stream} of {STREAMS}: {state:?}"
                );
            }
            let can_program = self.can_program(index, Stream::Host, self.parameters.floor());
            ensure!(
                self.writable_dies.contains(index) == can_program,
                "die {index} takes a page: {can_program}"
            );
        }
        Ok(())
    }

    /// Checks that the units programmed by cause add up to the units of all programs.
    fn check_counters(&self) -> Result<(), Inconsistent> {
        ensure!(self.counters.most() < COUNT_MAX, "more was counted than is possible");
        let programmed = self.counters.pages * u64::from(self.layout.units_per_page);
        let total = self.written().total();
        ensure!(total == programmed, "units programmed, by cause and in all: {total} and {programmed}");
        Ok(())
    }

    /// Checks that no operation is in flight, and that every waiting program, block and slot is in its list.
    fn check_at_rest(&self) -> Result<(), Inconsistent> {
        ensure!(self.ready.is_empty() && self.outstanding == 0, "operations are under way");
        let programs = self.states.iter().map(|state| u32::from(state.programs));
        let programs =
            programs.chain(self.dies.iter().map(|die| die.reads + die.programs + die.move_programs));
        ensure!(programs.max() == Some(0), "programs or reads are under way");
        for buffer in [&self.buffers.data, &self.buffers.map] {
            ensure!(
                buffer.iter().all(|slot| !buffer.slot(slot).is_programming()),
                "a slot is being programmed"
            );
        }
        let mut gathered = vec![false; self.programs.len()];
        for (index, die) in (0..).zip(&self.dies) {
            let gathering = die.gathering.iter().enumerate();
            let gathering = gathering.filter_map(|(stream, id)| Some((Some(stream), (*id)?.index())));
            for (stream, id) in gathering.chain(self.programs.queue(&die.full_pages).map(|id| (None, id))) {
                let program = self.programs.get(id);
                let Source::Moved(to) = program.source else {
                    return Err(Inconsistent { what: alloc::format!("program {id} is no move, and waits") });
                };
                let right = program.die == index
                    && !program.is_issued
                    && program.count > 0
                    && stream.is_none_or(|stream| {
                        stream == to as usize && program.count < self.layout.units_per_page
                    });
                ensure!(
                    right && !core::mem::replace(&mut gathered[id as usize], true),
                    "program {id} waits: {program:?}"
                );
            }
        }
        ensure!(
            self.programs.live().all(|id| gathered[id as usize]),
            "a program is neither gathered nor under way"
        );
        let (mut open, mut failing) = (0, 0);
        for die in &self.dies {
            open += die.open.iter().flatten().count() as u32;
            failing += die.failed_blocks.len() as u32;
        }
        ensure!(open == self.count(|phase| phase == Phase::Open), "a block is open for no stream");
        ensure!(failing == self.count(|phase| phase == Phase::Failed), "a block that fails is not listed");
        self.check_victims()?;
        let drained = |state: &super::BlockState| state.phase == Phase::Drained && state.moves_in_flight == 0;
        ensure!(!self.states.iter().any(drained), "a block is drained, and was not given up");
        self.check_trim_log_at_rest(self.count(|phase| phase == Phase::Erasing))
    }

    /// Checks that every valid unit of the pages of a victim that were read is being moved once, and that no unit of
    /// its other pages is.
    fn check_victims(&self) -> Result<(), Inconsistent> {
        let mut moving = BTreeSet::new();
        for id in self.programs.live() {
            for part in &self.programs.parts(id)[..self.programs.get(id).count as usize] {
                ensure!(moving.insert(part.from), "the unit at place {} is moved twice", part.from);
            }
        }
        for (block, state) in (0..).zip(&self.states) {
            let read = match state.phase {
                Phase::Victim => self.dies[self.layout.die_of(block) as usize].victim_page,
                Phase::Drained => state.next_page,
                _ => continue,
            };
            let places = |page: u32| self.layout.place(block, page)..self.layout.place(block, page + 1);
            let all_move = (0..read).flat_map(places).all(|p| moving.contains(&p) || !self.map.is_valid(p));
            let none_moves = (read..self.layout.pages).flat_map(places).all(|p| !moving.contains(&p));
            ensure!(all_move && none_moves, "block {block} was read up to page {read}: {state:?}");
        }
        Ok(())
    }
}
