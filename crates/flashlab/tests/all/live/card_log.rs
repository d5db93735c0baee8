//! Linux 6.1 logs the same lines about the simulated card behind USB as about the card of a recorded log. The
//! guest repeats the steps of the recording on the same filesystem, with dynamic debug enabled for the mmc
//! core.
//!
//! The test compares, in order: the steps; commands, block counts and stop commands (opcode, argument, flags); data
//! (block, blocks, flags, time-out); the clock lines; responses (the error and the words that the card sent); the bytes
//! moved; and Linux's messages about the card.
//!
//! The test ignores times, retries and checksums, which the recorded card did not compute. The test also
//! allows for two faults of the recorded card (docs/sd-commands.md). The response after CMD5 did not report
//! that the card does not know CMD5. The card did not accept CMD7 with address 0, the last command of the
//! recording.

use super::card::{USBREDIR, guest_in};
use super::tools::{Folder, are_installed};
use std::process::Command;

const RECORDED: &str = include_str!("../../../../lab/tests/traces/vub300.txt");

/// Command that fills the card with the filesystem of the recording, made by mkfs.vfat.
const FORMAT: &str = concat!(
    "PATH=$PATH:/usr/sbin:/sbin; truncate -s 64M card.img && mkfs.vfat -F 32 card.img && ",
    env!("CARGO_BIN_EXE_flashlab"),
    " serve sd/vlab-sdhc:state=card --unpaced --run 'nbdcopy card.img $uri'"
);

/// Steps of the recording. The recorded commands show the details that the marks in the recording leave open.
const REPEAT: &str = r#"
mark() { echo "=== STEP: $*" > /dev/kmsg; }
mark sysfs registers
cat /sys/block/mmcblk0/device/cid > /dev/null
mark dd read 4K direct at 1 MiB
dd if=$disk of=/dev/null bs=4k skip=256 count=1 iflag=direct
mark dd read 512 direct at sector 7
dd if=$disk of=/dev/null bs=512 skip=7 count=1 iflag=direct
mark dd read 1M direct at 2 MiB
dd if=$disk of=/dev/null bs=1M skip=2 count=1 iflag=direct
mark dd write 512 direct at sector 100000
dd if=/dev/zero of=$disk bs=512 seek=100000 count=1 oflag=direct conv=notrunc
mark dd write 4K direct
dd if=/dev/zero of=$disk bs=4k seek=8192 count=1 oflag=direct conv=notrunc
mark dd write 1M direct
dd if=/dev/zero of=$disk bs=1M seek=40 count=1 oflag=direct conv=notrunc
mark blkdiscard 1M at 40M
blkdiscard -o 40M -l 1M $disk
mkdir /on
mark mount vfat
mount -t vfat $disk /on
mark vfat write 64K + sync
dd if=/dev/zero of=/on/file bs=64k count=1; sync
mark vfat umount
umount /on
mark END
complaints && step complained
dmesg
dmesg -n 8
poweroff -f
"#;

#[test]
fn linux_logs_our_card_like_the_recorded_one() {
    if !are_installed(&["mkfs.vfat", "nbdcopy"]) {
        return;
    }
    // Linux's writeback also depends on the timing of its threads: adjacent blocks share a command unless the
    // scheduler interrupts the thread that collects them, and `sync` writes concurrently with the flusher
    // that it has woken. If the first difference is between two write commands, the test repeats the guest,
    // at most three times.
    for attempts_left in (0..4).rev() {
        let Some(printed) = repeat() else { return };
        let Some([theirs, own]) = difference(&printed) else { return };
        let are_writes = [&theirs, &own].into_iter().all(|(_, line)| {
            ["mmc0: starting CMD24 ", "mmc0: starting CMD25 "].iter().any(|start| line.starts_with(start))
        });
        assert!(
            are_writes && attempts_left > 0,
            "the recording has {theirs:?}\nthe simulation has {own:?}\n{printed}"
        );
        eprintln!("once more: the recording has {theirs:?}, the simulation has {own:?}");
    }
}

/// Returns the kernel's log from a guest that repeats the steps; `None` if this machine cannot run the guest.
fn repeat() -> Option<String> {
    let folder = Folder::new("guest-log");
    let made =
        Command::new("sh").args(["-c", FORMAT]).current_dir(&folder).output().expect("there is a shell");
    assert!(made.status.success(), "{made:?}");
    let serve = ["sd/vlab-sdhc:state=card"];
    let printed = guest_in(&folder, &USBREDIR, REPEAT, &serve, &[])?;
    assert!(!printed.contains("GUEST complained"), "{printed}");
    Some(printed)
}

/// Returns the first line in which the recording and `printed` differ, from each, with their line numbers.
fn difference(printed: &str) -> Option<[(usize, String); 2]> {
    let mut recorded = lines(RECORDED);
    let end = recorded.iter().position(|(_, text)| text.starts_with("mmc0: starting CMD7 arg 00000000"));
    recorded.truncate(end.expect("the recording has a shutdown") + 1);
    let mut ours = lines(printed);
    let begun = ours.iter().position(|(_, text)| text.starts_with("mmc0: clock"));
    ours.drain(..begun.expect("the card was found"));
    // The recording's first line marks that the modules are loaded.
    assert!(recorded.remove(0).1.starts_with("=== STEP: insmod"));
    let (_, last) = ours.pop().expect("there are lines");
    assert_eq!(last, "mmc0: clock 0Hz busmode 2 powermode 0 cs 0 Vdd 0 width 1 timing 0", "after CMD7");
    assert_eq!(ours.pop().map(|(_, text)| text), Some("mmc0: req done (CMD7): 0 00000000".to_owned()));
    // In the response after CMD5, the simulated card reports ILLEGAL_COMMAND; the recorded card did not.
    let told = ours.iter_mut().find(|(_, text)| text == "mmc0: req done (CMD55): 0 00400120");
    told.expect("our card knows no CMD5").1 = "mmc0: req done (CMD55): 0 00000120".to_owned();
    assert!(recorded.len() > 250, "{} lines are compared", recorded.len());
    let line = |of: &[(usize, String)], n: usize| of.get(n).cloned().unwrap_or((0, "nothing".to_owned()));
    let mut pairs = (0..recorded.len().max(ours.len())).map(|n| [line(&recorded, n), line(&ours, n)]);
    pairs.find(|[theirs, own]| theirs.1 != own.1)
}

/// Returns the lines of a kernel's log that the test compares, with their numbers.
fn lines(log: &str) -> Vec<(usize, String)> {
    let text = |line: &str| Some(line.split_once("] ")?.1.trim_end().to_owned());
    let numbered = (1..).zip(log.lines()).filter_map(|(n, line)| Some((n, text(line)?)));
    let compared = |text: &str| {
        ["mmc0: ", "mmcblk0: mmc0:", "=== STEP: "].iter().any(|start| text.starts_with(start))
            && !text.contains("req failed")
    };
    numbered.filter(|(_, text)| compared(text)).map(|(n, text)| (n, sent(&text))).collect()
}

/// Reduces a line with a response to the words of the card without checksums, or to the error if there is one.
fn sent(line: &str) -> String {
    let answer =
        line.split_once("): ").and_then(|(command, answer)| Some((command, answer.split_once(": ")?)));
    let Some((command, (error, words))) = answer else { return line.to_owned() };
    let is_long = command.ends_with("CMD2") || command.ends_with("CMD9");
    let shown = match (error, is_long) {
        ("0", true) => &words[..words.len() - 2],
        ("0", false) => &words[..8],
        _ => "",
    };
    format!("{command}): {error} {shown}")
}
