//! Tests of the check for devices in use, on a copy of sysfs and procfs.

use flashlab_measure::in_use::{Kernel, Use, filesystem_of, identity_of};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns a kernel with the disks `sda` (8:0, partitions 1 and 2) and `mmcblk0` (179:0, partition 1).
fn kernel(name: &str, mountinfo: &str) -> Kernel {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("in-use").join(name);
    let _ = fs::remove_dir_all(&root);
    let (sys, proc) = (root.join("sys"), root.join("proc"));
    let file = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
        fs::write(path, text).expect("a writable folder");
    };
    type Entries<'a> = &'a [(&'a str, &'a str)];
    let parts: [(&str, &str, Entries<'_>); 2] = [
        ("sda", "8:0", &[("sda1", "8:1"), ("sda2", "8:2")]),
        ("mmcblk0", "179:0", &[("mmcblk0p1", "179:1")]),
    ];
    fs::create_dir_all(sys.join("dev/block")).expect("a writable folder");
    for (disk, number, partitions) in parts {
        let folder = sys.join("block").join(disk);
        file(&folder.join("dev"), number);
        file(&folder.join("device/name"), "SU08G\n");
        file(&folder.join("device/serial"), "0x1234\n");
        let link = |number: &str, to: &Path| {
            std::os::unix::fs::symlink(to, sys.join("dev/block").join(number)).expect("a link");
        };
        link(number, &folder);
        for (partition, number) in partitions {
            file(&folder.join(partition).join("dev"), number);
            file(&folder.join(partition).join("partition"), "1");
            fs::create_dir_all(folder.join(partition).join("holders")).expect("a writable folder");
            link(number, &folder.join(partition));
        }
    }
    file(&proc.join("mountinfo"), mountinfo);
    file(&proc.join("swaps"), "Filename Type Size Used Priority\n");
    Kernel { sys, proc, dev: root.join("dev") }
}

const ROOT: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/none rw\n";
const CARD: &str = "30 22 179:1 / /media/my\\040card rw - vfat /dev/none rw\n";

#[test]
fn a_free_disk_is_not_in_use() {
    let kernel = kernel("free", ROOT);
    assert_eq!(kernel.find_use(179, 0).expect("readable"), None);
    let facts = kernel.facts(179, 0);
    assert_eq!((facts.name.as_str(), facts.model.as_deref()), ("mmcblk0", Some("SU08G")));
    assert_eq!(facts.serial.as_deref(), Some("0x1234"));
}

#[test]
fn a_disk_with_a_mounted_partition_is_refused_by_the_name_of_the_partition() {
    let kernel = kernel("mounted", &format!("{ROOT}{CARD}"));
    let found = kernel.find_use(179, 0).expect("readable").expect("it is mounted");
    assert_eq!(found, Use::Mounted { device: "mmcblk0p1".into(), at: "/media/my card".into() });
    assert_eq!(found.to_string(), "mmcblk0p1 is mounted at /media/my card; umount /media/my card first");
    assert_eq!(kernel.find_use(179, 1).expect("readable"), Some(found));
}

#[test]
fn the_disk_of_the_system_is_refused() {
    let kernel = kernel("system", ROOT);
    let found = kernel.find_use(8, 0).expect("readable").expect("it is the root");
    assert_eq!(found.to_string(), "sda1 is mounted at /: this is the disk of the running system");
}

#[test]
fn another_partition_of_the_disk_may_be_mounted() {
    let kernel = kernel("another", ROOT);
    assert_eq!(kernel.find_use(8, 2).expect("readable"), None);
}

#[test]
fn a_part_of_a_volume_is_refused() {
    let kernel = kernel("held", ROOT);
    fs::write(kernel.sys.join("block/mmcblk0/mmcblk0p1/holders/dm-0"), "").expect("a writable folder");
    let found = kernel.find_use(179, 0).expect("readable").expect("it is held");
    assert_eq!(found, Use::Held { device: "mmcblk0p1".into(), by: "dm-0".into() });
}

#[test]
fn unknown_devices_and_missing_lists_are_errors_and_not_free_disks() {
    let mut kernel = kernel("unknown", ROOT);
    assert!(kernel.find_use(250, 7).is_err());
    kernel.proc = "/nonexistent".into();
    assert!(kernel.find_use(179, 0).is_err());
}

#[test]
fn the_filesystem_of_a_path_is_named() {
    let filesystem = filesystem_of(&Kernel::default(), Path::new("/proc"));
    assert_eq!(filesystem.as_deref(), Some("proc"));
}

#[test]
fn the_filesystem_of_a_subvolume_is_that_of_its_mount_point() {
    let folder = std::env::current_dir().expect("a working directory");
    let at = folder.parent().expect("a crate is in a folder").display().to_string().replace(' ', "\\040");
    let mountinfo = format!(
        "1 1 9999:1 / / rw - ext4 /dev/a rw\n2 1 9999:2 / {at} rw - tmpfs none rw\n\
         3 1 9999:3 /@ {at} rw - btrfs /dev/b rw\n4 1 9999:4 / {at}/no rw - xfs /dev/c rw\n"
    );
    let filesystem = filesystem_of(&kernel("subvolume", &mountinfo), &folder);
    assert_eq!(filesystem.as_deref(), Some("btrfs"));
}

#[test]
fn a_filesystem_is_identified_by_its_uuid_and_by_the_serial_of_the_disk() {
    let kernel = kernel("identity", ROOT);
    let folder = kernel.sys.parent().expect("a root");
    let number = {
        use std::os::linux::fs::MetadataExt;
        let number = fs::metadata(folder).expect("it exists").st_dev();
        format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
    };
    // The copy of sysfs does not contain the device with the folder of this test.
    let without = identity_of(&kernel, folder);
    assert_eq!((without.serial, without.model), (None, None));
    let link = kernel.sys.join("dev/block").join(number);
    std::os::unix::fs::symlink(kernel.sys.join("block/mmcblk0/mmcblk0p1"), link).expect("a link");
    let by_uuid = kernel.dev.join("disk/by-uuid");
    fs::create_dir_all(&by_uuid).expect("a writable folder");
    std::os::unix::fs::symlink("../../sda1", by_uuid.join("0123-4567")).expect("a link");
    std::os::unix::fs::symlink("../../mmcblk0p1", by_uuid.join("89AB-CDEF")).expect("a link");
    let found = identity_of(&kernel, folder);
    assert_eq!(found.filesystem_id.as_deref(), Some("89AB-CDEF"));
    assert_eq!((found.model.as_deref(), found.serial.as_deref()), (Some("SU08G"), Some("0x1234")));
}
