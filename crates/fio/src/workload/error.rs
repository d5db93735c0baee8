//! Errors of jobs that cannot run on their files or their device.

use crate::job::Direction;
use std::fmt;

/// The reason why a job cannot run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkloadError {
    /// The job has no file.
    NoFile {
        /// Name of the job.
        job: String,
    },
    /// `bs` or `blockalign` of a direction is zero.
    NoBlockSize {
        /// Name of the job.
        job: String,
        /// Direction of the block size.
        direction: Direction,
    },
    /// The offset is at or beyond the end of the file or device.
    OffsetBeyondEnd {
        /// Name of the job.
        job: String,
        /// First byte of the job's region.
        offset: u64,
        /// Size of the file or device in bytes.
        size: u64,
    },
    /// The block size is larger than the region.
    BlockTooLarge {
        /// Name of the job.
        job: String,
        /// Size of the smallest request in bytes.
        block: u64,
        /// Size of the region in bytes.
        region: u64,
    },
    /// `read_iolog=` is set, but the log was not loaded.
    NoIolog {
        /// Name of the job.
        job: String,
    },
    /// The log names more files than the job has.
    TooFewFiles {
        /// Name of the job.
        job: String,
        /// Number of files that the log names.
        named: usize,
        /// Number of files of the job.
        files: usize,
    },
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadError::NoFile { job } => write!(f, "job `{job}` has no file: give filename= or nrfiles="),
            WorkloadError::NoBlockSize { job, direction } => write!(
                f,
                "job `{job}`: the block size (bs=) or its alignment (blockalign=) is zero for {}s",
                direction.name()
            ),
            WorkloadError::OffsetBeyondEnd { job, offset, size } => write!(
                f,
                "job `{job}` begins at byte {offset}, but its file or device ends at {size}: lower offset= or \
                 offset_increment="
            ),
            WorkloadError::BlockTooLarge { job, block, region } => write!(
                f,
                "job `{job}` has blocks of {block} bytes (bs=), but only {region} bytes to cover: raise size= or \
                 lower bs="
            ),
            WorkloadError::NoIolog { job } => {
                write!(f, "job `{job}` has read_iolog=, but its log was not loaded")
            }
            WorkloadError::TooFewFiles { job, named, files } => write!(
                f,
                "the iolog of job `{job}` names {named} files, but the job has {files}: list as many files in \
                 filename=, or one file for all requests"
            ),
        }
    }
}

impl std::error::Error for WorkloadError {}
