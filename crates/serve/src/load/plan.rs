//! The sequence of a connection's requests, and the expected contents of its blocks.
//!
//! If blocks are verified, no request is sent for a block in flight, so the expected contents of a block are always
//! known.

use super::Job;
use flashlab_sim::{Duration, Instant, Rng};

/// One request of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PlannedRequest {
    pub(super) write: bool,
    /// Index of the block in the connection's area.
    pub(super) block: u64,
    /// Generation of the block after the request: the number of writes to it. Contents older than the load have
    /// generation 0.
    pub(super) generation: u32,
}

/// The next step of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Send this request.
    Send(PlannedRequest),
    /// Send no request before this instant, because of the rate.
    At(Instant),
    /// Send no request before a reply has arrived.
    Blocked,
    /// The load is complete.
    Done,
}

/// One connection's part of a load.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Offset of the connection's area in the export, in bytes.
    pub(super) offset: u64,
    blocks: u64,
    block: u64,
    random: bool,
    reads_percent: u64,
    rng: Rng,
    cursor: u64,
    requests: u64,
    until: Until,
    start: Instant,
    interval: Option<Duration>,
    due: Instant,
    /// Generation of each block, and the flag [`IN_FLIGHT`]; empty if blocks are not verified.
    generations: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Until {
    Requests(u64),
    At(Instant),
}

const IN_FLIGHT: u32 = 1 << 31;

/// Maximum number of attempts to draw a block that is not in flight, before the plan waits for a reply.
const DRAWS: u32 = 64;

impl Plan {
    /// Creates the plan of connection `number` for a job whose area has `size` bytes.
    pub(super) fn new(job: &Job, size: u64, number: u32, start: Instant) -> Plan {
        let block = u64::from(job.block);
        // Random loads share the area. Where the order or the contents matter, each connection has its own part.
        let parts = if job.mix.random && !job.verify { 1 } else { u64::from(job.connections) };
        let blocks = size / parts / block;
        let part = if parts == 1 { 0 } else { u64::from(number) };
        let share = if parts == 1 { blocks.div_ceil(u64::from(job.connections)) } else { blocks };
        Plan {
            offset: job.offset + part * blocks * block,
            blocks,
            block,
            random: job.mix.random,
            reads_percent: u64::from(job.mix.reads_percent),
            rng: Rng::for_purpose(job.seed, u64::from(number)),
            cursor: 0,
            requests: 0,
            start,
            until: match job.runtime {
                Some(runtime) => Until::At(start.saturating_add(runtime)),
                None => Until::Requests(share),
            },
            interval: job.rate_iops.map(|iops| Duration::from_ratio_secs(1, iops)),
            due: start,
            generations: if job.verify { vec![0; blocks as usize] } else { Vec::new() },
        }
    }

    /// Returns the offset of a block in the export.
    pub(super) fn offset_of(&self, block: u64) -> u64 {
        self.offset + block * self.block
    }

    /// Returns the next step at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        let is_over = match self.until {
            Until::Requests(count) => self.requests >= count,
            Until::At(end) => now >= end,
        };
        if is_over {
            return Next::Done;
        }
        if self.interval.is_some() && now < self.due {
            return Next::At(self.due);
        }
        let Some(block) = self.draw() else { return Next::Blocked };
        if let Some(interval) = self.interval {
            self.due += interval;
        }
        self.requests += 1;
        let write = self.rng.below(100) >= self.reads_percent;
        Next::Send(self.begin(block, write))
    }

    /// Returns the fraction of this connection's requests that were begun, or of its run time that has passed
    /// at `now`.
    pub(super) fn fraction_done(&self, now: Instant) -> f64 {
        match self.until {
            Until::Requests(count) => self.requests as f64 / count.max(1) as f64,
            Until::At(end) => {
                let total = end.saturating_since(self.start).as_ns().max(1);
                now.saturating_since(self.start).as_ns() as f64 / total as f64
            }
        }
    }

    fn draw(&mut self) -> Option<u64> {
        if !self.random {
            let block = self.cursor;
            if self.is_in_flight(block) {
                return None;
            }
            self.cursor = (block + 1) % self.blocks;
            return Some(block);
        }
        for _ in 0..DRAWS {
            let block = self.rng.below(self.blocks);
            if !self.is_in_flight(block) {
                return Some(block);
            }
        }
        None
    }

    fn is_in_flight(&self, block: u64) -> bool {
        self.generations.get(block as usize).is_some_and(|generation| generation & IN_FLIGHT != 0)
    }

    fn begin(&mut self, block: u64, write: bool) -> PlannedRequest {
        let mut generation = 0;
        if let Some(known) = self.generations.get_mut(block as usize) {
            generation = *known + u32::from(write);
            *known = generation | IN_FLIGHT;
        }
        PlannedRequest { write, block, generation }
    }

    /// Records that a request has completed.
    pub(super) fn completed(&mut self, planned: &PlannedRequest) {
        if let Some(known) = self.generations.get_mut(planned.block as usize) {
            *known = planned.generation;
        }
    }

    /// Returns reads of all written blocks. Must be called once no request is in flight.
    pub(super) fn written(&mut self) -> Vec<PlannedRequest> {
        let written = self.generations.iter().enumerate().filter(|(_, generation)| **generation > 0);
        written
            .map(|(block, &generation)| PlannedRequest { write: false, block: block as u64, generation })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mix;
    use super::*;

    fn job(word: &str) -> Job {
        Job { mix: Mix::parse(word, 50).expect("fio's word"), ..Job::default() }
    }

    fn all(plan: &mut Plan) -> Vec<PlannedRequest> {
        std::iter::from_fn(|| match plan.next(Instant::ZERO) {
            Next::Send(planned) => {
                plan.completed(&planned);
                Some(planned)
            }
            _ => None,
        })
        .collect()
    }

    #[test]
    fn sequential_connections_cover_disjoint_parts_once() {
        let job = Job { connections: 3, ..job("write") };
        let mut offsets = Vec::new();
        for number in 0..3 {
            let mut plan = Plan::new(&job, 12 * 4096, number, Instant::ZERO);
            offsets.extend(all(&mut plan).iter().map(|planned| plan.offset_of(planned.block)));
        }
        let expected: Vec<u64> = (0..12).map(|block| block * 4096).collect();
        assert_eq!(offsets, expected);
    }

    #[test]
    fn a_verified_block_in_flight_is_not_requested_again() {
        let mut plan = Plan::new(&Job { verify: true, ..job("randrw") }, 8 * 4096, 0, Instant::ZERO);
        let mut in_flight = Vec::new();
        while let Next::Send(planned) = plan.next(Instant::ZERO) {
            assert!(!in_flight.contains(&planned.block));
            in_flight.push(planned.block);
        }
        assert!(in_flight.len() > 4, "{in_flight:?}");
    }

    #[test]
    fn a_rate_spaces_requests_and_late_requests_catch_up() {
        let mut plan =
            Plan::new(&Job { rate_iops: Some(1_000), ..job("randread") }, 1 << 20, 0, Instant::ZERO);
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        assert!(matches!(plan.next(at(0)), Next::Send(_)));
        assert_eq!(plan.next(at(0)), Next::At(at(1)));
        assert!(matches!(plan.next(at(2)), Next::Send(_)));
        assert!(matches!(plan.next(at(2)), Next::Send(_)));
        assert_eq!(plan.next(at(2)), Next::At(at(3)));
    }

    #[test]
    fn a_plan_lists_the_written_blocks_with_their_generations() {
        let mut plan = Plan::new(&Job { verify: true, ..job("write") }, 2 * 4096, 0, Instant::ZERO);
        all(&mut plan);
        let back: Vec<_> = plan.written().iter().map(|planned| (planned.block, planned.generation)).collect();
        assert_eq!(back, [(0, 1), (1, 1)]);
    }
}
