//! Limits on the sizes of a volume. The sizes are checked when a volume is created and when a superblock is
//! read, so the engine can rely on the limits.

use std::ops::RangeInclusive;

/// Smallest number of buckets of a member, in addition to those of the journal.
const BUCKETS_MIN: u32 = 8;
/// Largest number of buckets of a member, which take 1 GiB of memory: 64 TiB in buckets of 1 MiB.
pub(crate) const BUCKETS_MAX: u32 = 1 << 26;
/// Largest size of the journal in bytes.
const JOURNAL_MAX: u64 = 1 << 30;

/// The sizes that are fixed for the life of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) block: u32,
    pub(crate) bucket: u32,
    pub(crate) checksum_block: u32,
    pub(crate) extent_max: u32,
}

/// A size that is not a power of two within its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutOfRange {
    pub(crate) name: &'static str,
    pub(crate) value: u32,
    pub(crate) min: u32,
    pub(crate) max: u32,
}

impl Sizes {
    /// Checks that each size is a power of two within its range.
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        let Sizes { block, bucket, checksum_block, extent_max } = *self;
        power_of_two("block", block, 512, 4096)?;
        power_of_two("bucket", bucket, 16 << 10, 64 << 20)?;
        power_of_two("checksum_block", checksum_block, block, 64 << 10)?;
        power_of_two("extent_max", extent_max, checksum_block, (256 << 10).min(bucket / 4))
    }
}

fn power_of_two(name: &'static str, value: u32, min: u32, max: u32) -> Result<(), OutOfRange> {
    if value.is_power_of_two() && (min..=max).contains(&value) {
        return Ok(());
    }
    Err(OutOfRange { name, value, min, max })
}

/// Returns the permitted sizes of a journal in bytes.
pub(crate) fn journal(bucket: u32) -> RangeInclusive<u64> {
    (64 << 10).max(2 * u64::from(bucket))..=JOURNAL_MAX
}

/// Returns the permitted numbers of buckets of a member.
pub(crate) fn buckets(journal_buckets: u32) -> RangeInclusive<u32> {
    (2 * BUCKETS_MIN).max(journal_buckets + BUCKETS_MIN)..=BUCKETS_MAX
}
