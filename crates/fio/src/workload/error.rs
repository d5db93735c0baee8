//! Why a job cannot run on what it is given.

use crate::job::Direction;
use std::fmt;

/// A job that cannot run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkloadError {
    /// There is no file to work on.
    NoFile {
        /// The job's name.
        job: String,
    },
    /// `bs` or `blockalign` of a direction is zero.
    NoBlockSize {
        /// The job's name.
        job: String,
        /// The direction.
        direction: Direction,
    },
    /// The offset is at or beyond the end.
    OffsetBeyondEnd {
        /// The job's name.
        job: String,
        /// First byte of its region.
        offset: u64,
        /// Bytes of the file or device.
        size: u64,
    },
    /// The block size is larger than what is to be covered.
    BlockTooLarge {
        /// The job's name.
        job: String,
        /// Bytes of the smallest request.
        block: u64,
        /// Bytes to cover.
        region: u64,
    },
    /// `read_iolog=` is set, but the log was not loaded.
    NoIolog {
        /// The job's name.
        job: String,
    },
    /// The log names more files than the job has.
    TooFewFiles {
        /// The job's name.
        job: String,
        /// Files that the log names.
        named: usize,
        /// Files of the job.
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
                "the iolog of job `{job}` names {named} files, but the job has {files}: list as many in filename=, \
                 or one to send all to it"
            ),
        }
    }
}

impl std::error::Error for WorkloadError {}
