//! Units of the array and of the map: program unit, random-write unit, rewrite unit.

use super::{
    Bench, CERTAIN, Confidence, Contrast, DRAIN, Effect, KIB, MIB, Name, Value, Verdict, mean, median,
    sequence, writes,
};
use std::ops::Range;

/// Number of writes in a series.
const COUNT: u64 = 108;
/// Number of consecutive writes to one stream before the other stream continues.
const TURN: u64 = 12;
/// Writes that warm up a series of random writes.
const WARM: usize = 32;

/// Least ratio of shifted to aligned random writes. Random places lie in erase blocks that differ in speed.
const RANDOM_RATIO: f64 = 1.15;
/// Least ratio for high confidence. A smaller unit within the real one may show a smaller ratio.
const RANDOM_CERTAIN: f64 = 2.0;

/// A size with the latencies of aligned writes and of writes shifted by half of the size.
type Shifted = (u64, Vec<f64>, Vec<f64>);

/// Writes in sequence with each size, from an aligned offset and shifted by half of the size. The program
/// unit is the largest size that a shift makes slower. Both ends of a shifted write of at most this size
/// leave a unit incomplete. A larger write that is shifted by half ends on unit boundaries.
pub(super) async fn program_unit(bench: &Bench) -> Option<u64> {
    let before = bench.written();
    let mut series: Vec<Shifted> = Vec::new();
    for (index, size) in sizes(bench).enumerate() {
        let Some((aligned, shifted)) = streams(bench, 2 * index as u64, size, false).await else { break };
        series.push((size, aligned, shifted));
    }
    let found = largest_confirmed(bench, &series).await;
    let most = series.last().map_or(0, |last| last.0);
    let verdict = match found {
        Some((unit, confidence, difference)) => {
            let reason = "the largest sequential write that is slower when shifted by half its size";
            Verdict::new(Value::Bytes(unit), confidence, reason).effect(Effect::Means(difference))
        }
        None => Verdict::none(
            Value::NoneUpToBytes(most),
            "shifted sequential writes take as long as aligned ones",
        ),
    };
    bench.find(Name::ProgramUnit, before, lines(verdict, &series));
    let now = bench.written();
    match found {
        Some((unit, confidence, difference)) => {
            let reason = format!("difference between shifted and aligned sequential writes of {unit} B");
            let verdict = Verdict::new(Value::TimeNs(difference as u64), confidence, reason);
            let verdict = verdict.effect(Effect::Means(difference));
            bench.find(Name::PartialUnitCost, now, lines(verdict, &series));
        }
        None => {
            bench.find(
                Name::PartialUnitCost,
                now,
                Verdict::none(Value::NoEffect, "no program unit was seen"),
            );
        }
    }
    found.map(|found| found.0)
}

fn sizes(bench: &Bench) -> impl Iterator<Item = u64> + use<> {
    Bench::doubling(2 * bench.geometry.block, bench.large())
}

fn lines(verdict: Verdict, series: &[Shifted]) -> Verdict {
    let of = |times: fn(&Shifted) -> &Vec<f64>| {
        series.iter().map(|entry| (entry.0 as f64, mean(times(entry)))).collect::<Vec<_>>()
    };
    verdict
        .axes("size of a write, B", "mean latency, ns")
        .line("aligned", of(|entry| &entry.1))
        .line("shifted by half", of(|entry| &entry.2))
}

/// Repetitions that confirm a smaller difference.
const REPEATS: u64 = 6;

/// Returns the largest size whose shifted streams take longer, with the confidence and the mean difference. A small
/// difference must appear in every repetition; every other repetition exchanges the two regions.
async fn largest_confirmed(bench: &Bench, series: &[Shifted]) -> Option<(u64, Confidence, f64)> {
    for (index, (size, aligned, shifted)) in series.iter().enumerate().rev() {
        let contrast = Contrast::of(aligned, shifted);
        let mut confidence = contrast.is_slower();
        for repeat in 0..REPEATS {
            if confidence == Confidence::None || contrast.ratio() >= CERTAIN {
                break;
            }
            let (aligned, shifted) = streams(bench, 2 * index as u64, *size, repeat % 2 == 0).await?;
            confidence = confidence.min(Contrast::of(&aligned, &shifted).is_slower());
        }
        if confidence > Confidence::None {
            return Some((*size, confidence, contrast.second - contrast.first));
        }
    }
    None
}

/// Returns the largest size whose shifted writes take longer by at least [`RANDOM_RATIO`], with the confidence and the
/// mean difference.
fn largest_shifted(series: &[Shifted]) -> Option<(u64, Confidence, f64)> {
    series.iter().rev().find_map(|(size, aligned, shifted)| {
        let contrast = Contrast::of(aligned, shifted);
        let confidence = contrast.is_slower();
        let is_shown = confidence > Confidence::None && contrast.ratio() >= RANDOM_RATIO;
        let confidence = if contrast.ratio() >= RANDOM_CERTAIN { confidence } else { Confidence::Low };
        is_shown.then_some((*size, confidence, contrast.second - contrast.first))
    })
}

/// Discards the regions `index` and `index + 1`, and writes a stream of `COUNT` writes of `size` bytes into
/// each. In the second region, or in the first if `swap` is set, a write of half this size precedes the
/// stream. The streams take turns of [`TURN`] writes, so that both use the same erase blocks.
async fn streams(bench: &Bench, index: u64, size: u64, swap: bool) -> Option<(Vec<f64>, Vec<f64>)> {
    let bytes = (COUNT + 1) * size;
    let (aligned, shifted) = (index + u64::from(swap), index + u64::from(!swap));
    let (aligned, shifted) = (bench.region(aligned, bytes)?, bench.region(shifted, bytes)?);
    bench.discard(aligned.clone()).await;
    bench.discard(shifted.clone()).await;
    bench.run(writes(vec![(shifted.start, size / 2)])).await?;
    let starts = [aligned.start, shifted.start + size / 2];
    let turn = |from: u64, i: u64| (0..TURN).map(move |j| (from + (i * TURN + j) * size, size));
    let requests = (0..COUNT / TURN).flat_map(|i| starts.into_iter().flat_map(move |from| turn(from, i)));
    let times = bench.run(writes(requests.collect())).await?.after(2 * TURN as usize);
    Some(halves(&times, TURN as usize))
}

/// Splits a series of turns into the times of the first kind and those of the second kind.
fn halves(times: &[f64], turn: usize) -> (Vec<f64>, Vec<f64>) {
    let of = |kind: usize| {
        times.chunks(turn).skip(kind).step_by(2).flat_map(|chunk| chunk.iter().copied()).collect()
    };
    (of(0), of(1))
}

/// Overwrites written data at random with each size up to 64 KiB, aligned and shifted by half. The unit is
/// the largest size that a shift makes slower: both ends of a shifted write lie within a unit whose rest must
/// be read, or the write needs two programs instead of one.
pub(super) async fn random_write_unit(bench: &Bench) {
    let before = bench.written();
    let size = (64 * MIB).min(bench.geometry.capacity / 4 / MIB * MIB);
    let slot = size / (2 * COUNT) / (128 * KIB) * (128 * KIB);
    let Some(region) = bench.region(1, size).filter(|_| slot > 0) else {
        return bench.skip(Name::RandomWriteUnit, "the device is too small");
    };
    // The first overwrite in each slot rewrites larger units, so that the measured writes do not.
    bench.fill(region.clone()).await;
    let first = (0..2 * COUNT).map(|i| (region.start + i * slot, 128 * KIB)).collect::<Vec<_>>();
    let pieces = first
        .iter()
        .flat_map(|(at, bytes)| sequence(*at + 4 * KIB..at + bytes, 4 * KIB).into_iter().step_by(3));
    bench.run(writes(pieces.collect())).await;
    let mut series: Vec<Shifted> = Vec::new();
    for size in Bench::doubling(2 * bench.geometry.block, (64 * KIB).min(bench.large())) {
        let Some((aligned, shifted)) = overwrite(bench, &first, size).await else { break };
        series.push((size, aligned, shifted));
    }
    let most = series.last().map_or(0, |last| last.0);
    let verdict = match largest_shifted(&series) {
        Some((unit, confidence, difference)) => {
            let reason = "the largest random overwrite that is slower when shifted by half its size";
            Verdict::new(Value::Bytes(unit), confidence, reason).effect(Effect::Means(difference))
        }
        None => Verdict::none(Value::NoneUpToBytes(most), "shifted overwrites take as long as aligned ones"),
    };
    bench.find(Name::RandomWriteUnit, before, lines(verdict, &series));
}

/// Overwrites one random place in each slot, in random order, after an idle period. Aligned and shifted writes follow each
/// other at random, so that no period of the device coincides with them.
async fn overwrite(bench: &Bench, slots: &[(u64, u64)], size: u64) -> Option<(Vec<f64>, Vec<f64>)> {
    bench.idle(DRAIN).await;
    let mut places: Vec<u64> =
        slots.iter().map(|(at, bytes)| at + bench.below(bytes / size - 1) * size).collect();
    for i in (1..places.len()).rev() {
        places.swap(i, bench.below(i as u64 + 1) as usize);
    }
    let is_shifted: Vec<bool> = places.iter().map(|_| bench.below(2) == 1).collect();
    let shift = |shifted: &bool| if *shifted { size / 2 } else { 0 };
    let requests = places.iter().zip(&is_shifted).map(|(at, shifted)| (at + shift(shifted), size));
    let times = bench.run(writes(requests.collect())).await?.after(WARM);
    let of = |kind: bool| {
        let all = times.iter().zip(&is_shifted[WARM..]);
        all.filter(|(_, shifted)| **shifted == kind).map(|(time, _)| *time).collect()
    };
    Some((of(false), of(true)))
}

/// Sizes of the overwrites that look for rewrite units, each with the steps between overwrites. An area for
/// small writes, or a log, takes pieces of 4 KiB and so hides the unit; larger pieces bypass it. The searches
/// with larger pieces try fewer steps, because they follow the complete search.
const PIECES: [(u64, &[u64]); 3] =
    [(4 * KIB, &[64 * KIB, 512 * KIB, 4 * MIB]), (32 * KIB, &[512 * KIB]), (64 * KIB, &[512 * KIB])];

/// Overwrites small pieces of sequential data at increasing offsets. The first piece in each rewrite unit is slow,
/// since the device rewrites the whole unit, and the following ones are fast. The distance between slow writes is the
/// unit.
pub(super) async fn rewrite_unit(bench: &Bench) {
    let before = bench.written();
    let mut searched = 0;
    let mut evidence = Vec::new();
    for (piece, steps) in PIECES {
        let piece = piece.max(bench.geometry.block);
        let search = search_unit(bench, piece, steps).await;
        if let Some((unit, ratio)) = search.found {
            return report_rewrite_unit(bench, before, unit, piece, ratio, search.evidence);
        }
        searched = searched.max(search.searched);
        if evidence.is_empty() {
            evidence = search.evidence;
        }
    }
    let reason = "overwrites of 4, 32 and 64 KiB of sequential data all take the same time";
    let verdict = Verdict::none(Value::HiddenOrNoneUpToBytes(searched / 4), reason);
    let verdict = verdict.axes("offset, B", "latency, ns").line("overwrites of sequential data", evidence);
    bench.find(Name::RewriteUnit, before, verdict);
}

/// The result of a search with one size of pieces.
#[derive(Default)]
struct UnitSearch {
    /// The unit, and the ratio of slow to fast overwrites.
    found: Option<(Unit, f64)>,
    /// Size in bytes of the last region that was searched.
    searched: u64,
    /// Offset and latency of each overwrite of this region.
    evidence: Vec<(f64, f64)>,
}

async fn search_unit(bench: &Bench, piece: u64, steps: &[u64]) -> UnitSearch {
    let most = bench.geometry.capacity / 4;
    let mut search = UnitSearch::default();
    for step in steps.iter().copied() {
        let bytes = (512 * step).min(most / step * step);
        let Some(region) = bench.region(2, bytes).filter(|_| bytes >= 64 * step) else { break };
        search.searched = bytes;
        bench.fill(region.clone()).await;
        let places: Vec<u64> =
            (0..bytes / step).map(|i| region.start + i * step + step / 2 + piece).collect();
        let Some(run) = bench.run(writes(places.iter().map(|at| (*at, piece)).collect())).await else {
            break;
        };
        let times = run.after(0);
        search.evidence =
            places.iter().zip(&times).map(|(at, time)| ((at - region.start) as f64, *time)).collect();
        let (slow, ratio) = slow_places(&times);
        if slow.len() >= 4 && slow.len() * 2 > times.len() {
            // More than half of the overwrites are the first in a unit, so it is smaller than two steps.
            search.found = refine_small(bench, step, piece).await.map(|unit| (unit, ratio));
            break;
        }
        if slow.len() >= 6 {
            let middle = slow.len() / 2;
            let gap = (slow[middle + 1] - slow[middle]) as u64 * step;
            let unit = refine(bench, &region, places[slow[middle] - 1], step, piece, gap).await;
            search.found = unit.map(|unit| (unit, ratio));
            break;
        }
    }
    search
}

/// A unit, and true if the measured intervals have equal length.
type Unit = (u64, bool);

fn report_rewrite_unit(
    bench: &Bench,
    before: u64,
    found: Unit,
    piece: u64,
    ratio: f64,
    evidence: Vec<(f64, f64)>,
) {
    let (unit, are_equal) = found;
    let intervals = if are_equal { "are equal" } else { "differ" };
    // The resolution is two pieces.
    let is_exact = piece <= PIECES[0].0.max(bench.geometry.block);
    let confidence = if are_equal && is_exact { Confidence::High } else { Confidence::Low };
    let reason = format!(
        "the first overwrite of {} KiB in each unit takes {ratio:.1} times as long; the measured intervals {intervals}",
        piece / KIB
    );
    let fast = evidence.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let verdict =
        Verdict::new(Value::Bytes(unit), confidence, reason).effect(Effect::Singles(fast * (ratio - 1.0)));
    let verdict = verdict.axes("offset, B", "latency, ns").line("overwrites of sequential data", evidence);
    bench.find(Name::RewriteUnit, before, verdict);
}

/// Returns the indices of the slow writes, and the ratio of the median times of the slow and the fast writes.
/// The geometric mean of the fast end and the slow end of the times separates slow from fast writes. If the
/// ends differ by less than a factor of 1.5, no write is slow.
fn slow_places(times: &[f64]) -> (Vec<usize>, f64) {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let low = sorted[sorted.len() / 50];
    let high = sorted[sorted.len() - 1 - sorted.len() / 200];
    if high < 1.5 * low {
        return (vec![], 1.0);
    }
    let border = (low * high).sqrt();
    let slow: Vec<usize> = (0..times.len()).filter(|i| times[*i] > border).collect();
    let of = |slow: bool| {
        let group: Vec<f64> = times.iter().copied().filter(|time| (*time > border) == slow).collect();
        median(&group)
    };
    (slow, of(true) / of(false).max(1.0))
}

/// Finds three boundaries after `from`, of units of about `gap` bytes, with a resolution of two pieces. Each scan runs
/// in ascending order on newly filled data, from a place in the unit before the boundary. The places are odd multiples
/// of a piece, because a write to the first byte of a unit may begin a stream, which copies nothing.
async fn refine(
    bench: &Bench,
    region: &Range<u64>,
    from: u64,
    step: u64,
    piece: u64,
    gap: u64,
) -> Option<Unit> {
    let mut boundaries: Vec<u64> = Vec::new();
    let mut inside = from;
    for _ in 0..3 {
        let (mut fine, mut start, mut end) = (step, inside, inside + gap + 2 * step);
        while fine > 2 * piece {
            fine = (fine / 8).max(2 * piece);
            let margin = 2 * gap.max(MIB);
            let around = start.saturating_sub(margin).max(region.start)..(end + margin).min(region.end);
            bench.fill(around).await;
            // Two writes before the scan open the unit that precedes the boundary.
            let mut places = vec![start - 2 * piece, start];
            places.extend(
                (1..).map(|i| start + i * fine).take_while(|at| *at <= end && at + piece <= region.end),
            );
            let run = bench.run(writes(places.iter().map(|at| (*at, piece)).collect())).await?;
            let (slow, _) = slow_places(&run.after(0));
            let hit = *slow.iter().find(|i| **i >= 2)?;
            (start, end) = (places[hit - 1], places[hit]);
        }
        boundaries.push(end - piece);
        inside = end + step / 2;
    }
    let gaps = [boundaries[1] - boundaries[0], boundaries[2] - boundaries[1]];
    Some((gaps[0], gaps[0] == gaps[1]))
}

/// Finds a unit that is smaller than two steps: scans newly filled data in steps of two pieces. The intervals
/// count as equal if nine tenths of them are.
async fn refine_small(bench: &Bench, step: u64, piece: u64) -> Option<Unit> {
    let region = bench.region(2, 16 * step)?;
    bench.fill(region.clone()).await;
    // Only every other piece is written, so that no write continues the previous one.
    let run = bench
        .run(writes(sequence(region, 2 * piece).into_iter().map(|(at, _)| (at + piece, piece)).collect()))
        .await?;
    let (slow, _) = slow_places(&run.after(0));
    let gaps: Vec<usize> = slow.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let middle = gaps.len() / 2;
    let gap = *gaps.get(middle)?;
    let agreeing = gaps.iter().filter(|other| **other == gap).count();
    Some((2 * piece * gap as u64, agreeing * 10 >= gaps.len() * 9))
}
