//! The write buffer between wires and array: pages arrive over the wires while previous pages are programmed.
//!
//! The buffer holds one program unit. The space of a page is free again when its program starts. The program of a page
//! starts when the page has arrived and the array is free. With room for one page, the time of consecutive pages of the
//! same kind has a closed form, since the slower of wires and array sets the pace.
//!
//! An array with a stripe of several pages programs them in parallel. Page n of a write is programmed in way
//! n of the stripe, modulo the number of ways.
//!
//! A card with a larger buffer collects pages until the buffer is full or the write ends. The card programs
//! these pages while it collects the next ones ([`Collected`]).

use crate::bus::BLOCK;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
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
    /// For each way, the time when the program of its last page ends.
    ways: Box<[Duration]>,
    way: usize,
    /// True if the pages of the current write are programmed in parallel.
    parallel: bool,
    /// Number of pages that the card collects before it programs them, or `None` if it programs each page on
    /// arrival.
    collects: Option<u64>,
    /// Value of `collects` that applies to the current write.
    collecting: Option<u64>,
    collected: Collected,
}

/// The pages of a write that have arrived and are not programmed yet.
#[derive(Clone, Copy, Debug, Default)]
struct Collected {
    pages: u64,
    /// Time to program the pages.
    program: Duration,
    /// Time when the program of the previous pages started, which made room for the next pages.
    room: Duration,
}

impl Buffer {
    /// Creates a buffer of `pages` pages in front of an array that programs `ways` pages in parallel. The
    /// card programs `collects` pages at a time, or each page on arrival.
    pub(crate) fn new(pages: usize, ways: usize, collects: Option<u64>) -> Self {
        let idle = |count| vec![Duration::ZERO; count].into_boxed_slice();
        Buffer {
            free: idle(pages),
            slot: 0,
            wires: Duration::ZERO,
            array: Duration::ZERO,
            ways: idle(ways),
            way: 0,
            parallel: ways > 1,
            collects,
            collecting: collects,
            collected: Collected::default(),
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

    /// Starts a write with the copies that the translation layer makes for it. Pages of the area for small
    /// writes are programmed one at a time, as they arrive, unless all of their data is available at once.
    fn begin_work(&mut self, work: &Work) {
        self.begin();
        self.parallel &= work.page.is_none() || !work.packed.is_empty();
        self.collecting = self.collects.filter(|_| work.page.is_none());
        self.collected = Collected::default();
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

    /// Adds up to `count` pages with equal times to the pages that the card collects, up to `most` in all.
    /// Returns the number of pages added.
    fn collect(&mut self, most: u64, count: u64, transfer: Duration, program: Duration) -> u64 {
        let Collected { pages, room, .. } = self.collected;
        if pages == 0 {
            self.wires = self.wires.max(room);
        }
        let count = count.min(most - pages);
        self.wires += transfer * count;
        self.collected.pages += count;
        self.collected.program += program * count;
        count
    }

    /// Programs the pages that the card has collected. Returns the time when the program starts.
    fn program_collected(&mut self) -> Duration {
        let start = self.wires.max(self.array);
        self.array = start + self.collected.program;
        self.collected = Collected { room: start, ..Collected::default() };
        start
    }

    /// Adds `count` pages with equal times.
    fn equal_pages(&mut self, count: u64, transfer: Duration, program: Duration) {
        let mut left = count;
        if let Some(most) = self.collecting {
            while left > 0 {
                left -= self.collect(most, left, transfer, program);
                if self.collected.pages == most {
                    self.program_collected();
                }
            }
            return;
        }
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
                    self.equal_pages(1, block * ((end - at) / BLOCK), before + run.each);
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
        if self.collected.pages > 0 {
            self.program_collected();
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
        // Pages that have arrived and whose program has not been scheduled.
        let mut waiting: Vec<(Range<u64>, Duration, Duration)> = Vec::new();
        for run in &work.runs {
            for n in 0..run.pages {
                let end = range.end.min((at / page + 1) * page);
                let Run { merge, erase, .. } = *run;
                let before = if n == 0 { merge + erase } else { Duration::ZERO };
                let transfer = block * ((end - at) / BLOCK);
                let start = match self.collecting {
                    Some(most) => {
                        self.collect(most, 1, transfer, before + run.each);
                        waiting.push((at..end, before, run.each));
                        let is_last = self.collected.pages == most || end == range.end;
                        is_last.then(|| self.program_collected())
                    }
                    None => {
                        waiting.push((at..end, before, run.each));
                        Some(self.page(transfer, before + run.each))
                    }
                };
                at = end;
                if let Some(mut start) = start {
                    for (bytes, before, program) in waiting.drain(..) {
                        each(bytes, start + before, start + before + program);
                        start += before + program;
                    }
                }
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
        #[test]
        fn the_closed_form_equals_a_computation_page_by_page(
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
            for collects in [None, Some(5)] {
                let mut buffer = Buffer::new(room, 1, collects);
                let mut last = Duration::ZERO;
                buffer.pages(&work, &range, PAGE, ns(block), |_, _, end| last = end);
                prop_assert_eq!(buffer.write(&work, &range, PAGE, ns(block)), last);
            }
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
        let mut buffer = Buffer::new(1, ways, None);
        let block = Duration::from_ns(transfer.as_ns() / (PAGE / BLOCK));
        let time = |buffer: &mut Buffer, pages| buffer.write(&work(pages), &(0..pages * PAGE), PAGE, block);
        assert_eq!(time(&mut buffer, 1), transfer + program, "one page");
        // The ways are filled one after the other, and each stripe waits for the programs of the previous
        // stripe.
        let stripes = 5;
        let expected = transfer * ways as u64 + program * stripes;
        assert_eq!(time(&mut buffer, ways as u64 * stripes), expected);
    }

    #[test]
    fn a_collected_buffer_is_programmed_while_the_next_one_is_filled() {
        let us = Duration::from_us;
        let (transfer, buffer) = (us(80), 4);
        let block = Duration::from_ns(transfer.as_ns() / (PAGE / BLOCK));
        let time = |program, pages| {
            let runs = vec![Run { merge: us(0), erase: us(0), pages, each: program }];
            let work = Work { runs, ..Work::default() };
            Buffer::new(1, 1, Some(buffer)).write(&work, &(0..pages * PAGE), PAGE, block)
        };
        assert_eq!(time(us(100), 1), transfer + us(100), "a short write is programmed at its end");
        assert_eq!(
            time(us(100), 12),
            transfer * buffer + us(100) * 12,
            "the array sets the pace after the first buffer"
        );
        assert_eq!(
            time(us(10), 12),
            transfer * 12 + us(10) * buffer,
            "the wires set the pace up to the last buffer"
        );
        assert_eq!(time(us(10), 13), transfer * 13 + us(10), "the rest is programmed at the end");
    }
}
