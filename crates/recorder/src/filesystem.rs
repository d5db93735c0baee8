//! Filesystems that the guest makes and mounts.

use std::fmt;

/// A filesystem of Linux with a program that makes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filesystem {
    /// ext4.
    Ext4,
    /// F2FS.
    F2fs,
    /// FAT with long names.
    Vfat,
    /// exFAT.
    Exfat,
    /// Btrfs.
    Btrfs,
    /// No filesystem: the workload uses the raw device, through the page cache unless it opens the device with O_DIRECT.
    Raw,
}

/// Fixed UUID of ext4 and Btrfs. With this UUID, ext4's hashes of names are the same in every recording.
const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

impl Filesystem {
    /// All filesystems, without the raw device.
    pub const ALL: [Filesystem; 5] =
        [Filesystem::Vfat, Filesystem::Exfat, Filesystem::Ext4, Filesystem::F2fs, Filesystem::Btrfs];

    /// Returns the name that `mount -t` takes; `none` for the raw device.
    pub fn name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            Filesystem::F2fs => "f2fs",
            Filesystem::Vfat => "vfat",
            Filesystem::Exfat => "exfat",
            Filesystem::Btrfs => "btrfs",
            Filesystem::Raw => "none",
        }
    }

    /// Returns the program that makes the filesystem, or `None` for the raw device.
    pub(crate) fn program(self) -> Option<&'static str> {
        Some(match self {
            Filesystem::Ext4 => "mkfs.ext4",
            Filesystem::F2fs => "mkfs.f2fs",
            Filesystem::Vfat => "mkfs.vfat",
            Filesystem::Exfat => "mkfs.exfat",
            Filesystem::Btrfs => "mkfs.btrfs",
            Filesystem::Raw => return None,
        })
    }

    /// Returns the options that precede the user's. These options make recordings repeatable. They also make
    /// mkfs write the inode tables of ext4, because a kernel thread would otherwise write the tables during
    /// the workload.
    pub(crate) fn options(self) -> String {
        match self {
            Filesystem::Ext4 => {
                format!("-q -F -U {UUID} -E hash_seed={UUID},lazy_itable_init=0,lazy_journal_init=0")
            }
            Filesystem::F2fs => "-q -f".into(),
            Filesystem::Vfat => "-i 12345678".into(),
            Filesystem::Exfat | Filesystem::Raw => String::new(),
            Filesystem::Btrfs => format!("-q -f -U {UUID}"),
        }
    }

    /// Returns the kernel modules that the filesystem needs, without their dependencies.
    pub(crate) fn modules(self) -> &'static [&'static str] {
        match self {
            Filesystem::Ext4 => &["crc32c_generic", "ext4"],
            Filesystem::F2fs => &["crc32_generic", "crc32c_generic", "f2fs"],
            Filesystem::Vfat => &["nls_cp437", "nls_ascii", "vfat"],
            Filesystem::Exfat => &["exfat"],
            Filesystem::Btrfs => &["crc32c_generic", "xxhash_generic", "btrfs"],
            Filesystem::Raw => &[],
        }
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Filesystem::Raw => "no filesystem (raw device)",
            _ => self.name(),
        })
    }
}

/// A filesystem with its options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    /// Filesystem.
    pub filesystem: Filesystem,
    /// Options for `mkfs`, such as `-O ^has_journal`.
    pub mkfs: String,
    /// Options for `mount -o`, such as `noatime`.
    pub mount: String,
}

impl Format {
    /// Returns the filesystem without further options.
    pub fn plain(filesystem: Filesystem) -> Format {
        Format { filesystem, mkfs: String::new(), mount: String::new() }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.filesystem)?;
        if !self.mkfs.is_empty() {
            write!(f, " {}", self.mkfs)?;
        }
        if !self.mount.is_empty() {
            write!(f, " (mount -o {})", self.mount)?;
        }
        Ok(())
    }
}
