//! A wave of jobs as one workload.
//!
//! The earliest request is submitted first; jobs with requests at the same instant submit them in the order of the
//! jobs. A request needs no allocation (except a write under `sync=1`): outstanding requests are stored in a slab, and
//! the index in the slab is the request's id.

use crate::iolog::Iolog;
use crate::job::{Direction, Job, SyncWrites};
use crate::workload::flushes::Flush;
use crate::workload::region::File;
use crate::workload::submitter::{Next, Submitter};
use crate::workload::{Cause, Io, Record, WorkloadError};
use flashlab_sim::{Arrival, Completion, FileId, Instant, Op, Request, RequestId, Spent, Status, Workload};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A job and the files that it runs on.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// The job to run. Each clone is a task of its own.
    pub job: &'a Job,
    /// Files of the job, or the device alone.
    pub files: Vec<File>,
    /// Position in the whole job file, clones counted, from 0. Jobs at different positions have different offsets.
    pub number: u32,
    /// A number specific to this run, which determines the offsets under `randrepeat=0`.
    pub entropy: u64,
    /// Contents of the `read_iolog=` file.
    pub iolog: Option<Iolog>,
}

impl<'a> Task<'a> {
    /// Returns the task that runs `job`, at position `number` of its job file, on a whole bare device of `capacity`
    /// bytes.
    pub fn on_device(job: &'a Job, number: u32, capacity: u64) -> Task<'a> {
        let files = vec![File { id: FileId::DEVICE, size: capacity }];
        Task { job, files, number, entropy: 0, iolog: None }
    }
}

/// Jobs that run together and report to a [`Record`]. `sync=1` adds a flush to each write. The time of the flush is
/// part of the write's latency.
///
/// A buffered job drops the cached pages of its files between loops ([`Request::drop_pages`]).
#[derive(Clone, Debug)]
pub struct Jobs<R> {
    jobs: Vec<Submitter>,
    record: R,
    slots: Vec<Slot>,
    /// Free slots; the last one is used next.
    free: Vec<u32>,
    /// Completed writes whose flush is to be submitted.
    awaiting_flush: VecDeque<u32>,
    /// Jobs that have something to submit, by time.
    agenda: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Job of the last submission.
    latest: u32,
}

/// An outstanding request or flush.
#[derive(Clone, Debug)]
struct Slot {
    job: u32,
    outstanding: Outstanding,
}

#[derive(Clone, Debug)]
enum Outstanding {
    Io(Io),
    /// A completed write with its outstanding flush.
    Durable(Box<(Io, Spent)>),
    /// A flush, represented as a write of zero bytes at the offset of the previous request.
    Flush(Io),
    /// A request that drops cached pages.
    Invalidate,
}

impl<R: Record> Jobs<R> {
    /// Returns a wave that runs `tasks` from `start` on. The calls to `record` identify a job by its index in `tasks`.
    ///
    /// # Errors
    /// Returns an error if a job cannot run on its files.
    pub fn new(start: Instant, tasks: Vec<Task<'_>>, record: R) -> Result<Jobs<R>, WorkloadError> {
        let jobs = tasks
            .into_iter()
            .enumerate()
            .map(|(index, task)| {
                let Task { job, files, number, entropy, iolog } = task;
                Submitter::new(index, job, &files, (number, entropy), iolog, start)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut wave = Jobs {
            jobs,
            record,
            slots: Vec::new(),
            free: Vec::new(),
            awaiting_flush: VecDeque::new(),
            agenda: BinaryHeap::new(),
            latest: 0,
        };
        for job in 0..wave.jobs.len() {
            wave.jobs[job].begin(&mut wave.record);
            wave.schedule(job);
        }
        Ok(wave)
    }

    /// Returns the end of the last job. It may be after the last completion, since a job that sleeps ends when it would
    /// wake. Returns `None` while a job runs, and if there are no jobs.
    pub fn end(&self) -> Option<Instant> {
        self.jobs.iter().map(|job| job.end).reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// Ends all jobs at `now`, as a signal ends fio's jobs. No more requests are submitted, except the flushes at the
    /// end of a job. Outstanding requests complete.
    pub fn stop(&mut self, now: Instant) {
        self.agenda.clear();
        for job in 0..self.jobs.len() {
            self.jobs[job].stop(now, &mut self.record);
            self.schedule(job);
        }
    }

    /// Returns the fraction of the work that is done at `now`, between 0 and 1: the mean over the jobs.
    pub fn share_done(&self, now: Instant) -> f64 {
        let done: f64 = self.jobs.iter().map(|job| job.share_done(now)).sum();
        done / self.jobs.len().max(1) as f64
    }

    /// Returns the recorder.
    pub fn record(&self) -> &R {
        &self.record
    }

    /// Returns the recorder, for a caller that takes its figures during the run.
    pub fn record_mut(&mut self) -> &mut R {
        &mut self.record
    }

    /// Returns the recorder at the end of the run.
    pub fn into_record(self) -> R {
        self.record
    }

    /// Enters a job into the agenda if it has something to submit. A single job needs no agenda.
    #[inline]
    fn schedule(&mut self, job: usize) {
        if self.jobs.len() > 1 {
            self.push_to_agenda(job);
        }
    }

    #[inline(never)]
    fn push_to_agenda(&mut self, job: usize) {
        if let Some((at, _)) = self.jobs[job].next {
            self.agenda.push(Reverse((at, job as u32)));
        }
    }

    /// Removes the job of the next submission from the agenda.
    #[inline]
    fn take_earliest(&mut self) -> u32 {
        if self.jobs.len() > 1 { self.take_from_agenda() } else { 0 }
    }

    #[inline(never)]
    fn take_from_agenda(&mut self) -> u32 {
        let Reverse((_, job)) = self.agenda.pop().expect("a job with a next submission is in the agenda");
        job
    }

    /// Returns the time of the next submission.
    #[inline]
    fn earliest(&self) -> Option<Instant> {
        match &self.jobs[..] {
            [only] => only.next.as_ref().map(|(at, _)| *at),
            _ => self.agenda.peek().map(|Reverse((at, _))| *at),
        }
    }

    /// Returns the index of a free slot, which becomes the request's id.
    #[inline]
    fn allocate_slot(&mut self) -> u32 {
        match self.free.pop() {
            Some(slot) => slot,
            None => self.add_slot(),
        }
    }

    #[cold]
    fn add_slot(&mut self) -> u32 {
        let flush = Flush { file: FileId::DEVICE, offset: 0, data_only: false };
        self.slots.push(Slot { job: 0, outstanding: Outstanding::Flush(flush.io(Instant::ZERO)) });
        self.slots.len() as u32 - 1
    }

    /// Handles the completions that need more than the recording of a successful request.
    #[cold]
    fn handle_special_completion(&mut self, completion: &Completion) {
        let Completion { id, at, status, ref spent } = *completion;
        let Slot { job, ref mut outstanding } = self.slots[id.0 as usize];
        let submitter = &mut self.jobs[job as usize];
        let had_next = submitter.next.is_some();
        match outstanding {
            Outstanding::Io(io) if status != Status::Ok => {
                submitter.rejected(io, at, Cause::Device(status), &mut self.record)
            }
            Outstanding::Io(io) if !submitter.flushes(io) => {
                submitter.store_completed(io, at, spent, &mut self.record);
            }
            // A write under `sync=1` lasts until its flush completes.
            Outstanding::Io(io) => {
                *outstanding = Outstanding::Durable(Box::new((*io, *spent)));
                return self.awaiting_flush.push_back(id.0 as u32);
            }
            Outstanding::Durable(write) if status != Status::Ok => {
                submitter.rejected(&write.0, at, Cause::Flush(status), &mut self.record);
            }
            Outstanding::Durable(write) => {
                write.1 += *spent;
                submitter.store_completed(&write.0, at, &write.1, &mut self.record);
            }
            Outstanding::Flush(flush) if status != Status::Ok => {
                submitter.flush_rejected(flush, at, status, &mut self.record);
            }
            Outstanding::Flush(flush) => submitter.flushed(flush.issued, at, spent, &mut self.record),
            Outstanding::Invalidate => submitter.invalidated(at, &mut self.record),
        }
        self.vacate(id, job, had_next);
    }

    /// Frees a slot. Schedules its job if the completion has given it something to submit.
    #[inline]
    fn vacate(&mut self, slot: RequestId, job: u32, had_next: bool) {
        self.free.push(slot.0 as u32);
        if !had_next {
            self.schedule(job as usize);
        }
    }

    /// Returns the flush of a write under `sync=1`.
    #[cold]
    fn flush_for_slot(&self, index: u32) -> Request {
        let Slot { job, outstanding } = &self.slots[index as usize];
        let file = match outstanding {
            Outstanding::Durable(write) => write.0.file,
            Outstanding::Io(_) | Outstanding::Flush(_) | Outstanding::Invalidate => FileId::DEVICE,
        };
        let op = match self.jobs[*job as usize].sync_writes {
            Some(SyncWrites::Data) => Op::FlushData,
            Some(SyncWrites::All) | None => Op::Flush,
        };
        Request { id: RequestId(u64::from(index)), op, file, offset: 0, length: 0 }
    }
}

fn op(direction: Direction) -> Op {
    match direction {
        Direction::Read => Op::Read,
        Direction::Write => Op::Write,
        Direction::Trim => Op::Trim,
    }
}

impl<R: Record> Workload for Jobs<R> {
    #[inline]
    fn next(&mut self, now: Instant) -> Arrival {
        if !self.awaiting_flush.is_empty() {
            return Arrival::At(now);
        }
        match self.earliest() {
            Some(at) => Arrival::At(at.max(now)),
            None if self.jobs.iter().all(|job| job.end.is_some()) => Arrival::Done,
            None => Arrival::Waiting,
        }
    }

    #[inline(always)]
    fn submit(&mut self, at: Instant) -> Request {
        if let Some(index) = self.awaiting_flush.pop_front() {
            return self.flush_for_slot(index);
        }
        let job = self.take_earliest();
        let index = self.allocate_slot();
        let id = RequestId(u64::from(index));
        let slot = &mut self.slots[index as usize];
        let submitter = &mut self.jobs[job as usize];
        let (outstanding, request) = match submitter.submitted(at, &mut self.record) {
            Next::Io(io) => {
                let Io { direction, file, offset, length, .. } = io;
                (Outstanding::Io(io), Request { id, op: op(direction), file, offset, length })
            }
            Next::Flush(flush @ Flush { file, data_only, .. }) => {
                let op = if data_only { Op::FlushData } else { Op::Flush };
                (Outstanding::Flush(flush.io(at)), Request { id, op, file, offset: 0, length: 0 })
            }
            Next::Invalidate(file) => (Outstanding::Invalidate, Request::drop_pages(id, file)),
        };
        *slot = Slot { job, outstanding };
        self.latest = job;
        submitter.continue_after_submission(at, &mut self.record);
        self.schedule(job as usize);
        request
    }

    #[inline]
    fn upcoming(&mut self) -> (FileId, &[u64]) {
        match self.jobs.get_mut(self.latest as usize) {
            Some(submitter) => submitter.upcoming(),
            None => (FileId::DEVICE, &[]),
        }
    }

    #[inline(always)]
    fn completed(&mut self, completion: &Completion) {
        let Slot { job, ref outstanding } = self.slots[completion.id.0 as usize];
        let submitter = &mut self.jobs[job as usize];
        match outstanding {
            Outstanding::Io(io) if completion.status == Status::Ok && !submitter.is_special(io) => {
                let had_next = submitter.next.is_some();
                submitter.completed(io, completion.at, &completion.spent, &mut self.record);
                self.vacate(completion.id, job, had_next);
            }
            _ => self.handle_special_completion(completion),
        }
    }
}
