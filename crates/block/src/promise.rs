//! The answer of a request that completes later: a future, and the method that resolves it.

use crate::Outcome;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Future of the answer of a request. Clones share the same state.
#[derive(Clone, Default)]
pub(crate) struct Promise(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl Promise {
    /// Resolves the future with the outcome of the request.
    pub(crate) fn resolve(&self, outcome: Outcome) {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        // The woken task may poll at once, so the lock is released first.
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns the answer if it has arrived and was not taken.
    pub(crate) fn take(&self) -> Option<Outcome> {
        self.lock().outcome.take()
    }

    /// Locks the state. No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Promise {
    type Output = Outcome;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
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
