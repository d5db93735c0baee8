//! The signal that ends a server.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tokio::sync::watch;

/// A signal that ends a server, from any thread. Clones share it.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// Returns a signal that is not thrown.
    pub fn new() -> Stop {
        Stop(watch::Sender::new(false))
    }

    /// Ends the servers that wait for this signal.
    pub fn throw(&self) {
        self.0.send_replace(true);
    }

    /// Returns true once the signal is thrown.
    pub fn is_thrown(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns the output of `future`, or `None` if the signal is thrown first.
    pub(crate) async fn unless_thrown<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut receiver = self.0.subscribe();
        let mut thrown = pin!(receiver.wait_for(|thrown| *thrown));
        let mut future = pin!(future);
        poll_fn(|context| match thrown.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => future.as_mut().poll(context).map(Some),
        })
        .await
    }
}

impl Default for Stop {
    fn default() -> Self {
        Stop::new()
    }
}
