//! One run of jobs on a bench: statistics, counters of the device, and notes on the figures.

use crate::bench::{Bench, BenchError};
use crate::results::DeviceStatistics;
use crate::run_inputs::{DeviceInputs, RunInputs};
use crate::statistics::statistics;
use crate::write_first::WriteFirst;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::{Job, Mix};
use flashlab_fio::stats::{Report, Settings, Statistics};
use flashlab_fio::workload::{File, Regions};
use flashlab_sim::{Duration, FileId, Histogram, Mechanism};
use std::collections::BTreeMap;
use std::ops::Range;

/// Results of a run of jobs.
#[derive(Clone, Debug)]
pub struct JobRun {
    /// One entry for each job, or for each group of jobs that is reported as one.
    pub reports: Vec<Report>,
    /// Samples for the jobs' log files.
    pub statistics: Statistics,
    /// Recorded iologs by job number.
    pub iologs: BTreeMap<usize, String>,
    /// Counters of the device during the run. The caller fills in the name and the remarks.
    pub counted: DeviceStatistics,
    /// Notes that are printed with the figures.
    pub notes: Notes,
    /// Inputs of the run. The caller fills in everything but the version and the jobs.
    pub inputs: RunInputs,
    /// Inputs that belong to the device. The caller fills them in.
    pub device: DeviceInputs,
}

/// Notes on a run, printed with its figures.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Notes {
    /// Note on the placement of the jobs' files on a bare device, or on jobs that share a region of it.
    pub files: Option<String>,
    /// Note on the page cache of buffered jobs.
    pub page_cache: Option<String>,
    /// Data that was written before the jobs began.
    pub write_first: WriteFirst,
    /// Number of bytes that were written before the jobs began.
    pub written_first: u64,
    /// Name of a job that writes at random to space that nothing wrote before.
    pub random_writer: Option<String>,
    /// Simulated time after which the user ended the run.
    pub stopped_after: Option<Duration>,
}

impl JobRun {
    /// Runs the jobs of `invocation` on `bench`, after writing the data that `write_first` chooses.
    pub fn new(
        bench: &mut Bench,
        invocation: &Invocation,
        settings: &Settings,
        write_first: WriteFirst,
    ) -> Result<JobRun, BenchError> {
        let jobs = &invocation.jobs;
        let prepared = bench.prepare(jobs, write_first)?;
        let (before, begin) = (bench.counters(), bench.now());
        let (recorded, iologs) = bench.run_recorded(jobs, settings)?;
        let counted = statistics(&before, &bench.counters(), bench.wear().as_ref());
        let notes = Notes {
            files: if bench.has_filesystem() { None } else { files_on_bare_device(invocation) },
            page_cache: bench.page_cache_note(jobs),
            write_first: prepared.write_first,
            written_first: prepared.bytes,
            random_writer: prepared.random_writer,
            stopped_after: bench.is_stopped().then(|| bench.now().since(begin)),
        };
        Ok(JobRun {
            reports: recorded.reports(jobs),
            statistics: recorded,
            iologs,
            counted,
            notes,
            inputs: RunInputs::new(invocation),
            device: DeviceInputs::default(),
        })
    }

    /// Returns the number of completed requests of all jobs.
    pub fn requests(&self) -> u64 {
        self.reports.iter().map(|report| report.stats.total_ios()).sum()
    }

    /// Returns the bytes that the completed requests of all jobs moved.
    pub fn bytes(&self) -> u64 {
        self.reports.iter().flat_map(|report| &report.stats.directions).map(|way| way.io_bytes).sum()
    }

    /// Returns the milliseconds in which jobs ran: the longest runtime of each wave, summed over the waves.
    pub fn runtime_ms(&self) -> u64 {
        let mut longest: BTreeMap<u32, u64> = BTreeMap::new();
        for report in &self.reports {
            let runtime = report.stats.directions.iter().map(|way| way.runtime_ms).max().unwrap_or(0);
            let wave = longest.entry(report.job.wave).or_default();
            *wave = runtime.max(*wave);
        }
        longest.values().sum()
    }

    /// Returns requests per second over all jobs and directions; 0 if no time passed.
    pub fn requests_per_second(&self) -> f64 {
        per_second(self.requests(), self.runtime_ms())
    }

    /// Returns bytes per second over all jobs and directions; 0 if no time passed.
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes(), self.runtime_ms())
    }

    /// Returns the histogram of all completion latencies.
    pub fn latencies(&self) -> Histogram {
        let mut all = Histogram::new();
        for way in self.reports.iter().flat_map(|report| &report.stats.directions) {
            all.merge(&way.clat);
        }
        all
    }

    /// Returns the nanoseconds that the mean request of all jobs spent in each mechanism.
    pub fn mechanisms_ns(&self) -> Vec<(&'static str, f64)> {
        let requests = self.requests().max(1) as f64;
        let directions = || self.reports.iter().flat_map(|report| &report.stats.directions);
        let sum = |mechanism| directions().map(|way| way.mechanism_ns(mechanism)).sum::<u64>();
        let spent = Mechanism::ALL.into_iter().map(|mechanism| (mechanism.name(), sum(mechanism)));
        spent.filter(|(_, ns)| *ns > 0).map(|(name, ns)| (name, ns as f64 / requests)).collect()
    }
}

fn per_second(count: u64, milliseconds: u64) -> f64 {
    if milliseconds == 0 { 0.0 } else { 1_000.0 * count as f64 / milliseconds as f64 }
}

/// Returns a note that files lie on the bare device, if a job has `directory=`, or that jobs share a region of the
/// device. The note is meant for devices without a filesystem.
pub fn files_on_bare_device(invocation: &Invocation) -> Option<String> {
    let jobs = &invocation.jobs;
    let Some(directory) = jobs.iter().find_map(|job| job.directory.as_ref()) else {
        return jobs_on_one_region(jobs);
    };
    // Buffered jobs do not run on the models of filesystems.
    let way_out = if jobs.iter().any(|job| job.buffered) { "" } else { " (--fs vfat adds a filesystem)" };
    Some(format!(
        "directory={directory}: without a filesystem, its files lie one after the other on the bare device{way_out}"
    ))
}

/// Capacity that the comparison of regions assumes. The capacity of the actual device limits the regions, but
/// hardly ever decides whether they overlap.
const CAPACITY: u64 = 1 << 50;

/// Returns a note on jobs that run together and use the same region of the device, if one of them writes, or if they
/// share the pages of the cache. In fio, each job and clone would have files of its own.
fn jobs_on_one_region(jobs: &[Job]) -> Option<String> {
    let regions: Vec<(&Job, Range<u64>)> = jobs.iter().filter_map(|job| Some((job, region(job)?))).collect();
    let (a, b) = regions.iter().enumerate().find_map(|(n, (job, region))| {
        let shares = |(other, theirs): &&(&Job, Range<u64>)| {
            let overlaps = region.start < theirs.end && theirs.start < region.end;
            overlaps && is_disturbed(job, other)
        };
        Some((*job, regions[n + 1..].iter().find(shares)?.0))
    })?;
    let clones = jobs.iter().filter(|job| job.name == a.name && job.wave == a.wave).count();
    let (names, files) = match a.name == b.name {
        true => (a.name.clone(), format!("each of the {clones} clones a file of its own")),
        false => (format!("{} and {}", a.name, b.name), "each job a file of its own".to_owned()),
    };
    let pages = if a.buffered && b.buffered { " and their pages in the cache" } else { "" };
    Some(format!(
        "{names}: without directory= and filename=, fio gives {files}; here they share the same bytes of the \
         device{pages}. directory=/d lays out a file for each."
    ))
}

/// Returns the bytes of the device that a job uses, if fio would create and name a file for the job.
fn region(job: &Job) -> Option<Range<u64>> {
    let has_own_file = job.files.first().is_some_and(|file| *file == format!("{}.{}.0", job.name, job.clone));
    if job.read_iolog.is_some() || job.directory.is_some() || !has_own_file {
        return None;
    }
    let device = File { id: FileId::DEVICE, size: CAPACITY };
    let region = *Regions::new(job, &[device]).ok()?.regions.first()?;
    Some(region.start..region.start + region.length)
}

/// Returns true if two jobs run at the same time and affect each other when they use the same bytes.
fn is_disturbed(job: &Job, other: &Job) -> bool {
    let writes = |job: &Job| job.pattern.mix != Mix::Read;
    job.wave == other.wave && (writes(job) || writes(other) || (job.buffered && other.buffered))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_fio::loader::NoFiles;

    fn note(options: &str) -> Option<String> {
        let words: Vec<&str> = options.split_whitespace().collect();
        files_on_bare_device(&Invocation::parse(&words, &NoFiles).expect("valid jobs"))
    }

    #[test]
    fn jobs_that_write_to_the_same_bytes_are_noted() {
        let clones = "--name=w --rw=write --direct=1 --size=1m --numjobs=2";
        assert!(note(clones).is_some_and(|note| note.starts_with("w: ") && !note.contains("cache")));
        let two = "--direct=1 --size=1m --name=r --rw=read --name=w --rw=write";
        assert!(note(two).is_some_and(|note| note.starts_with("r and w: ")));
        assert!(note("--name=r --rw=read --size=1m --numjobs=2").is_some_and(|note| note.contains("cache")));
        for independent in [
            &format!("{clones} --offset_increment=1m"),
            &format!("{clones} --size=20% --offset_increment=20%"),
            &format!("{clones} --filename=/dev/mmcblk0"),
            &format!("{two} --stonewall"),
            "--name=r --rw=read --direct=1 --size=1m --numjobs=2",
        ] {
            assert_eq!(note(independent), None, "{independent}");
        }
    }

    #[test]
    fn no_filesystem_is_suggested_for_buffered_jobs() {
        let files = |options| note(&format!("--name=w --directory=/d --size=1m {options}")).expect("a note");
        assert!(files("--direct=1").contains("--fs vfat") && !files("").contains("--fs vfat"));
    }
}
