//! A device that stores bytes, as a [`Model`], so that a bench can drive it in simulated time.
//!
//! The data of every write encodes its offset and the number of the write, and every read is compared with
//! the writes that were answered before. A block of 4 KiB is verified if its content is known: a single write
//! covered it completely, and no change of it was in flight during the read. With `verify=`, all blocks have
//! the format of that method ([`VerifyFormat`]), and the results count the blocks of the format instead of
//! blocks of 4 KiB. If one of the jobs only reads, blocks that this run did not write are verified by their
//! own content.
//!
//! Times are those of the device. A request that the device answers immediately or from its own threads takes
//! a microsecond; otherwise jobs with a runtime would never end. The store does not report the mechanisms of
//! a model, so all time is charged to the controller's firmware.
//!
//! This model has no power cuts and cannot save its state, unlike a served device.

mod timers;
mod verification;

pub use verification::{Verification, WrongBlock};

use crate::verify_format::{VerifyFailure, VerifyFormat};
use crate::wait::wait_unless;
use crate::{Closing, Served};
use flashlab_block::{Answer, BlockDevice, Context, Io, IoError, Outcome, Started, Timed};
use flashlab_sim::{
    Completion, Duration, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request, Spent,
    Status, mix,
};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use timers::{RequestRuntime, Timers};

/// Size in bytes of the parts of a write's data. Each part ends with its share of zeros.
const CHUNK: u64 = 512;
/// Size in bytes of a verified block.
const BLOCK: u64 = 4096;
/// Latency of a request that the device answers immediately or from its own threads.
const IMMEDIATE_LATENCY: Duration = Duration::from_us(1);
/// Maximum size of a request in bytes.
const REQUEST_MAX: u64 = 64 << 20;

/// A device that stores bytes, in simulated time. Clones share one device.
#[derive(Clone)]
pub struct StoreModel {
    geometry: Geometry,
    device: Arc<dyn BlockDevice>,
    timed: Option<Arc<Timed>>,
    closing: Option<Arc<dyn Closing>>,
    /// Timers of the requests; `None` if only the events of the device determine the times.
    timers: Option<Arc<Timers>>,
    contents: Contents,
    session: Arc<Mutex<Session>>,
}

/// Rule for the data of writes.
#[derive(Clone, Default)]
struct Contents {
    format: Option<Arc<VerifyFormat>>,
    /// Share of zeros in data without a format, in per cent.
    zeros_percent: u8,
}

#[derive(Default)]
struct Session {
    now: Instant,
    outstanding: Vec<Outstanding>,
    done: VecDeque<Completion>,
    /// Knowledge about the contents of blocks, by block number.
    blocks: BTreeMap<u64, Known>,
    writes: u64,
    written_bytes: u64,
    verification: Verification,
}

/// Knowledge about the content of a block. Nothing is known about a block that is not listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// The block holds the data of this write.
    Written(Write),
    /// Number of changes of the block in flight, and the write if it is the only change.
    UnderWay(u32, Option<Write>),
}

/// A write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Write {
    number: u64,
    /// Offset and length of the write in bytes. The content of a block may depend on them.
    offset: u64,
    length: u64,
}

impl Write {
    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

struct Outstanding {
    request: Request,
    submitted: Instant,
    answering: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    effect: Effect,
    /// Account of the request's waits; `None` if the device keeps none.
    runtime: Option<Arc<RequestRuntime>>,
}

/// A block that a read compared with the last write of the block.
struct Judged {
    write: Write,
    block: Range<u64>,
    is_same: bool,
}

/// The effect of a request on the known blocks.
enum Effect {
    /// A read changes nothing. The list has the blocks that were known when the read was submitted.
    Read(Vec<(u64, Write)>),
    /// A write or a trim.
    Write,
    Flush,
}

impl StoreModel {
    /// Wraps the device of `served`.
    pub fn new(served: &Served) -> StoreModel {
        let of_device = served.device.geometry();
        let geometry = Geometry {
            block: of_device.block,
            capacity: of_device.capacity,
            request_max: of_device.request_max.min(REQUEST_MAX),
        };
        StoreModel {
            geometry,
            device: served.device.clone(),
            timed: served.timed.clone(),
            closing: served.closing.clone(),
            timers: spends_simulated_time(served).then(Arc::default),
            contents: Contents::default(),
            session: Arc::default(),
        }
    }

    /// Closes a volume, which otherwise loses the writes since its last flush. Does nothing on other devices.
    ///
    /// # Errors
    /// Returns the reason, as a sentence for the user.
    pub fn close(&self) -> Result<(), String> {
        self.closing.as_ref().map_or(Ok(()), |volume| volume.close())
    }

    /// Makes the device write and verify blocks with `format`.
    #[must_use]
    pub fn with_format(mut self, format: VerifyFormat) -> StoreModel {
        self.lock().verification.method = Some(format.name());
        self.contents.format = Some(Arc::new(format));
        self
    }

    /// Makes `percent` per cent of the data of writes compressible: the end of each 512 bytes is zero, as with fio's
    /// `buffer_compress_percentage` and its default chunk. Data with a format stays as it is.
    #[must_use]
    pub fn with_compressibility(mut self, percent: u8) -> StoreModel {
        self.contents.zeros_percent = percent.min(100);
        self
    }

    /// Returns true if the device, or a part of it, answers at the times of a model.
    pub fn has_timing(&self) -> bool {
        self.device.features().timed
    }

    /// Returns remarks on the simulated times, such as the processor time of a volume's codecs.
    pub fn remarks(&self) -> Vec<String> {
        self.closing.as_ref().filter(|_| self.has_timing()).map_or(Vec::new(), |volume| volume.remarks())
    }

    /// Returns the results of verification so far.
    pub fn verification(&self) -> Verification {
        self.lock().verification
    }

    /// Returns the instant of the device's next event, or `None` if no request is in flight.
    fn due(&self, session: &Session) -> Option<Instant> {
        if session.outstanding.is_empty() { None } else { self.next_event() }
    }

    /// Returns the instant of the next event of the device, or of the next timer of a request.
    fn next_event(&self) -> Option<Instant> {
        let timer = self.timers.as_ref().and_then(|timers| timers.next_due());
        self.device.next_due().into_iter().chain(timer).min()
    }

    /// Waits for devices that answer from their own threads, and therefore do not tell when, until a device or a timer has
    /// an event. Their answers take [`IMMEDIATE_LATENCY`].
    fn wait_for_threads(&self, session: &mut Session) {
        let is_due = || self.next_event().is_some();
        while !is_due()
            && let Some(first) = session.outstanding.first_mut()
        {
            let Some(outcome) = wait_unless(&mut first.answering, is_due) else { return };
            let one = session.outstanding.remove(0);
            let at = session.now + IMMEDIATE_LATENCY;
            session.ended(one, outcome, at, &self.contents);
        }
    }

    /// Locks the session. Only a bug in this module can poison the lock.
    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if requests of the device wait for simulated time beside the events of the device.
fn spends_simulated_time(served: &Served) -> bool {
    let spends = served.closing.as_ref().is_some_and(|closing| closing.spends_simulated_time());
    spends && served.device.features().timed
}

/// Returns the blocks that a request covers completely, and the blocks that it touches.
fn blocks(request: &Request) -> (Range<u64>, Range<u64>) {
    let (start, end) = (request.offset, request.offset + request.length);
    let whole = start.div_ceil(BLOCK)..end / BLOCK;
    (whole.start..whole.end.max(whole.start), start / BLOCK..end.div_ceil(BLOCK))
}

/// Returns the eight bytes that a write stores at byte `at`.
fn word(at: u64, write: u64) -> [u8; 8] {
    mix(at ^ mix(write)).to_le_bytes()
}

impl Contents {
    /// Returns the blocks to count in the range of a known block: the blocks of the format, or the known
    /// block itself.
    fn blocks_of(&self, write: &Write, known: Range<u64>) -> Vec<Range<u64>> {
        let Some(format) = &self.format else { return vec![known] };
        let length = format.block(write.length).max(1);
        let first = (known.start - write.offset) / length;
        let end = (known.end - write.offset).div_ceil(length);
        let block = |n: u64| write.offset + n * length..(write.offset + (n + 1) * length).min(write.end());
        (first..end).map(block).collect()
    }

    /// Returns the data of a write.
    fn of(&self, write: &Write) -> Vec<u8> {
        let mut bytes = vec![0; write.length as usize];
        if let Some(format) = &self.format {
            format.fill(write.offset, write.number, &mut bytes);
            return bytes;
        }
        let random = CHUNK - CHUNK * u64::from(self.zeros_percent) / 100;
        for (place, chunk) in (write.offset..).step_by(8).zip(bytes.chunks_mut(8)) {
            let kept = random.saturating_sub(place % CHUNK).min(chunk.len() as u64) as usize;
            chunk[..kept].copy_from_slice(&word(place, write.number)[..kept]);
        }
        bytes
    }
}

impl Session {
    /// Assigns the next number to a write.
    fn write(&mut self, request: &Request) -> Write {
        self.writes += 1;
        self.written_bytes += request.length;
        Write { number: self.writes, offset: request.offset, length: request.length }
    }

    /// Notes that a change is in flight.
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

    /// Notes that a change has ended. `done` is true if it succeeded.
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

    /// Compares the data of a read with the blocks that were known at its submission and have not changed since. If a
    /// job only reads, also verifies unknown blocks by their own content.
    fn check(&mut self, request: &Request, known: &[(u64, Write)], found: &[u8], contents: &Contents) {
        let part = |from: u64, length: u64| {
            let at = (from - request.offset) as usize;
            &found[at..at + length as usize]
        };
        // Consecutive blocks mostly belong to the same write.
        let mut wanted: Option<(Write, Vec<u8>)> = None;
        let mut judged: Vec<Judged> = Vec::new();
        for &(block, write) in known {
            if self.blocks.get(&block) != Some(&Known::Written(write)) {
                continue;
            }
            let (_, wanted) = match wanted.take() {
                Some(known) if known.0 == write => wanted.insert(known),
                _ => wanted.insert((write, contents.of(&write))),
            };
            let (start, end) = (block * BLOCK, (block + 1) * BLOCK);
            for of_format in contents.blocks_of(&write, start..end) {
                let (from, to) = (start.max(of_format.start), end.min(of_format.end));
                let is_same = part(from, to - from)
                    == &wanted[(from - write.offset) as usize..(to - write.offset) as usize];
                match judged.last_mut().filter(|last| last.write == write && last.block == of_format) {
                    Some(last) => last.is_same &= is_same,
                    None => judged.push(Judged { write, block: of_format, is_same }),
                }
            }
        }
        for Judged { block, is_same, .. } in judged {
            let judgement = if is_same { Ok(()) } else { Err(VerifyFailure::NotAsWritten) };
            self.verification.add(block.start, block.end - block.start, judgement);
        }
        let Some(format) = contents.format.as_deref().filter(|format| format.verifies_unwritten) else {
            return;
        };
        let length = format.block(request.length).max(1);
        // If the length of a request is not a multiple of the block length, the rest is not verified, because
        // its block continues after the request.
        let whole = request.length / length * length;
        for start in (request.offset..request.offset + whole).step_by(length as usize) {
            let touched = start / BLOCK..(start + length).div_ceil(BLOCK);
            if self.blocks.range(touched).next().is_none() {
                self.verification.add(start, length, format.verify(start, part(start, length)));
            }
        }
    }

    fn ended(&mut self, outstanding: Outstanding, outcome: Outcome, at: Instant, contents: &Contents) {
        let Outstanding { request, submitted, effect, runtime, .. } = outstanding;
        match (&effect, &outcome) {
            (Effect::Read(known), Ok(Answer::Read(bytes))) => self.check(&request, known, bytes, contents),
            (Effect::Write, _) => self.end(&request, outcome.is_ok()),
            _ => {}
        }
        let status = match outcome {
            Ok(_) => Status::Ok,
            Err(error) => {
                self.verification.failed += 1;
                status(error)
            }
        };
        let spent = match runtime {
            Some(runtime) => runtime.breakdown(submitted, at),
            None => {
                let mut spent = Spent::default();
                spent[Mechanism::Firmware] = at.saturating_since(submitted);
                spent
            }
        };
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

impl Model for StoreModel {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Instant, request: Request) {
        let mut session = self.lock();
        session.now = session.now.max(now);
        let Request { offset, length, .. } = request;
        let inside = request.op.is_flush() || request.end() <= self.geometry.capacity;
        let (io, effect) = match request.op {
            _ if !inside => (None, Effect::Flush),
            Op::Read => {
                let known = blocks(&request).0.filter_map(|block| match session.blocks.get(&block)? {
                    Known::Written(write) => Some((block, *write)),
                    Known::UnderWay(..) => None,
                });
                let known = known.collect();
                (Some(Io::Read { offset, buffer: vec![0; length as usize] }), Effect::Read(known))
            }
            Op::Write | Op::WriteFua => {
                let write = session.write(&request);
                session.begin(&request, Some(write));
                let durable = request.op == Op::WriteFua;
                let data = self.contents.of(&write).into();
                (Some(Io::Write { offset, data, durable }), Effect::Write)
            }
            Op::Trim => {
                session.begin(&request, None);
                (Some(Io::Discard { offset, length, durable: false }), Effect::Write)
            }
            Op::Flush | Op::FlushData => (Some(Io::Flush), Effect::Flush),
        };
        if let Some(timers) = &self.timers {
            timers.advance(session.now);
        }
        let runtime = self.timers.as_ref().map(RequestRuntime::new);
        let cx = match &runtime {
            Some(runtime) => Context::with_runtime(runtime.clone()),
            None => Context::new(session.now),
        };
        let started = match io {
            Some(io) => self.device.start(&cx, io),
            None => Started::Done(Err(IoError::Invalid)),
        };
        let submitted = session.now;
        let nothing: Pin<Box<dyn Future<Output = Outcome> + Send>> = Box::pin(std::future::pending());
        match started {
            Started::Done(outcome) => {
                let one = Outstanding { request, submitted, answering: nothing, effect, runtime };
                session.ended(one, outcome, submitted + IMMEDIATE_LATENCY, &self.contents);
            }
            Started::Pending(answering) => {
                session.outstanding.push(Outstanding { request, submitted, answering, effect, runtime });
                self.wait_for_threads(&mut session);
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let session = self.lock();
        let done = session.done.front().map(|completion| completion.at);
        done.into_iter().chain(self.due(&session)).min()
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let mut session = self.lock();
        while let Some(due) = self.due(&session) {
            if due > limit || session.done.front().is_some_and(|completion| completion.at <= due) {
                break;
            }
            session.now = session.now.max(due);
            if let Some(timers) = &self.timers {
                timers.advance(session.now);
                timers.poll_tasks();
            }
            self.device.advance(due);
            let mut left = Vec::new();
            for mut one in std::mem::take(&mut session.outstanding) {
                let polled = one.answering.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
                let now = session.now;
                match polled {
                    Poll::Ready(outcome) => session.ended(one, outcome, now, &self.contents),
                    Poll::Pending => left.push(one),
                }
            }
            session.outstanding = left;
            self.wait_for_threads(&mut session);
        }
        session.done.pop_front_if(|completion| completion.at <= limit)
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
        } else if let Some(volume) = self.closing.as_ref().filter(|_| self.has_timing()) {
            to.count("host_written_bytes", self.lock().written_bytes);
            volume.observe(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_block::conformance;
    use flashlab_catalogue::library::Library;
    use flashlab_fio::cmdline::Invocation;
    use flashlab_fio::loader::NoFiles;
    use flashlab_sim::{FileId, RequestId, Rng};

    fn open(argument: &str) -> StoreModel {
        let library = Library::built_in().expect("the repository's own");
        StoreModel::new(&Served::open(argument, 1, false, &library).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Submits random requests, `depth` at a time, and returns the instant of each completion.
    fn drive(model: &mut StoreModel, seed: u64, depth: usize) -> Vec<Instant> {
        let mut rng = Rng::new(seed);
        let (mut now, mut ends, mut outstanding) = (Instant::ZERO, Vec::new(), 0);
        for n in 0..2000_u64 {
            let op =
                [Op::Read, Op::Read, Op::Write, Op::WriteFua, Op::Trim, Op::Flush][rng.below(6) as usize];
            let (offset, length) = (rng.below(200) * 2048, (1 + rng.below(8)) * 2048);
            let request = Request { id: RequestId(n), op, file: FileId(0), offset, length };
            model.submit(now, request);
            outstanding += 1;
            while outstanding >= depth {
                let done = model.complete(Instant::MAX).expect("something is outstanding");
                assert!(done.at >= now && done.spent.total() <= done.at.since(Instant::ZERO));
                now = done.at;
                ends.push(now);
                outstanding -= 1;
            }
        }
        ends
    }

    #[test]
    fn reads_match_the_writes_on_every_kind_of_device() {
        for argument in
            ["memory:size=4M", "memory:size=4M+overlay+stats", "memory:size=4M+delay:read=1ms", "sd/kingston"]
        {
            for depth in [1, 7] {
                let mut model = open(argument);
                drive(&mut model, 5, depth);
                let verification = model.verification();
                assert!(
                    verification.blocks > 100 && verification.wrong == 0,
                    "{argument} at {depth}: {verification}"
                );
                assert_eq!(verification.failed, 0, "{argument} at {depth}: {verification}");
            }
        }
    }

    #[test]
    fn the_seed_determines_the_times_and_an_immediate_answer_takes_a_microsecond() {
        let times = || drive(&mut open("sd/kingston+error:rate=0.01,seed=3"), 9, 4);
        assert_eq!(times(), times());
        let ends = drive(&mut open("memory:size=4M"), 1, 1);
        assert_eq!(ends.last(), Some(&(Instant::ZERO + IMMEDIATE_LATENCY.scale(2000, 1))));
    }

    #[test]
    fn a_block_that_changed_outside_the_model_is_reported() {
        let mut model = open("memory:size=1M");
        let ask = |model: &mut StoreModel, id, op| {
            let request = Request { id: RequestId(id), op, file: FileId(0), offset: 0, length: 8192 };
            model.submit(Instant::ZERO, request);
            model.complete(Instant::MAX).expect("the model completes the request")
        };
        ask(&mut model, 1, Op::Write);
        let behind = Io::Write { offset: 5000, data: vec![1].into(), durable: false };
        assert!(conformance::execute(&*model.device, behind).is_ok());
        ask(&mut model, 2, Op::Read);
        let first = WrongBlock { offset: 4096, length: 4096, why: VerifyFailure::NotAsWritten };
        let wanted =
            Verification { blocks: 2, wrong: 1, first_wrong: Some(first), ..Verification::default() };
        assert_eq!(model.verification(), wanted);
    }

    fn verifying(interval: &str) -> StoreModel {
        let job = ["--name=a", "--rw=read", "--bs=64k", "--size=64k", "--verify=crc32c", interval];
        let jobs = Invocation::parse(&job.map(str::to_owned), &NoFiles).expect("a valid job").jobs;
        let format = VerifyFormat::of(&jobs).expect("a method of ours").expect("the job verifies");
        open("memory:size=1M").with_format(format)
    }

    #[test]
    fn the_blocks_of_a_format_are_counted() {
        for (interval, blocks) in
            [("--verify_interval=0", 1), ("--verify_interval=16k", 4), ("--verify_interval=512", 128)]
        {
            let mut model = verifying(interval);
            for (id, op) in [(1, Op::Write), (2, Op::Read)] {
                let request =
                    Request { id: RequestId(id), op, file: FileId(0), offset: 65_536, length: 65_536 };
                model.submit(Instant::ZERO, request);
                model.complete(Instant::MAX).expect("the model completes the request");
            }
            let verification = model.verification();
            assert_eq!((verification.blocks, verification.wrong), (blocks, 0), "{interval}");
        }
    }

    #[test]
    fn a_read_that_ends_within_a_block_of_the_format_is_verified_up_to_that_block() {
        let mut model = verifying("--verify_interval=4k");
        let request = Request { id: RequestId(1), op: Op::Read, file: FileId(0), offset: 0, length: 6144 };
        model.submit(Instant::ZERO, request);
        model.complete(Instant::MAX).expect("the model completes the request");
        assert_eq!(model.verification().blocks, 1);
    }
}
