//! The state before a step, as text in the `description` of its job. A file of fio's results
//! then contains everything that an import needs to recognise the steps and their initial states.

use crate::observation::State;
use flashlab_sim::Duration;
use serde_json::Value;
use std::fmt;

/// The description of a step's job: the name of the plan, and the state that the step starts from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// Name of the plan.
    pub plan: String,
    /// State of the accessed addresses.
    pub before: State,
    /// Idle time before the step.
    pub rest: Duration,
}

impl Description {
    /// Parses a description: `flashlab plan standard: discarded, rest 5000 ms`.
    pub fn parse(description: &str) -> Option<Description> {
        let (plan, rest) = description.strip_prefix("flashlab plan ")?.split_once(": ")?;
        let (before, rest) = rest.split_once(", rest ")?;
        let before = serde_json::from_value(Value::from(before)).ok()?;
        let milliseconds: u64 = rest.strip_suffix(" ms")?.parse().ok()?;
        let rest = Duration::from_ns(milliseconds.checked_mul(1_000_000)?);
        Some(Description { plan: plan.to_owned(), before, rest })
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = serde_json::to_value(self.before).map_err(|_| fmt::Error)?;
        let before = before.as_str().unwrap_or_default();
        write!(f, "flashlab plan {}: {before}, rest {} ms", self.plan, self.rest.as_ns() / 1_000_000)
    }
}

/// Returns true if a note is a description.
pub(crate) fn is_mark(note: &str) -> bool {
    Description::parse(note).is_some()
}

/// Returns the name of the plan, if a note is a description.
pub(crate) fn name_in(notes: &[String]) -> Option<String> {
    notes.iter().find_map(|note| Some(Description::parse(note)?.plan))
}
