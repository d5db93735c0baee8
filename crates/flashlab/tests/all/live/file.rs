//! File devices: a killed server, a full disk, sparse copies, and block devices that are in use.

use super::tools::{Folder, are_installed, flashlab, skipped, with};
use flashlab_sim::Rng;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Starts a server on `card.sock` in `folder`, and returns it with its URI.
fn started(folder: &Folder, device: &str) -> (Child, String) {
    let arguments = ["serve", device, "--unix", "card.sock", "--print-uri"];
    let mut child =
        flashlab(&arguments).current_dir(folder).stdout(Stdio::piped()).spawn().expect("the binary is built");
    let mut uri = String::new();
    BufReader::new(child.stdout.as_mut().expect("the stream is piped"))
        .read_line(&mut uri)
        .expect("the server prints text");
    (child, uri.trim_end().to_owned())
}

#[test]
fn completed_writes_survive_kill_9() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("kill-9");
    let mut rng = Rng::new(3);
    for round in 1u8..=5 {
        let (mut server, uri) = started(&folder, "file:disk.img,size=8M");
        let mut io = Command::new("qemu-io");
        io.args(["-f", "raw", "-t", "none", &uri]).current_dir(&folder);
        let mut io = io.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program was found");
        let (mut to, mut from) = (
            io.stdin.take().expect("the stream is piped"),
            BufReader::new(io.stdout.take().expect("the stream is piped")).lines(),
        );
        // The server completes this number of writes, each to a block of its own, and is then killed between two
        // writes.
        let answered = 20 + rng.below(60);
        for n in 0..answered {
            use std::io::Write;
            writeln!(to, "write -P {round} {} 4k", n * 4096).expect("qemu-io listens");
            let printed = from.by_ref().map_while(Result::ok).find(|line| line.contains("wrote"));
            assert!(printed.is_some(), "round {round}, write {n}");
        }
        server.kill().expect("the process runs");
        server.wait().expect("the process ends");
        drop((to, from));
        io.kill().and_then(|()| io.wait()).expect("the process ends");
        let bytes = std::fs::read(folder.path("disk.img")).expect("the file is there");
        let kept = &bytes[..answered as usize * 4096];
        assert!(kept.iter().all(|byte| *byte == round), "round {round}: {answered} were answered");
    }
    // A killed server leaves nothing behind that prevents the next start.
    with(&folder, &["file:disk.img"], "qemu-io -f raw -c 'read -P 5 0 80k' $uri");
}

#[test]
fn a_full_disk_is_reported_and_completed_writes_remain() {
    if !are_installed(&["unshare", "qemu-io"]) {
        return;
    }
    let folder = Folder::new("full-disk");
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!(
        "mount -t tmpfs -o size=4m none . || exit 77
         cd \"$PWD\"
         exec {program} serve file:disk.img,size=64M --run '
            qemu-io -f raw -c \"write -P 5 0 2M\" $uri
            qemu-io -f raw -c \"write -P 6 8M 8M\" $uri 2>&1
            qemu-io -f raw -c \"read -P 5 0 2M\" -c \"discard 0 1M\" -c \"write -P 7 1M 64k\" -c \"read -P 7 1M 64k\" -c flush $uri'"
    );
    let output =
        Command::new("unshare").args(["-r", "-m", "sh", "-c", &script]).current_dir(&folder).output();
    let output = output.expect("the program was found");
    let printed = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || error.contains("unshare") {
        skipped("nothing can be mounted here");
        return;
    }
    assert!(printed.contains("No space left on device"), "{printed}\n{error}");
    assert!(
        output.status.success() && !printed.contains("Pattern verification failed"),
        "{printed}\n{error}"
    );
}

#[test]
fn a_file_is_copied_in_and_out_and_stays_sparse() {
    if !are_installed(&["nbdcopy", "cmp"]) {
        return;
    }
    let folder = Folder::new("file-copy");
    folder.noise("there.img", 3 << 20);
    let script =
        "truncate -s 40M there.img; nbdcopy there.img $uri; nbdcopy $uri back.img; cmp there.img back.img
        test $(du -k disk.img | cut -f1) -lt 10000";
    with(&folder, &["file:disk.img,size=40M"], script);
    let bytes = |name| std::fs::read(folder.path(name)).expect("the path exists");
    assert!(bytes("there.img") == bytes("disk.img"));
}

#[test]
fn a_block_device_is_served_for_writing_only_if_nothing_else_uses_it() {
    if !are_installed(&["losetup", "mkfs.ext4"]) {
        return;
    }
    let folder = Folder::new("exclusive");
    let shell = |script: &str| {
        let script = format!("export PATH=$PATH:/usr/sbin:/sbin\n{script}");
        Command::new("sh").args(["-c", &script]).current_dir(&folder).output().expect("a shell")
    };
    let set_up = "truncate -s 32M disk && loop=$(losetup -f --show disk) && mkfs.ext4 -q $loop && mkdir mnt \
                  && { mount $loop mnt || { losetup -d $loop; false; }; } && umount mnt && echo $loop";
    let output = shell(set_up);
    let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if device.is_empty() {
        skipped(&format!("no loop device to mount: {}", String::from_utf8_lossy(&output.stderr)));
        return;
    }
    let program = env!("CARGO_BIN_EXE_flashlab");
    let output = shell(&format!(
        "trap 'umount mnt 2>/dev/null; losetup -d {device}' EXIT
        serve=\"{program} serve --unix disk.sock\"
        mount {device} mnt
        $serve file:{device} --run true 2>&1; echo mounted: $?
        $serve file:{device} --read-only --run true; echo read-only: $?
        $serve file:{device}+overlay --run true; echo overlay: $?
        $serve file:disk --run true; echo backing file: $?
        {program} volume format --force disk; echo format: $?
        umount mnt
        $serve file:{device} --run 'mount {device} mnt'; echo served: $?
        $serve file:{device} --run true; echo unused: $?"
    ));
    let text = String::from_utf8_lossy(&output.stdout);
    let busy = format!(
        "flashlab: {device}: the block device is mounted, or in use by another program; unmount it or stop that program first"
    );
    assert!(text.starts_with(&busy), "{text}");
    let codes: Vec<&str> = text.lines().skip(1).collect();
    let expected = [
        "mounted: 2",
        "read-only: 0",
        "overlay: 0",
        "backing file: 2",
        "format: 2",
        "served: 32",
        "unused: 0",
    ];
    assert_eq!(codes, expected, "{text}");
}
