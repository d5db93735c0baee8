//! Payloads of writes: contained in the received batch, or received into their own buffer.

use super::{Connection, End};
use crate::answer::{Answerer, WriteInPieces};
use crate::limits::SMALL;
use crate::rate::{Direction, Progress};
use flashlab_block::Payload;
use flashlab_nbd::server::Token;
use std::io;
use std::ops::Range;

impl<'a> Connection<'a> {
    /// Starts a write whose first bytes have arrived at position `here` of the batch.
    pub(super) fn write(
        &mut self,
        (token, offset, length): (Token, u64, u64),
        here: Range<usize>,
        fua: bool,
        answerer: &mut Answerer<'a>,
    ) -> Result<(), End> {
        if here.len() as u64 == length {
            answerer.write(token, offset, Payload::new(&self.batch, here), fua, None);
            return Ok(());
        }
        // A slow sender must not delay replies that are complete.
        answerer.send(&mut self.link)?;
        let mut progress = Progress::new(self.server.limits.least_rate, Direction::Receiving);
        if length <= SMALL as u64 {
            let mut buffer = answerer.outbox.buffer(length as usize);
            self.copy(&here, &mut buffer);
            self.fill(&mut buffer[here.len()..], &mut progress)?;
            answerer.write(token, offset, Payload::from(buffer), fua, None);
            return Ok(());
        }
        let write = |answerer: &mut Answerer<'a>| answerer.write_in_pieces(token, (offset, length), fua);
        let Some(addresses) = self.server.budget.announce(length) else {
            return self.write_in_pieces(write(answerer), length, here, &mut progress, answerer);
        };
        // Zeroed pages occupy no memory until bytes arrive in them.
        let mut buffer = vec![0; length as usize];
        self.copy(&here, &mut buffer);
        let (mut there, mut ready, mut taken) = (here.len(), SMALL, None);
        loop {
            self.fill(&mut buffer[there..ready], &mut progress)?;
            there = ready;
            if there == buffer.len() {
                break;
            }
            let step = SMALL.min(buffer.len() - there);
            match (answerer.take_memory(step as u64, &mut self.link)?, &mut taken) {
                (Some(more), None) => taken = Some(more),
                (Some(more), Some(taken)) => taken.join(more),
                (None, _) => {
                    buffer.truncate(there);
                    let mut write = write(answerer);
                    answerer.write_piece(&mut write, buffer, &mut self.link)?;
                    drop((taken, addresses));
                    return self.write_in_pieces(write, length, 0..0, &mut progress, answerer);
                }
            }
            ready += step;
            progress.resume();
        }
        answerer.write(token, offset, Payload::from(buffer), fua, taken);
        Ok(())
    }

    /// Receives the rest of a write in pieces, and writes each piece once it has arrived.
    fn write_in_pieces(
        &mut self,
        mut write: WriteInPieces,
        length: u64,
        here: Range<usize>,
        progress: &mut Progress,
        answerer: &mut Answerer<'a>,
    ) -> Result<(), End> {
        let mut first = here;
        while write.done < length {
            let here = std::mem::take(&mut first);
            let mut buffer = answerer.outbox.buffer((length - write.done).min(SMALL as u64) as usize);
            self.copy(&here, &mut buffer);
            progress.resume();
            self.fill(&mut buffer[here.len()..], progress)?;
            answerer.write_piece(&mut write, buffer, &mut self.link)?;
        }
        Ok(())
    }

    /// Copies a part of the batch to the beginning of `buffer`.
    fn copy(&self, here: &Range<usize>, buffer: &mut [u8]) {
        buffer[..here.len()].copy_from_slice(&self.batch[here.clone()]);
    }

    /// Fills `buffer` from the connection.
    fn fill(&mut self, buffer: &mut [u8], progress: &mut Progress) -> Result<(), End> {
        let mut there = 0;
        while there < buffer.len() {
            self.wait_unless_socket()?;
            match self.link.receive(&mut buffer[there..]) {
                Ok(0) => return Err(End::Eof),
                Ok(received) => {
                    there += received;
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
