//! Conversion of dirty pages to requests (Linux 6.1, mm/page-writeback.c: `write_cache_pages`; block/blk-mq.c: plugs).
//!
//! Each page is submitted alone, in ascending order. The block layer merges it with the last request of the submitter's
//! plug if it follows that request directly and the size limit of a request permits it. The plug's requests reach the
//! device when there are 32 of them, when the last one has 128 KiB or more and another one begins, or at the end.

use super::PAGE;
use super::pages::{IoId, PageKey, Pages};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Maximum number of requests in a plug (`BLK_MAX_REQUEST_COUNT`).
const PLUG_REQUESTS: usize = 32;
/// Size from which a request empties the plug when another one follows (`BLK_PLUG_FLUSH_SIZE`).
const PLUG_BYTES: u64 = 128 << 10;

/// A request of a plug: adjacent dirty pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) start: PageKey,
    pub(super) pages: u64,
}

/// The next step of a writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Plug {
    /// These requests reach the device together.
    Requests(Vec<Run>),
    /// The next page is part of this write, for which the writer waits.
    Blocked(IoId),
    /// Nothing is left.
    Empty,
}

/// Pages that a call or the flusher writes back.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pages: VecDeque<PageKey>,
    /// True if the writer waits for pages in write-back (`WB_SYNC_ALL`); otherwise it leaves them dirty.
    waits: bool,
}

impl Writer {
    /// Returns a writer of `pages`, which are in ascending order.
    pub(super) fn new(pages: impl Iterator<Item = PageKey>, waits: bool) -> Writer {
        Writer { pages: pages.collect(), waits }
    }

    /// Takes the requests of the next plug, of at most `request_max` bytes each and at most `room` in number.
    pub(super) fn next_plug(&mut self, pages: &Pages, request_max: u64, room: usize) -> Plug {
        let most = request_max / PAGE;
        let mut runs: Vec<Run> = Vec::new();
        while let Some(&page) = self.pages.front() {
            // Skips a page that another writer has written in the meantime.
            if !pages.is_dirty(page) {
                self.pages.pop_front();
                continue;
            }
            if let Some(io) = pages.writeback_of(page) {
                if !self.waits {
                    self.pages.pop_front();
                    continue;
                }
                return if runs.is_empty() { Plug::Blocked(io) } else { Plug::Requests(runs) };
            }
            let full = runs.len() >= PLUG_REQUESTS.min(room.max(1));
            match runs.last_mut() {
                Some(run) if run.follows(page) && run.pages < most => run.pages += 1,
                Some(_) if full => break,
                Some(run) if run.pages * PAGE >= PLUG_BYTES => break,
                _ => runs.push(Run { start: page, pages: 1 }),
            }
            self.pages.pop_front();
        }
        if runs.is_empty() { Plug::Empty } else { Plug::Requests(runs) }
    }
}

impl Run {
    /// Returns true if `page` is the page after this run.
    fn follows(&self, page: PageKey) -> bool {
        page.index() == self.start.index() + self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::FileId;

    fn dirty(indices: impl Iterator<Item = u64>) -> Pages {
        let mut pages = Pages::new(1 << 20);
        indices.for_each(|index| _ = pages.make_dirty(PageKey::new(FileId::DEVICE, index)));
        pages
    }

    /// Returns the requests of each plug as (first page, pages).
    fn plugs(pages: &Pages, request_max: u64) -> Vec<Vec<(u64, u64)>> {
        let mut writer = Writer::new(pages.dirty_from(FileId::DEVICE, 0), true);
        let mut plugs = Vec::new();
        while let Plug::Requests(runs) = writer.next_plug(pages, request_max, 128) {
            plugs.push(runs.iter().map(|run| (run.start.index(), run.pages)).collect());
        }
        plugs
    }

    #[test]
    fn adjacent_pages_merge_up_to_the_largest_request() {
        assert_eq!(plugs(&dirty(0..300), 512 << 10), [[(0, 128)], [(128, 128)], [(256, 44)]]);
        assert_eq!(plugs(&dirty([3, 4, 9].into_iter()), 512 << 10), [[(3, 2), (9, 1)]]);
    }

    #[test]
    fn a_plug_holds_32_requests() {
        let found = plugs(&dirty((0..70).map(|n| n * 2)), 512 << 10);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32, 6]);
    }

    #[test]
    fn a_request_of_128_kib_empties_the_plug_when_another_one_begins() {
        assert_eq!(plugs(&dirty((0..32).chain(40..42)), 512 << 10), [[(0, 32)], [(40, 2)]]);
        assert_eq!(plugs(&dirty((0..31).chain(40..42)), 512 << 10), [[(0, 31), (40, 2)]]);
    }

    #[test]
    fn only_a_synchronous_writer_waits_for_pages_in_writeback() {
        let mut pages = dirty(0..3);
        pages.begin_writeback(PageKey::new(FileId::DEVICE, 1), 1, 7);
        pages.make_dirty(PageKey::new(FileId::DEVICE, 1));
        let mut flusher = Writer::new(pages.dirty_from(FileId::DEVICE, 0), false);
        let Plug::Requests(runs) = flusher.next_plug(&pages, 1 << 20, 128) else {
            panic!("two pages are free")
        };
        assert_eq!(runs.iter().map(|run| run.pages).collect::<Vec<_>>(), [1, 1]);
        let mut call = Writer::new(pages.dirty_from(FileId::DEVICE, 0), true);
        assert!(matches!(call.next_plug(&pages, 1 << 20, 128), Plug::Requests(_)));
        pages.begin_writeback(PageKey::new(FileId::DEVICE, 0), 1, 8);
        assert_eq!(call.next_plug(&pages, 1 << 20, 128), Plug::Blocked(7));
    }
}
