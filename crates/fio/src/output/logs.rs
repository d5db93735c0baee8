//! The files of `write_bw_log`, `write_iops_log` and `write_lat_log`. Each line contains `time, value, direction, block
//! size, priority`, with the time in milliseconds since the start of the job, or since the end of its ramp.

use crate::job::Job;
use crate::stats::{JobStats, Log};
use std::io::{self, Write};

/// One log file of a job.
#[derive(Clone, Debug)]
pub struct LogFile<'a> {
    /// Name of the file, such as `PREFIX_bw.1.log`.
    pub name: String,
    log: &'a Log,
}

impl LogFile<'_> {
    /// Writes the lines.
    ///
    /// # Errors
    /// Returns the error of `to`.
    pub fn write_to(&self, to: &mut impl Write) -> io::Result<()> {
        for entry in self.log.entries() {
            let direction = entry.direction as usize;
            writeln!(to, "{}, {}, {direction}, {}, 0", entry.time_ms, entry.value, entry.bytes)?;
        }
        Ok(())
    }
}

/// Returns the log files of the job with this `number` in the run, counted from 1.
pub fn files<'a>(job: &Job, number: usize, stats: &'a JobStats) -> Vec<LogFile<'a>> {
    let mut files = Vec::new();
    let mut add = |prefix: &Option<String>, kind: &str, log: Option<&'a Log>| {
        if let (Some(prefix), Some(log)) = (prefix, log) {
            files.push(LogFile { name: format!("{prefix}_{kind}.{number}.log"), log });
        }
    };
    let logs = &stats.logs;
    add(&job.write_bw_log, "bw", logs.bandwidth.as_ref());
    let latency = logs.latency.as_ref();
    add(&job.write_lat_log, "slat", latency.map(|l| &l.slat));
    add(&job.write_lat_log, "clat", latency.map(|l| &l.clat));
    add(&job.write_lat_log, "lat", latency.map(|l| &l.lat));
    add(&job.write_iops_log, "iops", logs.iops.as_ref());
    files
}
