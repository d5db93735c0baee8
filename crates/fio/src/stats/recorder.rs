//! The recorder of one running job. Without logs and other details, a completion updates one histogram and
//! little else.

use super::Settings;
use super::job::{Failure, JobStats, per_second};
use super::log::Logs;
use super::tail::LoggerBuffer;
use super::timeline::Timeline;
use crate::job::{Direction, Engine, Job};
use crate::workload::{Cause, Io};
use flashlab_sim::{Duration, Instant, Spent};

/// Window of the rate samples in milliseconds, unless a log requests another one (fio's bwavgtime and iopsavgtime).
const SAMPLE_MS: u64 = 500;

/// Divides time into windows and returns the rate of each window.
#[derive(Clone, Debug)]
struct Sampler {
    interval_ms: u64,
    end: Instant,
    last_totals: [u64; 3],
}

impl Sampler {
    fn new(interval_ms: u64) -> Self {
        Sampler { interval_ms: interval_ms.max(1), end: Instant::MAX, last_totals: [0; 3] }
    }

    fn restart(&mut self, at: Instant) {
        self.end = at + Duration::from_ms(self.interval_ms);
        self.last_totals = [0; 3];
    }

    /// Closes the window that ended before `now`. Returns its end, and the rate per second of each direction that
    /// completed requests. Later windows up to `now` are empty, and fio takes no sample in an empty window.
    fn close(&mut self, now: Instant, totals: [u64; 3]) -> (Instant, impl Iterator<Item = (Direction, u64)>) {
        let end = self.end;
        let interval = Duration::from_ms(self.interval_ms);
        self.end += interval * now.since(end).as_ns().div_ceil(interval.as_ns()).max(1);
        let last_totals = std::mem::replace(&mut self.last_totals, totals);
        let interval_ms = self.interval_ms;
        let rates = Direction::ALL.into_iter().filter_map(move |direction| {
            let amount = totals[direction as usize] - last_totals[direction as usize];
            (amount > 0).then(|| (direction, per_second(amount, interval_ms)))
        });
        (end, rates)
    }
}

/// Counts the requests of one instant, up to a limit, as one batch. A limit of one needs no counting, since every batch
/// has one request.
#[derive(Clone, Debug)]
struct Batch {
    limit: u32,
    at: Instant,
    size: u32,
    depth: u32,
}

impl Batch {
    fn new(limit: u32) -> Self {
        Batch { limit, at: Instant::ZERO, size: 0, depth: 0 }
    }

    /// Adds a request. If the request closes the previous batch, returns the size and depth of that batch.
    fn push(&mut self, at: Instant, depth: u32) -> Option<(u32, u32)> {
        let closed = if at != self.at || self.size == self.limit { self.take() } else { None };
        self.at = at;
        self.size += 1;
        self.depth = depth;
        closed
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        let closed = (self.size > 0).then_some((self.size, self.depth));
        self.size = 0;
        closed
    }
}

/// The recorder of one job.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    stats: JobStats,
    began: Instant,
    /// End of the sampling window that ends first.
    next_sample: Instant,
    bandwidth: Option<Sampler>,
    iops: Option<Sampler>,
    /// True if a completion updates more than the histograms: logs, loggers, timelines or batches.
    records_details: bool,
    submits: Batch,
    completes: Batch,
}

impl Recorder {
    pub(super) fn new(job: &Job, settings: &Settings) -> Self {
        let logger_rates = &settings.logger_rates;
        let mut stats = JobStats { logs: Logs::for_job(job), ..JobStats::default() };
        stats.loggers.extend(logger_rates.iter().map(|&rate| LoggerBuffer::new(rate)));
        for direction in &mut stats.directions {
            direction.asynchronous = job.engine == Engine::Asynchronous;
            direction.timeline = settings.timeline.then(Box::default);
        }
        stats.sync_timeline = settings.timeline.then(Box::default);
        // A log of each request replaces the windows; a log of averages sets their width.
        let sampler = |logged: bool| match (logged, job.log_avg_msec) {
            (false, _) => Some(Sampler::new(SAMPLE_MS)),
            (true, 0) => None,
            (true, interval_ms) => Some(Sampler::new(interval_ms)),
        };
        let (submits, completes) = match job.engine {
            Engine::Synchronous => (1, 1),
            Engine::Asynchronous => (job.batch_submit, job.batch_complete_max),
        };
        let logs = &stats.logs;
        Recorder {
            records_details: logs.bandwidth.is_some()
                || logs.iops.is_some()
                || logs.latency.is_some()
                || !logger_rates.is_empty()
                || settings.timeline
                || completes > 1,
            bandwidth: sampler(job.write_bw_log.is_some()),
            iops: sampler(job.write_iops_log.is_some()),
            stats,
            began: Instant::ZERO,
            next_sample: Instant::MAX,
            submits: Batch::new(submits),
            completes: Batch::new(completes),
        }
    }

    pub(super) fn stats(&self) -> &JobStats {
        &self.stats
    }

    /// Adds the statistics of a later phase of the same job.
    pub(super) fn append(&mut self, later: &JobStats) {
        self.stats.append(later);
    }

    pub(super) fn started(&mut self, at: Instant) {
        self.began = at;
        for sampler in [&mut self.bandwidth, &mut self.iops].into_iter().flatten() {
            sampler.restart(at);
        }
        self.set_next_sample();
    }

    fn set_next_sample(&mut self) {
        self.next_sample =
            [&self.bandwidth, &self.iops].into_iter().flatten().map(|s| s.end).min().unwrap_or(Instant::MAX);
    }

    pub(super) fn ramp_over(&mut self, at: Instant) {
        let (logs, failure) = (std::mem::take(&mut self.stats.logs), self.stats.failure.take());
        let mut stats = JobStats { logs, failure, ..JobStats::default() };
        stats.logs.each(|log| log.clear());
        stats.loggers.extend(self.stats.loggers.iter().map(|logger| LoggerBuffer::new(logger.rate())));
        for (new, old) in stats.directions.iter_mut().zip(&self.stats.directions) {
            new.asynchronous = old.asynchronous;
            new.timeline = old.timeline.as_ref().map(|_| Box::<Timeline>::default());
        }
        stats.sync_timeline = self.stats.sync_timeline.as_ref().map(|_| Box::default());
        self.stats = stats;
        self.submits.take();
        self.completes.take();
        self.started(at);
    }

    #[inline]
    pub(super) fn submitted(&mut self, io: &Io, depth: u32) {
        if self.submits.limit > 1 {
            self.submitted_in_batch(io, depth);
        } else {
            self.stats.depths.record(depth, 1);
        }
    }

    #[cold]
    fn submitted_in_batch(&mut self, io: &Io, depth: u32) {
        let closed = self.submits.push(io.issued, depth);
        self.count_submits(closed);
    }

    fn count_submits(&mut self, closed: Option<(u32, u32)>) {
        if let Some((size, depth)) = closed {
            self.stats.submits.record(size, 1);
            self.stats.depths.record(depth, u64::from(size));
        }
    }

    #[inline]
    pub(super) fn completed(&mut self, io: &Io, done: Instant, spent: &Spent) {
        if done > self.next_sample || self.stats.directions[io.direction as usize].is_delayed(io) {
            return self.completed_slow_path(io, done, spent);
        }
        self.count(io, done, spent);
    }

    /// Records a completion that involves more than the tables: a window has ended, or a request of the
    /// direction has waited in the job.
    #[inline(never)]
    fn completed_slow_path(&mut self, io: &Io, done: Instant, spent: &Spent) {
        if done > self.next_sample {
            self.sample(done);
        }
        let direction = &mut self.stats.directions[io.direction as usize];
        if direction.is_delayed(io) {
            direction.record_delayed(io, done);
        }
        self.count(io, done, spent);
    }

    #[inline]
    fn count(&mut self, io: &Io, done: Instant, spent: &Spent) {
        self.stats.latency.record(done.saturating_since(io.issued));
        self.stats.directions[io.direction as usize].record(io, done, spent);
        if self.records_details {
            self.record_details(io, done);
        }
    }

    #[cold]
    fn sample(&mut self, now: Instant) {
        let directions = &mut self.stats.directions;
        if let Some(sampler) = self.bandwidth.as_mut().filter(|s| s.end < now) {
            let (end, rates) = sampler.close(now, directions.each_ref().map(|d| d.io_bytes));
            for (direction, rate) in rates {
                directions[direction as usize].bandwidth.record(rate / 1_024);
                if let Some(log) = &mut self.stats.logs.bandwidth {
                    log.add_rate(end.since(self.began).as_ns() / 1_000_000, rate / 1_024, direction);
                }
            }
        }
        if let Some(sampler) = self.iops.as_mut().filter(|s| s.end < now) {
            let (end, rates) = sampler.close(now, directions.each_ref().map(|d| d.total_ios()));
            for (direction, rate) in rates {
                directions[direction as usize].iops.record(rate);
                if let Some(log) = &mut self.stats.logs.iops {
                    log.add_rate(end.since(self.began).as_ns() / 1_000_000, rate, direction);
                }
            }
        }
        self.set_next_sample();
    }

    #[cold]
    fn record_details(&mut self, io: &Io, done: Instant) {
        let stats = &mut self.stats;
        let time_ms = done.saturating_since(self.began).as_ns() / 1_000_000;
        let direction = &mut stats.directions[io.direction as usize];
        let clat = done.saturating_since(io.issued).as_ns();
        if let Some(timeline) = &mut direction.timeline {
            timeline.record(done.saturating_since(self.began), Duration::from_ns(clat), io.length);
        }
        if self.bandwidth.is_none() {
            // As in fio, this value is in kB/s and not in KiB/s. Tools that read fio's logs expect this unit.
            let rate = (u128::from(io.length) * 1_000_000).checked_div(u128::from(clat)).unwrap_or(0);
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            direction.bandwidth.record(rate);
            if let Some(log) = &mut stats.logs.bandwidth {
                log.add_request(time_ms, rate, io.direction, io.length);
            }
        }
        if self.iops.is_none() {
            direction.iops.record(1);
            if let Some(log) = &mut stats.logs.iops {
                log.add_request(time_ms, 1, io.direction, io.length);
            }
        }
        if let Some(logs) = &mut stats.logs.latency {
            let slat = io.issued.saturating_since(io.ready).as_ns();
            if direction.asynchronous {
                logs.slat.add_request(time_ms, slat, io.direction, io.length);
            }
            logs.clat.add_request(time_ms, clat, io.direction, io.length);
            logs.lat.add_request(time_ms, clat + slat, io.direction, io.length);
        }
        if io.direction == Direction::Write {
            stats.loggers.iter_mut().for_each(|logger| logger.completed(io.issued, done, io.length));
        }
        if self.completes.limit > 1
            && let Some((size, _)) = self.completes.push(done, 0)
        {
            stats.completes.record(size, 1);
        }
    }

    pub(super) fn synced(&mut self, issued: Instant, done: Instant, spent: &Spent, depth: u32) {
        let latency = done.saturating_since(issued);
        self.stats.record_sync(latency, spent);
        self.stats.loggers.iter_mut().for_each(|logger| logger.synced(issued, done));
        if let Some(timeline) = &mut self.stats.sync_timeline {
            timeline.record(done.saturating_since(self.began), latency, 0);
        }
        self.stats.depths.record(depth, 1);
    }

    pub(super) fn failed(&mut self, io: &Io, at: Instant, cause: Cause) {
        self.stats.failure.get_or_insert(Failure { io: *io, at, cause });
    }

    pub(super) fn finished(&mut self, at: Instant) {
        // A window that ends with the job is complete.
        self.sample(at + Duration::from_ns(1));
        let runtime = at.saturating_since(self.began);
        let ran = runtime.as_ns();
        let submitted = self.submits.take();
        self.count_submits(submitted);
        if let Some((size, _)) = self.completes.take() {
            self.stats.completes.record(size, 1);
        }
        let stats = &mut self.stats;
        if self.submits.limit <= 1 {
            stats.submits.record(1, stats.depths.counts().iter().sum());
        } else {
            stats.submits.record(1, stats.sync.count());
        }
        stats.completes.record(1, stats.sync.count());
        if self.completes.limit <= 1 {
            stats.completes.record(1, stats.total_ios());
        }
        for direction in stats.directions.iter_mut().filter(|d| d.total_ios() > 0) {
            direction.runtime_ms = ran.div_ceil(1_000_000);
            direction.runtime = runtime;
        }
        stats.job_runtime_ms = ran / 1_000_000;
        stats.finished = at;
        stats.logs.each(|log| log.finish(ran / 1_000_000));
    }
}
