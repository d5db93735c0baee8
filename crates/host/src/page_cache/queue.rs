//! The scheduler between the cache and the driver (Linux 6.1, block/mq-deadline.c).
//!
//! The driver takes a few requests at a time. Waiting reads precede waiting writes; after two batches of reads, a batch
//! of writes has its turn. Flushes precede both.
//!
//! Not modelled: deadlines and the order by sector, since the cache writes in ascending order anyway.

use super::pages::IoId;
use super::throttle::Throttle;
use alloc::collections::{BTreeMap, VecDeque};
use flashlab_sim::{FileId, Instant, Model, Op, Request, RequestId};

/// Number of requests of one direction that are dispatched before the other direction is considered (`fifo_batch`).
const BATCH: u32 = 16;
/// Number of batches of reads before a batch of writes (`writes_starved`).
const STARVED: u32 = 2;

/// A request, with the number of the group to which it belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Io {
    pub(super) group: IoId,
    pub(super) op: Op,
    pub(super) file: FileId,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Requests that wait for the driver or are in the device.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    tags: usize,
    reads: VecDeque<Io>,
    writes: VecDeque<Io>,
    flushes: VecDeque<Io>,
    /// Requests in the device, and the instants at which the driver took them.
    in_device: BTreeMap<u64, (Io, Instant)>,
    throttle: Throttle,
    next_id: u64,
    /// Number of reads that were dispatched in a row while a write waited.
    reads_ahead: u32,
    /// Number of writes left in the current batch.
    writes_left: u32,
}

impl Queue {
    pub(super) fn new(tags: u32) -> Queue {
        Queue {
            tags: tags.max(1) as usize,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            flushes: VecDeque::new(),
            in_device: BTreeMap::new(),
            throttle: Throttle::default(),
            next_id: 0,
            reads_ahead: 0,
            writes_left: 0,
        }
    }

    /// Returns the number of requests that are not complete.
    pub(super) fn len(&self) -> usize {
        self.reads.len() + self.writes.len() + self.flushes.len() + self.in_device.len()
    }

    /// Returns true if a request is in the device.
    pub(super) fn is_busy(&self) -> bool {
        !self.in_device.is_empty()
    }

    pub(super) fn push(&mut self, io: Io) {
        match io.op {
            Op::Read => self.reads.push_back(io),
            op if op.is_flush() => self.flushes.push_back(io),
            _ => self.writes.push_back(io),
        }
    }

    /// Passes requests to the driver as long as it accepts them.
    pub(super) fn dispatch(&mut self, now: Instant, device: &mut dyn Model) {
        while self.in_device.len() < self.tags
            && let Some(Io { group: _, op, file, offset, length }) = self.peek_next()
        {
            let io = self.pop_next().expect("the queue is not empty");
            let id = self.next_id;
            self.next_id += 1;
            self.in_device.insert(id, (io, now));
            self.throttle.take(id, op, now);
            device.submit(now, Request { id: RequestId(id), op, file, offset, length });
        }
    }

    /// Removes and returns the request `id`, which completed at `now`.
    pub(super) fn completed(&mut self, id: RequestId, now: Instant) -> Io {
        let (io, since) = self.in_device.remove(&id.0).expect("the device completes requests of this queue");
        self.throttle.complete(id.0, io.op, now.since(since));
        io
    }

    /// Returns the limits of the writes in flight.
    pub(super) fn throttle(&mut self) -> &mut Throttle {
        &mut self.throttle
    }

    fn takes_write(&self) -> bool {
        let turn = self.writes_left > 0 || self.reads_ahead >= STARVED * BATCH;
        !self.writes.is_empty() && (self.reads.is_empty() || turn)
    }

    fn peek_next(&self) -> Option<Io> {
        let next = self.flushes.front();
        next.or(if self.takes_write() { self.writes.front() } else { self.reads.front() }).copied()
    }

    fn pop_next(&mut self) -> Option<Io> {
        if let Some(flush) = self.flushes.pop_front() {
            return Some(flush);
        }
        if self.takes_write() {
            self.writes_left = if self.writes_left > 0 { self.writes_left - 1 } else { BATCH - 1 };
            self.reads_ahead = 0;
            return self.writes.pop_front();
        }
        self.reads_ahead = if self.writes.is_empty() { 0 } else { self.reads_ahead + 1 };
        self.writes_left = 0;
        self.reads.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn io(op: Op) -> Io {
        Io { group: 0, op, file: FileId::DEVICE, offset: 0, length: 4096 }
    }

    #[test]
    fn reads_precede_writes_until_writes_have_starved() {
        let mut queue = Queue::new(1);
        (0..20).for_each(|_| queue.push(io(Op::Write)));
        (0..40).for_each(|_| queue.push(io(Op::Read)));
        queue.push(io(Op::Flush));
        let order: Vec<Op> = core::iter::from_fn(|| queue.pop_next()).map(|io| io.op).collect();
        assert_eq!(order[0], Op::Flush);
        let runs: Vec<(Op, usize)> =
            order[1..].chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
        assert_eq!(runs, [(Op::Read, 32), (Op::Write, 16), (Op::Read, 8), (Op::Write, 4)]);
    }
}
