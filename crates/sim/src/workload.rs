//! The seam that says what is asked next.

use crate::{Completion, FileId, Instant, Request};

/// A workload's answer to "what next?".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// A request at this instant (not before the `now` of the question).
    At(Instant),
    /// Nothing until something outstanding completes.
    Waiting,
    /// Nothing more. What is outstanding is still completed.
    Done,
}

/// Something that asks: fio jobs, traces, filesystem models.
pub trait Workload {
    /// When the next request comes. If a completion comes before it, the answer is dropped and the question repeated
    /// after [`Workload::completed`]; else the request is taken by [`Workload::submit`].
    fn next(&mut self, now: Instant) -> Arrival;
    /// The request that [`Workload::next`] told of last: it is submitted now.
    fn submit(&mut self, at: Instant) -> Request;
    /// Where the requests that will be asked soon begin, as far as that is known: for [`crate::Model::hint`], nothing else.
    /// Asked after each submission, and each is told once: many at a time, and then none for a while, is best.
    fn upcoming(&mut self) -> (FileId, &[u64]) {
        (FileId::DEVICE, &[])
    }
    /// A request has completed.
    fn completed(&mut self, completion: &Completion);
}
