//! A long read in pieces: what is a hole is only told, what is none is read.

use super::Answerer;
use super::asked::{Asked, What};
use crate::counters::{Count, Way};
use crate::limits::Taken;
use flashlab_block::{Extent, Io, IoError};
use flashlab_nbd::server::Token;
use flashlab_sim::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// The parts of a read that are still to come, and whether one failed.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) left: Cell<usize>,
    pub(super) failed: Cell<Option<IoError>>,
    pub(super) arrived_at: Instant,
}

impl<'a> Answerer<'a> {
    /// Reads what is no hole of a range, piece by piece, and only tells of the holes.
    pub(super) fn read_around_holes(
        &mut self,
        (token, arrived_at): (Token, Instant),
        (offset, length): (u64, u64),
        extents: &[Extent],
        taken: Option<Taken<'a>>,
    ) {
        let asked = |bytes, what| Asked { token, bytes, what, taken: None, arrived_at };
        if !extents.iter().any(|extent| extent.zero) {
            let buffer = self.outbox.buffer(length as usize);
            let whole = Asked { taken, ..asked(length, What::Read) };
            return self.ask(whole, Io::Read { offset, buffer });
        }
        // Counted as a part, so that the last piece cannot end the reply before all were asked for.
        let read = Rc::new(Parts { left: Cell::new(1), failed: Cell::new(None), arrived_at });
        let (mut at, end) = (offset, offset + length);
        for extent in extents {
            let part = extent.length.min(end - at);
            if extent.zero && part > 0 {
                self.replies.hole(token, at, part as u32, false, &mut self.outbox.heads);
            } else if part > 0 {
                read.left.set(read.left.get() + 1);
                let buffer = self.outbox.buffer(part as usize);
                let what = What::Part { offset: at, read: read.clone() };
                self.ask(asked(part, what), Io::Read { offset: at, buffer });
            }
            at += part;
        }
        if at < end {
            read.failed.set(Some(IoError::Medium));
        }
        self.end_part(token, &read);
    }

    pub(super) fn end_part(&mut self, token: Token, read: &Parts) {
        read.left.set(read.left.get() - 1);
        if read.left.get() == 0 {
            self.ends(Way::Read, read.arrived_at);
        }
        match (read.left.get(), read.failed.get()) {
            (0, None) => {
                self.replies.end(token, &mut self.outbox.heads);
                self.counted.add(Count::Reads, 1);
            }
            (0, Some(error)) => self.fail(token, error),
            _ => {}
        }
    }
}
