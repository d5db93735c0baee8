//! Patterns of reads: useful queue depth, coverage of the map cache, page of the array.

use super::{
    Bench, Confidence, Contrast, Effect, KIB, MIB, Name, SHARE_LOW, Value, Verdict, knees, mean, reads,
    writes,
};
use std::ops::Range;

/// Length of a read, unless the logical block is larger.
const READ: u64 = 4 * KIB;
/// Distance between the places that are written before a range sweep, if the device answers reads of unwritten
/// addresses without its map.
const GRID: u64 = 4 * MIB;
/// Range of the queue-depth pattern without permission to write. Even a small map cache covers this range.
const NEAR: u64 = 512 * MIB;
const DEPTH_MAX: u32 = 256;
/// Smallest range of a sweep.
const SWEEP_MIN: u64 = 4 * GRID;

/// Addresses of random reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    /// Every multiple of the read's length.
    All,
    /// Every multiple of [`GRID`], where data was written.
    Grid,
}

pub(super) async fn run(bench: &Bench) {
    let before = bench.written();
    if bench.geometry.capacity < SWEEP_MIN {
        for name in [Name::MapCoverage, Name::QueueDepth, Name::ReadPage] {
            bench.skip(name, "the device is too small");
        }
        return;
    }
    let mut swept = sweep(bench, Places::All).await;
    let mut places = Places::All;
    if bench.options.destroy && swept.as_ref().is_none_or(|swept| swept.levels.is_empty()) {
        // A device may answer reads of unwritten addresses without the map, so the sweep is repeated on
        // written data.
        places = Places::Grid;
        let marks = (0..bench.geometry.capacity / GRID).map(|i| (i * GRID, random_read(bench))).collect();
        bench.run(writes(marks)).await;
        bench.idle(super::DRAIN).await;
        swept = sweep(bench, Places::Grid).await;
    }
    match swept {
        Some(swept) => report_coverage(bench, before, &swept, places),
        None => bench.skip(Name::MapCoverage, "the device refused the reads"),
    }
    bench.complete().await;
    if !bench.options.destroy {
        queue_depth(bench, None, 0).await;
        bench.complete().await;
        return bench.skip(Name::ReadPage, "needs writes");
    }
    let size = (64 * MIB).min(bench.geometry.capacity / 4 / MIB * MIB);
    let Some(region) = bench.region(1, size) else {
        bench.skip(Name::QueueDepth, "the device is too small");
        return bench.skip(Name::ReadPage, "the device is too small");
    };
    // A device answers reads of unwritten addresses without the array.
    let before = bench.written();
    bench.fill(region.clone()).await;
    queue_depth(bench, Some(&region), before).await;
    bench.complete().await;
    // A read across a boundary begins half of its length before the boundary, so a block must be shorter than
    // a read.
    if bench.geometry.block >= READ {
        return bench.skip(Name::ReadPage, "the blocks of the device are too large");
    }
    read_page(bench, region).await;
}

/// Returns the length of a random read.
fn random_read(bench: &Bench) -> u64 {
    READ.max(bench.geometry.block)
}

/// Returns `count` random reads in the range from zero to `range`.
fn random_reads(bench: &Bench, range: u64, count: u64, places: Places) -> Vec<(u64, u64)> {
    let length = random_read(bench);
    let step = if places == Places::Grid { GRID } else { length };
    (0..count).map(|_| (bench.below(range / step) * step, length)).collect()
}

/// The mean latencies of random reads over ranges.
struct Sweep {
    /// Points (range in bytes, mean latency in ns).
    points: Vec<(f64, f64)>,
    /// Sizes in bytes at which the latency begins to rise.
    levels: Vec<u64>,
    /// Least rise of a level in ns.
    rise: f64,
}

/// Measures the mean latency of random reads over ranges.
async fn sweep(bench: &Bench, places: Places) -> Option<Sweep> {
    let capacity = bench.geometry.capacity / GRID * GRID;
    let mut ranges: Vec<u64> = Vec::new();
    let mut range = capacity as f64;
    while range >= SWEEP_MIN as f64 {
        ranges.push(range as u64);
        range /= std::f64::consts::SQRT_2;
    }
    ranges.reverse();
    let mut points = Vec::new();
    for range in ranges {
        // Three accesses for each page of the map bring a cache to its steady state.
        let warm = (3 * range / GRID).clamp(500, 200_000);
        let count = (range / GRID).clamp(1_000, 4_000);
        let run = bench.run(reads(random_reads(bench, range, warm + count, places), 1)).await?;
        points.push((range as f64, mean(&run.after(warm as usize))));
        bench.control().await;
    }
    let last = points.last()?.0;
    let candidates: Vec<f64> = std::iter::successors(Some(SWEEP_MIN as f64), |size| Some(size * 1.04))
        // Two points must lie beyond a level, or the noise of the last point would count as a level.
        .take_while(|size| *size < 0.7 * last)
        .collect();
    let found = knees(&points, &candidates);
    let rise = found.levels.iter().map(|level| level.1).reduce(f64::min);
    // Without a level, the smallest rise that the pattern would have detected counts.
    let rise = rise.unwrap_or(SHARE_LOW * found.base);
    Some(Sweep { points, levels: found.levels.iter().map(|level| level.0 as u64).collect(), rise })
}

/// Reports the coverage. The rule is that of the fit: each level must explain three quarters of the remaining variance.
fn report_coverage(bench: &Bench, before: u64, swept: &Sweep, places: Places) {
    let Sweep { points, levels, rise } = swept;
    let last = points.last().map_or(0, |point| point.0 as u64);
    let verdict = if levels.is_empty() {
        Verdict::none(Value::NoneUpToBytes(last), "the latency of random reads does not depend on the range")
    } else {
        let (confidence, from) = match places {
            Places::All => (Confidence::High, "reads"),
            // A map page smaller than the grid would make the cache look larger.
            Places::Grid => (Confidence::Low, "reads of places 4 MiB apart"),
        };
        let reason = format!("the latency of random {from} rises as 1 - size / range beyond each size");
        Verdict::new(Value::Levels(levels.clone()), confidence, reason)
    };
    let verdict = verdict.effect(Effect::Means(*rise)).axes("range, B", "mean latency, ns");
    bench.find(Name::MapCoverage, before, verdict.line("random reads", points.clone()));
}

/// Runs random reads at doubling queue depths, in `region`, which was written, or else in the first [`NEAR`]
/// bytes. The useful depth is the least depth that reaches 90 % of the greatest throughput.
async fn queue_depth(bench: &Bench, region: Option<&Range<u64>>, before: u64) {
    let near = 0..NEAR.min(bench.geometry.capacity / GRID * GRID);
    let Range { start, end } = region.unwrap_or(&near).clone();
    let length = random_read(bench);
    let places = |count: u64| {
        (0..count).map(|_| (start + bench.below((end - start) / length) * length, length)).collect()
    };
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut depth = 1;
    while depth <= DEPTH_MAX {
        let count = u64::from(depth) * 64 + 1_000;
        let Some(run) = bench.run(reads(places(count), depth)).await else {
            return bench.skip(Name::QueueDepth, "the device refused the reads");
        };
        let end = run.completed_ns.iter().max().copied().unwrap_or(1).max(1);
        points.push((f64::from(depth), count as f64 * 1e9 / end as f64));
        bench.control().await;
        depth *= 2;
    }
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let useful = points.iter().find(|point| point.1 >= 0.9 * most).map_or(1, |point| point.0 as u64);
    let gain = most / points[0].1;
    let mut reason = format!("the throughput at the best depth is {gain:.2} times that at depth 1");
    let mut confidence = if (1.05..1.25).contains(&gain) { Confidence::Low } else { Confidence::High };
    if region.is_none() {
        confidence = Confidence::Low;
        reason += "; the data may never have been written";
    }
    // Delays of several requests overlap, so that they look like requests that the device serves in parallel.
    let effect = match useful {
        1 => Effect::Means(0.05 * 1e9 / points[0].1),
        _ => Effect::Overlap(1e9 / points[0].1 - 1e9 / most),
    };
    let verdict = Verdict::new(Value::Count(useful), confidence, reason).effect(effect);
    bench.find(
        Name::QueueDepth,
        before,
        verdict.axes("queue depth", "reads per second").line("random reads", points),
    );
}

/// Returns a read across an odd multiple of `boundary` in `region`.
fn across(bench: &Bench, region: &Range<u64>, boundary: u64) -> (u64, u64) {
    let count = (region.end - region.start) / (2 * boundary) - 1;
    (region.start + (2 * bench.below(count) + 1) * boundary - READ / 2, READ)
}

/// Reads across multiples of half of `page` and of `page` in turn. Returns the confidence that reads across
/// multiples of `page` take longer.
async fn in_turn(bench: &Bench, region: &Range<u64>, page: u64) -> Confidence {
    let places = (0..2_000).map(|i| across(bench, region, if i % 2 == 0 { page / 2 } else { page }));
    let Some(run) = bench.run(reads(places.collect(), 1)).await else { return Confidence::None };
    let times = run.after(100);
    let of = |kind: usize| times.iter().copied().skip(kind).step_by(2).collect::<Vec<f64>>();
    Contrast::of(&of(0), &of(1)).is_slower()
}

/// Reads 4 KiB across odd multiples of each power of two. The page is the smallest power whose multiples are slower to
/// read across than those of half its size, and slower than reads that cross no boundary. `region` was written in sequence.
async fn read_page(bench: &Bench, region: Range<u64>) {
    let before = bench.written();
    let size = region.end - region.start;
    let mut series: Vec<(u64, Vec<f64>)> = Vec::new();
    for boundary in Bench::doubling(READ / 2, MIB.min(size / 8)) {
        let requests = (0..1_000).map(|_| across(bench, &region, boundary)).collect();
        let Some(run) = bench.run(reads(requests, 1)).await else {
            return bench.skip(Name::ReadPage, "the device refused the reads");
        };
        series.push((boundary, run.after(100)));
        bench.control().await;
    }
    let within = &series[0].1;
    let found = series.windows(2).find_map(|pair| {
        let step = Contrast::of(&pair[0].1, &pair[1].1).is_slower();
        let total = Contrast::of(within, &pair[1].1).is_slower();
        let rise = mean(&pair[1].1) - mean(&pair[0].1);
        (step.min(total) > Confidence::None).then(|| (pair[1].0, step.min(total), rise))
    });
    // Reads of both kinds alternate here, so that they meet the same load of the host.
    let found = match found {
        Some((page, confidence, rise)) => {
            let again = in_turn(bench, &region, page).await;
            Some((page, confidence.min(again), rise)).filter(|found| found.1 > Confidence::None)
        }
        None => None,
    };
    // For high confidence, reads across multiples of every larger power must take longer too, because these
    // multiples are also boundaries of the page.
    let verdict = match found {
        Some((page, confidence, rise)) => {
            let larger = series.iter().filter(|(boundary, _)| *boundary >= page);
            let all = larger.map(|(_, times)| Contrast::of(within, times).is_slower()).min();
            let confidence = confidence.min(all.unwrap_or(Confidence::None)).max(Confidence::Low);
            let reason = "reads across its multiples take longer";
            Verdict::new(Value::Bytes(page), confidence, reason).effect(Effect::Means(rise))
        }
        None => Verdict::none(
            Value::NoneUpToBytes(series.last().map_or(0, |last| last.0)),
            "reads across boundaries take as long as others",
        ),
    };
    let points = series.iter().map(|(boundary, times)| (*boundary as f64, mean(times))).collect();
    bench.find(
        Name::ReadPage,
        before,
        verdict.axes("multiple that a read crosses, B", "mean latency, ns").line("reads of 4 KiB", points),
    );
}
