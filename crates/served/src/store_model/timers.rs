//! Timers and tasks of requests that wait for more than the events of the device, and the breakdown of their latencies.

use flashlab_block::{Runtime, Task};
use flashlab_sim::{Duration, Instant, Mechanism, Spent, mix};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The current time of a device, and the instants at which its requests continue.
#[derive(Default)]
pub(super) struct Timers(Mutex<State>);

#[derive(Default)]
struct State {
    now: Instant,
    due: BTreeMap<(Instant, u64), Waker>,
    /// Number of timers so far.
    timers: u64,
    tasks: Vec<Task>,
}

impl Timers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the time. Wakes the tasks whose timers are due.
    pub(super) fn advance(&self, now: Instant) {
        let mut state = self.lock();
        state.now = state.now.max(now);
        let reached = state.now;
        let later = state.due.split_off(&(reached, u64::MAX));
        let due = std::mem::replace(&mut state.due, later);
        // A waker may call back.
        drop(state);
        due.into_values().for_each(Waker::wake);
    }

    /// Returns the instant of the next timer.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().due.keys().next().map(|(at, _)| *at)
    }

    /// Polls the tasks that requests started.
    pub(super) fn poll_tasks(&self) {
        let mut tasks = std::mem::take(&mut self.lock().tasks);
        tasks.retain_mut(|task| {
            task.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())).is_pending()
        });
        self.lock().tasks.extend(tasks);
    }
}

/// The runtime of one request. All requests of a device share its timers.
pub(super) struct RequestRuntime {
    timers: Arc<Timers>,
    charges: Mutex<Vec<Charge>>,
}

/// A span of a request's latency.
#[derive(Clone, Copy)]
struct Charge {
    mechanism: Mechanism,
    from: Instant,
    to: Instant,
}

impl RequestRuntime {
    pub(super) fn new(timers: &Arc<Timers>) -> Arc<RequestRuntime> {
        Arc::new(RequestRuntime { timers: timers.clone(), charges: Mutex::default() })
    }

    /// Breaks down the latency of the request. Time in which extents of the request are encoded or decoded goes to the
    /// codecs, in proportion to their processor times. Time in which an extent waits for a core and none is worked on
    /// goes to the queue, and the rest to the firmware of the members.
    pub(super) fn breakdown(&self, submitted: Instant, end: Instant) -> Spent {
        let charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        let clip = |charge: &Charge| charge.from.max(submitted)..charge.to.min(end);
        let (waits, work): (Vec<&Charge>, Vec<&Charge>) =
            charges.iter().partition(|charge| charge.mechanism == Mechanism::Queue);
        let busy = union(work.iter().map(|charge| clip(charge)));
        let either = union(charges.iter().map(clip));
        let mut spent = Spent::default();
        let latency = end.saturating_since(submitted);
        spent[Mechanism::Firmware] = latency - either;
        if !waits.is_empty() {
            spent[Mechanism::Queue] = either - busy;
        }
        let total: u64 = work.iter().map(|charge| charge.to.since(charge.from).as_ns()).sum();
        let mut left = busy;
        for charge in &work {
            let time = charge.to.since(charge.from).as_ns();
            let part = u128::from(busy.as_ns()) * u128::from(time) / u128::from(total.max(1));
            let part = Duration::from_ns(part as u64);
            spent[charge.mechanism] += part;
            left -= part;
        }
        // The division rounds down.
        if let Some(last) = work.last() {
            spent[last.mechanism] += left;
        }
        spent
    }
}

/// Returns the time that the spans cover.
fn union(spans: impl Iterator<Item = std::ops::Range<Instant>>) -> Duration {
    let mut spans: Vec<_> = spans.filter(|span| span.start < span.end).collect();
    spans.sort_by_key(|span| span.start);
    let (mut covered, mut until) = (Duration::ZERO, Instant::ZERO);
    for span in spans {
        covered += span.end.saturating_since(span.start.max(until));
        until = until.max(span.end);
    }
    covered
}

impl Runtime for RequestRuntime {
    fn now(&self) -> Instant {
        self.timers.lock().now
    }

    fn wake_at(&self, at: Instant, waker: Waker) {
        let mut state = self.timers.lock();
        state.timers += 1;
        let number = state.timers;
        state.due.insert((at, number), waker);
    }

    fn spawn(&self, task: Task) {
        self.timers.lock().tasks.push(task);
    }

    fn random(&self) -> u64 {
        mix(self.now().as_ns())
    }

    fn charge(&self, mechanism: Mechanism, from: Instant, to: Instant) {
        let mut charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.push(Charge { mechanism, from, to });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn overlapping_work_counts_once_and_the_parts_sum_to_the_latency() {
        let runtime = RequestRuntime::new(&Arc::default());
        // Two extents are compressed and encrypted at the same time; a third one waits for a core.
        for core in [0, 1] {
            runtime.charge(Mechanism::Compression, at(10), at(40 + core));
            runtime.charge(Mechanism::Cipher, at(40 + core), at(50 + core));
        }
        runtime.charge(Mechanism::Queue, at(10), at(60));
        let spent = runtime.breakdown(at(0), at(100));
        assert_eq!(spent.total(), Duration::from_us(100));
        let ns = |mechanism| spent[mechanism].as_ns();
        assert_eq!(ns(Mechanism::Compression) + ns(Mechanism::Cipher), 41_000, "from 10 to 51");
        assert!(ns(Mechanism::Compression) > 3 * ns(Mechanism::Cipher));
        assert_eq!(ns(Mechanism::Queue), 9_000, "from 51 to 60");
        assert_eq!(ns(Mechanism::Firmware), 50_000);
    }

    #[test]
    fn a_request_without_charges_spends_its_time_in_the_firmware() {
        let spent = RequestRuntime::new(&Arc::default()).breakdown(at(3), at(10));
        assert_eq!(spent[Mechanism::Firmware], Duration::from_us(7));
        assert_eq!(spent.total(), Duration::from_us(7));
    }
}
