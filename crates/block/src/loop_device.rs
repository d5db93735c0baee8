//! Loop devices of Linux: block devices whose bytes lie in a file.
//!
//! A loop device neither locks its backing file nor opens it exclusively, so the file looks unused although a
//! filesystem on the loop device may be mounted. sysfs names the backing file of each loop device. Where sysfs is
//! missing or not readable, or the name leads to another mount namespace, the loop device is not found.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Directory in which Linux lists the block devices.
pub(crate) const BLOCK_DEVICES: &str = "/sys/block";

/// Returns the name of a loop device (`loop0`) whose backing file is this file or block device. `devices` is
/// [`BLOCK_DEVICES`].
pub(crate) fn find(devices: &Path, file: &fs::Metadata) -> Option<String> {
    let is_backing = |name: &String| {
        let backing = backing_file(&devices.join(name)).and_then(|path| fs::metadata(path).ok());
        backing.is_some_and(|backing| is_same(&backing, file))
    };
    let names = fs::read_dir(devices).ok()?.flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| name.starts_with("loop"));
    names.sort_unstable();
    names.into_iter().find(is_backing)
}

/// Returns the path of the backing file of the loop device with this directory in sysfs.
fn backing_file(device: &Path) -> Option<PathBuf> {
    let mut path = fs::read(device.join("loop/backing_file")).ok()?;
    if path.ends_with(b"\n") {
        path.pop();
    }
    Some(OsString::from_vec(path).into())
}

/// Returns true if both are the same file, or device files of the same block device.
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    match [one, other].map(|file| file.file_type().is_block_device()) {
        [true, true] => one.rdev() == other.rdev(),
        [false, false] => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().expect("a path in a directory")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }

    #[test]
    fn a_backing_file_is_found_under_any_of_its_names() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let [file, link, other] = [at("a b.img"), at("link.img"), at("other.img")];
        write(&file, b"");
        write(&other, b"");
        fs::hard_link(&file, &link).expect("a filesystem with links");
        let metadata = |path: &PathBuf| fs::metadata(path).expect("a file");
        assert_eq!(find(&at("sys"), &metadata(&file)), None, "without sysfs");
        let line = [file.as_os_str().as_encoded_bytes(), b"\n"].concat();
        write(&at("sys/loop3/loop/backing_file"), &line);
        write(&at("sys/loop1/loop/backing_file"), b"/nowhere/x.img (deleted)\n");
        write(&at("sys/loop0/size"), b"0\n");
        write(&at("sys/sda/loop/backing_file"), &line);
        assert_eq!(find(&at("sys"), &metadata(&link)), Some("loop3".to_owned()));
        assert_eq!(find(&at("sys"), &metadata(&other)), None);
    }
}
