//! Effects of the device's state: discard and idle time.

use super::{
    Bench, Confidence, Contrast, DRAIN, Direction, KIB, MIB, Name, Series, Value, Verdict, reads, writes,
};
use flashlab_sim::{Duration, Rng};
use std::ops::Range;

/// Number of writes in a series.
const COUNT: u64 = 256;

/// Returns small aligned pieces at random places of a range.
fn random_pieces(bench: &Bench, range: &Range<u64>, count: u64) -> Vec<(u64, u64)> {
    let piece = (4 * KIB).max(bench.geometry.block);
    let places = (range.end - range.start) / piece;
    (0..count).map(|_| (range.start + bench.below(places) * piece, piece)).collect()
}

fn steps(times: &[f64]) -> Vec<(f64, f64)> {
    times.iter().enumerate().map(|(i, time)| (i as f64, *time)).collect()
}

/// Returns the values in a fixed order that is unrelated to their order in time.
fn shuffled(values: &[f64]) -> Vec<f64> {
    let mut order = values.to_vec();
    let mut rng = Rng::new(1);
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    order
}

/// Compares random writes and reads in a filled range with those in the same range after a discard.
pub(super) async fn discard(bench: &Bench) {
    let before = bench.written();
    let bytes = (64 * MIB).min(bench.geometry.capacity / 4 / MIB * MIB);
    let Some(region) = bench.region(2, bytes) else {
        return skip_discard(bench, "the device is too small");
    };
    bench.fill(region.clone()).await;
    let Some(filled) = bench.run(writes(random_pieces(bench, &region, COUNT))).await else {
        return skip_discard(bench, "the device refused the writes");
    };
    bench.fill(region.clone()).await;
    let written = bench.run(reads(random_pieces(bench, &region, COUNT), 1)).await;
    if !bench.discard(region.clone()).await {
        return skip_discard(bench, "the device has no discard");
    }
    bench.idle(DRAIN).await;
    let discarded = bench.run(reads(random_pieces(bench, &region, COUNT), 1)).await;
    match (written, discarded) {
        (Some(written), Some(discarded)) => discard_reads(bench, &written.after(16), &discarded.after(16)),
        _ => bench.skip(Name::DiscardReads, "the device refused the reads"),
    }
    let Some(empty) = bench.run(writes(random_pieces(bench, &region, COUNT))).await else {
        return bench.skip(Name::Discard, "the device refused the writes");
    };
    let (filled, empty) = (filled.after(16), empty.after(16));
    // The first write to each unit is slow, so the latencies fall over the series. After shuffling, the batches that
    // the contrast compares are alike.
    let contrast = Contrast::of(&shuffled(&empty), &shuffled(&filled));
    let verdict = match contrast.is_slower() {
        Confidence::None => {
            Verdict::none(Value::NoEffect, "random writes take as long after a discard as before it")
        }
        confidence => {
            let reason = "ratio of the times of random 4 KiB writes into sequential data and after a discard";
            Verdict::new(Value::Ratio(contrast.ratio()), confidence, reason).effect(contrast.effect())
        }
    };
    let verdict =
        verdict.axes("write", "latency, ns").line("filled", steps(&filled)).line("discarded", steps(&empty));
    bench.find(Name::Discard, before, verdict);
}

fn skip_discard(bench: &Bench, reason: &str) {
    bench.skip(Name::DiscardReads, reason);
    bench.skip(Name::Discard, reason);
}

fn discard_reads(bench: &Bench, written: &[f64], discarded: &[f64]) {
    let contrast = Contrast::of(discarded, written);
    let verdict = match contrast.is_slower() {
        Confidence::None => {
            Verdict::none(Value::NoEffect, "reads of discarded data take as long as reads of written data")
        }
        confidence => {
            let reason = "ratio of the times of random reads of written and of discarded data";
            Verdict::new(Value::Ratio(contrast.ratio()), confidence, reason).effect(contrast.effect())
        }
    };
    let verdict = verdict.axes("read", "latency, ns").line("written", steps(written));
    bench.find(Name::DiscardReads, bench.written(), verdict.line("discarded", steps(discarded)));
}

/// Compares random writes under load with those after an idle period of five seconds.
pub(super) async fn idle(bench: &Bench) {
    let before = bench.written();
    let bytes = (64 * MIB).min(bench.geometry.capacity / 4 / MIB * MIB);
    let Some(region) = bench.region(4, bytes) else {
        return bench.skip(Name::Idle, "the device is too small");
    };
    bench.fill(region.clone()).await;
    let load = |requests| Series { direction: Direction::Write, requests, depth: 32 };
    let Some(loaded) = bench.run(load(random_pieces(bench, &region, 24 * COUNT))).await else {
        return bench.skip(Name::Idle, "the device refused the writes");
    };
    bench.idle(Duration::from_secs(5)).await;
    let Some(rested) = bench.run(load(random_pieces(bench, &region, COUNT))).await else {
        return bench.skip(Name::Idle, "the device refused the writes");
    };
    let loaded = loaded.after(23 * COUNT as usize);
    let (loaded, rested) = (loaded[32..].to_vec(), rested.after(32));
    let contrast = Contrast::of(&rested, &loaded);
    // Erase blocks differ by a few per cent, so a smaller ratio means nothing.
    let is_slower = if contrast.ratio() >= 1.25 { contrast.is_slower() } else { Confidence::None };
    let verdict = match is_slower {
        Confidence::None => {
            Verdict::none(Value::NoEffect, "random writes take as long after an idle period as under load")
        }
        confidence => {
            let reason = "ratio of the times of random writes under load and after 5 s without requests";
            Verdict::new(Value::Ratio(contrast.ratio()), confidence, reason).effect(contrast.effect())
        }
    };
    let verdict = verdict
        .axes("write", "latency, ns")
        .line("under load", steps(&loaded))
        .line("after idle", steps(&rested));
    bench.find(Name::Idle, before, verdict);
}
