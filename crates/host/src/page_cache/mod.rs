//! The page cache: buffered reads and writes become requests to a device (Linux 6.1, mm/ and fs/fs-writeback.c).
//!
//! - A write copies its pages into the cache and returns. If the write covers only a part of a page that is
//!   not cached, the cache reads that page first.
//! - A timer looks for files whose oldest dirty page is 30 s old. Above the background threshold, the flusher
//!   writes back at once. Above the midpoint of the two thresholds, writers pause so that the amount of dirty
//!   data stays below the limit (`dirty_limits`).
//! - `BLKFLSBUF` writes back a raw device and drops its pages; `POSIX_FADV_DONTNEED` begins to write back a
//!   file and drops its clean pages. fio calls one of the two between its loops.
//! - `fsync` and `fdatasync` write the dirty pages of a file, wait for them, and flush the cache of the device.
//! - Adjacent pages merge into requests (`writer`), read-ahead follows streams (`read_ahead`), and reads precede writes
//!   in the queue (`queue`).
//!
//! Calls and write-back share the processors. `Settings` states the number of processors and the processor
//! time of each step. The same calls give the same results.
//!
//! Not modelled: metadata of filesystems, memory that programs take from the cache, write-back by memory
//! reclaim, large folios, and io_uring's workers.

mod bandwidth;
mod cached;
mod call;
mod calls;
mod dirty_limits;
mod flusher;
mod groups;
mod pages;
mod parameters;
mod processors;
mod queue;
mod read_ahead;
mod throttle;
mod writer;
mod writer_pauses;

pub use cached::Cached;
pub use parameters::{PAGE, PageCacheParameters, Settings};
pub use read_ahead::Advice;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bandwidth::Bandwidth;
use calls::{CallId, Calls};
use dirty_limits::DirtyLimits;
use flashlab_sim::{Agenda, Completion, FileId, Instant, Model, Op, Status};
use flusher::Flusher;
use groups::{Group, Groups};
use pages::{IoId, PageKey, Pages};
use processors::Processors;
use queue::{Io, Queue};
use read_ahead::{ReadAhead, ReadLimits};
use throttle::Throttle;
use writer::Run;
use writer_pauses::WriterPauses;

/// Longest read that completes as a whole: 256 pages (`BIO_MAX_VECS`).
const BIO_PAGES: u64 = 256;

/// A file that jobs use through the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CachedFile {
    size: u64,
    /// True if the device has data in all of the file, so that a write to a part of a page reads the page first.
    has_data: bool,
}

/// An event of the cache itself, as opposed to a completion of the device.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A call continues.
    Step(CallId),
    /// The flusher continues.
    Flusher,
    /// The flusher's timer expires.
    Timer,
    /// A window of the write throttle ends.
    Window,
}

/// Counters of the cache. All but `pauses` count pages of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Pages that calls read.
    pub read: u64,
    /// Pages read from the device.
    pub from_device: u64,
    /// Pages that calls wrote.
    pub written: u64,
    /// Pages written back to the device.
    pub written_back: u64,
    /// Pauses of writers above the dirty limits.
    pub pauses: u64,
}

/// The page cache of a host.
#[derive(Clone, Debug)]
pub struct PageCache {
    settings: Settings,
    limits: DirtyLimits,
    bandwidth: Bandwidth,
    pages: Pages,
    queue: Queue,
    files: BTreeMap<FileId, CachedFile>,
    read_ahead: ReadAhead,
    calls: Calls,
    groups: Groups,
    flusher: Flusher,
    agenda: Agenda<Event>,
    processors: Processors,
    pauses: WriterPauses,
    /// Errors of write-back that no call has reported.
    errors: BTreeMap<FileId, Status>,
    counters: Counters,
}

impl PageCache {
    /// Returns an empty cache.
    pub fn new(settings: Settings) -> PageCache {
        let limits = DirtyLimits::new(&settings);
        PageCache {
            settings,
            limits,
            bandwidth: Bandwidth::new(),
            pages: Pages::new(settings.pages()),
            queue: Queue::new(settings.tags),
            files: BTreeMap::new(),
            read_ahead: ReadAhead::default(),
            calls: Calls::default(),
            groups: Groups::default(),
            flusher: Flusher::default(),
            agenda: Agenda::new(),
            processors: Processors::new(settings.processors),
            pauses: WriterPauses::new(),
            errors: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the counters since the last call of this function.
    pub fn take_counters(&mut self) -> Counters {
        core::mem::take(&mut self.counters)
    }

    /// Sets the read-ahead advice for the jobs that follow.
    pub fn set_advice(&mut self, advice: Advice) {
        self.read_ahead.set_advice(advice);
    }

    /// Describes a file. If `has_data` is true, a write to a part of a page that is not cached reads the page
    /// first. Otherwise zeroes fill the rest of the page, as in space that a filesystem has only allocated.
    pub fn set_file(&mut self, file: FileId, size: u64, has_data: bool) {
        self.files.insert(file, CachedFile { size, has_data });
    }

    /// Returns a model of `device` under this cache.
    pub fn over<'a>(&'a mut self, device: &'a mut dyn Model) -> Cached<'a> {
        Cached::new(self, device)
    }

    /// Writes back all dirty pages at `now`, as the last close of a block device does, and forgets all pages. The
    /// device's own cache is not flushed. Returns the instant at which no request is in flight any more. The caller
    /// ensures that no call is in progress.
    pub fn close(&mut self, device: &mut dyn Model, now: Instant) -> Instant {
        assert!(self.calls.is_empty(), "the jobs have ended");
        self.catch_up(device, now);
        let mut at = now;
        if self.flusher.begin_close() {
            self.agenda.insert(now, Event::Flusher);
        }
        while self.pages.dirty_or_in_writeback() > 0 || self.queue.len() > 0 {
            at = self.next_event(device, Instant::MAX).expect("write-back goes on until all pages are clean");
        }
        self.pages.drop_clean();
        self.agenda.clear();
        self.read_ahead.forget_all();
        self.files.clear();
        self.flusher.end_close();
        *self.queue.throttle() = Throttle::default();
        at.max(now)
    }

    /// Executes the events up to `now`.
    fn catch_up(&mut self, device: &mut dyn Model, now: Instant) {
        while self.next_event(device, now).is_some() {}
    }

    /// Returns the instant of the next event.
    fn next_due(&self, device: &dyn Model) -> Option<Instant> {
        let device = if self.queue.is_busy() { device.next_due() } else { None };
        let own = self.calls.next_completion().or(self.agenda.next_due());
        [device, own].into_iter().flatten().min()
    }

    /// Executes the next event at or before `limit`. Returns its instant.
    fn next_event(&mut self, device: &mut dyn Model, limit: Instant) -> Option<Instant> {
        let bound = self.agenda.next_due().map_or(limit, |due| due.min(limit));
        if self.queue.is_busy()
            && let Some(done) = device.complete(bound)
        {
            self.handle_completion(device, &done);
            return Some(done.at);
        }
        let (at, event) = self.agenda.pop(limit)?;
        match event {
            Event::Step(call) => self.step(device, call, at),
            Event::Flusher => self.step_flusher(device, at),
            Event::Timer => self.handle_timer(at),
            Event::Window => self.end_window(at),
        }
        Some(at)
    }

    /// Makes a group of requests for adjacent pages, and adds them to `plug`, from which the caller submits them.
    /// Returns the number of the group.
    fn stage(
        &mut self,
        device: &dyn Model,
        op: Op,
        file: FileId,
        (start, count): (PageKey, u64),
        plug: &mut Vec<Io>,
    ) -> IoId {
        let group = self.groups.next_id();
        let before = plug.len();
        if op.is_flush() {
            plug.push(Io { group, op, file, offset: 0, length: 0 });
        } else {
            let (mut from, most) = (start.index() * PAGE, self.request_max(device));
            let end = (from + count * PAGE).min(device.geometry().capacity);
            while from < end {
                let length = most.min(end - from);
                plug.push(Io { group, op, file, offset: from, length });
                from += length;
            }
        }
        let outstanding = (plug.len() - before) as u32;
        self.groups.add(op, file, (start, count), outstanding);
        group
    }

    /// Makes the requests that write back a run of dirty pages, and adds them to `plug`.
    fn stage_write(&mut self, device: &dyn Model, file: FileId, run: Run, plug: &mut Vec<Io>) {
        let group = self.stage(device, Op::Write, file, (run.start, run.pages), plug);
        self.pages.begin_writeback(run.start, run.pages, group);
        self.note_written(file);
    }

    /// Returns the size of the largest request in bytes, in whole pages.
    fn request_max(&self, device: &dyn Model) -> u64 {
        (self.settings.request_max.min(device.geometry().request_max) & !(PAGE - 1)).max(PAGE)
    }

    fn handle_completion(&mut self, device: &mut dyn Model, done: &Completion) {
        let io = self.queue.completed(done.id, done.at);
        self.queue.dispatch(done.at, device);
        let ended = self.groups.complete_request(io.group, done.status);
        if io.op.is_write() {
            self.bandwidth.count(io.length.div_ceil(PAGE), done.at);
        }
        if let Some(group) = ended {
            self.end_group(io.group, group, done);
        }
        if io.op.is_write() {
            self.wake_for_room(done.at);
        }
    }

    fn end_group(&mut self, id: IoId, group: Group, done: &Completion) {
        let Group { pages: (start, count), file, op, status, waiters, .. } = group;
        match op {
            Op::Read => self.pages.end_read(start, count, id, status == Status::Ok),
            op if op.is_write() => {
                self.pages.end_writeback(start, count);
                self.counters.written_back += count;
                self.flusher.has_written();
                if status != Status::Ok {
                    self.errors.insert(file, status);
                }
            }
            _ => {}
        }
        for call in waiters {
            self.wake(call, status, done);
        }
    }

    /// Lets submitters continue once enough writes are complete.
    fn wake_for_room(&mut self, now: Instant) {
        let has_paused = self.pauses.is_recent(now);
        if !self.queue.throttle().wakes(self.groups.write_count(), has_paused) {
            return;
        }
        for call in self.calls.take_awaiting_room() {
            self.agenda.insert(now, Event::Step(call));
        }
        if self.flusher.awaits_room() {
            self.flusher.resume();
            self.agenda.insert(now, Event::Flusher);
        }
    }

    /// Begins a window of the write throttle, if none is in progress.
    fn begin_window(&mut self, now: Instant) {
        if let Some(window) = self.queue.throttle().begin_window() {
            self.agenda.insert(now + window, Event::Window);
        }
    }

    /// Adjusts the limits at the end of a window. A waiting writer notices raised limits at the next completion.
    fn end_window(&mut self, now: Instant) {
        let (in_flight, has_paused) = (self.groups.write_count(), self.pauses.is_recent(now));
        if let Some(window) = self.queue.throttle().end_window(now, in_flight, has_paused) {
            self.agenda.insert(now + window, Event::Window);
        }
    }

    /// Returns the limit on writes in flight for the flusher.
    fn flusher_limit(&mut self, now: Instant, closes: bool) -> usize {
        let has_paused = self.pauses.is_recent(now);
        let throttle = self.queue.throttle();
        match closes {
            _ if has_paused => throttle.limit(),
            true => throttle.close_limit(),
            false => throttle.background_limit(),
        }
    }

    /// Returns the limit on writes in flight for writes that a call waits for.
    fn sync_limit(&mut self) -> usize {
        self.queue.throttle().limit()
    }

    /// Returns the limits of read-ahead windows.
    fn read_limits(&self, device: &dyn Model) -> ReadLimits {
        self.read_ahead.limits(self.settings.read_ahead / PAGE, self.request_max(device) / PAGE)
    }
}
