//! What can go wrong with a load.

use super::JobError;
use crate::TlsError;
use flashlab_nbd::client::{ClientError, RequestError};
use flashlab_nbd::wire::ErrorNumber;
use std::fmt;
use std::io;

/// Why a load ended early.
#[derive(Debug)]
pub enum LoadError {
    /// Nobody answers there.
    Connect(io::Error),
    /// The URI asks for TLS that cannot be spoken.
    Tls(TlsError),
    /// The export cannot be used like this.
    Job(JobError),
    /// The server did not agree, or did not keep to the protocol.
    Session(ClientError),
    /// The server said nothing for ten seconds of handshake.
    Late,
    /// The server is gone.
    Gone,
    /// Sending or receiving failed.
    Io(io::Error),
    /// A request that the session refused to send.
    Refused(RequestError),
    /// The server answered a request with an error.
    Request {
        /// Whether it was a write.
        write: bool,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// The answer.
        error: ErrorNumber,
    },
    /// A block does not hold what was written to it.
    Verify {
        /// First byte.
        offset: u64,
        /// What was found instead.
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
