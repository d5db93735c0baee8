//! The state before a step, as text in the `description` of its job. So a file of fio's results contains everything that
//! the steps need, and names of jobs map back to steps.

use crate::observation;
use flashlab_sim::Duration;

/// Name of a plan, and the state that a step of it starts from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Name of the plan.
    pub plan: String,
    /// State of the accessed addresses.
    pub before: observation::State,
    /// Rest before the step.
    pub rest: Duration,
}

const NAMES: [(&str, observation::State); 6] = [
    ("as-left", observation::State::AsLeft),
    ("unknown", observation::State::Unknown),
    ("new", observation::State::New),
    ("discarded", observation::State::Discarded),
    ("written-in-sequence", observation::State::WrittenInSequence),
    ("written-at-random", observation::State::WrittenAtRandom),
];

impl State {
    /// Parses a description: `flashlab plan standard: discarded, rest 5000 ms`.
    pub fn parse(description: &str) -> Option<State> {
        let (plan, rest) = description.strip_prefix("flashlab plan ")?.split_once(": ")?;
        let (before, rest) = rest.split_once(", rest ")?;
        let before = NAMES.iter().find(|(name, _)| *name == before)?.1;
        let milliseconds: u64 = rest.strip_suffix(" ms")?.parse().ok()?;
        let rest = Duration::from_ns(milliseconds.checked_mul(1_000_000)?);
        Some(State { plan: plan.to_owned(), before, rest })
    }

    /// Returns the description.
    pub fn description(&self) -> String {
        let name = NAMES.iter().find(|(_, state)| *state == self.before).map_or("unknown", |(name, _)| name);
        format!("flashlab plan {}: {name}, rest {} ms", self.plan, self.rest.as_ns() / 1_000_000)
    }
}

/// Returns true if a note is a description.
pub(crate) fn is_mark(note: &str) -> bool {
    State::parse(note).is_some()
}

/// Returns the name of the plan that the notes contain.
pub(crate) fn name_in(notes: &[String]) -> Option<String> {
    notes.iter().find_map(|note| Some(State::parse(note)?.plan))
}
