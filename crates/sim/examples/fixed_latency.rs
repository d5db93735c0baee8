//! A minimal model and a minimal workload: ten sequential reads of 100 us each.

use flashlab_sim::{
    Arrival, Completion, Duration, FileId, Geometry, Instant, Mechanism, Model, Op, PowerCut, Request,
    RequestId, Spent, Status, Workload, run,
};

#[derive(Clone, Default)]
struct FixedLatency(Option<Completion>);

impl Model for FixedLatency {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: 1 << 30, block: 512, request_max: 1 << 20 }
    }
    fn submit(&mut self, now: Instant, request: Request) {
        assert!(self.0.is_none(), "this model serves one request at a time");
        let mut spent = Spent::default();
        spent[Mechanism::Read] = Duration::from_us(100);
        self.0 = Some(Completion { id: request.id, at: now + spent.total(), status: Status::Ok, spent });
    }
    fn next_due(&self) -> Option<Instant> {
        self.0.map(|completion| completion.at)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        self.0.take_if(|completion| completion.at <= limit)
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        self.0 = None;
        PowerCut::default()
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }
}

struct TenReads {
    asked: u64,
    waiting: bool,
}

impl Workload for TenReads {
    fn next(&mut self, now: Instant) -> Arrival {
        match (self.waiting, self.asked) {
            (true, _) => Arrival::Waiting,
            (false, 10) => Arrival::Done,
            (false, _) => Arrival::At(now),
        }
    }
    fn submit(&mut self, _: Instant) -> Request {
        let n = self.asked;
        (self.asked, self.waiting) = (n + 1, true);
        Request { id: RequestId(n), op: Op::Read, file: FileId::DEVICE, offset: n * 4096, length: 4096 }
    }
    fn completed(&mut self, _: &Completion) {
        self.waiting = false;
    }
}

fn main() {
    let end = run(&mut FixedLatency::default(), &mut TenReads { asked: 0, waiting: false }, Instant::ZERO);
    println!("ten reads took {}", end.since(Instant::ZERO));
    assert_eq!(end, Instant::ZERO + Duration::from_ms(1));
}
