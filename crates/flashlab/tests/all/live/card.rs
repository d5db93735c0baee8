//! Linux's own SD driver on our card, in a QEMU guest in software emulation. The card is behind an emulated VUB300 USB
//! adapter, over usbredir and over USB/IP. Each test takes about half a minute.
//!
//! The tests look for Debian's generic kernel in `target/guest-mmc`, where `./test` unpacks it, and then in the system;
//! a test of large cards takes Linux 6.12 from `target/guest-mmc-6.12`.
//! Debian's cloud kernel has no driver for SD cards.

use super::guest::kernel_in;
use super::tools::{Folder, are_installed, skipped, with};
use std::path::PathBuf;

/// Modules of the adapter's driver and of a filesystem, in the order of their dependencies.
const CARD: &str = "mmc_core mmc_block vub300 fat vfat nls_cp437 nls_ascii";

/// Connection between a served card and a guest.
pub(crate) struct Wiring {
    /// Modules that the guest loads before the card's.
    pub(crate) modules: &'static str,
    /// Arguments of QEMU.
    pub(crate) devices: &'static str,
    /// Options of `flashlab serve` for this connection.
    pub(crate) serve: &'static [&'static str],
    /// Commands with which the guest attaches the card.
    pub(crate) attach: &'static str,
    pub(crate) tools: &'static [&'static str],
    /// Command through which the output of the guest's console is piped.
    pub(crate) console: &'static str,
}

pub(crate) const USBREDIR: Wiring = Wiring {
    modules: "usb-common usbcore xhci-hcd xhci-pci",
    devices: "-chardev socket,path=$unixsocket,id=card -device qemu-xhci -device usb-redir,chardev=card",
    serve: &["--usbredir", "-"],
    attach: "",
    tools: &[],
    console: "cat",
};

pub(crate) const USBIP: Wiring = Wiring {
    modules: "usb-common usbcore usbip-core vhci-hcd virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev \
              virtio_pci failover net_failover virtio_net",
    devices: "-netdev user,id=net -device virtio-net-pci,netdev=net,romfile=",
    serve: &["--usbip", "127.0.0.1:0"],
    attach: "ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; mkdir -p /var/run
        usbip --tcp-port PORT attach --remote 10.0.2.2 --busid 1-1 && step attached",
    tools: &["usbip"],
    console: "cat",
};

/// Beginning of each guest's script: it turns on the kernel's log of each command, and connects the card.
const BOOT: &str = r#"#!/bin/busybox sh
export PATH=/bin:/tools
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
dmesg -n 1
step() { echo "GUEST $*"; }
# The driver checks the slot and the card within about a second; on a busy machine it takes longer.
waited() { for wait in $(seq 600); do "$@" && return; sleep 1; done; false; }
# Errors and warnings of the mmc core and the USB stack.
complaints() { dmesg -r | grep '^<[0-4]>' | grep -i -E 'mmc|usb|vub|fat|I/O'; }
dmesg -c > /dev/null
for module in MODULES; do insmod /modules/$module.ko $(test $module = mmc_core && echo dyndbg=+p); done
ATTACH
"#;

/// Waits for the card.
const FIND: &str = r#"
waited test -b /dev/mmcblk0
disk=/dev/mmcblk0
dmesg | grep -q 'new high speed SD.* card at address' && step found
"#;

const USE: &str = r#"
step size $(cat /sys/block/mmcblk0/size)
forget() { sync; echo 3 > /proc/sys/vm/drop_caches; }
dd if=/dev/urandom of=/noise bs=64k count=16 2>/dev/null
dd if=/noise of=$disk bs=1M count=1 seek=8 oflag=direct 2>/dev/null
dd if=$disk bs=1M count=1 skip=8 iflag=direct of=/back 2>/dev/null
cmp /noise /back && step same
blkdiscard -o 8M -l 1M $disk && step discarded
mkdosfs $disk && mkdir /on && mount -t vfat $disk /on && cp /noise /on/noise && umount /on
forget
mount -t vfat $disk /on && cmp /noise /on/noise && step filesystem; umount /on
complaints && step complained
# From here on all that the kernel says is on the console.
dmesg -n 8
poweroff -f
"#;

const PROBE: &str = r#"
# Without a reset between: nothing here caches what was written.
f3probe --destructive --reset-type=2 $disk | grep -E 'news|Usable'
poweroff -f
"#;

const FILL: &str = r#"
mkdosfs $disk && mkdir /on && mount -t vfat $disk /on && f3write --show-progress=0 /on > /dev/null && step filled
umount /on; echo 3 > /proc/sys/vm/drop_caches; mount -t vfat $disk /on
f3read --show-progress=0 /on | grep -E 'Data'
poweroff -f
"#;

/// Waits until the driver gives the card up.
const GIVE_UP: &str = r#"
step Linux $(uname -r | cut -d. -f1,2)
given_up() { dmesg | grep -q 'error -110 whilst initialising SD card'; }
waited given_up && step timed out
dmesg | grep -q 'starting CMD41 arg 40' && step asked for high capacity
test -b /dev/mmcblk0 || step no card
poweroff -f
"#;

const PULLED: &str = r#"
dd if=/dev/zero of=$disk bs=1M count=8 oflag=direct 2>&1 | grep -q 'error' && step failed
removed() { dmesg | grep -q 'mmc0: card .* removed'; }
waited removed && step removed
test -b $disk || step gone
poweroff -f
"#;

#[test]
fn linux_brings_our_card_up_writes_mounts_and_shuts_down() {
    let Some(printed) = guest("guest-card", &USBREDIR, USE, &["sd/kingston"], &[]) else { return };
    assert_eq!(steps(&printed), ["found", "size 62498816", "same", "discarded", "filesystem"], "{printed}");
    assert!(printed.contains("req done (CMD7): 0:"), "no clean shutdown\n{printed}");
    assert!(!printed.contains("during shutdown"), "{printed}");
}

#[test]
fn linux_imports_our_card_over_usbip() {
    let Some(printed) = guest("guest-usbip", &USBIP, USE, &["sd/kingston"], &[]) else { return };
    let expected = ["attached", "found", "size 62498816", "same", "discarded", "filesystem"];
    assert_eq!(steps(&printed), expected, "{printed}");
}

#[test]
fn f3probe_exposes_a_card_that_wraps() {
    // The size that f3probe assumes for a cache must be smaller than the card's real size.
    let serve = ["sd/kingston", "--unpaced", "--quirk", "wraps=4GiB"];
    let Some(printed) = guest("guest-wraps", &USBREDIR, PROBE, &serve, &["f3probe"]) else { return };
    assert!(printed.contains("is a counterfeit of type wraparound"), "{printed}");
    assert!(printed.contains("*Usable* size: 4.00 GB (8388608 blocks)"), "{printed}");
}

#[test]
fn f3probe_exposes_a_card_that_drops() {
    let serve = ["sd/kingston", "--unpaced", "--quirk", "drops=1GiB"];
    let Some(printed) = guest("guest-drops", &USBREDIR, PROBE, &serve, &["f3probe"]) else { return };
    assert!(printed.contains("is a counterfeit of type limbo"), "{printed}");
    assert!(printed.contains("*Usable* size: 1.00 GB (2097152 blocks)"), "{printed}");
}

#[test]
fn f3read_finds_what_f3write_lost_on_a_card_that_drops() {
    let serve = ["sd/kingston:card.capacity=128MiB", "--unpaced", "--quirk", "drops=64MiB"];
    let Some(printed) = guest("guest-filled", &USBREDIR, FILL, &serve, &["f3write", "f3read"]) else {
        return;
    };
    assert!(printed.contains("GUEST filled"), "a write was not acknowledged\n{printed}");
    assert!(printed.contains("Data LOST: 64.00 MB"), "{printed}");
}

#[test]
fn a_card_of_4_tib_gives_no_response_to_a_linux_that_knows_no_such_cards() {
    let folder = Folder::new("guest-sduc");
    let kernel = kernel_in("guest-mmc-6.12", "vub300.ko")
        .filter(|(image, _)| image.to_string_lossy().contains("guest-mmc-6.12"));
    let serve = ["sd/kingston:card.capacity=4TiB"];
    let Some(printed) = boot(&folder, kernel, &USBREDIR, CARD, GIVE_UP, &serve, &[]) else { return };
    let expected = ["Linux 6.12", "timed out", "asked for high capacity", "no card"];
    assert_eq!(steps(&printed), expected, "{printed}");
}

#[test]
fn a_card_pulled_out_during_a_write_is_removed() {
    let serve = ["sd/kingston", "--quirk", "remove@block5000"];
    let Some(printed) = guest("guest-pulled", &USBREDIR, PULLED, &serve, &[]) else { return };
    assert_eq!(steps(&printed), ["found", "failed", "removed", "gone"], "{printed}");
}

pub(crate) fn steps(printed: &str) -> Vec<&str> {
    printed.lines().filter_map(|line| line.trim_end().strip_prefix("GUEST ")).collect()
}

pub(crate) fn guest(
    name: &str,
    wiring: &Wiring,
    what: &str,
    serve: &[&str],
    tools: &[&str],
) -> Option<String> {
    guest_in(&Folder::new(name), wiring, what, serve, tools)
}

/// Boots a guest that runs `what` with the card of `serve` in its slot and with copies of `tools` from this machine.
/// Returns the output of its console. The server runs in `folder`.
pub(crate) fn guest_in(
    folder: &Folder,
    wiring: &Wiring,
    what: &str,
    serve: &[&str],
    tools: &[&str],
) -> Option<String> {
    let kernel = kernel_in("guest-mmc", "vub300.ko");
    boot(folder, kernel, wiring, CARD, &format!("{FIND}{what}"), serve, tools)
}

/// Boots a guest like [`guest_in`], with the given kernel and the folder of its modules. The guest loads
/// `drivers` after the modules of the connection, and waits for no device.
pub(crate) fn boot(
    folder: &Folder,
    kernel: Option<(PathBuf, PathBuf)>,
    wiring: &Wiring,
    drivers: &str,
    what: &str,
    serve: &[&str],
    tools: &[&str],
) -> Option<String> {
    let tools = [wiring.tools, tools].concat();
    if !are_installed(&[&["qemu-system-x86_64", "busybox"], &tools[..]].concat()) {
        return None;
    }
    let Some((kernel, modules)) = kernel else {
        skipped("no Debian kernel with SD cards in target/guest-mmc, target/guest-mmc-6.12 or /boot");
        return None;
    };
    std::fs::create_dir(folder.path("root")).expect("the test owns the path");
    let all: Vec<&str> = wiring.modules.split_whitespace().chain(drivers.split_whitespace()).collect();
    let init = format!("{BOOT}{what}").replace("MODULES", &all.join(" ")).replace("ATTACH", wiring.attach);
    std::fs::write(folder.path("root/init"), init).expect("the disk has room");
    let names = all.join(".ko -o -name ");
    let script = format!(
        "cd root; sed -i 's|PORT|'${{uri##*:}}'|' init; chmod +x init; mkdir bin tools proc sys dev modules; cp $(command -v busybox) bin
         for tool in {tools}; do
            cp $(command -v $tool) tools
            for library in $(ldd tools/$tool | grep -o '/[^ ]*'); do cp --parents $library .; done
         done
         find {modules} -name {names}.ko | xargs -I+ cp + modules
         find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > ../initrd; cd ..
         timeout 1800 qemu-system-x86_64 -accel tcg -m 512 -nodefaults -no-reboot -display none -serial stdio \\
            -kernel {kernel} -initrd initrd -append 'console=ttyS0 panic=-1 quiet no_timer_check log_buf_len=4M' \\
            {devices} < /dev/null | {console}",
        devices = wiring.devices,
        console = wiring.console,
        tools = tools.join(" "),
        modules = modules.display(),
        kernel = kernel.display(),
    );
    let mut arguments = serve.to_vec();
    arguments.extend(wiring.serve.iter().copied());
    Some(with(folder, &arguments, &script))
}
