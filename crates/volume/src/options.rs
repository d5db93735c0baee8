//! The options of a volume, chosen when it is formatted.

use crate::VolumeError;
use crate::encode::{Checksum, Compressor, LEVEL_MAX};
use crate::keys::{Cipher, Kdf, MasterKey, Passphrase, SALT_LEN};
use crate::limits::{OutOfRange, Sizes};
use crate::target::Targets;
use flashlab_block::BlockDevice;
use std::fmt;
use std::sync::Arc;

/// Options of a new volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Random identifier of the volume. The engine has no source of randomness of its own.
    pub volume: [u8; 16],
    /// Size of a logical block in bytes: a power of two from 512 to 4096, and a multiple of the members' blocks.
    pub block: u32,
    /// Size of a bucket in bytes: a power of two from 16 KiB to 64 MiB. The erase unit of the members is a good choice.
    pub bucket: u32,
    /// Bytes per checksum or tag of an uncompressed extent: a power of two from the block size to 64 KiB.
    pub checksum_block: u32,
    /// Largest logical size of an extent in bytes: a power of two from `checksum_block` to 256 KiB, and
    /// at most a quarter of a bucket.
    pub extent_max: u32,
    /// Number of copies that each extent should have, on different members; a copy counts as often as the
    /// durability of its member says.
    pub replicas: u8,
    /// Checksum of the extents, unless the volume is encrypted.
    pub checksum: Checksum,
    /// Compression of new extents. An extent whose compression saves no block is stored as it is.
    pub compression: Compressor,
    /// Compression that background work applies; [`Compressor::None`] leaves extents as they are.
    pub background_compression: Compressor,
    /// Targets for data of each kind.
    pub targets: Targets,
    /// Size of the journal on each member that has one, in bytes. Zero means a default that depends on the size of the
    /// smallest member.
    pub journal: u64,
    /// Keys for the encryption of data, journal and map; `None` for a volume without encryption.
    pub encryption: Option<Encryption>,
    /// Logical size of the volume in bytes. Zero means all the space of the members, divided by the number of copies,
    /// except for the journal, the map and the reserve for garbage collection.
    pub size: u64,
}

impl Options {
    /// Returns the default options for a volume with this random identifier.
    pub fn new(volume: [u8; 16]) -> Options {
        Options {
            volume,
            block: 4096,
            bucket: 1 << 20,
            checksum_block: 4096,
            extent_max: 64 << 10,
            replicas: 1,
            checksum: Checksum::Crc32c,
            compression: Compressor::None,
            background_compression: Compressor::None,
            targets: Targets::default(),
            journal: 0,
            encryption: None,
            size: 0,
        }
    }

    /// Checks that the sizes that are fixed for the life of the volume and the levels of compression are within their
    /// ranges. [`Volume::format`](crate::Volume::format) also checks the options that depend on the members.
    ///
    /// # Errors
    /// Returns [`VolumeError::Option`] with the first option that is out of its range.
    pub fn check(&self) -> Result<(), VolumeError> {
        let Options { block, bucket, checksum_block, extent_max, .. } = *self;
        Sizes { block, bucket, checksum_block, extent_max }.check().map_err(
            |OutOfRange { name, value, min, max }| {
                VolumeError::Option(format!("{name}={value}: a power of two from {min} to {max} is needed"))
            },
        )?;
        check_level("compression", self.compression)?;
        check_level("background_compression", self.background_compression)
    }
}

/// Keys of a new encrypted volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encryption {
    /// Random master key.
    pub master: MasterKey,
    /// Cipher of data, journal and map.
    pub cipher: Cipher,
    /// Passphrase that opens the volume.
    pub passphrase: Passphrase,
    /// Function that derives the wrapping key from the passphrase.
    pub kdf: Kdf,
    /// Random salt of the function.
    pub salt: [u8; SALT_LEN],
}

/// Checks the level of a compression.
pub(crate) fn check_level(name: &str, compressor: Compressor) -> Result<(), VolumeError> {
    match compressor {
        Compressor::Zstd(level) if !(1..=LEVEL_MAX).contains(&level) => {
            Err(VolumeError::Option(format!("{name}=zstd:{level}: a level from 1 to {LEVEL_MAX} is needed")))
        }
        _ => Ok(()),
    }
}

/// A device that becomes a member of a volume.
#[derive(Clone)]
pub struct NewMember {
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Label, such as `ssd.a`; targets name a device or a prefix of labels. At most 31 bytes.
    pub label: String,
    /// Number of copies that one copy on this device counts as; 0 makes it a pure cache, without journal and
    /// checkpoints.
    pub durability: u8,
}

impl NewMember {
    /// Creates a member without a label and with durability 1.
    pub fn new(device: Arc<dyn BlockDevice>) -> NewMember {
        NewMember { device, label: String::new(), durability: 1 }
    }
}

impl fmt::Debug for NewMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NewMember { device, label, durability } = self;
        f.debug_struct("NewMember")
            .field("geometry", &device.geometry())
            .field("label", label)
            .field("durability", durability)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_out_of_range_is_named_with_its_range() {
        let default = Options::new([7; 16]);
        assert_eq!(default.check(), Ok(()));
        let error = Options { checksum_block: 2048, ..default }.check().expect_err("below the block size");
        assert_eq!(error.to_string(), "checksum_block=2048: a power of two from 4096 to 65536 is needed");
    }
}
