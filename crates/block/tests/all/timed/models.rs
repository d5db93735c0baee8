//! Models for tests: one that may lose all data that is not durable, and one that gives every request the
//! same status.

use flashlab_sim::{
    Completion, Duration, Fate, Geometry, Instant, Mechanism, Model, Op, PowerCut, Request, Rng, Spent,
    Status,
};
use std::collections::{BTreeSet, VecDeque};

pub(crate) const BLOCK: u64 = 512;
pub(crate) const BLOCKS: u64 = 64;
/// Service time of each request; requests are served one after the other.
pub(crate) const LATENCY: Duration = Duration::from_us(10);

/// Serves one request at a time. A write without FUA, or a trim, is durable only after a flush. A power cut
/// draws a fate for each block that is not durable or is in flight.
#[derive(Clone)]
pub(crate) struct VolatileModel {
    rng: Rng,
    queue: VecDeque<(Instant, Instant, Request)>,
    volatile: BTreeSet<u64>,
    idle_from: Instant,
}

impl VolatileModel {
    pub(crate) fn new(seed: u64) -> VolatileModel {
        VolatileModel {
            rng: Rng::new(seed),
            queue: VecDeque::new(),
            volatile: BTreeSet::new(),
            idle_from: Instant::ZERO,
        }
    }
}

fn blocks(request: &Request) -> std::ops::Range<u64> {
    request.offset / BLOCK..request.end() / BLOCK
}

impl Model for VolatileModel {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: BLOCKS * BLOCK, block: BLOCK, request_max: 3 * BLOCK }
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.idle_from = self.idle_from.max(now) + LATENCY;
        self.queue.push_back((now, self.idle_from, request));
    }
    fn next_due(&self) -> Option<Instant> {
        self.queue.front().map(|(_, due, _)| *due)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let (arrived, at, request) = self.queue.pop_front_if(|(_, due, _)| *due <= limit)?;
        match request.op {
            Op::Write | Op::Trim => self.volatile.extend(blocks(&request)),
            Op::WriteFua => self.volatile.retain(|block| !blocks(&request).contains(block)),
            // Requests are served in order, so every earlier request is complete.
            Op::Flush | Op::FlushData => self.volatile.clear(),
            Op::Read => {}
        }
        let mut spent = Spent::default();
        spent[Mechanism::Queue] = at.since(arrived);
        Some(Completion { id: request.id, at, status: Status::Ok, spent })
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        let mut named = std::mem::take(&mut self.volatile);
        let changing = self.queue.drain(..).filter(|(_, _, r)| r.op.is_write() || r.op == Op::Trim);
        named.extend(changing.flat_map(|(_, _, request)| blocks(&request)));
        let mut cut = PowerCut::default();
        for block in named {
            let fate = [Fate::Old, Fate::New, Fate::Unreadable][self.rng.below(3) as usize];
            cut.push(block * BLOCK..(block + 1) * BLOCK, fate);
        }
        cut
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        self.idle_from = now + LATENCY;
        self.idle_from
    }
}

/// Ends each request with the same status.
#[derive(Clone)]
pub(crate) struct Failing(pub(crate) Status, pub(crate) Option<Completion>);

impl Model for Failing {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: BLOCKS * BLOCK, block: BLOCK, request_max: 8 * BLOCK }
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.1 = Some(Completion { id: request.id, at: now, status: self.0, spent: Spent::default() });
    }
    fn next_due(&self) -> Option<Instant> {
        self.1.map(|completion| completion.at)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        self.1.take_if(|completion| completion.at <= limit)
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        PowerCut::default()
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }
}
