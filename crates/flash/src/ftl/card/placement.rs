//! The two placements of data in the erase blocks of a card, with their common operations.

use super::log_blocks::LogBlocks;
use super::log_structured::{LogStructured, Stream};
use super::mapped_granules::MappedGranules;
use super::medium::{Medium, Work};
use super::{Form, RewriteUnits};
use crate::ftl::ReadOnly;
use core::ops::Range;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Placement of data in erase blocks.
#[allow(clippy::large_enum_variant, reason = "a card has one, which stays where it is")]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Placement {
    /// Each rewrite unit is in an erase block of its own.
    BlockMapped(LogBlocks),
    /// Erase blocks are filled in write order.
    LogStructured { rewrite_units: RewriteUnits, log: LogStructured },
}

impl Placement {
    /// Prefetches the state of `offset`.
    pub(super) fn prefetch(&self, offset: u64) {
        match self {
            Placement::BlockMapped(log_blocks) => log_blocks.prefetch(offset),
            Placement::LogStructured { rewrite_units, .. } => rewrite_units.prefetch(offset),
        }
    }

    /// Returns the granules that are mapped.
    #[inline]
    pub(super) fn mapped(&self) -> &MappedGranules {
        match self {
            Placement::BlockMapped(log_blocks) => &log_blocks.mapped,
            Placement::LogStructured { rewrite_units, .. } => rewrite_units.mapped(),
        }
    }

    /// Returns the form of the map unit of `offset`, and the erase block of its last write.
    #[inline]
    pub(super) fn form_and_block(&self, offset: u64) -> (Form, u32) {
        match self {
            Placement::BlockMapped(log_blocks) => (Form::Sequential, log_blocks.last_block(offset)),
            Placement::LogStructured { rewrite_units, .. } => rewrite_units.form_and_block(offset),
        }
    }

    /// Returns the erase block of the last write.
    pub(super) fn last_block(&self) -> u32 {
        match self {
            Placement::BlockMapped(log_blocks) => log_blocks.latest_block(),
            Placement::LogStructured { log, .. } => log.last_block(),
        }
    }

    /// Returns the number of open rewrite units or erase blocks, whose ends recovery has to find.
    pub(super) fn open_count(&self) -> usize {
        match self {
            Placement::BlockMapped(log_blocks) => log_blocks.open_count(),
            Placement::LogStructured { log, .. } => log.open_count(),
        }
    }

    /// Writes `range` to its place, and adds the operations to `work`. `continues` is true if the write continues a run.
    pub(super) fn write(
        &mut self,
        range: &Range<u64>,
        continues: bool,
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        match self {
            Placement::BlockMapped(log_blocks) => log_blocks.write(range, medium, work)?,
            Placement::LogStructured { rewrite_units, log } => {
                if let Some(bytes) = medium.collect_step {
                    work.merge += log.collect_step(bytes, medium);
                }
                write_log_structured(rewrite_units, log, range, continues, medium, work)
                    .inspect_err(|_| rewrite_units.write_failed(range, |offset| log.is_stored(offset)))?;
            }
        }
        Ok(())
    }

    /// Writes the batch of `ranges`, whose whole granules are `packed`, and adds the operations to `work`.
    /// The layer must be log-structured, because only log-structured blocks take data of any address.
    pub(super) fn write_packed(
        &mut self,
        ranges: &[Range<u64>],
        packed: &[Range<u64>],
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        let Placement::LogStructured { rewrite_units, log } = self else {
            unreachable!("a block-mapped layer packs nothing")
        };
        if let Some(bytes) = medium.collect_step {
            work.merge += log.collect_step(bytes, medium);
        }
        let mut written = || {
            for range in ranges {
                write_in_units(rewrite_units, log, range, medium, work)?;
            }
            log.write_packed(packed, medium, work)
        };
        written().inspect_err(|_| {
            let is_stored = |offset| log.is_stored(offset);
            ranges.iter().for_each(|range| rewrite_units.write_failed(range, is_stored));
        })
    }

    /// Writes `moved`, data of one rewrite unit from the area for small writes, to its place. Returns the
    /// time. `work` must be empty before, and is unspecified afterwards.
    pub(super) fn fold(
        &mut self,
        moved: &[Range<u64>],
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<Duration, ReadOnly> {
        let bytes: u64 = moved.iter().map(|range| range.end - range.start).sum();
        medium.counters.fold_bytes += bytes;
        match self {
            Placement::BlockMapped(log_blocks) => {
                for range in moved {
                    log_blocks.write(range, medium, work)?;
                }
                Ok(medium.stream(bytes) + work.time())
            }
            Placement::LogStructured { rewrite_units, log } => {
                if let Some(bytes) = medium.collect_step {
                    work.merge += log.collect_step(bytes, medium);
                }
                let folded = fold_log_structured(rewrite_units, log, moved, medium, work);
                if folded.is_err() {
                    let is_stored = |offset| log.is_stored(offset);
                    moved.iter().for_each(|range| rewrite_units.write_failed(range, is_stored));
                }
                Ok(work.time() + folded?)
            }
        }
    }

    /// Unmaps `range`, which consists of whole granules.
    pub(super) fn trim(&mut self, range: &Range<u64>, medium: &mut Medium) {
        match self {
            Placement::BlockMapped(log_blocks) => log_blocks.trim(range, medium),
            Placement::LogStructured { rewrite_units, log } => {
                rewrite_units.trim(range.clone());
                log.trim(range, medium);
            }
        }
    }
}

/// Appends `range` to the log, with the copies that its rewrite units require.
fn write_log_structured(
    rewrite_units: &mut RewriteUnits,
    log: &mut LogStructured,
    range: &Range<u64>,
    continues: bool,
    medium: &mut Medium,
    work: &mut Work,
) -> Result<(), ReadOnly> {
    let mut stream = write_in_units(rewrite_units, log, range, medium, work)?;
    // If each rewrite unit is one granule, every write covers whole rewrite units. The rewrite units then do
    // not show whether the write continues a run.
    if rewrite_units.are_granules() && !continues {
        stream = Stream::Random;
    }
    log.write(stream, range, medium, work)
}

/// Appends `moved`, data of one rewrite unit from the area for small writes, to the log. Adds the copies that the unit
/// requires to `work`, and returns the time of the rest.
fn fold_log_structured(
    rewrite_units: &mut RewriteUnits,
    log: &mut LogStructured,
    moved: &[Range<u64>],
    medium: &mut Medium,
    work: &mut Work,
) -> Result<Duration, ReadOnly> {
    let mut stream = Stream::Sequential;
    for range in moved {
        if write_in_units(rewrite_units, log, range, medium, work)? == Stream::Random {
            stream = Stream::Random;
        }
    }
    log.fold(stream, moved, medium)
}

/// Records a write of `range` in its rewrite units, and makes the copies that they require. Returns the stream to which
/// its data belongs.
fn write_in_units(
    rewrite_units: &mut RewriteUnits,
    log: &mut LogStructured,
    range: &Range<u64>,
    medium: &mut Medium,
    work: &mut Work,
) -> Result<Stream, ReadOnly> {
    let copies = rewrite_units.write(range.clone(), log.last_block());
    if copies.read_modify_write > 0 {
        work.read_modify_write += log.copy(Stream::Random, rewrite_units.rewritten(), medium)?;
        medium.counters.read_modify_write_bytes += copies.read_modify_write;
    }
    if copies.merge > 0 {
        work.merge += log.copy(Stream::Sequential, rewrite_units.merged(), medium)?;
        medium.counters.merge_bytes += copies.merge;
    }
    Ok(if rewrite_units.is_sequential() { Stream::Sequential } else { Stream::Random })
}
