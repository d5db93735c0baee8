//! Detects data on a future member, so that a typing error does not overwrite a disk.
//!
//! A device counts as empty if its first mebibyte and its last 128 KiB read as zeroes: filesystems, partition tables,
//! encrypted containers and members of RAIDs have their headers there.

use crate::wait::execute;
use flashlab_block::{Answer, BlockDevice, Io, IoError};

/// Number of bytes that are read at the start of a device.
const START: u64 = 1 << 20;
/// Number of bytes that are read at the end of a device. The superblock of md 0.90 begins at most 128 KiB
/// before the end.
const END: u64 = 128 << 10;

/// Headers with a fixed place: offset, bytes, description.
const HEADERS: &[(usize, &[u8], &str)] = &[
    (0, b"FLVsuper", "a member of a flashlab volume"),
    (0, b"LUKS\xba\xbe", "an encrypted container (LUKS)"),
    (0, b"XFSB", "an XFS filesystem"),
    (0, b"QFI\xfb", "a qcow2 image"),
    (0, b"hsqs", "a squashfs image"),
    (3, b"NTFS    ", "an NTFS filesystem"),
    (3, b"EXFAT   ", "an exFAT filesystem"),
    (82, b"FAT32", "a FAT filesystem"),
    (54, b"FAT1", "a FAT filesystem"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (536, b"LABELONE", "a physical volume of LVM"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS filesystem"),
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 filesystem"),
    (4096, b"\xfc\x4e\x2b\xa9", "a member of a RAID (md)"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", "a member of bcachefs"),
    (65600, b"_BHRfS_M", "a btrfs filesystem"),
    (510, b"\x55\xaa", "a partition table or a boot sector"),
];

/// Describes the data on a device. Returns `None` if the device looks empty.
///
/// # Errors
/// Returns the error of a read.
pub fn find_data(device: &dyn BlockDevice) -> Result<Option<&'static str>, IoError> {
    let geometry = device.geometry();
    let whole_blocks = |length: u64| length / geometry.block * geometry.block;
    let start = read(device, 0, whole_blocks(START.min(geometry.capacity)))?;
    let end = whole_blocks(END.min(geometry.capacity));
    let end = read(device, geometry.capacity - end, end)?;
    if let Some((_, _, name)) =
        HEADERS.iter().find(|(at, header, _)| start.get(*at..).is_some_and(|s| s.starts_with(header)))
    {
        return Ok(Some(name));
    }
    let is_empty = start.iter().chain(&end).all(|byte| *byte == 0);
    Ok((!is_empty).then_some("data of an unknown kind"))
}

fn read(device: &dyn BlockDevice, offset: u64, length: u64) -> Result<Vec<u8>, IoError> {
    let max = device.geometry().request_max;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        let at = bytes.len() as u64;
        let buffer = vec![0; (length - at).min(max) as usize];
        let outcome = execute(device, Io::Read { offset: offset + at, buffer });
        let Answer::Read(read) = outcome? else { unreachable!("a read is answered with bytes") };
        bytes.extend_from_slice(&read);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_block::{Context, Memory, Pages, Started};
    use flashlab_sim::Instant;

    fn device_with(at: u64, bytes: &[u8]) -> Memory {
        let device = Memory::new(4 << 20, Pages::Small).expect("memory");
        let write = Io::Write { offset: at, data: bytes.to_vec().into(), durable: false };
        let Started::Done(Ok(_)) = device.start(&Context::new(Instant::ZERO), write) else {
            panic!("no write")
        };
        device
    }

    #[test]
    fn headers_are_named_and_other_data_is_found_at_both_ends() {
        let mut ext4 = vec![0; 2048];
        ext4[1080..1082].copy_from_slice(&[0x53, 0xef]);
        assert_eq!(find_data(&device_with(0, &ext4)), Ok(Some("an ext2, ext3 or ext4 filesystem")));
        assert_eq!(find_data(&device_with(0, b"FLVsuper")), Ok(Some("a member of a flashlab volume")));
        assert_eq!(find_data(&device_with((4 << 20) - 1, &[1])), Ok(Some("data of an unknown kind")));
        // The magic number of md 0.90, at the lowest offset from the end.
        let md = device_with((4 << 20) - (128 << 10), &[0xfc, 0x4e, 0x2b, 0xa9]);
        assert_eq!(find_data(&md), Ok(Some("data of an unknown kind")));
        assert_eq!(find_data(&device_with(5000, &[1])), Ok(Some("data of an unknown kind")));
        assert_eq!(find_data(&device_with(5000, &[0])), Ok(None));
    }
}
