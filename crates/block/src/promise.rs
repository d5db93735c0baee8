//! The answer of a request that is done later: one side keeps it, the other waits for it.

use crate::Outcome;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Where the answer of a request will be; clones are the same place.
#[derive(Clone, Default)]
pub(crate) struct Promise(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl Promise {
    /// The request is done.
    pub(crate) fn keep(&self, outcome: Outcome) {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        // Whoever is woken may look at once.
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The answer, if it is there and was not taken.
    pub(crate) fn take(&self) -> Option<Outcome> {
        self.lock().outcome.take()
    }

    /// Nothing panics while it holds this.
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
