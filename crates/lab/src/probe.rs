//! The [probe](flashlab_fit::probe) on virtual devices: its actions run in simulated time.

use crate::progress::Progress;
use flashlab_catalogue::device::Device;
use flashlab_fit::probe::{
    Action, Direction, Findings, MARK_BYTES, Name, Options, Outcome, Probe, Run, Series, Target, drive,
};
use flashlab_sim::{
    Arrival, Completion, Duration, FileId, Geometry, Instant, Model, Op, Request, RequestId, Status, Workload,
};
use std::collections::BTreeMap;
use std::fmt;

/// Probes a new device with the medium of `seed`, or a device in the state that its argument names. Stops
/// early with the findings so far if `progress` is stopped.
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
    progress.plan(Name::ALL.len() as u64);
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

/// A virtual device answered a request with an error, so that it cannot be probed further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeError {
    /// Operation of the request.
    pub op: Op,
    /// Offset of the request in bytes.
    pub offset: u64,
    /// Status of the completion.
    pub status: Status,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProbeError { op, offset, status } = self;
        write!(f, "the device failed a request ({op:?} at byte {offset}: {status:?})")
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
        let mut series = ClosedLoop::new(op, requests, depth, self.now);
        self.now = flashlab_sim::run(&mut *self.model, &mut series, self.now);
        match series.failed {
            Some(error) => Err(error),
            None => Ok(series.run),
        }
    }

    /// Writes and reads the marked blocks. The model determines the time, and a map holds the content.
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

/// A series of requests as a workload: a new request follows each completion, so that `depth` requests are in flight.
/// The series ends at the first request that fails.
struct ClosedLoop<'a> {
    op: Op,
    requests: &'a [(u64, u64)],
    depth: usize,
    start: Instant,
    submitted: Vec<Instant>,
    in_flight: usize,
    run: Run,
    failed: Option<ProbeError>,
}

impl<'a> ClosedLoop<'a> {
    fn new(op: Op, requests: &'a [(u64, u64)], depth: u32, start: Instant) -> Self {
        let zeros = vec![0; requests.len()];
        ClosedLoop {
            op,
            requests,
            depth: depth.max(1) as usize,
            start,
            submitted: Vec::with_capacity(requests.len()),
            in_flight: 0,
            run: Run { latencies_ns: zeros.clone(), completed_ns: zeros },
            failed: None,
        }
    }
}

impl Workload for ClosedLoop<'_> {
    fn next(&mut self, now: Instant) -> Arrival {
        match self.submitted.len() == self.requests.len() || self.failed.is_some() {
            true => Arrival::Done,
            false if self.in_flight == self.depth => Arrival::Waiting,
            false => Arrival::At(now),
        }
    }

    fn submit(&mut self, at: Instant) -> Request {
        let number = self.submitted.len();
        let (offset, length) = self.requests[number];
        self.submitted.push(at);
        self.in_flight += 1;
        Request { id: RequestId(number as u64), op: self.op, file: FileId::DEVICE, offset, length }
    }

    fn completed(&mut self, completion: &Completion) {
        let number = completion.id.0 as usize;
        self.in_flight -= 1;
        self.run.latencies_ns[number] = completion.at.since(self.submitted[number]).as_ns();
        self.run.completed_ns[number] = completion.at.since(self.start).as_ns();
        if completion.status != Status::Ok && self.failed.is_none() {
            let (offset, status) = (self.requests[number].0, completion.status);
            self.failed = Some(ProbeError { op: self.op, offset, status });
        }
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
                    Err(ProbeError { status: Status::Unsupported, .. }) => Ok(Outcome::Refused),
                    Err(error) => Err(error),
                }
            }
            Action::Mark(offsets) => self.mark(offsets).map(Outcome::Marks),
            Action::Done => Ok(Outcome::Done),
        }
    }
}
