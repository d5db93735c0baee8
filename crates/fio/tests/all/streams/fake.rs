//! A device with a fixed latency, which asserts that its requests are valid, and a recorder that stores all events.

use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::{Direction, Job};
use flashlab_fio::loader::NoFiles;
use flashlab_fio::workload::{Cause, File, Io, Jobs, Record, Task, file_bytes};
use flashlab_sim::{
    Arrival, Completion, Duration, FileId, Geometry, Instant, Mechanism, Model, Op, PowerCut, Request,
    RequestId, Spent, Status, Workload, run,
};
use std::collections::VecDeque;

/// A device on which an [`Op::Flush`] takes `flush`, and every other request takes `latency`, at any depth.
#[derive(Clone, Debug)]
pub(crate) struct FixedLatency {
    pub(crate) latency: Duration,
    pub(crate) flush: Duration,
    pub(crate) capacity: u64,
    /// Number of the first request, counted from 0, from which on all requests are rejected.
    pub(crate) reject_from: u64,
    submitted_count: u64,
    in_flight: VecDeque<(Instant, Instant, RequestId, Status)>,
    now: Instant,
    pub(crate) depth_max: usize,
}

impl FixedLatency {
    pub(crate) fn new(latency: Duration) -> FixedLatency {
        FixedLatency {
            latency,
            flush: latency,
            capacity: 1 << 50,
            reject_from: u64::MAX,
            submitted_count: 0,
            in_flight: VecDeque::new(),
            now: Instant::ZERO,
            depth_max: 0,
        }
    }
}

impl Model for FixedLatency {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity, block: 1, request_max: u64::MAX }
    }
    fn submit(&mut self, now: Instant, request: Request) {
        assert!(now >= self.now, "{request:?} at {now:?}, after {:?}", self.now);
        self.now = now;
        assert!(
            self.in_flight.iter().all(|(_, _, id, _)| *id != request.id),
            "{request:?} is already in flight"
        );
        let latency = if request.op == Op::Flush {
            self.flush
        } else {
            let is_valid = request.drops_pages() || self.geometry().admits(&request);
            assert!(is_valid, "{request:?} lies outside of {} bytes", self.capacity);
            self.latency
        };
        let status = if self.submitted_count >= self.reject_from { Status::OutOfRange } else { Status::Ok };
        self.submitted_count += 1;
        let due = now + latency;
        let position = self.in_flight.partition_point(|(other, ..)| *other <= due);
        self.in_flight.insert(position, (due, now, request.id, status));
        self.depth_max = self.depth_max.max(self.in_flight.len());
    }
    fn next_due(&self) -> Option<Instant> {
        self.in_flight.front().map(|(due, ..)| *due)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let &(at, since, id, status) = self.in_flight.front().filter(|(due, ..)| *due <= limit)?;
        self.in_flight.pop_front();
        self.now = at;
        let mut spent = Spent::default();
        spent[Mechanism::Read] = at.since(since);
        Some(Completion { id, at, status, spent })
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        self.in_flight.clear();
        PowerCut::default()
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }
}

/// A recorded event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Started(Instant),
    Submitted(Io),
    Completed(Io, Instant),
    Flushing { file: FileId, offset: u64, data_only: bool, at: Instant },
    Synced(Instant, Instant),
    RampOver(Instant),
    Failed(Instant),
    Finished(Instant),
}

/// The events of all jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog(pub(crate) Vec<(usize, Event)>);

impl EventLog {
    pub(crate) fn of_job(&self, job: usize) -> impl Iterator<Item = Event> + '_ {
        self.0.iter().filter(move |(j, _)| *j == job).map(|(_, event)| *event)
    }
    pub(crate) fn requests(&self, job: usize) -> Vec<Io> {
        self.of_job(job)
            .filter_map(|event| if let Event::Submitted(io) = event { Some(io) } else { None })
            .collect()
    }
    /// Returns the requests and the times of their completion, in order of completion.
    pub(crate) fn completions(&self, job: usize) -> Vec<(Io, Instant)> {
        self.of_job(job)
            .filter_map(|event| if let Event::Completed(io, at) = event { Some((io, at)) } else { None })
            .collect()
    }
    pub(crate) fn offsets(&self, job: usize) -> Vec<u64> {
        self.requests(job).iter().map(|io| io.offset).collect()
    }
    pub(crate) fn finished(&self, job: usize) -> Instant {
        self.of_job(job)
            .find_map(|event| if let Event::Finished(at) = event { Some(at) } else { None })
            .expect("the job has finished")
    }
}

impl Record for EventLog {
    fn started(&mut self, job: usize, at: Instant) {
        self.0.push((job, Event::Started(at)));
    }
    fn submitted(&mut self, job: usize, io: &Io, _: u32) {
        self.0.push((job, Event::Submitted(*io)));
    }
    fn completed(&mut self, job: usize, io: &Io, done: Instant, spent: &Spent) {
        assert_eq!(spent.total(), done.since(io.issued), "the parts do not sum to the latency");
        self.0.push((job, Event::Completed(*io, done)));
    }
    fn flushing(&mut self, job: usize, file: FileId, offset: u64, data_only: bool, at: Instant) {
        self.0.push((job, Event::Flushing { file, offset, data_only, at }));
    }
    fn synced(&mut self, job: usize, issued: Instant, done: Instant, _: &Spent, _: u32) {
        self.0.push((job, Event::Synced(issued, done)));
    }
    fn ramp_over(&mut self, job: usize, at: Instant) {
        self.0.push((job, Event::RampOver(at)));
    }
    fn failed(&mut self, job: usize, _: &Io, at: Instant, _: Cause) {
        self.0.push((job, Event::Failed(at)));
    }
    fn finished(&mut self, job: usize, at: Instant) {
        self.0.push((job, Event::Finished(at)));
    }
}

/// Parses fio options into jobs, with the engine `null` unless the options name another.
pub(crate) fn jobs(options: &str) -> Vec<Job> {
    let line = format!("--name=j --ioengine=null {options}");
    let words: Vec<&str> = line.split_whitespace().collect();
    Invocation::parse(&words, &NoFiles).unwrap_or_else(|error| panic!("{error}\n{line}")).jobs
}

/// Returns the files of a job that lays them out, or files of `bytes` each.
pub(crate) fn files(job: &Job, bytes: Option<u64>) -> Vec<File> {
    let count = job.files.len();
    (0..count)
        .map(|index| {
            let size = bytes
                .or_else(|| file_bytes(job, index, count))
                .expect("the job says how large its files are");
            File { id: FileId(index as u32), size }
        })
        .collect()
}

/// Runs all jobs together.
pub(crate) fn run_jobs(jobs: &[Job], bytes: Option<u64>, model: &mut FixedLatency) -> EventLog {
    let tasks = jobs
        .iter()
        .zip(0..)
        .map(|(job, number)| Task { job, files: files(job, bytes), number, entropy: 0, iolog: None })
        .collect();
    let mut wave =
        Jobs::new(Instant::ZERO, tasks, EventLog::default()).unwrap_or_else(|error| panic!("{error}"));
    let last = run(model, &mut wave, Instant::ZERO);
    assert!(wave.end().is_some_and(|end| end >= last), "a job has not ended, or ended too early");
    wave.into_record()
}

/// A wave with a function that is called before each step and may stop the wave.
struct WatchedWave<F> {
    wave: Jobs<EventLog>,
    watch: F,
}

impl<F: FnMut(&mut Jobs<EventLog>, Instant)> Workload for WatchedWave<F> {
    fn next(&mut self, now: Instant) -> Arrival {
        (self.watch)(&mut self.wave, now);
        self.wave.next(now)
    }
    fn submit(&mut self, at: Instant) -> Request {
        self.wave.submit(at)
    }
    fn completed(&mut self, completion: &Completion) {
        self.wave.completed(completion);
    }
}

fn run_watched(jobs: &[Job], watch: impl FnMut(&mut Jobs<EventLog>, Instant)) -> (EventLog, Instant) {
    let tasks = jobs.iter().zip(0..).map(|(job, number)| Task::on_device(job, number, 1 << 40)).collect();
    let wave = Jobs::new(Instant::ZERO, tasks, EventLog::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut watched_wave = WatchedWave { wave, watch };
    let mut model = FixedLatency::new(Duration::from_us(250));
    let last = run(&mut model, &mut watched_wave, Instant::ZERO);
    (watched_wave.wave.into_record(), last)
}

/// Runs all jobs together until the first event at `at` or later, and stops them there. Also returns the instant of
/// that event and the instant of the last event.
pub(crate) fn run_stopped(jobs: &[Job], at: Instant) -> (EventLog, Instant, Instant) {
    let mut stopped = None;
    let (events, last) = run_watched(jobs, |wave, now| {
        if stopped.is_none() && now >= at {
            stopped = Some(now);
            wave.stop(now);
        }
    });
    (events, stopped.expect("it runs for longer"), last)
}

/// Returns the fraction of the work that is done at each step of the run.
pub(crate) fn shares_of(jobs: &[Job]) -> Vec<f64> {
    let mut shares = Vec::new();
    run_watched(jobs, |wave, now| shares.push(wave.share_done(now)));
    shares
}

/// Runs the jobs of the options, with `us` microseconds per request.
pub(crate) fn run_options(options: &str, us: u64) -> EventLog {
    run_jobs(&jobs(options), None, &mut FixedLatency::new(Duration::from_us(us)))
}

/// Returns the offsets of the only job of `options`.
pub(crate) fn offsets(options: &str) -> Vec<u64> {
    run_options(options, 10).offsets(0)
}

pub(crate) fn is_read(io: &Io) -> bool {
    io.direction == Direction::Read
}
