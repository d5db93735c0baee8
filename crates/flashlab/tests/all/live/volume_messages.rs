//! Messages about volumes that name the way out.

use super::tools::{Folder, attempt, flashlab, with};
use super::volume::{fail, formatted, run, secret, shown, succeed};
use flashlab_volume::format::{SUPERBLOCK_SIZE, copy_offsets};
use std::os::unix::fs::FileExt;

#[test]
fn commands_for_simulated_devices_say_that_members_are_not_meant() {
    let folder = Folder::new("volume-member-commands");
    let pool = "[[member]]\ndevice = \"sd/kingston:capacity=64MiB,state=a.state\"\n";
    std::fs::write(folder.path("pool.toml"), pool).expect("a writable folder");
    succeed(&folder, &["format", "pool.toml"]);
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!("for c in cut wear keep; do {program} ctl c.sock $c 2>> said && exit 1; done; true");
    with(&folder, &["volume:pool.toml", "--control", "c.sock"], &script);
    let said = std::fs::read_to_string(folder.path("said")).expect("the script wrote this file");
    let expected =
        "this command works on simulated devices that are served themselves, not on members of a volume";
    assert!(said.lines().count() == 3 && said.lines().all(|line| line.ends_with(expected)), "{said}");
}

#[test]
fn an_uri_in_a_list_of_members_is_refused_with_the_way_out() {
    let folder = Folder::new("volume-uri");
    let (code, message) = fail(&folder, &["show", "nbd+unix:///?socket=x.sock"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("colons separate the members") && message.contains("[[member]]"), "{message}");
}

#[test]
fn a_member_without_a_journal_names_the_members_that_have_it() {
    let folder = Folder::new("volume-no-journal");
    formatted(&folder, &["--metadata", "ssd.a"]);
    let (code, message) = fail(&folder, &["show", "b.img", "--degraded", "very"]);
    assert_eq!(code, Some(1));
    assert!(message.contains("which is on missing members (member 0 (ssd.a))"), "{message}");
}

#[test]
fn small_buckets_have_smaller_extents_unless_the_user_asks_for_a_size() {
    let folder = Folder::new("volume-extents");
    formatted(&folder, &["--bucket", "128KiB"]);
    let more = ["format", "--force", "--bucket", "128KiB", "--extent-max", "64KiB", "a.img"];
    let (code, message) = fail(&folder, &more);
    assert!(code == Some(2) && message.contains("extent_max=65536: a power of two"), "{message}");
}

#[test]
fn a_name_with_an_equals_sign_is_a_label_or_a_file_but_not_both() {
    let folder = Folder::new("volume-equals");
    for name in ["x.img", "a=x.img"] {
        let file = std::fs::File::create(folder.path(name)).expect("a writable folder");
        file.set_len(64 << 20).expect("a sparse file");
    }
    let (code, message) = fail(&folder, &["format", "a=x.img"]);
    assert!(code == Some(2) && message.contains("Write --label a x.img or ./a=x.img"), "{message}");
    std::fs::create_dir(folder.path("a=b")).expect("a writable folder");
    let (_, message) = fail(&folder, &["format", "a=b/new.img,size=64MiB"]);
    assert!(message.contains("or ./a=b/new.img,size=64MiB"), "{message}");
    succeed(&folder, &["format", "./a=x.img"]);
    succeed(&folder, &["show", "a=x.img"]);
    succeed(&folder, &["format", "--label", "a", "x.img"]);
    assert_eq!(shown(&folder, "x.img")["members"][0]["label"], "a");
}

#[test]
fn no_mode_is_advised_for_a_passphrase_in_a_device() {
    let folder = Folder::new("volume-passphrase-device");
    secret(&folder, "open", "correct horse\n", 0o644);
    for (file, advises) in [("open", true), ("/dev/null", false)] {
        let format = ["format", "--encrypt", "--passphrase-file", file, "file:x.img,size=64MiB"];
        let (code, message) = fail(&folder, &format);
        assert_eq!((code, message.contains("chmod")), (Some(2), advises), "{message}");
    }
}

/// A command that opens no member for requests counts none.
#[test]
fn show_has_no_numbers_of_requests() {
    let folder = Folder::new("volume-no-requests");
    formatted(&folder, &[]);
    let member = &shown(&folder, "a.img:b.img")["members"][0];
    assert!(member.get("read_errors").is_some(), "{member}");
    assert!(member.get("reads").is_none() && member.get("writes").is_none(), "{member}");
}

/// Every write of a server fails as on a full disk below a sparse file.
#[test]
fn a_full_disk_below_a_member_names_the_way_to_read_the_volume() {
    let folder = Folder::new("volume-full-disk");
    succeed(&folder, &["format", "file:a.img,size=64MiB"]);
    let pool = "[[member]]\ndevice = \"file:a.img+error:on=write,error=ENOSPC\"\n";
    std::fs::write(folder.path("pool.toml"), pool).expect("a writable folder");
    let output = attempt(&folder, &["volume:pool.toml"], "true");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("serve --read-only"), "{message}");
}

/// A server that is killed while it writes the copies of a superblock leaves the last one as it was.
#[test]
fn a_check_after_kill_9_ends_with_0_and_names_the_unclean_stop() {
    let folder = Folder::new("volume-unclean");
    formatted(&folder, &[]);
    let before = std::fs::read(folder.path("a.img")).expect("a member");
    let killed = ["serve", "volume:a.img:b.img", "--unix", "v.sock", "--run", "kill -9 $PPID"];
    let status = flashlab(&killed).current_dir(&folder).status().expect("the binary is built");
    assert!(!status.success());
    assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
    let [.., last] = copy_offsets(before.len() as u64);
    let old = &before[last as usize..][..SUPERBLOCK_SIZE];
    let file = std::fs::File::options().write(true).open(folder.path("a.img")).expect("a member");
    file.write_all_at(old, last).expect("a writable file");
    let output = run(&folder, &["check", "a.img:b.img"]);
    let [said, printed] =
        [&output.stderr, &output.stdout].map(|text| String::from_utf8_lossy(text).into_owned());
    let expected =
        "unclean stop; the next opening repairs it: member 0: a copy of the superblock is damaged or old";
    assert!(output.status.success() && said.contains(expected), "{said}");
    assert!(printed.ends_with("the volume is sound\n"), "{printed}");
    with(&folder, &["volume:a.img:b.img"], "true");
    file.write_all_at(old, last).expect("a writable file");
    assert_eq!(fail(&folder, &["check", "a.img:b.img"]).0, Some(1));
}
