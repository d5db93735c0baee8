//! The seam that says what is asked next.

use crate::{Completion, Instant, Request};

/// A workload's answer to "what next?".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// This request, at this instant (not before the `now` of the question).
    At(Instant, Request),
    /// Nothing until something outstanding completes.
    Waiting,
    /// Nothing more. What is outstanding is still completed.
    Done,
}

/// Something that asks: fio jobs, traces, filesystem models.
pub trait Workload {
    /// The next request. Each answer `At` is submitted, and is not asked for again, unless a completion comes before
    /// it: then the answer is dropped and the question repeated after [`Workload::completed`].
    fn next(&mut self, now: Instant) -> Arrival;
    /// The request that [`Workload::next`] answered last is being submitted now.
    fn submitted(&mut self, at: Instant, request: &Request);
    /// A request that will be asked soon, where that is known: for [`crate::Model::hint`], nothing else. The name is of no
    /// meaning.
    fn upcoming(&self) -> Option<Request> {
        None
    }
    /// A request has completed.
    fn completed(&mut self, completion: &Completion);
}
