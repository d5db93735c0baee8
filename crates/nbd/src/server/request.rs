//! Valid requests, which the owner of the session has to execute.

use super::ContextSet;
use core::ops::Range;

/// A valid request: permitted, and, unless it is a flush, in range, aligned to whole blocks and not empty.
/// The range of the request begins at `offset` and has `length` bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Fields of the request that its reply needs.
    pub token: Token,
    /// Offset of the first byte in the export; 0 for a flush.
    pub offset: u64,
    /// Length in bytes, at least one; 0 for a flush.
    pub length: u64,
    /// The command.
    pub command: Command,
}

/// Fields of a request that its reply needs. The owner stores the token until it replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    pub(super) cookie: u64,
    pub(super) offset: u64,
}

impl Token {
    /// Returns the cookie with which the client identifies the request.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }
}

/// A command to execute on the range of its [`Request`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Reply with the contents of the range.
    Read {
        /// Reply in one piece, with holes sent as zeroes: "`NBD_CMD_FLAG_DF`", or simple replies.
        unfragmented: bool,
    },
    /// Write the data to the range.
    Write {
        /// Position of the data in the bytes passed to the session. This field is shorter than
        /// [`Request::length`] if the payload is long and only partly received. The owner then has to receive
        /// exactly the rest of the payload itself, and passes only the bytes after the payload to the
        /// session.
        range: Range<usize>,
        /// Reply only when the data is durable.
        fua: bool,
    },
    /// Make durable all writes to which the server has replied, on any connection.
    Flush,
    /// Discard the contents of the range.
    Trim {
        /// Reply only when the change is durable.
        fua: bool,
    },
    /// Prepare for a read of the range.
    Cache,
    /// Fill the range with zeroes.
    WriteZeroes {
        /// Reply only when the change is durable.
        fua: bool,
        /// Keep the range allocated.
        no_hole: bool,
        /// Fail with `NBD_ENOTSUP` if filling the range is not faster than a write.
        fast: bool,
    },
    /// Report the status of the range: one [`Replies::block_status`](super::Replies::block_status) per context.
    BlockStatus {
        /// Report exactly one extent per context.
        one: bool,
        /// The contexts, at least one.
        contexts: ContextSet,
    },
}
