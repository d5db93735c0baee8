//! A result that arrives later: a future, and the method that resolves it.

use crate::{IoError, Outcome};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Future of a result, such as the answer of a request. Clones share the same state.
pub struct Promise<T = Outcome>(Arc<Mutex<State<T>>>);

struct State<T> {
    outcome: Option<T>,
    /// True once the promise has been resolved, even after the outcome has been taken.
    resolved: bool,
    waker: Option<Waker>,
}

impl<T> Default for Promise<T> {
    fn default() -> Promise<T> {
        Promise(Arc::new(Mutex::new(State { outcome: None, resolved: false, waker: None })))
    }
}

impl<T> Clone for Promise<T> {
    fn clone(&self) -> Promise<T> {
        Promise(self.0.clone())
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("resolved", &self.lock().resolved).finish_non_exhaustive()
    }
}

impl<T> Promise<T> {
    /// Resolves the future.
    pub fn resolve(&self, outcome: T) {
        let mut state = self.lock();
        (state.outcome, state.resolved) = (Some(outcome), true);
        let waker = state.waker.take();
        // The woken task may poll at once, so the lock is released first.
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns the result if it has arrived and has not been taken.
    pub(crate) fn take(&self) -> Option<T> {
        self.lock().outcome.take()
    }

    /// Locks the state. No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side of a promise that answers a request. Without an answer, for example after a panic, the request fails when
/// this side is dropped, so that no caller waits forever.
#[derive(Default)]
pub(crate) struct Answerer(Promise);

impl Answerer {
    /// Returns the future of the answer.
    pub(crate) fn promise(&self) -> Promise {
        self.0.clone()
    }

    /// Answers the request.
    pub(crate) fn answer(self, outcome: Outcome) {
        self.0.resolve(outcome);
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        if !self.0.lock().resolved {
            self.0.resolve(Err(IoError::Medium));
        }
    }
}

impl<T> Future for Promise<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.lock();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
