//! Virtual devices under the [probe](flashlab_fit::probe): each action of the probe is carried out in simulated time.

use crate::progress::Progress;
use flashlab_catalogue::device::Device;
use flashlab_fit::probe::{
    Action, Direction, Findings, MARK_BYTES, Options, Outcome, Probe, Run, Series, Target, drive,
};
use flashlab_sim::{Duration, FileId, Geometry, Instant, Model, Op, Request, RequestId, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Number of findings that a probe with all permissions makes, for the progress.
const FINDINGS: u64 = 17;

/// Probes a new device with the medium of `seed`. Stops early with the findings so far if `progress` is stopped.
///
/// # Errors
/// Returns an error if the device fails a request.
pub fn probe(
    device: &Device,
    options: Options,
    seed: u64,
    progress: &Progress,
) -> Result<Findings, ProbeError> {
    let mut target = VirtualTarget::new(device.build(seed));
    let geometry = target.geometry();
    let mut probe = Probe::new(geometry, options, seed);
    progress.plan(FINDINGS);
    let findings = drive(&mut probe, &mut target, |probe, _| {
        progress.reach(probe.findings().len() as u64);
        !progress.is_stopped()
    })?;
    Ok(Findings {
        target: device.argument.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        capacity: geometry.capacity,
        block: geometry.block,
        written_bytes: probe.written_bytes(),
        destroy: options.destroy,
        findings,
    })
}

/// A fault of a counterfeit device, which claims more capacity than it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counterfeit {
    /// Addresses beyond this capacity alias the addresses from zero on.
    Wraps(u64),
    /// Writes beyond this capacity are lost.
    Drops(u64),
}

/// A model that executes the actions of a probe.
pub struct VirtualTarget {
    model: Box<dyn Model>,
    now: Instant,
    counterfeit: Option<Counterfeit>,
}

/// The reason why a virtual device cannot be probed further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProbeError {
    /// The device answered a request with an error.
    Failed {
        /// Operation.
        op: Op,
        /// Offset of the request in bytes.
        offset: u64,
        /// Outcome.
        status: Status,
    },
    /// The device stopped answering with requests in flight.
    Stalled,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::Failed { op, offset, status } => {
                write!(f, "the device failed a request ({op:?} at byte {offset}: {status:?})")
            }
            ProbeError::Stalled => f.write_str("the device stopped answering"),
        }
    }
}

impl std::error::Error for ProbeError {}

impl VirtualTarget {
    /// Creates a target from a model at the start of its time.
    pub fn new(model: Box<dyn Model>) -> VirtualTarget {
        VirtualTarget { model, now: Instant::ZERO, counterfeit: None }
    }

    /// Makes the device a counterfeit.
    pub fn counterfeit(mut self, counterfeit: Counterfeit) -> VirtualTarget {
        self.counterfeit = Some(counterfeit);
        self
    }

    /// Returns the model.
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// Returns the simulated time that has passed.
    pub fn elapsed(&self) -> Duration {
        self.now.since(Instant::ZERO)
    }

    fn run(&mut self, op: Op, requests: &[(u64, u64)], depth: u32) -> Result<Run, ProbeError> {
        let start = self.now;
        let mut run = Run { latencies_ns: vec![0; requests.len()], completed_ns: vec![0; requests.len()] };
        let mut in_flight: BTreeSet<u64> = BTreeSet::new();
        let mut submitted = vec![start; requests.len()];
        let mut next = 0;
        while next < requests.len() || !in_flight.is_empty() {
            while next < requests.len() && in_flight.len() < depth.max(1) as usize {
                let (offset, length) = requests[next];
                let id = RequestId(next as u64);
                submitted[next] = self.now;
                in_flight.insert(id.0);
                self.model.submit(self.now, Request { id, op, file: FileId::DEVICE, offset, length });
                next += 1;
            }
            let due = self.model.next_due().ok_or(ProbeError::Stalled)?;
            let Some(done) = self.model.complete(due) else { continue };
            if done.status != Status::Ok {
                let offset = requests.get(done.id.0 as usize).map_or(0, |request| request.0);
                return Err(ProbeError::Failed { op, offset, status: done.status });
            }
            self.now = done.at;
            let index = done.id.0 as usize;
            in_flight.remove(&done.id.0);
            run.latencies_ns[index] = done.at.since(submitted[index]).as_ns();
            run.completed_ns[index] = done.at.since(start).as_ns();
        }
        Ok(run)
    }

    /// Writes and reads the marked blocks. The model takes the time; a map takes the content.
    fn mark(&mut self, offsets: &[u64]) -> Result<Vec<bool>, ProbeError> {
        let bytes = MARK_BYTES.max(self.model.geometry().block);
        let requests: Vec<(u64, u64)> = offsets.iter().map(|offset| (*offset, bytes)).collect();
        self.run(Op::Write, &requests, 1)?;
        let mut content: BTreeMap<u64, u64> = BTreeMap::new();
        let place = |offset: u64| match self.counterfeit {
            Some(Counterfeit::Wraps(real)) => Some(offset % real),
            Some(Counterfeit::Drops(real)) => (offset < real).then_some(offset),
            None => Some(offset),
        };
        for offset in offsets {
            if let Some(place) = place(*offset) {
                content.insert(place, *offset);
            }
        }
        let found = |offset: &u64| place(*offset).and_then(|place| content.get(&place)) == Some(offset);
        let found = offsets.iter().map(found).collect();
        self.run(Op::Read, &requests, 1)?;
        Ok(found)
    }
}

impl Target for VirtualTarget {
    type Error = ProbeError;

    fn geometry(&self) -> Geometry {
        self.model.geometry()
    }

    fn carry_out(&mut self, action: &Action) -> Result<Outcome, ProbeError> {
        match action {
            Action::Run(Series { direction, requests, depth }) => {
                let op = match direction {
                    Direction::Read => Op::Read,
                    Direction::Write => Op::Write,
                };
                self.run(op, requests, *depth).map(Outcome::Run)
            }
            Action::Idle(time) => {
                self.now = self.now.saturating_add(*time);
                Ok(Outcome::Done)
            }
            Action::Discard(range) => {
                let length = range.end - range.start;
                match self.run(Op::Trim, &[(range.start, length)], 1) {
                    Ok(_) => Ok(Outcome::Done),
                    Err(ProbeError::Failed { status: Status::Unsupported, .. }) => Ok(Outcome::Refused),
                    Err(error) => Err(error),
                }
            }
            Action::Mark(offsets) => self.mark(offsets).map(Outcome::Marks),
            Action::Done => Ok(Outcome::Done),
        }
    }
}
