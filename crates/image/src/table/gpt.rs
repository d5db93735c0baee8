//! GUID partition table (UEFI specification 2.10, section 5.3): header and entries at the start of the disk, and copies
//! at its end.

use super::{Layout, Partition, SECTOR, Type, mbr};
use crate::identity::{Identity, Uuid};
use crc::{CRC_32_ISO_HDLC, Crc};

/// Number of entries.
pub(super) const ENTRIES: usize = 128;
/// Bytes of an entry.
const ENTRY: usize = 128;
/// Sectors of the entries.
pub(super) const ENTRY_SECTORS: u64 = (ENTRIES * ENTRY) as u64 / SECTOR;
/// Bytes of a header that its checksum covers.
const HEADER: usize = 92;
/// Bit of an entry's attributes: legacy BIOS bootable.
const BOOTABLE: u64 = 1 << 2;
/// UTF-16 units of a name.
const NAME_UNITS: usize = 36;

const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// Returns the pieces of the table with their offsets.
pub(super) fn pieces(layout: &Layout, identity: &Identity) -> Vec<(u64, Vec<u8>)> {
    let mut entries = Vec::with_capacity(ENTRIES * ENTRY);
    for (number, partition) in (1..).zip(&layout.partitions) {
        entries.extend(entry(partition, identity.of_part(number).uuid("partition")));
    }
    entries.resize(ENTRIES * ENTRY, 0);
    let last = layout.sectors - 1;
    let backup_entries = last - ENTRY_SECTORS;
    let header = |this, other, entries_at| {
        let places = [this, other, 2 + ENTRY_SECTORS, backup_entries - 1];
        header(places, identity.uuid("disk"), entries_at, CRC.checksum(&entries))
    };
    vec![
        (0, mbr::protective(layout.sectors)),
        (SECTOR, header(1, last, 2)),
        (2 * SECTOR, entries.clone()),
        (backup_entries * SECTOR, entries.clone()),
        (last * SECTOR, header(last, 1, backup_entries)),
    ]
}

fn entry(partition: &Partition, unique: Uuid) -> Vec<u8> {
    let Type::Gpt(kind) = partition.request.kind else { unreachable!("the type fits the table") };
    let mut bytes = Vec::with_capacity(ENTRY);
    bytes.extend(mixed_endian(kind));
    bytes.extend(mixed_endian(unique));
    bytes.extend(partition.first.to_le_bytes());
    bytes.extend((partition.first + partition.sectors - 1).to_le_bytes());
    bytes.extend((if partition.request.bootable { BOOTABLE } else { 0 }).to_le_bytes());
    bytes.extend(partition.request.name.encode_utf16().take(NAME_UNITS).flat_map(u16::to_le_bytes));
    bytes.resize(ENTRY, 0);
    bytes
}

/// Returns a header. `places` are its sector, that of the other header, and the first and last usable sector.
fn header(places: [u64; 4], disk: Uuid, entries_at: u64, entries_checksum: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SECTOR as usize);
    bytes.extend(b"EFI PART");
    bytes.extend(0x0001_0000_u32.to_le_bytes());
    bytes.extend((HEADER as u32).to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(places.iter().flat_map(|place| place.to_le_bytes()));
    bytes.extend(mixed_endian(disk));
    bytes.extend(entries_at.to_le_bytes());
    bytes.extend((ENTRIES as u32).to_le_bytes());
    bytes.extend((ENTRY as u32).to_le_bytes());
    bytes.extend(entries_checksum.to_le_bytes());
    let checksum = CRC.checksum(&bytes);
    bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
    bytes.resize(SECTOR as usize, 0);
    bytes
}

/// Returns a GUID as the disk stores it, with the bytes of each of the first three fields reversed.
fn mixed_endian(Uuid(text): Uuid) -> [u8; 16] {
    let mut bytes = text;
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}
