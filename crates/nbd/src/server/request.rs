//! A request that was found sound: what the owner of the session has to do.

use super::ContextSet;
use core::ops::Range;

/// A request that was found sound: in range, of whole blocks, allowed, and not empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// What its reply needs.
    pub token: Token,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes, at least one; 0 for a flush.
    pub length: u64,
    /// What to do.
    pub command: Command,
}

/// What the reply to a request needs: to be kept until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    pub(super) cookie: u64,
    pub(super) offset: u64,
}

impl Token {
    /// The client's name for the request.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Answer with what the range holds.
    Read {
        /// In one piece: holes as zeroes ("`NBD_CMD_FLAG_DF`").
        unfragmented: bool,
    },
    /// Take over the bytes.
    Write {
        /// Where they are among the bytes that the session was given. Less than [`Request::length`] if the payload is
        /// long and not all there yet: then the rest, and only that, is to be received by the owner, and the session
        /// goes on after it.
        here: Range<usize>,
        /// Answer only when they are durable.
        fua: bool,
    },
    /// Make durable what was answered, on whatever connection.
    Flush,
    /// The range is not needed any more.
    Trim {
        /// Answer only when that is durable.
        fua: bool,
    },
    /// The range will be read soon.
    Cache,
    /// The range reads as zeroes from now on.
    WriteZeroes {
        /// Answer only when that is durable.
        fua: bool,
        /// It stays allocated.
        no_hole: bool,
        /// Fail with `NBD_ENOTSUP` where this is no faster than a write.
        fast: bool,
    },
    /// Tell what contexts say of the range: one [`Replies::block_status`](super::Replies::block_status) for each.
    BlockStatus {
        /// One extent a context is enough, and no more are allowed.
        one: bool,
        /// Which; at least one.
        contexts: ContextSet,
    },
}
