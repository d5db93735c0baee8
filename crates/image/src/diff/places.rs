//! The places of filesystems: signatures, and the partitions of an MBR or a GPT.

use super::{Bytes, DiffError, Found};
use crate::table::SECTOR;

/// Largest number of partitions that are read from a GPT.
const PARTITIONS_MAX: u64 = 128;

/// Returns the format of a filesystem from its signature.
pub(super) fn format(bytes: &Bytes) -> Result<Option<Found>, DiffError> {
    let start = bytes.up_to(0, 2048).map_err(DiffError::Bytes)?;
    let has = |at: usize, signature: &[u8]| start.get(at..at + signature.len()) == Some(signature);
    Ok(if has(1080, &[0x53, 0xef]) {
        Some(Found::Ext)
    } else if has(1024, &[0xe2, 0xe1, 0xf5, 0xe0]) {
        Some(Found::ReadOnly("EROFS"))
    } else if has(0, b"hsqs") {
        Some(Found::ReadOnly("SquashFS"))
    } else if has(510, &[0x55, 0xaa]) && (has(82, b"FAT32") || has(54, b"FAT1")) {
        Some(Found::Fat)
    } else {
        None
    })
}

/// Returns offset and size of each partition; nothing without a partition table.
pub(super) fn partitions(bytes: &Bytes) -> Result<Vec<(u64, u64)>, DiffError> {
    let start = bytes.up_to(0, 2 * SECTOR).map_err(DiffError::Bytes)?;
    if start.get(510..512) != Some(&[0x55, 0xaa]) {
        return Ok(Vec::new());
    }
    let entries: Vec<&[u8]> = start[446..510].chunks_exact(16).filter(|entry| entry[4] != 0).collect();
    if entries.iter().any(|entry| entry[4] == 0xee) {
        return gpt(bytes, &start[512..]);
    }
    Ok(entries.iter().map(|entry| place(number(&entry[8..12]), number(&entry[12..16]))).collect())
}

fn gpt(bytes: &Bytes, header: &[u8]) -> Result<Vec<(u64, u64)>, DiffError> {
    if header.get(..8) != Some(b"EFI PART") {
        return Ok(Vec::new());
    }
    let (at, count, length) = (number(&header[72..80]), number(&header[80..84]), number(&header[84..88]));
    if !(128..=4096).contains(&length) {
        return Ok(Vec::new());
    }
    let offset = at.saturating_mul(SECTOR);
    let entries = bytes.up_to(offset, count.min(PARTITIONS_MAX) * length).map_err(DiffError::Bytes)?;
    let used = entries.chunks_exact(length as usize).filter(|entry| entry[..16] != [0; 16]);
    Ok(used
        .map(|entry| {
            let (first, last) = (number(&entry[32..40]), number(&entry[40..48]));
            place(first, last.saturating_sub(first).saturating_add(1))
        })
        .collect())
}

fn place(first: u64, sectors: u64) -> (u64, u64) {
    (first.saturating_mul(SECTOR), sectors.saturating_mul(SECTOR))
}

/// Returns a number with its lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
