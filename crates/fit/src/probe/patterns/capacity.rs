//! Counterfeit capacity: devices that claim more than they store.

use super::{Bench, Confidence, MIB, Name, Value, Verdict};
use crate::probe::MARK_BYTES;

/// Offset of the mark that overwrites its aliases on a device that wraps. It is not a power of two, so that
/// no other mark coincides with it.
const BASE: u64 = 3 * MIB;

/// Checks the capacity. Returns false if the device is a counterfeit, so that no other pattern makes sense.
///
/// Marks lie at `BASE` plus each power of two and in the last block. They are written in descending order of
/// their offsets, with `BASE` last. A device that drops writes loses the marks beyond its end; a binary
/// search between the smallest bad mark and the largest good one below it finds the end. A device that wraps
/// at a power of two keeps only one of the marks that alias `BASE`, and the smallest lost mark is `BASE` plus
/// the real capacity. On a device that wraps elsewhere, two other marks may alias each other; their distance
/// is a multiple of the real capacity.
pub(super) async fn run(bench: &Bench) -> bool {
    let before = bench.written();
    let capacity = bench.geometry.capacity;
    let mark = MARK_BYTES.max(bench.geometry.block);
    if capacity < mark {
        bench.skip(Name::Capacity, "the device is too small");
        return true;
    }
    let base = BASE.min(capacity / 4 / mark * mark);
    let last = (capacity - mark) / mark * mark;
    let mut offsets: Vec<u64> =
        Bench::doubling(MIB, capacity).map(|power| base + power).filter(|at| *at < last).collect();
    offsets.push(last);
    offsets.reverse();
    offsets.push(base);
    let Some(found) = bench.mark(offsets.clone()).await else {
        bench.skip(Name::Capacity, "the target cannot compare data");
        return true;
    };
    let points = offsets.iter().zip(&found).rev().map(|(at, good)| (*at as f64, f64::from(u8::from(*good))));
    let points: Vec<(f64, f64)> = points.collect();
    let lost: Vec<u64> = offsets.iter().zip(&found).filter(|(_, good)| !**good).map(|(at, _)| *at).collect();
    let Some(bad) = lost.iter().copied().min() else {
        let reason = format!("{} marked blocks up to the last one were read back", offsets.len());
        let verdict = Verdict::new(Value::Bytes(capacity), Confidence::High, reason);
        bench.find(Name::Capacity, before, verdict.axes("offset, B", "read back").line("marks", points));
        return true;
    };
    let good = offsets.iter().copied().filter(|at| *at < bad && !lost.contains(at)).max().unwrap_or(0);
    let again = bench.mark(vec![base, bad]).await.unwrap_or_default();
    let (end, confidence, kind) = match again[..] {
        [false, true] if (bad - base).is_power_of_two() => {
            (bad - base, Confidence::High, "addresses beyond it alias the first ones")
        }
        [_, true] => (bad - base, Confidence::Low, "addresses wrap at a capacity of at most this size"),
        _ => (first_lost(bench, good, bad, mark).await, Confidence::High, "writes beyond it are lost"),
    };
    let reason = format!("of {} marked blocks, {} were lost: {kind}", offsets.len(), lost.len());
    let verdict = Verdict::new(Value::Bytes(end), confidence, reason);
    bench.find(Name::Capacity, before, verdict.axes("offset, B", "read back").line("marks", points));
    false
}

/// Searches between a good mark and a lost one. Returns the place of the lost mark next to a good one.
async fn first_lost(bench: &Bench, mut good: u64, mut bad: u64, mark: u64) -> u64 {
    while bad - good > mark {
        let middle = good.midpoint(bad) / mark * mark;
        match bench.mark(vec![middle]).await.as_deref() {
            Some([true]) => good = middle,
            _ => bad = middle,
        }
    }
    bad
}
