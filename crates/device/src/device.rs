//! [`Device`]: a block device in simulated time, with its bytes, for a single caller.

use crate::Error;
use crate::cut::Cut;
use flashlab_block::layer::{Fault, FaultError, Faults};
use flashlab_block::{Answer, BlockDevice, Context, Geometry, Io, IoError, Outcome, Started, Timed};
use flashlab_sim::{Duration, EraseBlocks, Instant, Model, Observer, PowerCut, Store, StoreError};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A block device in simulated time, with its bytes.
///
/// - A blocking request ([`Device::read`], [`Device::write`], ...) advances the time to its completion. A request from
///   [`Device::submit`] completes in [`Device::next_completion`], so several can be in flight.
/// - Offsets and lengths are in bytes, and multiples of the block ([`Device::geometry`]).
/// - Requests fail with [`IoError::ShuttingDown`] while the power is off. Requests that a power cut interrupts fail in
///   the same way: the device does not know whether they took effect.
pub struct Device {
    /// The device, with a layer on top that injects errors.
    faults: Faults,
    /// The timed device beneath the layers; `None` for a device without timing.
    timed: Option<Arc<Timed>>,
    now: Instant,
    cut: Cut,
    next_ticket: u64,
    in_flight: Vec<(Ticket, Pending)>,
    completed: VecDeque<Completion>,
    last_cut: Option<Result<PowerCut, StoreError>>,
}

/// The future of a request in flight.
type Pending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Number of a submitted request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A completed request.
#[derive(Debug)]
pub struct Completion {
    /// Number that [`Device::submit`] returned.
    pub ticket: Ticket,
    /// Instant of the completion.
    pub at: Instant,
    /// The bytes of a read, or no bytes for any other request.
    pub result: Result<Vec<u8>, IoError>,
}

impl Device {
    pub(crate) fn new(device: Arc<dyn BlockDevice>, timed: Option<Arc<Timed>>, seed: u64) -> Device {
        Device {
            faults: Faults::new(device, Vec::new(), seed),
            timed,
            now: Instant::ZERO,
            cut: Cut::new(seed),
            next_ticket: 0,
            in_flight: Vec::new(),
            completed: VecDeque::new(),
            last_cut: None,
        }
    }

    /// Returns a device that takes the times that `model` decides, and keeps its bytes in `store`. The store
    /// must have the capacity of the model. Injected errors and the instants of power cuts are drawn from
    /// `seed`.
    pub fn of_model(model: Box<dyn Model>, store: Box<dyn Store>, seed: u64) -> Device {
        let timed = Arc::new(Timed::new(model, store));
        Device::new(timed.clone(), Some(timed), seed)
    }

    /// Returns the capacity, the block size and the largest request, in bytes.
    pub fn geometry(&self) -> Geometry {
        self.faults.geometry()
    }

    /// Returns the simulated time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Reads `buffer.len()` bytes at `offset`.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        let bytes = self.execute(Io::Read { offset, buffer: vec![0; buffer.len()] })?;
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    /// Writes `bytes` at `offset`. Only a later flush guarantees that the bytes are durable.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.execute(Io::Write { offset, data: bytes.to_vec().into(), durable: false }).map(drop)
    }

    /// Writes `bytes` at `offset` and makes them durable (FUA).
    pub fn write_durable(&mut self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.execute(Io::Write { offset, data: bytes.to_vec().into(), durable: true }).map(drop)
    }

    /// Makes every completed write durable.
    pub fn flush(&mut self) -> Result<(), IoError> {
        self.execute(Io::Flush).map(drop)
    }

    /// Discards a range, which then reads as zeroes or as before.
    pub fn discard(&mut self, offset: u64, length: u64) -> Result<(), IoError> {
        self.execute(Io::Discard { offset, length, durable: false }).map(drop)
    }

    /// Submits a request at the current time.
    pub fn submit(&mut self, io: Io) -> Ticket {
        self.cut_if_due(self.now);
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let interrupted = io.is_write() && self.is_powered() && self.cut.counts_down();
        match self.faults.start(&Context::new(self.now), io) {
            Started::Done(outcome) => self.complete(ticket, outcome),
            Started::Pending(future) => self.in_flight.push((ticket, future)),
        }
        if interrupted && let Some(timed) = &self.timed {
            let (_, idle, ()) = timed.model_when_idle(|| ());
            self.cut.draw(self.now, Instant::ZERO.saturating_add(idle));
            self.cut_if_due(self.now);
        }
        ticket
    }

    /// Advances the time to the next completion and returns it. Returns `None` if no request is in flight.
    pub fn next_completion(&mut self) -> Option<Completion> {
        while self.completed.is_empty() && !self.in_flight.is_empty() {
            let due = self.faults.next_due().expect("a request in flight has an event to come");
            self.advance_to(due.max(self.now));
        }
        self.completed.pop_front()
    }

    /// Advances the time without a new request. The device works in the background, and requests in flight
    /// continue.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now.saturating_add(time);
        while let Some(due) = self.faults.next_due().filter(|due| *due <= end) {
            self.advance_to(due.max(self.now));
        }
        self.advance_to(end);
        if self.now < end {
            // A planned power cut has ended the last step early.
            self.advance_to(end);
        }
    }

    /// Returns true unless the power is off.
    pub fn is_powered(&self) -> bool {
        self.timed.as_ref().is_none_or(|timed| timed.is_powered())
    }

    /// Cuts the power now. Returns the ranges that were not durable, with their fates.
    pub fn cut_power(&mut self) -> Result<PowerCut, Error> {
        let timed = self.timed.as_ref().ok_or(Error::NoPower)?;
        let cut = timed.power_cut(self.now).map_err(Error::Store);
        self.cut.cancel();
        self.collect();
        cut
    }

    /// Cuts the power when the time reaches `at`, even in the middle of a request.
    pub fn cut_power_at(&mut self, at: Instant) -> Result<(), Error> {
        self.timed.as_ref().ok_or(Error::NoPower)?;
        self.cut.at(at);
        Ok(())
    }

    /// Cuts the power during the `nth` write, discard or write of zeroes from now on, counted from 1, at an
    /// instant that is drawn from the seed.
    pub fn cut_power_during_write(&mut self, nth: u64) -> Result<(), Error> {
        self.timed.as_ref().ok_or(Error::NoPower)?;
        self.cut.during(nth);
        Ok(())
    }

    /// Returns the effect of the last power cut that [`Device::cut_power_at`] or
    /// [`Device::cut_power_during_write`] planned; `None` if the cut has not happened. Fails if the store
    /// failed during the cut.
    pub fn take_planned_cut(&mut self) -> Result<Option<PowerCut>, Error> {
        self.last_cut.take().transpose().map_err(Error::Store)
    }

    /// Restores the power, and advances the time to the instant at which the device has recovered.
    pub fn restore_power(&mut self) {
        if let Some(timed) = &self.timed {
            self.now = self.now.max(timed.power_up(self.now));
        }
    }

    /// Makes requests fail by a rule such as `write after=3 times=1 EIO` or `read at=0+4096 rate=0.5`.
    pub fn add_fault(&mut self, rule: &str) -> Result<(), FaultError> {
        self.faults.add(rule.parse::<Fault>()?);
        Ok(())
    }

    /// Removes the rules that [`Device::add_fault`] added.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Reports the counters and the wear of the device.
    pub fn observe(&self, to: &mut dyn Observer) {
        if let Some(timed) = &self.timed {
            timed.with_model(|model| model.observe(to));
        }
    }

    /// Returns the counters of the device by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        struct Counters(Vec<(&'static str, u64)>);
        impl Observer for Counters {
            fn count(&mut self, name: &'static str, value: u64) {
                self.0.push((name, value));
            }
        }
        let mut counters = Counters(Vec::new());
        self.observe(&mut counters);
        counters.0
    }

    /// Returns the number of erases of each erase block; empty if the device does not model them.
    pub fn erase_counts(&self) -> Vec<u32> {
        struct Erases(Vec<u32>);
        impl Observer for Erases {
            fn count(&mut self, _: &'static str, _: u64) {}
            fn erase_blocks(&mut self, blocks: &EraseBlocks<'_>) {
                self.0 = blocks.erase_counts.to_vec();
            }
        }
        let mut erases = Erases(Vec::new());
        self.observe(&mut erases);
        erases.0
    }

    /// Submits a request and waits for it. Completions of other requests stay for [`Device::next_completion`].
    fn execute(&mut self, io: Io) -> Result<Vec<u8>, IoError> {
        let ticket = self.submit(io);
        loop {
            if let Some(n) = self.completed.iter().position(|completion| completion.ticket == ticket) {
                return self.completed.remove(n).expect("the position is valid").result;
            }
            let due = self.faults.next_due().expect("a request in flight has an event to come");
            self.advance_to(due.max(self.now));
        }
    }

    /// Advances the time to `at`, or to a planned power cut before it, and collects the completions.
    fn advance_to(&mut self, at: Instant) {
        if !self.cut_if_due(at) {
            self.now = at;
            self.faults.advance(at);
            self.collect();
        }
    }

    /// Cuts the power if a planned cut is due at or before `at`, and returns true in that case.
    fn cut_if_due(&mut self, at: Instant) -> bool {
        let (Some(cut), Some(timed)) = (self.cut.take_due(at), &self.timed) else { return false };
        self.now = self.now.max(cut);
        self.last_cut = Some(timed.power_cut(self.now));
        self.collect();
        true
    }

    /// Moves the requests that have ended from `in_flight` to `completed`.
    fn collect(&mut self) {
        let mut context = std::task::Context::from_waker(Waker::noop());
        for (ticket, mut future) in std::mem::take(&mut self.in_flight) {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(outcome) => self.complete(ticket, outcome),
                Poll::Pending => self.in_flight.push((ticket, future)),
            }
        }
    }

    fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        let result = outcome.map(|answer| match answer {
            Answer::Read(bytes) => bytes,
            Answer::Done | Answer::Extents(_) => Vec::new(),
        });
        self.completed.push_back(Completion { ticket, at: self.now, result });
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("geometry", &self.geometry())
            .field("now", &self.now)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
