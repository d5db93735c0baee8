//! The engine: runs jobs on a target in real time.
//!
//! With one request in flight, the engine executes requests in the calling thread, so that no thread switch
//! adds to a latency. With several requests in flight, each runs on a thread of its own, as with fio's engine
//! `psync` and `numjobs`. A latency is the time from the submission of a request to its completion: fio's
//! clat. A workload needs its events in the order of time. With several requests in flight, a completion
//! therefore counts as no earlier than the event that the engine handled last.

use crate::target::{Channel, Target};
use flashlab_fio::job::Job;
use flashlab_fio::stats::{Settings, Statistics};
use flashlab_fio::workload::{Jobs, Record, Task, WorkloadError};
use flashlab_sim::{
    Arrival, Completion, Duration, Instant, Mechanism, Op, Request, RequestId, Rng, Spent, Status, Workload,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time;

/// Runs jobs on a target.
pub struct Engine<'a> {
    target: &'a dyn Target,
    clock: Clock,
    channels: Vec<Box<dyn Channel>>,
    first_error: Option<FirstError>,
}

/// The first request that failed.
#[derive(Debug)]
pub struct FirstError {
    /// Operation of the request.
    pub op: Op,
    /// First byte of the request.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Error of the system call.
    pub error: io::Error,
}

impl FirstError {
    /// Returns true if the device is no longer there.
    pub fn is_gone(&self) -> bool {
        if self.error.kind() == ErrorKind::ConnectionAborted {
            return true;
        }
        let gone = [Errno::NXIO, Errno::NODEV, Errno::NOMEDIUM, Errno::SHUTDOWN];
        Errno::from_io_error(&self.error).is_some_and(|errno| gone.contains(&errno))
    }
}

/// Longest wait for a completion before the engine reports progress again.
const TICK: time::Duration = time::Duration::from_millis(100);

/// Reports progress up to ten times a second, and stops the jobs the first time that the caller asks for it.
struct Ticker {
    next: Instant,
    is_stopped: bool,
}

impl Ticker {
    fn tick<R: Record>(
        &mut self,
        now: Instant,
        workload: &mut Jobs<R>,
        progress: &mut dyn FnMut(f64) -> bool,
    ) {
        if now < self.next {
            return;
        }
        self.next = now + Duration::from_ns(TICK.as_nanos() as u64);
        if !progress(workload.share_done(now)) && !self.is_stopped {
            self.is_stopped = true;
            workload.stop(now);
        }
    }
}

/// A request for a thread.
struct Work {
    request: Request,
    issued: Instant,
}

/// A request that a thread has completed.
struct Finished {
    request: Request,
    issued: Instant,
    at: Instant,
    result: io::Result<()>,
}

impl<'a> Engine<'a> {
    /// Returns an engine for a target.
    pub fn new(target: &'a dyn Target) -> Self {
        Engine { target, clock: Clock::start(), channels: Vec::new(), first_error: None }
    }

    /// Takes the first error of the last [`Engine::run`].
    pub fn take_error(&mut self) -> Option<FirstError> {
        self.first_error.take()
    }

    /// Runs `jobs`, one wave after the other, and returns their statistics. Calls `progress` up to ten times
    /// a second with the share of the current wave that is done. The jobs end early if `progress` returns
    /// false.
    ///
    /// # Errors
    /// Returns an error if a job cannot run on the target, or if the target cannot be opened again. A failed request is
    /// not such an error: it ends its job and is part of the statistics.
    pub fn run(
        &mut self,
        jobs: &[Job],
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Statistics, EngineError> {
        self.first_error = None;
        let mut statistics = Statistics::new(jobs, &Settings::default());
        let mut first = 0;
        for wave in jobs.chunk_by(|a, b| a.wave == b.wave) {
            let range = first..first + wave.len();
            first = range.end;
            let tasks = wave.iter().zip(0..).map(|(job, number)| {
                Task::on_device(job, range.start as u32 + number, self.target.capacity())
            });
            let workload = Jobs::new(self.clock.now(), tasks.collect(), statistics.wave(range))
                .map_err(EngineError::Workload)?;
            let depth: u32 = wave.iter().map(depth).sum();
            while self.channels.len() < depth as usize {
                self.channels.push(self.target.channel().map_err(EngineError::Open)?);
            }
            let length = wave.iter().map(largest_request).max().unwrap_or(0);
            match depth {
                1 => self.run_in_place(workload, length, progress),
                _ => self.run_on_threads(workload, depth as usize, length, progress),
            }
        }
        Ok(statistics)
    }

    fn run_in_place<R: Record>(
        &mut self,
        mut workload: Jobs<R>,
        length: usize,
        progress: &mut dyn FnMut(f64) -> bool,
    ) {
        let mut buffers = Buffers::new(length);
        let mut ticker = Ticker { next: self.clock.now(), is_stopped: false };
        loop {
            let now = self.clock.now();
            ticker.tick(now, &mut workload, progress);
            match workload.next(now) {
                Arrival::At(at) if at > now => {
                    thread::sleep(time::Duration::from_nanos(at.since(now).as_ns()).min(TICK))
                }
                Arrival::At(at) => {
                    let issued = self.clock.now().max(at);
                    let request = workload.submit(issued);
                    let result = execute(&mut *self.channels[0], &request, &mut buffers);
                    let at = self.clock.now().max(issued);
                    let finished = Finished { request, issued, at, result };
                    workload.completed(&self.complete(finished));
                }
                Arrival::Waiting | Arrival::Done => return,
            }
        }
    }

    fn run_on_threads<R: Record>(
        &mut self,
        mut workload: Jobs<R>,
        depth: usize,
        length: usize,
        progress: &mut dyn FnMut(f64) -> bool,
    ) {
        let (clock, mut channels) = (self.clock, std::mem::take(&mut self.channels));
        let (done, finished) = channel();
        thread::scope(|scope| {
            let (mut idle, mut threads) = (Vec::new(), Vec::new());
            for channel in channels.iter_mut().take(depth) {
                let (sender, work) = std::sync::mpsc::channel();
                let done = done.clone();
                idle.push(sender);
                threads.push(scope.spawn(move || work_off(&mut **channel, length, clock, &work, &done)));
            }
            drop(done);
            let mut pool = Pool { idle, busy: BTreeMap::new(), finished, threads };
            self.drive(&mut workload, &mut pool, progress);
        });
        self.channels = channels;
    }

    /// Submits the requests of a workload to a pool until the workload is done.
    fn drive<R: Record>(
        &mut self,
        workload: &mut Jobs<R>,
        pool: &mut Pool<'_>,
        progress: &mut dyn FnMut(f64) -> bool,
    ) {
        let mut latest = Instant::ZERO;
        let mut ticker = Ticker { next: self.clock.now(), is_stopped: false };
        loop {
            let now = self.clock.now().max(latest);
            ticker.tick(now, workload, progress);
            let wait = match workload.next(now) {
                Arrival::At(at) if at <= now && !pool.idle.is_empty() => {
                    let issued = self.clock.now().max(at);
                    latest = issued;
                    let request = workload.submit(issued);
                    pool.start(Work { request, issued });
                    time::Duration::ZERO
                }
                Arrival::At(at) if at > now => time::Duration::from_nanos(at.since(now).as_ns()).min(TICK),
                Arrival::At(_) | Arrival::Waiting => TICK,
                Arrival::Done if pool.busy.is_empty() => return,
                Arrival::Done => TICK,
            };
            match pool.wait(wait) {
                Ok(mut finished) => {
                    // Another thread's request may have completed before the last event that was handled.
                    finished.at = finished.at.max(now).max(latest);
                    latest = finished.at;
                    workload.completed(&self.complete(finished));
                }
                Err(RecvTimeoutError::Timeout) if !pool.has_lost_a_thread() => {}
                // A thread panicked, so its request never completes. The scope of the threads passes the
                // panic on.
                Err(_) => return,
            }
        }
    }

    /// Returns the completion of a request. Keeps the first error.
    fn complete(&mut self, finished: Finished) -> Completion {
        let Finished { request, issued, at, result } = finished;
        let status = match &result {
            Ok(()) => Status::Ok,
            Err(error) => status_of(request.op, error),
        };
        if let (Err(error), None) = (result, &self.first_error) {
            let Request { op, offset, length, .. } = request;
            self.first_error = Some(FirstError { op, offset, length, error });
        }
        let mut spent = Spent::default();
        spent[Mechanism::Host] = at.since(issued);
        Completion { id: request.id, at, status, spent }
    }
}

/// Error of [`Engine::run`].
#[derive(Debug)]
pub enum EngineError {
    /// A job cannot run on the target.
    Workload(WorkloadError),
    /// The target cannot be opened again for another request in flight.
    Open(io::Error),
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EngineError::Workload(error) => error.fmt(f),
            EngineError::Open(error) => write!(f, "the target cannot be opened again: {error}"),
        }
    }
}

impl std::error::Error for EngineError {}

/// Threads that execute requests.
struct Pool<'scope> {
    idle: Vec<Sender<Work>>,
    busy: BTreeMap<RequestId, Sender<Work>>,
    finished: Receiver<Finished>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl Pool<'_> {
    fn start(&mut self, work: Work) {
        let thread = self.idle.pop().expect("the caller has seen an idle thread");
        let id = work.request.id;
        // A thread receives until its sender is dropped, so the request reaches it.
        let _ = thread.send(work);
        self.busy.insert(id, thread);
    }

    /// Returns true if a thread has ended, although its sender still exists.
    fn has_lost_a_thread(&self) -> bool {
        self.threads.iter().any(ScopedJoinHandle::is_finished)
    }

    fn wait(&mut self, time: time::Duration) -> Result<Finished, RecvTimeoutError> {
        let finished = self.finished.recv_timeout(time)?;
        self.idle.extend(self.busy.remove(&finished.request.id));
        Ok(finished)
    }
}

/// Executes requests until their sender is dropped.
fn work_off(
    channel: &mut dyn Channel,
    length: usize,
    clock: Clock,
    work: &Receiver<Work>,
    done: &Sender<Finished>,
) {
    let mut buffers = Buffers::new(length);
    while let Ok(Work { request, issued }) = work.recv() {
        let result = execute(channel, &request, &mut buffers);
        let at = clock.now().max(issued);
        if done.send(Finished { request, issued, at, result }).is_err() {
            return;
        }
    }
}

/// The buffers of one thread. Reads and writes have separate buffers, so that writes always send random
/// bytes.
struct Buffers {
    reads: Buffer,
    writes: Buffer,
}

impl Buffers {
    fn new(length: usize) -> Self {
        Buffers { reads: Buffer::new(length), writes: Buffer::new(length) }
    }
}

fn execute(channel: &mut dyn Channel, request: &Request, buffers: &mut Buffers) -> io::Result<()> {
    let Request { op, offset, length, .. } = *request;
    match op {
        Op::Read => channel.read(offset, buffers.reads.bytes(length as usize)),
        Op::Write => channel.write(offset, buffers.writes.bytes(length as usize)),
        Op::WriteFua => {
            channel.write(offset, buffers.writes.bytes(length as usize))?;
            channel.flush(true)
        }
        // A buffered job drops its pages from the page cache between two loops. Channels bypass the page
        // cache, so there is nothing to drop.
        Op::Trim if request.drops_pages() => Ok(()),
        Op::Trim => channel.discard(offset, length),
        Op::Flush => channel.flush(false),
        Op::FlushData => channel.flush(true),
    }
}

/// Returns true if the error means that the device does not support the operation.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    // On some systems, EOPNOTSUPP has no kind of its own.
    error.kind() == ErrorKind::Unsupported || Errno::from_io_error(error) == Some(Errno::OPNOTSUPP)
}

fn status_of(op: Op, error: &io::Error) -> Status {
    match error.kind() {
        _ if is_unsupported(error) => Status::Unsupported,
        ErrorKind::StorageFull | ErrorKind::UnexpectedEof | ErrorKind::WriteZero => Status::OutOfRange,
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Status::ReadOnly,
        _ if op == Op::Trim => Status::Unsupported,
        _ => Status::Unreadable,
    }
}

/// Returns an upper bound of the lengths of a job's reads and writes, in bytes.
fn largest_request(job: &Job) -> usize {
    use flashlab_fio::job::{BlockSize, Mix};
    if job.pattern.mix == Mix::Trim {
        return 0;
    }
    let largest = |size: &BlockSize| match size {
        BlockSize::Fixed(bytes) | BlockSize::Range { max: bytes, .. } => *bytes,
        BlockSize::Split(shares) => shares.iter().map(|share| share.bytes).max().unwrap_or(0),
    };
    job.block_size.iter().map(largest).max().unwrap_or(0) as usize
}

/// Returns the maximum number of requests that a job may have in flight.
fn depth(job: &Job) -> u32 {
    match job.engine {
        flashlab_fio::job::Engine::Synchronous => 1,
        flashlab_fio::job::Engine::Asynchronous => job.depth.max(1),
    }
}

/// Alignment of buffers for direct I/O. Common devices have no larger logical block.
const ALIGNMENT: usize = 4096;

/// A buffer that direct I/O accepts. Its bytes are random until a read replaces them, so that a device gains
/// nothing from compression.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(crate) fn new(length: usize) -> Self {
        let mut bytes = vec![0_u8; length + ALIGNMENT];
        let mut rng = Rng::for_purpose(0x6275_6666, 1);
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
        }
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Buffer { bytes, start }
    }

    pub(crate) fn bytes(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + length]
    }
}

/// Clock that counts from its creation.
#[derive(Clone, Copy)]
pub(crate) struct Clock(time::Instant);

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the edge: real devices run in real time")]
    pub(crate) fn start() -> Clock {
        Clock(time::Instant::now())
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_ns(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
