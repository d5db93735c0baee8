//! A pipe to the host: bytes that are ready, and transfers that wait for them.

use crate::device::{Completed, Outcome};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use flashlab_sim::Instant;

/// A transfer to the host that waits for bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) id: u64,
    pub(super) length: u32,
    pub(super) since: Instant,
}

/// A queue of bytes for the host, each piece with the instant at which it is ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe {
    pub(super) ready: VecDeque<(Instant, Vec<u8>)>,
    /// True if no further bytes follow. A transfer that requested more bytes then completes with those that
    /// are ready.
    pub(super) complete: bool,
    pub(super) waiting: VecDeque<Waiting>,
}

impl Pipe {
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.complete = false;
    }

    /// Returns the instant at which the first waiting transfer completes, and the number of its bytes.
    pub(super) fn due(&self) -> Option<(Instant, usize)> {
        let waiting = self.waiting.front()?;
        let (mut at, mut length) = (waiting.since, 0);
        for (ready, bytes) in &self.ready {
            if length >= waiting.length as usize {
                break;
            }
            at = at.max(*ready);
            length += bytes.len();
        }
        if length >= waiting.length as usize {
            return Some((at, waiting.length as usize));
        }
        (self.complete && length > 0).then_some((at, length))
    }

    pub(super) fn complete(&mut self, limit: Instant) -> Option<Completed> {
        let (at, length) = self.due().filter(|(at, _)| *at <= limit)?;
        let waiting = self.waiting.pop_front()?;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let (ready, mut first) = self.ready.pop_front()?;
            if bytes.len() + first.len() > length {
                let rest = first.split_off(length - bytes.len());
                self.ready.push_front((ready, rest));
            }
            bytes.append(&mut first);
        }
        Some(Completed { id: waiting.id, at, outcome: Outcome::In(bytes) })
    }
}
