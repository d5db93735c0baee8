//! What changes *what*: layers on byte-carrying devices, one file each. What changes *when* is a model ([`crate::model`]).
//!
//! A layer over devices passes on what it does not change. [`Overlay`] is the one that lies below time: it is a store of
//! bytes, so that a timed device can have one, too.

mod error;
mod log;
mod overlay;
mod readonly;
mod stats;

pub use error::{Fault, FaultError, Faults};
pub use log::Log;
pub use overlay::{Overlay, OverlayError};
pub use readonly::ReadOnly;
pub use stats::{Kind, Stats, Tally};

use crate::{Outcome, Started};

/// Calls `then` with the outcome, now or when it is there.
fn when_done(started: Started, then: impl FnOnce(&Outcome) + Send + 'static) -> Started {
    match started {
        Started::Done(outcome) => {
            then(&outcome);
            Started::Done(outcome)
        }
        Started::Later(answering) => Started::Later(Box::pin(async move {
            let outcome = answering.await;
            then(&outcome);
            outcome
        })),
    }
}

/// The methods that a layer over `self.inner` does not change.
macro_rules! pass_on {
    () => {
        fn geometry(&self) -> $crate::Geometry {
            self.inner.geometry()
        }
        fn next_due(&self) -> Option<flashlab_sim::Instant> {
            self.inner.next_due()
        }
        fn advance(&self, now: flashlab_sim::Instant) {
            self.inner.advance(now);
        }
        fn power_losses(&self) -> u64 {
            self.inner.power_losses()
        }
    };
}
use pass_on;
