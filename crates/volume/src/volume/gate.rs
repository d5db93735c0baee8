//! The gate of a volume: requests pass it concurrently, and a change of the configuration passes alone.
//!
//! A request sees one configuration from its start to its end. A change waits until all requests in flight have ended,
//! while further requests wait in front of the gate.

use super::Inner;
use crate::member::Member;
use flashlab_sim::fault;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The gate, with the current configuration.
pub(super) struct Gate {
    state: Mutex<State>,
}

struct State {
    current: Arc<Inner>,
    /// True while a change passes, or waits for the requests in flight.
    is_closed: bool,
    /// Number of requests in flight.
    inside: usize,
    /// Requests and changes that wait.
    waiting: Vec<Waker>,
    /// Power losses of former members, minus the power losses of members before they joined (modulo 2^64).
    former_losses: u64,
}

/// A request that passed the gate, with its configuration.
pub(super) struct Passed {
    gate: Arc<Gate>,
    inner: Arc<Inner>,
}

/// A closed gate. It opens when the value is dropped.
pub(super) struct Closed {
    gate: Arc<Gate>,
    inner: Arc<Inner>,
}

impl Gate {
    pub(super) fn new(inner: Inner) -> Gate {
        let current = Arc::new(inner);
        Gate {
            state: Mutex::new(State {
                current,
                is_closed: false,
                inside: 0,
                waiting: Vec::new(),
                former_losses: 0,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current configuration. It may change at any time.
    pub(super) fn current(&self) -> Arc<Inner> {
        self.lock().current.clone()
    }

    /// Returns the number of power losses of all members. A member that joins or leaves does not change the
    /// number.
    pub(super) fn power_losses(&self) -> u64 {
        let state = self.lock();
        let losses = state.current.members.iter().map(|member| member.device.power_losses());
        losses.fold(state.former_losses, u64::wrapping_add)
    }

    /// Waits while the gate is closed, and passes it.
    pub(super) async fn pass(self: &Arc<Gate>) -> Passed {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.is_closed {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            state.inside += 1;
            Poll::Ready(Passed { gate: self.clone(), inner: state.current.clone() })
        })
        .await
    }

    /// Closes the gate, and waits for the requests in flight.
    pub(super) async fn close(self: &Arc<Gate>) -> Closed {
        let closed = poll_fn(|cx| {
            let mut state = self.lock();
            if state.is_closed {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            state.is_closed = true;
            Poll::Ready(Closed { gate: self.clone(), inner: state.current.clone() })
        })
        .await;
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.inside == 0 || fault("volume-changes-beside-requests") {
                return Poll::Ready(());
            }
            state.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        closed
    }
}

/// Returns the number of power losses of the devices of `members` that are not devices of `others`.
fn losses_without(members: &[Member], others: &[Member]) -> u64 {
    let is_other = |member: &&Member| !others.iter().any(|other| Arc::ptr_eq(&other.device, &member.device));
    members.iter().filter(is_other).map(|member| member.device.power_losses()).sum()
}

impl Closed {
    /// Replaces the configuration.
    pub(super) fn replace(&mut self, inner: Inner) {
        let before = std::mem::replace(&mut self.inner, Arc::new(inner));
        let left = losses_without(&before.members, &self.inner.members);
        let joined = losses_without(&self.inner.members, &before.members);
        let mut state = self.gate.lock();
        state.former_losses = state.former_losses.wrapping_add(left).wrapping_sub(joined);
        state.current = self.inner.clone();
    }
}

impl Deref for Closed {
    type Target = Arc<Inner>;
    fn deref(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.gate.lock();
            state.is_closed = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Deref for Passed {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.gate.lock();
            state.inside -= 1;
            let is_last = state.inside == 0 && state.is_closed;
            if is_last { std::mem::take(&mut state.waiting) } else { Vec::new() }
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
