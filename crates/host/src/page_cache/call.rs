//! Calls of programs, from their arrival to their completion.
//!
//! A call alternates between processor time, waits for groups of requests and pauses of a writer. After its
//! processor time or its pause, an event continues the call. These times sum to the latency of the call.

use super::calls::CallId;
use super::dirty_limits::DirtyLimits;
use super::pages::{IoId, PageKey, PageState};
use super::queue::Io;
use super::read_ahead::{ReadPlan, Window};
use super::writer::{Plug, Writer};
use super::{BIO_PAGES, Event, PAGE, PageCache};
use alloc::vec::Vec;
use flashlab_sim::{Completion, Duration, FileId, Instant, Mechanism, Model, Op, Request, Spent, Status};

/// Pages that a read looks up at a time (`PAGEVEC_SIZE`).
const BATCH: u64 = 15;

/// A call in progress.
#[derive(Clone, Debug)]
pub(super) struct Call {
    request: Request,
    spent: Spent,
    stage: Stage,
    /// Requests that reach the queue when the processor time of the present step is over.
    plug: Vec<Io>,
    /// Number of groups of requests that the call waits for, and the start of the wait.
    waiting: u32,
    waits_since: Option<Instant>,
    status: Status,
}

#[derive(Clone, Debug)]
enum Stage {
    /// The call enters the kernel.
    Enter,
    /// A write reads the pages that it overwrites in part, then copies its data.
    Copy,
    /// The written pages become dirty.
    MakeDirty,
    /// The dirty limits are checked, and the writer may pause.
    Balance,
    /// A read continues at page `index`.
    Read { index: u64, window: Window },
    /// Dirty pages are written back.
    WriteBack(Writer),
    /// The writes of the file are complete, and the device's cache is to be flushed.
    StartFlush,
    /// The call waits for this flush.
    AwaitFlush(IoId),
    /// The writes are complete (for a file of a filesystem, only submitted), and the clean pages of the file are to be
    /// dropped.
    Drop,
    /// The call returns.
    Return,
}

impl PageCache {
    /// Begins the call that `request` describes.
    pub(super) fn begin_call(&mut self, now: Instant, request: Request) {
        let call = Call {
            request,
            spent: Spent::default(),
            stage: Stage::Enter,
            plug: Vec::new(),
            waiting: 0,
            waits_since: None,
            status: Status::Ok,
        };
        let id = self.calls.begin(call);
        self.agenda.insert(now, Event::Step(id));
    }

    /// Continues a call at `at`.
    pub(super) fn step(&mut self, device: &mut dyn Model, id: CallId, at: Instant) {
        let mut call = self.calls.take(id);
        if let Some(since) = call.waits_since.take() {
            call.spent[Mechanism::Queue] += at.since(since);
        }
        if !call.plug.is_empty() {
            call.plug.drain(..).for_each(|io| self.queue.push(io));
            self.queue.dispatch(at, device);
        }
        let goes_on = match call.stage {
            _ if call.status != Status::Ok => false,
            Stage::Enter => self.enter(device, &mut call, id, at),
            Stage::Copy => self.copy(device, &mut call, id, at),
            Stage::MakeDirty => self.make_dirty(&mut call, id, at),
            Stage::Balance => self.balance(&mut call, id, at),
            Stage::Read { .. } => self.read(device, &mut call, id, at),
            Stage::WriteBack(_) => self.write_back_for(device, &mut call, id, at),
            Stage::StartFlush => self.start_flush(device, &mut call, id, at),
            Stage::AwaitFlush(flush) => {
                call.stage = Stage::Return;
                self.wait(&mut call, id, flush, at);
                true
            }
            Stage::Drop => {
                self.drop_file(call.request.file);
                false
            }
            Stage::Return => false,
        };
        if goes_on {
            self.calls.put_back(id, call);
        } else {
            self.return_call(call, at);
        }
    }

    fn return_call(&mut self, call: Call, at: Instant) {
        let Call { request, spent, status, .. } = call;
        let late = if request.op.is_flush() { self.errors.remove(&request.file) } else { None };
        let status = late.unwrap_or(status);
        self.calls.complete(Completion { id: request.id, at, status, spent });
    }

    /// Charges processor time to a call and continues it afterwards.
    fn charge(&mut self, call: &mut Call, id: CallId, at: Instant, time: Duration) {
        let (begin, end) = self.processors.reserve(at, time);
        call.spent[Mechanism::Queue] += begin.since(at);
        call.spent[Mechanism::Host] += time;
        self.agenda.insert(end, Event::Step(id));
    }

    /// Makes a call wait for a group in flight.
    fn wait(&mut self, call: &mut Call, id: CallId, group: IoId, at: Instant) {
        self.groups.add_waiter(group, id);
        call.waiting += 1;
        call.waits_since = Some(at);
    }

    /// Notes the completion of a group that a call waits for. The call continues after its last group.
    pub(super) fn wake(&mut self, id: CallId, status: Status, done: &Completion) {
        let call = self.calls.waiting(id);
        call.waiting -= 1;
        // Write errors belong to the file, and the next `fsync` reports them.
        if status != Status::Ok
            && !matches!(call.stage, Stage::WriteBack(_) | Stage::StartFlush | Stage::Drop)
        {
            call.status = status;
        }
        if call.waiting == 0 {
            let since = call.waits_since.take().expect("the call waits");
            call.spent += clip(&done.spent, done.at.since(since));
            self.agenda.insert(done.at, Event::Step(id));
        }
    }

    fn enter(&mut self, device: &dyn Model, call: &mut Call, id: CallId, at: Instant) -> bool {
        let Request { op, file, offset, length, .. } = call.request;
        let end = offset.checked_add(length);
        let is_within = end.is_some_and(|end| end <= device.geometry().capacity && length > 0);
        call.status = match op {
            _ if op.is_flush() || call.request.drops_pages() => Status::Ok,
            Op::Trim => Status::Unsupported,
            _ if is_within => Status::Ok,
            _ => Status::OutOfRange,
        };
        if call.status != Status::Ok {
            return false;
        }
        call.stage = match op {
            Op::Read => {
                let index = offset / PAGE;
                Stage::Read { index, window: self.read_ahead.take(file, index) }
            }
            op if op.is_flush() => Stage::WriteBack(Writer::new(self.pages.dirty_from(file, 0), true)),
            // `BLKFLSBUF` waits for pages in write-back; `POSIX_FADV_DONTNEED` does not.
            Op::Trim => Stage::WriteBack(Writer::new(self.pages.dirty_from(file, 0), self.is_device(file))),
            _ => Stage::Copy,
        };
        self.charge(call, id, at, self.settings.t_call);
        true
    }

    /// Reads the pages that a write covers in part and that are not cached. Then copies the data.
    fn copy(&mut self, device: &dyn Model, call: &mut Call, id: CallId, at: Instant) -> bool {
        let Request { file, offset, length, .. } = call.request;
        let (first, last) = (offset / PAGE, (offset + length - 1) / PAGE);
        let partial = [
            (first, !offset.is_multiple_of(PAGE) || offset + length < (first + 1) * PAGE),
            (last, !(offset + length).is_multiple_of(PAGE)),
        ];
        for (index, _) in partial.into_iter().filter(|(_, is_partial)| *is_partial) {
            let key = PageKey::new(file, index);
            match self.pages.state(key) {
                PageState::UpToDate => {}
                PageState::Reading(group) => {
                    self.wait(call, id, group, at);
                    return true;
                }
                PageState::Absent if self.has_data(device, file, index) => {
                    let plan = ReadPlan { start: index, pages: 1, mark: None };
                    self.stage_read(device, call, file, plan);
                    self.charge(call, id, at, self.settings.t_submit);
                    return true;
                }
                PageState::Absent => {}
            }
        }
        call.stage = Stage::MakeDirty;
        self.charge(call, id, at, self.settings.t_page * (last - first + 1));
        true
    }

    /// Returns true if the device holds data for a page.
    fn has_data(&self, device: &dyn Model, file: FileId, index: u64) -> bool {
        match self.files.get(&file) {
            Some(known) => known.has_data && index * PAGE < known.size,
            None => index * PAGE < device.geometry().capacity,
        }
    }

    fn make_dirty(&mut self, call: &mut Call, id: CallId, at: Instant) -> bool {
        let Request { file, offset, length, .. } = call.request;
        let (first, last) = (offset / PAGE, (offset + length - 1) / PAGE);
        let newly = (first..=last).filter(|index| self.pages.make_dirty(PageKey::new(file, *index))).count();
        self.note_dirty(file, at);
        self.counters.written += last - first + 1;
        self.pauses.add_dirtied(newly as u64) && self.balance(call, id, at)
    }

    /// Checks the dirty limits. Returns false if the writer does not pause.
    fn balance(&mut self, call: &mut Call, id: CallId, at: Instant) -> bool {
        self.check_background(at);
        let dirty = self.pages.dirty_or_in_writeback();
        let bandwidth = self.bandwidth.pages_per_second();
        let interval = self.limits.poll_interval(dirty, bandwidth);
        let pages = self.pauses.begin_check(interval);
        let Some(rate) = self.limits.rate(dirty, bandwidth) else { return false };
        let pause = DirtyLimits::pause(pages.max(1), rate, interval);
        call.spent[Mechanism::Cache] += pause;
        // At the limit, the writer checks again after its pause.
        call.stage = if rate == 0 { Stage::Balance } else { Stage::Return };
        self.pauses.pause_until(at + pause);
        self.counters.pauses += 1;
        self.agenda.insert(at + pause, Event::Step(id));
        true
    }

    /// Continues a read: starts read-ahead, waits for a page, or copies pages.
    fn read(&mut self, device: &dyn Model, call: &mut Call, id: CallId, at: Instant) -> bool {
        let Stage::Read { mut index, mut window } = call.stage else { unreachable!("the call is a read") };
        let Request { file, offset, length, .. } = call.request;
        let last = (offset + length).div_ceil(PAGE);
        if index >= last {
            window.set_previous(offset + length);
            self.read_ahead.put_back(file, window);
            return false;
        }
        let limits = self.read_limits(device);
        let key = PageKey::new(file, index);
        let mut batch_end = index + 1;
        let state = self.pages.state(key);
        if state == PageState::UpToDate {
            let joins = |page: u64| {
                let (key, before) = (PageKey::new(file, page), PageKey::new(file, page - 1));
                self.pages.state(key) == PageState::UpToDate && !self.pages.is_marked(before)
            };
            let most = last.min(index + BATCH);
            while batch_end < most && joins(batch_end) {
                batch_end += 1;
            }
        }
        let tail = batch_end - 1;
        let plan = if state == PageState::Absent {
            let history = |limit| self.pages.history(key, limit);
            Some(window.miss(index, last - index, &limits, history))
        } else if self.pages.take_mark(PageKey::new(file, tail)) {
            let next_miss =
                |from: u64, limit| self.pages.next_miss(PageKey::new(file, from), limit).map(PageKey::index);
            window.mark_reached(tail, last - tail, &limits, next_miss)
        } else {
            None
        };
        let mut requests = plan.map_or(0, |plan| self.stage_read(device, call, file, plan));
        if state == PageState::Absent && self.pages.state(key) == PageState::Absent {
            // The window of the stream begins after this page, which has been replaced since its read. Linux then reads
            // the page alone.
            let plan = ReadPlan { start: index, pages: 1, mark: None };
            requests += self.stage_read(device, call, file, plan);
        }
        let time = match (requests, state) {
            // A window beyond the end of the file reads nothing.
            (0, PageState::Reading(group)) => {
                call.stage = Stage::Read { index, window };
                self.wait(call, id, group, at);
                return true;
            }
            (0, PageState::UpToDate) => {
                (index..batch_end).for_each(|page| self.pages.touch(PageKey::new(file, page)));
                let pages = batch_end - index;
                self.counters.read += pages;
                index = batch_end;
                window.set_previous((index * PAGE).min(offset + length));
                self.settings.t_page * pages
            }
            (0, PageState::Absent) => unreachable!("a missing page is read"),
            _ => self.settings.t_submit,
        };
        call.stage = Stage::Read { index, window };
        self.charge(call, id, at, time);
        true
    }

    /// Builds the requests of a plan for the pages that are absent. Returns their number.
    fn stage_read(&mut self, device: &dyn Model, call: &mut Call, file: FileId, plan: ReadPlan) -> u64 {
        let size = self.files.get(&file).map_or(device.geometry().capacity, |known| known.size);
        let end = (plan.start + plan.pages).min(size.div_ceil(PAGE).max(plan.start + 1));
        let before = call.plug.len();
        let mut index = plan.start;
        while index < end {
            let is_absent = |index: u64| self.pages.state(PageKey::new(file, index)) == PageState::Absent;
            let pages =
                (index..end.min(index + BIO_PAGES)).take_while(|index| is_absent(*index)).count() as u64;
            if pages == 0 {
                index += 1;
                continue;
            }
            let start = PageKey::new(file, index);
            let group = self.stage(device, Op::Read, file, (start, pages), &mut call.plug);
            for page in index..index + pages {
                self.pages.begin_read(PageKey::new(file, page), group, plan.mark == Some(page));
            }
            self.counters.from_device += pages;
            index += pages;
        }
        (call.plug.len() - before) as u64
    }

    /// Returns true if `file` is the raw device and not a file of a filesystem.
    fn is_device(&self, file: FileId) -> bool {
        !self.files.contains_key(&file)
    }

    /// Drops the clean pages of a file, and notes that the device holds data for the file.
    fn drop_file(&mut self, file: FileId) {
        self.pages.drop_clean_of(file);
        self.read_ahead.forget(file);
        if let Some(known) = self.files.get_mut(&file) {
            known.has_data = true;
        }
    }

    /// Writes back the pages of a file for `fsync`, or before they are dropped.
    fn write_back_for(&mut self, device: &dyn Model, call: &mut Call, id: CallId, at: Instant) -> bool {
        let file = call.request.file;
        let Stage::WriteBack(writer) = &mut call.stage else { unreachable!("the call is an fsync") };
        let room = self.sync_limit().saturating_sub(self.groups.write_count());
        if room == 0 {
            call.waits_since = Some(at);
            self.calls.await_room(id);
            return true;
        }
        match writer.next_plug(&self.pages, self.request_max(device), room) {
            Plug::Requests(runs) => {
                let pages: u64 = runs.iter().map(|run| run.pages).sum();
                let time = self.settings.t_writeback * pages + self.settings.t_submit;
                self.begin_window(at);
                for run in runs {
                    self.stage_write(device, file, run, &mut call.plug);
                }
                self.charge(call, id, at, time);
                true
            }
            Plug::Blocked(group) => {
                self.wait(call, id, group, at);
                true
            }
            Plug::Empty => self.await_writes(device, call, id, at),
        }
    }

    /// Waits for all writes of a file that are in flight. Then flushes the device, or drops the pages.
    fn await_writes(&mut self, device: &dyn Model, call: &mut Call, id: CallId, at: Instant) -> bool {
        let file = call.request.file;
        let writes: Vec<IoId> = self.groups.writes_to(file).collect();
        let drops = call.request.drops_pages();
        call.stage = if drops { Stage::Drop } else { Stage::StartFlush };
        // `POSIX_FADV_DONTNEED` does not wait for writes; `BLKFLSBUF` and `fsync` do.
        if !writes.is_empty() && (!drops || self.is_device(file)) {
            writes.into_iter().for_each(|group| self.wait(call, id, group, at));
            return true;
        }
        if drops {
            self.drop_file(file);
            return false;
        }
        self.start_flush(device, call, id, at)
    }

    fn start_flush(&mut self, device: &dyn Model, call: &mut Call, id: CallId, at: Instant) -> bool {
        let Request { op, file, .. } = call.request;
        let pages = (PageKey::new(file, 0), 0);
        call.stage = Stage::AwaitFlush(self.stage(device, op, file, pages, &mut call.plug));
        self.charge(call, id, at, self.settings.t_submit);
        true
    }
}

/// Returns the parts of a wait that lasted `time`, given the latency `spent` of the request that ended it. If the
/// request began before the wait, its first parts belong to the time before and are left out.
fn clip(spent: &Spent, time: Duration) -> Spent {
    let total = spent.total();
    let mut clipped = *spent;
    if total <= time {
        clipped[Mechanism::Queue] += time - total;
        return clipped;
    }
    let mut excess = total - time;
    let others = Mechanism::ALL.into_iter().filter(|mechanism| *mechanism != Mechanism::Queue);
    for mechanism in [Mechanism::Queue].into_iter().chain(others) {
        let less = excess.min(clipped[mechanism]);
        clipped[mechanism] -= less;
        excess -= less;
    }
    clipped
}
