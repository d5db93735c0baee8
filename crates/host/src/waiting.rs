//! The requests that wait for a device, and the merging of neighbours, as in Linux's block layer.
//!
//! A request that arrives while the device is busy waits. If its range is adjacent to that of another waiting
//! request, both become one command, unless the command would be too large. The driver has already taken the
//! first waiting requests to prepare them, so these requests do not grow.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use flashlab_sim::{Duration, Instant, Op, Request, RequestId};

/// A request that waits, possibly merged from several.
#[derive(Clone, Debug)]
pub(crate) struct WaitingRequest {
    /// Arrival of the first of the merged requests.
    pub(crate) arrived: Instant,
    /// The range of all merged requests, with the identifier of the first.
    pub(crate) request: Request,
    /// The other merged requests, in order of arrival.
    pub(crate) merged: Vec<MergedRequest>,
}

/// A request that was merged into an earlier one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergedRequest {
    pub(crate) id: RequestId,
    /// Time from the arrival of the first request to that of this one.
    pub(crate) later: Duration,
}

impl WaitingRequest {
    /// Merges `request` into this one if both are neighbours and have at most `length_max` bytes in all. Returns false
    /// otherwise.
    fn merge(&mut self, arrived: Instant, request: &Request, length_max: u64) -> bool {
        let own = &mut self.request;
        let follows = own.offset + own.length == request.offset;
        let precedes = request.offset + request.length == own.offset;
        let is_alike = (own.op, own.file) == (request.op, request.file);
        if !is_alike || !(follows || precedes) || own.length + request.length > length_max {
            return false;
        }
        own.offset = own.offset.min(request.offset);
        own.length += request.length;
        self.merged.push(MergedRequest { id: request.id, later: arrived.saturating_since(self.arrived) });
        true
    }
}

/// Requests that wait for a device, in order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct WaitingRequests {
    requests: VecDeque<WaitingRequest>,
    /// Begin and end of each request, in the same order. A search of these ranges is several times as fast as
    /// a search of `requests`.
    ranges: VecDeque<[u64; 2]>,
    /// Number of waiting requests that the driver has taken; later ones merge. `None` if no requests merge.
    merges_after: Option<usize>,
}

impl WaitingRequests {
    /// Creates an empty queue. See [`crate::Software::merges_after`].
    pub(crate) fn new(merges_after: Option<usize>) -> Self {
        WaitingRequests { requests: VecDeque::new(), ranges: VecDeque::new(), merges_after }
    }

    /// Adds a request. A read or a write becomes a part of a waiting neighbour if `length_max` permits.
    /// Only valid requests may be added with a `length_max`.
    #[inline]
    pub(crate) fn push(&mut self, arrived: Instant, request: Request, length_max: Option<u64>) {
        if let (Some(taken), Some(length_max)) = (self.merges_after, length_max)
            && matches!(request.op, Op::Read | Op::Write)
            && self.merge(taken, arrived, &request, length_max)
        {
            return;
        }
        self.ranges.push_back([request.offset, request.offset + request.length]);
        self.requests.push_back(WaitingRequest { arrived, request, merged: Vec::new() });
    }

    /// Merges `request` into one of the waiting requests after the first `taken`. Returns false if it has no neighbour among
    /// them.
    fn merge(&mut self, taken: usize, arrived: Instant, request: &Request, length_max: u64) -> bool {
        let (begin, end) = (request.offset, request.offset + request.length);
        let is_neighbour = |&[from, to]: &[u64; 2]| (to == begin) | (from == end);
        let ranges = [self.ranges.as_slices().0, self.ranges.as_slices().1];
        // The search does not stop at the first match, so that the compiler can compare several ranges at a
        // time.
        if !ranges.iter().any(|part| part.iter().fold(false, |found, range| found | is_neighbour(range))) {
            return false;
        }
        for n in (taken..self.requests.len()).rev().filter(|n| is_neighbour(&self.ranges[*n])) {
            let other = &mut self.requests[n];
            if other.merge(arrived, request, length_max) {
                let request = &other.request;
                self.ranges[n] = [request.offset, request.offset + request.length];
                return true;
            }
        }
        false
    }

    /// Returns true if no request waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Removes the request that arrived first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<WaitingRequest> {
        self.ranges.pop_front();
        self.requests.pop_front()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.requests.clear();
    }
}
