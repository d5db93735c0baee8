//! Read-ahead windows (Linux 6.1, mm/readahead.c).
//!
//! A sequential stream begins with a window of two or four times its request. A page in the window is
//! marked. The read that reaches the mark starts the next window before the reader reaches the end of the
//! current one. Each window is two or four times as large as the one before it, up to the largest window.
//! Reads outside of a stream read only their own pages. `POSIX_FADV_SEQUENTIAL` doubles the largest window,
//! and `POSIX_FADV_RANDOM` turns read-ahead off; fio chooses one of the two according to the access pattern
//! of the job.
//!
//! All indices count pages of one file.

use alloc::collections::VecDeque;
use flashlab_sim::FileId;

/// Maximum number of read streams whose windows are kept.
const WINDOWS: usize = 64;

/// Advice that `posix_fadvise` gives for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Advice {
    /// No advice.
    #[default]
    Normal,
    /// `POSIX_FADV_SEQUENTIAL`.
    Sequential,
    /// `POSIX_FADV_RANDOM`.
    Random,
}

/// Pages to read. The pages from `mark` on are read before a reader asks for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReadPlan {
    pub(super) start: u64,
    pub(super) pages: u64,
    /// Index of the page whose reader starts the next window.
    pub(super) mark: Option<u64>,
}

/// Limits of the windows, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReadLimits {
    /// Largest window: `ra_pages`.
    pub(super) window: u64,
    /// Largest request of the device: `io_pages`.
    pub(super) request: u64,
    pub(super) advice: Advice,
}

/// State of one stream of reads, which Linux keeps for each open file (`file_ra_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Window {
    start: u64,
    size: u64,
    async_size: u64,
    /// Page of the first byte after the last read; `None` before the first read.
    previous: Option<u64>,
}

/// Advice and windows of all streams.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadAhead {
    advice: Advice,
    /// Windows of streams without a read in progress. The last one was used most recently.
    windows: VecDeque<(FileId, Window)>,
}

impl ReadAhead {
    /// Sets the advice for the jobs that follow.
    pub(super) fn set_advice(&mut self, advice: Advice) {
        self.advice = advice;
    }

    /// Returns the limits of windows, for a largest window and a largest request without advice.
    pub(super) fn limits(&self, window: u64, request: u64) -> ReadLimits {
        let window = if self.advice == Advice::Sequential { window * 2 } else { window };
        ReadLimits { window, request, advice: self.advice }
    }

    /// Takes the window of the stream that a read at page `index` of `file` continues. Returns a new window
    /// if no stream matches. If there is no room for another window, drops the one that has been idle for
    /// longest.
    pub(super) fn take(&mut self, file: FileId, index: u64) -> Window {
        let continues = |(of, window): &(FileId, Window)| {
            *of == file && window.previous.is_some_and(|previous| index.wrapping_sub(previous) <= 1)
        };
        let known = self.windows.iter().rposition(continues);
        if let Some(place) = known {
            return self.windows.remove(place).expect("the place was found").1;
        }
        if self.windows.len() >= WINDOWS {
            self.windows.pop_front();
        }
        Window::default()
    }

    /// Keeps the window of a stream of `file` after a read.
    pub(super) fn put_back(&mut self, file: FileId, window: Window) {
        self.windows.push_back((file, window));
    }

    /// Drops the windows of `file`.
    pub(super) fn forget(&mut self, file: FileId) {
        self.windows.retain(|(of, _)| *of != file);
    }

    /// Drops all windows.
    pub(super) fn forget_all(&mut self) {
        self.windows.clear();
    }
}

impl Window {
    /// Notes that a read ended at byte `end`.
    pub(super) fn set_previous(&mut self, end: u64) {
        self.previous = Some(end / super::PAGE);
    }

    /// Returns the pages to read when page `index` is not in the cache, for a reader of `wanted` pages from there on.
    /// `history` returns the number of cached pages directly before `index`, up to a limit.
    pub(super) fn miss(
        &mut self,
        index: u64,
        wanted: u64,
        limits: &ReadLimits,
        history: impl FnOnce(u64) -> u64,
    ) -> ReadPlan {
        if limits.advice == Advice::Random {
            let pages = wanted.min(limits.request.max(limits.window));
            return ReadPlan { start: index, pages, mark: None };
        }
        let most = largest(wanted, limits);
        if index == 0 {
            return self.begin(index, wanted, most);
        }
        if index == self.start + self.size - self.async_size || index == self.start + self.size {
            return self.advance(index, most);
        }
        let is_sequential = self.previous.is_some_and(|previous| index.wrapping_sub(previous) <= 1);
        if wanted > most || is_sequential {
            return self.begin(index, wanted, most);
        }
        let before = history(most);
        if before > wanted {
            let size = if before >= index { before * 2 } else { before };
            (self.start, self.size, self.async_size) = (index, (size + wanted).min(most), 1);
            return self.read(index, most);
        }
        ReadPlan { start: index, pages: wanted, mark: None }
    }

    /// Returns the pages to read when a reader of `wanted` pages reaches the marked page `index`, or `None` if enough
    /// pages after it are cached. `next_miss` returns the first page from an index on that is not cached, up to a
    /// limit.
    pub(super) fn mark_reached(
        &mut self,
        index: u64,
        wanted: u64,
        limits: &ReadLimits,
        next_miss: impl FnOnce(u64, u64) -> Option<u64>,
    ) -> Option<ReadPlan> {
        let most = largest(wanted, limits);
        if index == 0 {
            return Some(self.begin(index, wanted, most));
        }
        if index == self.start + self.size - self.async_size || index == self.start + self.size {
            return Some(self.advance(index, most));
        }
        let start = next_miss(index + 1, most)?;
        self.start = start;
        self.size = next_size(start - index + wanted, most);
        self.async_size = self.size;
        Some(self.read(index, most))
    }

    fn begin(&mut self, index: u64, wanted: u64, most: u64) -> ReadPlan {
        self.start = index;
        self.size = initial_size(wanted, most);
        self.async_size = if self.size > wanted { self.size - wanted } else { self.size };
        self.read(index, most)
    }

    fn advance(&mut self, index: u64, most: u64) -> ReadPlan {
        self.start += self.size;
        self.size = next_size(self.size, most);
        self.async_size = self.size;
        self.read(index, most)
    }

    /// Returns the pages of the window. If the present read would itself reach the mark, the next window is
    /// merged into this one.
    fn read(&mut self, index: u64, most: u64) -> ReadPlan {
        if index == self.start && self.size == self.async_size {
            let more = next_size(self.size, most);
            if self.size + more <= most {
                self.async_size = more;
                self.size += more;
            } else {
                self.size = most;
                self.async_size = most / 2;
            }
        }
        let mark = Some(self.start + self.size - self.async_size);
        ReadPlan { start: self.start, pages: self.size, mark }
    }
}

fn largest(wanted: u64, limits: &ReadLimits) -> u64 {
    if wanted > limits.window && limits.request > limits.window {
        wanted.min(limits.request)
    } else {
        limits.window
    }
}

/// Returns the size of a stream's first window.
fn initial_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// Returns the size of the window after one of `size` pages.
fn next_size(size: u64, most: u64) -> u64 {
    if size < most / 16 {
        size * 4
    } else if size <= most / 2 {
        size * 2
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const LINUX: ReadLimits = ReadLimits { window: 32, request: 128, advice: Advice::Normal };

    #[test]
    fn a_stream_of_pages_doubles_its_window_up_to_128_kib() {
        let mut window = Window::default();
        let first = window.miss(0, 1, &LINUX, |_| 0);
        assert_eq!(first, ReadPlan { start: 0, pages: 4, mark: Some(1) });
        let mut mark = 1;
        let mut windows = Vec::new();
        for _ in 0..5 {
            let plan = window.mark_reached(mark, 1, &LINUX, |_, _| None).expect("the stream goes on");
            windows.push((plan.start, plan.pages));
            mark = plan.mark.expect("each window has a mark");
        }
        assert_eq!(windows, [(4, 8), (12, 16), (28, 32), (60, 32), (92, 32)]);
    }

    #[test]
    fn sequential_advice_keeps_the_first_window_and_random_advice_turns_read_ahead_off() {
        let sequential = ReadLimits { window: 64, advice: Advice::Sequential, ..LINUX };
        let mut window = Window::default();
        assert_eq!(window.miss(0, 1, &sequential, |_| 0).pages, 4);
        let random = ReadLimits { advice: Advice::Random, ..LINUX };
        let plan = Window::default().miss(0, 1, &random, |_| 0);
        assert_eq!(plan, ReadPlan { start: 0, pages: 1, mark: None });
    }

    #[test]
    fn a_random_read_reads_its_own_pages_unless_pages_before_it_are_cached() {
        let mut window = Window::default();
        assert_eq!(window.miss(1_000, 1, &LINUX, |_| 0), ReadPlan { start: 1_000, pages: 1, mark: None });
        assert_eq!(window.miss(2_000, 2, &LINUX, |_| 6).pages, 8, "the pages before it belong to a stream");
    }

    #[test]
    fn a_read_as_large_as_the_window_reads_the_whole_window() {
        let plan = Window::default().miss(0, 32, &LINUX, |_| 0);
        assert_eq!(plan, ReadPlan { start: 0, pages: 32, mark: Some(16) });
        let oversized = Window::default().miss(0, 64, &LINUX, |_| 0);
        assert_eq!((oversized.pages, oversized.mark), (64, Some(32)));
    }
}
