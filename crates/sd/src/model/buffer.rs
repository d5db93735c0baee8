//! The write buffer between wires and array: pages arrive over the wires while previous ones are programmed.
//!
//! The buffer holds one program unit. The space of a page is free again when its program starts. The program of a page
//! starts when the page has arrived and the array is free. With room for one page, the time of consecutive pages of the
//! same kind has a closed form, since the slower of wires and array sets the pace.
//!
//! An array with a stripe of several pages programs them in parallel: page n of a write is programmed in way n of the
//! stripe, modulo the number of ways.

use crate::bus::BLOCK;
use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;
use flashlab_flash::ftl::card::{Run, Work};
use flashlab_sim::Duration;

/// A buffer of several pages, and the state of one write. Times are relative to the moment when the card has received
/// the command.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// For each page slot, the time when its program starts and the slot is free again.
    free: Box<[Duration]>,
    slot: usize,
    /// Time when the data sent so far has arrived over the wires.
    wires: Duration,
    /// Time when the array is free.
    array: Duration,
    /// For each page that is programmed in parallel, the time when its program ends.
    ways: Box<[Duration]>,
    way: usize,
    /// True if the pages of the current write are programmed in parallel.
    parallel: bool,
}

impl Buffer {
    /// Creates a buffer of `pages` pages in front of an array that programs `ways` pages in parallel.
    pub(crate) fn new(pages: usize, ways: usize) -> Self {
        let idle = |count| vec![Duration::ZERO; count].into_boxed_slice();
        Buffer {
            free: idle(pages),
            slot: 0,
            wires: Duration::ZERO,
            array: Duration::ZERO,
            ways: idle(ways),
            way: 0,
            parallel: ways > 1,
        }
    }

    /// Starts a write with an empty buffer and an idle array.
    pub(crate) fn begin(&mut self) {
        self.free.fill(Duration::ZERO);
        (self.slot, self.wires, self.array) = (0, Duration::ZERO, Duration::ZERO);
        self.parallel = self.ways.len() > 1;
        if self.parallel {
            self.ways.fill(Duration::ZERO);
            self.way = 0;
        }
    }

    /// Starts a write with its copies. Pages of the area for small writes are programmed one at a time.
    fn begin_work(&mut self, work: &Work) {
        self.begin();
        self.parallel &= work.page.is_none();
        self.copy(work.copies());
    }

    /// Adds the time of copies in the array, which start when the array is free.
    pub(crate) fn copy(&mut self, copies: Duration) {
        self.array += copies;
        if self.parallel {
            self.ways.fill(self.array);
        }
    }

    /// Returns the time when there is room for the next page.
    pub(crate) fn room_at(&self) -> Duration {
        self.free[self.slot]
    }

    /// Returns the time when the last program ends.
    pub(crate) fn programmed(&self) -> Duration {
        self.array
    }

    /// Adds a page that arrives at `at` and takes `program` to program. Returns the time when its program starts.
    pub(crate) fn arrived(&mut self, at: Duration, program: Duration) -> Duration {
        self.wires = at;
        let array = if self.parallel { self.ways[self.way] } else { self.array };
        let start = at.max(array);
        self.free[self.slot] = start;
        self.slot = if self.slot + 1 == self.free.len() { 0 } else { self.slot + 1 };
        if self.parallel {
            self.ways[self.way] = start + program;
            self.way = if self.way + 1 == self.ways.len() { 0 } else { self.way + 1 };
            self.array = self.array.max(start + program);
        } else {
            self.array = start + program;
        }
        start
    }

    /// Adds a page that takes `transfer` on the wires, once there is room, and `program` in the array. Returns the time
    /// when its program starts.
    fn page(&mut self, transfer: Duration, program: Duration) -> Duration {
        self.arrived(self.wires.max(self.room_at()) + transfer, program)
    }

    /// Adds `count` pages with equal times.
    fn equal_pages(&mut self, count: u64, transfer: Duration, program: Duration) {
        let mut left = count;
        while left > 0 {
            if self.free.len() == 1 && left > 1 && !self.parallel {
                let arrives = self.wires.max(self.free[0]) + transfer;
                if program >= transfer && arrives <= self.array {
                    // Each page waits for the array, and arrives while the previous page is programmed.
                    let last = self.array + program * (left - 1);
                    self.wires = last - program + transfer;
                    self.free[0] = last;
                    self.array = last + program;
                    return;
                }
                if program < transfer && arrives >= self.array {
                    // Each page is programmed on arrival, before the next page has arrived.
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

    /// Computes the write of `range` in pages of `page` bytes, with a time of `block` for each block on the wires.
    /// Returns the time when the last program ends.
    pub(crate) fn write(&mut self, work: &Work, range: &Range<u64>, page: u64, block: Duration) -> Duration {
        self.begin_work(work);
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
                self.equal_pages(pages, whole, run.each);
                at += pages * page;
                left -= pages;
            }
        }
        self.array
    }

    /// Calls `each` for every page, with its byte range and the times when its program starts and ends.
    pub(crate) fn pages(
        &mut self,
        work: &Work,
        range: &Range<u64>,
        page: u64,
        block: Duration,
        mut each: impl FnMut(Range<u64>, Duration, Duration),
    ) {
        self.begin_work(work);
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
        /// Compares the closed form with a computation page by page.
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
            let mut buffer = Buffer::new(room, 1);
            let mut last = Duration::ZERO;
            buffer.pages(&work, &range, PAGE, ns(block), |_, _, end| last = end);
            prop_assert_eq!(buffer.write(&work, &range, PAGE, ns(block)), last);
        }
    }

    #[test]
    fn a_stripe_streams_at_the_rate_of_its_ways_and_a_page_alone_takes_one_program() {
        let us = Duration::from_us;
        let (program, transfer, ways) = (us(1_200), us(20), 8);
        let work = |pages| Work {
            runs: vec![Run { merge: us(0), erase: us(0), pages, each: program }],
            ..Work::default()
        };
        let mut buffer = Buffer::new(1, ways);
        let block = Duration::from_ns(transfer.as_ns() / (PAGE / BLOCK));
        let time = |buffer: &mut Buffer, pages| buffer.write(&work(pages), &(0..pages * PAGE), PAGE, block);
        assert_eq!(time(&mut buffer, 1), transfer + program, "one page");
        // The ways are filled one after the other, and each stripe waits for the programs of the previous one.
        let stripes = 5;
        let expected = transfer * ways as u64 + program * stripes;
        assert_eq!(time(&mut buffer, ways as u64 * stripes), expected);
    }
}
