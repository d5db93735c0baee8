//! The regions of files that a job covers: fio's rules for `size`, `filesize`, `offset`, `offset_increment` and
//! `io_size`, including percentages and several files.

use crate::job::{Extent, Job};
use crate::workload::WorkloadError;
use flashlab_sim::FileId;

/// A file, or the whole device, that a job works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File {
    /// Identifier of the file in the model.
    pub id: FileId,
    /// Size in bytes when the job runs (see [`file_bytes`] for a file that the job lays out).
    pub size: u64,
}

/// The part of a file that a job covers in one pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Identifier of the file.
    pub file: FileId,
    /// First byte of the region.
    pub start: u64,
    /// Length of the region in bytes.
    pub length: u64,
    /// Size of the file in bytes. A pattern with a skip wraps at the end of the file.
    pub file_size: u64,
}

/// All regions of a job, and the amount of data that it transfers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Regions {
    /// One region per file.
    pub regions: Vec<Region>,
    /// fio's `size`: number of bytes that one loop transfers without `io_size`.
    pub size: u64,
    /// `io_size=` in bytes; `None` also for a percentage, which [`Regions::size`] includes.
    pub io_size: Option<u64>,
}

/// Returns the minimum size of a request in bytes, over the directions that a job uses.
pub(crate) fn block_min(job: &Job) -> u64 {
    let used = job.pattern.mix.directions().iter();
    used.map(|&d| job.block_size[d as usize].bounds().0).min().unwrap_or(0)
}

/// Returns the maximum size of a request in bytes, over the directions that a job uses.
pub(crate) fn block_max(job: &Job) -> u64 {
    let used = job.pattern.mix.directions().iter();
    used.map(|&d| job.block_size[d as usize].bounds().1).max().unwrap_or(0)
}

/// Returns the size in bytes to which fio rounds percentages and parts of files: the minimum size of a request over all
/// directions, used or not.
fn rounding_unit(job: &Job) -> u64 {
    job.block_size.iter().map(|size| size.bounds().0).min().unwrap_or(0).max(1)
}

fn percent_of(bytes: u64, percent: u32) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Returns the first byte of the job's region in a file of `file_size` bytes. An offset or an increment in percent is
/// rounded up to a whole block.
fn start(job: &Job, file_size: u64) -> u64 {
    let in_bytes = |extent: Extent| match extent {
        Extent::Bytes(bytes) => bytes,
        Extent::Percent(percent) => percent_of(file_size, percent),
    };
    let sum = in_bytes(job.offset)
        .saturating_add(in_bytes(job.offset_increment).saturating_mul(u64::from(job.clone)));
    match (job.offset, job.offset_increment) {
        (Extent::Percent(_), _) | (_, Extent::Percent(_)) => {
            sum.checked_next_multiple_of(rounding_unit(job)).unwrap_or(u64::MAX)
        }
        _ => sum,
    }
}

/// Returns the part of `size=` for one of the files. The parts are equal; remaining whole blocks go to the first files.
fn share_of(job: &Job, size: u64, file: usize, files: usize) -> u64 {
    let files = files as u64;
    let share = size / files;
    let unit = rounding_unit(job);
    let left_over = (size - share * files) / unit;
    if (file as u64) < left_over { share.saturating_add(unit) } else { share }
}

/// Returns the size in bytes of file number `file` of `files` after the job has laid it out. Returns `None` if the job
/// has neither `size=` nor `filesize=` in bytes, so that the file must already exist.
pub fn file_bytes(job: &Job, file: usize, files: usize) -> Option<u64> {
    if let Some(bytes) = job.file_size {
        return Some(bytes);
    }
    match job.size {
        // As in fio, an offset in percent of a file that does not exist yet is zero.
        Some(Extent::Bytes(size)) => Some(start(job, 0).saturating_add(share_of(job, size, file, files))),
        _ => None,
    }
}

impl Regions {
    /// Returns the regions of `job` in `files`.
    ///
    /// # Errors
    /// Returns an error if there is no file, if an offset is at or beyond a file's end, if a block has no bytes, or if
    /// a block is larger than the region.
    pub fn new(job: &Job, files: &[File]) -> Result<Regions, WorkloadError> {
        let job_name = || job.name.clone();
        if files.is_empty() {
            return Err(WorkloadError::NoFile { job: job_name() });
        }
        let (block, unit) = (block_min(job), rounding_unit(job));
        for &direction in job.pattern.mix.directions() {
            let zero = job.block_size[direction as usize].bounds().0 == 0;
            if zero || job.block_align[direction as usize] == 0 {
                return Err(WorkloadError::NoBlockSize { job: job_name(), direction });
            }
        }
        let mut regions = Vec::with_capacity(files.len());
        let mut total = 0u64;
        for (index, file) in files.iter().enumerate() {
            let start = start(job, file.size);
            if start >= file.size {
                return Err(WorkloadError::OffsetBeyondEnd {
                    job: job_name(),
                    offset: start,
                    size: file.size,
                });
            }
            let rest = file.size - start;
            let length = match (job.file_size, job.size) {
                (Some(bytes), Some(Extent::Percent(percent))) => {
                    let length = percent_of(bytes, percent).min(bytes.saturating_sub(start));
                    length - length % unit
                }
                (Some(bytes), _) => bytes.saturating_sub(start),
                (None, Some(Extent::Bytes(size))) => share_of(job, size, index, files.len()),
                (None, Some(Extent::Percent(100))) | (None, None) => rest,
                (None, Some(Extent::Percent(percent))) => {
                    let length = percent_of(file.size, percent).min(rest);
                    length - length % unit
                }
            }
            .min(rest);
            let moved = match job.io_size {
                Some(Extent::Percent(percent)) => percent_of(length, percent),
                _ => length,
            };
            total = total.saturating_add(moved);
            regions.push(Region { file: file.id, start, length, file_size: file.size });
        }
        let size = match job.size {
            Some(Extent::Bytes(size)) => size.min(total),
            _ => total,
        };
        if size < block || regions.iter().all(|region| region.length < block) {
            let region = size.min(regions.iter().map(|region| region.length).max().unwrap_or(0));
            return Err(WorkloadError::BlockTooLarge { job: job_name(), block, region });
        }
        let io_size = match job.io_size {
            Some(Extent::Bytes(bytes)) if bytes > 0 => Some(bytes),
            _ => None,
        };
        Ok(Regions { regions, size, io_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::BlockSize;

    fn job() -> Job {
        Job::default()
    }
    fn file(size: u64) -> File {
        File { id: FileId::DEVICE, size }
    }
    fn one(job: &Job, size: u64) -> (u64, u64, u64) {
        let found = Regions::new(job, &[file(size)]).expect("the job fits");
        (found.regions[0].start, found.regions[0].length, found.size)
    }
    const K: u64 = 1024;

    /// The expected values were observed with fio 3.33 on a file of 64 KiB.
    #[test]
    fn percentages_refer_to_the_file_and_are_rounded_to_whole_blocks() {
        let with = |offset, size, io_size| Job { offset, size, io_size, ..job() };
        let (bytes, percent) = (Extent::Bytes, Extent::Percent);
        assert_eq!(one(&with(percent(25), Some(percent(50)), None), 64 * K), (16 * K, 32 * K, 32 * K));
        assert_eq!(one(&with(percent(30), None, None), 64 * K), (20 * K, 44 * K, 44 * K));
        assert_eq!(one(&with(percent(25), Some(percent(90)), None), 64 * K), (16 * K, 48 * K, 48 * K));
        assert_eq!(one(&with(bytes(0), Some(percent(33)), None), 64 * K), (0, 20 * K, 20 * K));
        assert_eq!(one(&with(bytes(0), None, Some(percent(90))), 64 * K), (0, 64 * K, 58_982));
        assert_eq!(one(&with(bytes(0), Some(percent(50)), Some(percent(50))), 64 * K), (0, 32 * K, 16 * K));
        let third = Job { offset_increment: percent(20), clone: 2, ..with(percent(10), None, None) };
        assert_eq!(one(&third, 64 * K), (32 * K, 32 * K, 32 * K));
        let increment = Job { offset_increment: percent(20), clone: 2, ..job() };
        assert_eq!(one(&increment, 64 * K), (28 * K, 36 * K, 36 * K));
    }

    /// The expected values were observed with fio 3.33 on a file of 64 KiB.
    #[test]
    fn percentages_are_rounded_to_the_smallest_block_of_all_directions() {
        let sizes = [BlockSize::Fixed(16 * K), BlockSize::Fixed(4 * K), BlockSize::Fixed(4 * K)];
        let job = Job { block_size: sizes, size: Some(Extent::Percent(33)), ..job() };
        assert_eq!(one(&job, 64 * K), (0, 20 * K, 20 * K));
        let offset = Job { offset: Extent::Percent(30), size: None, ..job };
        assert_eq!(one(&offset, 64 * K), (20 * K, 44 * K, 44 * K));
    }

    #[test]
    fn several_files_share_the_size() {
        let job = Job { size: Some(Extent::Bytes(40 * K)), ..job() };
        let files = [file(64 * K); 3];
        let found = Regions::new(&job, &files).expect("the job fits");
        assert!(found.regions.iter().all(|r| r.length == 13_653));
        assert_eq!(file_bytes(&job, 0, 3), Some(13_653));
    }

    #[test]
    fn invalid_regions_are_errors() {
        let beyond = Job { offset: Extent::Bytes(64 * K), ..job() };
        assert!(matches!(Regions::new(&beyond, &[file(64 * K)]), Err(WorkloadError::OffsetBeyondEnd { .. })));
        let large = Job { block_size: [const { BlockSize::Fixed(128 * K) }; 3], ..job() };
        assert!(matches!(Regions::new(&large, &[file(64 * K)]), Err(WorkloadError::BlockTooLarge { .. })));
        let zero = Job { block_size: [const { BlockSize::Fixed(0) }; 3], ..job() };
        assert!(matches!(Regions::new(&zero, &[file(64 * K)]), Err(WorkloadError::NoBlockSize { .. })));
        assert!(matches!(Regions::new(&job(), &[]), Err(WorkloadError::NoFile { .. })));
        let huge = Job {
            offset: Extent::Bytes(u64::MAX),
            offset_increment: Extent::Bytes(u64::MAX),
            clone: u32::MAX,
            ..job()
        };
        assert!(Regions::new(&huge, &[file(u64::MAX)]).is_err());
    }
}
