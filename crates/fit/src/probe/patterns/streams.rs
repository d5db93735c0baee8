//! Open allocation units: how many there can be, and their size.

use super::{
    Bench, CERTAIN, Confidence, Contrast, DRAIN, Effect, GIB, KIB, MIB, Name, Value, Verdict, mean, median,
    sequence, step_period, writes,
};

/// Greatest number of streams that the pattern tries.
const STREAMS_MAX: u64 = 64;
/// Number of writes to each stream, and number of these writes that warm up the device.
const ROUNDS: u64 = 32;
const WARM_ROUNDS: u64 = 8;

/// Pairs of measurements that confirm a smaller difference.
const PAIRS: u64 = 8;
/// Ratio of the write time with several streams to that with two, above which the device must have closed units. A
/// switch between units that stay open costs less, and two streams already contain such switches.
const CLOSING: f64 = 2.0;
/// Ratio of the write times after and before a step. Above this ratio, the step alone shows the number of
/// open units.
const CLEAR: f64 = 1.5;
/// Largest ratio by which the time may rise after a smaller step. On a device that closes units, each write
/// is slow from the step on, so the time stays level. A time that keeps rising shows a cache that combines
/// the writes of each stream, and that has fewer writes to combine as streams are added.
const LEVEL: f64 = 1.1;
/// Places at which a single stream is measured.
const SINGLES: u64 = 8;

/// The result of a search for the number of open units.
struct Search {
    /// Number of streams, and the median latency of each stream.
    points: Vec<(u64, Vec<f64>)>,
    /// Greatest number of streams that costs no more.
    good: u64,
    /// Least number of streams that costs more, if there is one.
    bad: Option<u64>,
    /// True if the reference is two streams instead of one, because each switch between streams costs time.
    switches: bool,
}

/// Writes sequential streams in turn. The number of open units is the greatest number of streams that costs
/// no more per write than one stream of the same length. The search tries 1, 2, 4, ... streams, then bisects.
/// The median of each stream is one sample, because each stream is in another erase block, erase blocks
/// differ in speed, and an occasional write is slow in any case.
pub(super) async fn open_units(bench: &Bench, program_unit: Option<u64>) -> Option<u64> {
    let before = bench.written();
    let size = program_unit.unwrap_or(64 * KIB).min(bench.large());
    let spacing = bench.geometry.capacity / (STREAMS_MAX + 1) / (4 * MIB) * (4 * MIB);
    if spacing < 2 * ROUNDS * size {
        bench.skip(Name::OpenUnits, "the device is too small");
        return None;
    }
    let Some(search) = search_open_units(bench, size, spacing).await else {
        bench.skip(Name::OpenUnits, "the device refused the writes");
        return None;
    };
    let found = search.bad.map(|_| search.good);
    bench.find(Name::OpenUnits, before, open_units_verdict(search));
    found
}

/// Searches for the number of open units. Returns `None` if the device refuses the writes.
async fn search_open_units(bench: &Bench, size: u64, spacing: u64) -> Option<Search> {
    let mut one = Vec::new();
    for place in 0..SINGLES {
        one.extend(interleaved(bench, place, 1, size, spacing).await?);
    }
    let (mut good, mut bad) = (1, None);
    let mut points = vec![(1, one.clone())];
    while good < STREAMS_MAX && bad.is_none_or(|bad| bad - good > 1) {
        let tried = bad.map_or(good * 2, |bad| good.midpoint(bad));
        let times = interleaved(bench, 0, tried, size, spacing).await?;
        let long = single(bench, tried, size).await?;
        let contrast = Contrast::of_samples(&one, long, &times);
        let mut is_slower = contrast.is_slower() == Confidence::High;
        if is_slower && contrast.ratio() < CERTAIN {
            is_slower = is_confirmed(bench, tried, size, spacing).await?;
        }
        if is_slower {
            bad = Some(tried);
        } else {
            good = tried;
        }
        points.push((tried, times));
    }
    if bad != Some(2) {
        return Some(Search { points, good, bad, switches: false });
    }
    // A switch between units may have a cost of its own. A write that needs one unit more than can be open costs
    // several times as much.
    let two = median(&points[points.len() - 1].1);
    let (mut same, mut dearer) = (2, None);
    while same < STREAMS_MAX && dearer.is_none_or(|dearer| dearer - same > 1) {
        let tried = dearer.map_or(same * 2, |dearer| same.midpoint(dearer));
        let times = interleaved(bench, 0, tried, size, spacing).await?;
        if median(&times) > CLOSING * two {
            dearer = Some(tried);
        } else {
            same = tried;
        }
        points.push((tried, times));
    }
    Some(match dearer {
        Some(_) => Search { points, good: same, bad: dearer, switches: true },
        None => Search { points, good, bad, switches: false },
    })
}

fn open_units_verdict(search: Search) -> Verdict {
    let Search { mut points, good, bad, switches } = search;
    points.sort_by_key(|point| point.0);
    let at = |count: u64| points.iter().find(|point| point.0 == count).map(|point| median(&point.1));
    let is_clear = bad.and_then(|bad| {
        let step = at(bad)?;
        let after = points.iter().filter(|point| point.0 > bad).map(|point| median(&point.1));
        Some(step > CLEAR * at(good)? || after.fold(step, f64::max) <= LEVEL * step)
    });
    let verdict = match bad {
        Some(_) if switches => {
            let reason = format!(
                "interleaved writes to 2 to {good} streams take longer than writes to one, and writes to {} streams \
                 take at least {CLOSING} times as long as writes to 2",
                good + 1
            );
            Verdict::new(Value::Count(good), Confidence::High, reason)
        }
        Some(_) => {
            let reason = format!("interleaved writes to {} streams take longer than to {good}", good + 1);
            let confidence = if is_clear == Some(true) { Confidence::High } else { Confidence::Low };
            Verdict::new(Value::Count(good), confidence, reason)
        }
        None => Verdict::none(
            Value::NoneUpToCount(STREAMS_MAX),
            "interleaved writes to many streams take as long as writes to one",
        ),
    };
    let rise = bad.and_then(|bad| Some(at(bad)? - at(good)?));
    let line = points.iter().map(|(count, times)| (*count as f64, mean(times))).collect();
    verdict
        .effect(rise.map_or(Effect::Untimed, Effect::Means))
        .axes("streams", "mean latency, ns")
        .line("sequential writes in turn", line)
}

/// Compares `streams` streams with one stream in [`PAIRS`] alternating measurements, each time in other erase blocks.
/// Returns true if the difference has high confidence.
async fn is_confirmed(bench: &Bench, streams: u64, size: u64, spacing: u64) -> Option<bool> {
    let (mut one, mut many) = (vec![], vec![]);
    for _ in 0..PAIRS {
        one.push(single(bench, streams, size).await?);
        many.push(median(&interleaved(bench, 0, streams, size, spacing).await?));
    }
    Some(Contrast::of(&one, &many).is_slower() == Confidence::High)
}

/// Writes one stream as long as `streams` streams together. Returns the median latency after the same warm-up. A write
/// buffer that fills slows this stream as well.
async fn single(bench: &Bench, streams: u64, size: u64) -> Option<f64> {
    let writes_max = bench.geometry.capacity / 2 / size;
    let range = 0..(streams * ROUNDS).min(writes_max) * size;
    bench.discard(range.clone()).await;
    bench.idle(DRAIN).await;
    let times = bench.run(writes(sequence(range, size))).await?.after((WARM_ROUNDS * streams) as usize);
    Some(median(&times))
}

/// Writes `streams` streams in turn, from place `first` on. Returns the median latency of each stream after a warm-up.
async fn interleaved(bench: &Bench, first: u64, streams: u64, size: u64, spacing: u64) -> Option<Vec<f64>> {
    let places = first..first + streams;
    for place in places.clone() {
        bench.discard(place * spacing..place * spacing + ROUNDS * size).await;
    }
    bench.idle(DRAIN).await;
    let requests =
        (0..ROUNDS).flat_map(|round| places.clone().map(move |place| (place * spacing + round * size, size)));
    let times = bench.run(writes(requests.collect())).await?.after((WARM_ROUNDS * streams) as usize);
    let of = |stream| times.iter().copied().skip(stream).step_by(streams as usize).collect::<Vec<f64>>();
    Some((0..streams as usize).map(|stream| median(&of(stream))).collect())
}

/// Finds the allocation unit: as the unit that is merged when too many units are open, or otherwise as the
/// period of the write times in a long sequential stream. Returns true if the device merges units.
pub(super) async fn allocation_unit(bench: &Bench, program_unit: Option<u64>, open: Option<u64>) -> bool {
    if let Some(open) = open
        && merged_unit(bench, open).await
    {
        return true;
    }
    period(bench, program_unit).await;
    false
}

/// Size of a small write into a unit.
const SMALL: u64 = 4 * KIB;
const SEARCH_MAX: u64 = 64 * MIB;

/// Writes small pieces in turn to `open - 1` distant places, to x and to x + d. If x and x + d lie in one
/// unit, the device closes no unit. A binary search over d finds the end of the unit of x; two more searches
/// find the ends of the next two units, if the region contains these units. Returns false if the device
/// merges nothing.
async fn merged_unit(bench: &Bench, open: u64) -> bool {
    let before = bench.written();
    let spacing = bench.geometry.capacity / (STREAMS_MAX + 1) / (4 * MIB) * (4 * MIB);
    let most = SEARCH_MAX.min(bench.geometry.capacity / 8 / MIB * MIB);
    let Some(region) = bench.region(1, 2 * most) else { return false };
    bench.fill(region.clone()).await;
    let base = region.end.next_multiple_of(spacing) + spacing;
    let far: Vec<u64> =
        (0..open).map(|i| base + i * spacing).filter(|at| at + spacing < bench.geometry.capacity).collect();
    if (far.len() as u64) < open {
        return false;
    }
    let places = |x: u64, y: u64| -> Vec<u64> { far[1..].iter().copied().chain([x, y]).collect() };
    let x = region.start + SMALL;
    let Some(together) = in_turn(bench, &places(x, x + 2 * SMALL)).await else { return false };
    let Some(apart) = in_turn(bench, &places(x, x + most - 8 * SMALL)).await else { return false };
    let contrast = Contrast::of(&together, &apart);
    if contrast.is_slower() == Confidence::None || contrast.ratio() < 1.3 {
        return false;
    }
    let border = (contrast.first * contrast.second).sqrt();
    let mut points: Vec<(f64, f64)> = vec![];
    let mut ends: Vec<u64> = vec![];
    let mut x = x;
    for _ in 0..3 {
        let limit = (x + most).min(region.end - 2 * SMALL);
        let (mut inside, mut outside) = (x + 2 * SMALL, limit);
        while outside > inside + SMALL {
            let y = inside.midpoint(outside) / SMALL * SMALL;
            let Some(times) = in_turn(bench, &places(x, y)).await else { return false };
            let time = mean(&times);
            points.push(((y - region.start) as f64, time));
            if time > border { outside = y } else { inside = y }
        }
        if outside == limit {
            // No place outside the unit was found: the unit is too long, or the region ends before it.
            break;
        }
        ends.push(outside);
        x = outside + SMALL;
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let units: Vec<u64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let reason = |measured: &str| {
        let ratio = contrast.ratio();
        format!("writes to one unit more than can be open take {ratio:.1} times as long; {measured}")
    };
    let verdict = match units[..] {
        [] => Verdict::none(Value::NotMeasured, reason("the searched region contains no whole unit")),
        [one] => Verdict::new(Value::Bytes(one), Confidence::Low, reason("one unit was measured")),
        [one, two, ..] => {
            let confidence = if one == two { contrast.is_slower() } else { Confidence::Low };
            Verdict::new(Value::Bytes(one), confidence, reason("two units were measured"))
        }
    };
    let verdict = verdict.effect(contrast.effect());
    let verdict = verdict.axes("second place, B", "mean latency, ns").line("small writes in turn", points);
    bench.find(Name::AllocationUnit, before, verdict);
    true
}

/// Writes a piece to each of the places in turn, twelve times. Returns the times after a warm-up.
async fn in_turn(bench: &Bench, places: &[u64]) -> Option<Vec<f64>> {
    let requests = (0..12).flat_map(|_| places.iter().map(|at| (*at, SMALL)));
    Some(bench.run(writes(requests.collect())).await?.after(4 * places.len()))
}

/// Writes a long stream in program units. Erase blocks differ a little in speed, and the first write of a
/// block may pay for an erase, so the write times change at the boundaries of the allocation unit. The rule
/// needs at least six intervals between changes. The confidence is high if at least nine tenths of the
/// intervals are whole multiples of the unit, and low if at least three quarters are.
async fn period(bench: &Bench, program_unit: Option<u64>) {
    let before = bench.written();
    let size = program_unit.unwrap_or(64 * KIB).max(16 * KIB).min(bench.large());
    let bytes = (8_192 * size).min(GIB).min(bench.geometry.capacity / 2 / size * size);
    let Some(region) = bench.region(0, bytes) else {
        return bench.skip(Name::AllocationUnit, "the device is too small");
    };
    bench.discard(region.clone()).await;
    let start = region.start;
    let Some(run) = bench.run(writes(sequence(region, size))).await else {
        return bench.skip(Name::AllocationUnit, "the device refused the writes");
    };
    let times = run.after(0);
    let verdict = match step_period(&times) {
        Some((period, share, gaps)) if share >= 0.75 => {
            let confidence = if share >= 0.9 { Confidence::High } else { Confidence::Low };
            let reason = format!(
                "sequential write times change at its multiples: {:.0} % of {gaps} intervals fit",
                share * 100.0
            );
            // The difference between blocks is that between the fast tenth and the slow tenth of the writes.
            let mut sorted = times.clone();
            sorted.sort_by(f64::total_cmp);
            let spread = sorted[sorted.len() * 9 / 10] - sorted[sorted.len() / 10];
            let verdict = Verdict::new(Value::Bytes(period as u64 * size), confidence, reason);
            verdict.effect(Effect::Singles(spread))
        }
        _ => {
            let reason = "no unit is merged, and sequential write times have no period";
            Verdict::none(Value::NoneUpToBytes(bytes / 8), reason)
        }
    };
    let points: Vec<(f64, f64)> = times
        .iter()
        .enumerate()
        .map(|(i, time)| (start as f64 + (i as u64 * size) as f64, *time))
        .take(2_000)
        .collect();
    let verdict = verdict.axes("offset, B", "latency, ns").line("sequential writes", points);
    bench.find(Name::AllocationUnit, before, verdict);
}
