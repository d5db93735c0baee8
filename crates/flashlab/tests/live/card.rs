//! Linux' own SD driver on our card, in a QEMU guest in software emulation, about half a minute: the card poses as one
//! behind a VUB300 USB adapter, over usbredir.
//!
//! Debian's kernel for all machines is looked for in `target/guest-mmc`, where `./test` unpacks it, and then in the
//! system; the kernel for clouds has no SD cards.

use crate::guest::kernel_in;
use crate::tools::{Folder, here, skipped, with};

/// The modules, in the order in which they need one another.
const MODULES: &str =
    "usb-common usbcore xhci-hcd xhci-pci mmc_core mmc_block vub300 fat vfat nls_cp437 nls_ascii";

/// What every guest begins with: the card is found, and the kernel has told of each command since.
const BOOT: &str = r#"#!/bin/busybox sh
export PATH=/bin:/tools
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
dmesg -n 1
step() { echo "GUEST $*"; }
# What the mmc core or the USB stack call an error, or a warning.
complaints() { dmesg -r | grep '^<[0-4]>' | grep -i -E 'mmc|usb|vub|fat|I/O'; }
dmesg -c > /dev/null
for module in MODULES; do insmod /modules/$module.ko $(test $module = mmc_core && echo dyndbg=+p); done
for wait in 1 2 3 4 5 6 7 8 9 10; do test -b /dev/mmcblk0 && break; sleep 1; done
disk=/dev/mmcblk0
dmesg | grep -q 'new high speed SDHC card at address' && step found
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

#[test]
fn linux_brings_our_card_up_writes_mounts_and_shuts_down() {
    let init = format!("{BOOT}{USE}");
    let Some(said) = guest("guest-card", &init, &["sd/kingston"], "") else { return };
    let steps: Vec<&str> = said.lines().filter_map(|line| line.trim_end().strip_prefix("GUEST ")).collect();
    assert_eq!(steps, ["found", "size 62498816", "same", "discarded", "filesystem"], "{said}");
    assert!(said.contains("req done (CMD7): 0:"), "no clean shutdown\n{said}");
    assert!(!said.contains("during shutdown"), "{said}");
}

/// Boots a guest that runs `init` with the card of `serve` in a slot, and gives what was on its console; `after` is run
/// when it has gone.
pub(crate) fn guest(name: &str, init: &str, serve: &[&str], after: &str) -> Option<String> {
    if !here(&["qemu-system-x86_64", "busybox"]) {
        return None;
    }
    let Some((kernel, modules)) = kernel_in("guest-mmc", "vub300.ko") else {
        skipped("no Debian kernel with SD cards in target/guest-mmc or /boot");
        return None;
    };
    let folder = Folder::new(name);
    std::fs::create_dir(folder.path("root")).expect("it is ours");
    std::fs::write(folder.path("root/init"), init.replace("MODULES", MODULES)).expect("the disk has room");
    let names = MODULES.replace(' ', ".ko -o -name ");
    let script = format!(
        "cd root; chmod +x init; mkdir bin tools proc sys dev modules; cp $(command -v busybox) bin
         find {modules} -name {names}.ko | xargs -I+ cp + modules
         find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > ../initrd; cd ..
         timeout 300 qemu-system-x86_64 -accel tcg -m 512 -nodefaults -no-reboot -display none -serial stdio \\
            -kernel {kernel} -initrd initrd -append 'console=ttyS0 panic=-1 quiet no_timer_check' \\
            -chardev socket,path=$unixsocket,id=card -device qemu-xhci -device usb-redir,chardev=card < /dev/null
         {after}",
        modules = modules.display(),
        kernel = kernel.display(),
    );
    let mut arguments = serve.to_vec();
    arguments.extend(["--usbredir", "-"]);
    Some(with(&folder, &arguments, &script))
}
