//! Without permission to write to the device, a measurement writes only to its own file.

use flashlab_measure::directory::{NAME, OwnFile};
use flashlab_measure::disk::Disk;
use flashlab_measure::{Access, Target};
use std::fs;
use std::path::PathBuf;

/// Returns a new directory for a test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a writable target directory");
    folder
}

#[test]
fn a_file_of_the_user_is_not_overwritten() {
    let folder = folder("not-overwritten");
    fs::write(folder.join(NAME), "precious").expect("a writable folder");
    let error = OwnFile::create(&folder, 1 << 20, false).expect_err("the file exists");
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(folder.join(NAME)).expect("it is still there"), "precious");
}

#[test]
fn a_link_in_the_place_of_the_file_is_not_followed() {
    let folder = folder("not-followed");
    fs::write(folder.join("precious"), [7; 8192]).expect("a writable folder");
    std::os::unix::fs::symlink("precious", folder.join(NAME)).expect("a link");
    assert!(OwnFile::create(&folder, 1 << 20, false).is_err());
    assert!(OwnFile::create(&folder, 1 << 20, true).is_err());
    assert_eq!(fs::read(folder.join("precious")).expect("it is still there"), [7; 8192]);
}

#[test]
fn a_target_without_permission_rejects_writes() {
    let path = folder("read-only").join("disk");
    fs::write(&path, vec![7; 1 << 20]).expect("a writable folder");
    let disk = match Disk::open(&path, Access::ReadOnly) {
        Ok(disk) => disk,
        Err(error) => return println!("skipped: no direct I/O here ({error})"),
    };
    let data = vec![0_u8; 8192];
    let start = data.as_ptr().align_offset(4096);
    let error = disk.channel().expect("a channel").write(0, &data[start..start + 4096]);
    assert!(error.is_err());
    assert!(disk.channel().expect("a channel").discard(0, 4096).is_err());
    assert_eq!(fs::read(&path).expect("it is still there"), vec![7; 1 << 20]);
}
