//! `delay` and `rate`: a model that delays each request, or limits bytes or requests per second.
//!
//! Each request waits for its whole delay, regardless of the number of requests. A rate is a serial resource: requests
//! pass through it one after the other, in the order in which the model below completes them. A delay counts as
//! firmware time, the transfer at a rate as bus time, and the wait for the resource as queue time.

use flashlab_sim::{
    Agenda, Completion, Duration, FileId, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut,
    Request, RequestId, RestoreError,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// The way in which a model is slowed down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Throttle {
    /// Delays each request by a fixed time.
    Delay {
        /// Delay of reads.
        read: Duration,
        /// Delay of writes and trims.
        write: Duration,
        /// Delay of flushes.
        flush: Duration,
    },
    /// Limits the throughput; `None` means no limit.
    Rate {
        /// Bytes per second of reads.
        read: Option<u64>,
        /// Bytes per second of writes.
        write: Option<u64>,
        /// Requests per second.
        iops: Option<u64>,
    },
}

/// A model that slows another one down.
#[derive(Clone)]
pub struct Throttled {
    inner: Box<dyn Model>,
    throttle: Throttle,
    submitted: BTreeMap<RequestId, (Op, u64)>,
    delayed: Agenda<Completion>,
    /// Instant at which the serial resource of a rate becomes free.
    idle_from: Instant,
}

impl Throttled {
    /// Creates a model that slows `inner` down.
    pub fn new(inner: Box<dyn Model>, throttle: Throttle) -> Throttled {
        Throttled {
            inner,
            throttle,
            submitted: BTreeMap::new(),
            delayed: Agenda::new(),
            idle_from: Instant::ZERO,
        }
    }

    fn delay(&mut self, mut completion: Completion) {
        let (op, length) =
            self.submitted.remove(&completion.id).expect("the model completes submitted requests only");
        match self.throttle {
            Throttle::Delay { read, write, flush } => {
                let delay = match op {
                    Op::Read => read,
                    Op::Write | Op::WriteFua | Op::Trim => write,
                    Op::Flush | Op::FlushData => flush,
                };
                completion.spent[Mechanism::Firmware] += delay;
                completion.at += delay;
            }
            Throttle::Rate { read, write, iops } => {
                let bytes = match op {
                    Op::Read => read,
                    Op::Write | Op::WriteFua => write,
                    Op::Trim | Op::Flush | Op::FlushData => None,
                };
                let transfer_time =
                    bytes.map_or(Duration::ZERO, |rate| Duration::from_ratio_secs(length, rate));
                let request_interval = iops.map_or(Duration::ZERO, |rate| Duration::from_ratio_secs(1, rate));
                let (waited, time) =
                    (self.idle_from.saturating_since(completion.at), transfer_time.max(request_interval));
                completion.spent[Mechanism::Queue] += waited;
                completion.spent[Mechanism::Bus] += time;
                completion.at = completion.at + waited + time;
                self.idle_from = completion.at;
            }
        }
        self.delayed.insert(completion.at, completion);
    }
}

impl Model for Throttled {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn hint(&self, file: FileId, offsets: &[u64]) {
        self.inner.hint(file, offsets);
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.submitted.insert(request.id, (request.op, request.length));
        self.inner.submit(now, request);
    }
    fn next_due(&self) -> Option<Instant> {
        match (self.inner.next_due(), self.delayed.next_due()) {
            (Some(inner), Some(delayed)) => Some(inner.min(delayed)),
            (inner, delayed) => inner.or(delayed),
        }
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        loop {
            let delayed = self.delayed.next_due();
            let until = delayed.map_or(limit, |delayed| delayed.min(limit));
            // A request that the inner model completes by `until` may be due before `delayed`, even after its own
            // delay.
            match self.inner.complete(until) {
                Some(completion) => self.delay(completion),
                None => return self.delayed.pop(limit).map(|(_, completion)| completion),
            }
        }
    }
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.submitted.clear();
        self.delayed.clear();
        self.inner.power_cut(now)
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        self.idle_from = self.inner.power_up(now);
        self.idle_from
    }
    fn is_durable(&self, range: &Range<u64>) -> bool {
        self.inner.is_durable(range)
    }
    fn save(&self) -> Option<Vec<u8>> {
        self.inner.save()
    }
    fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        self.inner.restore(state)
    }
    fn observe(&self, to: &mut dyn Observer) {
        self.inner.observe(to);
    }
}
