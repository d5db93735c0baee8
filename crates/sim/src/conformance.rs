//! Conformance tests for [`Model`]. Every crate that implements a model calls [`check`] from a test.

use crate::{Completion, Duration, FileId, Instant, Model, Op, Request, RequestId, Rng, Status};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Drives models from `make` with random requests and asserts the contract of [`Model`]:
///
/// - A completion never precedes its request or the previous completion, and never lies after the limit.
/// - The parts of each latency sum to the latency, and each request completes exactly once.
/// - Requests beyond the capacity, and requests that do not cover one or more whole blocks, are rejected.
/// - The same requests give the same completions, also on a clone of the model.
/// - After a power cut, no earlier request is outstanding, and `PowerCut::undecided` contains no completed
///   FUA write.
///
/// # Panics
/// Panics if the model breaks the contract. Most messages contain `seed`.
pub fn check(make: &dyn Fn() -> Box<dyn Model>, seed: u64) {
    for depth in [1, 4, 32] {
        let first = drive(&mut *make(), seed, depth, 400);
        let again = drive(&mut *make(), seed, depth, 400);
        assert_eq!(first, again, "seed {seed}, depth {depth}: the same requests gave other completions");
        clones_agree(make, seed, depth);
    }
    refuses_invalid_ranges(&mut *make(), seed);
    survives_power_cuts(make, seed);
    keeps_fua_writes(&mut *make(), seed);
    let idle = make();
    assert_eq!(idle.next_due(), None, "seed {seed}: an idle model has something due");
}

fn random_request(rng: &mut Rng, model: &dyn Model, id: u64) -> Request {
    let geometry = model.geometry();
    let blocks = geometry.capacity / geometry.block;
    let longest = [1, 8, 256, 3_000][rng.below(4) as usize];
    let length = 1 + rng.below(blocks.min(longest));
    let span = if rng.below(2) == 0 { blocks } else { blocks.min(1 << 14) };
    let offset = rng.below(span.max(length + 1) - length);
    let ops = [
        Op::Read,
        Op::Read,
        Op::Write,
        Op::Write,
        Op::Write,
        Op::WriteFua,
        Op::Trim,
        Op::Flush,
        Op::FlushData,
    ];
    let op = ops[rng.below(ops.len() as u64) as usize];
    Request {
        id: RequestId(id),
        op,
        file: FileId::DEVICE,
        offset: offset * geometry.block,
        length: length * geometry.block,
    }
}

/// Submits `count` random requests at random intervals, with at most `depth` in flight, and returns all completions.
fn drive(model: &mut dyn Model, seed: u64, depth: usize, count: u64) -> Vec<Completion> {
    let mut rng = Rng::for_purpose(seed, depth as u64);
    let mut outstanding: Vec<(RequestId, Instant)> = Vec::new();
    let mut completions: Vec<Completion> = Vec::new();
    let (mut now, mut submitted) = (Instant::ZERO, 0);
    while submitted < count || !outstanding.is_empty() {
        let may_submit = submitted < count && outstanding.len() < depth;
        // With a random limit, `complete` also returns `None`, and `next_due` must then lie after the limit.
        let limit = if may_submit { now + Duration::from_ns(rng.below(3_000_000)) } else { Instant::MAX };
        let due = model.next_due();
        if let Some(completion) = model.complete(limit) {
            let at = completion.at;
            assert!(at <= limit, "seed {seed}: completed at {at:?}, above the limit {limit:?}");
            assert!(at >= now, "seed {seed}: completed at {at:?}, before {now:?}");
            assert!(
                due.is_some_and(|due| due <= at),
                "seed {seed}: completed at {at:?}, but nothing was due until {due:?}"
            );
            let place = outstanding.iter().position(|(id, _)| *id == completion.id);
            let (_, since) = outstanding.swap_remove(
                place.unwrap_or_else(|| panic!("seed {seed}: {completion:?} was not outstanding")),
            );
            assert_eq!(
                completion.spent.total(),
                at.since(since),
                "seed {seed}: the parts of {completion:?} do not sum to its latency"
            );
            assert_ne!(completion.status, Status::OutOfRange, "seed {seed}: {completion:?}");
            now = at;
            completions.push(completion);
            continue;
        }
        assert!(
            outstanding.is_empty() || model.next_due().is_some_and(|due| due > limit),
            "seed {seed}: nothing completed up to {limit:?}, but next_due is {:?}",
            model.next_due()
        );
        assert!(may_submit, "seed {seed}: {} requests never complete", outstanding.len());
        now = limit;
        let request = random_request(&mut rng, model, submitted);
        model.hint(request.file, &[request.offset]);
        model.submit(now, request);
        outstanding.push((request.id, now));
        submitted += 1;
    }
    completions
}

fn clones_agree(make: &dyn Fn() -> Box<dyn Model>, seed: u64, depth: usize) {
    let mut original = make();
    drive(&mut *original, seed, depth, 150);
    // An instant after all completions of `drive`, because `now` must not decrease.
    let later = Instant::from_ns(u64::MAX / 4);
    let mut rng = Rng::for_purpose(seed, 77);
    let requests: Vec<Request> =
        (0..2 * depth as u64).map(|id| random_request(&mut rng, &*original, id)).collect();
    let (first, rest) = requests.split_at(depth);
    first.iter().for_each(|request| original.submit(later, *request));
    // The clone is taken while requests are in flight. Only the clone receives hints, which must not change a result.
    let mut copy = original.clone();
    for request in rest {
        copy.hint(request.file, &[request.offset]);
        original.submit(later, *request);
        copy.submit(later, *request);
    }
    loop {
        let (a, b) = (original.complete(Instant::MAX), copy.complete(Instant::MAX));
        assert_eq!(a, b, "seed {seed}: a clone completed differently");
        if a.is_none() {
            break;
        }
    }
}

/// Cuts the power at random instants while requests are outstanding.
fn survives_power_cuts(make: &dyn Fn() -> Box<dyn Model>, seed: u64) {
    let run = || {
        let mut model = make();
        let mut rng = Rng::for_purpose(seed, 99);
        let mut now = Instant::ZERO;
        let mut seen = Vec::new();
        for round in 0..8 {
            for id in 0..12 {
                let request = random_request(&mut rng, &*model, id);
                model.submit(now, request);
            }
            let until = now + Duration::from_ns(rng.below(20_000_000));
            while let Some(completion) = model.complete(until) {
                now = completion.at;
                seen.push(completion);
            }
            now = now.max(until);
            let cut = model.power_cut(now);
            let mut end = 0;
            for (range, _) in &cut.undecided {
                assert!(
                    end <= range.start && range.start < range.end,
                    "seed {seed}: {cut:?} is not in order"
                );
                end = range.end;
            }
            assert!(end <= model.geometry().capacity, "seed {seed}: {cut:?} is beyond the capacity");
            let up = model.power_up(now);
            assert!(up >= now, "seed {seed}, cut {round}: power came back before it was cut");
            now = up;
            assert_eq!(
                model.next_due(),
                None,
                "seed {seed}, cut {round}: an event from before the cut is still due"
            );
            assert_eq!(
                model.complete(Instant::MAX),
                None,
                "seed {seed}, cut {round}: a request outlived the cut"
            );
        }
        seen
    };
    assert_eq!(run(), run(), "seed {seed}: the same cuts gave other completions");
}

/// Completes other requests, and then cuts the power at the instant at which an FUA write completes.
fn keeps_fua_writes(model: &mut dyn Model, seed: u64) {
    let mut rng = Rng::for_purpose(seed, 55);
    let mut now = Instant::ZERO;
    for round in 0..8 {
        for id in 1..6 {
            let request = random_request(&mut rng, model, id);
            model.submit(now, request);
        }
        while let Some(completion) = model.complete(Instant::MAX) {
            now = completion.at;
        }
        let request = Request { op: Op::WriteFua, ..random_request(&mut rng, model, 0) };
        model.submit(now, request);
        let done = model.complete(Instant::MAX).expect("a write completes");
        let cut = model.power_cut(done.at);
        let is_undecided =
            cut.undecided.iter().any(|(range, _)| range.start < request.end() && request.offset < range.end);
        assert!(
            !is_undecided || done.status != Status::Ok,
            "seed {seed}, cut {round}: {request:?} was completed, but {cut:?}"
        );
        now = model.power_up(done.at);
    }
}

fn refuses_invalid_ranges(model: &mut dyn Model, seed: u64) {
    let geometry = model.geometry();
    let invalid = [
        (geometry.capacity, geometry.block),
        (geometry.capacity - geometry.block, 2 * geometry.block),
        (u64::MAX - geometry.block + 1, geometry.block),
        (1, geometry.block),
        (0, 0),
    ];
    let mut now = Instant::ZERO;
    for (offset, length) in invalid {
        for op in [Op::Read, Op::Write, Op::Trim] {
            let request = Request { id: RequestId(0), op, file: FileId::DEVICE, offset, length };
            model.submit(now, request);
            let completion = model.complete(Instant::MAX).expect("a refused request completes");
            assert_ne!(completion.status, Status::Ok, "seed {seed}: {request:?}");
            assert_eq!(completion.spent.total(), completion.at.since(now));
            now = completion.at;
        }
    }
}
