//! Statistics of a job after its run: fio's thread statistics.

use super::log::Logs;
use super::samples::Samples;
use super::table::{BatchTable, DepthTable, LatencyTable};
use super::tail::{LoggerBuffer, Tail};
use super::timeline::Timeline;
use crate::job::Direction;
use crate::workload::{Cause, Io};
use flashlab_sim::{Duration, Histogram, Instant, Mechanism, Moments, Spent, Status};

/// Statistics of one direction of a job.
#[derive(Clone, Debug, Default)]
pub struct DirectionStats {
    /// Number of bytes of the completed requests.
    pub io_bytes: u64,
    /// Completion latency of every request: from its submission to its completion.
    pub clat: Histogram,
    /// True for asynchronous engines. slat has no meaning for synchronous ones.
    pub asynchronous: bool,
    /// Runtime of the job, or of the longest job of a group, in milliseconds, rounded up as in fio; 0 if the
    /// direction had no request.
    pub runtime_ms: u64,
    /// Exact runtime of the job, or of the longest job of a group; 0 if the direction had no request.
    pub runtime: Duration,
    /// KiB/s in each window of 500 ms. With `write_bw_log`, a window has `log_avg_msec`; if that is 0, the
    /// samples are the kB/s of each request.
    pub bandwidth: Samples,
    /// Requests a second in each window of 500 ms. With `write_iops_log`, a window has `log_avg_msec`; if
    /// that is 0, the sample of each request is 1.
    pub iops: Samples,
    /// clat over time, counted from the start of the job or from the end of its ramp; `None` unless the settings
    /// request it.
    pub timeline: Option<Box<Timeline>>,
    /// Nanoseconds per mechanism, over all requests.
    spent_ns: [u64; Mechanism::ALL.len()],
    /// Set once a request was submitted later than it was made. Until then slat is zero and lat equals clat.
    delayed: Option<Box<DelayedLatencies>>,
}

#[derive(Clone, Debug)]
struct DelayedLatencies {
    slat: Histogram,
    lat: Histogram,
}

impl DelayedLatencies {
    /// Returns the latencies of requests that were all submitted when they were made.
    fn without_delays(clat: &Histogram) -> DelayedLatencies {
        DelayedLatencies { slat: Histogram::zeros(clat.count()), lat: clat.clone() }
    }
}

impl DirectionStats {
    #[inline]
    pub(super) fn record(&mut self, io: &Io, done: Instant, spent: &Spent) {
        let clat = done.saturating_since(io.issued);
        debug_assert_eq!(spent.total(), clat, "the parts of a latency sum to it");
        self.io_bytes += io.length;
        self.clat.record(clat);
        for (total, mechanism) in self.spent_ns.iter_mut().zip(Mechanism::ALL) {
            *total += spent[mechanism].as_ns();
        }
    }

    /// Returns true if [`DirectionStats::record_delayed`] must be called before [`DirectionStats::record`].
    #[inline]
    pub(super) fn is_delayed(&self, io: &Io) -> bool {
        io.ready != io.issued || self.delayed.is_some()
    }

    pub(super) fn record_delayed(&mut self, io: &Io, done: Instant) {
        let delayed =
            self.delayed.get_or_insert_with(|| Box::new(DelayedLatencies::without_delays(&self.clat)));
        delayed.slat.record(io.issued.saturating_since(io.ready));
        delayed.lat.record(done.saturating_since(io.ready));
    }

    fn latencies(&self) -> DelayedLatencies {
        match &self.delayed {
            Some(delayed) => DelayedLatencies::clone(delayed),
            None => DelayedLatencies::without_delays(&self.clat),
        }
    }

    /// Returns the number of completed requests.
    pub fn total_ios(&self) -> u64 {
        self.clat.count()
    }
    /// Returns the moments of slat, the time from the making of a request to its submission. They are empty for
    /// synchronous engines.
    pub fn slat(&self) -> Moments {
        match &self.delayed {
            _ if !self.asynchronous => Moments::default(),
            Some(delayed) => *delayed.slat.moments(),
            None => Moments::zeros(self.clat.count()),
        }
    }
    /// Returns the moments of lat, the time from the making of a request to its completion.
    pub fn lat(&self) -> Moments {
        *self.delayed.as_ref().map_or(&self.clat, |delayed| &delayed.lat).moments()
    }
    /// Returns the histogram of slat, which is empty for synchronous engines.
    pub fn slat_histogram(&self) -> Histogram {
        if self.asynchronous { self.latencies().slat } else { Histogram::new() }
    }
    /// Returns the histogram of lat.
    pub fn lat_histogram(&self) -> Histogram {
        self.latencies().lat
    }
    /// Returns the nanoseconds per mechanism over all requests, in printing order. Their sum is exactly the sum of
    /// clat.
    pub fn mechanisms_ns(&self) -> impl Iterator<Item = (Mechanism, u64)> + '_ {
        Mechanism::ALL.into_iter().zip(self.spent_ns)
    }
    /// Returns the nanoseconds of one mechanism over all requests.
    pub fn mechanism_ns(&self, mechanism: Mechanism) -> u64 {
        self.spent_ns[mechanism as usize]
    }
    /// Returns bytes a second over the runtime in milliseconds, rounded down, as fio prints it.
    pub fn bytes_per_second(&self) -> u64 {
        per_second(self.io_bytes, self.runtime_ms)
    }
    /// Returns requests a second over the runtime in milliseconds, as fio prints it.
    pub fn requests_per_second(&self) -> f64 {
        if self.runtime_ms == 0 { 0.0 } else { 1_000.0 * self.total_ios() as f64 / self.runtime_ms as f64 }
    }

    /// Adds the same direction of a job that ran in parallel.
    fn merge(&mut self, other: &DirectionStats) {
        if self.delayed.is_some() || other.delayed.is_some() {
            let (mut mine, theirs) = (self.latencies(), other.latencies());
            mine.slat.merge(&theirs.slat);
            mine.lat.merge(&theirs.lat);
            self.delayed = Some(Box::new(mine));
        }
        self.io_bytes += other.io_bytes;
        self.clat.merge(&other.clat);
        self.asynchronous |= other.asynchronous;
        self.runtime_ms = self.runtime_ms.max(other.runtime_ms);
        self.runtime = self.runtime.max(other.runtime);
        self.bandwidth.add_parallel(&other.bandwidth);
        self.iops.add_parallel(&other.iops);
        merge_timelines(&mut self.timeline, &other.timeline);
        for (mine, theirs) in self.spent_ns.iter_mut().zip(other.spent_ns) {
            *mine += theirs;
        }
    }
}

fn merge_timelines(mine: &mut Option<Box<Timeline>>, theirs: &Option<Box<Timeline>>) {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => mine.merge(theirs),
        (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
        (_, None) => {}
    }
}

/// Returns the rate per second of `amount` over `ms` milliseconds, rounded down. The result is zero if `ms` is zero.
pub(crate) fn per_second(amount: u64, ms: u64) -> u64 {
    if ms == 0 {
        return 0;
    }
    u64::try_from(u128::from(amount) * 1_000 / u128::from(ms)).unwrap_or(u64::MAX)
}

/// The failure that ended a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The failed request.
    pub io: Io,
    /// Time of the failure.
    pub at: Instant,
    /// Cause of the failure.
    pub cause: Cause,
}

impl Failure {
    /// Returns the error number of Linux or fio. It is ETIMEDOUT for a request above `max_latency`, EINVAL
    /// for a request that is not made of whole sectors, and ENOSPC for a write past the end. It is EOPNOTSUPP
    /// for an operation that the device lacks, 0 for the status `Ok`, and EIO otherwise.
    pub fn errno(&self) -> u32 {
        match (self.cause, self.io.direction) {
            (Cause::MaxLatency { .. }, _) => 110,
            (Cause::Device(Status::Ok) | Cause::Flush(Status::Ok), _) => 0,
            (Cause::Device(Status::Unsupported) | Cause::Flush(Status::Unsupported), _) => 95,
            (Cause::Device(Status::OutOfRange), _) if !self.is_of_whole_sectors() => 22,
            (Cause::Device(Status::OutOfRange), Direction::Write) => 28,
            (Cause::Device(_) | Cause::Flush(_), _) => 5,
        }
    }
    fn is_of_whole_sectors(&self) -> bool {
        const SECTOR: u64 = 512;
        self.io.offset.is_multiple_of(SECTOR) && self.io.length.is_multiple_of(SECTOR)
    }
    /// Returns fio's name of the failed operation: `sync` for a flush, and otherwise the direction of the request.
    pub fn operation(&self) -> &'static str {
        match self.cause {
            Cause::Flush(_) => "sync",
            Cause::Device(_) | Cause::MaxLatency { .. } => self.io.direction.name(),
        }
    }
    /// Returns the description of [`Failure::errno`] that fio prints.
    pub fn description(&self) -> &'static str {
        match self.errno() {
            0 => "Success",
            22 => "Invalid argument",
            28 => "No space left on device",
            95 => "Operation not supported",
            110 => "max latency exceeded, Connection timed out",
            _ => "Input/output error",
        }
    }
}

/// Statistics of a job, or of a group of jobs with `group_reporting`.
#[derive(Clone, Debug, Default)]
pub struct JobStats {
    /// Statistics of reads, writes and trims; index with [`JobStats::direction`].
    pub directions: [DirectionStats; 3],
    /// Latencies of `fsync` and `fdatasync`.
    pub sync: Histogram,
    /// Latencies of `fsync` and `fdatasync` over time, counted from the start of the job or from the end of
    /// its ramp; `None` unless the settings request it.
    pub sync_timeline: Option<Box<Timeline>>,
    /// Nanoseconds per mechanism, over all calls of `fsync` and `fdatasync`.
    pub sync_spent_ns: [u64; Mechanism::ALL.len()],
    /// clat of all directions in fio's coarse table.
    pub latency: LatencyTable,
    /// Numbers of in-flight requests at submission.
    pub depths: DepthTable,
    /// Numbers of requests submitted at a time.
    pub submits: BatchTable,
    /// Numbers of requests reaped at a time.
    pub completes: BatchTable,
    /// Sum of the runtimes of the jobs in milliseconds.
    pub job_runtime_ms: u64,
    /// End of the last job.
    pub finished: Instant,
    /// Failure that ended the job; for a group, that of its first failed job in the order of the jobs.
    pub failure: Option<Failure>,
    /// Buffers that loggers of the requested rates need.
    pub loggers: Vec<LoggerBuffer>,
    /// Series over time; empty for a group.
    pub logs: Logs,
}

impl JobStats {
    /// Returns the statistics of one direction.
    pub fn direction(&self, direction: Direction) -> &DirectionStats {
        &self.directions[direction as usize]
    }
    pub(super) fn record_sync(&mut self, latency: Duration, spent: &Spent) {
        self.sync.record(latency);
        for (total, mechanism) in self.sync_spent_ns.iter_mut().zip(Mechanism::ALL) {
            *total += spent[mechanism].as_ns();
        }
    }
    /// Returns the nanoseconds per mechanism over all calls of `fsync` and `fdatasync`, in printing order.
    pub fn sync_mechanisms_ns(&self) -> impl Iterator<Item = (Mechanism, u64)> + '_ {
        Mechanism::ALL.into_iter().zip(self.sync_spent_ns)
    }
    /// Returns the number of completed requests in all directions.
    pub fn total_ios(&self) -> u64 {
        self.directions.iter().map(DirectionStats::total_ios).sum()
    }
    /// Returns the tail of the write latencies, or `None` without writes.
    pub fn write_tail(&self) -> Option<Tail> {
        Tail::from_histogram(&self.direction(Direction::Write).clat)
    }
    /// Returns the time in which the host itself worked on reads, writes and trims, as a percentage of the
    /// running time, at most 100: fio's `sys`.
    pub fn host_percent(&self) -> f64 {
        let host: u64 = self.directions.iter().map(|d| d.mechanism_ns(Mechanism::Host)).sum();
        let ran = Duration::from_ms(self.job_runtime_ms).as_ns();
        if ran == 0 { 0.0 } else { (100.0 * host as f64 / ran as f64).min(100.0) }
    }

    /// Adds the statistics of a later phase of the same job. The runtimes of the two phases are summed. Rate
    /// windows and latencies over time of the first phase, if there are any, replace those of the later
    /// phase. The logs remain those of the first phase.
    pub(super) fn append(&mut self, later: &JobStats) {
        let logs = std::mem::take(&mut self.logs);
        let before = self.directions.each_ref().map(|way| {
            let timeline = way.timeline.clone().filter(|_| way.total_ios() > 0);
            (way.runtime_ms, way.runtime, way.bandwidth, way.iops, timeline)
        });
        let syncs = self.sync_timeline.clone().filter(|_| self.sync.count() > 0);
        self.merge(later);
        if syncs.is_some() {
            self.sync_timeline = syncs;
        }
        for ((way, (runtime_ms, runtime, bandwidth, iops, timeline)), later) in
            self.directions.iter_mut().zip(before).zip(&later.directions)
        {
            way.runtime_ms = runtime_ms + later.runtime_ms;
            way.runtime = runtime + later.runtime;
            if bandwidth.count() > 0 {
                (way.bandwidth, way.iops) = (bandwidth, iops);
            }
            if timeline.is_some() {
                way.timeline = timeline;
            }
        }
        self.logs = logs;
    }

    /// Adds the statistics of a job that ran in parallel.
    pub fn merge(&mut self, other: &JobStats) {
        for (mine, theirs) in self.directions.iter_mut().zip(&other.directions) {
            mine.merge(theirs);
        }
        self.sync.merge(&other.sync);
        merge_timelines(&mut self.sync_timeline, &other.sync_timeline);
        for (mine, theirs) in self.sync_spent_ns.iter_mut().zip(other.sync_spent_ns) {
            *mine += theirs;
        }
        self.latency.merge(&other.latency);
        self.depths.merge(&other.depths);
        self.submits.merge(&other.submits);
        self.completes.merge(&other.completes);
        self.job_runtime_ms += other.job_runtime_ms;
        self.finished = self.finished.max(other.finished);
        self.failure = self.failure.or(other.failure);
        for (mine, theirs) in self.loggers.iter_mut().zip(&other.loggers) {
            mine.merge(theirs);
        }
        self.logs = Logs::default();
    }

    /// Returns the statistics with all directions counted as one, in the place of reads: `unified_rw_reporting`.
    pub fn unified(&self) -> JobStats {
        let mut all = self.clone();
        let [read, write, trim] = &mut all.directions;
        for direction in [write, trim] {
            read.merge(direction);
            *direction = DirectionStats { asynchronous: direction.asynchronous, ..Default::default() };
        }
        all
    }
}
