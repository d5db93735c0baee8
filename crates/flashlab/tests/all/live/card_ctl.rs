//! `flashlab ctl` on a card behind USB: without a client, and while Linux uses the card.

use super::card::{USBREDIR, Wiring, guest, steps};
use super::tools::{Folder, with};

/// Connection over usbredir. The host passes the rest of each console line that begins with `HOST` to `flashlab ctl`.
pub(crate) const CONTROLLED: Wiring = Wiring {
    serve: &["--usbredir", "-", "--control", "ctl.sock"],
    console: concat!(
        "while IFS= read -r line; do
            echo \"$line\"; line=${line%$(printf '\\r')}
            case $line in HOST*) ",
        env!("CARGO_BIN_EXE_flashlab"),
        " ctl ctl.sock ${line#HOST} 2>&1 || echo refused;; esac
        done"
    ),
    ..USBREDIR
};

const COMMANDED: &str = r#"
host() { echo "HOST $*"; }
dd if=/dev/urandom of=/noise bs=64k count=16 2>/dev/null
dd if=/noise of=$disk bs=1M count=1 seek=8 oflag=direct 2>/dev/null
gone() { ! test -b $disk; }
host unplug
waited gone && step gone
host replug
waited test -b $disk && step back
dd if=$disk bs=1M count=1 skip=8 iflag=direct of=/back 2>/dev/null
cmp /noise /back && step same
host fault write-crc=500
host fault list
dd if=/dev/zero of=$disk bs=1M count=1 seek=16 oflag=direct 2>/dev/null && step recovered
host fault clear
dmesg -c > /dev/null
# Sectors written since the guest booted.
sectors() { set -- $(cat /sys/block/mmcblk0/stat); echo $7; }
before=$(sectors)
writes() { test $(sectors) -gt $before; }
dd if=/dev/zero of=$disk bs=1M count=24 seek=16 oflag=direct 2>/dev/null &
waited writes
host cut
wait
dd if=/noise of=$disk bs=1M count=1 seek=24 oflag=direct 2>/dev/null
dd if=$disk bs=1M count=1 skip=24 iflag=direct of=/back 2>/dev/null
cmp /noise /back && step usable
# After the cut, Linux initialises the card again.
dmesg | grep -q 'starting CMD0 ' && step cut
host stats
host wear
host keep
sleep 1
poweroff -f
"#;

#[test]
fn linux_reacts_to_ctl_commands_on_the_card() {
    let Some(printed) = guest("guest-ctl", &CONTROLLED, COMMANDED, &["sd/kingston"], &[]) else { return };
    assert_eq!(steps(&printed), ["found", "gone", "back", "same", "recovered", "usable", "cut"], "{printed}");
    assert!(printed.contains("HOST fault list\r\nwrite-crc=500\n"), "{printed}");
    assert!(printed.contains(" bytes written"), "{printed}");
    assert!(printed.contains("erase"), "{printed}");
    assert!(printed.contains("no file for its state"), "{printed}");
}

/// Without a client, the card has no power, and all commands that need no power succeed.
#[test]
fn ctl_is_answered_while_nobody_is_attached() {
    let folder = Folder::new("ctl-usb");
    let serve = ["sd/vlab-sdhc:state=card", "--usbredir", "-", "--control", "ctl.sock"];
    let script = format!(
        "ctl() {{ echo \"> $*\"; {} ctl ctl.sock \"$@\" 2>&1 || echo refused; }}
         ctl stats; ctl cut; ctl replug; ctl unplug; ctl unplug; ctl fault busy=1s; ctl stats; ctl replug
         ctl fault busy=400ms; ctl fault stuck-busy@CMD25#3; ctl fault; ctl fault slow; ctl fault list
         ctl fault clear; ctl fault list; ctl keep; ctl eject; ctl --export a stats; ctl wear | head -2",
        env!("CARGO_BIN_EXE_flashlab"),
    );
    insta::assert_snapshot!(with(&folder, &serve, &script));
    assert!(folder.path("card").exists(), "the state was not kept");
}
