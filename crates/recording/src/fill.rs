//! The preparation of a new device: its first bytes are written in order, as on a device in use.

use flashlab_sim::{
    Arrival, Completion, FileId, Instant, Model, Op, Request, RequestId, Workload, run as run_workload,
};

/// Writes the first `end` bytes of a device in order, a mebibyte at a time, from `now` on. Returns the end of the writes.
pub fn fill(model: &mut dyn Model, end: u64, now: Instant) -> Instant {
    run_workload(model, &mut Fill { end, next: 0, in_flight: false }, now)
}

/// Writes of a mebibyte from the start of a device to `end`, one at a time.
struct Fill {
    end: u64,
    next: u64,
    in_flight: bool,
}

impl Workload for Fill {
    fn next(&mut self, now: Instant) -> Arrival {
        match (self.in_flight, self.next < self.end) {
            (true, _) => Arrival::Waiting,
            (false, true) => Arrival::At(now),
            (false, false) => Arrival::Done,
        }
    }
    fn submit(&mut self, _: Instant) -> Request {
        let (offset, length) = (self.next, (self.end - self.next).min(1 << 20));
        self.next += length;
        self.in_flight = true;
        Request { id: RequestId(offset), op: Op::Write, file: FileId::DEVICE, offset, length }
    }
    fn completed(&mut self, _: &Completion) {
        self.in_flight = false;
    }
}
