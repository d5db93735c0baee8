//! Linux 6.1 says the same of our card behind USB as it said of the one in the recorded log, line by line: the guest repeats
//! what the recording's did, with dynamic debug on for the mmc core, on the same filesystem.
//!
//! Compared are the steps, commands, counts and stop commands (opcode, argument, flags), data (block, blocks, flags, time-out), the
//! clock lines, answers (what went wrong, and the words that the card sent), bytes moved, and what Linux says of the card, in order.
//! Exceptions: times; retries; checksums, which the recorded card did not make; and two faults of that card: it did not tell in the
//! next answer that it knows no CMD5, and did not take CMD7 with address 0, which is the recording's end (docs/sd-commands.md).

use crate::card::{USBREDIR, guest_in};
use crate::tools::{Folder, here};
use std::process::Command;

const RECORDED: &str = include_str!("../../../lab/tests/traces/vub300.txt");

/// The bytes of the card before anything: what mkfs.vfat made for the recording.
const FORMAT: &str = concat!(
    "PATH=$PATH:/usr/sbin:/sbin; truncate -s 64M card.img && mkfs.vfat -F 32 card.img && ",
    env!("CARGO_BIN_EXE_flashlab"),
    " serve sd/vlab-sdhc:state=card --unpaced --run 'nbdcopy card.img $uri'"
);

/// The recording's steps. What its marks do not say is read off its commands.
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
fn linux_says_of_our_card_what_it_said_of_the_recorded_one() {
    if !here(&["mkfs.vfat", "nbdcopy"]) {
        return;
    }
    // What Linux writes back, and in what order, hangs on its threads too: side by side lies in one command unless its scheduler
    // interrupts that, and `sync` writes beside the flusher that it has woken. Writes chosen otherwise are tried again.
    for attempts_left in (0..4).rev() {
        let Some(said) = repeat() else { return };
        let Some([theirs, own]) = difference(&said) else { return };
        let are_writes = [&theirs, &own].into_iter().all(|(_, line)| {
            ["mmc0: starting CMD24 ", "mmc0: starting CMD25 "].iter().any(|start| line.starts_with(start))
        });
        assert!(are_writes && attempts_left > 0, "the recording has {theirs:?}\nours has {own:?}\n{said}");
        eprintln!("once more: the recording has {theirs:?}, ours has {own:?}");
    }
}

/// What Linux says in a guest that repeats the steps; `None`: it cannot be run here.
fn repeat() -> Option<String> {
    let folder = Folder::new("guest-log");
    let made =
        Command::new("sh").args(["-c", FORMAT]).current_dir(&folder).output().expect("there is a shell");
    assert!(made.status.success(), "{made:?}");
    let serve = ["sd/vlab-sdhc:state=card"];
    let said = guest_in(&folder, &USBREDIR, REPEAT, &serve, &[])?;
    assert!(!said.contains("GUEST complained"), "{said}");
    Some(said)
}

/// The first line that was recorded and is not what was `said`, and that, with their numbers.
fn difference(said: &str) -> Option<[(usize, String); 2]> {
    let mut recorded = lines(RECORDED);
    let end = recorded.iter().position(|(_, text)| text.starts_with("mmc0: starting CMD7 arg 00000000"));
    recorded.truncate(end.expect("the recording has a shutdown") + 1);
    let mut ours = lines(said);
    let begun = ours.iter().position(|(_, text)| text.starts_with("mmc0: clock"));
    ours.drain(..begun.expect("the card was found"));
    // The recording's first line marks that the modules are loaded.
    assert!(recorded.remove(0).1.starts_with("=== STEP: insmod"));
    let (_, last) = ours.pop().expect("there are lines");
    assert_eq!(last, "mmc0: clock 0Hz busmode 2 powermode 0 cs 0 Vdd 0 width 1 timing 0", "after CMD7");
    assert_eq!(ours.pop().map(|(_, text)| text), Some("mmc0: req done (CMD7): 0 00000000".to_owned()));
    // Behind CMD5 it says ILLEGAL_COMMAND; the recorded card did not.
    let told = ours.iter_mut().find(|(_, text)| text == "mmc0: req done (CMD55): 0 00400120");
    told.expect("it knows no CMD5").1 = "mmc0: req done (CMD55): 0 00000120".to_owned();
    assert!(recorded.len() > 250, "{} lines are compared", recorded.len());
    let line = |of: &[(usize, String)], n: usize| of.get(n).cloned().unwrap_or((0, "nothing".to_owned()));
    let mut pairs = (0..recorded.len().max(ours.len())).map(|n| [line(&recorded, n), line(&ours, n)]);
    pairs.find(|[theirs, own]| theirs.1 != own.1)
}

/// What is compared of a kernel's log, with the numbers of the lines.
fn lines(log: &str) -> Vec<(usize, String)> {
    let text = |line: &str| Some(line.split_once("] ")?.1.trim_end().to_owned());
    let numbered = (1..).zip(log.lines()).filter_map(|(n, line)| Some((n, text(line)?)));
    let compared = |text: &str| {
        ["mmc0: ", "mmcblk0: mmc0:", "=== STEP: "].iter().any(|start| text.starts_with(start))
            && !text.contains("req failed")
    };
    numbered.filter(|(_, text)| compared(text)).map(|(n, text)| (n, sent(&text))).collect()
}

/// Of an answer, what the card sent: the error alone where there is one, and no checksums.
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
