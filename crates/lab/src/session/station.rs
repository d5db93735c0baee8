//! One device of a session: the device, its job, and the instant that it has reached.

mod changes;

use super::blocks::Observed;
use super::interval::{Interval, Recorder};
use super::snapshot::DeviceSnapshot;
use super::workload::SessionWorkload;
use super::{HISTORY, SessionError, job, text};
use crate::bench::{Bench, BenchError, waves};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::Job;
use flashlab_fio::workload::{Cause, Jobs};
use flashlab_sim::{Duration, Event, EventLoop, Instant, Status};
use std::collections::VecDeque;
use std::ops::Range;

/// A device under its job.
pub(super) struct Station {
    device: Device,
    seed: u64,
    bench: Bench,
    jobs: Vec<Job>,
    /// Waves of `jobs` that have not begun.
    waves: VecDeque<Range<usize>>,
    running: Option<Running>,
    is_prepared: bool,
    /// Time by which the device's clock is ahead of the session's, because the preparation took time.
    ahead: Duration,
    /// Instant of the session that the device has reached.
    now: Instant,
    is_powered: bool,
    /// Figures of the current interval while no wave runs.
    rest: Recorder,
    /// The last intervals, oldest first.
    history: VecDeque<Interval>,
    bad_blocks: u64,
    is_read_only: bool,
    events: Vec<(Instant, String)>,
}

/// A running wave of jobs.
struct Running {
    workload: SessionWorkload,
    events: EventLoop,
    is_done: bool,
}

impl Station {
    /// Opens a device whose job begins at `now`. [`Station::prepare`] writes the data that the job reads,
    /// which may take a while.
    pub(super) fn open(
        argument: &str,
        text: &str,
        library: &Library,
        seed: u64,
        now: Instant,
    ) -> Result<Station, SessionError> {
        let device = Device::open(argument, library)?;
        let jobs = job::parse(text)?;
        let mut bench = Bench::with(&device, seed);
        let waves = waves(&jobs);
        // Jobs that cannot run on this device are found before anything runs.
        for wave in &waves {
            begin(&mut bench, &jobs, wave.clone(), Instant::ZERO)?;
        }
        Ok(Station {
            device,
            seed,
            bench,
            jobs,
            waves: waves.into(),
            running: None,
            is_prepared: false,
            ahead: Duration::ZERO,
            now,
            is_powered: true,
            rest: Recorder::default(),
            history: VecDeque::new(),
            bad_blocks: 0,
            is_read_only: false,
            events: Vec::new(),
        })
    }

    /// Returns the instant that the device has reached.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Returns true if the device has simulated all events up to `target`.
    pub(super) fn is_at(&self, target: Instant) -> bool {
        self.is_prepared && self.now >= target
    }

    /// Returns true if the data that the job reads is written.
    pub(super) fn is_prepared(&self) -> bool {
        self.is_prepared
    }

    /// Simulates at most `budget` events up to `target`, and no event after the first one that is later than
    /// `others`. Returns the rest of the budget.
    pub(super) fn advance(&mut self, target: Instant, others: Instant, budget: u32) -> u32 {
        let limit = target + self.ahead;
        for left in (0..budget).rev() {
            match self.step(limit) {
                Some(Event::Submitted | Event::Completed) if self.now > others => return left,
                Some(Event::Submitted | Event::Completed) => {}
                Some(Event::Later | Event::Done) | None => {
                    self.now = self.now.max(target);
                    return left;
                }
            }
        }
        0
    }

    /// Advances until `requests` more requests have completed. Returns false if the jobs ended earlier.
    pub(super) fn complete(&mut self, requests: u32) -> bool {
        if !self.is_prepared {
            self.prepare();
        }
        let mut left = requests;
        while left > 0 {
            match self.step(Instant::MAX) {
                Some(Event::Completed) => left -= 1,
                Some(Event::Submitted) => {}
                Some(Event::Later | Event::Done) | None => return false,
            }
        }
        true
    }

    /// Simulates the next event up to `limit` on the device's clock. Returns `None` if no wave runs.
    fn step(&mut self, limit: Instant) -> Option<Event> {
        let running = self.running.as_mut()?;
        let event = running.events.step(self.bench.model(), &mut running.workload, limit);
        let at = running.events.now();
        match event {
            Event::Completed | Event::Submitted => self.now = self.now.max(at.saturating_sub(self.ahead)),
            Event::Done if !running.is_done => return self.end_wave(at),
            Event::Done | Event::Later => {}
        }
        if !running.workload.jobs.record().failures.is_empty() || !running.workload.answers.is_empty() {
            self.report_results();
        }
        Some(event)
    }

    /// Writes the data that the jobs read, unless the device began with a saved state, and begins the first
    /// wave.
    pub(super) fn prepare(&mut self) {
        self.is_prepared = true;
        self.bench.pause((self.now + self.ahead).saturating_since(self.bench.now()));
        if self.device.state.is_none()
            && let Err(error) = self.bench.write_before_read(&self.jobs)
        {
            self.events.push((self.now, format!("the preparation failed: {error}")));
            return;
        }
        let start = self.bench.now().max(self.now);
        self.ahead = start.since(self.now);
        self.rest.ahead = self.ahead;
        self.bad_blocks = self.bench.counters().get("bad_block_count");
        self.begin_next_wave(start);
    }

    fn begin_next_wave(&mut self, at: Instant) -> bool {
        let Some(wave) = self.waves.pop_front() else { return false };
        // The interval continues from wave to wave.
        let ended = self.running.take().map(|ended| ended.workload.jobs.into_record());
        let recorder = ended.unwrap_or_else(|| std::mem::take(&mut self.rest));
        match begin(&mut self.bench, &self.jobs, wave, at) {
            Ok(mut running) => {
                *running.workload.jobs.record_mut() = recorder;
                self.running = Some(running);
                true
            }
            Err(error) => {
                self.rest = recorder;
                self.events.push((self.now, format!("the job cannot run: {error}")));
                false
            }
        }
    }

    /// Ends a wave at `at`, which may lie after the last completion if the jobs sleep, and begins the next one.
    fn end_wave(&mut self, at: Instant) -> Option<Event> {
        self.report_results();
        let running = self.running.as_mut()?;
        running.is_done = true;
        let end = running.workload.jobs.end().unwrap_or(at).max(at);
        if self.begin_next_wave(end) {
            return Some(Event::Submitted);
        }
        self.events.push((end.saturating_sub(self.ahead), "the job has finished".to_owned()));
        Some(Event::Done)
    }

    /// Adds an event for each failure of a job and for each of the user's requests that completed.
    fn report_results(&mut self) {
        let Some(running) = &mut self.running else { return };
        for (at, status) in running.workload.answers.drain(..) {
            let text = match status {
                Status::Ok => "the discard completed".to_owned(),
                status => format!("the discard failed: {}", text::reason(status)),
            };
            self.events.push((at.saturating_sub(self.ahead), text));
        }
        for (at, cause) in running.workload.jobs.record_mut().failures.drain(..) {
            self.events.push((at.saturating_sub(self.ahead), describe(cause)));
        }
    }

    /// Adds an event at the current instant.
    pub(super) fn say(&mut self, text: &str) {
        self.events.push((self.now, text.to_owned()));
    }

    /// Removes and returns the events since the last call, in order.
    pub(super) fn take_events(&mut self) -> Vec<(Instant, String)> {
        std::mem::take(&mut self.events)
    }

    /// Returns the recorder of the current interval.
    fn recorder(&mut self) -> &mut Recorder {
        match &mut self.running {
            Some(running) => running.workload.jobs.record_mut(),
            None => &mut self.rest,
        }
    }

    /// Ends the current interval, and looks for blocks that failed in it.
    pub(super) fn close_interval(&mut self, begin: Instant, end: Instant, wall: Duration) {
        let counters = self.bench.counters();
        let bad = counters.get("bad_block_count");
        if bad > self.bad_blocks && self.is_prepared {
            let more = bad - self.bad_blocks;
            self.events.push((end, format!("{more} erase block{} failed", if more == 1 { "" } else { "s" })));
            self.bad_blocks = bad;
        }
        if counters.get("read_only") > 0 && !self.is_read_only {
            self.is_read_only = true;
            self.events.push((end, "the device is worn out and refuses writes".to_owned()));
        }
        let interval = self.recorder().take(begin, end, wall);
        self.history.push_back(interval);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    /// Returns the state of the device, with the last interval alone or, if `history` is true, with all intervals of
    /// the history.
    pub(super) fn snapshot(&self, history: bool) -> DeviceSnapshot<'_> {
        let skip = if history { 0 } else { self.history.len().saturating_sub(1) };
        let observed = Observed::of(self.bench.device());
        let phase = match &self.running {
            _ if !self.is_powered => "unplugged",
            _ if !self.is_prepared => "preparing",
            Some(running) if !running.is_done => "running",
            _ => "finished",
        };
        DeviceSnapshot {
            device: &self.device.argument,
            title: &self.device.title,
            capacity: self.device.capacity(),
            phase,
            in_flight: self.running.as_ref().map_or(0, |running| running.events.in_flight()),
            history: self.history.len(),
            intervals: self.history.iter().skip(skip).collect(),
            counters: observed.counters,
            levels: observed.levels,
            blocks: observed.blocks,
        }
    }
}

fn begin(bench: &mut Bench, jobs: &[Job], wave: Range<usize>, at: Instant) -> Result<Running, BenchError> {
    let tasks = bench.tasks(jobs, wave)?;
    let jobs = Jobs::new(at, tasks, Recorder::default()).map_err(BenchError::Workload)?;
    Ok(Running { workload: SessionWorkload::new(jobs), events: EventLoop::new(at), is_done: false })
}

/// Describes the failure that ended a job.
fn describe(cause: Cause) -> String {
    match cause {
        Cause::Device(status) => format!("a request failed ({}), so its job ended", text::reason(status)),
        Cause::Flush(status) => format!("a flush failed ({}), so its job ended", text::reason(status)),
        Cause::MaxLatency { took, limit } => {
            let (took, limit) = (text::duration(took), text::duration(limit));
            format!("a request took {took}, longer than max_latency of {limit}, so its job ended")
        }
    }
}
