//! The flusher: write-back that no call waits for (Linux 6.1, fs/fs-writeback.c).
//!
//! While a page is dirty, a timer expires every five seconds, rounded up to the granularity of the kernel's
//! timer wheel. On expiry, files whose first dirty page is 30 s old are written until they are clean. Above
//! the background threshold, files are written in turn, at least 4 MiB of each at a time, until the amount of
//! dirty data is below the threshold. A device to which nothing has been written back yet has no share of the
//! threshold, so the first timer writes back at least one part of a file.

use super::pages::PageKey;
use super::queue::Io;
use super::writer::{Plug, Writer};
use super::{Event, PageCache};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use flashlab_sim::{Duration, FileId, Instant, Model};

/// Granularity of timers of 2 to 16 s at 250 Hz (kernel/time/timer.c): 64 ticks.
const TIMER_GRID: Duration = Duration::from_ms(256);
/// Minimum number of pages of a file that are written at a time (`MIN_WRITEBACK_PAGES`).
const PART_MIN: u64 = 1024;

/// Reason why the flusher writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// The background threshold is exceeded.
    Background,
    /// Files that became dirty at or before this instant have expired.
    Expired(Instant),
    /// The last close of a device writes everything.
    Close,
}

/// State of the flusher.
#[derive(Clone, Debug, Default)]
pub(super) struct Flusher {
    work: Option<Work>,
    /// True if the agenda holds an event of the flusher, or the flusher waits for room.
    is_active: bool,
    awaits_room: bool,
    /// File of the current part, and the writer of its pages.
    writer: Option<(FileId, Writer)>,
    /// Requests that reach the queue when their processor time is over.
    plug: Vec<Io>,
    timer_is_set: bool,
    /// Instant at which each file with dirty pages became dirty.
    dirty_since: BTreeMap<FileId, Instant>,
    /// Page of each file at which the next part begins.
    next_index: BTreeMap<FileId, u64>,
    last_file: Option<FileId>,
    /// True once a page of the device has been written back.
    has_history: bool,
}

impl Flusher {
    pub(super) fn awaits_room(&self) -> bool {
        self.awaits_room
    }
    pub(super) fn resume(&mut self) {
        self.awaits_room = false;
    }
    /// Begins to write everything. Returns true if the flusher needs an event to continue.
    pub(super) fn begin_close(&mut self) -> bool {
        self.work = Some(Work::Close);
        let is_idle = !self.is_active || self.awaits_room;
        (self.is_active, self.awaits_room) = (true, false);
        is_idle
    }
    pub(super) fn end_close(&mut self) {
        let has_history = self.has_history;
        *self = Flusher { has_history, ..Flusher::default() };
    }
    /// Notes that a page of the device has been written back.
    pub(super) fn has_written(&mut self) {
        self.has_history = true;
    }

    /// Returns the files that are due, beginning with the files after `last_file`.
    fn due_files(&self, work: Work) -> Vec<FileId> {
        let is_due = |since: Instant| match work {
            Work::Background | Work::Close => true,
            Work::Expired(before) => since <= before,
        };
        let due = self.dirty_since.iter().filter(|(_, since)| is_due(**since)).map(|(file, _)| *file);
        let mut due: Vec<FileId> = due.collect();
        let turn = due.partition_point(|file| self.last_file.is_some_and(|last| *file <= last));
        due.rotate_left(turn);
        due
    }
}

impl PageCache {
    /// Notes that a page of `file` became dirty at `now`. Starts the timer if it is not running.
    pub(super) fn note_dirty(&mut self, file: FileId, now: Instant) {
        self.flusher.dirty_since.entry(file).or_insert(now);
        self.set_timer(now);
    }

    /// Notes that pages of `file` went into write-back.
    pub(super) fn note_written(&mut self, file: FileId) {
        if !self.pages.has_dirty(file) {
            self.flusher.dirty_since.remove(&file);
        }
    }

    fn set_timer(&mut self, now: Instant) {
        if !self.flusher.timer_is_set && self.settings.writeback_interval > Duration::ZERO {
            self.flusher.timer_is_set = true;
            let due = (now + self.settings.writeback_interval).as_ns();
            let at = Instant::from_ns(due.next_multiple_of(TIMER_GRID.as_ns()));
            self.agenda.insert(at, Event::Timer);
        }
    }

    pub(super) fn handle_timer(&mut self, now: Instant) {
        self.flusher.timer_is_set = false;
        if self.flusher.dirty_since.is_empty() {
            return;
        }
        if self.flusher.work.is_none() {
            let before = now.since(Instant::ZERO);
            let expired =
                (before >= self.settings.expire).then(|| Instant::ZERO + (before - self.settings.expire));
            let has_expired = expired.is_some_and(|at| self.flusher.dirty_since.values().any(|s| *s <= at));
            if has_expired {
                self.begin_work(Work::Expired(expired.expect("a file has expired")), now);
            } else if !self.flusher.has_history || self.is_above_background() {
                self.begin_work(Work::Background, now);
            }
        }
        self.set_timer(now);
    }

    fn is_above_background(&self) -> bool {
        self.limits.is_above_background(self.pages.dirty())
    }

    /// Starts the flusher if the background threshold is exceeded and the flusher is idle.
    pub(super) fn check_background(&mut self, now: Instant) {
        if self.flusher.work.is_none() && self.is_above_background() {
            self.begin_work(Work::Background, now);
        }
    }

    fn begin_work(&mut self, work: Work, now: Instant) {
        self.flusher.work = Some(work);
        if !self.flusher.is_active {
            self.flusher.is_active = true;
            if !self.queue.is_busy() {
                self.bandwidth.resume(now);
            }
            self.agenda.insert(now, Event::Flusher);
        }
    }

    /// Submits the requests that are built, and builds the next ones.
    pub(super) fn step_flusher(&mut self, device: &mut dyn Model, now: Instant) {
        for io in core::mem::take(&mut self.flusher.plug) {
            self.queue.push(io);
        }
        self.queue.dispatch(now, device);
        loop {
            let limit = self.flusher_limit(now, self.flusher.work == Some(Work::Close));
            let room = limit.saturating_sub(self.groups.write_count());
            if room == 0 {
                self.flusher.awaits_room = true;
                return;
            }
            let request_max = self.request_max(device);
            let Some((file, writer)) = &mut self.flusher.writer else {
                if self.begin_part() {
                    continue;
                }
                self.flusher.work = None;
                self.flusher.is_active = false;
                return;
            };
            let file = *file;
            match writer.next_plug(&self.pages, request_max, room) {
                Plug::Requests(runs) => {
                    let pages: u64 = runs.iter().map(|run| run.pages).sum();
                    let time = self.settings.t_writeback * pages + self.settings.t_submit;
                    let (_, end) = self.processors.reserve(now, time);
                    let mut plug = Vec::new();
                    self.begin_window(now);
                    runs.into_iter().for_each(|run| self.stage_write(device, file, run, &mut plug));
                    self.flusher.plug = plug;
                    self.agenda.insert(end, Event::Flusher);
                    return;
                }
                Plug::Blocked(_) => {
                    // A page that became dirty again is written after its current write completes.
                    self.flusher.awaits_room = true;
                    return;
                }
                Plug::Empty => self.flusher.writer = None,
            }
        }
    }

    /// Chooses the next part of a file. Returns false if nothing is left to do, or if the rest is in write-back.
    fn begin_part(&mut self) -> bool {
        let Some(work) = self.flusher.work else { return false };
        let goes_on = match work {
            Work::Background => !self.flusher.has_history || self.is_above_background(),
            Work::Expired(_) | Work::Close => true,
        };
        goes_on && self.flusher.due_files(work).into_iter().any(|file| self.begin_part_of(file, work))
    }

    /// Begins the next part of `file`. Returns false if all its dirty pages are in write-back.
    fn begin_part_of(&mut self, file: FileId, work: Work) -> bool {
        let part = self.bandwidth.pages_per_second() / 2 + PART_MIN;
        let part = part.min(self.limits.limit() / 8 + PART_MIN) / PART_MIN * PART_MIN;
        let from = self.flusher.next_index.get(&file).copied().unwrap_or(0);
        let from = if self.pages.dirty_from(file, from).next().is_some() { from } else { 0 };
        // Only the last close waits for pages in write-back.
        let waits = work == Work::Close;
        let is_free = |page: &PageKey| waits || self.pages.writeback_of(*page).is_none();
        let pages: Vec<_> = self.pages.dirty_from(file, from).filter(is_free).take(part as usize).collect();
        let Some(last) = pages.last() else {
            self.flusher.next_index.insert(file, 0);
            return false;
        };
        self.flusher.next_index.insert(file, last.index() + 1);
        self.flusher.last_file = Some(file);
        self.flusher.writer = Some((file, Writer::new(pages.into_iter(), waits)));
        true
    }
}
