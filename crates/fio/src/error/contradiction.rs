//! Contradictions between the options of one job.

use super::quoted;
use std::fmt;

/// A contradiction between the options of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Contradiction {
    /// `time_based` without `runtime`.
    TimeBasedWithoutRuntime,
    /// `rate` with `rate_iops`.
    RateAndRateIops,
    /// `bsrange` with `bssplit`.
    RangeAndSplit,
    /// `size` or `filesize` is smaller than the smallest block.
    SizeBelowBlock {
        /// `size` or `filesize`.
        option: &'static str,
        /// Value of the option in bytes.
        size: u64,
        /// Smallest block in bytes.
        block: u64,
    },
    /// The region cannot hold a block: `offset=100%`.
    NothingAfterOffset,
    /// A job that writes or trims, together with `--readonly`.
    WritesWhileReadOnly,
    /// `directory=` together with an absolute path in `filename=`.
    AbsoluteNameInDirectory {
        /// The absolute path.
        path: String,
    },
    /// A `rate` at which one block takes more than an hour.
    RateTooLow {
        /// Rate in bytes a second.
        rate: u64,
        /// Largest block in bytes.
        block: u64,
    },
    /// All jobs together have more files than are accepted.
    TooManyFiles {
        /// Maximum number of files.
        most: usize,
    },
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contradiction::TimeBasedWithoutRuntime => {
                write!(f, "time_based needs a runtime: add runtime=60, or remove time_based")
            }
            Contradiction::RateAndRateIops => {
                write!(f, "rate and rate_iops cannot be combined; keep one of them")
            }
            Contradiction::RangeAndSplit => {
                write!(f, "bsrange and bssplit cannot be combined; keep one of them")
            }
            Contradiction::SizeBelowBlock { option, size, block } => {
                write!(
                    f,
                    "{option}={size} is less than one block of {block} bytes; raise {option} or lower bs"
                )
            }
            Contradiction::NothingAfterOffset => {
                write!(f, "offset=100% leaves nothing to read or write; lower it")
            }
            Contradiction::WritesWhileReadOnly => {
                write!(f, "it writes or trims, and --readonly forbids both; remove --readonly")
            }
            Contradiction::AbsoluteNameInDirectory { path } => {
                write!(f, "filename={} is an absolute path; remove it or directory", quoted(path))
            }
            Contradiction::RateTooLow { rate, block } => write!(
                f,
                "at rate={rate} bytes a second one block of {block} bytes takes over an hour; rate is in bytes a second"
            ),
            Contradiction::TooManyFiles { most } => {
                write!(f, "all jobs together have more than {most} files")
            }
        }
    }
}
