//! Packs a directory or a tar archive into a root image with given options, and measures the size of the
//! image and the cost of the build.
//!
//! The tools read the directory itself, so extended attributes are kept. Ratios are defined as in the
//! published comparison of root images: the size of the image divided by the "uncompressed filesystem size"
//! that mksquashfs reports.

use crate::error::ImageError;
use crate::filesystem::{self, Format, Settings};
use crate::identity::Identity;
use crate::scan::Scan;
use crate::stage::Stage;
use crate::temporary;
use crate::tool::{MKSQUASHFS, TAR};
use flashlab_block::TemporaryFolder;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A configuration of an image: a format and the options of its tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// Name in tables.
    pub name: String,
    /// Format.
    pub format: Format,
    /// Options of the tool.
    pub options: Vec<String>,
}

/// An image and the cost of its build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// Size of the image in bytes.
    pub size: u64,
    /// CPU time of the tools, user and system.
    pub cpu: Duration,
}

/// Files to pack: a directory, or an archive that was unpacked into a temporary directory.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    _unpacked: Option<TemporaryFolder>,
}

/// The configurations of the published comparison: name, format and options. The comparison has one more
/// configuration, but no version of mkfs.erofs has its options.
const PUBLISHED: [(&str, Format, &str); 12] = [
    ("ext4", Format::Ext4, ""),
    ("squashfs, uncompressed", Format::Squashfs, "-noD -noI -noX -noF"),
    ("squashfs, gzip", Format::Squashfs, ""),
    ("squashfs, lz4hc", Format::Squashfs, "-comp lz4 -Xhc"),
    ("squashfs, xz", Format::Squashfs, "-comp xz"),
    ("squashfs, lzo", Format::Squashfs, "-comp lzo"),
    ("squashfs, zstd", Format::Squashfs, "-comp zstd"),
    ("erofs, uncompressed", Format::Erofs, ""),
    ("erofs, lz4hc", Format::Erofs, "-zlz4hc,12"),
    ("erofs, lzma", Format::Erofs, "-zlzma"),
    ("erofs, large clusters", Format::Erofs, "-zlz4hc -C65536"),
    ("erofs, well compressed", Format::Erofs, "-C1048576 -Eztailpacking -Eall-fragments -Ededupe -zlz4hc,12"),
];

/// Returns the configurations of the published comparison.
pub fn published() -> Vec<Configuration> {
    let owned = |options: &str| options.split_whitespace().map(str::to_owned).collect();
    PUBLISHED
        .iter()
        .map(|(name, format, options)| Configuration {
            name: (*name).to_owned(),
            format: *format,
            options: owned(options),
        })
        .collect()
}

impl Files {
    /// Opens a directory, or unpacks an archive that tar can read.
    ///
    /// # Errors
    /// Returns an error if the archive cannot be unpacked. Only root can unpack files of other users.
    pub fn open(source: &Path) -> Result<Files, ImageError> {
        if source.is_dir() {
            return Ok(Files { root: source.to_owned(), _unpacked: None });
        }
        fs::metadata(source).map_err(|error| ImageError::file(source, error))?;
        if !rustix::process::geteuid().is_root() {
            return Err(ImageError::UnpackNeedsRoot { archive: source.to_owned() });
        }
        let folder = temporary::folder()?;
        let root = folder.path().join("root");
        fs::create_dir(&root).map_err(|error| ImageError::file(&root, error))?;
        let call = TAR.call()?.args(["--extract", "--numeric-owner", "--preserve-permissions"]);
        let call = call.args(["--xattrs", "--xattrs-include=*", "--file"]).arg(source).arg("--directory");
        call.arg(&root).run(&root)?;
        Ok(Files { root, _unpacked: Some(folder) })
    }

    /// Packs the files into the image `to`, which must not exist.
    ///
    /// # Errors
    /// Returns an error if the format cannot store a file, an option would have no effect, or the tool fails.
    pub fn build(
        &self,
        configuration: &Configuration,
        size: Option<u64>,
        to: &Path,
    ) -> Result<Built, ImageError> {
        let scan = Scan::of(&self.root)?;
        let settings = Settings {
            identity: Identity::new("image"),
            label: String::new(),
            time: scan.tree().newest().max(1),
            size,
            first_sector: 0,
            options: configuration.options.clone(),
        };
        let stage = Stage::in_place(scan)?;
        let before = cpu_of_children();
        filesystem::make(configuration.format, &stage, &settings, to)?;
        let cpu = cpu_of_children().saturating_sub(before);
        stage.check_unchanged()?;
        let made = fs::metadata(to).map_err(|error| ImageError::file(to, error))?;
        Ok(Built { size: made.len(), cpu })
    }

    /// Returns the "uncompressed filesystem size" of mksquashfs in bytes, the base of ratios. mksquashfs reports it in
    /// hundredths of KiB.
    ///
    /// # Errors
    /// Returns an error if mksquashfs is missing or fails.
    pub fn uncompressed_size(&self) -> Result<u64, ImageError> {
        let folder = temporary::folder()?;
        let image = folder.path().join("image");
        let call = MKSQUASHFS.call()?.arg(&self.root).arg(&image);
        let report = call.args(["-no-progress", "-noI", "-noD", "-noF", "-noX"]).run(&image)?;
        parse_uncompressed(&report).ok_or_else(|| ImageError::Tool {
            program: MKSQUASHFS.program,
            messages: format!("no uncompressed filesystem size in its report: {report}"),
        })
    }
}

fn parse_uncompressed(report: &str) -> Option<u64> {
    let (_, rest) = report.split_once("of uncompressed filesystem size (")?;
    let kib: f64 = rest.split(' ').next()?.parse().ok()?;
    Some((kib * 1024.0).round() as u64)
}

/// Returns the CPU time of all children that have ended.
fn cpu_of_children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("Linux counts the time of children");
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(microseconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uncompressed_size_comes_from_the_report() {
        let report = "Filesystem size 0.31 Kbytes (0.00 Mbytes)\n\t74.82% of uncompressed filesystem size (1234.50 \
                      Kbytes)\nInode table size 71 bytes (0.07 Kbytes)\n";
        assert_eq!(parse_uncompressed(report), Some(1_264_128));
        assert_eq!(parse_uncompressed("Filesystem size 0.31 Kbytes"), None);
    }
}
