//! A real device under the [probe]: each action of the probe is carried out in real time.

use crate::engine::{Buffer, Clock, is_unsupported};
use crate::target::{Channel, Target};
use flashlab_fit::probe::{self, Action, Direction, Finding, MARK_BYTES, Outcome, Probe, Run, Series};
use flashlab_sim::{Geometry, Rng};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Largest request in bytes. The patterns of the probe contain no larger request. The kernel may split such a
/// request.
const REQUEST_MAX: u64 = 1 << 20;

/// Largest discard in bytes, so that the user can stop between two of them.
const DISCARD_MAX: u64 = 1 << 30;

/// Longest sleep before the next check for a stop by the user.
const TICK: Duration = Duration::from_millis(100);

/// A device under the probe.
pub struct ProbedTarget<'a> {
    target: &'a dyn Target,
    channels: Vec<Box<dyn Channel>>,
    is_stopped: &'a (dyn Fn() -> bool + Sync),
    clock: Clock,
}

/// The reasons why a probe of a real device ends early.
#[derive(Debug)]
pub enum ProbeError {
    /// The user stopped the probe.
    Stopped,
    /// The device cannot be opened for another request in flight.
    Open(io::Error),
    /// A request failed.
    Request {
        /// The operation: `read`, `write`, `discard` or `flush`.
        op: &'static str,
        /// First byte.
        offset: u64,
        /// Error of the system call.
        error: io::Error,
    },
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProbeError::Stopped => f.write_str("the probe was stopped"),
            ProbeError::Open(error) => write!(f, "the target cannot be opened again: {error}"),
            ProbeError::Request { op, offset, error } => {
                write!(f, "the device failed a {op} at byte {offset}: {error}")
            }
        }
    }
}

impl std::error::Error for ProbeError {}

impl<'a> ProbedTarget<'a> {
    /// Returns a target. A probe ends with [`ProbeError::Stopped`] soon after `is_stopped` returns true.
    pub fn new(target: &'a dyn Target, is_stopped: &'a (dyn Fn() -> bool + Sync)) -> Self {
        ProbedTarget { target, channels: Vec::new(), is_stopped, clock: Clock::start() }
    }

    /// Opens a channel for each request in flight.
    fn open_channels(&mut self, depth: usize) -> Result<(), ProbeError> {
        while self.channels.len() < depth {
            self.channels.push(self.target.channel().map_err(ProbeError::Open)?);
        }
        Ok(())
    }

    fn run(&mut self, series: &Series) -> Result<Run, ProbeError> {
        let depth = (series.depth.max(1) as usize).min(series.requests.len().max(1));
        self.open_channels(depth)?;
        let zeros = vec![0; series.requests.len()];
        let shared = SharedSeries {
            series,
            clock: self.clock,
            start_ns: self.clock.now().as_ns(),
            length: series.requests.iter().map(|request| request.1).max().unwrap_or(0) as usize,
            is_stopped: self.is_stopped,
            next: AtomicUsize::new(0),
            run: Mutex::new(Run { latencies_ns: zeros.clone(), completed_ns: zeros }),
            failed: Mutex::new(None),
        };
        match &mut self.channels[..depth] {
            // A single request in flight runs in this thread, so that no thread switch adds to its latency.
            [only] => shared.work_off(&mut **only),
            channels => std::thread::scope(|scope| {
                for channel in channels {
                    scope.spawn(|| shared.work_off(&mut **channel));
                }
            }),
        }
        match shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(shared.run.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn idle(&self, time: flashlab_sim::Duration) -> Result<(), ProbeError> {
        let mut left = Duration::from_nanos(time.as_ns());
        while left > Duration::ZERO {
            self.check()?;
            std::thread::sleep(left.min(TICK));
            left = left.saturating_sub(TICK);
        }
        Ok(())
    }

    fn discard(&mut self, mut from: u64, to: u64) -> Result<Outcome, ProbeError> {
        if !self.target.discards() {
            return Ok(Outcome::Refused);
        }
        self.open_channels(1)?;
        while from < to {
            self.check()?;
            let length = DISCARD_MAX.min(to - from);
            match self.channels[0].discard(from, length) {
                Ok(()) => from += length,
                Err(error) if is_unsupported(&error) => return Ok(Outcome::Refused),
                Err(error) => return Err(ProbeError::Request { op: "discard", offset: from, error }),
            }
        }
        Ok(Outcome::Done)
    }

    /// Writes the marked blocks, makes them durable, and reads them back.
    fn mark(&mut self, offsets: &[u64]) -> Result<Outcome, ProbeError> {
        self.open_channels(1)?;
        let bytes = MARK_BYTES.max(u64::from(self.target.block())) as usize;
        let mut buffer = Buffer::new(bytes);
        for offset in offsets {
            self.check()?;
            fill_mark(*offset, buffer.bytes(bytes));
            let written = self.channels[0].write(*offset, buffer.bytes(bytes));
            written.map_err(|error| ProbeError::Request { op: "write", offset: *offset, error })?;
        }
        let flushed = self.channels[0].flush(false);
        flushed.map_err(|error| ProbeError::Request { op: "flush", offset: 0, error })?;
        let mut expected = vec![0; bytes];
        let mut found = Vec::with_capacity(offsets.len());
        for offset in offsets {
            self.check()?;
            fill_mark(*offset, &mut expected);
            // A counterfeit device may also fail to read lost data.
            let is_read = self.channels[0].read(*offset, buffer.bytes(bytes)).is_ok();
            found.push(is_read && *buffer.bytes(bytes) == *expected);
        }
        Ok(Outcome::Marks(found))
    }

    fn check(&self) -> Result<(), ProbeError> {
        if (self.is_stopped)() { Err(ProbeError::Stopped) } else { Ok(()) }
    }
}

/// Checks that a device stores as much as it claims, and returns the finding of its capacity. The check
/// writes marked blocks all over the device, and so destroys the data at these places.
///
/// # Errors
/// Returns an error if a write or the flush fails, if the target cannot be opened again, or if `is_stopped`
/// returns true.
pub fn find_capacity(
    target: &dyn Target,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Finding, ProbeError> {
    let mut target = ProbedTarget::new(target, is_stopped);
    let mut probe = Probe::of_capacity(probe::Target::geometry(&target));
    let findings = probe::drive(&mut probe, &mut target, |_, _| true)?;
    Ok(findings.into_iter().next().expect("a complete probe of the capacity has its finding"))
}

/// Fills a block with bytes that depend on its offset alone.
fn fill_mark(offset: u64, block: &mut [u8]) {
    let mut rng = Rng::for_purpose(0x6d61_726b, offset);
    for word in block.chunks_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
    }
}

/// A series that one or several threads execute. Each thread takes the next request in order when its
/// previous request is complete.
struct SharedSeries<'a> {
    series: &'a Series,
    clock: Clock,
    start_ns: u64,
    /// Length of the largest request.
    length: usize,
    is_stopped: &'a (dyn Fn() -> bool + Sync),
    next: AtomicUsize,
    run: Mutex<Run>,
    failed: Mutex<Option<ProbeError>>,
}

impl SharedSeries<'_> {
    fn work_off(&self, channel: &mut dyn Channel) {
        let mut buffer = Buffer::new(self.length);
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((offset, length)) = self.series.requests.get(number).copied() else { return };
            if (self.is_stopped)() {
                return self.fail(ProbeError::Stopped);
            }
            let bytes = buffer.bytes(length as usize);
            let issued = self.clock.now().as_ns();
            let (op, result) = match self.series.direction {
                Direction::Read => ("read", channel.read(offset, bytes)),
                Direction::Write => ("write", channel.write(offset, bytes)),
            };
            let completed = self.clock.now().as_ns();
            if let Err(error) = result {
                return self.fail(ProbeError::Request { op, offset, error });
            }
            let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
            run.latencies_ns[number] = completed - issued;
            run.completed_ns[number] = completed - self.start_ns;
        }
    }

    /// Keeps the first error, and ends the series.
    fn fail(&self, error: ProbeError) {
        self.next.store(self.series.requests.len(), Ordering::Relaxed);
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl probe::Target for ProbedTarget<'_> {
    type Error = ProbeError;

    fn geometry(&self) -> Geometry {
        Geometry {
            capacity: self.target.capacity(),
            block: u64::from(self.target.block()),
            request_max: REQUEST_MAX,
        }
    }

    fn carry_out(&mut self, action: &Action) -> Result<Outcome, ProbeError> {
        self.check()?;
        match action {
            Action::Run(series) => self.run(series).map(Outcome::Run),
            Action::Idle(time) => self.idle(*time).map(|()| Outcome::Done),
            Action::Discard(range) => self.discard(range.start, range.end),
            Action::Mark(offsets) => self.mark(offsets),
            Action::Done => Ok(Outcome::Done),
        }
    }
}
