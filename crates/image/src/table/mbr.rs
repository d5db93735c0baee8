//! Master boot record: a signature of the disk, four entries and the mark 0x55aa.

use super::{Partition, Type};

/// Heads and sectors of the geometry that programs assume for addresses by cylinder.
const HEADS: u64 = 255;
const SECTORS: u64 = 63;

/// Returns the sector that contains the table.
pub(super) fn sector(partitions: &[Partition], signature: u32) -> Vec<u8> {
    let mut entries = [[0; 16]; 4];
    for (entry, partition) in entries.iter_mut().zip(partitions) {
        let Type::Mbr(kind) = partition.request.kind else { unreachable!("the type fits the table") };
        *entry = entry_bytes(partition.request.bootable, kind, partition.first, partition.sectors);
    }
    finish(signature, entries)
}

/// Returns the sector that protects a GPT from programs that do not know it (UEFI specification, 5.2.3).
pub(super) fn protective(sectors: u64) -> Vec<u8> {
    let mut entries = [[0; 16]; 4];
    entries[0] = entry_bytes(false, 0xee, 1, (sectors - 1).min(u32::MAX.into()));
    finish(0, entries)
}

fn entry_bytes(active: bool, kind: u8, first: u64, sectors: u64) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[0] = if active { 0x80 } else { 0 };
    entry[1..4].copy_from_slice(&cylinder_address(first));
    entry[4] = kind;
    entry[5..8].copy_from_slice(&cylinder_address(first + sectors.max(1) - 1));
    entry[8..12].copy_from_slice(&u32::try_from(first).unwrap_or(u32::MAX).to_le_bytes());
    entry[12..].copy_from_slice(&u32::try_from(sectors).unwrap_or(u32::MAX).to_le_bytes());
    entry
}

/// Returns the address by cylinder, head and sector. A sector beyond cylinder 1023 has the largest address.
fn cylinder_address(sector: u64) -> [u8; 3] {
    let (cylinder, rest) = (sector / (HEADS * SECTORS), sector % (HEADS * SECTORS));
    if cylinder > 1023 {
        return [0xfe, 0xff, 0xff];
    }
    let byte = |n: u64| u8::try_from(n & 0xff).expect("the mask leaves a byte");
    [byte(rest / SECTORS), byte(cylinder >> 8) << 6 | byte(rest % SECTORS + 1), byte(cylinder)]
}

fn finish(signature: u32, entries: [[u8; 16]; 4]) -> Vec<u8> {
    let mut sector = vec![0; 440];
    sector.extend(signature.to_le_bytes());
    sector.extend([0, 0]);
    sector.extend(entries.as_flattened());
    sector.extend([0x55, 0xaa]);
    sector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_by_cylinder_end_at_cylinder_1023() {
        assert_eq!(cylinder_address(0), [0, 1, 0]);
        assert_eq!(cylinder_address(2048), [32, 33, 0]);
        assert_eq!(cylinder_address(1023 * 255 * 63 + 254 * 63 + 62), [254, 0xff, 0xff]);
        assert_eq!(cylinder_address(1024 * 255 * 63), [0xfe, 0xff, 0xff]);
    }
}
