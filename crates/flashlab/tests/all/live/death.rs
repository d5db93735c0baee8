//! Crash of the machine on which the server runs: one test kills a QEMU guest; the other traces the syncs of folders.

use super::guest::{guest_with_flashlab, kernel};
use super::tools::{Folder, are_installed, flashlab, skipped};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Script of the guest: it serves a file on ext4, announces the end of a flushed copy, and then writes without end.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/tools:/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
for round in 1 2 3 4 5; do for module in /modules/*.ko; do insmod $module 2>/dev/null; done; done
mount -t ext4 /dev/vda /on || echo "GUEST no disk"
flashlab serve file:/on/disk.img,size=16M --unix /tmp/s.sock 2>/dev/null &
until [ -S /tmp/s.sock ]; do sleep 0.1; done
uri='nbd+unix:///?socket=/tmp/s.sock'
nbdcopy --flush /noise "$uri" && echo "GUEST flushed"
while :; do flashlab load "$uri" --rw=randwrite --bs=64k --offset=4m --size=8m --runtime=10 >/dev/null 2>&1; done
"#;

#[test]
fn flushed_data_survives_the_death_of_the_serving_guest() {
    if !are_installed(&["qemu-system-x86_64", "busybox", "nbdcopy", "mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let Some((vmlinuz, modules)) = kernel() else {
        skipped("no Debian kernel in target/guest or /boot");
        return;
    };
    let folder = Folder::new("guest-death");
    folder.noise("noise", 2 << 20);
    let shell = |script: &str| {
        let script = format!("set -e; PATH=$PATH:/usr/sbin:/sbin\n{script}");
        Command::new("sh").args(["-c", &script]).current_dir(&folder).output().expect("there is a shell")
    };
    assert!(shell("truncate -s 64M vda; mke2fs -q -t ext4 -F vda").status.success());
    let mut guest = guest_with_flashlab(&folder, INIT, &["nbdcopy"], (&vmlinuz, &modules), &["virtio*"]);
    guest.args(["-drive", "file=vda,format=raw,if=virtio"]);
    let mut guest = guest.stdout(Stdio::piped()).spawn().expect("the program was found");
    let mut printed = Vec::new();
    for line in
        BufReader::new(guest.stdout.take().expect("the stream is piped")).lines().map_while(Result::ok)
    {
        printed.push(line);
        if printed.last().is_some_and(|line| line.contains("GUEST")) {
            break;
        }
    }
    // The child of `timeout` is QEMU, whose death loses the guest's memory with all data that was only there.
    let killed = shell(&format!("pkill -KILL -P {}", guest.id()));
    guest.wait().expect("the process ends");
    assert!(
        killed.status.success() && printed.last().is_some_and(|line| line.contains("GUEST flushed")),
        "{printed:?}"
    );
    // e2fsck replays the journal as the next boot would; then the served file is compared.
    let after = shell(
        "e2fsck -fy vda >&2 || test $? -eq 1; e2fsck -fn vda >&2
         debugfs -R 'dump disk.img after' vda; cmp -n 2097152 noise after && echo same",
    );
    let (out, error) = (String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&after.stderr));
    assert!(out.contains("same"), "{out}\n{error}");
}

/// Without a sync of the folder, a crash of the machine can undo the creation or renaming of a file, and so lose all
/// flushed data in the file.
#[test]
fn names_of_files_are_synced_before_a_device_is_served() {
    if !are_installed(&["strace"]) {
        return;
    }
    let folder = Folder::new("death-names");
    let calls = "trace=openat,rename,renameat,renameat2,fsync,execve";
    let mut traced = Command::new("strace");
    traced.args(["-f", "-y", "-qq", "-o", "calls", "-e", calls, env!("CARGO_BIN_EXE_flashlab"), "serve"]);
    traced.args(["--run", "true", "sd/kingston:state=card.state", "scratch=file:disk.img,size=1M"]);
    let ended = traced.current_dir(&folder).output().expect("the program was found");
    if !ended.status.success() && flashlab(&["-V"]).status().is_ok_and(|status| status.success()) {
        let why = String::from_utf8_lossy(&ended.stderr);
        assert!(why.contains("ptrace"), "{why}");
        skipped("strace cannot trace here");
        return;
    }
    let calls = std::fs::read_to_string(folder.path("calls")).expect("strace wrote its log");
    // The command begins once the devices are served.
    let served: Vec<&str> = calls.lines().take_while(|call| !call.contains("execve(\"/bin/sh\"")).collect();
    let synced = format!("<{}>)", folder.path("").canonicalize().expect("the path exists").display());
    let is_sync = |call: &&str| call.contains(" fsync(") && call.contains(&synced);
    let named = |file: &str| {
        let renamed = |call: &&str| call.contains(" rename") && call.contains(&format!(", \"{file}\""));
        let created = |call: &&str| call.contains("O_CREAT") && call.contains(&format!("\"{file}\""));
        served.iter().position(|call| renamed(call) || created(call))
    };
    for file in ["card.state", "card.state.bytes", "card.state.sums", "card.state.journal", "disk.img"] {
        let at = named(file).unwrap_or_else(|| panic!("{file} was not created:\n{}", served.join("\n")));
        // The sync comes before the next file gets its name.
        let is_name = |call: &&str| call.contains(" rename") || call.contains("O_CREAT");
        let next = served[at + 1..].iter().position(is_name).map_or(served.len(), |next| at + 1 + next);
        assert!(served[at..next].iter().any(is_sync), "no sync after {file}:\n{}", served[at..].join("\n"));
    }
    // The renaming is complete once the file of bytes has its name, so the program renames this file last.
    let (sums, bytes) = (named("card.state.sums"), named("card.state.bytes"));
    let (sums, bytes) = (sums.expect("just found"), bytes.expect("just found"));
    assert!(served[sums..bytes].iter().any(is_sync), "no sync between the checksums and the bytes");
}
