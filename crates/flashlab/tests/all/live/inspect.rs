//! Properties of an export as nbdinfo and qemu-img report them.

use super::tools::{Folder, are_installed, attempt, with};

#[test]
fn nbdinfo_lists_all_offered_capabilities() {
    if !are_installed(&["nbdinfo"]) {
        return;
    }
    let folder = Folder::new("nbdinfo");
    let json = with(&folder, &["memory:size=1G"], "nbdinfo --json $uri");
    let json: serde_json::Value = serde_json::from_str(&json).expect("the output is JSON");
    assert_eq!(json["protocol"], "newstyle-fixed");
    assert_eq!(json["structured"], true);
    let export = &json["exports"][0];
    assert_eq!((&export["export-size"], &export["block_size_preferred"]), (&(1 << 30).into(), &4096.into()));
    assert_eq!(export["contexts"][0], "base:allocation");
    assert_eq!(export["description"], "memory:size=1G");
    for can in ["can_df", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"] {
        assert_eq!(export[can], true, "{can}");
    }
    for cannot in ["is_read_only", "is_rotational", "can_cache"] {
        assert_eq!(export[cannot], false, "{cannot}");
    }
}

#[test]
fn nbdinfo_queries_single_capabilities() {
    if !are_installed(&["nbdinfo"]) {
        return;
    }
    let folder = Folder::new("nbdinfo-can");
    let code = |options: &[&str], question: &str| {
        let device = [&["memory:size=1M"], options].concat();
        attempt(&folder, &device, &format!("nbdinfo {question} $uri")).status.code()
    };
    assert_eq!(code(&[], "--can multi-conn"), Some(0));
    assert_eq!(code(&[], "--is read-only"), Some(2));
    assert_eq!(code(&["--read-only"], "--is read-only"), Some(0));
    assert_eq!(code(&["--read-only"], "--can trim"), Some(2));
    assert_eq!(code(&[], "--can structured"), Some(0));
    assert_eq!(code(&["--simple-replies"], "--can structured"), Some(2));
}

#[test]
fn nbdinfo_lists_every_export_and_maps_the_written_ranges() {
    if !are_installed(&["nbdinfo", "qemu-io"]) {
        return;
    }
    let folder = Folder::new("nbdinfo-list");
    let devices = ["memory:size=1M", "a card=memory:size=4M", "scratch=memory:size=2M"];
    let list = with(&folder, &devices, "nbdinfo --list $uri");
    for line in ["export=\"\":", "export=\"a card\":", "export=\"scratch\":", "export-size: 4194304"] {
        assert!(list.contains(line), "{line} in\n{list}");
    }
    let script = "qemu-io -f raw -c 'write 1M 64k' -c 'discard 1M 32k' $uri >&2; nbdinfo --map $uri";
    let map = with(&folder, &["memory:size=2M"], script);
    let words: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        words,
        [
            ["0", "1081344", "3", "hole,zero"],
            ["1081344", "32768", "0", "data"],
            ["1114112", "983040", "3", "hole,zero"],
        ]
    );
}

#[test]
fn qemu_img_maps_compares_and_measures() {
    if !are_installed(&["qemu-img", "nbdcopy"]) {
        return;
    }
    let folder = Folder::new("qemu-img");
    folder.noise("half.img", 4 << 20);
    let script = "truncate -s 8M half.img; nbdcopy half.img $uri
        qemu-img compare -f raw -F raw half.img $uri >&2
        qemu-img bench -f raw -c 5000 -d 32 $uri >&2
        qemu-img bench -f raw -w -c 1000 -d 16 --flush-interval=50 $uri >&2
        qemu-img map --output=json -f raw $uri";
    let map = with(&folder, &["memory:size=8M"], script);
    let map: serde_json::Value = serde_json::from_str(&map).expect("the output is JSON");
    let last = map.as_array().and_then(|parts| parts.last()).expect("the map has parts");
    assert_eq!((&last["zero"], &last["data"]), (&true.into(), &false.into()), "{map}");
}
