//! Over-provisioning, from the write amplification of uniform random writes on a full device.

use super::{Bench, Confidence, DRAIN, Direction, GIB, KIB, Name, Series, Value, Verdict};

/// Length of a write.
const PIECE: u64 = 4 * KIB;
/// Greatest length of a chunk, which limits the memory that its latencies take.
const CHUNK_MAX: u64 = 4 * GIB;
/// Relative change of the rate between two chunks below which it is steady.
const STEADY: f64 = 0.03;

/// Compares the rate of random writes on an empty device with the steady rate on a full one. The ratio of
/// these rates is the write amplification A, if the array limits both rates. With x = 1 / A, the closed form
/// of FIFO collection (Desnoyers, SYSTOR 2012) gives OP = -ln(1 - x) / x - 1. Greedy collection needs a
/// little less, so the confidence is low at best.
pub(super) async fn run(bench: &Bench) {
    if !bench.options.whole_device {
        return bench.skip(Name::OverProvisioning, "needs --whole-device");
    }
    let before = bench.written();
    let capacity = bench.geometry.capacity / PIECE * PIECE;
    let chunk = (capacity / 4).clamp(PIECE, CHUNK_MAX);
    if !bench.discard(0..capacity).await {
        return bench.skip(Name::OverProvisioning, "the device has no discard, so it cannot be emptied");
    }
    bench.idle(DRAIN).await;
    let Some(fresh) = rate(bench, capacity, chunk / 4).await else {
        return bench.skip(Name::OverProvisioning, "the device refused the writes");
    };
    bench.fill(0..capacity).await;
    let (mut points, mut total, mut steady) = (vec![(0.0, fresh)], 0, 0);
    while total < 4 * capacity && steady < 2 {
        let Some(now) = rate(bench, capacity, chunk).await else {
            return bench.skip(Name::OverProvisioning, "the device refused the writes");
        };
        total += chunk;
        let last = points.last().map_or(now, |point| point.1);
        // The first pass over the device never counts as steady: garbage collection has not reached its equilibrium
        // yet.
        let is_steady = total > capacity && (now / last - 1.0).abs() < STEADY;
        steady = if is_steady { steady + 1 } else { 0 };
        points.push((total as f64 / capacity as f64, now));
    }
    let amplification = fresh / points.last().map_or(fresh, |point| point.1);
    let verdict = if steady < 2 {
        Verdict::none(Value::NotMeasured, "the rate of random writes did not become steady")
    } else if amplification < 1.05 {
        Verdict::none(Value::NoEffect, "random writes on a full device are as fast as on an empty one")
    } else {
        let x = 1.0 / amplification;
        let reason = format!(
            "steady random writes are {amplification:.2} times as slow as on an empty device; closed form of FIFO collection"
        );
        Verdict::new(Value::Share(-(1.0 - x).ln() / x - 1.0), Confidence::Low, reason)
    };
    let verdict =
        verdict.axes("random writes, times the capacity", "writes per second").line("4 KiB", points);
    bench.find(Name::OverProvisioning, before, verdict);
}

/// Writes `bytes` in random pieces at queue depth 32. Returns the rate of the second half in writes per second.
async fn rate(bench: &Bench, capacity: u64, bytes: u64) -> Option<f64> {
    let places = capacity / PIECE;
    let count = (bytes / PIECE).max(64);
    let requests = (0..count).map(|_| (bench.below(places) * PIECE, PIECE)).collect();
    let run = bench.run(Series { direction: Direction::Write, requests, depth: 32 }).await?;
    let mut ends = run.completed_ns;
    ends.sort_unstable();
    let (middle, last) = (ends[ends.len() / 2], ends[ends.len() - 1]);
    Some((ends.len() - ends.len() / 2) as f64 * 1e9 / (last - middle).max(1) as f64)
}
