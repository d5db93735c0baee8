//! A busy host in front of a device: each request waits for a random time before it reaches the device.
//!
//! The delays of requests in flight overlap, as those of threads do. Stalls and phases of load follow the seed and the
//! simulated time, so that a run repeats exactly.

use flashlab_sim::{Completion, Duration, Geometry, Instant, Model, Observer, PowerCut, Request, Rng};
use std::collections::BTreeMap;

/// The delays of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Mean of the delays, which have an exponential distribution.
    pub(crate) mean: Duration,
    /// Mean number of requests per stall; 0 if no request stalls.
    pub(crate) stall_each: u64,
    /// Longest stall.
    pub(crate) stall: Duration,
    /// Duration of each phase; loaded and idle phases alternate. Zero if the host is always loaded.
    pub(crate) phase: Duration,
}

/// A device behind a busy host.
#[derive(Clone)]
pub(crate) struct HostDelays {
    inner: Box<dyn Model>,
    load: Load,
    rng: Rng,
    /// Requests on their way, by the instant at which they reach the device and by their number.
    waiting: BTreeMap<(Instant, u64), Request>,
    count: u64,
}

impl HostDelays {
    pub(crate) fn new(inner: Box<dyn Model>, load: Load, seed: u64) -> HostDelays {
        HostDelays { inner, load, rng: Rng::new(seed), waiting: BTreeMap::new(), count: 0 }
    }

    fn delay(&mut self, now: Instant) -> Duration {
        let Load { mean, stall_each, stall, phase } = self.load;
        let drawn = -(1.0 - self.rng.unit()).ln() * mean.as_ns() as f64;
        let stalls = stall_each > 0 && self.rng.below(stall_each) == 0;
        let drawn = drawn + if stalls { self.rng.unit() * stall.as_ns() as f64 } else { 0.0 };
        let since = now.since(Instant::ZERO).as_ns();
        let is_idle = phase > Duration::ZERO && since / phase.as_ns() % 2 == 1;
        if is_idle { Duration::ZERO } else { Duration::from_ns(drawn as u64) }
    }

    fn first_waiting(&self) -> Option<Instant> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }
}

impl Model for HostDelays {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&mut self, now: Instant, request: Request) {
        let at = now + self.delay(now);
        self.waiting.insert((at, self.count), request);
        self.count += 1;
    }
    fn next_due(&self) -> Option<Instant> {
        self.first_waiting().into_iter().chain(self.inner.next_due()).min()
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        loop {
            let first = self.first_waiting();
            let until = first.map_or(limit, |first| first.min(limit));
            if let Some(done) = self.inner.complete(until) {
                return Some(done);
            }
            let ((at, _), request) = self.waiting.first_key_value().filter(|((at, _), _)| *at <= limit)?;
            let (at, request) = (*at, *request);
            self.waiting.pop_first();
            self.inner.submit(at, request);
        }
    }
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.inner.power_cut(now)
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        self.inner.power_up(now)
    }
    fn observe(&self, to: &mut dyn Observer) {
        self.inner.observe(to);
    }
}
