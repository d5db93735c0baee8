//! Commands on volumes that are not served, and uses of the volumes over NBD before and after the commands.

use super::tools::{Folder, are_installed, flashlab, with};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

pub(super) fn run(folder: &Folder, arguments: &[&str]) -> Output {
    let arguments: Vec<&str> = ["volume"].iter().chain(arguments).copied().collect();
    flashlab(&arguments).current_dir(folder).output().expect("the binary is built")
}

/// Runs a command that succeeds, and returns its output.
pub(super) fn succeed(folder: &Folder, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs a command that is expected to fail, and returns its exit code and message.
pub(super) fn fail(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(folder, arguments);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Formats a volume over the new files a.img and b.img.
pub(super) fn formatted(folder: &Folder, options: &[&str]) {
    let members = ["ssd.a=file:a.img,size=64MiB", "ssd.b=file:b.img,size=64MiB"];
    let printed = succeed(folder, &[&["format"], options, &members].concat());
    assert!(printed.starts_with("a volume of ") && printed.ends_with(" over 2 members\n"), "{printed}");
}

#[test]
fn a_volume_keeps_its_contents_and_is_sound_after_service() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-round-trip");
    formatted(&folder, &["--replicas", "2"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 7 1M 3M' -c 'write -P 9 2M 4k' $uri");
    with(
        &folder,
        &["volume:b.img:a.img"],
        "qemu-io -f raw -c 'read -P 7 1M 1M' -c 'read -P 9 2M 4k' -c 'read -P 0 8M 1M' $uri",
    );
    let shown: serde_json::Value =
        serde_json::from_str(&succeed(&folder, &["show", "--json", "a.img:b.img"])).expect("JSON");
    assert_eq!((&shown["mapped_bytes"], &shown["stored_bytes"]), (&(3 << 20).into(), &(6 << 20).into()));
    assert_eq!(shown["members"][1]["label"], "ssd.b");
    assert!(succeed(&folder, &["check", "volume:a.img:b.img"]).ends_with("the volume is sound\n"));
    assert!(succeed(&folder, &["dump", "a.img:b.img"]).contains("member 1        "));
}

#[test]
fn a_label_applies_to_the_members_after_it_and_show_sums_by_label() {
    let folder = Folder::new("volume-labels");
    let new = ["a", "b", "c", "d"].map(|name| format!("file:{name}.img,size=64MiB"));
    let own = format!("own={}", new[3]);
    let [a, b, c, _] = new.each_ref().map(String::as_str);
    succeed(&folder, &["format", a, "--label", "ssd.a", b, &own, "--label", "ssd.b", c]);
    let volume = "a.img:b.img:c.img:d.img";
    let shown: serde_json::Value =
        serde_json::from_str(&succeed(&folder, &["show", "--json", volume])).expect("JSON");
    let labels: Vec<_> = (0..4).map(|member| shown["members"][member]["label"].clone()).collect();
    assert_eq!(labels, ["", "ssd.a", "own", "ssd.b"]);
    let sums = shown["by_label"].as_object().expect("sums");
    assert_eq!(sums.keys().collect::<Vec<_>>(), ["own", "ssd", "ssd.a", "ssd.b"]);
    assert_eq!(sums["ssd"]["members"], 2);
    for bytes in ["free_bytes", "used_bytes"] {
        let of = |member: usize| shown["members"][member][bytes].as_u64().expect("a number");
        assert_eq!(sums["ssd"][bytes], of(1) + of(3), "{bytes}");
    }
    // The table has the label that several members share.
    let text = succeed(&folder, &["show", volume]);
    let heads = text.lines().position(|line| line.starts_with("label")).expect("a table of labels");
    let rows: Vec<&str> = text.lines().skip(heads + 1).collect();
    assert!(rows.len() == 1 && rows[0].starts_with("ssd "), "{text}");
}

#[test]
fn dump_shows_the_journal_and_the_map_with_their_damage() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-dump");
    succeed(&folder, &["format", "file:a.img,size=64MiB"]);
    with(
        &folder,
        &["volume:a.img"],
        "qemu-io -f raw -c 'write -P 7 1M 64k' -c 'discard 2M 64k' -c 'write -P 8 4M 4k' $uri",
    );
    let journal = succeed(&folder, &["dump", "--journal", "a.img"]);
    let has = |text: &str, wanted: &str| text.lines().any(|line| line.trim().starts_with(wanted));
    for wanted in
        ["map blocks 256 to 272, none, 65536 bytes; on member 0, bucket ", "unmap blocks 512 to 528"]
    {
        assert!(has(&journal, wanted), "{wanted}: {journal}");
    }
    let entries = || journal.lines().filter(|line| line.contains(": entry "));
    assert!(
        entries().count() > 1 && entries().all(|line| line.contains(", in the checkpoint, ")),
        "{journal}"
    );
    let map = succeed(&folder, &["dump", "--map", "a.img"]);
    assert!(has(&map, "map blocks 256 to 272, ") && has(&map, "map blocks 1024 to 1025, "), "{map}");
    assert!(!has(&map, "unmap") && has(&map, "bucket "), "{map}");

    // A damaged entry does not hide the others, and a damaged run says so.
    let path = folder.path("a.img");
    let mut image = std::fs::read(&path).expect("the image");
    let first = entries().next().expect("an entry").trim().split(':').next().expect("an offset");
    let starts = |magic: &[u8]| -> Vec<usize> {
        (0..image.len()).step_by(4096).filter(|at| image[*at..].starts_with(magic)).collect()
    };
    let (entries_at, runs_at) = (starts(b"FLVjrnl1"), starts(b"FLVchkp1"));
    for at in [entries_at[0], *runs_at.last().expect("a run")] {
        image[at + 100] ^= 1;
    }
    std::fs::write(&path, image).expect("room");
    let damaged = succeed(&folder, &["dump", "--journal", "--map", "a.img"]);
    assert!(has(&damaged, &format!("{first}: invalid: ")) && has(&damaged, "run 0: invalid: "), "{damaged}");
    assert_eq!(damaged.matches(": entry ").count(), entries().count() - 1, "{damaged}");
}

#[test]
fn the_journal_of_an_encrypted_volume_needs_its_passphrase() {
    let folder = Folder::new("volume-dump-encrypted");
    secret(&folder, "secret", "open sesame\n", 0o600);
    secret(&folder, "wrong", "close sesame\n", 0o600);
    let format = ["format", "--encrypt", "--passphrase-file", "secret", "file:a.img,size=64MiB"];
    succeed(&folder, &format);
    assert!(succeed(&folder, &["dump", "a.img"]).contains("encryption"));
    let dump = ["dump", "--map", "--journal", "a.img"];
    let (code, message) = fail(&folder, &dump);
    assert!(code == Some(2) && message.contains("required key not available"), "{code:?}: {message}");
    let (code, message) = fail(&folder, &[&dump[..], &["--passphrase-file", "wrong"]].concat());
    assert!(code == Some(1) && message.contains("the passphrase does not open this volume"), "{message}");
    let text = succeed(&folder, &[&dump[..], &["--passphrase-file", "secret"]].concat());
    assert!(text.contains("  journal\n") && !text.contains("invalid"), "{text}");
}

#[test]
fn a_label_without_a_member_is_refused() {
    let folder = Folder::new("volume-label-alone");
    let (code, message) = fail(&folder, &["format", "file:a.img,size=64MiB", "--label", "ssd"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("--label ssd: no member follows"), "{message}");
    assert!(!folder.path("a.img").exists());
}

#[test]
fn flushed_writes_survive_kill_9_and_the_volume_opens_again() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-kill-9");
    formatted(&folder, &[]);
    for round in 1u8..=3 {
        let arguments = ["serve", "volume:a.img:b.img", "--unix", "volume.sock", "--print-uri"];
        let mut server = flashlab(&arguments)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        let mut uri = String::new();
        let stdout = server.stdout.as_mut().expect("the stream is piped");
        BufReader::new(stdout).read_line(&mut uri).expect("the server prints text");
        let mut io = Command::new("qemu-io");
        io.args(["-f", "raw", "-t", "none", uri.trim_end()]).current_dir(&folder);
        let mut io = io.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program was found");
        let mut to = io.stdin.take().expect("the stream is piped");
        let mut from = BufReader::new(io.stdout.take().expect("the stream is piped")).lines();
        // The first write is durable when it is answered. The second one may or may not survive.
        for command in [format!("write -f -P {round} 0 1M"), "write -P 99 1M 64k".to_owned()] {
            writeln!(to, "{command}").expect("qemu-io listens");
            let answered = from.by_ref().map_while(Result::ok).find(|line| line.contains("wrote"));
            assert!(answered.is_some(), "round {round}: {command}");
        }
        server.kill().expect("the process runs");
        server.wait().expect("the process ends");
        drop((to, from));
        io.kill().and_then(|()| io.wait()).expect("the process ends");
        let read = format!("qemu-io -f raw -c 'read -P {round} 0 1M' $uri");
        with(&folder, &["volume:a.img:b.img"], &read);
        assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
    }
}

#[test]
fn foreign_data_is_refused_without_force() {
    let folder = Folder::new("volume-foreign");
    let mut ext4 = vec![0; 32 << 20];
    ext4[1080..1082].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(folder.path("disk.img"), ext4).expect("a writable folder");
    let (code, message) = fail(&folder, &["format", "disk.img"]);
    assert_eq!(code, Some(2));
    assert_eq!(
        message,
        "flashlab: file:disk.img: it holds an ext2, ext3 or ext4 filesystem; --force formats it, and its contents are \
         lost\n"
    );
    let (code, message) = fail(&folder, &["format", "/dev/null"]);
    assert!(code == Some(1) && message.contains("is too small: a member needs at least 18 MiB"), "{message}");
    succeed(&folder, &["format", "--force", "disk.img"]);
    let (_, message) = fail(&folder, &["format", "disk.img"]);
    assert!(message.contains("a member of a flashlab volume"), "{message}");
}

#[test]
fn missing_foreign_and_repeated_members_are_named() {
    let folder = Folder::new("volume-members");
    formatted(&folder, &[]);
    succeed(&folder, &["format", "file:c.img,size=64MiB"]);
    for (members, words, expected) in [
        ("a.img", "a.img: 1 of 2 members is missing: member 1 (ssd.b); add it to the list of devices", 1),
        ("a.img:c.img", "c.img belongs to another volume than a.img", 1),
        ("a.img:none.img", "none.img", 2),
        (":", "the name of a member is empty", 2),
    ] {
        let (code, message) = fail(&folder, &["show", members]);
        assert_eq!(code, Some(expected), "{members}: {message}");
        assert!(message.contains(words), "{members}: {message}");
    }
}

/// The messages of `show` and `serve` name the option with which the volume opens all the same.
#[test]
fn a_volume_that_lacks_members_names_the_option_that_opens_it() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-way-out");
    formatted(&folder, &[]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 7 0 8M' $uri");
    std::fs::copy(folder.path("b.img"), folder.path("old.img")).expect("room");
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 8 0 8M' $uri");
    let missing = "flashlab: a.img: 1 of 2 members is missing: member 1 (ssd.b); add it to the list of devices, or open the \
                   volume without it with --degraded yes (in serve and bench: degraded=yes)\n";
    assert_eq!(fail(&folder, &["show", "a.img"]), (Some(1), missing.to_owned()));
    let served = flashlab(&["serve", "volume:a.img"]).current_dir(&folder).output();
    let served = served.expect("the binary is built");
    assert_eq!((served.status.code(), String::from_utf8_lossy(&served.stderr).as_ref()), (Some(1), missing));
    assert_eq!(
        fail(&folder, &["show", "a.img:old.img"]).1,
        "flashlab: old.img is older than the state that the other members recorded for it; leave it out and open the \
         volume with --degraded yes (in serve and bench: degraded=yes)\n"
    );
    let lost = fail(&folder, &["show", "--degraded", "yes", "a.img"]).1;
    let expected = " of data has copies only on missing members (member 1 (ssd.b)); --degraded very (in serve and bench: \
                    degraded=very) opens the volume without them, and reads of this data fail\n";
    assert!(lost.ends_with(expected), "{lost}");
}

/// Flips a bit in the first 4 KiB on the first member in which every byte is 71.
pub(super) fn damage(folder: &Folder) {
    let mut bytes = std::fs::read(folder.path("a.img")).expect("the member");
    let is_data = |block: &[u8]| block.iter().all(|byte| *byte == 71);
    let at = bytes.windows(4096).position(is_data).expect("the data is stored uncompressed");
    bytes[at + 100] ^= 1;
    std::fs::write(folder.path("a.img"), bytes).expect("the member");
}

#[test]
fn a_damaged_copy_is_found_and_the_other_one_is_read() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-damage");
    formatted(&folder, &["--replicas", "2"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 71 0 64k' $uri");
    damage(&folder);
    let output = run(&folder, &["check", "a.img:b.img"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the copy on member 0"), "{output:?}");
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'read -P 71 0 64k' $uri");
}

/// Writes a passphrase to a file with the permissions `mode`.
pub(super) fn secret(folder: &Folder, name: &str, text: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(folder.path(name), text).expect("a writable folder");
    std::fs::set_permissions(folder.path(name), PermissionsExt::from_mode(mode)).expect("an own file");
}

#[test]
fn an_encrypted_volume_needs_its_passphrase_and_hides_its_contents() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-encrypted");
    secret(&folder, "secret", "correct horse\n", 0o600);
    secret(&folder, "wrong", "battery staple\n", 0o600);
    secret(&folder, "open", "correct horse\n", 0o644);
    let (code, message) =
        fail(&folder, &["format", "--encrypt", "--passphrase-file", "open", "file:x.img,size=64MiB"]);
    assert!(code == Some(2) && message.contains("mode 0644"), "{message}");
    formatted(&folder, &["--encrypt", "--passphrase-file", "secret", "--compression", "lz4"]);
    let served = ["volume:a.img:b.img,passphrase-file=secret"];
    with(&folder, &served, "qemu-io -f raw -c 'write -P 71 0 1M' $uri");
    with(&folder, &served, "qemu-io -f raw -c 'read -P 71 0 1M' $uri");
    for member in ["a.img", "b.img"] {
        let bytes = std::fs::read(folder.path(member)).expect("the member");
        assert!(!bytes.windows(64).any(|part| part.iter().all(|byte| *byte == 71)), "{member}");
    }
    let output = flashlab(&["serve", "volume:a.img:b.img"])
        .current_dir(&folder)
        .output()
        .expect("the binary is built");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "a.img:b.img: required key not available: give the passphrase with passphrase-file=FILE";
    assert!(output.status.code() == Some(1) && message.contains(expected), "{message}");
    // The members are checked before a key is derived, and before anybody is asked for a passphrase.
    let (code, message) = fail(&folder, &["show", "a.img"]);
    assert!(code == Some(1) && message.contains("1 of 2 members is missing"), "{message}");
    let (_, message) = fail(&folder, &["check", "a.img:b.img"]);
    assert!(message.contains("required key not available: give the passphrase with"), "{message}");
    let (_, message) = fail(&folder, &["check", "a.img:b.img", "--passphrase-file", "wrong"]);
    assert!(message.contains("required key not available: the passphrase does not open"), "{message}");
    let shown = succeed(&folder, &["show", "--json", "a.img:b.img", "--passphrase-file", "secret"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert!(shown["stored_bytes"].as_u64() < shown["mapped_bytes"].as_u64(), "{shown}");
    let checked = succeed(&folder, &["check", "a.img:b.img", "--passphrase-file", "secret"]);
    assert!(checked.ends_with("the volume is sound\n"), "{checked}");
}

#[test]
fn a_passphrase_without_encrypt_is_refused() {
    let folder = Folder::new("volume-passphrase");
    secret(&folder, "secret", "correct horse\n", 0o600);
    for source in [["--passphrase-file", "secret"], ["--passphrase-fd", "0"]] {
        let (code, message) = fail(&folder, &["format", source[0], source[1], "file:x.img,size=64MiB"]);
        assert!(code == Some(2) && message.contains(&format!("{} needs --encrypt", source[0])), "{message}");
        assert!(!folder.path("x.img").exists());
    }
}

#[test]
fn a_member_is_removed_only_if_the_others_have_room() {
    let folder = Folder::new("volume-room");
    formatted(&folder, &["--replicas", "2"]);
    succeed(&folder, &["add", "a.img:b.img", "ssd.c=file:c.img,size=64MiB"]);
    let (code, message) = fail(&folder, &["remove", "a.img:b.img:c.img", "2"]);
    assert!(code == Some(2) && message.contains("`volume set --size 51806208`"), "{message}");
    let (code, message) = fail(&folder, &["set", "a.img:b.img:c.img", "--size", "10GiB"]);
    assert!(
        code == Some(2) && message.contains("size=10 GiB: the members have room for 73.3 MiB"),
        "{message}"
    );
    succeed(&folder, &["set", "a.img:b.img:c.img", "--size", "51806208"]);
    succeed(&folder, &["remove", "a.img:b.img:c.img", "2"]);
    assert_eq!(shown(&folder, "a.img:b.img")["size_bytes"], 51_806_208);
}

#[test]
fn rekey_replaces_the_passphrase_and_every_copy_of_the_wrapped_key() {
    let folder = Folder::new("volume-rekey");
    secret(&folder, "old", "correct horse\n", 0o600);
    secret(&folder, "new", "battery staple\n", 0o600);
    formatted(&folder, &["--encrypt", "--kdf", "scrypt", "--passphrase-file", "old"]);
    // Salt, encrypted key and tag, at their place in the superblock.
    let before = std::fs::read(folder.path("a.img")).expect("the member");
    let wrapped = &before[124 + 16..124 + 96];
    let rekey = ["rekey", "a.img:b.img", "--passphrase-file", "old", "--new-passphrase-file", "new"];
    assert_eq!(succeed(&folder, &rekey), "the volume has a new passphrase\n");
    for member in ["a.img", "b.img"] {
        let bytes = std::fs::read(folder.path(member)).expect("the member");
        let remains = |part: &[u8]| bytes.windows(16).any(|window| window == part);
        assert!(!wrapped.chunks_exact(16).any(remains), "{member}");
    }
    let (_, message) = fail(&folder, &rekey);
    assert!(message.contains("required key not available: the passphrase does not open"), "{message}");
    succeed(&folder, &["check", "a.img:b.img", "--passphrase-file", "new"]);
    let dump = succeed(&folder, &["dump", "a.img:b.img"]);
    assert!(dump.contains("chacha20-poly1305, key by argon2id, passphrase changed 1 times"), "{dump}");
    formatted_again(&folder);
    let (_, message) = fail(&folder, &rekey);
    assert!(message.contains("the volume is not encrypted"), "{message}");
}

/// Formats the members again, without encryption.
fn formatted_again(folder: &Folder) {
    succeed(folder, &["format", "--force", "a.img", "b.img"]);
}

#[test]
fn a_pool_names_members_of_any_kind() {
    let folder = Folder::new("volume-pool");
    let pool = "[[member]]\ndevice = \"file:a.img,size=64MiB\"\nlabel = \"ssd.a\"\n\n\
                [[member]]\ndevice = \"file:b.img,size=64MiB\"\n";
    std::fs::write(folder.path("pool.toml"), pool).expect("a writable folder");
    succeed(&folder, &["format", "pool.toml"]);
    assert!(succeed(&folder, &["show", "pool.toml"]).contains("ssd.a"));
    assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
    std::fs::write(folder.path("wrong.toml"), "[[member]]\ndevice = \"volume:a.img\"\n").expect("a folder");
    let (code, message) = fail(&folder, &["show", "wrong.toml"]);
    assert!(code == Some(2) && message.contains("a volume cannot be a member of a volume"), "{message}");
}

pub(super) fn shown(folder: &Folder, volume: &str) -> serde_json::Value {
    serde_json::from_str(&succeed(folder, &["show", "--json", volume])).expect("JSON")
}

#[test]
fn a_member_that_cannot_be_removed_keeps_its_state() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-remove");
    formatted(&folder, &["--replicas", "2"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 7 0 8M' $uri");
    let (code, message) = fail(&folder, &["remove", "a.img:b.img", "0"]);
    assert!(code == Some(2) && message.contains("member 0"), "{message}");
    assert_eq!(shown(&folder, "a.img:b.img")["members"][0]["state"], "rw");
    assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
}

#[test]
fn reconcile_ends_with_1_if_work_remains_and_with_0_once_it_can_be_done() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-pending");
    formatted(&folder, &["--replicas", "2"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 7 0 8M' $uri");
    assert_eq!(run(&folder, &["evacuate", "a.img:b.img", "ssd.b"]).status.code(), Some(1));
    let output = run(&folder, &["reconcile", "a.img:b.img"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && printed.contains("pending    evacuate "), "{printed}");
    succeed(&folder, &["set", "a.img:b.img", "--state", "ssd.b=rw"]);
    let printed = succeed(&folder, &["reconcile", "a.img:b.img"]);
    assert!(!printed.contains("pending"), "{printed}");
}

/// `set` shows what its change cannot do, as `show` does.
#[test]
fn set_prints_the_pending_work_with_its_reasons() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-set-pending");
    formatted(&folder, &["--replicas", "2"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 7 0 8M' $uri");
    let printed = succeed(&folder, &["set", "a.img:b.img", "--state", "ssd.b=evacuating"]);
    let expected = "changed\n\
                    pending    evacuate 8.00 MiB: no other member takes data\n\
                    pending    journal and map: on 1 member, and 2 copies are wanted\n";
    assert_eq!(printed, expected);
    let shown = succeed(&folder, &["show", "a.img:b.img"]);
    let pending: Vec<&str> = shown.lines().filter(|line| line.starts_with("pending")).collect();
    assert_eq!(pending, expected.lines().skip(1).collect::<Vec<_>>());
    assert_eq!(succeed(&folder, &["set", "a.img:b.img", "--state", "ssd.b=rw"]), "changed\n");
}

#[test]
fn a_volume_cannot_be_a_member_of_a_volume() {
    let folder = Folder::new("volume-nested");
    formatted(&folder, &[]);
    for member in ["volume:a.img:b.img", "ssd.c=volume:a.img:b.img"] {
        let (code, message) = fail(&folder, &["format", "--force", member]);
        assert!(code == Some(2) && message.contains("a volume cannot be a member of a volume"), "{message}");
    }
}

#[test]
fn members_are_added_evacuated_and_removed_and_the_data_stays() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-change");
    formatted(&folder, &[]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 7 0 24M' $uri");
    succeed(&folder, &["add", "a.img:b.img", "ssd.c=file:c.img,size=64MiB"]);
    let (code, message) = fail(&folder, &["check", "a.img:b.img"]);
    assert!(code != Some(0) && message.contains("1 of 3 members is missing: member 2 (ssd.c)"), "{message}");
    let (code, message) = fail(&folder, &["set", "a.img:b.img:c.img", "--replicas", "2"]);
    let words = "replicas=2: then the members have room for ";
    assert!(code == Some(2) && message.contains(words) && message.contains("--size"), "{message}");
    let printed = succeed(&folder, &["set", "a.img:b.img:c.img", "--replicas", "2", "--size", "40MiB"]);
    assert!(printed.contains("24.0 MiB of background work is left"), "{printed}");
    assert_eq!(shown(&folder, "a.img:b.img:c.img")["work"]["replicate"]["bytes"], 24 << 20);
    succeed(&folder, &["reconcile", "a.img:b.img:c.img"]);
    assert_eq!(shown(&folder, "a.img:b.img:c.img")["by_copies"]["2"], 24 << 20);
    succeed(&folder, &["evacuate", "a.img:b.img:c.img", "ssd.b"]);
    let members = shown(&folder, "a.img:b.img:c.img")["members"].clone();
    assert_eq!((&members[1]["state"], &members[1]["live_blocks"]), (&"evacuating".into(), &0.into()));
    succeed(&folder, &["set", "a.img:b.img:c.img", "--state", "ssd.b=rw"]);
    succeed(&folder, &["remove", "a.img:b.img:c.img", "0"]);
    let (_, message) = fail(&folder, &["check", "a.img:b.img:c.img"]);
    assert!(message.contains("a.img has no valid superblock"), "{message}");
    let text = succeed(&folder, &["show", "b.img:c.img"]);
    assert!(!text.contains("missing") && !text.contains("ssd.a") && text.contains("  c.img\n"), "{text}");
    let members = shown(&folder, "b.img:c.img")["members"].clone();
    let devices: Vec<_> =
        members.as_array().expect("a list").iter().map(|one| one["device"].clone()).collect();
    assert_eq!(devices, ["b.img", "c.img"]);
    assert!(succeed(&folder, &["scrub", "b.img:c.img"]).contains("0 extents lost"));
    let read = "qemu-io -f raw -c 'read -P 7 0 24M' $uri";
    with(&folder, &["volume:b.img:c.img"], read);
    // One copy is enough.
    with(&folder, &["volume:c.img:lost.img,degraded=yes"], read);
    let text = succeed(&folder, &["show", "--degraded", "yes", "c.img"]);
    assert!(text.contains("missing"), "{text}");
    let (code, message) = fail(&folder, &["set", "b.img:c.img", "--replicas", "9"]);
    assert!(code == Some(2) && message.contains("9 is not in 1..=4"), "{message}");
    let (code, message) = fail(&folder, &["set", "b.img:c.img", "--background", "hdd"]);
    assert_eq!(
        (code, message.contains("background=hdd: no member has this label")),
        (Some(2), true),
        "{message}"
    );
}

#[test]
fn settings_that_a_volume_cannot_have_are_refused_with_code_2() {
    let folder = Folder::new("volume-refusals");
    formatted(&folder, &["--replicas", "2"]);
    let pool = "a.img:b.img";
    for (arguments, why) in [
        (vec!["format", "memory:size=64M"], "memory:size=64M: its contents would end with this command"),
        (vec!["format", "sd/kingston:capacity=64MiB"], "a simulated device keeps them with state=FILE"),
        (vec!["add", pool, "memory:size=64M"], "memory:size=64M: its contents would end with this command"),
        (vec!["format", "--size", "0", "file:c.img,size=64MiB"], "a volume has at least one block"),
        (vec!["format", "--encrypt", "--checksum", "xxh3", "file:c.img,size=64MiB"], "'--checksum <NAME>'"),
        (vec!["set", "--size", "0", pool], "a volume has at least one block"),
        (vec!["set", "--label", "0=1", pool], "digits alone stand for the number of a member"),
        (vec!["set", "--label", "0=a\nb", pool], "without control characters"),
        (vec!["show", "a.img:"], "\"a.img:\": the name of a member is empty"),
        (vec!["remove", pool, "0"], "2 copies need 2 members that take data"),
    ] {
        let (code, message) = fail(&folder, &arguments);
        assert!(code == Some(2) && message.contains(why), "{arguments:?}: {code:?} {message}");
    }
}

/// A truncated member counts as missing. A target that named a removed member prevents no other change.
#[test]
fn a_truncated_member_is_missing_and_can_be_removed_with_its_target() {
    let folder = Folder::new("volume-truncated");
    formatted(&folder, &["--replicas", "2", "--promote", "ssd.b"]);
    let file = std::fs::OpenOptions::new().write(true).open(folder.path("b.img")).expect("a member");
    file.set_len(30 << 20).expect("a smaller file");
    let (code, message) = fail(&folder, &["show", "a.img:b.img"]);
    assert!(code == Some(1) && message.contains("b.img is too small"), "{code:?} {message}");
    let shown = succeed(&folder, &["show", "--degraded", "yes", "a.img:b.img"]);
    assert!(shown.contains("ssd.a") && shown.contains("1       ssd.b  "), "{shown}");
    succeed(&folder, &["set", "--degraded", "yes", "--replicas", "1", "a.img"]);
    let removed = succeed(&folder, &["remove", "--degraded", "yes", "a.img", "ssd.b"]);
    assert!(removed.ends_with("; its superblocks could not be overwritten\n"), "{removed}");
    succeed(&folder, &["set", "--compression", "lz4", "a.img"]);
    let (code, message) = fail(&folder, &["set", "--promote", "ssd.c", "a.img"]);
    assert!(code == Some(2) && message.contains("promote=ssd.c: no member"), "{message}");
}

#[test]
fn adjacent_bad_copies_are_one_finding_and_lost_data_is_shown() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-lost");
    succeed(&folder, &["format", "file:a.img,size=64MiB"]);
    with(&folder, &["volume:a.img"], "qemu-io -f raw -c 'write -P 7 0 1M' $uri");
    let path = folder.path("a.img");
    let mut bytes = std::fs::read(&path).expect("a member");
    let data = bytes.chunks_mut(4096).filter(|block| block.iter().all(|byte| *byte == 7));
    data.for_each(|block| block[9] = 8);
    std::fs::write(&path, bytes).expect("a member");
    let output = run(&folder, &["check", "a.img"]);
    let found = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(found, "flashlab: bytes 0 to 1048576: the copy on member 0 is bad\n");
    run(&folder, &["scrub", "a.img"]);
    let shown = succeed(&folder, &["show", "a.img"]);
    assert!(shown.contains("lost       1.00 MiB: every copy was lost"), "{shown}");
    let output = run(&folder, &["check", "a.img"]);
    let found = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(found, "flashlab: bytes 0 to 1048576: every copy was lost\n");
}
