//! Results of a load, as text and as JSON.

use super::Job;
use super::worker::WorkerResult;
use flashlab_sim::{Duration, Histogram, Instant};
use serde_json::{Value, json};
use std::fmt::Write;

/// The reported percentiles.
const PERCENTILES: [f64; 8] = [1.0, 10.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Results of a load.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Parameters of the load.
    pub job: Job,
    /// Size of the export in bytes.
    pub export_size: u64,
    /// Time from the start of the load to its end, without the final verification.
    pub elapsed: Duration,
    /// Latencies of reads.
    pub reads: Histogram,
    /// Latencies of writes.
    pub writes: Histogram,
    /// Number of the client's system calls that moved or waited for bytes, without the final verification.
    pub calls: u64,
    /// Processor time of this process in nanoseconds, including the final verification.
    pub cpu_ns: u64,
    /// Number of block reads that were verified, including the final verification.
    pub verified: u64,
}

impl LoadReport {
    pub(super) fn new(
        job: Job,
        export_size: u64,
        start: Instant,
        done: &[WorkerResult],
        cpu_ns: u64,
    ) -> LoadReport {
        let ended = done.iter().map(|done| done.ended).max().unwrap_or(start);
        let (mut reads, mut writes) = (Histogram::new(), Histogram::new());
        for one in done {
            reads.merge(&one.reads);
            writes.merge(&one.writes);
        }
        LoadReport {
            job,
            export_size,
            elapsed: ended.saturating_since(start),
            reads,
            writes,
            calls: done.iter().map(|done| done.calls).sum(),
            cpu_ns,
            verified: done.iter().map(|done| done.verified).sum(),
        }
    }

    /// Returns the number of completed requests.
    pub fn requests(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }

    /// Returns the number of requests per second.
    pub fn iops(&self) -> f64 {
        self.per_second(self.requests())
    }

    fn per_second(&self, n: u64) -> f64 {
        if self.elapsed == Duration::ZERO { 0.0 } else { n as f64 / self.elapsed.as_secs_f64() }
    }

    fn per_million(&self, n: f64) -> f64 {
        if self.requests() == 0 { 0.0 } else { n * 1e6 / self.requests() as f64 }
    }

    fn directions(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        [("read", &self.reads), ("write", &self.writes)].into_iter().filter(|(_, h)| h.count() > 0)
    }

    /// Returns the results as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string takes all");
        let Job { block, depth, connections, .. } = self.job;
        line(format_args!("block {block} B, iodepth {depth}, connections {connections}"));
        for (name, latencies) in self.directions() {
            let iops = self.per_second(latencies.count());
            let bytes = iops * f64::from(block);
            line(format_args!(
                "  {name:<5}  IOPS {iops:.0}, BW {:.1} MiB/s ({:.1} MB/s), {} requests in {:.2} s",
                bytes / f64::from(1 << 20),
                bytes / 1e6,
                latencies.count(),
                self.elapsed.as_secs_f64(),
            ));
            line(format_args!(
                "    lat (us)  min {:.1}, mean {:.1}, stdev {:.1}, max {:.1}",
                us(latencies.min()),
                latencies.mean_ns() / 1e3,
                latencies.stddev_ns() / 1e3,
                us(latencies.max()),
            ));
            let percentiles: Vec<_> =
                PERCENTILES.iter().map(|p| format!("{p}% {:.1}", us(latencies.percentile(*p)))).collect();
            line(format_args!("    lat percentiles (us)  {}", percentiles.join(", ")));
        }
        line(format_args!(
            "  client     CPU {:.2} s, {:.3} s per million requests; system calls {}, {:.0} per million requests",
            self.cpu_ns as f64 / 1e9,
            self.per_million(self.cpu_ns as f64 / 1e9),
            self.calls,
            self.per_million(self.calls as f64),
        ));
        if self.job.verify {
            line(format_args!("  verified  {} reads of blocks, all as they were written", self.verified));
        }
        text
    }

    /// Returns the results as JSON. Times are in nanoseconds, and the names are fio's where the meaning is the same.
    pub fn json(&self) -> String {
        let mut document = json!({
            "bs": self.job.block,
            "iodepth": self.job.depth,
            "connections": self.job.connections,
            "export_bytes": self.export_size,
            "runtime_ns": self.elapsed.as_ns(),
            "total_ios": self.requests(),
            "iops": self.iops(),
            "cpu_seconds": self.cpu_ns as f64 / 1e9,
            "cpu_seconds_per_million": self.per_million(self.cpu_ns as f64 / 1e9),
            "system_calls": self.calls,
            "system_calls_per_million": self.per_million(self.calls as f64),
        });
        if self.job.verify {
            document["verified_blocks"] = json!(self.verified);
        }
        for (name, latencies) in self.directions() {
            document[name] = self.direction(latencies);
        }
        let mut text = serde_json::to_string_pretty(&document).expect("numbers and names serialise");
        text.push('\n');
        text
    }

    fn direction(&self, latencies: &Histogram) -> Value {
        let mut percentile = json!({});
        for p in PERCENTILES {
            percentile[format!("{p:.6}")] = json!(latencies.percentile(p).as_ns());
        }
        let bytes = latencies.count() * u64::from(self.job.block);
        json!({
            "total_ios": latencies.count(),
            "io_bytes": bytes,
            "iops": self.per_second(latencies.count()),
            "bw_bytes": self.per_second(bytes),
            "lat_ns": {
                "min": latencies.min().as_ns(),
                "max": latencies.max().as_ns(),
                "mean": latencies.mean_ns(),
                "stddev": latencies.stddev_ns(),
                "N": latencies.count(),
                "percentile": percentile,
            },
        })
    }
}

fn us(time: Duration) -> f64 {
    time.as_ns() as f64 / 1e3
}
