//! Series over time: the contents of `write_bw_log`, `write_iops_log` and `write_lat_log`.
//!
//! Without `log_avg_msec`, each request is an entry. With `log_avg_msec`, latencies are averaged as in fio.
//! The first request that completes at or after the end of a window still belongs to that window, and its
//! completion closes the window. The next window ends at the following multiple of `log_avg_msec`. The
//! entries of rates are then those of the sampling windows.

use crate::job::{Direction, Job};

/// One line of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Milliseconds since the start of the job, or since the end of its ramp.
    pub time_ms: u64,
    /// Value in KiB/s (kB/s in a log of each request), IOPS (1 in a log of each request) or nanoseconds.
    pub value: u64,
    /// Direction of the request or of the averaged requests.
    pub direction: Direction,
    /// Size of the request in bytes; 0 if the entry is an average.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    sum: u128,
    count: u64,
    began_ms: u64,
}

/// The entries of one log file.
#[derive(Clone, Debug)]
pub struct Log {
    average_ms: u64,
    windows: [Window; 3],
    entries: Vec<Entry>,
}

impl Log {
    /// Returns an empty log of averages over `average_ms`, or of each request if `average_ms` is 0.
    pub fn new(average_ms: u64) -> Self {
        Log { average_ms, windows: Default::default(), entries: Vec::new() }
    }

    /// Returns the entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds the value of one request.
    pub(super) fn add_request(&mut self, time_ms: u64, value: u64, direction: Direction, bytes: u64) {
        if self.average_ms == 0 {
            self.entries.push(Entry { time_ms, value, direction, bytes });
            return;
        }
        let window = &mut self.windows[direction as usize];
        window.sum += u128::from(value);
        window.count += 1;
        if time_ms.saturating_sub(window.began_ms) >= self.average_ms {
            self.close(time_ms, direction);
        }
    }

    /// Adds the rate of a window.
    pub(super) fn add_rate(&mut self, time_ms: u64, value: u64, direction: Direction) {
        self.entries.push(Entry { time_ms, value, direction, bytes: 0 });
    }

    /// Adds the averages of the unfinished windows at the end of the job.
    pub(super) fn finish(&mut self, time_ms: u64) {
        for direction in Direction::ALL {
            if self.windows[direction as usize].count > 0 {
                self.close(time_ms, direction);
            }
        }
    }

    /// Discards all entries at the end of the ramp.
    pub(super) fn clear(&mut self) {
        *self = Log::new(self.average_ms);
    }

    fn close(&mut self, time_ms: u64, direction: Direction) {
        let window = &mut self.windows[direction as usize];
        let value = (window.sum + u128::from(window.count) / 2) / u128::from(window.count);
        let value = u64::try_from(value).expect("a mean is not above the greatest value");
        *window = Window { began_ms: time_ms - time_ms % self.average_ms, ..Window::default() };
        self.entries.push(Entry { time_ms, value, direction, bytes: 0 });
    }
}

/// The logs of a job.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// Rates in KiB/s; in a log of each request, in kB/s, as in fio.
    pub bandwidth: Option<Log>,
    /// Requests a second; in a log of each request, the value 1, as in fio.
    pub iops: Option<Log>,
    /// Latencies.
    pub latency: Option<LatencyLogs>,
}

/// The three files of `write_lat_log`.
#[derive(Clone, Debug)]
pub struct LatencyLogs {
    /// Time from the making of a request to its submission; empty for synchronous engines.
    pub slat: Log,
    /// Time from a request's submission to its completion.
    pub clat: Log,
    /// Time from the making of a request to its completion.
    pub lat: Log,
}

impl Logs {
    /// Returns the empty logs that `job` requests.
    pub fn for_job(job: &Job) -> Self {
        let log = || Log::new(job.log_avg_msec);
        Logs {
            bandwidth: job.write_bw_log.as_ref().map(|_| log()),
            iops: job.write_iops_log.as_ref().map(|_| log()),
            latency: job.write_lat_log.as_ref().map(|_| LatencyLogs { slat: log(), clat: log(), lat: log() }),
        }
    }

    pub(super) fn each(&mut self, mut f: impl FnMut(&mut Log)) {
        self.bandwidth.iter_mut().for_each(&mut f);
        self.iops.iter_mut().for_each(&mut f);
        if let Some(latency) = &mut self.latency {
            [&mut latency.slat, &mut latency.clat, &mut latency.lat].into_iter().for_each(f);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_close_at_the_first_request_past_their_window() {
        // Requests every 27 ms, averaged over 100 ms: fio 3.33 logs 108, 216, 324, 405, 513.
        let mut log = Log::new(100);
        for i in 0..20 {
            log.add_request(27 * i, 10, Direction::Read, 4_096);
        }
        let times: Vec<u64> = log.entries().iter().map(|e| e.time_ms).collect();
        assert_eq!(times, [108, 216, 324, 405, 513]);
        assert!(log.entries().iter().all(|e| e.value == 10 && e.bytes == 0));
    }

    #[test]
    fn directions_are_averaged_separately_and_written_at_the_end() {
        let mut log = Log::new(100);
        log.add_request(10, 10, Direction::Read, 512);
        log.add_request(20, 40, Direction::Write, 512);
        log.add_request(30, 13, Direction::Read, 512);
        log.finish(40);
        let entries: Vec<_> = log.entries().iter().map(|e| (e.time_ms, e.value, e.direction)).collect();
        assert_eq!(entries, [(40, 12, Direction::Read), (40, 40, Direction::Write)]);
    }

    #[test]
    fn without_averaging_each_request_is_an_entry() {
        let mut log = Log::new(0);
        log.add_request(1, 7, Direction::Trim, 4_096);
        log.finish(2);
        assert_eq!(log.entries(), [Entry { time_ms: 1, value: 7, direction: Direction::Trim, bytes: 4_096 }]);
    }
}
