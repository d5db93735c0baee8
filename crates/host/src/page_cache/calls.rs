//! The calls of programs: the ones in progress, and the completions that the programs have not yet received.
//!
//! A call is absent from the calls in progress only during its step. Every call that waits for room is in progress.

use super::call::Call;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use flashlab_sim::{Completion, Instant};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct CallId(u64);

/// The calls of all programs.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    in_progress: BTreeMap<CallId, Call>,
    /// Number of the next call.
    next: u64,
    /// Calls that wait for room among the writes in flight.
    awaiting_room: Vec<CallId>,
    completed: VecDeque<Completion>,
}

impl Calls {
    /// Returns true if no call is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.in_progress.is_empty()
    }

    /// Adds a call, and returns its number.
    pub(super) fn begin(&mut self, call: Call) -> CallId {
        let id = CallId(self.next);
        self.next += 1;
        self.in_progress.insert(id, call);
        id
    }

    /// Takes a call for a step.
    pub(super) fn take(&mut self, id: CallId) -> Call {
        self.in_progress.remove(&id).expect("events name calls in progress")
    }

    /// Returns a call after a step, if it goes on.
    pub(super) fn put_back(&mut self, id: CallId, call: Call) {
        self.in_progress.insert(id, call);
    }

    /// Returns a call that waits.
    pub(super) fn waiting(&mut self, id: CallId) -> &mut Call {
        self.in_progress.get_mut(&id).expect("a waiting call is in progress")
    }

    /// Makes a call wait for room among the writes in flight.
    pub(super) fn await_room(&mut self, id: CallId) {
        self.awaiting_room.push(id);
    }

    /// Returns the calls that wait for room, which then no longer wait.
    pub(super) fn take_awaiting_room(&mut self) -> Vec<CallId> {
        core::mem::take(&mut self.awaiting_room)
    }

    /// Adds the completion of a call.
    pub(super) fn complete(&mut self, completion: Completion) {
        self.completed.push_back(completion);
    }

    /// Returns the instant of the oldest completion that its program has not received.
    pub(super) fn next_completion(&self) -> Option<Instant> {
        self.completed.front().map(|done| done.at)
    }

    /// Takes the oldest completion that its program has not received.
    pub(super) fn take_completed(&mut self) -> Option<Completion> {
        self.completed.pop_front()
    }
}
