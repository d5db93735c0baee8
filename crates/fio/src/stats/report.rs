//! The entries of the output, each of which is a job or a group of jobs with `group_reporting`, and the summaries of
//! the run status groups.

use super::job::{JobStats, per_second};
use crate::job::{Direction, Job};

/// One entry of the output.
#[derive(Clone, Debug)]
pub struct Report {
    /// The job with its options resolved; for a group, the first job.
    pub job: Job,
    /// Number of jobs in the entry.
    pub jobs: usize,
    /// Statistics of the jobs. With `unified_rw_reporting`, all directions are counted in the place of reads.
    pub stats: JobStats,
}

impl Report {
    /// Returns the directions that the entry shows, with their names.
    pub fn shown(&self) -> &'static [(Direction, &'static str)] {
        const SEPARATE: [(Direction, &str); 3] =
            [(Direction::Read, "read"), (Direction::Write, "write"), (Direction::Trim, "trim")];
        if self.job.unified_rw_reporting { &[(Direction::Read, "mixed")] } else { &SEPARATE }
    }

    /// Returns the minimum and maximum block size of a direction in bytes.
    pub fn block_sizes(&self, direction: Direction) -> (u64, u64) {
        block_sizes(&self.job, direction)
    }
}

/// Returns the minimum and maximum block size of a direction of `job` in bytes.
pub(crate) fn block_sizes(job: &Job, direction: Direction) -> (u64, u64) {
    job.block_size[direction as usize].bounds()
}

/// Returns the entries for `jobs`. The jobs of a group that is reported as one share an entry, under the name of the
/// first job.
pub(super) fn reports<'a>(jobs: &[Job], stats: impl Iterator<Item = &'a JobStats>) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for (job, stats) in jobs.iter().zip(stats) {
        match reports.last_mut() {
            Some(last) if job.group_reporting && last.job.group_reporting && last.job.group == job.group => {
                last.jobs += 1;
                last.stats.merge(stats);
            }
            _ => reports.push(Report { job: job.clone(), jobs: 1, stats: stats.clone() }),
        }
    }
    for report in reports.iter_mut().filter(|r| r.job.unified_rw_reporting) {
        report.stats = report.stats.unified();
    }
    reports
}

/// The line of one direction under `Run status group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLine {
    /// `READ`, `WRITE`, `TRIM` or `MIXED`.
    pub name: &'static str,
    /// Direction whose statistics were summed.
    pub direction: Direction,
    /// Bytes of all entries, divided by the longest runtime, in bytes a second.
    pub aggregate: u64,
    /// Rate of the slowest entry in bytes a second.
    pub slowest: u64,
    /// Rate of the fastest entry in bytes a second.
    pub fastest: u64,
    /// Number of bytes transferred.
    pub io_bytes: u64,
    /// Shortest runtime in milliseconds.
    pub shortest_ms: u64,
    /// Longest runtime in milliseconds.
    pub longest_ms: u64,
    /// `kb_base=` of the first entry, for printing.
    pub kb_base: u32,
}

/// Returns the groups of the entries in order, as (group, lines).
pub fn groups(reports: &[Report]) -> Vec<(u32, Vec<GroupLine>)> {
    let mut groups: Vec<(u32, Vec<GroupLine>)> = Vec::new();
    for report in reports {
        let group = report.job.group;
        if groups.last().is_none_or(|(number, _)| *number != group) {
            groups.push((group, Vec::new()));
        }
        let lines = &mut groups.last_mut().expect("the group was pushed above").1;
        for &(direction, name) in report.shown() {
            let stats = report.stats.direction(direction);
            if stats.runtime_ms == 0 {
                continue;
            }
            let (rate, ms) = (stats.bytes_per_second(), stats.runtime_ms);
            let name = match name {
                "mixed" => "MIXED",
                "write" => "WRITE",
                "trim" => "TRIM",
                _ => "READ",
            };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => {
                    line.slowest = line.slowest.min(rate);
                    line.fastest = line.fastest.max(rate);
                    line.io_bytes += stats.io_bytes;
                    line.shortest_ms = line.shortest_ms.min(ms);
                    line.longest_ms = line.longest_ms.max(ms);
                }
                None => lines.push(GroupLine {
                    name,
                    direction,
                    aggregate: 0,
                    slowest: rate,
                    fastest: rate,
                    io_bytes: stats.io_bytes,
                    shortest_ms: ms,
                    longest_ms: ms,
                    kb_base: report.job.kb_base,
                }),
            }
        }
    }
    for (_, lines) in &mut groups {
        lines.sort_by_key(|line| line.direction);
        for line in lines {
            line.aggregate = per_second(line.io_bytes, line.longest_ms);
        }
    }
    groups
}

/// Returns the mean rate of an entry's windows as a percentage of its group's rate, at most 100 (fio's `per=`
/// and `bw_agg`).
pub(crate) fn share_of_group(groups: &[(u32, Vec<GroupLine>)], report: &Report, direction: Direction) -> f64 {
    let aggregate = groups
        .iter()
        .find(|(group, _)| *group == report.job.group)
        .and_then(|(_, lines)| lines.iter().find(|line| line.direction == direction))
        .map_or(0, |line| line.aggregate);
    let mean = report.stats.direction(direction).bandwidth.mean();
    if aggregate == 0 { 0.0 } else { (100.0 * mean / (aggregate as f64 / 1_024.0)).min(100.0) }
}
