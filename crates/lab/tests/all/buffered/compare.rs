//! Compares recorded requests of buffered jobs with those of the page-cache model on a model of the recording's device.
//!
//! The guest of `flashlab record` has one processor of 1e9 instructions a second, and a `null_blk` device that
//! completes each request after a constant time, up to 64 at once.

use std::sync::{Arc, Mutex};

use flashlab_fio::cmdline::Invocation;
use flashlab_fio::stats::{Settings as Output, Statistics};
use flashlab_host::{FilesystemParameters, PageCacheParameters};
use flashlab_lab::bench::Bench;
use flashlab_recording::{Action, MarkKind, Reader};
use flashlab_sim::{
    Completion, Duration, Geometry, Instant, Mechanism, Model, Op, PowerCut, Request, Spent, Status,
};
use std::collections::VecDeque;

/// A request: instant in nanoseconds, operation, offset and length.
pub(crate) type Logged = (u64, Op, u64, u64);

/// Time in which the guest copies a page to or from the memory of its device, fitted together with the processor times.
const COPY_PAGE: Duration = Duration::from_ns(5_950);

/// Device of constant latency that logs its requests.
#[derive(Clone)]
pub(crate) struct NullBlock {
    geometry: Geometry,
    latency: Duration,
    /// Time to copy a page.
    copy_page: Duration,
    /// Instant until which the device copies.
    copied: Instant,
    in_flight: VecDeque<(Instant, Instant, Request)>,
    log: Arc<Mutex<Vec<Logged>>>,
}

impl NullBlock {
    pub(crate) fn new(
        latency: Duration,
        request_max: u64,
        capacity: u64,
    ) -> (NullBlock, Arc<Mutex<Vec<Logged>>>) {
        let log = Arc::default();
        let geometry = Geometry { capacity, block: 512, request_max };
        let device = NullBlock {
            geometry,
            latency,
            copy_page: COPY_PAGE,
            copied: Instant::ZERO,
            in_flight: VecDeque::new(),
            log: Arc::clone(&log),
        };
        (device, log)
    }
}

impl Model for NullBlock {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn submit(&mut self, now: Instant, request: Request) {
        let Request { op, offset, length, .. } = request;
        let op = if op.is_flush() { Op::Flush } else { op };
        self.log.lock().expect("no thread panics").push((now.as_ns(), op, offset, length));
        let copied = now.max(self.copied) + self.copy_page * length.div_ceil(4096);
        self.copied = copied;
        self.in_flight.push_back((copied + self.latency, now, request));
    }
    fn next_due(&self) -> Option<Instant> {
        self.in_flight.front().map(|(at, ..)| *at)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let (at, since, Request { id, .. }) = self.in_flight.pop_front_if(|(at, ..)| *at <= limit)?;
        let mut spent = Spent::default();
        spent[Mechanism::Program] = at.since(since);
        Some(Completion { id, at, status: Status::Ok, spent })
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        PowerCut::default()
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }
}

/// Returns the page cache of the guest, in which at most `pages` pages, a fifth of the memory, may be dirty. The
/// processor times are the defaults, which were fitted on recordings with a latency of 100 us.
pub(crate) fn guest(pages: u64) -> PageCacheParameters {
    PageCacheParameters {
        memory: Some(pages * 5 * 4096),
        tags: Some(64),
        processors: Some(1),
        ..PageCacheParameters::default()
    }
}

/// A recorded run, and the limits of its guest as the header states them.
pub(crate) struct Run {
    pub(crate) requests: Vec<Logged>,
    pub(crate) job: String,
    latency: Duration,
    request_max: u64,
    dirty_pages: u64,
    capacity: u64,
}

impl Run {
    /// Reads a recording by `flashlab record --fs none --fio job.fio`.
    pub(crate) fn read(bytes: &[u8]) -> Run {
        let reader = Reader::new(bytes).expect("the recording is valid");
        let header = reader.header();
        let number = |before: &str| {
            let rest = header.host.split_once(before).expect("the header states the limit").1;
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
            digits.and_then(|digits| digits.parse::<u64>().ok()).expect("the limit is a number")
        };
        let dirty = header.host.split_once("dirty limits of ").expect("the header states the limits").1;
        let capacity = header.capacity;
        let mut run = Run {
            requests: Vec::new(),
            job: header.workload.lines().skip(1).collect::<Vec<_>>().join("\n"),
            latency: Duration::from_us(number("null_blk with ")),
            request_max: number("requests of at most ") << 10,
            dirty_pages: dirty.split_whitespace().nth(2).and_then(|n| n.parse().ok()).expect("a number"),
            capacity,
        };
        let mut is_measured = true;
        for step in reader {
            let step = step.expect("the recording is valid");
            match step.action {
                Action::Mark(MarkKind::RunEnds) => is_measured = false,
                Action::Request { op, offset, length, .. } if is_measured => {
                    let op = if op.is_flush() { Op::Flush } else { op };
                    run.requests.push((step.at.as_ns(), op, offset, length));
                }
                _ => {}
            }
        }
        run
    }

    /// Runs the job with the model of the guest's page cache, on the device of the recording. Returns its requests and
    /// statistics.
    pub(crate) fn simulate(&self) -> (Vec<Logged>, Statistics) {
        let text = self.job.as_bytes().to_vec();
        let loader = |_: &str| Ok(text.clone());
        let invocation = Invocation::parse(&["job.fio"], &loader).expect("the job is valid");
        let (device, log) = NullBlock::new(self.latency, self.request_max, 1 << 30);
        let mut bench = Bench::new(Box::new(device)).with_page_cache(guest(self.dirty_pages));
        let statistics = bench.run(&invocation.jobs, &Output::default()).expect("the job has a model");
        let log = log.lock().expect("no thread panics").clone();
        (log, statistics)
    }

    /// Runs the job on a filesystem on the device of the recording. Returns its requests after the format.
    pub(crate) fn simulate_on(&self, filesystem: &FilesystemParameters) -> Vec<Logged> {
        // The guest's jobs run in the directory of the filesystem.
        let text = format!("{}\ndirectory=mnt\n", self.job).into_bytes();
        let loader = |_: &str| Ok(text.clone());
        let invocation = Invocation::parse(&["job.fio"], &loader).expect("the job is valid");
        let (device, log) = NullBlock::new(self.latency, self.request_max, self.capacity);
        let mut bench = Bench::new(Box::new(device));
        bench.format_once(filesystem).expect("the filesystem fits");
        log.lock().expect("no thread panics").clear();
        bench.run(&invocation.jobs, &Output::default()).expect("the job has a model");
        log.lock().expect("no thread panics").clone()
    }
}

/// Returns the time between the first and the last request in milliseconds.
pub(crate) fn span_ms(requests: &[Logged]) -> f64 {
    let (first, last) = (requests.first().map_or(0, |r| r.0), requests.last().map_or(0, |r| r.0));
    (last - first) as f64 / 1e6
}

/// Returns the number of the first request that differs in operation, offset or length.
pub(crate) fn first_difference(a: &[Logged], b: &[Logged]) -> Option<usize> {
    let same = |(a, b): (&Logged, &Logged)| (a.1, a.2, a.3) == (b.1, b.2, b.3);
    match a.iter().zip(b).position(|pair| !same(pair)) {
        None if a.len() == b.len() => None,
        None => Some(a.len().min(b.len())),
        place => place,
    }
}
