//! Records boots of root images with the kernel's trace. The recording ends when systemd reaches
//! `multi-user.target`, or when another init executes `/flashlab/end`.
//!
//! The image lies on the guest's disk. The guest mounts the image read-only below an overlay in memory, as
//! `overlayroot=tmpfs` does, or writable without an overlay. It adds two systemd services to the root. One
//! service starts large programs in place of the desktop that the published roots have. The other service
//! ends the recording.
//!
//! The recording begins before the image is mounted. Firmware, kernel and drivers are not part of it.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::RecordError;
use crate::guest::{Machine, Progress, QEMU, Recorded, record_machine};
use crate::kernel::Kernel;
use crate::plan::{Disk, Limits, check_limits, quoted};
use crate::programs::{Programs, libraries};
use crate::root::Root;

const INIT: &str = include_str!("boot/init.sh");
const PROGRAMS: &str = include_str!("boot/programs.sh");

/// Space after the image on the guest's disk, in MiB.
const SPARE_MIB: u64 = 16;

/// Largest image in MiB. While the guest copies the image to the disk, its memory holds the image twice.
const IMAGE_MIB_MAX: u64 = 1024;

/// Filesystem of a root image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageFormat {
    /// SquashFS.
    Squashfs,
    /// EROFS.
    Erofs,
    /// ext4.
    Ext4,
}

impl ImageFormat {
    /// Recognises the format by the magic number of its superblock.
    pub fn of(image: &[u8]) -> Option<ImageFormat> {
        let at = |offset: usize, magic: &[u8]| image.get(offset..offset + magic.len()) == Some(magic);
        match () {
            () if at(0, b"hsqs") => Some(ImageFormat::Squashfs),
            () if at(1024, &0xE0F5_E1E2_u32.to_le_bytes()) => Some(ImageFormat::Erofs),
            () if at(1024 + 0x38, &0xEF53_u16.to_le_bytes()) => Some(ImageFormat::Ext4),
            () => None,
        }
    }

    /// Returns the name that `mount -t` takes.
    pub fn name(self) -> &'static str {
        match self {
            ImageFormat::Squashfs => "squashfs",
            ImageFormat::Erofs => "erofs",
            ImageFormat::Ext4 => "ext4",
        }
    }

    /// Returns the kernel modules that the format needs, without their dependencies.
    fn modules(self) -> &'static [&'static str] {
        match self {
            ImageFormat::Squashfs => &["squashfs"],
            ImageFormat::Erofs => &["crc32c_generic", "erofs"],
            ImageFormat::Ext4 => &["crc32c_generic", "ext4"],
        }
    }
}

/// A boot to record.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Kernel of the guest.
    pub kernel: Kernel,
    /// File with the image.
    pub image: PathBuf,
    /// Options with which the image was made, for the header of the recording.
    pub options: String,
    /// True to mount the root writable, without an overlay.
    pub writable: bool,
    /// Disk of the guest. Its size follows from that of the image.
    pub disk: Disk,
    /// Limits of the host. The guest has memory for the image and the trace in addition to this limit.
    pub limits: Limits,
    /// Time limit of the guest in seconds.
    pub seconds_max: u64,
}

/// Records a boot.
///
/// # Errors
/// Returns an error if the image has an unknown format or is too large, a program, kernel or module is missing, the
/// root does not boot, or the trace is not complete.
pub fn record_boot(boot: &Boot, progress: &dyn Progress) -> Result<Recorded, RecordError> {
    let (format, size_mib) = inspect(&boot.image)?;
    let disk = Disk { size_mib: size_mib + SPARE_MIB, ..boot.disk };
    check_limits(disk, &boot.limits)?;
    if boot.writable && format != ImageFormat::Ext4 {
        return Err(RecordError::Setting(format!("{} cannot be mounted writable", format.name())));
    }
    let programs = Programs::find(&["busybox", QEMU])?;
    check_static(programs.place("busybox"))?;
    progress.stage("building the guest");
    let machine = Machine {
        kernel: &boot.kernel,
        initramfs: archive(boot, format, disk, programs.place("busybox"))?,
        memory_mib: boot.limits.memory_mib + 2 * disk.size_mib,
        parameters: "systemd.unit=flashlab-end.service systemd.show_status=0 audit=0",
        seconds_max: boot.seconds_max,
        disk,
        limits: &boot.limits,
        qemu: programs.place(QEMU),
    };
    let layer =
        if boot.writable { "writable, without an overlay" } else { "read-only, below an overlay in memory" };
    let options = if boot.options.is_empty() { String::new() } else { format!(" {}", boot.options) };
    let filesystem = format!("{}{options} ({layer})", format.name());
    record_machine(&machine, filesystem, format!("boot\n{PROGRAMS}"), progress)
}

/// Checks that busybox needs no libraries. The guest also runs busybox in the booted root, where the
/// libraries of this host could be missing or could replace those of the image.
fn check_static(busybox: &Path) -> Result<(), RecordError> {
    match libraries(busybox)?.is_empty() {
        true => Ok(()),
        false => Err(RecordError::Setting(format!(
            "{}: a boot needs a busybox without libraries; on Debian: apt-get install busybox-static",
            busybox.display()
        ))),
    }
}

/// Returns the format of an image and its size in MiB, rounded up.
fn inspect(image: &Path) -> Result<(ImageFormat, u64), RecordError> {
    let io = |error| RecordError::io(image, error);
    let mut start = Vec::new();
    let file = File::open(image).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    file.take(4096).read_to_end(&mut start).map_err(io)?;
    let refuse = |fault: String| RecordError::Setting(format!("{}: {fault}", image.display()));
    let format = ImageFormat::of(&start)
        .ok_or_else(|| refuse("the file is not a SquashFS, EROFS or ext4 image".into()))?;
    let size_mib = size.div_ceil(1 << 20);
    match size_mib <= IMAGE_MIB_MAX {
        true => Ok((format, size_mib)),
        false => Err(refuse(format!(
            "the image has {size_mib} MiB; at most {IMAGE_MIB_MAX} MiB fit in the memory of the guest"
        ))),
    }
}

/// Builds the archive of the guest: its first process, the modules, the image, and the files to add to the root.
fn archive(boot: &Boot, format: ImageFormat, disk: Disk, busybox: &Path) -> Result<Vec<u8>, RecordError> {
    let mut root = Root::default();
    for folder in ["bin", "modules", "proc", "sys", "dev", "tmp"] {
        root.folder(Path::new(folder));
    }
    let mut variables = crate::plan::disk_variables(disk, &boot.limits);
    variables.push(("FILESYSTEM", format.name().to_owned()));
    variables.push(("WRITABLE", u8::from(boot.writable).to_string()));
    root.start(INIT);
    root.file(Path::new("plan.sh"), 0o644, quoted(&variables).as_bytes());
    root.events();
    root.modules(&boot.kernel, &[&["overlay"], format.modules()].concat())?;
    root.copy(busybox, Path::new("bin/busybox"))?;
    root.copy(busybox, Path::new("added/flashlab/busybox"))?;
    let units = Path::new("added/etc/systemd/system");
    root.file(Path::new("added/flashlab/end"), 0o755, include_bytes!("boot/end.sh"));
    root.file(Path::new("added/flashlab/programs"), 0o755, PROGRAMS.as_bytes());
    root.file(&units.join("flashlab-end.service"), 0o644, include_bytes!("boot/end.service"));
    root.file(&units.join("flashlab-programs.service"), 0o644, include_bytes!("boot/programs.service"));
    let image = fs::read(&boot.image).map_err(|error| RecordError::io(&boot.image, error))?;
    root.file(Path::new("image"), 0o644, &image);
    Ok(root.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_by_their_superblocks() {
        let image = |offset: usize, magic: &[u8]| {
            let mut bytes = vec![0; 4096];
            bytes[offset..offset + magic.len()].copy_from_slice(magic);
            bytes
        };
        assert_eq!(ImageFormat::of(&image(0, b"hsqs")), Some(ImageFormat::Squashfs));
        assert_eq!(ImageFormat::of(&image(1024, &[0xe2, 0xe1, 0xf5, 0xe0])), Some(ImageFormat::Erofs));
        assert_eq!(ImageFormat::of(&image(1080, &[0x53, 0xef])), Some(ImageFormat::Ext4));
        assert_eq!(ImageFormat::of(&image(1080, &[0x53, 0xee])), None);
        assert_eq!(ImageFormat::of(b"hsq"), None);
    }

    #[test]
    fn a_busybox_with_libraries_is_refused() {
        // The shell of most systems is linked dynamically, like Debian's package `busybox`.
        let shell = Path::new("/bin/sh");
        let is_static = libraries(shell).unwrap().is_empty();
        assert_eq!(check_static(shell).is_ok(), is_static);
    }

    #[test]
    fn a_file_that_is_missing_or_of_another_format_is_refused() {
        let path = std::env::temp_dir().join(format!("flashlab-no-image-{}", std::process::id()));
        fs::write(&path, [0; 8192]).unwrap();
        let fault = inspect(&path).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        assert!(fault.contains("not a SquashFS, EROFS or ext4 image"), "{fault}");
        let fault = inspect(&path).unwrap_err().to_string();
        assert!(fault.contains("No such file"), "{fault}");
    }
}
