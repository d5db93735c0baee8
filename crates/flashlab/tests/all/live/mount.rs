//! nbdfuse presents an export as a file; the test makes a filesystem on it and checks the filesystem.

use super::tools::{Folder, are_installed, skipped, with};
use std::path::Path;

#[test]
fn a_filesystem_made_through_nbdfuse_is_clean() {
    if !are_installed(&["nbdfuse", "mkfs.ext4", "fsck.ext4", "debugfs", "fusermount3"]) {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        skipped("there is no /dev/fuse");
        return;
    }
    let folder = Folder::new("nbdfuse");
    folder.noise("file", 3 << 20);
    let script = "mkdir mnt; nbdfuse -P pid mnt/disk $uri & server=$!
        until test -s pid; do kill -0 $server; sleep 0.05; done
        trap 'fusermount3 -u mnt || true; wait $server || true' EXIT
        mkfs.ext4 -q -F mnt/disk; fsck.ext4 -f -n mnt/disk
        debugfs -w -R 'write file noise' mnt/disk; fsck.ext4 -f -n mnt/disk
        debugfs -R 'dump noise back' mnt/disk; cmp file back";
    let printed = with(&folder, &["memory:size=64M"], script);
    assert!(printed.contains("Pass 5"), "{printed}");
}

#[test]
fn a_loop_device_over_nbdfuse_is_an_ordinary_block_device() {
    if !are_installed(&["nbdfuse", "losetup", "mkfs.ext4", "fsck.ext4", "fusermount3"]) {
        return;
    }
    let folder = Folder::new("loop");
    // A trial with a plain file shows whether this machine allows loop devices.
    let loops = "truncate -s 1M plain; loop=$(losetup -f --show plain) && losetup -d $loop";
    let probe = std::process::Command::new("sh").args(["-c", loops]).current_dir(&folder).output();
    if !Path::new("/dev/fuse").exists() || !probe.is_ok_and(|output| output.status.success()) {
        skipped("no loop devices or no /dev/fuse here");
        return;
    }
    let script = "mkdir mnt on; nbdfuse -P pid mnt/disk $uri & server=$!
        until test -s pid; do kill -0 $server; sleep 0.05; done
        trap 'umount on 2>/dev/null || true; losetup -d $loop 2>/dev/null || true; fusermount3 -u mnt || true; wait $server || true' EXIT
        loop=$(losetup -f --show mnt/disk)
        mkfs.ext4 -q $loop; mount $loop on
        dd if=/dev/zero of=on/file bs=64k count=100 conv=fsync status=none; sum=$(cksum < on/file); umount on
        mount $loop on; test \"$sum\" = \"$(cksum < on/file)\"; umount on
        fsck.ext4 -f -n $loop";
    let printed = with(&folder, &["memory:size=64M"], script);
    assert!(printed.contains("Pass 5"), "{printed}");
}
