//! Large requests that exceed the free memory of the budget. The server handles them in pieces, in the memory that each
//! connection reserves for small requests.
//!
//! The device then processes several requests instead of one, and a client that dies in the middle of a write
//! has written a part of the data. NBD guarantees neither that a write is atomic nor that a request reaches
//! the device as a whole.

use super::RequestHandler;
use super::in_flight::{InFlight, RequestKind};
use crate::counters::{Count, RequestType};
use crate::limits::SMALL;
use crate::link::Link;
use flashlab_block::{Answer, Io, IoError, Outcome, Payload};
use flashlab_fio::iolog::Action;
use flashlab_nbd::server::Token;
use flashlab_sim::Instant;
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// A write of which some pieces have not arrived.
pub(crate) struct WriteInPieces {
    token: Token,
    offset: u64,
    length: u64,
    fua: bool,
    arrived_at: Instant,
    /// Number of bytes written, or dropped after an error.
    pub(crate) done: u64,
    failed: Option<IoError>,
}

impl RequestHandler<'_> {
    /// Reads a range in pieces, and sends each piece before it reads the next.
    pub(crate) fn read_in_pieces(
        &mut self,
        token: Token,
        (offset, length): (u64, u64),
        unfragmented: bool,
        link: &mut Link,
    ) -> io::Result<()> {
        let arrived_at = self.arrived_at;
        self.record(Action::Read, offset, length);
        let one_piece = unfragmented || !self.replies.can_fragment();
        if one_piece {
            // No other reply may interrupt an unfragmented reply.
            self.finish(link)?;
        }
        let mut at = 0;
        while at < length {
            let piece = (length - at).min(SMALL as u64);
            let buffer = self.outbox.buffer(piece as usize);
            let outcome =
                self.submit_and_wait(token, piece, Io::Read { offset: offset + at, buffer }, link)?;
            let read = match outcome {
                Ok(Answer::Read(read)) if read.len() as u64 == piece => Ok(read),
                Ok(_) => Err(IoError::Medium),
                Err(error) => Err(error),
            };
            let read = match read {
                Ok(read) => read,
                // "If an error occurs while reading after the server has already sent out the reply header with an
                // error field set to zero (i.e., signalling no error), the server MUST immediately initiate a hard
                // disconnect."
                Err(error) if one_piece && at > 0 => {
                    return Err(io::Error::other(format!(
                        "a read failed after its reply had begun: {error}"
                    )));
                }
                Err(error) => {
                    self.fail(token, error);
                    self.queue_latency(RequestType::Read, arrived_at);
                    return Ok(());
                }
            };
            match (one_piece, at) {
                (true, 0) => self.replies.read(token, length as u32, &mut self.outbox.heads),
                (true, _) => {}
                (false, _) => {
                    self.replies.data(token, offset + at, piece as u32, false, &mut self.outbox.heads);
                }
            }
            self.outbox.payload(read, None);
            at += piece;
            if at == length {
                if !one_piece {
                    self.replies.end(token, &mut self.outbox.heads);
                }
                self.count_io(Count::Reads, Count::ReadBytes, length);
                self.queue_latency(RequestType::Read, arrived_at);
            }
            self.send(link)?;
        }
        Ok(())
    }

    /// Begins a write whose pieces are passed to [`RequestHandler::write_piece`].
    pub(crate) fn write_in_pieces(
        &mut self,
        token: Token,
        (offset, length): (u64, u64),
        fua: bool,
    ) -> WriteInPieces {
        self.record(Action::Write, offset, length);
        let arrived_at = self.arrived_at;
        WriteInPieces { token, offset, length, fua, arrived_at, done: 0, failed: None }
    }

    /// Writes the next piece. After an error, drops the remaining pieces. The last piece completes the request.
    pub(crate) fn write_piece(
        &mut self,
        write: &mut WriteInPieces,
        bytes: Vec<u8>,
        link: &mut Link,
    ) -> io::Result<()> {
        let piece = bytes.len() as u64;
        if write.failed.is_none() {
            let offset = write.offset + write.done;
            let io = Io::Write { offset, data: Payload::from(bytes), durable: write.fua };
            write.failed = self.submit_and_wait(write.token, piece, io, link)?.err();
        }
        write.done += piece;
        if write.done == write.length {
            self.queue_latency(RequestType::Write, write.arrived_at);
            match write.failed {
                Some(error) => self.fail(write.token, error),
                None => {
                    self.replies.done(write.token, &mut self.outbox.heads);
                    self.count_io(Count::Writes, Count::WriteBytes, write.length);
                }
            }
        }
        Ok(())
    }

    fn submit_and_wait(&mut self, token: Token, bytes: u64, io: Io, link: &mut Link) -> io::Result<Outcome> {
        let outcome = Rc::new(Cell::new(None));
        let (kind, arrived_at) = (RequestKind::Piece(outcome.clone()), self.arrived_at);
        self.submit(InFlight { token, bytes, kind, reservation: None, arrived_at }, io);
        loop {
            if let Some(outcome) = outcome.take() {
                return Ok(outcome);
            }
            self.wait_for_device(link)?;
            self.set_arrival_time();
        }
    }
}
