//! Sparse replies to long reads: holes are reported instead of being read and sent.

use super::RequestHandler;
use super::in_flight::{InFlight, RequestKind};
use crate::counters::{Count, RequestType};
use crate::limits::Reservation;
use flashlab_block::{Extent, Io, IoError};
use flashlab_nbd::server::Token;
use flashlab_sim::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// State of a read that is answered in parts: the number of outstanding parts, and the error of a failed part.
#[derive(Debug)]
pub(super) struct SparseRead {
    pub(super) parts_left: Cell<usize>,
    pub(super) failed: Cell<Option<IoError>>,
    pub(super) arrived_at: Instant,
}

impl<'a> RequestHandler<'a> {
    /// Reads the parts of a range that may contain data, and reports the parts that are known to be zero as holes.
    pub(super) fn read_around_holes(
        &mut self,
        (token, arrived_at): (Token, Instant),
        (offset, length): (u64, u64),
        mut extents: Vec<Extent>,
        mut reservation: Option<Reservation<'a>>,
    ) {
        let request = |bytes, kind, reservation| InFlight { token, bytes, kind, reservation, arrived_at };
        if !extents.iter().any(|extent| extent.zero) {
            let buffer = self.outbox.buffer(length as usize);
            return self.submit(request(length, RequestKind::Read, reservation), Io::Read { offset, buffer });
        }
        // Ranges that the device did not describe are treated as data.
        extents.push(Extent { length, hole: false, zero: false });
        // The count starts at one, so that a part that completes at once cannot end the reply before all parts have
        // been started.
        let read = Rc::new(SparseRead { parts_left: Cell::new(1), failed: Cell::new(None), arrived_at });
        let (mut at, end) = (offset, offset + length);
        for extent in extents {
            let part = extent.length.min(end - at);
            if extent.zero && part > 0 {
                self.replies.hole(token, at, part as u32, false, &mut self.outbox.heads);
            } else if part > 0 {
                read.parts_left.set(read.parts_left.get() + 1);
                let buffer = self.outbox.buffer(part as usize);
                let kind = RequestKind::Part { offset: at, read: read.clone() };
                let reservation = reservation.as_mut().map(|reservation| reservation.split(part));
                self.submit(request(part, kind, reservation), Io::Read { offset: at, buffer });
            }
            at += part;
        }
        self.end_part(token, &read);
    }

    pub(super) fn end_part(&mut self, token: Token, read: &SparseRead) {
        read.parts_left.set(read.parts_left.get() - 1);
        if read.parts_left.get() == 0 {
            self.queue_latency(RequestType::Read, read.arrived_at);
        }
        match (read.parts_left.get(), read.failed.get()) {
            (0, None) => {
                self.replies.end(token, &mut self.outbox.heads);
                self.counts.add(Count::Reads, 1);
            }
            (0, Some(error)) => self.fail(token, error),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Export, Exports, Limits, Server, Stop};
    use flashlab_block::{BlockDevice, Context, Memory, Pages, Started};
    use flashlab_nbd::server::{Command, Event, Replies, Session};
    use std::sync::Arc;

    const READ: u64 = 4 << 20;
    const HOLE: u64 = 64 << 10;

    /// Returns the reply style of a session, and the token of a long read.
    fn long_read(server: &Server) -> (Replies, Token) {
        const FLAGS: u32 = 3;
        const STRUCTURED_REPLY: u32 = 8;
        const EXPORT_NAME: u32 = 1;
        let option = |number: u32| [&b"IHAVEOPT"[..], &number.to_be_bytes(), &[0; 4]].concat();
        let read = [&0x2560_9513u32.to_be_bytes()[..], &[0; 20], &(READ as u32).to_be_bytes()].concat();
        let bytes =
            [&FLAGS.to_be_bytes()[..], &option(STRUCTURED_REPLY), &option(EXPORT_NAME), &read].concat();
        let (mut session, mut at) =
            (Session::new(server.policy, Arc::new(server.exports.offered()), &mut Vec::new()), 0);
        loop {
            let received = session.receive(&bytes[at..], &mut Vec::new());
            at += received.consumed;
            if let Event::Request(request) = received.event {
                return (session.replies().expect("the handshake has opened an export"), request.token);
            }
        }
    }

    #[test]
    fn a_sparse_read_reserves_memory_for_its_data_until_its_handler_is_dropped() {
        let device = Memory::new(READ, Pages::Small).expect("a size that a device can have");
        let (offset, data) = (HOLE, vec![7; (READ - HOLE) as usize].into());
        let write = Io::Write { offset, data, durable: false };
        assert!(matches!(device.start(&Context::new(Instant::ZERO), write), Started::Done(Ok(_))));
        let export = Export {
            name: String::new(),
            description: String::new(),
            device: Arc::new(device),
            read_only: false,
        };
        let exports = Exports::new(vec![export]).expect("one export is within the limit");
        let limits = Limits { bytes_in_flight: READ, ..Limits::default() };
        let server = Server::new(exports, limits, Stop::new().expect("there are descriptors"));
        let (replies, token) = long_read(&server);
        let mut handler = RequestHandler::new(&server, 0, replies);
        let share = server.budget.share_of(READ);
        let reservation = share.try_reserve(READ);
        handler.start(token, 0, READ, &Command::Read { unfragmented: false }, reservation);
        assert!(share.try_reserve(HOLE + 1).is_none(), "the data occupies memory");
        assert!(share.try_reserve(HOLE).is_some(), "the hole occupies none");
        drop(handler);
        assert!(share.try_reserve(READ).is_some());
    }
}
