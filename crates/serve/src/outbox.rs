//! Replies of a batch that are queued for sending: the headers in one buffer, the data in the buffers that the device
//! filled. One vectored send transmits them all.

use crate::limits::{Reservation, SMALL};
use crate::link::{Link, Meanwhile};
use std::io::{self, IoSlice};

/// Number of queued bytes at which replies are sent before the batch is complete. The limit bounds the memory, and a
/// client that sends many large reads receives the first replies before all reads are complete.
const BYTES_MAX: usize = 1 << 20;
/// Number of queued payloads at which replies are sent. Each payload needs two slices, and Linux accepts 1024
/// slices per call.
const PAYLOADS_MAX: usize = 500;
/// Maximum number of bytes in the pool of buffers for further reads, and maximum number of buffers.
const POOL_BYTES_MAX: usize = 8 << 20;
const POOL_MAX: usize = PAYLOADS_MAX;

/// Queued replies.
#[derive(Debug, Default)]
pub(crate) struct Outbox<'a> {
    /// Headers, and all other bytes that are not payloads.
    pub(crate) heads: Vec<u8>,
    /// Payloads, each with the position in `heads` after which it is sent.
    payloads: Vec<(usize, Vec<u8>, Option<Reservation<'a>>)>,
    bytes: usize,
    pool: Vec<Vec<u8>>,
    pool_bytes: usize,
}

impl<'a> Outbox<'a> {
    /// Returns a buffer of this length with unspecified contents.
    pub(crate) fn buffer(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = if length > SMALL { Vec::new() } else { self.pool.pop().unwrap_or_default() };
        self.pool_bytes -= buffer.len();
        if buffer.capacity() < length {
            // Zeroed memory from the allocator costs less than growing a buffer.
            buffer = vec![0; length];
        }
        buffer.resize(length, 0);
        buffer
    }

    /// Queues a payload after the current contents of `heads`.
    pub(crate) fn payload(&mut self, bytes: Vec<u8>, reservation: Option<Reservation<'a>>) {
        self.bytes += bytes.len();
        self.payloads.push((self.heads.len(), bytes, reservation));
    }

    /// Returns true if no reply is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.payloads.is_empty()
    }

    /// Returns true if the queue has to be sent before more replies are added.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes + self.heads.len() >= BYTES_MAX || self.payloads.len() >= PAYLOADS_MAX
    }

    /// Sends all queued replies.
    pub(crate) fn send(&mut self, link: &mut Link, meanwhile: &mut dyn Meanwhile) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut slices = Vec::with_capacity(2 * self.payloads.len() + 1);
        let mut sent = 0;
        for (behind, payload, _) in &self.payloads {
            slices.push(IoSlice::new(&self.heads[sent..*behind]));
            slices.push(IoSlice::new(payload));
            sent = *behind;
        }
        slices.push(IoSlice::new(&self.heads[sent..]));
        let done = link.send(&mut slices, meanwhile);
        self.heads.clear();
        self.bytes = 0;
        for (_, buffer, _) in self.payloads.drain(..) {
            let keep = buffer.len() <= SMALL && self.pool_bytes + buffer.len() <= POOL_BYTES_MAX;
            if keep && self.pool.len() < POOL_MAX {
                self.pool_bytes += buffer.len();
                self.pool.push(buffer);
            }
        }
        done
    }
}
