//! Linux's `null_blk` with a constant latency, a queue depth and a bandwidth limit: the device on which
//! `flashlab record` records.
//!
//! The driver accepts a number of bytes per tick of 20 ms (`null_handle_throttled`). The request that exceeds
//! this number stops the queue until the next tick. The phase of the ticks is unknown, so this model counts
//! ticks from the start of the run. Requests start in the order of their arrival; an I/O scheduler is not
//! modelled.

use flashlab_sim::{Completion, Duration, Geometry, Instant, Model, PowerCut, Request, Spent, Status};
use std::collections::VecDeque;

const TICK: Duration = Duration::from_ms(20);

#[derive(Clone)]
pub(crate) struct NullBlk {
    latency: Duration,
    queue_depth: usize,
    /// Bytes per tick, if the bandwidth has a limit.
    bytes_per_tick: Option<u64>,
    waiting: VecDeque<Request>,
    in_service: VecDeque<Completion>,
    /// Number of the last tick that accepted a request, and the bytes that it still accepts.
    tick: u64,
    left: u64,
    /// Start of the next tick, while the queue is stopped.
    resumes: Option<Instant>,
}

impl NullBlk {
    pub(crate) fn new(latency: Duration, queue_depth: usize, bytes_per_tick: Option<u64>) -> NullBlk {
        NullBlk {
            latency,
            queue_depth,
            bytes_per_tick,
            waiting: VecDeque::new(),
            in_service: VecDeque::new(),
            tick: 0,
            left: bytes_per_tick.unwrap_or(0),
            resumes: None,
        }
    }

    /// Starts the requests that the queue depth and the bandwidth allow.
    fn start(&mut self, now: Instant) {
        if self.resumes.is_some_and(|at| now < at) {
            return;
        }
        self.resumes = None;
        while self.in_service.len() < self.queue_depth {
            let Some(&request) = self.waiting.front() else { return };
            if !self.accepts(now, request.length) {
                self.resumes = Some(Instant::ZERO + TICK * (self.tick + 1));
                return;
            }
            let (id, at) = (request.id, now + self.latency);
            self.waiting.pop_front();
            self.in_service.push_back(Completion { id, at, status: Status::Ok, spent: Spent::default() });
        }
    }

    fn accepts(&mut self, now: Instant, bytes: u64) -> bool {
        let Some(bytes_per_tick) = self.bytes_per_tick else { return true };
        assert!(bytes <= bytes_per_tick, "null_blk never serves a request of {bytes} bytes");
        let tick = now.as_ns() / TICK.as_ns();
        if tick > self.tick {
            (self.tick, self.left) = (tick, bytes_per_tick);
        }
        let rest = self.left.checked_sub(bytes);
        self.left = rest.unwrap_or(self.left);
        rest.is_some()
    }
}

impl Model for NullBlk {
    fn geometry(&self) -> Geometry {
        panic!("replay does not ask for the geometry")
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.waiting.push_back(request);
        self.start(now);
    }
    fn next_due(&self) -> Option<Instant> {
        let completion = self.in_service.front().map(|completion| completion.at);
        completion.into_iter().chain(self.resumes).min()
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        loop {
            let due = self.next_due().filter(|due| *due <= limit)?;
            let completion = self.in_service.pop_front_if(|completion| completion.at == due);
            self.start(due);
            if completion.is_some() {
                return completion;
            }
        }
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        panic!("these tests cut no power")
    }
    fn power_up(&mut self, _: Instant) -> Instant {
        panic!("these tests cut no power")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_recording::{Action, Flags, Mode, Replay, Step, TaskId};
    use flashlab_sim::{Op, run};

    const LATENCY: Duration = Duration::from_us(250);

    /// Returns the elapsed time of `count` writes of 4 KiB that arrive at once.
    fn elapsed(count: u64, mut device: NullBlk) -> Duration {
        let write = |number| {
            let action = Action::Request {
                op: Op::Write,
                offset: number * 4096,
                length: 4096,
                flags: Flags::default(),
            };
            Step { task: TaskId(0), at: Duration::ZERO, action, causes: Vec::new() }
        };
        let steps: Vec<Step> = (0..count).map(write).collect();
        let mut replay = Replay::new(steps.iter(), Mode::Dependencies, Instant::ZERO);
        run(&mut device, &mut replay, Instant::ZERO);
        replay.finish().unwrap().elapsed
    }

    #[test]
    fn a_queue_depth_divides_the_requests_into_rounds() {
        for (depth, rounds) in [(1, 100), (3, 34), (64, 2), (100, 1)] {
            assert_eq!(elapsed(100, NullBlk::new(LATENCY, depth, None)), LATENCY * rounds, "depth {depth}");
        }
    }

    #[test]
    fn a_tick_accepts_whole_requests_up_to_its_bytes() {
        // Ten and a half requests fit in a tick, so 95 requests need 9 whole ticks and a part of the tenth.
        for depth in [1, 64] {
            let device = NullBlk::new(LATENCY, depth, Some(10 * 4096 + 2048));
            let rounds = 5_u64.div_ceil(depth as u64);
            assert_eq!(elapsed(95, device), TICK * 9 + LATENCY * rounds, "depth {depth}");
        }
    }

    #[test]
    fn a_slow_queue_does_not_reach_the_bandwidth_limit() {
        // 80 requests of 250 us fill a tick, which would accept 100.
        let device = NullBlk::new(LATENCY, 1, Some(100 * 4096));
        assert_eq!(elapsed(400, device), LATENCY * 400);
    }
}
