//! A walk through the whole structure.

use super::PageMap;
use super::place::{Mapped, NONE};
use super::state::{Phase, STREAMS, Stream};
use crate::nand::Block;
use alloc::vec;

impl PageMap {
    /// Walks the whole structure: every unit, every place, every block, every list.
    ///
    /// # Panics
    /// With what is wrong.
    pub fn check(&self) {
        self.blocks.check();
        self.data.check();
        self.map.check();
        self.check_records();
        self.check_map();
        self.check_blocks();
        self.check_dies();
        self.check_counters();
    }

    /// Every unit's place holds it, and nothing else is valid.
    fn check_map(&self) {
        let mut mapped = 0;
        for unit in 0..self.layout.logical() {
            let entry = match self.l2p[unit as usize].decode() {
                Mapped::Slot(slot) => {
                    let slot = self.buffer(unit).slot(slot);
                    assert_eq!((slot.unit, slot.newer), (unit, NONE), "the newest slot of unit {unit}");
                    slot.committed
                }
                _ => self.l2p[unit as usize],
            };
            match entry.decode() {
                Mapped::At(place) => {
                    assert_eq!(self.p2l[place as usize], unit, "the unit at place {place}");
                    assert!(self.validity.get(place), "place {place} of unit {unit} is valid");
                    mapped += 1;
                }
                Mapped::Trimmed(place) => {
                    assert!(!self.validity.get(place), "place {place} of trimmed unit {unit} is void");
                    let state = &self.states[self.layout.block_of(place) as usize];
                    assert!(
                        state.phase != Phase::Free,
                        "unit {unit} is trimmed without a record, and erased"
                    );
                }
                Mapped::Slot(slot) => panic!("unit {unit}: a slot's committed entry is slot {slot}"),
                Mapped::Nowhere | Mapped::Unreadable => {}
            }
        }
        assert_eq!(mapped, self.valid, "mapped units and valid ones");
        let valid: u64 = self.states.iter().map(|state| u64::from(state.valid)).sum();
        assert_eq!(valid, self.valid, "valid units of all blocks");
    }

    fn check_blocks(&self) {
        for (block, state) in (0..).zip(&self.states) {
            let base = self.layout.place(block, 0);
            let written = state.next_page * self.layout.units_per_page;
            let valid =
                (0..self.layout.units_per_block).filter(|unit| self.validity.get(base + unit)).count() as u32;
            assert_eq!(valid, state.valid, "valid units of block {block}");
            let beyond = (written..self.layout.units_per_block).any(|unit| self.validity.get(base + unit));
            assert!(!beyond, "block {block} has valid units that were never programmed");
            let used = self.blocks.is_used(Block(block));
            match state.phase {
                Phase::Free | Phase::Bad => {
                    assert_eq!(
                        (valid, state.moving, used),
                        (0, 0, false),
                        "block {block} is {:?}",
                        state.phase
                    );
                    assert_eq!(self.blocks.is_bad(Block(block)), state.phase == Phase::Bad, "block {block}");
                }
                Phase::Closed => {
                    assert!(used && state.programs == 0 && state.moving == 0, "block {block}: {state:?}");
                }
                Phase::Erasing => {
                    assert!(used && valid == 0 && state.moving == 0, "block {block}: {state:?}")
                }
                _ => assert!(used, "block {block}: {state:?}"),
            }
            assert!(state.moving == 0 || matches!(state.phase, Phase::Victim | Phase::Drained), "{state:?}");
        }
        // Free, open, closed and bad blocks are all blocks, each in one phase; the pool's counts agree.
        let free = self.states.iter().filter(|state| state.phase == Phase::Free).count() as u32;
        let bad = self.states.iter().filter(|state| state.phase == Phase::Bad).count() as u32;
        assert_eq!(free, self.blocks.free_count_total(), "free blocks");
        assert_eq!(bad, self.blocks.bad_count(), "bad blocks");
    }

    fn check_dies(&self) {
        let mut candidates = vec![false; self.states.len()];
        for (index, die) in (0..).zip(&self.dies) {
            assert_eq!(die.free, self.blocks.free_count(index), "free blocks of die {index}");
            let takes = self.takes(index, Stream::Host, self.parameters.floor());
            assert_eq!(self.takers.contains(index), takes, "die {index} takes a page");
            let mine = || {
                let dies = self.layout.dies as usize;
                (0..).zip(&self.states).skip(index as usize).step_by(dies)
            };
            let closed = mine().filter(|(_, state)| state.phase == Phase::Closed && !state.slc);
            let dead: u64 =
                closed.map(|(_, state)| u64::from(self.layout.units_per_block - state.valid)).sum();
            assert_eq!(dead, die.dead, "invalid units in candidates of die {index}");
            let slc = mine().filter(|(_, state)| state.slc).count() as u32;
            assert_eq!(slc, die.slc, "blocks of die {index} with one bit a cell");
            let closed = mine().filter(|(_, state)| state.phase == Phase::Closed && state.slc).count();
            assert_eq!(closed, die.slc_closed.len(), "closed blocks of die {index} with one bit a cell");
            assert_eq!(die.open.len(), STREAMS);
            for (stream, block) in die.open.iter().enumerate().filter(|(_, block)| **block != NONE) {
                let state = &self.states[*block as usize];
                assert!(
                    state.phase == Phase::Open && state.stream as usize == stream,
                    "block {block} is open: {state:?}"
                );
                assert!(state.next_page < self.layout.pages_of(state.slc), "open block {block} has a page");
                assert!(stream == Stream::Host as usize || !state.slc);
                assert!(!core::mem::replace(&mut candidates[*block as usize], true), "{block} is open twice");
            }
        }
        self.candidates.check(self.layout.blocks, &|block| {
            let state = &self.states[block as usize];
            (state.phase == Phase::Closed && !state.slc).then_some(state.valid)
        });
    }

    /// Programs are what they were for.
    fn check_counters(&self) {
        let programmed = self.counters.pages * u64::from(self.layout.units_per_page);
        assert_eq!(self.written().total(), programmed, "units programmed, by cause and in all");
    }
}
