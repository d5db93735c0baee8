//! A wave of jobs as one workload.
//!
//! The earliest arrival goes first, jobs of one instant in their order. Nothing is allocated for a request (but for a
//! write under `sync=1`): those that are out lie in a slab whose places are their names.

use crate::iolog::Iolog;
use crate::job::{Direction, Job, SyncWrites};
use crate::workload::region::File;
use crate::workload::submitter::{Next, Submitter};
use crate::workload::{Io, Record, WorkloadError};
use flashlab_sim::{Arrival, Completion, FileId, Instant, Op, Request, RequestId, Spent, Status, Workload};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A job and what it runs on.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// The job, one clone of it.
    pub job: &'a Job,
    /// Its files, or the device alone.
    pub files: Vec<File>,
    /// Its place in the whole job file, clones counted, from 0: jobs at different places have different offsets.
    pub number: u32,
    /// A number of this run, for the offsets under `randrepeat=0`.
    pub entropy: u64,
    /// What `read_iolog=` names.
    pub iolog: Option<Iolog>,
}

impl<'a> Task<'a> {
    /// `job` at place `number` of its job file, on the whole of a bare device of `capacity` bytes.
    pub fn on_device(job: &'a Job, number: u32, capacity: u64) -> Task<'a> {
        let files = vec![File { id: FileId::DEVICE, size: capacity }];
        Task { job, files, number, entropy: 0, iolog: None }
    }
}

/// Jobs that run together, told to a [`Record`]. `sync=1` adds a flush to each write, whose time is part of the
/// write's latency.
#[derive(Clone, Debug)]
pub struct Jobs<R> {
    jobs: Vec<Submitter>,
    record: R,
    slots: Vec<Slot>,
    /// Slots that are free, the next one last.
    free: Vec<u32>,
    /// Writes that now need their flush.
    unflushed: VecDeque<u32>,
    /// The jobs that have something to hand over, by time.
    agenda: BinaryHeap<Reverse<(Instant, u32)>>,
    answered: Answered,
    /// The slot that was occupied last.
    latest: u32,
}

/// What [`Workload::next`] answered last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answered {
    Nothing,
    Job,
    Unflushed,
}

/// What is out.
#[derive(Clone, Debug)]
struct Slot {
    job: u32,
    out: Out,
}

#[derive(Clone, Debug)]
enum Out {
    Io(Io),
    /// A write that is done, and its flush.
    Durable(Box<(Io, Spent)>),
    Flush {
        issued: Instant,
    },
}

impl<R: Record> Jobs<R> {
    /// The jobs of `tasks`, to run from `start`. The calls to `record` name them by their place in `tasks`.
    ///
    /// # Errors
    /// Where a job cannot run on its files.
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
            unflushed: VecDeque::new(),
            agenda: BinaryHeap::new(),
            answered: Answered::Nothing,
            latest: 0,
        };
        for job in 0..wave.jobs.len() {
            wave.jobs[job].begin(&mut wave.record);
            wave.note(job);
        }
        Ok(wave)
    }

    /// When the last job ended, which may be after the last completion (a job that sleeps ends when it would wake);
    /// `None` while one runs, and where there is none.
    pub fn end(&self) -> Option<Instant> {
        self.jobs.iter().map(|job| job.end).reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// The recorder.
    pub fn record(&self) -> &R {
        &self.record
    }

    /// The recorder, when all is done.
    pub fn into_record(self) -> R {
        self.record
    }

    /// Enters a job into the agenda, if it has something to hand over. A job that is alone needs none.
    #[inline]
    fn note(&mut self, job: usize) {
        if self.jobs.len() > 1
            && let Some((at, _)) = self.jobs[job].next
        {
            self.agenda.push(Reverse((at, job as u32)));
        }
    }

    /// The job that has something to hand over first, and when.
    #[inline]
    fn earliest(&self) -> Option<(Instant, u32)> {
        match &self.jobs[..] {
            [alone] => alone.next.as_ref().map(|(at, _)| (*at, 0)),
            _ => self.agenda.peek().map(|Reverse(first)| *first),
        }
    }

    #[inline]
    fn free_slot(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    #[inline]
    fn occupy(&mut self, slot: Slot) {
        match self.free.pop() {
            Some(place) => {
                self.latest = place;
                self.slots[place as usize] = slot;
            }
            None => {
                self.latest = self.slots.len() as u32;
                self.slots.push(slot);
            }
        }
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
        if let Some(&place) = self.unflushed.front() {
            self.answered = Answered::Unflushed;
            let file = match &self.slots[place as usize].out {
                Out::Durable(write) => write.0.file,
                Out::Io(_) | Out::Flush { .. } => FileId::DEVICE,
            };
            let id = RequestId(u64::from(place));
            let job = self.slots[place as usize].job;
            let op = match self.jobs[job as usize].sync_writes {
                Some(SyncWrites::Data) => Op::FlushData,
                Some(SyncWrites::All) | None => Op::Flush,
            };
            return Arrival::At(now, Request { id, op, file, offset: 0, length: 0 });
        }
        let Some((at, job)) = self.earliest() else {
            let ended = self.jobs.iter().all(|job| job.end.is_some());
            return if ended { Arrival::Done } else { Arrival::Waiting };
        };
        self.answered = Answered::Job;
        let id = RequestId(u64::from(self.free_slot()));
        let (_, next) =
            self.jobs[job as usize].next.as_ref().expect("a job of the agenda has something next");
        let request = match next {
            Next::Io(io) => {
                Request { id, op: op(io.direction), file: io.file, offset: io.offset, length: io.length }
            }
            Next::Flush(flush) => {
                let op = if flush.data_only { Op::FlushData } else { Op::Flush };
                Request { id, op, file: flush.file, offset: 0, length: 0 }
            }
        };
        Arrival::At(at.max(now), request)
    }

    #[inline]
    fn submitted(&mut self, at: Instant, _request: &Request) {
        if self.answered == Answered::Unflushed {
            self.unflushed.pop_front();
            return;
        }
        let job = self.agenda.pop().map_or(0, |Reverse((_, job))| job);
        let out = match self.jobs[job as usize].submitted(at, &mut self.record) {
            Next::Io(io) => Out::Io(io),
            Next::Flush(_) => Out::Flush { issued: at },
        };
        self.occupy(Slot { job, out });
        self.note(job as usize);
    }

    #[inline]
    fn upcoming(&mut self) -> (FileId, &[u64]) {
        match self.slots.get(self.latest as usize) {
            Some(slot) => self.jobs[slot.job as usize].upcoming(),
            None => (FileId::DEVICE, &[]),
        }
    }

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        let place = completion.id.0 as usize;
        let Slot { job, ref mut out } = self.slots[place];
        let submitter = &mut self.jobs[job as usize];
        let had_next = submitter.next.is_some();
        match out {
            Out::Io(io) if completion.status != Status::Ok => {
                submitter.refused(io, completion.at, completion.status, &mut self.record);
            }
            Out::Io(io) if submitter.sync_writes.is_some() && io.direction == Direction::Write => {
                *out = Out::Durable(Box::new((*io, completion.spent)));
                self.unflushed.push_back(place as u32);
                return;
            }
            Out::Io(io) => submitter.completed(io, completion.at, &completion.spent, &mut self.record),
            Out::Durable(write) => {
                let (io, spent) = &mut **write;
                *spent += completion.spent;
                submitter.completed(io, completion.at, spent, &mut self.record);
            }
            Out::Flush { issued } => submitter.flushed(*issued, completion.at, &mut self.record),
        }
        self.free.push(place as u32);
        if !had_next {
            self.note(job as usize);
        }
    }
}
