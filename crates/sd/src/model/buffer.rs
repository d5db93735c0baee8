//! The buffer between wires and array: pages are filled over the wires while others are programmed.
//!
//! The buffer holds one program unit. A page's place is free again when its program starts. A page starts when it has
//! arrived and the array is free. With one page's room, pages of one kind in a row have a closed form: the slower of wires and
//! array sets the pace.

use crate::bus::BLOCK;
use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;
use flashlab_flash::ftl::{Run, Work};
use flashlab_sim::Duration;

/// A buffer of some pages, and one write on its way through it. Times count from when the card has the command.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// For each page of room, when its program starts and the place is free again.
    free: Box<[Duration]>,
    slot: usize,
    /// When the wires have brought what was sent.
    wires: Duration,
    /// When the array is free.
    array: Duration,
}

impl Buffer {
    pub(crate) fn new(pages: usize) -> Self {
        let free = vec![Duration::ZERO; pages].into_boxed_slice();
        Buffer { free, slot: 0, wires: Duration::ZERO, array: Duration::ZERO }
    }

    /// A write begins: nothing is in the buffer, and the array is free.
    pub(crate) fn begin(&mut self) {
        self.free.fill(Duration::ZERO);
        (self.slot, self.wires, self.array) = (0, Duration::ZERO, Duration::ZERO);
    }

    /// The array copies as soon as it is free.
    pub(crate) fn copy(&mut self, copies: Duration) {
        self.array += copies;
    }

    /// When there is room for the next page.
    pub(crate) fn room_at(&self) -> Duration {
        self.free[self.slot]
    }

    /// When the last program ends.
    pub(crate) fn programmed(&self) -> Duration {
        self.array
    }

    /// A page has arrived whose program takes `program`; returns when that starts.
    pub(crate) fn arrived(&mut self, at: Duration, program: Duration) -> Duration {
        self.wires = at;
        let start = at.max(self.array);
        self.free[self.slot] = start;
        self.slot = if self.slot + 1 == self.free.len() { 0 } else { self.slot + 1 };
        self.array = start + program;
        start
    }

    /// A page that takes `transfer` on the wires, which wait for room, and `program` in the array; returns when its program
    /// starts.
    fn page(&mut self, transfer: Duration, program: Duration) -> Duration {
        self.arrived(self.wires.max(self.room_at()) + transfer, program)
    }

    /// `count` pages of one kind.
    fn alike(&mut self, count: u64, transfer: Duration, program: Duration) {
        let mut left = count;
        while left > 0 {
            if self.free.len() == 1 && left > 1 {
                let arrives = self.wires.max(self.free[0]) + transfer;
                if program >= transfer && arrives <= self.array {
                    // Each page waits for the array, and the next one arrives while it is programmed.
                    let last = self.array + program * (left - 1);
                    self.wires = last - program + transfer;
                    self.free[0] = last;
                    self.array = last + program;
                    return;
                }
                if program < transfer && arrives >= self.array {
                    // Each page is programmed as soon as it has arrived, before the next one has.
                    self.wires = arrives + transfer * (left - 1);
                    self.free[0] = self.wires;
                    self.array = self.wires + program;
                    return;
                }
            }
            self.page(transfer, program);
            left -= 1;
        }
    }

    /// Writes `range` in pages of `page` bytes, with `block` for each block on the wires; returns when the last program
    /// ends.
    pub(crate) fn write(&mut self, work: &Work, range: &Range<u64>, page: u64, block: Duration) -> Duration {
        self.begin();
        self.copy(work.read_modify_write + work.merge);
        let mut at = range.start;
        let whole = block * (page / BLOCK);
        for run in &work.runs {
            let mut left = run.pages;
            let mut before = run.merge + run.erase;
            while left > 0 {
                let end = range.end.min((at / page + 1) * page);
                if end - at < page || before > Duration::ZERO {
                    self.page(block * ((end - at) / BLOCK), before + run.each);
                    before = Duration::ZERO;
                    at = end;
                    left -= 1;
                    continue;
                }
                let pages = left.min((range.end - at) / page);
                self.alike(pages, whole, run.each);
                at += pages * page;
                left -= pages;
            }
        }
        self.array
    }

    /// Calls `each` with every page's bytes and when its program starts and ends.
    pub(crate) fn pages(
        &mut self,
        work: &Work,
        range: &Range<u64>,
        page: u64,
        block: Duration,
        mut each: impl FnMut(Range<u64>, Duration, Duration),
    ) {
        self.begin();
        self.copy(work.read_modify_write + work.merge);
        let mut at = range.start;
        for run in &work.runs {
            for n in 0..run.pages {
                let end = range.end.min((at / page + 1) * page);
                let Run { merge, erase, .. } = *run;
                let before = if n == 0 { merge + erase } else { Duration::ZERO };
                let start = self.page(block * ((end - at) / BLOCK), before + run.each);
                each(at..end, start + before, start + before + run.each);
                at = end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4 << 10;

    proptest! {
        /// The closed form against page after page.
        #[test]
        fn pages_in_a_row_take_as_long_as_one_by_one(
            room in 1usize..4,
            block in 1u64..40_000,
            before in 0u64..2_000_000,
            runs in prop::collection::vec((0u64..300_000, 0u64..200_000, 1u64..40, 1u64..300_000), 1..5),
            (skip, short) in (0u64..8, 0u64..8),
        ) {
            let ns = Duration::from_ns;
            let runs: alloc::vec::Vec<Run> = runs
                .into_iter()
                .map(|(merge, erase, pages, each)| Run { merge: ns(merge), erase: ns(erase), pages, each: ns(each) })
                .collect();
            let pages: u64 = runs.iter().map(|run| run.pages).sum();
            let range = skip * BLOCK..(pages * PAGE - short * BLOCK).max(skip * BLOCK + BLOCK);
            prop_assume!(range.end.div_ceil(PAGE) == pages);
            let work = Work { merge: ns(before), runs, ..Work::default() };
            let mut buffer = Buffer::new(room);
            let mut last = Duration::ZERO;
            buffer.pages(&work, &range, PAGE, ns(block), |_, _, end| last = end);
            prop_assert_eq!(buffer.write(&work, &range, PAGE, ns(block)), last);
        }
    }
}
