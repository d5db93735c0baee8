//! A device that carries bytes as a model: what drives models in simulated time drives it, bytes and all.
//!
//! Every write carries bytes that say where and when they were written, and every read is held against what was answered
//! before. A block of 4 KiB is judged where it is known: written whole, by one write at a time, and not under way while it was
//! read. What jobs with `verify=` want in their blocks is in all of them ([`Verified`]), and where one of them only reads,
//! what this run has not written is judged by what stands in it.
//!
//! Time is the device's own; what is answered at once takes a microsecond, or jobs that run for a time would never end. How
//! its model spent the time is not told through bytes, so all of it is charged to the controller.
//!
//! Left out: power cuts, and keeping a state; a served device has both.

use super::Served;
use super::verified::{Verified, Wrong};
use flashlab_block::{Answer, BlockDevice, Context, Io, IoError, Outcome, Started, Timed, conformance};
use flashlab_sim::{
    Completion, Duration, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request, Spent,
    Status, mix,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Bytes that are judged as one.
const BLOCK: u64 = 4096;
/// How long what is answered at once takes.
const AT_ONCE: Duration = Duration::from_us(1);
/// Bytes of the largest request.
const REQUEST_MAX: u64 = 64 << 20;

/// A device with bytes in simulated time. Clones are the same device.
#[derive(Clone)]
pub struct Carried {
    geometry: Geometry,
    device: Arc<dyn BlockDevice>,
    timed: Option<Arc<Timed>>,
    verified: Option<Arc<Verified>>,
    desk: Arc<Mutex<Desk>>,
}

/// What was found out about the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// What blocks were judged by, where jobs said so.
    pub method: Option<&'static str>,
    /// Blocks that were read and judged.
    pub blocks: u64,
    /// Those of them that were wrong.
    pub wrong: u64,
    /// The first of these.
    pub first_wrong: Option<WrongBlock>,
    /// Requests that the device refused or failed.
    pub failed: u64,
}

/// A block that is not as it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongBlock {
    /// Its first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// What is wrong with it.
    pub why: Wrong,
}

impl Checked {
    fn judged(&mut self, offset: u64, length: u64, judgement: Result<(), Wrong>) {
        self.blocks += 1;
        if let Err(why) = judgement {
            self.wrong += 1;
            self.first_wrong.get_or_insert(WrongBlock { offset, length, why });
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Checked { blocks, wrong, failed, .. } = self;
        let method = self.method.unwrap_or("verify");
        match (self.first_wrong, self.method) {
            (None, None) => write!(f, "{blocks} blocks of 4 KiB were read back as written")?,
            (None, Some(_)) => write!(f, "{method}: {blocks} blocks verified")?,
            (Some(WrongBlock { offset, length, why }), _) => write!(
                f,
                "{method}: verify failed at offset {offset}, length {length}: {why}; {wrong} of {blocks} blocks are wrong"
            )?,
        }
        if *failed > 0 {
            write!(f, "; {failed} requests failed")?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Desk {
    now: Instant,
    outstanding: Vec<Outstanding>,
    done: VecDeque<Completion>,
    /// By number.
    blocks: BTreeMap<u64, Known>,
    writes: u64,
    checked: Checked,
}

/// What is known of a block; of one that is not listed, nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// It holds what this write wrote.
    Written(Write),
    /// So many changes of it are under way; `Some`: the only one is this write.
    UnderWay(u32, Option<Write>),
}

/// One write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Write {
    number: u64,
    /// First byte, and bytes: what stands in a block may depend on them.
    offset: u64,
    length: u64,
}

struct Outstanding {
    request: Request,
    submitted: Instant,
    answering: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    change: Change,
}

/// What a request does to what is known.
enum Change {
    /// Nothing; the blocks of it that were known when it was asked.
    Read(Vec<(u64, Write)>),
    /// A write, or a trim.
    Write,
    Flush,
}

impl Carried {
    /// The device of `served`.
    pub fn new(served: &Served) -> Carried {
        let of_device = served.device.geometry();
        let geometry = Geometry {
            block: of_device.block,
            capacity: of_device.capacity,
            request_max: of_device.request_max.min(REQUEST_MAX),
        };
        let (device, timed) = (served.device.clone(), served.timed.clone());
        Carried { geometry, device, timed, verified: None, desk: Arc::default() }
    }

    /// The same, with blocks written and judged so.
    #[must_use]
    pub fn verified_by(mut self, verified: Verified) -> Carried {
        self.lock().checked.method = Some(verified.name());
        self.verified = Some(Arc::new(verified));
        self
    }

    /// What was found out so far.
    pub fn checked(&self) -> Checked {
        self.lock().checked
    }

    /// When the device has something due that is waited for.
    fn due(&self, desk: &Desk) -> Option<Instant> {
        if desk.outstanding.is_empty() { None } else { self.device.next_due() }
    }

    /// Nothing panics while it holds this but what would be a mistake here.
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The blocks that a range covers whole, and those that it touches.
fn blocks(request: &Request) -> (std::ops::Range<u64>, std::ops::Range<u64>) {
    let (start, end) = (request.offset, request.offset + request.length);
    let whole = start.div_ceil(BLOCK)..end / BLOCK;
    (whole.start..whole.end.max(whole.start), start / BLOCK..end.div_ceil(BLOCK))
}

/// The word that stands at an eight-byte place of a block that a write wrote.
fn word(at: u64, write: u64) -> [u8; 8] {
    mix(at ^ mix(write)).to_le_bytes()
}

/// The bytes of a write.
fn bytes(write: &Write, verified: Option<&Verified>) -> Vec<u8> {
    let mut bytes = vec![0; write.length as usize];
    match verified {
        Some(verified) => verified.fill(write.offset, write.number, &mut bytes),
        None => {
            for (place, chunk) in (write.offset..).step_by(8).zip(bytes.chunks_mut(8)) {
                chunk.copy_from_slice(&word(place, write.number)[..chunk.len()]);
            }
        }
    }
    bytes
}

impl Desk {
    /// A write begins: which one it is.
    fn write(&mut self, request: &Request) -> Write {
        self.writes += 1;
        Write { number: self.writes, offset: request.offset, length: request.length }
    }

    /// A change begins.
    fn begin(&mut self, request: &Request, write: Option<Write>) {
        let (whole, touched) = blocks(request);
        for block in touched {
            let alone = write.filter(|_| whole.contains(&block));
            let next = match self.blocks.get(&block) {
                Some(Known::UnderWay(n, _)) => Known::UnderWay(n + 1, None),
                _ => Known::UnderWay(1, alone),
            };
            self.blocks.insert(block, next);
        }
    }

    /// A change ended; `done`: as it was asked.
    fn end(&mut self, request: &Request, done: bool) {
        for block in blocks(request).1 {
            let next = match self.blocks.get(&block) {
                Some(Known::UnderWay(1, Some(write))) if done => Some(Known::Written(*write)),
                Some(Known::UnderWay(n @ 2.., _)) => Some(Known::UnderWay(n - 1, None)),
                _ => None,
            };
            match next {
                Some(known) => drop(self.blocks.insert(block, known)),
                None => drop(self.blocks.remove(&block)),
            }
        }
    }

    /// Holds what was read against what is known, before and since; what nothing is known of, where asked for, against what
    /// stands in it.
    fn check(
        &mut self,
        request: &Request,
        known: &[(u64, Write)],
        found: &[u8],
        verified: Option<&Verified>,
    ) {
        let part = |from: u64, length: u64| {
            let at = (from - request.offset) as usize;
            &found[at..at + length as usize]
        };
        // Blocks of one write lie together mostly.
        let mut wanted: Option<(Write, Vec<u8>)> = None;
        for &(block, write) in known {
            if self.blocks.get(&block) != Some(&Known::Written(write)) {
                continue;
            }
            let (_, wanted) = match wanted.take() {
                Some(known) if known.0 == write => wanted.insert(known),
                _ => wanted.insert((write, bytes(&write, verified))),
            };
            let start = block * BLOCK;
            let at = (start - write.offset) as usize;
            let same = part(start, BLOCK) == &wanted[at..at + BLOCK as usize];
            self.checked.judged(start, BLOCK, if same { Ok(()) } else { Err(Wrong::NotAsWritten) });
        }
        let Some(verified) = verified.filter(|verified| verified.judges_all) else { return };
        let length = verified.block(request.length).max(1);
        for start in (request.offset..request.offset + request.length).step_by(length as usize) {
            let touched = start / BLOCK..(start + length).div_ceil(BLOCK);
            if self.blocks.range(touched).next().is_none() {
                self.checked.judged(start, length, verified.judge(start, part(start, length)));
            }
        }
    }

    fn ended(
        &mut self,
        outstanding: Outstanding,
        outcome: Outcome,
        at: Instant,
        verified: Option<&Verified>,
    ) {
        let Outstanding { request, submitted, change, .. } = outstanding;
        match (&change, &outcome) {
            (Change::Read(known), Ok(Answer::Read(bytes))) => self.check(&request, known, bytes, verified),
            (Change::Write, _) => self.end(&request, outcome.is_ok()),
            _ => {}
        }
        let status = match outcome {
            Ok(_) => Status::Ok,
            Err(error) => {
                self.checked.failed += 1;
                status(error)
            }
        };
        let mut spent = Spent::default();
        spent[Mechanism::Firmware] = at.saturating_since(submitted);
        let place = self.done.partition_point(|done| done.at <= at);
        self.done.insert(place, Completion { id: request.id, at, status, spent });
    }
}

fn status(error: IoError) -> Status {
    match error {
        IoError::ReadOnly | IoError::NoSpace => Status::ReadOnly,
        IoError::Invalid | IoError::TooLarge => Status::OutOfRange,
        IoError::Unsupported => Status::Unsupported,
        IoError::Medium | IoError::NoMemory | IoError::ShuttingDown => Status::Unreadable,
    }
}

impl Model for Carried {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Instant, request: Request) {
        let mut desk = self.lock();
        desk.now = desk.now.max(now);
        let Request { offset, length, .. } = request;
        let inside = request.op.is_flush() || request.end() <= self.geometry.capacity;
        let (io, change) = match request.op {
            _ if !inside => (None, Change::Flush),
            Op::Read => {
                let known = blocks(&request).0.filter_map(|block| match desk.blocks.get(&block)? {
                    Known::Written(write) => Some((block, *write)),
                    Known::UnderWay(..) => None,
                });
                let known = known.collect();
                (Some(Io::Read { offset, buffer: vec![0; length as usize] }), Change::Read(known))
            }
            Op::Write | Op::WriteFua => {
                let write = desk.write(&request);
                desk.begin(&request, Some(write));
                let durable = request.op == Op::WriteFua;
                let data = bytes(&write, self.verified.as_deref()).into();
                (Some(Io::Write { offset, data, durable }), Change::Write)
            }
            Op::Trim => {
                desk.begin(&request, None);
                (Some(Io::Discard { offset, length, durable: false }), Change::Write)
            }
            Op::Flush | Op::FlushData => (Some(Io::Flush), Change::Flush),
        };
        let started = match io {
            Some(io) => self.device.start(&Context::new(desk.now), io),
            None => Started::Done(Err(IoError::Invalid)),
        };
        let submitted = desk.now;
        let nothing: Pin<Box<dyn Future<Output = Outcome> + Send>> = Box::pin(std::future::pending());
        match started {
            Started::Done(outcome) => {
                let one = Outstanding { request, submitted, answering: nothing, change };
                desk.ended(one, outcome, submitted + AT_ONCE, self.verified.as_deref());
            }
            // Who answers on its own does not say when either.
            Started::Later(answering) if self.device.next_due().is_none() => {
                let outcome = conformance::answer(&*self.device, Started::Later(answering));
                let one = Outstanding { request, submitted, answering: nothing, change };
                desk.ended(one, outcome, submitted + AT_ONCE, self.verified.as_deref());
            }
            Started::Later(answering) => {
                desk.outstanding.push(Outstanding { request, submitted, answering, change });
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let desk = self.lock();
        let done = desk.done.front().map(|completion| completion.at);
        done.into_iter().chain(self.due(&desk)).min()
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let mut desk = self.lock();
        while let Some(due) = self.due(&desk) {
            if due > limit || desk.done.front().is_some_and(|completion| completion.at <= due) {
                break;
            }
            desk.now = desk.now.max(due);
            self.device.advance(due);
            let mut left = Vec::new();
            for mut one in std::mem::take(&mut desk.outstanding) {
                let polled = one.answering.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
                let now = desk.now;
                match polled {
                    Poll::Ready(outcome) => desk.ended(one, outcome, now, self.verified.as_deref()),
                    Poll::Pending => left.push(one),
                }
            }
            desk.outstanding = left;
        }
        desk.done.pop_front_if(|completion| completion.at <= limit)
    }

    fn power_cut(&mut self, _now: Instant) -> PowerCut {
        PowerCut::default()
    }

    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }

    fn observe(&self, to: &mut dyn Observer) {
        if let Some(timed) = &self.timed {
            timed.with_model(|model| model.observe(to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Library;
    use flashlab_sim::{FileId, RequestId, Rng};

    fn open(argument: &str) -> Carried {
        let library = Library::built_in().expect("the repository's own");
        Carried::new(&Served::open(argument, 1, false, &library).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Random requests, `depth` at a time; when each was done.
    fn drive(carried: &mut Carried, seed: u64, depth: usize) -> Vec<Instant> {
        let mut rng = Rng::new(seed);
        let (mut now, mut ends, mut outstanding) = (Instant::ZERO, Vec::new(), 0);
        for n in 0..2000_u64 {
            let op =
                [Op::Read, Op::Read, Op::Write, Op::WriteFua, Op::Trim, Op::Flush][rng.below(6) as usize];
            let (offset, length) = (rng.below(200) * 2048, (1 + rng.below(8)) * 2048);
            let request = Request { id: RequestId(n), op, file: FileId(0), offset, length };
            carried.submit(now, request);
            outstanding += 1;
            while outstanding >= depth {
                let done = carried.complete(Instant::MAX).expect("something is outstanding");
                assert!(done.at >= now && done.spent.total() <= done.at.since(Instant::ZERO));
                now = done.at;
                ends.push(now);
                outstanding -= 1;
            }
        }
        ends
    }

    #[test]
    fn whatever_lies_on_a_device_reads_back_what_was_written() {
        for argument in
            ["memory:size=4M", "memory:size=4M+overlay+stats", "memory:size=4M+delay:read=1ms", "sd/kingston"]
        {
            for depth in [1, 7] {
                let mut carried = open(argument);
                drive(&mut carried, 5, depth);
                let checked = carried.checked();
                assert!(checked.blocks > 100 && checked.wrong == 0, "{argument} at {depth}: {checked}");
                assert_eq!(checked.failed, 0, "{argument} at {depth}: {checked}");
            }
        }
    }

    #[test]
    fn the_same_seed_takes_the_same_time_and_what_is_answered_at_once_a_microsecond() {
        let times = || drive(&mut open("sd/kingston+error:rate=0.01,seed=3"), 9, 4);
        assert_eq!(times(), times());
        let ends = drive(&mut open("memory:size=4M"), 1, 1);
        assert_eq!(ends.last(), Some(&(Instant::ZERO + AT_ONCE.scale(2000, 1))));
    }

    #[test]
    fn a_block_that_changed_behind_it_is_found() {
        let mut carried = open("memory:size=1M");
        let ask = |carried: &mut Carried, id, op| {
            let request = Request { id: RequestId(id), op, file: FileId(0), offset: 0, length: 8192 };
            carried.submit(Instant::ZERO, request);
            carried.complete(Instant::MAX).expect("it is done")
        };
        ask(&mut carried, 1, Op::Write);
        let behind = Io::Write { offset: 5000, data: vec![1].into(), durable: false };
        assert!(conformance::ask(&*carried.device, behind).is_ok());
        ask(&mut carried, 2, Op::Read);
        let first = WrongBlock { offset: 4096, length: 4096, why: Wrong::NotAsWritten };
        let wanted = Checked { blocks: 2, wrong: 1, first_wrong: Some(first), ..Checked::default() };
        assert_eq!(carried.checked(), wanted);
    }
}
