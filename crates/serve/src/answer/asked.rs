//! A request on its way through a device.

use super::holes::Parts;
use crate::limits::Taken;
use flashlab_block::Outcome;
use flashlab_nbd::server::{ContextSet, Token};
use flashlab_sim::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// A request that was started: what its answer needs.
pub(super) struct Asked<'a> {
    pub(super) token: Token,
    pub(super) bytes: u64,
    pub(super) what: What,
    pub(super) taken: Option<Taken<'a>>,
    pub(super) arrived_at: Instant,
}

impl Asked<'_> {
    /// Bytes of memory that it holds while the device keeps it.
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
    /// The holes of a read, before the rest of it is read.
    Holes {
        offset: u64,
    },
    /// A part of a read whose holes are known.
    Part {
        offset: u64,
        read: Rc<Parts>,
    },
    /// A piece of a request for which there was no memory; what comes of it goes there.
    Piece(Rc<Cell<Option<Outcome>>>),
    Write,
    Flush,
    Other,
    Status {
        one: bool,
        contexts: ContextSet,
    },
}
