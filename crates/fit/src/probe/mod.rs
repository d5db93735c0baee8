//! The probe: finds the structure of a device from the latencies of micro-patterns.
//!
//! A [`Probe`] is a state machine without a clock. [`Probe::next_action`] returns the next action, which
//! follows from the observations so far; [`Probe::observe`] accepts its outcome. Most patterns first bring
//! the device into a known state (discard, a sequential fill, an idle period), then vary one quantity,
//! usually from coarse to fine. `docs/probe.md` describes each pattern with its rule.
//!
//! A finding never guesses: a property that the device does not show has the value "none up to X" or "no
//! effect", and an answer that [`statistics::Contrast`] does not support has no confidence. The method
//! follows uFLIP (Bouganim, Jónsson, Bonnet, CIDR 2009) and flashbench (Bergmann); the code is independent of
//! both.
//!
//! The probe does not separate the device from its host: times contain the host's software. The `noise` module limits the
//! confidence of findings that the delays of a busy host could feign.

mod finding;
mod machine;
mod noise;
mod patterns;
pub mod statistics;

pub use finding::{Confidence, Evidence, Finding, Findings, Line, Name, Value};
pub use machine::{Probe, Run};

use flashlab_sim::{Duration, Geometry};
use std::ops::Range;

/// Bytes of a marked block of [`Action::Mark`], unless the logical block is larger.
pub const MARK_BYTES: u64 = 4 << 10;

/// Permissions of the probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Permits writes and discards anywhere on the device. All data is lost.
    pub destroy: bool,
    /// Permits patterns that write the whole device several times: over-provisioning.
    pub whole_device: bool,
}

/// Direction of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// A series of requests in a closed loop: `depth` requests are in flight, and the next one in order is submitted when
/// one of them completes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// Direction of all requests.
    pub direction: Direction,
    /// Offset and length in bytes of each request, in order.
    pub requests: Vec<(u64, u64)>,
    /// Queue depth.
    pub depth: u32,
}

/// The next step of a probe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Runs a series of requests. The outcome is [`Outcome::Run`].
    Run(Series),
    /// Sends no request for this time. The outcome is [`Outcome::Done`].
    Idle(Duration),
    /// Discards a range. The outcome is [`Outcome::Done`], or [`Outcome::Refused`] if the device has no discard.
    Discard(Range<u64>),
    /// Writes a block of [`MARK_BYTES`], or a larger logical block, at each offset in order, with a content
    /// that depends on the offset and on nothing else; then reads all blocks from the medium, bypassing any
    /// cache. The outcome is [`Outcome::Marks`].
    Mark(Vec<u64>),
    /// The probe is complete. No outcome follows.
    Done,
}

impl Action {
    /// Returns the bytes that the action writes.
    pub fn written_bytes(&self, geometry: &Geometry) -> u64 {
        match self {
            Action::Run(series) if series.direction == Direction::Write => {
                series.requests.iter().map(|request| request.1).sum()
            }
            Action::Mark(offsets) => offsets.len() as u64 * MARK_BYTES.max(geometry.block),
            _ => 0,
        }
    }
}

/// The outcome of an action.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Latencies of a series.
    Run(Run),
    /// For each marked block, true if it was read back unchanged.
    Marks(Vec<bool>),
    /// An idle period or a discard is complete.
    Done,
    /// The device or the target has no such operation.
    Refused,
}

/// A device under the probe: a virtual one in simulated time, or a real one.
pub trait Target {
    /// The error that ends a probe.
    type Error;
    /// Returns the capacity, the logical block and the largest request that reaches the device unsplit.
    fn geometry(&self) -> Geometry;
    /// Carries out an action that is not [`Action::Done`].
    ///
    /// # Errors
    /// Returns an error if the device failed, so that the probe cannot continue.
    fn carry_out(&mut self, action: &Action) -> Result<Outcome, Self::Error>;
}

/// Runs a probe on a target until it is complete. `report` is called before each action, and stops the probe if it
/// returns false. Returns the findings so far in both cases.
///
/// # Errors
/// Returns the target's error.
pub fn drive<T: Target>(
    probe: &mut Probe,
    target: &mut T,
    mut report: impl FnMut(&Probe, &Action) -> bool,
) -> Result<Vec<Finding>, T::Error> {
    loop {
        let action = probe.next_action();
        if action == Action::Done || !report(probe, &action) {
            return Ok(probe.findings());
        }
        let outcome = target.carry_out(&action)?;
        probe.observe(outcome);
    }
}
