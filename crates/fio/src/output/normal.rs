//! fio's normal output, with the same structure line by line.
//!
//! The version of this program replaces fio's, the process id is 0, and neither a date nor disk statistics are printed.
//! The `cpu` line contains only the simulated part: `sys` is the host's own work. Data that fio does not have is on
//! separate lines: the time per mechanism, and the tail of the write latencies.

use super::{Base, Run, Unit, bytes, count, rate, short};
use crate::job::{Direction, Job};
use crate::stats::{
    BatchTable, DepthTable, DirectionStats, GroupLine, JobStats, LatencyTable, LoggerBuffer, Report, Samples,
    block_sizes, groups, share, share_of_group,
};
use flashlab_sim::{Histogram, Mechanism, Moments};
use std::fmt::{self, Display, Formatter};

/// The normal output of `run`. The lines before the first result describe `jobs`.
#[derive(Clone, Copy, Debug)]
pub struct Normal<'a> {
    /// All jobs, clones included.
    pub jobs: &'a [Job],
    /// Results of the jobs.
    pub run: Run<'a>,
}

impl Display for Normal<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        job_lines(f, self.jobs)?;
        writeln!(f, "{}", self.run.version)?;
        let plural = if self.jobs.len() == 1 { "" } else { "s" };
        writeln!(f, "Starting {} job{plural} in simulated time", self.jobs.len())?;
        if !self.run.accepted.is_empty() {
            writeln!(f, "Without effect here: {}", self.run.accepted.join(", "))?;
        }
        writeln!(f)?;
        let groups = groups(self.run.reports);
        for report in self.run.reports {
            entry(f, report, &groups)?;
        }
        for (group, lines) in &groups {
            writeln!(f, "\nRun status group {group} (all jobs):")?;
            lines.iter().try_for_each(|line| group_line(f, line))?;
        }
        Ok(())
    }
}

/// Writes `name: (g=0): rw=...` for each job, and `...` for its clones.
fn job_lines(f: &mut Formatter<'_>, jobs: &[Job]) -> fmt::Result {
    let mut clones = 0;
    for job in jobs {
        clones = if job.clone == 0 { 0 } else { clones + 1 };
        match clones {
            0 => {
                write!(f, "{}: (g={}): rw={}, bs=", job.name, job.group, pattern(job))?;
                for (i, (direction, letter)) in Direction::ALL.into_iter().zip(['R', 'W', 'T']).enumerate() {
                    let (min, max) = block_sizes(job, direction);
                    let bytes = |n| bytes(n, Base::from_kb_base(job.kb_base).0);
                    write!(f, "{}({letter}) {}-{}", if i == 0 { "" } else { ", " }, bytes(min), bytes(max))?;
                }
                writeln!(f, ", ioengine={}, iodepth={}", job.engine_name, job.depth)?;
            }
            1 => writeln!(f, "...")?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns the pattern as the value of `rw=`.
fn pattern(job: &Job) -> &'static str {
    use crate::job::Mix::{Read, ReadWrite, Trim, TrimWrite, Write};
    match (job.pattern.mix, job.pattern.random) {
        (Read, false) => "read",
        (Read, true) => "randread",
        (Write, false) => "write",
        (Write, true) => "randwrite",
        (Trim, false) => "trim",
        (Trim, true) => "randtrim",
        (ReadWrite, false) => "rw",
        (ReadWrite, true) => "randrw",
        (TrimWrite, false) => "trimwrite",
        (TrimWrite, true) => "randtrimwrite",
    }
}

fn entry(f: &mut Formatter<'_>, report: &Report, groups: &[(u32, Vec<GroupLine>)]) -> fmt::Result {
    let Report { job, jobs, stats } = report;
    write!(f, "{}: (groupid={}, jobs={jobs}): ", job.name, job.group)?;
    match &stats.failure {
        None => write!(f, "err= 0")?,
        Some(failure) => write!(
            f,
            "err={:2} ({} of {} bytes at {}: {})",
            failure.errno(),
            failure.operation(),
            failure.io.length,
            failure.io.offset,
            failure.description()
        )?,
    }
    writeln!(f, ": pid=0: simulated")?;
    if let Some(description) = &job.description {
        writeln!(f, "  Description  : [{description}]")?;
    }
    for &(direction, name) in report.shown() {
        let of_direction = stats.direction(direction);
        if of_direction.runtime_ms > 0 {
            let per = share_of_group(groups, report, direction);
            direction_lines(f, name, of_direction, job, per)?;
        }
    }
    latency_lines(f, stats)?;
    let sync_percentiles = Some(Percentiles::from_job(job)).filter(|_| job.percentiles_of.syncs());
    sync_lines(f, &stats.sync, sync_percentiles.as_ref())?;
    writeln!(f, "  cpu          : usr=0.00%, sys={:3.2}%, ctx=0, majf=0, minf=0", stats.host_percent())?;
    table_line(f, "  IO depths    : ", DepthTable::STEPS, stats.depths.counts(), stats.total_ios())?;
    let (submits, completes) = (&stats.submits, &stats.completes);
    table_line(f, "     submit    : ", BatchTable::STEPS, submits.counts(), submits.total())?;
    table_line(f, "     complete  : ", BatchTable::STEPS, completes.counts(), completes.total())?;
    let [read, write, trim] = stats.directions.each_ref().map(DirectionStats::total_ios);
    writeln!(
        f,
        "     issued rwts: total={read},{write},{trim},{} short=0,0,0,0 dropped=0,0,0,0",
        stats.sync.count()
    )?;
    writeln!(f, "     latency   : target=0, window=0, percentile=100.00%, depth={}", job.depth)?;
    mechanism_lines(f, report)?;
    tail_lines(f, report)
}

fn direction_lines(
    f: &mut Formatter<'_>,
    name: &str,
    stats: &DirectionStats,
    job: &Job,
    per: f64,
) -> fmt::Result {
    let bandwidth = stats.bytes_per_second();
    let (base, other) = Base::from_kb_base(job.kb_base);
    writeln!(
        f,
        "  {name}: IOPS={}, BW={} ({})({}/{}msec){}",
        count(stats.requests_per_second() as u64),
        rate(bandwidth, base),
        rate(bandwidth, other),
        bytes(stats.io_bytes, base),
        stats.runtime_ms,
        if name == "write" { "; 0 zone resets" } else { "" }
    )?;
    for (what, moments) in [("slat", stats.slat()), ("clat", *stats.clat.moments()), (" lat", stats.lat())] {
        moments_line(f, what, &moments)?;
    }
    let (percentiles, selected) = (Percentiles::from_job(job), job.percentiles_of);
    if selected.slat {
        percentiles.lines(f, "slat", &stats.slat_histogram())?;
    }
    if selected.clat {
        percentiles.lines(f, "clat", &stats.clat)?;
    }
    if selected.lat {
        percentiles.lines(f, "lat", &stats.lat_histogram())?;
    }
    bandwidth_line(f, &stats.bandwidth, per, job.kb_base)?;
    iops_line(f, &stats.iops)
}

/// Returns the unit, in nanoseconds and by name, in which fio prints latencies from `least_ns` to `greatest_ns`.
///
/// fio uses a larger unit only if the deviation also exceeds that unit (one microsecond or one millisecond).
/// Simulated latencies may all be equal, so this function does not consider the deviation.
fn scale(least_ns: u64, greatest_ns: u64) -> (u64, &'static str) {
    if least_ns > 2_000_000 && greatest_ns > 99_999_999 {
        (1_000_000, "msec")
    } else if least_ns > 2_000 && greatest_ns > 99_999 {
        (1_000, "usec")
    } else {
        (1, "nsec")
    }
}

fn moments_line(f: &mut Formatter<'_>, what: &str, moments: &Moments) -> fmt::Result {
    if moments.count() == 0 {
        return Ok(());
    }
    let (unit, name) = scale(moments.min_ns(), moments.max_ns());
    let whole = |ns: u64| short(ns / unit, 6, Base::Decimal, Unit::None);
    writeln!(
        f,
        "    {what} ({name}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        whole(moments.min_ns()),
        whole(moments.max_ns()),
        moments.mean_ns() / unit as f64,
        moments.stddev_ns() / unit as f64
    )
}

/// The sorted `percentile_list=`, with as many decimals as its longest entry.
struct Percentiles {
    list: Vec<f64>,
    decimals: usize,
}

impl Percentiles {
    fn from_job(job: &Job) -> Self {
        let mut list = job.percentiles.clone();
        list.sort_by(f64::total_cmp);
        let decimals =
            list.iter().map(|p| p.to_string().split_once('.').map_or(0, |(_, d)| d.len())).max().unwrap_or(0);
        Percentiles { list, decimals }
    }

    /// Writes the table of percentiles in the unit that fits all of them.
    fn lines(&self, f: &mut Formatter<'_>, what: &str, latencies: &Histogram) -> fmt::Result {
        if self.list.is_empty() || latencies.count() == 0 {
            return Ok(());
        }
        let values: Vec<u64> = self.list.iter().map(|&p| latencies.percentile(p).as_ns()).collect();
        let least = values.iter().copied().min().unwrap_or(0);
        let greatest = values.iter().copied().max().unwrap_or(0);
        let (unit, name) = scale(least, greatest);
        let width = ((greatest / unit).checked_ilog10().unwrap_or(0) as usize + 1).max(5);
        let decimals = self.decimals;
        let per_line = ((80 - 7) / (decimals + 10 + width)).max(1);
        writeln!(f, "    {what} percentiles ({name}):")?;
        for (i, (percent, value)) in self.list.iter().zip(&values).enumerate() {
            if i % per_line == 0 {
                write!(f, "     |")?;
            }
            write!(f, " {percent:pw$.decimals$}th=[{:width$}]", value.div_ceil(unit), pw = decimals + 3)?;
            match i + 1 {
                n if n == values.len() => writeln!(f)?,
                n if n % per_line == 0 => writeln!(f, ",")?,
                _ => write!(f, ",")?,
            }
        }
        Ok(())
    }
}

fn bandwidth_line(f: &mut Formatter<'_>, samples: &Samples, per: f64, kb_base: u32) -> fmt::Result {
    if samples.count() == 0 {
        return Ok(());
    }
    // The samples are in KiB/s regardless of `kb_base`. As in fio 3.33, only the printed unit differs.
    let kb_base = u64::from(kb_base.max(1));
    let (unit, name) = match samples.mean() > (kb_base * kb_base) as f64 {
        true => (kb_base, "MiB"),
        false if kb_base == 1_000 => (1, "kB"),
        false => (1, "KiB"),
    };
    writeln!(
        f,
        "   bw ({name:>5}/s): min={:5}, max={:5}, per={per:3.2}%, avg={:5.2}, stdev={:5.2}, samples={}",
        samples.min() / unit,
        samples.max() / unit,
        samples.mean() / unit as f64,
        samples.stddev() / unit as f64,
        samples.count()
    )
}

fn iops_line(f: &mut Formatter<'_>, samples: &Samples) -> fmt::Result {
    if samples.count() == 0 {
        return Ok(());
    }
    writeln!(
        f,
        "   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}",
        samples.min(),
        samples.max(),
        samples.mean(),
        samples.stddev(),
        samples.count()
    )
}

fn latency_lines(f: &mut Formatter<'_>, stats: &JobStats) -> fmt::Result {
    let total = stats.total_ios();
    for (name, steps, counts) in [
        ("nsec", &LatencyTable::STEPS[..], stats.latency.ns()),
        ("usec", &LatencyTable::STEPS, stats.latency.us()),
        ("msec", &LatencyTable::STEPS_MS, stats.latency.ms()),
    ] {
        let shares: Vec<String> = steps
            .iter()
            .zip(counts)
            .filter(|&(_, &n)| n > 0)
            .map(|(step, &n)| format!("{step}={:3.2}%", share(n, total, 0.01)))
            .collect();
        for line in shares.chunks(5) {
            writeln!(f, "  lat ({name})   : {}", line.join(", "))?;
        }
    }
    Ok(())
}

fn sync_lines(f: &mut Formatter<'_>, sync: &Histogram, list: Option<&Percentiles>) -> fmt::Result {
    if sync.count() == 0 {
        return Ok(());
    }
    writeln!(f, "  fsync/fdatasync/sync_file_range:")?;
    moments_line(f, "sync", sync.moments())?;
    list.map_or(Ok(()), |list| list.lines(f, "sync", sync))
}

fn table_line(
    f: &mut Formatter<'_>,
    head: &str,
    steps: [&str; 7],
    counts: &[u64; 7],
    total: u64,
) -> fmt::Result {
    let shares: Vec<String> =
        steps.iter().zip(counts).map(|(step, &n)| format!("{step}={:3.1}%", share(n, total, 0.1))).collect();
    writeln!(f, "{head}{}", shares.join(", "))
}

fn group_line(f: &mut Formatter<'_>, line: &GroupLine) -> fmt::Result {
    let (base, other) = Base::from_kb_base(line.kb_base);
    writeln!(
        f,
        "{:>7}: bw={} ({}), {}-{} ({}-{}), io={} ({}), run={}-{}msec",
        line.name,
        rate(line.aggregate, base),
        rate(line.aggregate, other),
        rate(line.slowest, base),
        rate(line.fastest, base),
        rate(line.slowest, other),
        rate(line.fastest, other),
        bytes(line.io_bytes, base),
        bytes(line.io_bytes, other),
        line.shortest_ms,
        line.longest_ms
    )
}

/// Writes the mean time that requests and flushes spend in each mechanism, which fio does not report.
fn mechanism_lines(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    for &(direction, name) in report.shown() {
        let stats = report.stats.direction(direction);
        mechanism_line(f, name, &stats.clat, stats.mechanisms_ns())?;
    }
    mechanism_line(f, "sync", &report.stats.sync, report.stats.sync_mechanisms_ns())
}

/// Writes the mean time per mechanism of one kind of request, unless these requests took no time.
fn mechanism_line(
    f: &mut Formatter<'_>,
    name: &str,
    latencies: &Histogram,
    mechanisms_ns: impl Iterator<Item = (Mechanism, u64)>,
) -> fmt::Result {
    let (count, total) = (latencies.count(), latencies.sum_ns());
    if total == 0 {
        return Ok(());
    }
    let part = |(mechanism, ns): (Mechanism, u64)| {
        let mean_us = ns as f64 / count as f64 / 1_000.0;
        format!("{}={mean_us:.2} ({:.1}%)", mechanism.name(), 100.0 * ns as f64 / total as f64)
    };
    let parts: Vec<String> = mechanisms_ns.filter(|&(_, ns)| ns > 0).map(part).collect();
    writeln!(f, "  {name} time, mean (usec): {}", parts.join(", "))
}

/// Writes the tail of the write latencies, which fio does not report.
fn tail_lines(f: &mut Formatter<'_>, Report { job, stats, .. }: &Report) -> fmt::Result {
    let base = Base::from_kb_base(job.kb_base).0;
    if stats.direction(Direction::Write).runtime_ms == 0 {
        return Ok(());
    }
    if let Some(tail) = stats.write_tail() {
        let us = |duration: flashlab_sim::Duration| duration.as_ns() as f64 / 1_000.0;
        // As in fio, calls of fsync have latencies of their own.
        let without = if stats.sync.count() > 0 { ", without syncs" } else { "" };
        writeln!(
            f,
            "  write tail (usec, not fitted{without}): p99={:.1}, p99.9={:.1}, max={:.1}",
            us(tail.p99),
            us(tail.p99_9),
            us(tail.max)
        )?;
    }
    let slower = if stats.sync.count() > 0 { "writes and syncs are" } else { "the writes are" };
    for logger in &stats.loggers {
        let (at, buffer) = (rate(logger.rate(), base), bytes(logger.bytes(), base));
        match logger.is_fast_enough() {
            true => writeln!(f, "  buffer for a logger at {at}: {buffer} (not fitted)")?,
            false => writeln!(
                f,
                "  buffer for a logger at {at}: no buffer is large enough, since {slower} slower than the logger \
                 ({buffer} in this run, not fitted)"
            )?,
        }
    }
    if !stats.loggers.is_empty() {
        writeln!(f, "    {}", LoggerBuffer::LIMITATION)?;
    }
    Ok(())
}
