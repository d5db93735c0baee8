//! Commands on volumes that Ctrl-C stops: they remove the files that they created, or leave a volume that the repeated
//! command completes.

use super::tools::{Folder, are_installed, flashlab, with};
use super::volume::{damage, formatted, secret, shown, succeed};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts `flashlab volume` with piped output.
fn start(folder: &Folder, arguments: &[&str]) -> Child {
    let mut command = flashlab(&[&["volume"], arguments].concat());
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary is built")
}

/// Sends SIGINT to a command. Returns its exit code and the rest of its messages.
fn interrupt(mut child: Child) -> (Option<i32>, String) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
    assert!(sent.success());
    let mut text = String::new();
    child.stderr.take().expect("the stream is piped").read_to_string(&mut text).expect("text");
    (child.wait().expect("the process ends").code(), text)
}

/// Interrupts a command as soon as it has created a file.
fn interrupt_once_created(folder: &Folder, name: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let child = start(folder, arguments);
    while !folder.path(name).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    interrupt(child)
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path("")).expect("the folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("the folder").file_name();
    let mut names: Vec<String> = entries.map(|entry| name(entry).into_string().expect("text")).collect();
    names.sort();
    names
}

/// The derivation of the key takes longer than the signal.
#[test]
fn a_format_that_is_stopped_removes_exactly_the_files_that_it_created() {
    let folder = Folder::new("volume-format-stopped");
    secret(&folder, "secret", "correct horse\n", 0o600);
    std::fs::write(folder.path("old.img"), vec![0; 64 << 20]).expect("a writable folder");
    let encrypted = ["format", "--encrypt", "--passphrase-file", "secret"];
    for members in [
        &["file:new.img,size=64MiB"][..],
        &["file:new.img,size=64MiB", "sd/kingston:capacity=64MiB,state=card.state"],
        &["old.img", "file:new.img,size=64MiB"],
    ] {
        let (code, message) = interrupt_once_created(&folder, "new.img", &[&encrypted[..], members].concat());
        assert_eq!(code, Some(130), "{members:?}: {message}");
        assert_eq!(names(&folder), ["old.img", "secret"], "{members:?}: {message}");
    }
}

#[test]
fn an_addition_that_is_stopped_removes_the_file_that_it_created() {
    let folder = Folder::new("volume-add-stopped");
    secret(&folder, "secret", "correct horse\n", 0o600);
    let secret = ["--passphrase-file", "secret"];
    formatted(&folder, &[&["--encrypt"], &secret[..]].concat());
    let add = ["add", "a.img:b.img", "file:c.img,size=64MiB"];
    let (code, message) = interrupt_once_created(&folder, "c.img", &[&add[..], &secret].concat());
    assert_eq!(code, Some(130), "{message}");
    assert_eq!(names(&folder), ["a.img", "b.img", "secret"], "{message}");
    succeed(&folder, &[&add[..], &secret].concat());
    succeed(&folder, &[&["check", "a.img:b.img:c.img"], &secret[..]].concat());
}

/// Interrupts a command once it has printed its progress, and returns that line and the last message.
fn interrupt_during_work(folder: &Folder, arguments: &[&str]) -> (String, String) {
    let mut child = start(folder, arguments);
    let lines = BufReader::new(child.stderr.as_mut().expect("the stream is piped")).lines();
    let mut lines = lines.map(|line| line.expect("the output is text"));
    let progress = lines.find(|line| line.ends_with(" left")).expect("the work goes on until it is stopped");
    let (code, message) = interrupt(child);
    assert_eq!(code, Some(130), "{message}");
    (progress, message)
}

#[test]
fn a_scrub_that_is_stopped_tells_what_it_did_and_leaves_a_sound_volume() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-scrub-stopped");
    formatted(&folder, &["--replicas", "2"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 71 0 8M' $uri");
    damage(&folder);
    let (progress, message) = interrupt_during_work(&folder, &["scrub", "--rate", "512KiB", "a.img:b.img"]);
    assert!(progress.starts_with("flashlab: scrub: ") && progress.contains(" %, "), "{progress}");
    assert!(message.starts_with("flashlab: stopped: ") && message.contains("copies examined"), "{message}");
    assert!(message.ends_with("; repeat the command to scrub the volume from its beginning\n"), "{message}");
    succeed(&folder, &["scrub", "--rate", "1GiB", "a.img:b.img"]);
    assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
}

#[test]
fn a_removal_that_is_stopped_continues_when_it_is_repeated() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-remove-stopped");
    formatted(&folder, &["--size", "40MiB", "--foreground", "ssd.a"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 7 0 16M' $uri");
    let (progress, message) =
        interrupt_during_work(&folder, &["remove", "--rate", "512KiB", "a.img:b.img", "ssd.a"]);
    assert!(progress.starts_with("flashlab: reconcile: ") && progress.contains(" %, "), "{progress}");
    assert!(message.starts_with("flashlab: stopped: "), "{message}");
    assert!(message.ends_with(" of background work are left; repeat the command to continue\n"), "{message}");
    assert_eq!(shown(&folder, "a.img:b.img")["members"][0]["state"], "evacuating");
    assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
    succeed(&folder, &["remove", "a.img:b.img", "ssd.a"]);
    with(&folder, &["volume:b.img"], "qemu-io -f raw -c 'read -P 7 0 16M' $uri");
}
