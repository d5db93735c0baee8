//! Buffers: the write buffer, an SLC buffer for streams, an SLC area for rewrites.

use super::{
    Bench, Confidence, Contrast, DRAIN, Direction, Effect, GIB, KIB, MIB, Name, Series, Value, Verdict,
    intercept, mean, sequence, writes,
};
use std::ops::Range;

/// A knee in the curve of accepted bytes over time, which shows a buffer.
struct Knee {
    bytes: u64,
    /// Rate of the first part divided by the rate of the last part.
    ratio: f64,
    /// Points (time in ns, accepted bytes).
    curve: Vec<(f64, f64)>,
    /// Confidence that the rates differ.
    confidence: Confidence,
    /// Difference between the times of a write before and after the knee.
    effect: Effect,
}

/// Share of the buffer's size up to which the writes count as accepted while the buffer still had room.
const EARLY_SHARE: f64 = 0.8;
/// Least number of writes while the buffer still had room.
const EARLY_MIN: usize = 16;

/// Writes `range` in sequence after an idle period, and looks for a fast first part. Once a buffer of B bytes
/// that is emptied at the rate r is full, accepted(t) = B + r t. So a straight line through the curve behind
/// the knee meets the vertical axis at B. Erase blocks that differ in speed bend the curve. The line through
/// the second half of the curve therefore gives only a first estimate, and lines through the part near the
/// last estimate refine it.
async fn knee(bench: &Bench, range: Range<u64>, size: u64, depth: u32) -> Option<Knee> {
    bench.discard(range.clone()).await;
    bench.idle(DRAIN).await;
    let requests = sequence(range, size);
    let run = bench.run(Series { direction: Direction::Write, requests: requests.clone(), depth }).await?;
    let mut ends: Vec<(u64, u64)> =
        run.completed_ns.iter().copied().zip(requests.iter().map(|r| r.1)).collect();
    ends.sort_unstable();
    let mut accepted = 0;
    let curve: Vec<(f64, f64)> = ends
        .iter()
        .map(|(at, bytes)| {
            accepted += bytes;
            (*at as f64, accepted as f64)
        })
        .collect();
    let least = (EARLY_MIN as u64 * size) as f64 / EARLY_SHARE;
    let mut bytes = intercept(&curve[curve.len() / 2..]).max(0.0);
    for _ in 0..2 {
        let from = bytes.max(least);
        let near: Vec<(f64, f64)> =
            curve.iter().copied().filter(|p| (1.5 * from..6.0 * from).contains(&p.1)).collect();
        if near.len() >= 2 * EARLY_MIN {
            bytes = intercept(&near).max(0.0);
        }
    }
    // The part before the buffer is full, without the start-up of the pipeline.
    let early: Vec<(f64, f64)> = curve.iter().copied().filter(|p| p.1 <= EARLY_SHARE * bytes).collect();
    let gaps =
        |part: &[(f64, f64)]| -> Vec<f64> { part.windows(2).map(|pair| pair[1].0 - pair[0].0).collect() };
    let contrast = Contrast::of(&gaps(&early), &gaps(&curve[curve.len() / 2..]));
    let enough = early.len() >= EARLY_MIN && contrast.ratio() >= 1.25;
    let confidence = if enough { contrast.is_slower() } else { Confidence::None };
    Some(Knee { bytes: bytes as u64, ratio: contrast.ratio(), curve, confidence, effect: contrast.effect() })
}

/// Reports the knee in a sequential write of `bytes` bytes. `none` is the reason to report if there is no
/// knee.
fn report(bench: &Bench, name: Name, before: u64, knee: Knee, bytes: u64, none: String) {
    let verdict = if knee.confidence == Confidence::None {
        Verdict::none(Value::NoneUpToBytes(bytes / 2), none)
    } else {
        let reason =
            format!("the first part of a sequential write is {:.1} times as fast as the rest", knee.ratio);
        Verdict::new(Value::Bytes(knee.bytes), knee.confidence, reason).effect(knee.effect)
    };
    let thin = knee.curve.len().div_ceil(1_000);
    let line: Vec<(f64, f64)> =
        knee.curve.into_iter().step_by(thin).map(|(at, bytes)| (at / 1e6, bytes)).collect();
    let verdict = verdict.axes("time, ms", "accepted, B").line("sequential writes at queue depth 8", line);
    bench.find(name, before, verdict);
}

/// Looks for a buffer of up to half of the bytes that the pattern writes: up to 32 MiB, or less on a small
/// device. Returns the size of the buffer, zero if only bursts of small writes show a buffer, and `None` if
/// there is no buffer.
pub(super) async fn write_buffer(bench: &Bench) -> Option<u64> {
    let before = bench.written();
    let size = (16 * KIB).min(bench.large());
    let bytes = (64 * MIB).min(bench.geometry.capacity / 4 / MIB * MIB);
    let Some(region) = bench.region(3, bytes) else {
        bench.skip(Name::WriteBuffer, "the device is too small");
        return None;
    };
    let Some(mut knee) = knee(bench, region.clone(), size, 8).await else {
        bench.skip(Name::WriteBuffer, "the device refused the writes");
        return None;
    };
    if knee.confidence > Confidence::None {
        // On a device that empties the buffer more slowly while it accepts writes, the estimated size is too
        // small.
        knee.confidence = Confidence::Low;
        let found = knee.bytes;
        report(bench, Name::WriteBuffer, before, knee, bytes, steady(bytes));
        return Some(found);
    }
    let contrast = bursts(bench, region).await;
    let Some(contrast) = contrast.filter(|c| c.is_slower() > Confidence::None && c.ratio() >= BURST_RATIO)
    else {
        report(bench, Name::WriteBuffer, before, knee, bytes, steady(bytes));
        return None;
    };
    let reason = format!(
        "the first small writes after an idle period are {:.1} times as fast as later ones, so that there is a buffer; a \
         sequential write does not show its size",
        contrast.ratio()
    );
    bench.find(Name::WriteBuffer, before, Verdict::none(Value::NotMeasured, reason));
    Some(0)
}

/// Number of bursts.
const BURSTS: u64 = 4;
/// Number of writes in a burst, number of writes that even a small buffer takes, and number of writes that
/// fill a buffer of 4 MiB.
const BURST: u64 = 1664;
const TAKEN: usize = 8;
const FILLING: usize = 1536;
/// Least ratio of the times at the end and at the beginning. Without a buffer, writes that fill erase blocks at random
/// become slower by less.
const BURST_RATIO: f64 = 2.0;

/// Writes bursts of small pieces at scattered places, each after an idle period. Compares the times per write
/// at the beginnings of the bursts with those at their ends. A sequential stream may be too slow to fill a
/// buffer that takes such bursts.
async fn bursts(bench: &Bench, region: Range<u64>) -> Option<Contrast> {
    let piece = (4 * KIB).max(bench.geometry.block);
    let count = (region.end - region.start) / piece;
    // A stride without a common factor with the count visits each place once. Multiples of the golden section stay far from
    // each other, so that no host merges requests that are in flight together.
    let stride = (count * 618 / 1000) | 1;
    bench.discard(region.clone()).await;
    let (mut first, mut last) = (vec![], vec![]);
    for burst in 0..BURSTS {
        bench.idle(DRAIN).await;
        let place = |i: u64| (region.start + i * stride % count * piece, piece);
        let requests = (burst * BURST..(burst + 1) * BURST).map(place).collect();
        let run = bench.run(Series { direction: Direction::Write, requests, depth: 32 }).await?;
        let mut ends = run.completed_ns;
        ends.sort_unstable();
        let gaps: Vec<f64> = ends.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        first.extend(&gaps[..TAKEN]);
        last.extend(&gaps[FILLING..]);
    }
    Some(Contrast::of(&first, &last))
}

/// Returns the reason for a missing knee.
fn steady(bytes: u64) -> String {
    format!("a sequential write of {} MiB has the same speed from the start", bytes / MIB)
}

/// Least size of a buffer that counts as an SLC buffer. The pattern of the write buffer finds smaller
/// buffers.
const SLC_MIN: u64 = 64 * MIB;

/// Looks for a buffer of at least 64 MiB, and of at most half of the bytes that the pattern writes: 2 GiB, or
/// less on a small device.
pub(super) async fn slc_buffer(bench: &Bench) {
    let before = bench.written();
    let bytes = (4 * GIB).min(bench.geometry.capacity / 4 / MIB * MIB);
    let Some(region) = bench.region(1, bytes).filter(|_| bytes >= 256 * MIB) else {
        return bench.skip(Name::SlcBuffer, "the device is too small");
    };
    match knee(bench, region, bench.large(), 8).await {
        Some(mut knee) => {
            let mut none = steady(bytes);
            if knee.confidence > Confidence::None && knee.bytes < SLC_MIN {
                knee.confidence = Confidence::None;
                none =
                    "only a buffer below 64 MiB makes the first part of a sequential write faster".to_owned();
            }
            report(bench, Name::SlcBuffer, before, knee, bytes, none);
        }
        None => bench.skip(Name::SlcBuffer, "the device refused the writes"),
    }
}

/// Number of passes over a range.
const PASSES: u64 = 6;

/// Rewrites ranges in sequence, pass after pass. A range that fits into an area of faster cells takes less
/// time per byte than one pass over the whole region. The area is the largest such range. Ranges that the
/// write buffer may hold are left out. Since the size of the write buffer is not certain, a device with a
/// write buffer gives an answer of low confidence.
pub(super) async fn rewrite_area(bench: &Bench, write_buffer: Option<u64>) {
    let before = bench.written();
    let size = bench.large();
    let bytes = (64 * MIB).min(bench.geometry.capacity / 4 / MIB * MIB);
    let Some(region) = bench.region(5, bytes) else {
        return bench.skip(Name::RewriteArea, "the device is too small");
    };
    bench.fill(region.clone()).await;
    let Some(stream) = bench.run(writes(sequence(region.clone(), size))).await else {
        return bench.skip(Name::RewriteArea, "the device refused the writes");
    };
    let stream = stream.after(0);
    let mut points = vec![];
    let mut found: Option<(u64, Contrast)> = None;
    let least = size.max(2 * write_buffer.unwrap_or(0));
    let limit = if write_buffer.is_some() { Confidence::Low } else { Confidence::High };
    for range in Bench::doubling(256 * KIB, bytes / 2).filter(|range| *range >= least) {
        bench.idle(DRAIN).await;
        let pass = sequence(region.start..region.start + range, size);
        let passes: Vec<(u64, u64)> = (0..PASSES).flat_map(|_| pass.iter().copied()).collect();
        let Some(run) = bench.run(writes(passes)).await else { break };
        let times = run.after(2 * pass.len());
        points.push((range as f64, mean(&times)));
        let contrast = Contrast::of(&times, &stream);
        if contrast.ratio() >= 1.2 && contrast.is_slower() > Confidence::None {
            found = Some((range, contrast));
        }
    }
    let verdict = match found {
        Some((range, contrast)) => {
            let reason = format!(
                "data rewritten in one place is written {:.1} times as fast as a stream",
                contrast.ratio()
            );
            let confidence = contrast.is_slower().min(limit);
            Verdict::new(Value::Bytes(range), confidence, reason).effect(contrast.effect())
        }
        None => Verdict::none(Value::NoneUpToBytes(bytes / 2), "rewriting one place is as slow as a stream"),
    };
    let stream_line = points.iter().map(|point| (point.0, mean(&stream))).collect();
    let verdict = verdict
        .axes("range, B", "mean latency, ns")
        .line("rewriting the range", points)
        .line("one pass over the whole region", stream_line);
    bench.find(Name::RewriteArea, before, verdict);
}
