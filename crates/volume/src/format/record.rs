//! Records: changes of the map and of the buckets, and salts of mounts. Journal entries and checkpoints
//! contain records.

use super::wire::{Get, Put};
use super::{Fault, MEMBERS_MAX};
use crate::encode::{Check, Compression};
use crate::extent::{BLOCKS_MAX, Extent, ExtentState, LENGTH_MAX, POINTERS_MAX, Pointer, STORED_MAX, Writer};
use crate::keys::TAG_LEN;

const MAP: u8 = 1;
const UNMAP: u8 = 2;
const OPEN: u8 = 3;
const EPOCH: u8 = 4;

const CHECK_CRC32C: u8 = 1;
const CHECK_XXH3: u8 = 2;
const CHECK_TAGS: u8 = 3;

/// Length of a record of a mapped extent in bytes, without its checks and pointers.
const MAP_LEN: usize = 25;
/// Length of a pointer in bytes.
const POINTER_LEN: usize = 14;
/// Length in bytes of the numbers of the mount and of the write that accompany tags.
pub(crate) const TAG_WRITER_LEN: usize = 12;
/// Length of a record of a mount in bytes.
pub(crate) const EPOCH_LEN: usize = 21;
/// Length of a record of a bucket's generation in bytes.
pub(crate) const OPEN_LEN: usize = 10;

/// A change of the map or of a bucket, or the salt of a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Maps the live range of an extent, and replaces earlier extents in this range.
    Map(Extent),
    /// Unmaps a range of blocks, which then reads as zeroes.
    Unmap {
        /// First block.
        start: u64,
        /// Number of blocks.
        length: u64,
    },
    /// Sets the generation of a bucket that a stream began to fill, or whose cached copies were evicted.
    /// Pointers of older generations are void.
    Open {
        /// Number of the member.
        member: u8,
        /// Number of the bucket.
        bucket: u32,
        /// New generation.
        generation: u32,
    },
    /// Stores the salt of a mount that opened the volume for writing.
    Epoch {
        /// Number of the mount.
        mount: u32,
        /// Random salt of the mount's keys.
        salt: [u8; 16],
    },
}

impl Record {
    /// Appends the record to `to`.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Record::Map(extent) => Record::encode_map(extent, to),
            Record::Unmap { start, length } => {
                to.u8(UNMAP);
                to.u64(*start);
                to.u64(*length);
            }
            Record::Open { member, bucket, generation } => {
                to.u8(OPEN);
                to.u8(*member);
                to.u32(*bucket);
                to.u32(*generation);
            }
            Record::Epoch { mount, salt } => {
                to.u8(EPOCH);
                to.u32(*mount);
                to.extend_from_slice(salt);
            }
        }
    }

    /// Appends a record that maps `extent`.
    pub fn encode_map(extent: &Extent, to: &mut Vec<u8>) {
        to.u8(MAP);
        to.u64(extent.end());
        to.u16(extent.length());
        to.u16(extent.skip());
        to.u16(extent.whole());
        to.u8(extent.compression() as u8);
        to.u8(extent.state() as u8);
        to.u32(extent.stored());
        encode_check(extent, to);
        to.u8(extent.pointers().len() as u8);
        for pointer in &*extent.pointers() {
            to.u8(pointer.member);
            to.u8(u8::from(pointer.cached));
            to.u32(pointer.bucket);
            to.u32(pointer.offset);
            to.u32(pointer.generation);
        }
    }

    /// Returns the length of a record that maps an extent with this number of copies. `check` is the number
    /// of bytes of its checksums, or of its tags and [`TAG_WRITER_LEN`].
    pub(crate) fn map_len(check: usize, copies: usize) -> usize {
        MAP_LEN + check + POINTER_LEN * copies
    }

    /// Decodes all records of `bytes` in order, and passes each one to `apply`.
    ///
    /// # Errors
    /// Returns the first fault of the bytes, or the first error of `apply`.
    pub fn decode_all(bytes: &[u8], mut apply: impl FnMut(Record) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut get = Get(bytes);
        while !get.0.is_empty() {
            apply(Record::decode(&mut get)?)?;
        }
        Ok(())
    }

    fn decode(get: &mut Get<'_>) -> Result<Record, Fault> {
        Ok(match get.u8()? {
            MAP => Record::Map(decode_extent(get)?),
            UNMAP => Record::Unmap { start: get.u64()?, length: get.u64()? },
            OPEN => Record::Open { member: get.u8()?, bucket: get.u32()?, generation: get.u32()? },
            EPOCH => Record::Epoch { mount: get.u32()?, salt: get.array()? },
            _ => return Err(Fault::Field("record")),
        })
    }
}

fn encode_check(extent: &Extent, to: &mut Vec<u8>) {
    if let Some(sum) = extent.single_sum() {
        to.u8(CHECK_CRC32C);
        to.u16(1);
        to.u32(sum);
        return;
    }
    match &extent.check() {
        Check::Crc32c(sums) => {
            to.u8(CHECK_CRC32C);
            to.u16(sums.len() as u16);
            sums.iter().for_each(|sum| to.u32(*sum));
        }
        Check::Xxh3(sums) => {
            to.u8(CHECK_XXH3);
            to.u16(sums.len() as u16);
            sums.iter().for_each(|sum| to.u64(*sum));
        }
        Check::Tags(tags) => {
            to.u8(CHECK_TAGS);
            to.u16(tags.len() as u16);
            tags.iter().for_each(|tag| to.extend_from_slice(tag));
            let Writer { epoch, write } = extent.writer();
            to.u32(epoch);
            to.u64(write);
        }
    }
}

fn decode_check(get: &mut Get<'_>) -> Result<(Check, Writer), Fault> {
    let (kind, count) = (get.u8()?, usize::from(get.u16()?));
    Ok(match kind {
        CHECK_CRC32C => {
            let sums = get.bytes(count * 4)?.as_chunks().0.iter().map(|sum| u32::from_le_bytes(*sum));
            (Check::Crc32c(sums.collect()), Writer::default())
        }
        CHECK_XXH3 => {
            let sums = get.bytes(count * 8)?.as_chunks().0.iter().map(|sum| u64::from_le_bytes(*sum));
            (Check::Xxh3(sums.collect()), Writer::default())
        }
        CHECK_TAGS => {
            let tags = get.bytes(count * TAG_LEN)?.as_chunks().0.to_vec();
            (Check::Tags(tags), Writer { epoch: get.u32()?, write: get.u64()? })
        }
        _ => return Err(Fault::Field("check")),
    })
}

fn decode_extent(get: &mut Get<'_>) -> Result<Extent, Fault> {
    let (end, length, skip, whole) = (get.u64()?, get.u16()?, get.u16()?, get.u16()?);
    let compression = Compression::from_byte(get.u8()?).ok_or(Fault::Field("compression"))?;
    let state = match get.u8()? {
        0 => ExtentState::Normal,
        1 => ExtentState::Poisoned,
        2 => ExtentState::Incompressible,
        _ => return Err(Fault::Field("state")),
    };
    let stored = get.u32()?;
    let (check, writer) = decode_check(get)?;
    let count = usize::from(get.u8()?);
    if count > POINTERS_MAX {
        return Err(Fault::Field("pointers"));
    }
    let mut pointers = Vec::with_capacity(count);
    for _ in 0..count {
        let member = get.u8()?;
        if usize::from(member) >= MEMBERS_MAX {
            return Err(Fault::Field("member"));
        }
        pointers.push(Pointer {
            member,
            cached: get.flag("cached")?,
            bucket: get.u32()?,
            offset: get.u32()?,
            generation: get.u32()?,
        });
    }
    if length == 0 || u64::from(length) > end || u32::from(skip) + u32::from(length) > u32::from(whole) {
        return Err(Fault::Field("live range"));
    }
    if end >= BLOCKS_MAX || whole > LENGTH_MAX || stored >= STORED_MAX {
        return Err(Fault::Field("length"));
    }
    if pointers.is_empty() && state != ExtentState::Poisoned {
        return Err(Fault::Field("pointers"));
    }
    let extent = Extent::new((end, whole), stored, compression, &check, writer, &pointers);
    Ok(extent.with_live(length, skip, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_records_are_those_of_their_encoding() {
        let pointer = Pointer { member: 1, cached: false, bucket: 2, offset: 3, generation: 4 };
        let writer = Writer { epoch: 1, write: 2 };
        let checks = [
            (Check::Crc32c(vec![5]), 4),
            (Check::Xxh3(vec![5; 2]), 16),
            (Check::Tags(vec![[5; TAG_LEN]]), TAG_LEN + TAG_WRITER_LEN),
        ];
        for (check, bytes) in checks {
            for copies in 1..=POINTERS_MAX {
                let extent =
                    Extent::new((8, 1), 512, Compression::None, &check, writer, &vec![pointer; copies]);
                let mut encoded = Vec::new();
                Record::encode_map(&extent, &mut encoded);
                assert_eq!(encoded.len(), Record::map_len(bytes, copies), "{check:?}");
            }
        }
        let mut encoded = Vec::new();
        Record::Open { member: 0, bucket: 1, generation: 2 }.encode(&mut encoded);
        assert_eq!(encoded.len(), OPEN_LEN);
    }
}
