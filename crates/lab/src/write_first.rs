//! Finds the ranges of a bare device to write before jobs begin.
//!
//! A new device answers reads of unwritten ranges without accessing its flash, and moves no old data for
//! small writes to such ranges. Both are therefore faster than on a device in use. Jobs with a directory are
//! skipped, because the layout writes their files.

use crate::bench::Trace;
use flashlab_block::Ranges;
use flashlab_fio::iolog::{Action, Iolog};
use flashlab_fio::job::{BlockSize, Direction, Distribution, Job, Mix};
use flashlab_fio::workload::{File, Regions};
use flashlab_recording::{Action as Recorded, Source};
use flashlab_sim::{FileId, Geometry};
use std::collections::BTreeMap;
use std::ops::Range;

/// Data that a bench writes to a new device before jobs begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WriteFirst {
    /// Nothing.
    Nothing,
    /// Ranges that the jobs read before they write them.
    #[default]
    Read,
    /// All ranges that the jobs read, write or trim.
    Used,
}

/// The preparation of a device before jobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prepared {
    /// Data that was written before the jobs.
    pub write_first: WriteFirst,
    /// Number of bytes that were written.
    pub bytes: u64,
    /// Name of a job that writes at random to space that nothing wrote before, unless the user wants an unwritten device.
    pub random_writer: Option<String>,
}

/// Returns the name of the first job that writes at random to unwritten space: space outside `written` that
/// no job of an earlier wave writes.
pub(crate) fn random_writer(jobs: &[Job], device: &Geometry, written: &Ranges) -> Option<String> {
    let mut written = written.clone();
    for wave in jobs.chunk_by(|a, b| a.wave == b.wave) {
        let writers: Vec<&Job> = wave
            .iter()
            .filter(|job| job.directory.is_none() && job.read_iolog.is_none() && writes(job))
            .collect();
        let is_unwritten = |range: Range<u64>| written.split(range).any(|(_, is_written)| !is_written);
        let found = writers.iter().find(|job| job.pattern.random && regions(job, device).any(is_unwritten));
        if let Some(job) = found {
            return Some(job.name.clone());
        }
        writers.iter().flat_map(|job| regions(job, device)).for_each(|range| written.add(range));
    }
    None
}

fn writes(job: &Job) -> bool {
    matches!(job.pattern.mix, Mix::Write | Mix::ReadWrite | Mix::TrimWrite)
}

/// Returns the ranges that `jobs` use and that are not `written`, in whole blocks, sorted and disjoint. Adds them to
/// `written`.
pub(crate) fn used_ranges(
    jobs: &[Job],
    traces: &BTreeMap<String, Trace>,
    device: &Geometry,
    written: &mut Ranges,
) -> Vec<Range<u64>> {
    let mut used = Ranges::default();
    for job in jobs.iter().filter(|job| job.directory.is_none()) {
        match job.read_iolog.as_ref().map(|name| traces.get(name)) {
            Some(Some(Trace::Iolog(iolog))) => {
                for entry in &iolog.entries {
                    add(&mut used, entry.offset..entry.offset.saturating_add(entry.length), written);
                }
            }
            Some(Some(Trace::Recording(source))) => {
                recorded(source, device.capacity, written, &mut used);
            }
            Some(None) => {}
            None => regions(job, device).for_each(|range| add(&mut used, range, written)),
        }
    }
    let used = whole_blocks(&used, device);
    used.iter().for_each(|range| written.add(range.clone()));
    used
}

/// Returns the ranges that `jobs` read before any of them writes, in whole blocks, sorted and disjoint. Jobs of one
/// wave run concurrently, so none of them can rely on the writes of another. `written` contains the ranges that were
/// written before; the function adds those that the jobs write completely.
pub(crate) fn read_ranges(
    jobs: &[Job],
    traces: &BTreeMap<String, Trace>,
    device: &Geometry,
    written: &mut Ranges,
) -> Vec<Range<u64>> {
    let mut read = Ranges::default();
    for wave in jobs.chunk_by(|a, b| a.wave == b.wave) {
        let bare: Vec<&Job> = wave.iter().filter(|job| job.directory.is_none()).collect();
        for job in &bare {
            match job.read_iolog.as_ref().map(|name| traces.get(name)) {
                Some(Some(Trace::Iolog(iolog))) => replay(iolog, written, &mut read),
                Some(Some(Trace::Recording(source))) => {
                    // As before `recording replay`: everything up to the last read.
                    add(&mut read, 0..source.summary().reads_end, written);
                }
                Some(None) => {}
                None if reads(job) => {
                    let read_in = |range: Range<u64>| {
                        range.start..range.end.min(range.start.saturating_add(most_read(job)))
                    };
                    regions(job, device).map(read_in).for_each(|range| add(&mut read, range, written));
                }
                None => {}
            }
        }
        for job in bare.iter().filter(|job| writes_all(job)) {
            regions(job, device).for_each(|range| written.add(range));
        }
    }
    whole_blocks(&read, device)
}

/// Returns `ranges` as whole blocks of the device.
fn whole_blocks(ranges: &Ranges, device: &Geometry) -> Vec<Range<u64>> {
    let block = device.block;
    let capacity = device.capacity / block * block;
    let mut whole = Ranges::default();
    for (range, _) in ranges.split(0..capacity).filter(|(_, is_in)| *is_in) {
        whole.add(range.start / block * block..range.end.next_multiple_of(block).min(capacity));
    }
    whole.split(0..capacity).filter(|(_, is_in)| *is_in).map(|(range, _)| range).collect()
}

fn reads(job: &Job) -> bool {
    matches!(job.pattern.mix, Mix::Read | Mix::ReadWrite)
}

/// Returns an upper limit of the bytes that the job reads from each of its regions. The limit matters only if the job
/// passes through the region once and ends early.
fn most_read(job: &Job) -> u64 {
    if job.pattern.random || job.pattern.sequence_skip != 0 || job.time_based || job.loops > 1 {
        return u64::MAX;
    }
    let block = match &job.block_size[Direction::Read as usize] {
        BlockSize::Fixed(bytes) | BlockSize::Range { max: bytes, .. } => *bytes,
        BlockSize::Split(shares) => shares.iter().map(|share| share.bytes).max().unwrap_or(0),
    };
    job.number_ios.map_or(u64::MAX, |count| count.saturating_mul(block))
}

/// Returns true if, according to its options, the job writes its regions completely.
fn writes_all(job: &Job) -> bool {
    let writes = matches!(job.pattern.mix, Mix::Write | Mix::TrimWrite) && job.read_iolog.is_none();
    let once_each = match job.pattern.random {
        true => !job.no_random_map && job.distribution == Distribution::Uniform,
        false => job.pattern.sequence_skip == 0,
    };
    writes && once_each && job.runtime.is_none() && job.number_ios.is_none() && job.io_size.is_none()
}

/// Returns the regions of a job on the bare device. Returns none if the job cannot run; its run reports the error.
fn regions(job: &Job, device: &Geometry) -> impl Iterator<Item = Range<u64>> {
    let file = File { id: FileId::DEVICE, size: device.capacity };
    let regions = Regions::new(job, &[file]).map_or(Vec::new(), |found| found.regions);
    regions.into_iter().map(|region| region.start..region.start + region.length)
}

/// Adds the ranges that an iolog reads before it writes them.
fn replay(iolog: &Iolog, written: &Ranges, read: &mut Ranges) {
    let mut written = written.clone();
    for entry in &iolog.entries {
        let range = entry.offset..entry.offset.saturating_add(entry.length);
        match entry.action {
            Action::Read => add(read, range, &written),
            Action::Write => written.add(range),
            Action::Trim | Action::Sync | Action::DataSync => {}
        }
    }
}

/// Size in bytes of the regions in which the requests of a recording are noted.
const REGION: u64 = 1 << 20;

/// Adds the regions that a recording uses and that were not written before the recording. Whole regions are noted, so
/// that the memory use depends on the size of the device only. At a fault in the recording, the search ends; the run
/// reports the fault.
fn recorded(source: &Source, capacity: u64, written: &Ranges, found: &mut Ranges) {
    let mut regions = vec![0_u64; capacity.div_ceil(REGION * 64) as usize];
    for step in source.steps().into_iter().flatten() {
        let Recorded::Request { offset, length, .. } = step.action else { continue };
        let end = offset.saturating_add(length).min(capacity);
        for region in offset / REGION..end.div_ceil(REGION) {
            regions[(region / 64) as usize] |= 1 << (region % 64);
        }
    }
    let is_used = |region: &u64| regions[(region / 64) as usize] >> (region % 64) & 1 == 1;
    for region in (0..capacity.div_ceil(REGION)).filter(is_used) {
        add(found, region * REGION..((region + 1) * REGION).min(capacity), written);
    }
}

fn add(read: &mut Ranges, range: Range<u64>, written: &Ranges) {
    for (part, _) in written.split(range).filter(|(_, is_written)| !is_written) {
        read.add(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_fio::cmdline::Invocation;
    use flashlab_fio::loader::NoFiles;

    const DEVICE: Geometry = Geometry { capacity: 64 << 20, block: 512, request_max: 1 << 20 };

    /// Returns the ranges of a command line, in KiB.
    fn kib(line: &str, iolog: &str) -> Vec<(u64, u64)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let jobs = Invocation::parse(&words, &NoFiles).unwrap_or_else(|error| panic!("{error}")).jobs;
        let iolog = Iolog::read(iolog.as_bytes()).expect("an iolog");
        let traces = [("log".to_owned(), Trace::Iolog(iolog))].into();
        let found = read_ranges(&jobs, &traces, &DEVICE, &mut Ranges::default());
        found.into_iter().map(|range| (range.start >> 10, range.end >> 10)).collect()
    }

    #[test]
    fn regions_that_are_read_and_not_written_before_are_found() {
        let empty = "fio version 2 iolog\n";
        for (line, expected) in [
            ("--name=a --rw=randread", vec![(0, 65_536)]),
            ("--name=a --rw=read --offset=1m --size=2m", vec![(1_024, 3_072)]),
            ("--name=a --rw=randrw --size=1m", vec![(0, 1_024)]),
            ("--name=a --rw=read --bs=64k --number_ios=4 --offset=1m", vec![(1_024, 1_280)]),
            ("--name=a --rw=write --size=1m", vec![]),
            ("--name=a --rw=trim --size=1m", vec![]),
            (
                "--name=a --rw=read --size=1m --offset_increment=8m --numjobs=2",
                vec![(0, 1_024), (8_192, 9_216)],
            ),
            ("--name=a --rw=read --size=1m --name=b --rw=read --offset=512k --size=1m", vec![(0, 1_536)]),
            ("--name=a --rw=write --size=1m --name=b --stonewall --rw=read --size=3m", vec![(1_024, 3_072)]),
            ("--name=a --rw=write --size=1m --name=b --rw=read --size=1m", vec![(0, 1_024)]),
            (
                "--name=a --rw=write --size=1m --runtime=1 --name=b --stonewall --rw=read --size=1m",
                vec![(0, 1_024)],
            ),
            ("--name=a --rw=read --size=1m --directory=/mnt", vec![]),
        ] {
            assert_eq!(kib(&format!("--direct=1 {line}"), empty), expected, "{line}");
        }
    }

    #[test]
    fn ranges_that_earlier_jobs_wrote_are_not_found_again() {
        let jobs = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Invocation::parse(&words, &NoFiles).unwrap_or_else(|error| panic!("{error}")).jobs
        };
        let mut written = Ranges::default();
        let mut found = |line: &str| read_ranges(&jobs(line), &BTreeMap::new(), &DEVICE, &mut written);
        assert!(found("--name=a --direct=1 --rw=write --size=1m").is_empty());
        let rest = 1 << 20..3 << 20;
        assert_eq!(found("--name=a --direct=1 --rw=read --size=3m"), std::slice::from_ref(&rest));
    }

    #[test]
    fn everything_that_jobs_use_is_found() {
        let used = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let jobs = Invocation::parse(&words, &NoFiles).unwrap_or_else(|error| panic!("{error}")).jobs;
            let found = used_ranges(&jobs, &BTreeMap::new(), &DEVICE, &mut Ranges::default());
            found.into_iter().map(|range| (range.start >> 20, range.end >> 20)).collect::<Vec<_>>()
        };
        assert_eq!(used("--name=a --direct=1 --rw=randwrite --size=2m"), [(0, 2)]);
        assert_eq!(
            used("--name=a --direct=1 --rw=read --size=1m --name=b --rw=write --offset=4m --size=1m"),
            [(0, 1), (4, 5)]
        );
    }

    #[test]
    fn random_writes_to_new_space_are_found() {
        let writer = |line: &str| {
            let line = format!("--direct=1 --size=1m {line}");
            let words: Vec<&str> = line.split_whitespace().collect();
            let jobs = Invocation::parse(&words, &NoFiles).unwrap_or_else(|error| panic!("{error}")).jobs;
            random_writer(&jobs, &DEVICE, &Ranges::default())
        };
        assert_eq!(writer("--name=a --rw=randwrite").as_deref(), Some("a"));
        let larger = "--name=a --rw=write --name=b --stonewall --rw=randwrite --size=2m";
        assert_eq!(writer(larger).as_deref(), Some("b"));
        for other in [
            "--name=a --rw=write",
            "--name=a --rw=randread",
            "--name=a --rw=randwrite --directory=/d",
            "--name=a --rw=write --name=b --stonewall --rw=randwrite",
        ] {
            assert_eq!(writer(other), None, "{other}");
        }
    }

    #[test]
    fn ranges_that_a_replay_reads_before_it_writes_them_are_found() {
        let log = "fio version 2 iolog\nd add\nd open\nd write 0 8192\nd read 4096 8192\nd read 65536 512\nd close\n";
        assert_eq!(kib("--name=a --direct=1 --read_iolog=log", log), [(8, 12), (64, 64)]);
    }
}
