//! The probe as a state machine: patterns are written as async functions, and the machine polls them without an
//! executor. A pattern that awaits an action suspends until the caller has observed the outcome.

use super::finding::{Evidence, Finding, Line, Name, Value};
use super::noise::{self, Control, Effect, Noise};
use super::{Action, Confidence, Direction, Options, Outcome, Series};
use flashlab_sim::{Duration, Geometry, Rng};
use std::cell::RefCell;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// State that the patterns and the machine share.
#[derive(Debug)]
struct Shared {
    action: Option<Action>,
    outcome: Option<Outcome>,
    written: u64,
    findings: Vec<Finding>,
    /// Findings of the current pattern, with the effects behind them.
    open: Vec<(Finding, Effect)>,
    /// Control measurements so far.
    controls: Vec<Control>,
    /// Bytes that were written before the last control measurement.
    written_at_control: u64,
    rng: Rng,
}

/// A probe of one device. The caller alternates [`Probe::next_action`] and [`Probe::observe`] until the action is
/// [`Action::Done`].
pub struct Probe {
    patterns: Pin<Box<dyn Future<Output = ()>>>,
    shared: Rc<RefCell<Shared>>,
    pending: Option<Action>,
    geometry: Geometry,
}

impl Probe {
    /// Creates a probe of a device of this geometry. `seed` selects the random offsets.
    pub fn new(geometry: Geometry, options: Options, seed: u64) -> Probe {
        Probe::with(geometry, options, seed, |bench| Box::pin(super::patterns::all(bench)))
    }

    /// Creates a probe that only checks the capacity: it writes a few marked blocks all over the device.
    pub fn of_capacity(geometry: Geometry) -> Probe {
        let options = Options { destroy: true, whole_device: false };
        Probe::with(geometry, options, 1, |bench| Box::pin(super::patterns::only_capacity(bench)))
    }

    fn with(
        geometry: Geometry,
        options: Options,
        seed: u64,
        patterns: impl FnOnce(Bench) -> Pin<Box<dyn Future<Output = ()>>>,
    ) -> Probe {
        let shared = Rc::new(RefCell::new(Shared {
            action: None,
            outcome: None,
            written: 0,
            findings: Vec::new(),
            open: Vec::new(),
            controls: Vec::new(),
            written_at_control: 0,
            rng: Rng::new(seed),
        }));
        let bench = Bench { shared: Rc::clone(&shared), geometry, options };
        Probe { patterns: patterns(bench), shared, pending: None, geometry }
    }

    /// Returns the next action. Returns the same action again until its outcome has been observed.
    pub fn next_action(&mut self) -> Action {
        if let Some(action) = &self.pending {
            return action.clone();
        }
        let done = self.patterns.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let action = if done {
            self.patterns = Box::pin(std::future::pending());
            Action::Done
        } else {
            self.shared.borrow_mut().action.take().unwrap_or(Action::Done)
        };
        self.pending = Some(action.clone());
        action
    }

    /// Accepts the outcome of the action that [`Probe::next_action`] returned last.
    ///
    /// # Panics
    /// Panics if no action was requested, or if the outcome is of another kind or has another number of
    /// requests than the action.
    pub fn observe(&mut self, outcome: Outcome) {
        let action = self.pending.take().expect("an outcome follows an action");
        match (&action, &outcome) {
            (Action::Run(series), Outcome::Run(run)) => {
                assert_eq!(series.requests.len(), run.latencies_ns.len(), "a latency for each request");
                assert_eq!(series.requests.len(), run.completed_ns.len(), "an instant for each request");
            }
            (Action::Mark(offsets), Outcome::Marks(found)) => assert_eq!(offsets.len(), found.len()),
            (Action::Idle(_) | Action::Discard(_), Outcome::Done) | (_, Outcome::Refused) => {}
            (action, outcome) => panic!("{outcome:?} is no outcome of {action:?}"),
        }
        let mut shared = self.shared.borrow_mut();
        shared.written += match outcome {
            Outcome::Refused => 0,
            _ => action.written_bytes(&self.geometry),
        };
        shared.outcome = Some(outcome);
    }

    /// Returns the findings so far, in the order in which they were made.
    pub fn findings(&self) -> Vec<Finding> {
        self.shared.borrow().findings.clone()
    }

    /// Returns the bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.shared.borrow().written
    }
}

/// The interface through which the patterns access the device.
#[derive(Clone)]
pub(super) struct Bench {
    shared: Rc<RefCell<Shared>>,
    pub(super) geometry: Geometry,
    pub(super) options: Options,
}

/// Latencies and completion times of a series.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// Latency of each request in nanoseconds, in the order of the requests.
    pub latencies_ns: Vec<u64>,
    /// Completion of each request in nanoseconds since the start of the series, in the order of the requests.
    pub completed_ns: Vec<u64>,
}

impl Run {
    /// Returns the latencies as floating-point numbers from the request `from` on.
    pub(super) fn after(&self, from: usize) -> Vec<f64> {
        self.latencies_ns.iter().skip(from).map(|ns| *ns as f64).collect()
    }
}

impl Bench {
    /// Runs a series. Returns `None` if the device refuses it.
    pub(super) async fn run(&self, series: Series) -> Option<Run> {
        match self.act(Action::Run(series)).await {
            Outcome::Run(run) => Some(run),
            _ => None,
        }
    }

    pub(super) async fn idle(&self, time: Duration) {
        self.act(Action::Idle(time)).await;
    }

    /// Discards a range. Returns false if the device has no discard.
    pub(super) async fn discard(&self, range: Range<u64>) -> bool {
        self.act(Action::Discard(range)).await == Outcome::Done
    }

    /// Writes marked blocks, then reads them back in the same order. Returns, for each block, true if it had its own
    /// mark; `None` if the target refuses.
    pub(super) async fn mark(&self, offsets: Vec<u64>) -> Option<Vec<bool>> {
        match self.act(Action::Mark(offsets)).await {
            Outcome::Marks(found) => Some(found),
            _ => None,
        }
    }

    fn act(&self, action: Action) -> impl Future<Output = Outcome> + use<> {
        self.shared.borrow_mut().action = Some(action);
        let shared = Rc::clone(&self.shared);
        std::future::poll_fn(move |_| match shared.borrow_mut().outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        })
    }

    /// Returns a random number below `limit`.
    pub(super) fn below(&self, limit: u64) -> u64 {
        self.shared.borrow_mut().rng.below(limit.max(1))
    }

    /// Returns the bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.shared.borrow().written
    }

    /// Measures the delays of the host by repeating one read. If the device's buffers may hold data, the device first
    /// rests.
    pub(super) async fn control(&self) {
        const READ: u64 = 4 << 10;
        let written = self.written();
        let rests = written > self.shared.borrow().written_at_control;
        if rests {
            self.idle(super::patterns::DRAIN).await;
        }
        let length = READ.max(self.geometry.block).min(self.geometry.capacity);
        let place = (self.geometry.capacity - length) / length * length;
        let requests = vec![(place, length); noise::WARM + noise::READS];
        let run = self.run(Series { direction: Direction::Read, requests, depth: 1 }).await;
        let mut shared = self.shared.borrow_mut();
        shared.controls.extend(run.map(|run| Control::of(&run.after(noise::WARM))));
        shared.written_at_control = written;
    }

    /// Completes the findings of a pattern: measures the delays of the host again, and limits the confidence
    /// of the findings that these delays could feign.
    pub(super) async fn complete(&self) {
        self.control().await;
        let mut shared = self.shared.borrow_mut();
        // All controls so far count, because an intermittent load may pause during the two controls around a
        // pattern that writes.
        let noise = Noise::of(shared.controls.clone());
        for (mut finding, effect) in std::mem::take(&mut shared.open) {
            let limit = noise.limit(effect);
            let is_measured = finding.value != Value::NotMeasured && effect != Effect::Untimed;
            let is_doubtful = finding.confidence > limit || finding.confidence == Confidence::None;
            if let Some(remark) = noise.remark().filter(|_| is_measured && is_doubtful) {
                finding.reason = format!("{}; {remark}", finding.reason);
            }
            finding.confidence = finding.confidence.min(limit);
            shared.findings.push(finding);
        }
    }

    /// Adds a finding of the current pattern. Its cost is the number of bytes written since `before`.
    pub(super) fn find(&self, name: Name, before: u64, verdict: Verdict) {
        let Verdict { value, confidence, reason, evidence, effect } = verdict;
        let mut shared = self.shared.borrow_mut();
        let written_bytes = shared.written - before;
        shared.open.push((Finding { name, value, confidence, reason, evidence, written_bytes }, effect));
    }

    /// Adds a finding that was not measured.
    pub(super) fn skip(&self, name: Name, reason: &str) {
        let verdict = Verdict::none(Value::NotMeasured, reason);
        self.find(name, self.written(), verdict);
    }
}

/// The conclusion of a pattern.
#[derive(Debug)]
pub(super) struct Verdict {
    value: Value,
    confidence: Confidence,
    reason: String,
    evidence: Evidence,
    effect: Effect,
}

impl Verdict {
    pub(super) fn new(value: Value, confidence: Confidence, reason: impl Into<String>) -> Verdict {
        let reason = reason.into();
        Verdict { value, confidence, reason, evidence: Evidence::default(), effect: Effect::Untimed }
    }

    /// Returns a conclusion without an answer.
    pub(super) fn none(value: Value, reason: impl Into<String>) -> Verdict {
        Verdict::new(value, Confidence::None, reason)
    }

    /// Adds the effect behind the conclusion.
    pub(super) fn effect(mut self, effect: Effect) -> Verdict {
        self.effect = effect;
        self
    }

    /// Adds the axes of the evidence.
    pub(super) fn axes(mut self, x: &str, y: &str) -> Verdict {
        self.evidence.x = x.to_owned();
        self.evidence.y = y.to_owned();
        self
    }

    /// Adds a line to the evidence.
    pub(super) fn line(mut self, name: &str, points: Vec<(f64, f64)>) -> Verdict {
        if !points.is_empty() {
            self.evidence.lines.push(Line { name: name.to_owned(), points });
        }
        self
    }
}
