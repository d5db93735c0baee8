//! Errors of a load.

use super::JobError;
use crate::TlsError;
use flashlab_nbd::client::{ClientError, RequestError};
use flashlab_nbd::wire::ErrorNumber;
use flashlab_sim::Duration;
use std::fmt;
use std::io;

/// Reason why a load ended early.
#[derive(Debug)]
pub enum LoadError {
    /// Connecting to the server failed.
    Connect(io::Error),
    /// The URI requires TLS, which cannot be set up.
    Tls(TlsError),
    /// The job does not fit the export.
    Job(JobError),
    /// The handshake failed, or the server violated the protocol.
    Session(ClientError),
    /// The server did not send a reply of the handshake within ten seconds.
    Late,
    /// The server closed the connection.
    Gone,
    /// No reply has arrived for this time.
    Silent(Duration),
    /// Sending or receiving failed.
    Io(io::Error),
    /// The session rejected a request.
    Refused(RequestError),
    /// The server answered a request with an error.
    Request {
        /// True for a write, false for a read.
        write: bool,
        /// Offset of the first byte in the export.
        offset: u64,
        /// Length in bytes.
        length: u32,
        /// The error number.
        error: ErrorNumber,
    },
    /// A block does not contain the data written to it.
    Verify {
        /// Offset of the first byte in the export.
        offset: u64,
        /// Description of the contents found.
        found: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Connect(error) => write!(f, "cannot connect: {error}"),
            LoadError::Tls(error) => error.fmt(f),
            LoadError::Job(error) => error.fmt(f),
            LoadError::Session(error) => error.fmt(f),
            LoadError::Late => f.write_str("the server did not answer within ten seconds"),
            LoadError::Silent(time) => {
                write!(f, "the server has not replied for {} s", time.as_ns() / 1_000_000_000)
            }
            LoadError::Gone => f.write_str("the server closed the connection"),
            LoadError::Io(error) => write!(f, "the connection failed: {error}"),
            LoadError::Refused(error) => error.fmt(f),
            LoadError::Request { write, offset, length, error } => {
                let verb = if *write { "writing" } else { "reading" };
                write!(f, "{verb} {length} bytes at {offset}: the server answered {error}")
            }
            LoadError::Verify { offset, found } => write!(f, "the block at {offset} is wrong: {found}"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => LoadError::Gone,
            _ => LoadError::Io(error),
        }
    }
}
impl From<TlsError> for LoadError {
    fn from(error: TlsError) -> Self {
        LoadError::Tls(error)
    }
}
impl From<RequestError> for LoadError {
    fn from(error: RequestError) -> Self {
        LoadError::Refused(error)
    }
}
impl From<JobError> for LoadError {
    fn from(error: JobError) -> Self {
        LoadError::Job(error)
    }
}
