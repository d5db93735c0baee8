//! Replies of a batch on their way out: headers in one buffer, what was read in the buffers that devices filled, and one
//! vectored send for all of it.

use crate::limits::{SMALL, Taken};
use crate::link::Link;
use std::io::{self, IoSlice};

/// Replies are sent before the batch is over when they have grown to so many bytes: a client must not wait for all of
/// many large reads, and memory is bounded.
const BYTES_MAX: usize = 1 << 20;
/// Payloads sent at once: two slices each, under Linux' limit of 1024.
const PAYLOADS_MAX: usize = 500;
/// Bytes of buffers that are kept for the next reads, and how many.
const POOL_BYTES_MAX: usize = 8 << 20;
const POOL_MAX: usize = PAYLOADS_MAX;

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox<'a> {
    /// Headers, and whatever else is not a payload.
    pub(crate) heads: Vec<u8>,
    /// Payloads, each with the place in `heads` behind which it is sent.
    payloads: Vec<(usize, Vec<u8>, Option<Taken<'a>>)>,
    bytes: usize,
    pool: Vec<Vec<u8>>,
    pool_bytes: usize,
}

impl<'a> Outbox<'a> {
    /// A buffer of this length; what it holds means nothing.
    pub(crate) fn buffer(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = if length > SMALL { Vec::new() } else { self.pool.pop().unwrap_or_default() };
        self.pool_bytes -= buffer.len();
        if buffer.capacity() < length {
            // Fresh zeroes from the allocator cost less than growing.
            buffer = vec![0; length];
        }
        buffer.resize(length, 0);
        buffer
    }

    /// A payload, which follows what is in `heads` now.
    pub(crate) fn payload(&mut self, bytes: Vec<u8>, taken: Option<Taken<'a>>) {
        self.bytes += bytes.len();
        self.payloads.push((self.heads.len(), bytes, taken));
    }

    /// Returns true if nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.payloads.is_empty()
    }

    /// Whether to send before more is added.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes + self.heads.len() >= BYTES_MAX || self.payloads.len() >= PAYLOADS_MAX
    }

    /// Sends everything.
    pub(crate) fn send(&mut self, link: &mut Link) -> io::Result<()> {
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
        let done = link.send(&mut slices);
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
