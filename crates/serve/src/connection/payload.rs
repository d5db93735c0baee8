//! Payloads of writes: contained in the received batch, or received into their own buffer.

use super::{Connection, End};
use crate::answer::{RequestHandler, WriteInPieces};
use crate::limits::SMALL;
use crate::rate::{Direction, Progress};
use flashlab_block::Payload;
use flashlab_nbd::server::Token;
use std::io;
use std::ops::Range;

impl<'a> Connection<'a> {
    /// Starts a write whose first bytes have arrived at position `range` of the batch.
    pub(super) fn write(
        &mut self,
        (token, offset, length): (Token, u64, u64),
        range: Range<usize>,
        fua: bool,
        handler: &mut RequestHandler<'a>,
    ) -> Result<(), End> {
        if range.len() as u64 == length {
            let payload = match self.used.is_full() {
                false => Payload::new(&self.batch, range),
                true => Payload::from(self.batch[range].to_vec()),
            };
            handler.write(token, offset, payload, fua, None);
            return Ok(());
        }
        // A slow sender must not delay replies that are complete.
        handler.send(&mut self.link)?;
        let mut progress = Progress::new(self.server.limits.least_rate, Direction::Receiving);
        if length <= SMALL as u64 {
            let mut buffer = handler.outbox.buffer(length as usize);
            self.copy(&range, &mut buffer);
            self.fill(&mut buffer[range.len()..], &mut progress, handler)?;
            handler.write(token, offset, Payload::from(buffer), fua, None);
            return Ok(());
        }
        let write = |handler: &mut RequestHandler<'a>| handler.write_in_pieces(token, (offset, length), fua);
        let Some(addresses) = self.server.budget.reserve_addresses(length) else {
            return self.write_in_pieces(write(handler), length, range, &mut progress, handler);
        };
        // Zeroed pages occupy no memory until bytes arrive in them.
        let mut buffer = vec![0; length as usize];
        self.copy(&range, &mut buffer);
        let (mut filled, mut ready, mut reservation) = (range.len(), SMALL, None);
        loop {
            self.fill(&mut buffer[filled..ready], &mut progress, handler)?;
            filled = ready;
            if filled == buffer.len() {
                break;
            }
            let step = SMALL.min(buffer.len() - filled);
            match (handler.reserve_memory(step as u64, &mut self.link)?, &mut reservation) {
                (Some(more), None) => reservation = Some(more),
                (Some(more), Some(reservation)) => reservation.join(more),
                (None, _) => {
                    buffer.truncate(filled);
                    let mut write = write(handler);
                    handler.write_piece(&mut write, buffer, &mut self.link)?;
                    drop((reservation, addresses));
                    return self.write_in_pieces(write, length, 0..0, &mut progress, handler);
                }
            }
            ready += step;
            progress.resume();
        }
        handler.write(token, offset, Payload::from(buffer), fua, reservation);
        Ok(())
    }

    /// Receives the rest of a write in pieces, and writes each piece once it has arrived.
    fn write_in_pieces(
        &mut self,
        mut write: WriteInPieces,
        length: u64,
        range: Range<usize>,
        progress: &mut Progress,
        handler: &mut RequestHandler<'a>,
    ) -> Result<(), End> {
        let mut first = range;
        while write.done < length {
            let range = std::mem::take(&mut first);
            let mut buffer = handler.outbox.buffer((length - write.done).min(SMALL as u64) as usize);
            self.copy(&range, &mut buffer);
            progress.resume();
            self.fill(&mut buffer[range.len()..], progress, handler)?;
            handler.write_piece(&mut write, buffer, &mut self.link)?;
        }
        Ok(())
    }

    /// Copies a part of the batch to the beginning of `buffer`.
    fn copy(&self, range: &Range<usize>, buffer: &mut [u8]) {
        buffer[..range.len()].copy_from_slice(&self.batch[range.clone()]);
    }

    /// Fills `buffer` from the connection. Requests in flight make progress meanwhile, because one of them may hold a
    /// lock for which other connections wait.
    fn fill(
        &mut self,
        buffer: &mut [u8],
        progress: &mut Progress,
        handler: &mut RequestHandler<'a>,
    ) -> Result<(), End> {
        let mut filled = 0;
        while filled < buffer.len() {
            self.wait_unless_socket()?;
            while handler.is_waiting() && !handler.wait(&mut self.link, true)? {
                handler.collect_completed();
                handler.send(&mut self.link)?;
            }
            match self.link.receive(&mut buffer[filled..]) {
                Ok(0) => return Err(End::Eof),
                Ok(received) => {
                    filled += received;
                    if self.link.is_socket() {
                        progress.moved(received as u64)?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => progress.moved(0)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
