//! Layers that change or record the requests to a block device and their results. Each layer is one file. A
//! model ([`crate::model`]) changes the timing.
//!
//! A layer over a device passes on the calls that it does not change. [`Overlay`] is the only layer below the timing:
//! it is a [`Store`](flashlab_sim::Store), so that a timed device can have an overlay, too.

mod error;
mod kind;
mod log;
mod overlay;
mod readonly;
mod stats;

pub use error::{Fault, FaultError, Faults};
pub use kind::{LayerError, LayerKind, Opened, Settings};
pub use log::Log;
pub use overlay::{Overlay, OverlayError};
pub use readonly::ReadOnly;
pub use stats::{Kind, Stats, Tally};

use crate::{Outcome, Started};

/// The layers that requests pass above the timing. A new layer is one file here and one line in this list.
pub const KINDS: &[LayerKind] = &[error::KIND, log::KIND, stats::KIND, readonly::KIND];

/// Calls `then` with the outcome, immediately or when the request completes.
fn when_done(started: Started, then: impl FnOnce(&Outcome) + Send + 'static) -> Started {
    match started {
        Started::Done(outcome) => {
            then(&outcome);
            Started::Done(outcome)
        }
        Started::Pending(future) => Started::Pending(Box::pin(async move {
            let outcome = future.await;
            then(&outcome);
            outcome
        })),
    }
}

/// The methods that a layer passes to `self.inner` unchanged.
macro_rules! forward {
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
use forward;
