//! The check that a block device is not in use: not mounted, not swap, not part of a volume, not the disk of
//! the running system. The check reads sysfs and procfs, and names the use that it finds. Opening the device
//! exclusively is the second guard: it also detects uses that the check does not know.

use std::fmt;
use std::fs;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directories in which the kernel publishes its state.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Mount point of sysfs.
    pub sys: PathBuf,
    /// Directory of this process in procfs, which contains `mountinfo`. The file `swaps` is in this directory
    /// or in its parent.
    pub proc: PathBuf,
    /// Directory of the device files, in which udev keeps `disk/by-uuid`.
    pub dev: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Kernel { sys: "/sys".into(), proc: "/proc/self".into(), dev: "/dev".into() }
    }
}

/// A use of a block device, with the name of the device or partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Use {
    /// A directory that the system needs, such as `/`, is mounted from the device.
    System {
        /// Name of the device or partition.
        device: String,
        /// Mount point.
        at: String,
    },
    /// The device is mounted.
    Mounted {
        /// Name of the device or partition.
        device: String,
        /// Mount point.
        at: String,
    },
    /// The device is swap space.
    Swap {
        /// Name of the device or partition.
        device: String,
    },
    /// Another block device is built on the device: LVM, dm-crypt, RAID.
    Held {
        /// Name of the device or partition.
        device: String,
        /// Name of the other device.
        by: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::System { device, at } => {
                write!(f, "{device} is mounted at {at}: this is the disk of the running system")
            }
            Use::Mounted { device, at } => write!(f, "{device} is mounted at {at}; umount {at} first"),
            Use::Swap { device } => write!(f, "{device} is swap space; swapoff /dev/{device} first"),
            Use::Held { device, by } => {
                write!(f, "{device} is part of {by} (device mapper, RAID or LVM); deactivate {by} first")
            }
        }
    }
}

/// Mount points that mark a disk as the disk of the running system.
const SYSTEM: [&str; 6] = ["/", "/boot", "/boot/firmware", "/boot/efi", "/usr", "/var"];

/// Facts about a block device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Name in `/dev`.
    pub name: String,
    /// Model. SCSI disks, NVMe disks and cards have one.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
}

impl Kernel {
    /// Returns the first use of the block device with these numbers, of its partitions, or, for a partition,
    /// of its disk.
    pub fn find_use(&self, major: u32, minor: u32) -> io::Result<Option<Use>> {
        let mounts = self.mounts()?;
        let swaps = self.swaps();
        for (directory, number) in self.parts(major, minor)? {
            let device = name_of(&directory);
            let mut points = mounts.iter().filter(|mount| mount.device == number).map(|mount| &mount.at);
            let points: Vec<&String> = points.by_ref().collect();
            if let Some(at) = points.iter().find(|at| SYSTEM.contains(&at.as_str())) {
                return Ok(Some(Use::System { device, at: (*at).clone() }));
            }
            if let Some(at) = points.first() {
                return Ok(Some(Use::Mounted { device, at: (*at).clone() }));
            }
            if swaps.contains(&number) {
                return Ok(Some(Use::Swap { device }));
            }
            if let Some(by) = entries(&directory.join("holders")).first() {
                return Ok(Some(Use::Held { device, by: by.clone() }));
            }
        }
        Ok(None)
    }

    /// Returns the facts about a block device. Model and serial number of a partition are those of its disk.
    pub fn facts(&self, major: u32, minor: u32) -> Facts {
        let Ok(directory) = self.directory(major, minor) else { return Facts::default() };
        let disk = match directory.parent() {
            Some(disk) if directory.join("partition").exists() => disk,
            _ => &directory,
        };
        let text = |file: &str| {
            let text = fs::read_to_string(disk.join(file)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        Facts {
            name: name_of(&directory),
            model: text("device/model").or_else(|| text("device/name")),
            serial: text("device/serial").or_else(|| text("serial")),
        }
    }

    /// Returns the UUID of the filesystem on a block device, as udev has read it.
    fn uuid(&self, device: &str) -> Option<String> {
        let links = self.dev.join("disk/by-uuid");
        entries(&links)
            .into_iter()
            .find(|uuid| fs::read_link(links.join(uuid)).is_ok_and(|to| name_of(&to) == device))
    }

    fn directory(&self, major: u32, minor: u32) -> io::Result<PathBuf> {
        fs::canonicalize(self.sys.join(format!("dev/block/{major}:{minor}")))
    }

    /// Returns the sysfs directories and the numbers of a device and of its partitions. For a partition, the
    /// result includes its disk, but not the other partitions of that disk.
    fn parts(&self, major: u32, minor: u32) -> io::Result<Vec<(PathBuf, (u32, u32))>> {
        let directory = self.directory(major, minor)?;
        let mut parts = vec![(directory.clone(), (major, minor))];
        for name in entries(&directory) {
            let part = directory.join(name);
            if part.join("partition").exists()
                && let Some(number) = number_in(&part.join("dev"))
            {
                parts.push((part, number));
            }
        }
        if directory.join("partition").exists()
            && let Some(disk) = directory.parent()
            && let Some(number) = number_in(&disk.join("dev"))
        {
            parts.push((disk.to_owned(), number));
        }
        Ok(parts)
    }

    /// Returns all mounts. In general, the number in `mountinfo` is that of the device. Some filesystems
    /// (btrfs) have a number of their own there, so the path in the same line yields their device.
    fn mounts(&self) -> io::Result<Vec<Mount>> {
        let text = fs::read_to_string(self.proc.join("mountinfo"))?;
        let mut mounts = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (Some(number), Some(at)) = (words.get(2).and_then(|word| number(word)), words.get(4)) else {
                continue;
            };
            let at = unescape(at);
            mounts.push(Mount { device: number, at: at.clone() });
            let source = words.iter().position(|word| *word == "-").and_then(|dash| words.get(dash + 2));
            if let Some(device) = source.and_then(|source| device_number(Path::new(&unescape(source)))) {
                mounts.push(Mount { device, at });
            }
        }
        Ok(mounts)
    }

    fn swaps(&self) -> Vec<(u32, u32)> {
        let text = fs::read_to_string(self.proc.join("swaps"))
            .or_else(|_| fs::read_to_string(self.proc.join("../swaps")))
            .unwrap_or_default();
        let paths = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        paths.filter_map(|path| device_number(Path::new(&unescape(path)))).collect()
    }
}

/// A mounted device.
struct Mount {
    device: (u32, u32),
    at: String,
}

/// Returns the major and minor number of a block device, or `None` for other files.
pub fn device_number(path: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::FileTypeExt;
    let metadata = fs::metadata(path).ok()?;
    let number = metadata.st_rdev();
    metadata.file_type().is_block_device().then(|| (rustix::fs::major(number), rustix::fs::minor(number)))
}

fn name_of(directory: &Path) -> String {
    directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn entries(directory: &Path) -> Vec<String> {
    let all = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn number_in(file: &Path) -> Option<(u32, u32)> {
    number(&fs::read_to_string(file).ok()?)
}

/// Resolves the octal escapes of procfs: `\040` for a space.
fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if bytes[at] == b'\\' => {
                out.push(byte);
                at += 4;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A filesystem and the disk below it, as far as they can be identified.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// UUID of the filesystem. Without udev, or for a filesystem on several devices: the `f_fsid` of
    /// statvfs(3).
    pub filesystem_id: Option<String>,
    /// Model of the disk.
    pub model: Option<String>,
    /// Serial number of the disk.
    pub serial: Option<String>,
}

/// Returns the identity of the filesystem that contains `path`, and of its disk. A device number is not
/// enough, because the next card in a slot has the same number.
pub fn identity_of(kernel: &Kernel, path: &Path) -> Identity {
    let number = fs::metadata(path).map_or(0, |metadata| metadata.st_dev());
    let Facts { name, model, serial } = kernel.facts(rustix::fs::major(number), rustix::fs::minor(number));
    let fsid = || {
        let fsid = rustix::fs::statvfs(path).ok()?.f_fsid;
        (fsid != 0).then(|| format!("fsid {fsid:016x}"))
    };
    Identity { filesystem_id: kernel.uuid(&name).or_else(fsid), model, serial }
}

/// Returns the type of the filesystem that contains `path`, as `mountinfo` names it. The filesystem is found
/// by its device number. If `mountinfo` does not contain this number, the longest mount point above `path`
/// decides. Files of btrfs need this, because they have the number of their subvolume.
pub fn filesystem_of(kernel: &Kernel, path: &Path) -> Option<String> {
    let number = fs::metadata(path).ok()?.st_dev();
    let device = (rustix::fs::major(number), rustix::fs::minor(number));
    let path = fs::canonicalize(path).ok()?;
    let text = fs::read_to_string(kernel.proc.join("mountinfo")).ok()?;
    // Device number, mount point and type of each mount.
    let mounts = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let dash = words.iter().position(|word| *word == "-")?;
        Some((self::number(words.get(2)?)?, PathBuf::from(unescape(words.get(4)?)), *words.get(dash + 1)?))
    });
    let mounts: Vec<((u32, u32), PathBuf, &str)> = mounts.collect();
    let by_number = mounts.iter().rev().find(|(number, ..)| *number == device);
    let above = mounts.iter().filter(|(_, at, _)| path.starts_with(at));
    // Of several mounts at one place, only the last is visible.
    let found = by_number.or_else(|| above.max_by_key(|(_, at, _)| at.as_os_str().len()))?;
    Some(found.2.to_owned())
}
