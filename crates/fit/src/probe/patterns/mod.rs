//! The micro-patterns, one file per group of findings. [`all`] runs them in order.

mod buffer;
mod capacity;
mod reads;
mod spare;
mod state;
mod streams;
#[cfg(test)]
mod tests;
mod units;

use super::finding::{Name, Value};
use super::machine::{Bench, Verdict};
use super::noise::Effect;
use super::statistics::{Contrast, SHARE_LOW, intercept, knees, mean, median, step_period};
use super::{Confidence, Direction, Series};
use flashlab_sim::Duration;
use std::ops::Range;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Idle period in which a device empties its buffers.
pub(super) const DRAIN: Duration = Duration::from_secs(2);

/// Ratio at and above which a difference cannot come from erase blocks of different speed.
const CERTAIN: f64 = 1.25;

/// Runs all patterns.
pub(super) async fn all(bench: Bench) {
    bench.control().await;
    let destroy = bench.options.destroy;
    if destroy && !capacity::run(&bench).await {
        return bench.complete().await;
    }
    if !destroy {
        bench.skip(Name::Capacity, "needs writes");
    }
    reads::run(&bench).await;
    if destroy {
        write_patterns(&bench).await;
    } else {
        for name in WRITE_FINDINGS {
            bench.skip(name, "needs writes");
        }
    }
    bench.complete().await;
}

/// Runs the pattern of the capacity alone.
pub(super) async fn only_capacity(bench: Bench) {
    capacity::run(&bench).await;
    bench.complete().await;
}

/// Reason why a pattern is left out.
const HIDDEN: &str = "the write buffer hides it";

async fn write_patterns(bench: &Bench) {
    bench.complete().await;
    let write_buffer = buffer::write_buffer(bench).await;
    bench.complete().await;
    let (mut program_unit, mut open) = (None, None);
    if write_buffer.is_some() {
        for name in [Name::ProgramUnit, Name::PartialUnitCost, Name::OpenUnits] {
            bench.skip(name, HIDDEN);
        }
    } else {
        program_unit = units::program_unit(bench).await;
        bench.complete().await;
        open = streams::open_units(bench, program_unit).await;
    }
    bench.complete().await;
    if streams::allocation_unit(bench, program_unit, open).await {
        bench.skip(Name::RandomWriteUnit, "the merges of allocation units hide it");
    } else {
        bench.complete().await;
        units::random_write_unit(bench).await;
    }
    bench.complete().await;
    if write_buffer.is_some() {
        bench.skip(Name::RewriteUnit, HIDDEN);
    } else {
        units::rewrite_unit(bench).await;
    }
    bench.complete().await;
    buffer::slc_buffer(bench).await;
    bench.complete().await;
    buffer::rewrite_area(bench, write_buffer).await;
    bench.complete().await;
    state::discard(bench).await;
    bench.complete().await;
    state::idle(bench).await;
    bench.complete().await;
    spare::run(bench).await;
}

/// Findings of the patterns that write, except the capacity.
const WRITE_FINDINGS: [Name; 13] = [
    Name::ProgramUnit,
    Name::PartialUnitCost,
    Name::OpenUnits,
    Name::AllocationUnit,
    Name::RandomWriteUnit,
    Name::RewriteUnit,
    Name::WriteBuffer,
    Name::SlcBuffer,
    Name::RewriteArea,
    Name::Discard,
    Name::DiscardReads,
    Name::Idle,
    Name::OverProvisioning,
];

/// Returns a series of writes.
fn writes(requests: Vec<(u64, u64)>) -> Series {
    Series { direction: Direction::Write, requests, depth: 1 }
}

/// Returns a series of reads.
fn reads(requests: Vec<(u64, u64)>, depth: u32) -> Series {
    Series { direction: Direction::Read, requests, depth }
}

/// Returns the requests that cover `range` in order, each of at most `size` bytes.
fn sequence(range: Range<u64>, size: u64) -> Vec<(u64, u64)> {
    range.clone().step_by(size as usize).map(|at| (at, size.min(range.end - at))).collect()
}

impl Bench {
    /// Returns the sizes from `first` to `last` that are powers of two times `first`.
    fn doubling(first: u64, last: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(first), |size| Some(size * 2)).take_while(move |size| *size <= last)
    }

    /// Returns the size of a large request: the largest that reaches the device unsplit, but at most 1 MiB.
    fn large(&self) -> u64 {
        self.geometry.request_max.clamp(self.geometry.block, MIB)
    }

    /// Divides the device into regions of `bytes`, rounded up to 64 MiB (to 4 MiB on a device below 4 GiB),
    /// and returns the first `bytes` bytes of region `index` (modulo the number of regions). Returns `None`
    /// if no region fits, or if `bytes` is zero, since a share of a very small device may be rounded down to
    /// zero.
    fn region(&self, index: u64, bytes: u64) -> Option<Range<u64>> {
        let align = if self.geometry.capacity >= 4 * GIB { 64 * MIB } else { 4 * MIB };
        let size = bytes.next_multiple_of(align);
        let count = self.geometry.capacity.checked_div(size).filter(|count| *count > 0)?;
        let start = (index % count) * size;
        Some(start..start + bytes)
    }

    /// Fills a range in sequence and lets the device become idle.
    async fn fill(&self, range: Range<u64>) {
        self.run(writes(sequence(range, self.large()))).await;
        self.idle(DRAIN).await;
    }
}
