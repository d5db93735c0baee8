//! fio's terse output: one line per entry, with fields separated by semicolons.
//!
//! The fields, their order and their formats are those of fio 3.33 with `disk_util=0`. Latencies are in
//! microseconds, runtimes in milliseconds, and bandwidths in KiB/s.

use super::json::FORMAT;
use crate::cmdline::TerseVersion;
use crate::job::{Direction, Job};
use crate::stats::{DirectionStats, GroupLine, LatencyTable, Report, groups, share, share_of_group};
use flashlab_sim::{Histogram, Moments};
use std::fmt::{self, Write};

/// Number of percentile fields of each direction, regardless of the number of percentiles of a job.
const PERCENTILES: usize = 20;

/// Returns the lines for `reports`, each of which ends with a newline.
pub fn text(reports: &[Report], version: TerseVersion) -> String {
    let groups = groups(reports);
    let mut out = String::new();
    for report in reports {
        entry(&mut out, report, &groups, version).expect("a string takes all");
    }
    out
}

fn entry(
    out: &mut String,
    report: &Report,
    groups: &[(u32, Vec<GroupLine>)],
    version: TerseVersion,
) -> fmt::Result {
    let Report { job, stats, .. } = report;
    match version {
        TerseVersion::Two => write!(out, "2")?,
        TerseVersion::Three => write!(out, "3;{FORMAT}")?,
        TerseVersion::Four => write!(out, "4;{FORMAT}")?,
        TerseVersion::Five => write!(out, "5;{FORMAT}")?,
    }
    write!(out, ";{};{};{}", job.name, job.group, stats.failure.map_or(0, |failure| failure.errno()))?;
    for &(way, _) in report.shown() {
        if way == Direction::Trim && version == TerseVersion::Three {
            continue;
        }
        let per = share_of_group(groups, report, way);
        direction(out, stats.direction(way), job, per, version)?;
    }
    write!(out, ";{:.6}%;{:.6}%;0;0;0", 0.0, stats.host_percent())?;
    let total = stats.total_ios();
    for &count in stats.depths.counts() {
        write!(out, ";{:3.1}%", share(count, total, 0.1))?;
    }
    latencies(out, &stats.latency, total)?;
    if let Some(description) = &job.description {
        let line_end = if version == TerseVersion::Two { "\n" } else { "" };
        write!(out, "{line_end};{description}")?;
    }
    writeln!(out)
}

fn direction(
    out: &mut String,
    stats: &DirectionStats,
    job: &Job,
    per: f64,
    version: TerseVersion,
) -> fmt::Result {
    let (bytes, ms) = (stats.io_bytes, stats.runtime_ms);
    let (bandwidth, iops) = (stats.bytes_per_second() / 1_024, stats.requests_per_second() as u64);
    write!(out, ";{};{bandwidth};{iops};{ms}", bytes / 1_024)?;
    moments(out, &stats.slat())?;
    moments(out, stats.clat.moments())?;
    match job.percentiles_of {
        selected if selected.lat => percentiles(out, &stats.lat_histogram(), &job.percentiles)?,
        selected if selected.clat => percentiles(out, &stats.clat, &job.percentiles)?,
        _ => percentiles(out, &stats.clat, &[])?,
    }
    moments(out, &stats.lat())?;
    let (windows, rates) = (&stats.bandwidth, &stats.iops);
    write!(
        out,
        ";{};{};{per:.6}%;{:.6};{:.6}",
        windows.min(),
        windows.max(),
        windows.mean(),
        windows.stddev()
    )?;
    if version == TerseVersion::Five {
        write!(out, ";{};{};{}", windows.count(), rates.min(), rates.max())?;
        write!(out, ";{:.6};{:.6};{}", rates.mean(), rates.stddev(), rates.count())?;
    }
    Ok(())
}

fn moments(out: &mut String, moments: &Moments) -> fmt::Result {
    if moments.count() == 0 {
        return write!(out, ";0;0;0.000000;0.000000");
    }
    let (least, greatest) = (moments.min_ns() / 1_000, moments.max_ns() / 1_000);
    write!(out, ";{least};{greatest};{:.6};{:.6}", moments.mean_ns() / 1e3, moments.stddev_ns() / 1e3)
}

fn percentiles(out: &mut String, latencies: &Histogram, list: &[f64]) -> fmt::Result {
    let mut list = list.to_vec();
    list.sort_by(f64::total_cmp);
    for &percent in &list {
        let ns = if latencies.count() == 0 { 0 } else { latencies.percentile(percent).as_ns() };
        write!(out, ";{percent:.6}%={}", ns / 1_000)?;
    }
    (list.len()..PERCENTILES).try_for_each(|_| write!(out, ";0%=0"))
}

/// Writes the percentage of the latencies in each microsecond and millisecond bin. The first bin also contains all
/// latencies below 1 us.
fn latencies(out: &mut String, table: &LatencyTable, total: u64) -> fmt::Result {
    let below: u64 = table.ns().iter().sum();
    let exact = if total == 0 { 0.0 } else { 100.0 * below as f64 / total as f64 };
    for (n, &count) in table.us().iter().enumerate() {
        let first = if n == 0 { exact } else { 0.0 };
        write!(out, ";{:3.2}%", share(count, total, 0.01) + first)?;
    }
    table.ms().iter().try_for_each(|&count| write!(out, ";{:3.2}%", share(count, total, 0.01)))
}
