//! Commands on volumes that fail remove the files that they created, and no other file.

use super::tools::{Folder, with};
use super::volume::{fail, formatted, succeed};
use std::collections::BTreeMap;

/// Returns the names and the contents of the files of a folder.
fn files(folder: &Folder) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder.path("")).expect("the folder");
    let file = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().expect("a name of these tests");
        (name, std::fs::read(entry.path()).expect("a file"))
    };
    entries.map(|entry| file(entry.expect("the folder"))).collect()
}

#[test]
fn a_format_that_fails_leaves_the_files_as_they_were() {
    let folder = Folder::new("volume-format-fails");
    let mut ext4 = vec![0; 32 << 20];
    ext4[1080..1082].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(folder.path("disk.img"), ext4).expect("a writable folder");
    std::fs::write(folder.path("empty.img"), []).expect("a writable folder");
    let before = files(&folder);
    let new = "file:new.img,size=64MiB";
    for arguments in [
        vec![new, "disk.img"],
        vec![new, "none.img"],
        vec![new, "file:disk.img,size=64MiB"],
        vec!["--durability", "hdd=0", new],
        vec!["--replicas", "2", new],
        vec![new, "file:small.img,size=64KiB"],
        vec![new, "file:odd.img,size=1000,direct=yes"],
        vec!["file:new.img,size=64MiB+error:rate=much", "disk.img"],
        vec!["sd/kingston:capacity=64MiB,state=card.state", "disk.img"],
        vec!["file:none.img,size=64MiB+overlay:keep=changes.img", "disk.img"],
        vec!["empty.img", "disk.img"],
    ] {
        let (code, message) = fail(&folder, &[&["format"], &arguments[..]].concat());
        assert!(matches!(code, Some(1 | 2)), "{arguments:?}: {message}");
        let after = files(&folder);
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{arguments:?}");
        assert!(after == before, "{arguments:?}");
    }
    succeed(&folder, &["format", new, "sd/kingston:capacity=64MiB,state=card.state"]);
    let made = ["card.state", "card.state.bytes", "card.state.sums", "new.img"];
    assert!(made.iter().all(|name| folder.path(name).exists()), "{:?}", files(&folder).keys());
}

#[test]
fn an_addition_that_fails_leaves_the_files_as_they_were() {
    let folder = Folder::new("volume-add-fails");
    formatted(&folder, &[]);
    std::fs::write(folder.path("disk.img"), [1; 4096]).expect("a writable folder");
    let names = || files(&folder).into_keys().collect::<Vec<_>>();
    let before = names();
    for arguments in [
        ["a.img:b.img", "file:c.img,size=64KiB"],
        ["a.img", "file:c.img,size=64MiB"],
        ["none.img", "file:c.img,size=64MiB"],
        ["a.img:b.img", "disk.img"],
        ["none.img", "sd/kingston:capacity=64MiB,state=card.state"],
    ] {
        let (code, message) = fail(&folder, &["add", arguments[0], arguments[1]]);
        assert!(matches!(code, Some(1 | 2)), "{arguments:?}: {message}");
        assert_eq!(names(), before, "{arguments:?}");
    }
    // An addition to a served volume that fails also leaves the files as they were.
    let served = ["volume:a.img:b.img", "--control", "ctl.sock"];
    let add = |device: &str| format!("{} ctl ctl.sock add {device}", env!("CARGO_BIN_EXE_flashlab"));
    let (small, card) = ("file:c.img,size=64KiB", "sd/kingston:capacity=1MiB,state=card.state".to_owned());
    with(&folder, &served, &format!("! {} && ! {}", add(small), add(&card)));
    assert_eq!(names(), before);
    with(&folder, &served, &add("file:c.img,size=64MiB"));
    succeed(&folder, &["add", "a.img:b.img:c.img", "file:d.img,size=64MiB"]);
    let shown = succeed(&folder, &["show", "a.img:b.img:c.img:d.img"]);
    assert!(shown.contains("d.img"), "{shown}");
    succeed(&folder, &["check", "a.img:b.img:c.img:d.img"]);
}
