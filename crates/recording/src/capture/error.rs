//! Reasons why a trace does not become a recording.

use core::fmt;

use super::tracefs::Device;

/// Reason why a trace does not become a recording. A line number counts from 1 in the text of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeriveError {
    /// The trace contains no request.
    NoRequest,
    /// The trace contains requests to more than one device.
    SecondDevice {
        /// Number of the line.
        line: usize,
        /// The second device.
        device: Device,
    },
    /// A request failed in the guest.
    Failed {
        /// Number of the line.
        line: usize,
        /// First sector of the failed completion.
        sector: u64,
        /// Error number of the kernel.
        error: i64,
    },
    /// A time stamp is earlier than the one before it.
    TimeGoesBack {
        /// Number of the line.
        line: usize,
    },
    /// A request does not complete within the trace.
    Incomplete {
        /// Number of the line of the last issue.
        line: usize,
        /// First sector that did not complete; 0 for a flush.
        sector: u64,
    },
    /// The range of a request ends beyond the bytes that 64 bits can count.
    TooFar {
        /// Number of the line.
        line: usize,
        /// First sector.
        sector: u64,
    },
}

impl fmt::Display for DeriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeriveError::NoRequest => {
                write!(
                    f,
                    "the trace contains no request; enable the events block_rq_issue and block_rq_complete"
                )
            }
            DeriveError::SecondDevice { line, device: Device { major, minor } } => {
                write!(
                    f,
                    "line {line} of the trace: a request to a second device, {major}:{minor}; trace one device"
                )
            }
            DeriveError::Failed { line, sector, error } => {
                write!(
                    f,
                    "line {line} of the trace: the request at sector {sector} failed with error {error}"
                )
            }
            DeriveError::TimeGoesBack { line } => {
                write!(f, "line {line} of the trace: time goes back; use the trace clock `mono`")
            }
            DeriveError::Incomplete { line, sector } => {
                write!(
                    f,
                    "line {line} of the trace: the request at sector {sector} does not complete within the trace"
                )
            }
            DeriveError::TooFar { line, sector } => {
                write!(f, "line {line} of the trace: sector {sector} is beyond 16 EiB")
            }
        }
    }
}

impl std::error::Error for DeriveError {}
