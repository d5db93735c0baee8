//! Partition tables: the places of partitions on a disk, and the bytes of MBR and GPT.
//!
//! Sectors have 512 bytes. Partitions start at multiples of 1 MiB unless the recipe gives their start.

mod gpt;
mod mbr;

use crate::filesystem::Format;
use crate::identity::{Identity, Uuid};
use std::fmt;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;
/// Alignment of partitions in sectors: 1 MiB, as fdisk uses.
const ALIGNMENT: u64 = 2048;

/// Largest number of sectors of a disk, a multiple of 1 MiB. Offsets in files have 63 bits.
const SECTORS_MAX: u64 = (1 << 63) / SECTOR - ALIGNMENT;

/// Kind of a partition table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Master boot record with up to four primary partitions.
    Mbr,
    /// GUID partition table (UEFI specification, chapter 5), with a protective MBR.
    Gpt,
}

/// Type of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Type byte of an MBR.
    Mbr(u8),
    /// Type GUID of a GPT, in the order of its text.
    Gpt(Uuid),
}

/// A partition before it has a place.
#[derive(Clone, Debug)]
pub struct Request {
    /// First sector; `None` for the next aligned one.
    pub first: Option<u64>,
    /// Size.
    pub size: Size,
    /// Type.
    pub kind: Type,
    /// Name in a GPT.
    pub name: String,
    /// True for the active partition of an MBR, and for the bit "legacy BIOS bootable" of a GPT.
    pub bootable: bool,
}

/// Size of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Bytes, rounded up to whole sectors.
    Bytes(u64),
    /// Everything up to the end of the disk, or up to the copy of a GPT there.
    Rest,
}

/// A partition with its place.
#[derive(Clone, Debug)]
pub struct Partition {
    /// First sector.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u64,
    request: Request,
}

/// A disk with the places of its partitions.
#[derive(Clone, Debug)]
pub struct Layout {
    kind: Kind,
    /// Size of the disk in sectors.
    sectors: u64,
    partitions: Vec<Partition>,
}

/// The reason why partitions cannot be placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableError {
    /// The table holds fewer partitions.
    TooMany {
        /// Largest number of partitions in the table.
        most: usize,
    },
    /// A partition overlaps the table or the partition before it.
    Overlap {
        /// Number of the partition, counted from 1.
        number: usize,
        /// First free sector.
        free: u64,
    },
    /// A partition ends beyond the end of the disk.
    BeyondTheEnd {
        /// Number of the partition, counted from 1.
        number: usize,
        /// Size of the disk in bytes.
        size: u64,
        /// Bytes that the disk needs up to the end of this partition, with the copy of a GPT.
        needed: u64,
    },
    /// Only the last partition can take the rest, and only on a disk of a given size.
    Rest {
        /// Number of the partition, counted from 1.
        number: usize,
    },
    /// A partition ends beyond the sectors of an MBR, whose numbers have 32 bits.
    TooLarge,
    /// A partition ends beyond the largest size of a file.
    BeyondAnyFile,
}

impl Kind {
    /// Returns the type of a partition with a format.
    pub fn type_of(self, format: Format) -> Type {
        match (self, format) {
            // FAT32 with LBA; Linux.
            (Kind::Mbr, Format::Vfat) => Type::Mbr(0x0c),
            (Kind::Mbr, _) => Type::Mbr(0x83),
            // Microsoft basic data; Linux filesystem data.
            (Kind::Gpt, Format::Vfat) => Type::Gpt(uuid("ebd0a0a2-b9e5-4433-87c0-68b6b72699c7")),
            (Kind::Gpt, _) => Type::Gpt(uuid("0fc63daf-8483-4772-8e79-3d69d8477de4")),
        }
    }

    /// Returns the type that a text names: a word, `0x0c` in an MBR, or a GUID in a GPT.
    pub fn parse_type(self, text: &str) -> Option<Type> {
        match (self, text) {
            (Kind::Mbr, "esp") => Some(Type::Mbr(0xef)),
            (Kind::Mbr, "linux") => Some(Type::Mbr(0x83)),
            (Kind::Mbr, _) => {
                u8::from_str_radix(text.strip_prefix("0x")?, 16).ok().filter(|n| *n > 0).map(Type::Mbr)
            }
            (Kind::Gpt, "esp") => Some(Type::Gpt(uuid("c12a7328-f81f-11d2-ba4b-00a0c93ec93b"))),
            (Kind::Gpt, "linux") => Some(self.type_of(Format::Ext4)),
            // A type of zeros marks an unused entry.
            (Kind::Gpt, _) => parse_uuid(text).filter(|uuid| uuid.0 != [0; 16]).map(Type::Gpt),
        }
    }

    /// Returns the largest number of partitions in a table.
    fn partitions_max(self) -> usize {
        match self {
            Kind::Mbr => 4,
            Kind::Gpt => gpt::ENTRIES,
        }
    }

    /// Returns the first sector after the table.
    fn first_free(self) -> u64 {
        match self {
            Kind::Mbr => 1,
            Kind::Gpt => 2 + gpt::ENTRY_SECTORS,
        }
    }

    /// Returns the number of sectors at the end of the disk that the table takes.
    fn at_the_end(self) -> u64 {
        match self {
            Kind::Mbr => 0,
            Kind::Gpt => 1 + gpt::ENTRY_SECTORS,
        }
    }
}

impl Layout {
    /// Places partitions on a disk of `size` bytes, or on one that is as large as they need.
    ///
    /// # Errors
    /// Returns an error if they do not fit, overlap, or are too many.
    pub fn new(kind: Kind, size: Option<u64>, requests: Vec<Request>) -> Result<Layout, TableError> {
        if requests.len() > kind.partitions_max() {
            return Err(TableError::TooMany { most: kind.partitions_max() });
        }
        let last = requests.len();
        let mut free = kind.first_free();
        let end = size.map(|size| (size / SECTOR).saturating_sub(kind.at_the_end()));
        let mut partitions = Vec::new();
        for (number, request) in (1..).zip(requests) {
            let first = request.first.unwrap_or_else(|| free.next_multiple_of(ALIGNMENT));
            if first < free {
                return Err(TableError::Overlap { number, free });
            }
            let sectors = match (request.size, end) {
                (Size::Bytes(bytes), _) => bytes.div_ceil(SECTOR),
                (Size::Rest, Some(end)) if number == last => end.saturating_sub(first).max(1),
                (Size::Rest, _) => return Err(TableError::Rest { number }),
            };
            free = first.saturating_add(sectors);
            if let (Some(size), Some(_)) = (size, end.filter(|end| free > *end)) {
                let needed = free.saturating_add(kind.at_the_end()).saturating_mul(SECTOR);
                return Err(TableError::BeyondTheEnd { number, size, needed });
            }
            partitions.push(Partition { first, sectors, request });
        }
        let needed = free.saturating_add(kind.at_the_end());
        if needed > SECTORS_MAX {
            return Err(TableError::BeyondAnyFile);
        }
        let sectors = size.map_or(needed.next_multiple_of(ALIGNMENT), |size| size / SECTOR);
        if kind == Kind::Mbr && free > u32::MAX.into() {
            return Err(TableError::TooLarge);
        }
        Ok(Layout { kind, sectors, partitions })
    }

    /// Returns the size of the disk in bytes.
    pub fn size(&self) -> u64 {
        self.sectors * SECTOR
    }

    /// Returns the partitions in their order.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// Returns the bytes of the table, each piece with its offset on the disk. `identity` gives the identifiers.
    pub fn table(&self, identity: &Identity) -> Vec<(u64, Vec<u8>)> {
        match self.kind {
            Kind::Mbr => vec![(0, mbr::sector(&self.partitions, identity.serial("disk")))],
            Kind::Gpt => gpt::pieces(self, identity),
        }
    }
}

/// Parses a text that is known to be a UUID.
fn uuid(text: &str) -> Uuid {
    parse_uuid(text).expect("the text is a UUID")
}

/// Parses a UUID in its usual text form.
fn parse_uuid(text: &str) -> Option<Uuid> {
    let digits: Vec<u32> =
        text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let hyphens: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
    if digits.len() != 32 || hyphens != [8, 13, 18, 23] {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::try_from(pair[0] << 4 | pair[1]).expect("two digits are a byte");
    }
    Some(Uuid(bytes))
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::TooMany { most } => write!(f, "the table has room for {most} partitions"),
            TableError::Overlap { number, free } => write!(
                f,
                "partition {number} starts before sector {free}, the first one after the table and the partitions \
                 before it; set a later start, or leave it out"
            ),
            TableError::BeyondTheEnd { number, size, needed } => write!(
                f,
                "partition {number} ends beyond the disk of {size} bytes, which would need {needed}; choose a larger \
                 disk or smaller partitions"
            ),
            TableError::Rest { number } => write!(
                f,
                "partition {number} cannot take the rest: only the last partition can, and only if the disk has a \
                 size"
            ),
            TableError::TooLarge => {
                f.write_str("an MBR reaches up to 2 TiB; choose table = \"gpt\" or a smaller disk")
            }
            TableError::BeyondAnyFile => {
                f.write_str("the partitions need 8 EiB or more, and no file is as large; choose smaller ones")
            }
        }
    }
}

impl std::error::Error for TableError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(first: Option<u64>, size: Size) -> Request {
        Request { first, size, kind: Type::Mbr(0x83), name: String::new(), bootable: false }
    }

    fn places(layout: &Layout) -> Vec<(u64, u64)> {
        layout.partitions().iter().map(|partition| (partition.first, partition.sectors)).collect()
    }

    #[test]
    fn partitions_follow_each_other_at_whole_mebibytes() {
        let requests = vec![
            request(None, Size::Bytes(1000)),
            request(None, Size::Bytes(3 << 20)),
            request(None, Size::Rest),
        ];
        let layout = Layout::new(Kind::Mbr, Some(16 << 20), requests.clone()).unwrap();
        assert_eq!(places(&layout), [(2048, 2), (4096, 6144), (10240, 32768 - 10240)]);
        let layout = Layout::new(Kind::Gpt, Some(16 << 20), requests.clone()).unwrap();
        assert_eq!(places(&layout)[2], (10240, 32768 - 33 - 10240));
        assert_eq!(Layout::new(Kind::Mbr, None, requests).unwrap_err(), TableError::Rest { number: 3 });
    }

    #[test]
    fn a_disk_without_a_size_is_as_large_as_it_needs_to_be() {
        let requests = vec![request(None, Size::Bytes(3 << 20))];
        assert_eq!(Layout::new(Kind::Mbr, None, requests.clone()).unwrap().size(), 4 << 20);
        assert_eq!(Layout::new(Kind::Gpt, None, requests).unwrap().size(), 5 << 20);
    }

    #[test]
    fn overlaps_and_ends_beyond_the_disk_are_refused() {
        let requests = vec![request(Some(1), Size::Bytes(1 << 20)), request(Some(2048), Size::Bytes(512))];
        let overlap = Layout::new(Kind::Mbr, None, requests).unwrap_err();
        assert_eq!(overlap, TableError::Overlap { number: 2, free: 2049 });
        let in_the_table =
            Layout::new(Kind::Gpt, None, vec![request(Some(33), Size::Bytes(512))]).unwrap_err();
        assert_eq!(in_the_table, TableError::Overlap { number: 1, free: 34 });
        let long = vec![request(None, Size::Bytes(1 << 20))];
        let beyond = Layout::new(Kind::Gpt, Some(2 << 20), long).unwrap_err();
        assert_eq!(
            beyond,
            TableError::BeyondTheEnd { number: 1, size: 2 << 20, needed: (2 << 20) + 33 * 512 }
        );
        let five = vec![request(None, Size::Bytes(512)); 5];
        assert_eq!(Layout::new(Kind::Mbr, None, five).unwrap_err(), TableError::TooMany { most: 4 });
        let huge = vec![request(None, Size::Bytes(1 << 42))];
        assert_eq!(Layout::new(Kind::Mbr, None, huge).unwrap_err(), TableError::TooLarge);
        let endless =
            vec![request(None, Size::Bytes(u64::MAX - 511)), request(None, Size::Bytes(u64::MAX - 511))];
        assert_eq!(Layout::new(Kind::Gpt, None, endless).unwrap_err(), TableError::BeyondAnyFile);
    }

    #[test]
    fn types_are_words_bytes_and_guids() {
        assert_eq!(Kind::Mbr.parse_type("0x0c"), Some(Type::Mbr(12)));
        assert_eq!(Kind::Mbr.parse_type("0x00"), None);
        assert_eq!(Kind::Mbr.parse_type("c12a7328-f81f-11d2-ba4b-00a0c93ec93b"), None);
        let esp = Kind::Gpt.parse_type("C12A7328-F81F-11D2-BA4B-00A0C93EC93B");
        assert_eq!(esp, Kind::Gpt.parse_type("esp"));
        assert_eq!(Kind::Gpt.parse_type("c12a7328f81f11d2ba4b00a0c93ec93b"), None);
        assert_eq!(Kind::Gpt.parse_type("00000000-0000-0000-0000-000000000000"), None);
    }
}
