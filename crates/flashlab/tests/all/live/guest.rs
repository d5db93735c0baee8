//! QEMU guests with Debian's kernel, in software emulation, about 20 seconds each. They attach the export with Linux's
//! NBD client over four connections, as a QEMU drive beside a composed disk, and as QEMU's SD card.
//!
//! The tests look for kernels and their modules in `target/guest` and, for SD cards, in `target/guest-mmc`, where
//! `./test` unpacks them, and then in the system.

use super::tools::{Folder, are_installed, flashlab, skipped, with};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Beginning of each guest's script.
const BOOT: &str = r#"#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
# Modules depend on one another; several rounds load them in a valid order.
for round in 1 2 3 4 5; do for module in /modules/*.ko; do insmod $module 2>/dev/null; done; done
step() { echo "GUEST $*"; }
forget() { sync; echo 3 > /proc/sys/vm/drop_caches; }
dd if=/dev/urandom of=/noise bs=64k count=64 2>/dev/null
"#;

/// Attaches the card over four connections, and writes to it from four processes at a time.
const ATTACH: &str = r#"
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
disk=/dev/nbd0
/tools/nbd-client -C 4 -b 4096 -N card 10.0.2.2 $port $disk && step attached
"#;

/// Writes random data to the card and reads it back; then makes a filesystem and does the same with a file on it.
const USE: &str = r#"
step size $(cat /sys/block/${disk#/dev/}/size)
for part in 0 1 2 3; do
    dd if=/noise of=$disk bs=64k skip=$((part * 16)) seek=$((part * 100)) count=16 conv=fsync 2>/dev/null &
done
wait
forget
for part in 0 1 2 3; do
    dd if=$disk bs=64k skip=$((part * 100)) count=16 2>/dev/null
done > /back
cmp /noise /back && step same
/tools/mke2fs -q -t ext4 -F $disk </dev/null; mount -t ext4 $disk /on && cp /noise /on/noise; umount /on
forget
mount -t ext4 $disk /on && cmp /noise /on/noise && step filesystem; umount /on
"#;

/// Formats of the partitions of the composed disk, with their sizes.
const PARTITIONS: [(&str, &str); 6] = [
    ("vfat", "size = '40MiB'"),
    ("ext2", "size = '4MiB'"),
    ("ext3", "size = '8MiB'"),
    ("ext4", "size = '8MiB'"),
    ("squashfs", ""),
    ("erofs", ""),
];

/// Files of each partition.
const CONTENTS: &str = r#"
[[partition.file]]
to = "noise"
from = "noise"
checksum = "sha256"
[[partition.file]]
to = "deep/folder/A long name, with spaces.txt"
text = "found\n"
"#;

/// Mounts each partition of a composed disk and reads its files.
const MOUNT: &str = r#"
number=0
for format in vfat ext2 ext3 ext4 squashfs erofs; do
    number=$((number + 1))
    mount -t $format -o ro /dev/vdb$number /on || continue
    (cd /on && sha256sum -c -s noise.sha256 && step $format $(cat "deep/folder/A long name, with spaces.txt"))
    umount /on
done
"#;

/// Kernel modules that a network card, the block devices and the filesystems need.
const MODULES: [&str; 27] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_blk",
    "nbd",
    "mmc_core",
    "mmc_block",
    "cqhci",
    "sdhci",
    "sdhci-pci",
    "crc16",
    "crc32c_generic",
    "mbcache",
    "jbd2",
    "ext4",
    "fat",
    "vfat",
    "nls_cp437",
    "nls_ascii",
    "squashfs",
    "libcrc32c",
    "erofs",
];

#[test]
fn linuxs_own_client_uses_four_connections() {
    let network = "-netdev user,id=net -device virtio-net-pci,netdev=net,romfile=";
    let init = format!("{BOOT}{ATTACH}{USE}/tools/nbd-client -d $disk && step detached\npoweroff -f\n");
    let serve = ["card=memory:size=64M", "--tcp", "127.0.0.1:0"];
    let expected = ["attached", "size 131072", "same", "filesystem", "detached"];
    guest(&Folder::new("guest-nbd"), kernel(), &init, network, &serve, &expected);
}

#[test]
fn qemu_attaches_a_device_and_a_composed_disk_to_a_guest_as_drives() {
    let folder = Folder::new("guest-drive");
    let mut drives = "-drive file=$uri,format=raw,if=virtio,discard=unmap".to_owned();
    let mut init = format!("{BOOT}disk=/dev/vda\n{USE}");
    let mut expected = vec!["size 131072".to_owned(), "same".into(), "filesystem".into()];
    if compose(&folder) {
        drives.push_str(" -drive file=composed.img,format=raw,if=virtio,readonly=on");
        init.push_str(MOUNT);
        expected.extend(PARTITIONS.map(|(format, _)| format!("{format} found")));
    }
    init.push_str("poweroff -f\n");
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    guest(&folder, kernel(), &init, &drives, &["card=memory:size=64M"], &expected);
}

/// Composes a disk with a partition of each format. Returns false if a program is missing.
fn compose(folder: &Folder) -> bool {
    if !cfg!(feature = "image") {
        return skipped("no composed disk without the feature image");
    }
    if !are_installed(&["mkfs.vfat", "mcopy", "mke2fs", "debugfs", "mksquashfs", "mkfs.erofs"]) {
        return false;
    }
    folder.noise("noise", 300_000);
    let partition = |(format, size)| format!("[[partition]]\nformat = '{format}'\n{size}\n{CONTENTS}");
    let recipe = format!("table = 'gpt'\nseed = 'drive'\n{}", PARTITIONS.map(partition).concat());
    std::fs::write(folder.path("composed.toml"), recipe).expect("the disk has room");
    let mut compose = flashlab(&["image", "compose", "composed.toml", "--to", "composed.img"]);
    let made = compose.current_dir(folder).output().expect("the program is built");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    true
}

#[test]
fn qemu_attaches_a_device_to_a_guest_as_an_sd_card() {
    let card = "-drive file=$uri,format=raw,if=none,id=card -device sdhci-pci -device sd-card,drive=card";
    let found = "disk=/dev/mmcblk0; until [ -b $disk ]; do sleep 0.1; done";
    let init = format!("{BOOT}{found}\n{USE}poweroff -f\n");
    let expected = ["size 131072", "same", "filesystem"];
    let kernel = kernel_in("guest-mmc", "sdhci-pci.ko");
    guest(&Folder::new("guest-sdhci"), kernel, &init, card, &["card=memory:size=64M"], &expected);
}

/// Boots a guest that runs `init` while the card is served, and checks the steps that it reports and the resulting
/// filesystem.
fn guest(
    folder: &Folder,
    kernel: Option<(PathBuf, PathBuf)>,
    init: &str,
    devices: &str,
    serve: &[&str],
    expected: &[&str],
) {
    if !are_installed(&["qemu-system-x86_64", "busybox", "nbd-client", "nbdcopy", "mke2fs", "fsck.ext4"]) {
        return;
    }
    let Some((kernel, modules)) = kernel else {
        skipped("no such Debian kernel in target/guest, target/guest-mmc or /boot");
        return;
    };
    initial_filesystem(folder, init, &["nbd-client", "mke2fs"], &modules, &MODULES);
    // The kernel passes `port` to the environment of the guest's script.
    let script = format!(
        "port=${{uri##*:}}; {} {devices} < /dev/null
         nbdcopy $uri card.img; fsck.ext4 -f -n card.img",
        qemu(&kernel, "port=${port%%/*}")
    );
    let printed = with(folder, serve, &script);
    let steps: Vec<&str> =
        printed.lines().filter_map(|line| line.trim_end().strip_prefix("GUEST ")).collect();
    assert_eq!(steps, expected, "{printed}");
    assert!(printed.contains("Pass 5"), "{printed}");
}

/// Returns the shell command that boots `initrd` with `kernel` and further kernel parameters. Devices can follow.
fn qemu(kernel: &Path, parameters: &str) -> String {
    // On a busy machine, the emulated timer can fail the kernel's check, which `no_timer_check` skips.
    format!(
        "timeout -s KILL 1800 qemu-system-x86_64 -accel tcg -m 1024 -nodefaults -no-reboot -display none \
         -serial stdio -kernel {} -initrd initrd \
         -append \"console=ttyS0 panic=-1 quiet no_timer_check {parameters}\"",
        kernel.display()
    )
}

/// Returns the command of a guest that runs `init`, not yet started. Its initial filesystem contains flashlab, the file
/// `noise`, `tools` and the kernel modules whose names match a pattern in `modules`.
pub(crate) fn guest_with_flashlab(
    folder: &Folder,
    init: &str,
    tools: &[&str],
    (kernel, all_modules): (&Path, &Path),
    modules: &[&str],
) -> Command {
    let tools = [&[env!("CARGO_BIN_EXE_flashlab")][..], tools].concat();
    initial_filesystem(folder, init, &tools, all_modules, modules);
    let mut guest = Command::new("sh");
    guest.args(["-c", &format!("exec {} \"$@\"", qemu(kernel, "")), "qemu"]);
    guest.stdin(Stdio::null()).current_dir(folder);
    guest
}

/// Writes the file `initrd`: a guest's initial filesystem with `init`, the file `noise` of the folder if there is one,
/// `tools` with their libraries, and the kernel modules whose names match a pattern in `modules`.
pub(crate) fn initial_filesystem(
    folder: &Folder,
    init: &str,
    tools: &[&str],
    all_modules: &Path,
    modules: &[&str],
) {
    std::fs::write(folder.path("init"), init).expect("the disk has room");
    let names: Vec<String> = modules.iter().map(|name| format!("-name '{name}.ko'")).collect();
    let script = format!(
        "set -e; PATH=$PATH:/usr/sbin:/sbin
         mkdir root; cd root; mkdir bin tools proc sys dev tmp modules on; cp $(command -v busybox) bin
         [ ! -e ../noise ] || cp ../noise noise; cp ../init init; chmod +x init
         for tool in {tools}; do
            cp $(command -v $tool) tools
            for library in $(ldd $(command -v $tool) | grep -o '/[^ ]*'); do
                cp --parents $library . 2>/dev/null || true
            done
         done
         strip tools/flashlab 2>/dev/null || true
         find {modules} {names} | xargs -I+ cp + modules
         find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > ../initrd",
        tools = tools.join(" "),
        modules = all_modules.display(),
        names = names.join(" -o "),
    );
    let made =
        Command::new("sh").args(["-c", &script]).current_dir(folder).output().expect("there is a shell");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Returns a kernel with Linux's NBD client, such as Debian's cloud kernel in `target/guest`, and the folder
/// of its modules.
pub(crate) fn kernel() -> Option<(PathBuf, PathBuf)> {
    kernel_in("guest", "nbd.ko")
}

/// Returns a kernel that has `module`, from a folder of `target` or from the system, and the folder of its modules.
pub(crate) fn kernel_in(folder: &str, module: &str) -> Option<(PathBuf, PathBuf)> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(folder);
    [unpacked.as_path(), Path::new("/")].into_iter().find_map(|root| {
        let boot = std::fs::read_dir(root.join("boot")).ok()?;
        let names = boot.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let version = names.filter_map(|name| Some(name.strip_prefix("vmlinuz-")?.to_owned())).max()?;
        let modules = root.join("lib/modules").join(&version);
        let [image, packed] =
            ["vmlinux", "vmlinuz"].map(|name| root.join("boot").join(format!("{name}-{version}")));
        let image = if image.exists() { image } else { packed };
        has(&modules, module).then_some((image, modules))
    })
}

fn has(folder: &Path, file: &str) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => has(&entry.path(), file),
        _ => entry.file_name() == file,
    })
}
