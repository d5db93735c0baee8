//! A request that the device is processing.

use super::holes::SparseRead;
use crate::limits::Reservation;
use flashlab_block::Outcome;
use flashlab_nbd::server::{ContextSet, Token};
use flashlab_sim::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// A request that the device is processing, with the fields that its reply needs.
pub(super) struct InFlight<'a> {
    pub(super) token: Token,
    pub(super) bytes: u64,
    pub(super) kind: RequestKind,
    pub(super) reservation: Option<Reservation<'a>>,
    pub(super) arrived_at: Instant,
}

impl InFlight<'_> {
    /// Returns the memory in bytes that the request occupies while the device processes it. For a query for holes,
    /// returns the memory that the parts of the read will occupy.
    pub(super) fn memory_bytes(&self) -> u64 {
        match self.kind {
            RequestKind::Read
            | RequestKind::Holes { .. }
            | RequestKind::Part { .. }
            | RequestKind::Piece(_)
            | RequestKind::Write => self.bytes,
            RequestKind::Flush | RequestKind::Other | RequestKind::Status { .. } => 0,
        }
    }
}

pub(super) enum RequestKind {
    /// A whole read.
    Read,
    /// Query for the holes of a read, before its data is read.
    Holes {
        offset: u64,
    },
    /// A part of a read whose holes are known.
    Part {
        offset: u64,
        read: Rc<SparseRead>,
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
