//! Linux's own driver `usb-storage` on our stick, in a QEMU guest in software emulation, over usbredir and over USB/IP.
//! The guest takes about a quarter of a minute. The tests of cards use the same guest and kernel.

use super::card::{USBIP, Wiring, boot, steps};
use super::card_ctl::CONTROLLED;
use super::guest::kernel_in;
use super::tools::{Folder, with};

/// Modules of the stick's driver and of the filesystems, in the order of their dependencies.
const STICK: &str = "scsi_common scsi_mod crct10dif_common crc-t10dif crc64 crc64-rocksoft t10-pi sd_mod usb-storage \
                     fat vfat nls_cp437 nls_ascii crc16 crc32c_generic mbcache jbd2 ext4";

/// Partitions the stick, formats both partitions, writes 16 MiB to each and reads them back.
const USE: &str = r#"
waited test -b /dev/sda && step size $(cat /sys/block/sda/size)
head -c 16777216 /dev/urandom > /noise
printf 'label: dos\n,512MiB,c\n,,L\n' | sfdisk -q /dev/sda && step partitioned
waited test -b /dev/sda2
mkdir /fat /ext
mkdosfs /dev/sda1 && /tools/mke2fs -q -t ext4 /dev/sda2 && step formatted
together() { mount -t vfat /dev/sda1 /fat && mount -t ext4 /dev/sda2 /ext && "$@"; umount /fat; umount /ext; }
fill() { cp /noise /fat/noise && cp /noise /ext/noise; }
compare() { cmp /noise /fat/noise && cmp /noise /ext/noise; }
together fill && step written
echo 3 > /proc/sys/vm/drop_caches
together compare && step same
"#;

const REPLUG: &str = r#"
host() { echo "HOST $*"; }
gone() { ! test -b /dev/sda; }
host unplug
waited gone && step gone
host replug
waited test -b /dev/sda2 && together compare && step back
host cut
waited gone && waited test -b /dev/sda2 && together compare && step back after a cut
host stats
host wear
"#;

/// Reports errors of the kernel since the drivers were loaded. A flush of a stick that is gone has to fail.
const END: &str = r#"
dmesg -r | grep -E '^<[0-3]>|[Ee]rror|[Ff]ail' | grep -v 'Synchronize Cache(10) failed: .*DID_NO_CONNECT' && step complained
sleep 1
poweroff -f
"#;

/// Fills the stick until it drops off the bus.
const OVERLOADED: &str = r#"
waited test -b /dev/sda
dd if=/dev/zero of=/dev/sda bs=1M count=64 oflag=direct 2>&1 | grep -q error && step failed
returned() { dmesg | grep -c 'Attached SCSI removable disk' | grep -q 2; }
waited returned && step returned
head -c 1048576 /dev/urandom > /noise
disk=/dev/$(ls /sys/block | grep sd)
dd if=/noise of=$disk bs=1M oflag=direct 2>/dev/null && dd if=$disk bs=1M count=1 iflag=direct 2>/dev/null | cmp - /noise && step usable
poweroff -f
"#;

fn guest(name: &str, wiring: &Wiring, what: &str, serve: &[&str], tools: &[&str]) -> Option<String> {
    boot(&Folder::new(name), kernel_in("guest-mmc", "usb-storage.ko"), wiring, STICK, what, serve, tools)
}

const USED: [&str; 5] = ["size 60604416", "partitioned", "formatted", "written", "same"];

#[test]
fn linux_partitions_formats_and_uses_our_stick_and_sees_it_replugged() {
    let script = format!("{USE}{REPLUG}{END}");
    let Some(printed) = guest("guest-stick", &CONTROLLED, &script, &["usb/usb3-1"], &["sfdisk", "mke2fs"])
    else {
        return;
    };
    let expected = [&USED[..], &["gone", "back", "back after a cut"]].concat();
    assert_eq!(steps(&printed), expected, "{printed}");
    assert!(printed.contains(" bytes written") && printed.contains("erase"), "{printed}");
}

/// Runs in the full form only, because the commands are those of the test over usbredir.
#[test]
fn linux_imports_our_stick_over_usbip() {
    if std::env::var_os("FLASHLAB_FULL").is_none() {
        return;
    }
    let script = format!("{USE}{END}");
    let Some(printed) = guest("guest-stick-usbip", &USBIP, &script, &["usb/usb3-1"], &["sfdisk", "mke2fs"])
    else {
        return;
    };
    assert_eq!(steps(&printed), [&["attached"], &USED[..]].concat(), "{printed}");
}

/// Runs in the full form only, because the crate `usb` tests the same events without a guest.
#[test]
fn linux_finds_a_stick_again_that_dropped_off_the_bus_under_load() {
    if std::env::var_os("FLASHLAB_FULL").is_none() {
        return;
    }
    let serve = ["usb/usb3-1", "--quirk", "disconnect=2s@block30000"];
    let Some(printed) = guest("guest-stick-drops", &CONTROLLED, OVERLOADED, &serve, &[]) else { return };
    assert_eq!(steps(&printed), ["failed", "returned", "usable"], "{printed}");
}

/// Without a client, the stick has no power, and all commands that need no power succeed.
#[test]
fn ctl_is_answered_while_the_stick_is_not_attached() {
    let folder = Folder::new("ctl-stick");
    let serve = ["usb/usb2-1:state=stick+error", "--usbredir", "-", "--control", "ctl.sock"];
    let script = format!(
        "ctl() {{ echo \"> $*\"; {} ctl ctl.sock \"$@\" 2>&1 || echo refused; }}
         ctl stats; ctl cut; ctl replug; ctl unplug; ctl unplug; ctl replug
         ctl fault disconnect@block30; ctl fault write-protected; ctl fault write at=0+4096 EIO; ctl fault capacity=5
         ctl fault; ctl fault slow; ctl fault list; ctl fault clear; ctl fault list
         ctl keep; ctl eject; ctl --export a stats; ctl wear | head -3",
        env!("CARGO_BIN_EXE_flashlab"),
    );
    insta::assert_snapshot!(with(&folder, &serve, &script));
    assert!(folder.path("stick").exists(), "the state was not kept");
}
