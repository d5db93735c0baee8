//! A chunk of 2 MiB of memory with a map of its used pages.
//!
//! Invariant: a page that is not in use holds zeroes, and takes no memory from the system unless it is part
//! of a huge page in use. Ranges that were never written, or were discarded, therefore need no clearing.

use super::{Pages, past_caches};
use crate::Extent;
use memmap2::{Advice, MmapMut, UncheckedAdvice};
use std::io;
use std::ops::Range;

/// Size of a chunk in bytes: a huge page of x86-64, and of ARM with 4 KiB pages.
pub(super) const CHUNK: usize = 2 << 20;
/// Size of a page in bytes.
const PAGE: usize = 4096;
const WORDS: usize = CHUNK / PAGE / 64;

/// Memory of a chunk, with one bit per page: set if the page is in use.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    memory: Option<MmapMut>,
    in_use: [u64; WORDS],
}

impl Chunk {
    /// Copies the contents from `at` onward to `to`.
    pub(super) fn read(&self, at: usize, to: &mut [u8]) {
        let Some(memory) = &self.memory else { return to.fill(0) };
        let end = at + to.len();
        for (pages, in_use) in self.runs(at, end) {
            let (from, until) = (at.max(pages.start), end.min(pages.end));
            let part = &mut to[from - at..until - at];
            match in_use {
                true => part.copy_from_slice(&memory[from..until]),
                false => part.fill(0),
            }
        }
    }

    /// Copies `from` to `at`. Bypasses the processor's caches if the chunk is part of a `large` device. Fails if the
    /// system denies the memory.
    pub(super) fn write(&mut self, at: usize, from: &[u8], pages: Pages, large: bool) -> io::Result<()> {
        let to = &mut self.memory(pages)?[at..at + from.len()];
        match large {
            true => past_caches::copy(to, from),
            false => to.copy_from_slice(from),
        }
        self.mark(at / PAGE..(at + from.len()).div_ceil(PAGE), true);
        Ok(())
    }

    /// Allocates memory for `at..end` and fills it with zeroes.
    pub(super) fn allocate_zeroes(&mut self, at: usize, end: usize, pages: Pages) -> io::Result<()> {
        self.memory(pages)?[at..end].fill(0);
        self.mark(at / PAGE..end.div_ceil(PAGE), true);
        Ok(())
    }

    /// Zeroes `at..end`. Pages that lie entirely in the range are returned to the system.
    pub(super) fn free(&mut self, at: usize, end: usize) {
        let whole_pages = at.div_ceil(PAGE) * PAGE..end / PAGE * PAGE;
        if whole_pages.start < whole_pages.end {
            self.zero_part(at, whole_pages.start);
            self.zero_part(whole_pages.end, end);
            self.free_pages(whole_pages);
        } else {
            self.zero_part(at, end);
        }
    }

    /// Appends the extents of `at..end`.
    pub(super) fn extents(&self, at: usize, end: usize, to: &mut Vec<Extent>) {
        for (pages, in_use) in self.runs(at, end) {
            let length = (end.min(pages.end) - at.max(pages.start)) as u64;
            Extent { length, hole: !in_use, zero: !in_use }.append(to);
        }
    }

    fn memory(&mut self, pages: Pages) -> io::Result<&mut MmapMut> {
        match &mut self.memory {
            Some(memory) => Ok(memory),
            none => {
                let memory = MmapMut::map_anon(CHUNK)?;
                let advice = match pages {
                    Pages::Huge => Advice::HugePage,
                    Pages::Small => Advice::NoHugePage,
                };
                // This is only advice: a kernel without huge pages rejects it, and nothing else changes.
                let _ = memory.advise(advice);
                Ok(none.insert(memory))
            }
        }
    }

    fn zero_part(&mut self, mut at: usize, end: usize) {
        let Some(memory) = &mut self.memory else { return };
        while at < end {
            let page = at / PAGE;
            let until = end.min((page + 1) * PAGE);
            // Pages that are not in use are zero already, and stay untouched.
            if self.in_use[page / 64] >> (page % 64) & 1 == 1 {
                memory[at..until].fill(0);
            }
            at = until;
        }
    }

    fn free_pages(&mut self, bytes: Range<usize>) {
        let used = self.runs(bytes.start, bytes.end).any(|(_, in_use)| in_use);
        let Some(memory) = &mut self.memory else { return };
        if !used {
            return;
        }
        return_pages(memory, bytes.clone());
        self.mark(bytes.start / PAGE..bytes.end / PAGE, false);
        if self.in_use == [0; WORDS] {
            self.memory = None;
        }
    }

    fn mark(&mut self, pages: Range<usize>, in_use: bool) {
        for word in pages.start / 64..pages.end.div_ceil(64) {
            let (first, end) = (pages.start.max(word * 64) % 64, pages.end.min(word * 64 + 64) - word * 64);
            let bits = (u64::MAX >> (64 - (end - first))) << first;
            match in_use {
                true => self.in_use[word] |= bits,
                false => self.in_use[word] &= !bits,
            }
        }
    }

    /// Returns the runs of pages that `at..end` touches, as byte ranges that are alternately in use and not in use.
    fn runs(&self, at: usize, end: usize) -> impl Iterator<Item = (Range<usize>, bool)> + '_ {
        let (mut page, last) = (at / PAGE, end.div_ceil(PAGE));
        std::iter::from_fn(move || {
            let first = page;
            if first >= last {
                return None;
            }
            let in_use = self.in_use[first / 64] >> (first % 64) & 1 == 1;
            while page < last {
                // One bit per page, set if the state of the page differs from that of the run.
                let word = if in_use { !self.in_use[page / 64] } else { self.in_use[page / 64] };
                let same = (word >> (page % 64)).trailing_zeros() as usize;
                let left = 64 - page % 64;
                page += same.min(left);
                if same < left {
                    break;
                }
            }
            page = page.min(last);
            Some((first * PAGE..page * PAGE, in_use))
        })
    }
}

/// Returns whole pages to the system. The pages hold zeroes afterwards.
#[allow(unsafe_code)]
fn return_pages(memory: &mut MmapMut, bytes: Range<usize>) {
    assert!(bytes.start.is_multiple_of(PAGE) && bytes.end.is_multiple_of(PAGE) && bytes.end <= memory.len());
    // SAFETY: MADV_DONTNEED on a private anonymous mapping replaces its pages by zeroes immediately, which is a write
    // through the exclusive reference `memory`. The range lies in the mapping, and no other mapping contains these
    // pages.
    let advised =
        unsafe { memory.unchecked_advise_range(UncheckedAdvice::DontNeed, bytes.start, bytes.len()) };
    if advised.is_err() {
        // The system does not take back locked memory, for example.
        memory[bytes].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_the_range_and_alternate() {
        let mut chunk = Chunk::default();
        for page in [0, 1, 63, 64, 65, 200] {
            chunk.mark(page..page + 1, true);
        }
        let pages = |(bytes, in_use): (Range<usize>, bool)| (bytes.start / PAGE, bytes.end / PAGE, in_use);
        let runs: Vec<_> = chunk.runs(0, 256 * PAGE).map(pages).collect();
        let expected = [
            (0, 2, true),
            (2, 63, false),
            (63, 66, true),
            (66, 200, false),
            (200, 201, true),
            (201, 256, false),
        ];
        assert_eq!(runs, expected);
        let odd: Vec<_> = chunk.runs(5000, 5001).map(pages).collect();
        assert_eq!(odd, [(1, 2, true)]);
    }

    #[test]
    fn a_chunk_without_pages_in_use_has_no_memory() {
        let mut chunk = Chunk::default();
        chunk.write(5000, &[7; 10_000], Pages::Small, false).expect("there is memory");
        chunk.free(8192, 12288);
        assert!(chunk.memory.is_some());
        chunk.free(0, CHUNK);
        assert!(chunk.memory.is_none());
    }
}
