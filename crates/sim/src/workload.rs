//! The [`Workload`] trait: the source of requests.

use crate::{Completion, FileId, Instant, Request};

/// Answer of [`Workload::next`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The next request arrives at this instant, which is not before `now`.
    At(Instant),
    /// No request arrives until a request in flight completes.
    Waiting,
    /// No more requests arrive. Requests in flight still complete.
    Done,
}

/// A source of requests: a fio job, a trace or a filesystem model.
pub trait Workload {
    /// Returns the arrival of the next request. If a completion comes first, the caller drops the answer and asks again
    /// after [`Workload::completed`]. Otherwise the caller takes the request with [`Workload::submit`].
    fn next(&mut self, now: Instant) -> Arrival;
    /// Returns the request that the last call of [`Workload::next`] announced. The caller submits it at `at`.
    fn submit(&mut self, at: Instant) -> Request;
    /// Returns offsets of upcoming requests for [`crate::Model::hint`]; results never depend on them.
    ///
    /// The event loop calls this function after each submission. Each offset is returned once. It is fastest
    /// to return many offsets in one call, and none in the calls that follow.
    fn upcoming(&mut self) -> (FileId, &[u64]) {
        (FileId::DEVICE, &[])
    }
    /// Handles a completion.
    fn completed(&mut self, completion: &Completion);
}
