//! Served devices with several layers, with saved states, and with commands from `flashlab ctl`.

use super::tools::{Folder, are_installed, flashlab, with};
use std::process::Output;

const CARD: &str = "sd/kingston:capacity=64MiB";

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_flashlab")
}

fn ctl(folder: &Folder, words: &str) -> Output {
    let arguments: Vec<&str> = ["ctl", "ctl.sock"].into_iter().chain(words.split(' ')).collect();
    flashlab(&arguments).current_dir(folder).output().expect("the binary is built")
}

#[test]
fn an_overlay_discards_or_retains_changes() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("overlay");
    folder.noise("base.img", 1 << 20);
    let noise = std::fs::read(folder.path("base.img")).expect("the file was written");
    let io = |device: &str, commands: &str| {
        let printed = with(&folder, &[device], &format!("qemu-io -f raw {commands} $uri"));
        assert!(!printed.contains("Pattern verification failed"), "{printed}");
    };
    io(
        "file:base.img+overlay",
        "-c 'write -P 5 4k 8k' -c 'discard 64k 4k' -c 'read -P 5 4k 8k' -c 'read -P 0 64k 4k'",
    );
    io("file:base.img+overlay:keep=changes", "-c 'write -P 6 4k 4k' -c flush");
    io("file:base.img+overlay:keep=changes+readonly", "-r -c 'read -P 6 4k 4k'");
    assert!(std::fs::read(folder.path("base.img")).expect("the path exists") == noise);
}

#[test]
fn several_devices_with_layers_come_from_one_file() {
    if !are_installed(&["qemu-io", "nbdinfo"]) {
        return;
    }
    let folder = Folder::new("exports");
    let text = "[[export]]\ndevice = 'memory:size=1MiB'\nread-only = true\n
        [[export]]\nname = 'slow'\ndevice = 'memory:size=2MiB'\nlayers = ['delay:read=1ms', 'log:to=requests', 'stats']\n";
    std::fs::write(folder.path("all.toml"), text).expect("the disk has room");
    let script = "test $(nbdinfo --size $uri) = 1048576; nbdinfo --is readonly $uri
        qemu-io -f raw -c 'write -P 3 0 4k' -c 'read -P 3 0 4k' \"nbd+unix:///slow?socket=$unixsocket\"";
    with(&folder, &["--exports", "all.toml"], script);
    let log = std::fs::read_to_string(folder.path("requests")).expect("there is a log");
    assert!(log.contains(" write 0 4096 ") && log.contains(" read 0 4096 - ok\n"), "{log}");
    let refused = flashlab(&["serve", "--exports", "no.toml"]).current_dir(&folder).output();
    assert_eq!(refused.expect("the binary is built").status.code(), Some(2));
}

#[test]
fn a_card_with_a_state_file_retains_bytes_and_wear() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("remembers");
    let card = format!("{CARD},state=card.state");
    let fast = ["--unpaced", "--control", "ctl.sock"];
    let serve = |script: &str| {
        let printed = with(&folder, &[&[&*card], &fast[..]].concat(), script);
        assert!(!printed.contains("Pattern verification failed"), "{printed}");
        printed
    };
    let wear = format!("{} ctl ctl.sock wear", program());
    serve("qemu-io -f raw -c 'write -P 7 1M 64k' $uri");
    assert!(folder.path("card.state").exists() && folder.path("card.state.bytes").exists());
    serve("qemu-io -f raw -c 'read -P 7 1M 64k' $uri");
    // `bench` accepts the state file that the server wrote.
    let bench = ["bench", &card, "--name=r", "--rw=read", "--bs=4k", "--size=64k", "--direct=1"];
    let printed = flashlab(&bench).current_dir(&folder).output().expect("the binary is built");
    let printed = String::from_utf8_lossy(&printed.stderr).into_owned();
    assert!(printed.contains("starts from the state in card.state"), "{printed}");
    let told = serve(&format!("qemu-io -f raw -c 'write -P 8 0 1M' $uri > /dev/null; {wear}"));
    assert!(told.contains("host wrote"), "{told}");
    // `ctl keep` writes the state during service. After `kill -9`, the data of all completed writes is there.
    let script = format!(
        "qemu-io -f raw -c 'write -P 9 2M 64k' -c flush $uri; {} ctl ctl.sock keep
         qemu-io -f raw -c 'write -P 10 3M 64k' $uri; kill -9 $PPID",
        program()
    );
    super::tools::attempt(&folder, &[&[&*card], &fast[..]].concat(), &script);
    std::fs::remove_file(folder.path("ctl.sock")).expect("a killed server leaves its socket");
    serve(
        "qemu-io -f raw -c 'read -P 9 2M 64k' -c 'read -P 10 3M 64k' -c 'read -P 7 1040k 16k' $uri | tee printed; ! grep -q failed printed",
    );
}

#[test]
fn a_filesystem_outlives_power_cuts() {
    if !are_installed(&["mkfs.ext4", "fsck.ext4", "debugfs", "nbdcopy", "qemu-io"]) {
        return;
    }
    let folder = Folder::new("cut");
    let script = format!(
        "cut() {{ {} ctl ctl.sock cut; }}
         truncate -s 64M disk.img; mkfs.ext4 -q -F disk.img; echo kept > kept
         debugfs -w -R 'write kept kept' disk.img
         nbdcopy disk.img $uri; cut
         # A cut during writes: the requests in flight fail, and the client ends with an error.
         for n in 1 2 3; do
             (qemu-io -f raw -t none -c 'aio_write -P 1 40M 8M' -c aio_flush $uri > /dev/null 2>&1 || true) & writing=$!
             cut; wait $writing
         done
         nbdcopy $uri after.img; fsck.ext4 -f -n after.img; debugfs -R 'cat kept' after.img",
        program()
    );
    // nbdcopy flushes at its end, so the cuts lose none of the copied data. The later writes go to blocks that the
    // filesystem does not use.
    let printed = with(&folder, &[CARD, "--speed", "50", "--control", "ctl.sock"], &script);
    assert!(printed.contains("Pass 5") && printed.ends_with("kept\n"), "{printed}");
}

#[test]
fn ctl_commands_succeed_or_return_the_reason() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("told");
    let program = program();
    let script = format!(
        "ctl() {{ {program} ctl ctl.sock \"$@\"; }}
         io() {{ qemu-io -f raw -c \"$1\" $uri 2>&1; }}
         io 'write -P 5 0 4k'; ctl stats
         ctl fault write at=0+4096 times=1 ENOSPC; ctl fault list
         io 'write -P 6 0 4k' || true; io 'write -P 6 0 4k'
         ctl unplug; io 'read 0 4k' || true; ctl replug; io 'read -P 6 0 4k'
         ctl fault clear; ctl fault list; ctl wear
         ! ctl replug; ! ctl keep; ! ctl dance; ! ctl fault reed; ! ctl --export x stats"
    );
    let device = format!("{CARD}+stats+error");
    let printed = with(&folder, &[&device, "--unpaced", "--control", "ctl.sock"], &script);
    for expected in [
        "write: 1 requests, 4096 bytes, 0 errors",
        "write at=0+4096 times=1 ENOSPC",
        "No space left on device",
        "host wrote",
    ] {
        assert!(printed.contains(expected), "{expected} is not in {printed}");
    }
    assert!(!printed.contains("Pattern verification failed"), "{printed}");
    let nobody = ctl(&folder, "stats");
    assert_eq!(nobody.status.code(), Some(1));
}

#[test]
fn ctl_unplug_and_cut_turn_off_an_error_layer_and_say_that_nothing_was_lost() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("cut-says");
    let program = program();
    let script = format!(
        "ctl() {{ {program} ctl ctl.sock \"$@\"; }}
         io() {{ qemu-io -f raw -c \"$1\" $uri 2>&1; }}
         ctl unplug; ! io 'read 0 4k'; ! ctl cut; ctl replug; io 'read 0 4k'; ctl cut"
    );
    let printed = with(&folder, &["memory:size=1M+error", "--control", "ctl.sock"], &script);
    assert_eq!(printed.matches("power was cut; nothing was lost\n").count(), 2, "{printed}");
    assert_eq!(
        (printed.matches("read failed").count(), printed.matches("read 4096/4096").count()),
        (1, 1),
        "{printed}"
    );
    let refused = with(
        &folder,
        &["memory:size=1M", "--control", "ctl.sock"],
        &format!("! {program} ctl ctl.sock cut 2>&1"),
    );
    assert!(refused.contains("neither a delay nor an error layer"), "{refused}");
}
