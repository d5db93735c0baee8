//! A request that the device is processing.

use super::holes::Parts;
use crate::limits::Taken;
use flashlab_block::Outcome;
use flashlab_nbd::server::{ContextSet, Token};
use flashlab_sim::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// A request that the device is processing, with the fields that its reply needs.
pub(super) struct Asked<'a> {
    pub(super) token: Token,
    pub(super) bytes: u64,
    pub(super) what: What,
    pub(super) taken: Option<Taken<'a>>,
    pub(super) arrived_at: Instant,
}

impl Asked<'_> {
    /// Returns the number of bytes of memory that the request occupies while the device processes it.
    pub(super) fn held(&self) -> u64 {
        match self.what {
            What::Read | What::Part { .. } | What::Piece(_) | What::Write => self.bytes,
            What::Holes { .. } | What::Flush | What::Other | What::Status { .. } => 0,
        }
    }
}

pub(super) enum What {
    /// A whole read.
    Read,
    /// Query for the holes of a read, before its data is read.
    Holes {
        offset: u64,
    },
    /// A part of a read whose holes are known.
    Part {
        offset: u64,
        read: Rc<Parts>,
    },
    /// A piece of a request for which the memory budget had no room. The cell receives the outcome.
    Piece(Rc<Cell<Option<Outcome>>>),
    Write,
    Flush,
    Other,
    Status {
        one: bool,
        contexts: ContextSet,
    },
}
