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

/// A partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Partition {
    /// Number of its entry in the table, from 1. Entries before it may be unused.
    pub(super) number: usize,
    /// Offset in bytes.
    pub(super) offset: u64,
    /// Size in bytes.
    pub(super) size: u64,
}

/// Returns the partitions, or an empty list if the device has no partition table.
pub(super) fn partitions(bytes: &Bytes) -> Result<Vec<Partition>, DiffError> {
    let start = bytes.up_to(0, 2 * SECTOR).map_err(DiffError::Bytes)?;
    if start.get(510..512) != Some(&[0x55, 0xaa]) {
        return Ok(Vec::new());
    }
    let entries: Vec<&[u8]> = start[446..510].chunks_exact(16).collect();
    if entries.iter().any(|entry| entry[4] == 0xee) {
        return gpt(bytes, &start[512..]);
    }
    let used = (1..).zip(entries).filter(|(_, entry)| entry[4] != 0);
    Ok(used.map(|(n, entry)| partition(n, number(&entry[8..12]), number(&entry[12..16]))).collect())
}

fn gpt(bytes: &Bytes, header: &[u8]) -> Result<Vec<Partition>, DiffError> {
    // The fields of the header up to the size of an entry.
    if header.len() < 88 || !header.starts_with(b"EFI PART") {
        return Ok(Vec::new());
    }
    let (at, count, length) = (number(&header[72..80]), number(&header[80..84]), number(&header[84..88]));
    if !(128..=4096).contains(&length) {
        return Ok(Vec::new());
    }
    let offset = at.saturating_mul(SECTOR);
    let entries = bytes.up_to(offset, count.min(PARTITIONS_MAX) * length).map_err(DiffError::Bytes)?;
    let used = (1..).zip(entries.chunks_exact(length as usize)).filter(|(_, entry)| entry[..16] != [0; 16]);
    Ok(used
        .map(|(n, entry)| {
            let (first, last) = (number(&entry[32..40]), number(&entry[40..48]));
            partition(n, first, last.saturating_sub(first).saturating_add(1))
        })
        .collect())
}

fn partition(number: usize, first: u64, sectors: u64) -> Partition {
    Partition { number, offset: first.saturating_mul(SECTOR), size: sectors.saturating_mul(SECTOR) }
}

/// Returns a number with its lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn partitions_of(bytes: &[u8]) -> Vec<Partition> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        partitions(&Bytes::of_image(file).unwrap()).unwrap()
    }

    #[test]
    fn an_image_that_ends_in_the_header_of_a_gpt_has_no_partitions() {
        let mut image = vec![0; 600];
        image[446 + 4] = 0xee;
        image[510..512].copy_from_slice(&[0x55, 0xaa]);
        image[512..520].copy_from_slice(b"EFI PART");
        for length in [512, 519, 520, 599, 600] {
            assert_eq!(partitions_of(&image[..length]), [], "{length} bytes");
        }
    }

    #[test]
    fn unused_entries_count_in_the_numbers() {
        let mut image = vec![0; 1024];
        image[510..512].copy_from_slice(&[0x55, 0xaa]);
        let third = &mut image[446 + 32..][..16];
        (third[4], third[8], third[12]) = (0x83, 8, 2);
        assert_eq!(partitions_of(&image), [Partition { number: 3, offset: 4096, size: 1024 }]);
    }
}
