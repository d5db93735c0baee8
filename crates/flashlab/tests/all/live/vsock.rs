//! Service over vsock, in a QEMU guest whose kernel has vsock loopback.

use super::guest::{guest_with_flashlab, kernel};
use super::tools::{Folder, are_installed, skipped};

/// Script of the guest: it serves on vsock, copies data to the export and back with libnbd, and runs `flashlab load`.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/tools:/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
for round in 1 2 3; do for module in /modules/*.ko; do insmod $module 2>/dev/null; done; done
flashlab serve memory:size=16M --vsock 1:10809 --print-uri > /tmp/uri 2>/dev/null &
until [ -s /tmp/uri ]; do sleep 0.1; done
read uri < /tmp/uri; echo "GUEST $uri"
nbdcopy /noise "$uri"; nbdcopy "$uri" /tmp/back
cmp -n 2097152 /noise /tmp/back && echo "GUEST same"
flashlab load "$uri" --rw=randrw --bs=64k --size=4m --verify && echo "GUEST verified"
poweroff -f
"#;

#[test]
fn libnbd_and_load_connect_over_vsock() {
    if !are_installed(&["qemu-system-x86_64", "busybox", "nbdcopy"]) {
        return;
    }
    let Some((vmlinuz, modules)) = kernel() else {
        skipped("no Debian kernel in target/guest or /boot");
        return;
    };
    let folder = Folder::new("guest-vsock");
    folder.noise("noise", 2 << 20);
    let output = guest_with_flashlab(
        &folder,
        INIT,
        &["nbdcopy"],
        (&vmlinuz, &modules),
        &["vsock*", "vmw_vsock_*_common"],
    )
    .output()
    .expect("the program was found");
    let printed = String::from_utf8_lossy(&output.stdout);
    let steps: Vec<&str> =
        printed.lines().filter_map(|line| line.trim_end().strip_prefix("GUEST ")).collect();
    assert_eq!(steps, ["nbd+vsock://1:10809/", "same", "verified"], "{printed}");
}
