//! Volumes that are served: their background work, and commands beside their clients.

use super::tools::{Folder, are_installed, flashlab, with};
use super::volume::{damage, fail, formatted, run, secret, shown, succeed};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn a_served_volume_moves_its_data_to_the_background() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-tiers");
    formatted(
        &folder,
        &["--foreground", "ssd.a", "--background", "ssd.b", "--background-compression", "zstd:15"],
    );
    // The script waits until the counters of the server show no more background work.
    let program = env!("CARGO_BIN_EXE_flashlab");
    let wait = format!(
        "for n in $(seq 600); do \
        {program} ctl c.sock stats > stats.txt && grep -q 'work bytes' stats.txt || break; sleep 0.1; done"
    );
    let script = format!("qemu-io -f raw -c 'write -P 7 0 16M' $uri; {wait}");
    with(&folder, &["volume:a.img:b.img", "--control", "c.sock"], &script);
    let shown = shown(&folder, "a.img:b.img");
    let live = |n: usize| shown["members"][n]["live_blocks"].as_u64().expect("a number");
    assert_eq!(live(0), 0, "{shown}");
    assert!(live(1) > 0 && live(1) < 512, "{shown}");
    assert!(shown["by_compression"]["zstd"]["mapped_bytes"] == 16 << 20, "{shown}");
}

/// Without clients, nothing but the background work itself waits for a member with a model.
#[test]
fn data_moves_to_a_simulated_member_while_no_client_is_there() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    for speed in [&[][..], &["--unpaced"]] {
        let folder = Folder::new("volume-simulated-tier");
        let pool = "[[member]]\nlabel = \"ssd\"\ndevice = \"file:a.img,size=64MiB\"\n\n\
                    [[member]]\nlabel = \"sd\"\ndevice = \"sd/kingston:capacity=64MiB,state=b.state\"\n";
        std::fs::write(folder.path("pool.toml"), pool).expect("a writable folder");
        succeed(&folder, &["format", "pool.toml", "--foreground", "ssd", "--background", "sd"]);
        let program = env!("CARGO_BIN_EXE_flashlab");
        let script = format!(
            "qemu-io -f raw -c 'write -P 7 0 4M' $uri; for n in $(seq 600); do \
            {program} ctl c.sock stats > stats.txt && grep -q 'work bytes' stats.txt || exit 0; sleep 0.1; done; exit 1"
        );
        with(&folder, &[&["volume:pool.toml", "--control", "c.sock"], speed].concat(), &script);
        let shown = shown(&folder, "pool.toml");
        let live = |n: usize| shown["members"][n]["live_blocks"].as_u64().expect("a number");
        assert!(live(0) == 0 && live(1) > 0, "{speed:?}: {shown}");
    }
}

#[test]
fn the_metrics_of_a_served_volume_have_latencies_of_members_and_hits_of_the_cache() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-metrics");
    formatted(&folder, &["--promote", "ssd.a", "--foreground", "ssd.b"]);
    // The first read finds no cached copy, and leaves one in the background.
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!(
        "qemu-io -f raw -c 'write -P 7 0 4M' $uri; for n in $(seq 600); do \
        qemu-io -f raw -c 'read -P 7 0 4M' $uri; {program} ctl c.sock stats > stats.txt; \
        grep -q 'cache hits: [1-9]' stats.txt && exit 0; sleep 0.1; done; exit 1"
    );
    with(&folder, &["volume:a.img:b.img", "--control", "c.sock"], &script);
    let stats = std::fs::read_to_string(folder.path("stats.txt")).expect("the script wrote this file");
    let value = |name: &str| -> f64 {
        let line = stats.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.rsplit(": ").next()?.parse().ok());
        value.unwrap_or_else(|| panic!("{name}: {stats}"))
    };
    assert!(value("volume cache misses") > 0.0, "{stats}");
    for (kind, member) in [("read", 0), ("write", 0), ("read", 1), ("write", 1)] {
        let seconds = value(&format!("volume member {kind} seconds member={member} "));
        assert!(seconds > 0.0 && seconds < 60.0, "{kind} on member {member}: {stats}");
    }
}

#[test]
fn a_served_volume_is_scrubbed_and_a_member_evacuated_beside_its_client() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-ctl");
    formatted(&folder, &["--replicas", "2"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 71 0 8M' $uri");
    damage(&folder);
    succeed(&folder, &["add", "a.img:b.img", "ssd.c=file:c.img,size=64MiB"]);
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!(
        "set -e; ctl='{program} ctl c.sock'; $ctl scrub status > before.txt; $ctl scrub; \
        for n in $(seq 600); do $ctl scrub status > scrub.txt; grep -q examined scrub.txt && break; sleep 0.1; done; \
        {program} volume set a.img:b.img:c.img --replicas 1 2> locked.txt && exit 1; \
        $ctl evacuate ssd.z 2> unknown.txt && exit 1; $ctl state ssd.b=gone 2> wrong.txt && exit 1; \
        $ctl evacuate ssd.b > evacuate.txt; \
        for n in $(seq 600); do $ctl stats > stats.txt; \
        grep -q 'work bytes' stats.txt || break; sleep 0.1; done; \
        qemu-io -f raw -c 'read -P 71 0 8M' -c 'write -P 9 8M 1M' $uri"
    );
    with(&folder, &["volume:a.img:b.img:c.img", "--control", "c.sock"], &script);
    let text = |name: &str| std::fs::read_to_string(folder.path(name)).expect("the script wrote this file");
    assert_eq!(text("before.txt"), "no scrub since the server started\n");
    let scrubbed = text("scrub.txt");
    assert!(scrubbed.ends_with("1 repaired, 0 extents lost, 0 bad copies remain\n"), "{scrubbed}");
    assert!(text("locked.txt").contains("flashlab ctl SOCKET set replicas=2"), "{}", text("locked.txt"));
    assert!(text("unknown.txt").contains("ssd.z: no member has this number or label"));
    assert!(text("wrong.txt").contains("rw, ro, evacuating or spare is needed"));
    assert!(text("evacuate.txt").starts_with("member 1 is evacuating; its data moves"));
    let shown = shown(&folder, "a.img:b.img:c.img");
    let member = &shown["members"][1];
    assert_eq!((&member["state"], &member["live_blocks"]), (&"evacuating".into(), &0.into()), "{shown}");
    assert_eq!(shown["by_copies"]["2"], 9 << 20, "{shown}");
    assert!(succeed(&folder, &["check", "a.img:b.img:c.img"]).ends_with("the volume is sound\n"));
    succeed(&folder, &["set", "a.img:b.img:c.img", "--size", "40MiB"]);
    succeed(&folder, &["remove", "a.img:b.img:c.img", "ssd.b"]);
}

/// A scrub waits for more urgent work, which the rate of the server slows down here, and has a rate of its own.
#[test]
fn long_work_on_a_served_volume_shows_its_progress_and_the_time_left() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-ctl-progress");
    formatted(&folder, &["--size", "40MiB", "--foreground", "ssd.a"]);
    let program = env!("CARGO_BIN_EXE_flashlab");
    let until = |command: &str, file: &str, wanted: &str| {
        format!(
            "for n in $(seq 600); do $ctl {command} > {file}; grep -q '{wanted}' {file} && break; sleep 0.1; done; "
        )
    };
    let script = format!(
        "set -e; ctl='{program} ctl c.sock'; qemu-io -f raw -c 'write -P 7 0 8M' $uri; \
        $ctl remove ssd.a; $ctl scrub rate=1; $ctl scrub > twice.txt 2>&1 && exit 1; {}{}\
        $ctl scrub status > waits.txt; $ctl scrub rate=fast > wrong.txt 2>&1 && exit 1; \
        $ctl scrub now > usage.txt 2>&1 || exit 0",
        until("remove status", "removal.txt", " left ("),
        until("stats", "stats.txt", "^background work: .* left ("),
    );
    with(&folder, &["volume:a.img:b.img", "--control", "c.sock", "--background-rate", "256KiB"], &script);
    let script = format!(
        "set -e; ctl='{program} ctl c.sock'; $ctl scrub rate=256KiB; {}",
        until("scrub status", "scrub.txt", " left ("),
    );
    with(&folder, &["volume:a.img:b.img", "--control", "c.sock"], &script);
    let text = |name: &str| std::fs::read_to_string(folder.path(name)).expect("the script wrote this file");
    let removal = text("removal.txt");
    assert!(removal.starts_with("member 0: ") && removal.contains(" %, "), "{removal}");
    assert!(removal.ends_with(" bytes remain to be moved)\n"), "{removal}");
    assert!(text("twice.txt").contains("a scrub is already running"), "{}", text("twice.txt"));
    assert_eq!(text("waits.txt"), "the scrub begins once no other background work is left\n");
    assert!(text("wrong.txt").contains("rate=fast: "), "{}", text("wrong.txt"));
    assert!(text("usage.txt").contains("use `scrub`, `scrub rate=20MiB` or `scrub status`"));
    let scrub = text("scrub.txt");
    assert!(
        scrub.starts_with("scrub: ") && scrub.contains(" %, ") && scrub.ends_with(" bytes)\n"),
        "{scrub}"
    );
}

/// A client is connected while the volume shrinks.
#[test]
fn a_served_volume_shrinks_and_refuses_requests_beyond_its_new_end() {
    if !are_installed(&["qemu-io", "nbdinfo"]) {
        return;
    }
    let folder = Folder::new("volume-ctl-shrink");
    formatted(&folder, &["--size", "40MiB"]);
    let program = env!("CARGO_BIN_EXE_flashlab");
    let until = |wanted: &str| {
        format!("for n in $(seq 600); do grep -q '{wanted}' client.txt && break; sleep 0.1; done; ")
    };
    let script = format!(
        "set -e; ctl='{program} ctl c.sock'; mkfifo commands; \
        qemu-io -f raw $uri < commands > client.txt 2>&1 & exec 3> commands; \
        echo 'write -P 7 0 8M' >&3; {}echo 'write -P 5 20M 64k' >&3; {}\
        $ctl set size=16MiB > data.txt 2>&1 && exit 1; \
        echo 'discard 20M 64k' >&3; {}$ctl set size=16MiB > shrink.txt; nbdinfo --size $uri > size.txt; \
        echo 'write -P 5 20M 64k' >&3; echo 'read 20M 64k' >&3; echo 'write -P 6 15M 1M' >&3; \
        exec 3>&-; wait; qemu-io -f raw -c 'read -P 7 0 8M' -c 'read -P 6 15M 1M' $uri",
        until("wrote 8388608/8388608 bytes at offset 0"),
        until("wrote 65536/65536 bytes at offset 20971520"),
        until("discard 65536/65536 bytes at offset 20971520"),
    );
    with(&folder, &["volume:a.img:b.img", "--control", "c.sock"], &script);
    let text = |name: &str| std::fs::read_to_string(folder.path(name)).expect("the script wrote this file");
    assert!(
        text("data.txt").contains("the volume has data in its first 21037056 bytes"),
        "{}",
        text("data.txt")
    );
    assert_eq!(
        text("shrink.txt"),
        "changed; the volume has 16777216 bytes, which clients see when they connect again; until then, their requests \
         beyond this size fail\n"
    );
    assert_eq!(text("size.txt"), "16777216\n");
    let client = text("client.txt");
    assert!(client.contains("write failed: No space left on device"), "{client}");
    assert!(client.contains("read failed: Invalid argument"), "{client}");
    assert!(client.contains("wrote 1048576/1048576 bytes at offset 15728640"), "{client}");
    assert_eq!(shown(&folder, "a.img:b.img")["size_bytes"], 16 << 20);
    assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
}

/// The member is missing when the volume is opened, and returns while the volume is served.
#[test]
fn a_member_that_returns_is_online_beside_the_clients_of_its_volume() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-online");
    formatted(&folder, &["--replicas", "2"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 7 0 8M' $uri");
    succeed(&folder, &["format", "file:other.img,size=64MiB"]);
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!(
        "set -e; ctl='{program} ctl c.sock'; qemu-io -f raw -c 'write -P 8 4M 8M' $uri; \
        $ctl online other.img 2> foreign.txt && exit 1; $ctl online a.img 2> used.txt && exit 1; \
        $ctl online none.img 2> none.txt && exit 1; $ctl online 2> usage.txt && exit 1; \
        $ctl online b.img > online.txt; \
        for n in $(seq 600); do $ctl stats > stats.txt; grep -q 'work bytes' stats.txt || break; sleep 0.1; done; \
        qemu-io -f raw -c 'read -P 7 0 4M' -c 'read -P 8 4M 8M' -c 'write -P 9 0 1M' $uri"
    );
    with(&folder, &["volume:a.img,degraded=yes", "--control", "c.sock"], &script);
    let text = |name: &str| std::fs::read_to_string(folder.path(name)).expect("the script wrote it");
    assert_eq!(text("online.txt"), "member 1 is online; background work brings it up to date\n");
    assert!(text("foreign.txt").contains("file:other.img: the device belongs to another volume"));
    assert!(text("used.txt").contains("a.img: this file is in use"), "{}", text("used.txt"));
    assert!(text("none.txt").contains("none.img"), "{}", text("none.txt"));
    assert!(text("usage.txt").contains("use `online DEVICE`"), "{}", text("usage.txt"));
    assert_eq!(shown(&folder, "a.img:b.img")["by_copies"]["2"], 12 << 20);
    assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
}

/// The device of a member cannot be opened with the volume, and returns while the volume is served.
#[test]
fn a_member_whose_device_returns_is_taken_back_without_a_command() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-search");
    formatted(&folder, &["--replicas", "2"]);
    with(&folder, &["volume:a.img:b.img"], "qemu-io -f raw -c 'write -P 7 0 8M' $uri");
    std::fs::rename(folder.path("b.img"), folder.path("away.img")).expect("a file");
    let program = env!("CARGO_BIN_EXE_flashlab");
    let until = |condition: &str| {
        format!("for n in $(seq 600); do $ctl stats > stats.txt; {condition} && break; sleep 0.1; done; ")
    };
    let script = format!(
        "set -e; ctl='{program} ctl c.sock'; qemu-io -f raw -c 'write -P 8 4M 8M' $uri; $ctl stats > before.txt; \
        mv away.img b.img; {}{}\
        qemu-io -f raw -c 'read -P 7 0 4M' -c 'read -P 8 4M 8M' -c 'write -P 9 0 1M' $uri",
        until("! grep -q 'is missing.*: 1' stats.txt"),
        until("! grep -q 'work bytes' stats.txt"),
    );
    with(&folder, &["volume:a.img:b.img,degraded=yes", "--control", "c.sock"], &script);
    let before = std::fs::read_to_string(folder.path("before.txt")).expect("the script wrote it");
    assert!(before.contains("volume member is missing member=1 label=ssd.b state=rw: 1"), "{before}");
    assert_eq!(shown(&folder, "a.img:b.img")["by_copies"]["2"], 12 << 20);
    assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
}

/// If the state were not written, the journal beside it would grow without limit and lengthen the next opening.
#[test]
fn the_state_of_a_simulated_member_is_written_while_its_volume_is_served() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-member-state");
    let pool = "[[member]]\ndevice = \"file:a.img,size=64MiB\"\n\n\
                [[member]]\ndevice = \"sd/kingston:capacity=64MiB,state=b.state\"\n";
    std::fs::write(folder.path("pool.toml"), pool).expect("a writable folder");
    succeed(&folder, &["format", "pool.toml"]);
    let script = "cp b.state before; qemu-io -f raw -c 'write -P 7 0 8M' $uri; \
                  for n in $(seq 600); do cmp -s before b.state || exit 0; sleep 0.1; done; exit 1";
    with(&folder, &["volume:pool.toml", "--keep-every", "1s"], script);
    assert!(succeed(&folder, &["check", "pool.toml"]).ends_with("the volume is sound\n"));
}

/// Part of a script that waits until the removal of a member has ended.
const REMOVED: &str = "for n in $(seq 600); do $ctl remove status > removal.txt; \
                       grep -q 'remain to be moved' removal.txt || break; sleep 0.1; done;";

#[test]
fn options_and_members_of_a_served_volume_change_beside_its_client() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-ctl-set");
    formatted(&folder, &["--size", "40MiB"]);
    std::fs::write(folder.path("full.img"), vec![7; 64 << 20]).expect("a writable folder");
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!(
        "set -e; ctl='{program} ctl c.sock'; qemu-io -f raw -c 'write -P 7 0 8M' $uri; \
        for wrong in 'set' 'set replicas=5' 'set copies=2' 'set size=1MiB' 'set background=hdd' 'set state=ssd.z=ro' \
        'add' 'add full.img' 'add --fast d.img' 'add volume:d.img' 'remove ssd.z' 'rekey'; do \
        $ctl $wrong >> wrong.txt 2>&1 && exit 1; done; \
        $ctl remove status > before.txt; \
        $ctl add --keep-size ssd.c=file:c.img,size=64MiB > add.txt; \
        $ctl set replicas=2 compression=lz4 label=0=fast > set.txt; $ctl set size=44MiB > grow.txt; \
        $ctl stats > stats.txt; \
        qemu-io -f raw -c 'read -P 7 0 8M' -c 'write -P 9 8M 1M' -c 'write -P 3 42M 1M' $uri; \
        $ctl remove ssd.b > remove.txt; {REMOVED} $ctl stats > after.txt; \
        qemu-io -f raw -c 'read -P 7 0 8M' -c 'read -P 9 8M 1M' -c 'read -P 3 42M 1M' $uri"
    );
    with(&folder, &["volume:a.img:b.img", "--control", "c.sock"], &script);
    let text = |name: &str| std::fs::read_to_string(folder.path(name)).expect("the script wrote this file");
    let expected = [
        "nothing to change; for example: set replicas=2",
        "replicas=5: 1 to 4 is needed",
        "\"copies\" is not an option; the options are replicas, compression",
        "size=1 MiB: the volume has data in its first 8388608 bytes; shrink the filesystem",
        "background=hdd: no member has this label",
        "ssd.z: no member has this number or label",
        "the member is missing; for example: add",
        "full.img: it holds data of an unknown kind; --force adds it",
        "\"--fast\" is not expected here; use: add [--force] [--keep-size] [--durability N] MEMBER",
        "a volume cannot be a member of a volume",
        "ssd.z: no member has this number or label",
        "the file with the new passphrase is missing",
    ];
    let wrong = text("wrong.txt");
    assert_eq!(wrong.lines().count(), expected.len(), "{wrong}");
    for (line, expected) in wrong.lines().zip(expected) {
        assert!(line.contains(expected), "{line}");
    }
    assert_eq!(text("before.txt"), "no removal since the server started\n");
    assert!(
        text("add.txt").starts_with("file:c.img,size=64MiB is now member 2; add it"),
        "{}",
        text("add.txt")
    );
    assert!(!text("add.txt").contains("bytes"), "{}", text("add.txt"));
    assert!(text("grow.txt").contains("which clients see when they connect again"), "{}", text("grow.txt"));
    // The background work may have copied all of it before the answer.
    assert!(text("set.txt").starts_with("changed"), "{}", text("set.txt"));
    assert!(text("stats.txt").contains("volume replicas: 2\n"), "{}", text("stats.txt"));
    assert!(text("remove.txt").starts_with("the data of member 1 moves to other members"));
    assert_eq!(text("removal.txt"), "member 1 is removed; leave it out when the volume is opened again\n");
    assert!(!text("after.txt").contains("member=1 "), "{}", text("after.txt"));
    let shown = shown(&folder, "a.img:c.img");
    assert_eq!((&shown["replicas"], &shown["members"][0]["label"]), (&2.into(), &"fast".into()), "{shown}");
    assert_eq!(shown["by_copies"]["2"], 10 << 20, "{shown}");
    assert!(succeed(&folder, &["check", "a.img:c.img"]).ends_with("the volume is sound\n"));
}

#[test]
fn a_member_of_a_served_volume_that_cannot_be_removed_keeps_its_state() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-ctl-remove");
    formatted(&folder, &["--replicas", "2"]);
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!(
        "set -e; ctl='{program} ctl c.sock'; qemu-io -f raw -c 'write -P 7 0 8M' $uri; $ctl remove 0 2> refused.txt && exit 1; \
        $ctl remove status > removal.txt"
    );
    with(&folder, &["volume:a.img:b.img", "--control", "c.sock"], &script);
    let text = |name: &str| std::fs::read_to_string(folder.path(name)).expect("the script wrote this file");
    let refused = "member 0: 2 copies need 2 members that take data, and 1 would be left";
    assert!(text("refused.txt").contains(refused), "{}", text("refused.txt"));
    assert_eq!(text("removal.txt"), "no removal since the server started\n");
    assert_eq!(shown(&folder, "a.img:b.img")["members"][0]["state"], "rw");
    assert!(succeed(&folder, &["check", "a.img:b.img"]).ends_with("the volume is sound\n"));
}

#[test]
fn the_passphrase_of_a_served_volume_changes_beside_its_client() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("volume-ctl-rekey");
    secret(&folder, "old", "correct horse\n", 0o600);
    std::fs::create_dir(folder.path("my keys")).expect("a writable folder");
    secret(&folder, "my keys/new", "battery staple\n", 0o600);
    formatted(&folder, &["--encrypt", "--kdf", "scrypt", "--passphrase-file", "old"]);
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!(
        "set -e; ctl='{program} ctl c.sock'; qemu-io -f raw -c 'write -P 7 0 1M' $uri; \
        $ctl \"rekey 'my keys/new\" > open.txt 2>&1 && exit 1; $ctl rekey 'my keys/new'; \
        $ctl add ssd.c=file:c.img,size=64MiB; qemu-io -f raw -c 'read -P 7 0 1M' -c 'write -P 9 1M 1M' $uri"
    );
    with(&folder, &["volume:a.img:b.img,passphrase-file=old", "--control", "c.sock"], &script);
    let refused = std::fs::read_to_string(folder.path("open.txt")).expect("the script wrote this file");
    assert!(refused.contains("a quotation mark is not closed"), "{refused}");
    let members = "a.img:b.img:c.img";
    let (_, message) = fail(&folder, &["check", members, "--passphrase-file", "old"]);
    assert!(message.contains("the passphrase does not open"), "{message}");
    let checked = succeed(&folder, &["check", members, "--passphrase-file", "my keys/new"]);
    assert!(checked.ends_with("the volume is sound\n"), "{checked}");
}

/// The server is killed at different times during a series of changes. Either the old or the new members open the
/// volume, which has the flushed data.
#[test]
fn a_server_killed_during_changes_leaves_a_volume_that_opens() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let program = env!("CARGO_BIN_EXE_flashlab");
    for delay in ["0", "0.02", "0.1", "0.4"] {
        let folder = Folder::new(&format!("volume-ctl-kill-{delay}"));
        formatted(&folder, &[]);
        let arguments =
            ["serve", "volume:a.img:b.img", "--unix", "v.sock", "--print-uri", "--control", "c.sock"];
        let mut server = flashlab(&arguments)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        let mut uri = String::new();
        let stdout = server.stdout.as_mut().expect("the stream is piped");
        BufReader::new(stdout).read_line(&mut uri).expect("the server prints text");
        let script = format!(
            "qemu-io -f raw -c 'write -P 7 0 8M' -c flush {0} > written.txt; \
            (ctl='{program} ctl c.sock'; $ctl add ssd.c=file:c.img,size=64MiB; $ctl set compression=lz4; \
            $ctl remove ssd.b; {REMOVED} $ctl set replicas=2) > changes.txt 2>&1 & sleep {delay}; kill -9 {1}",
            uri.trim_end(),
            server.id()
        );
        let status = Command::new("sh").args(["-c", &script]).current_dir(&folder).status().expect("a shell");
        assert!(status.success());
        server.wait().expect("the process ends");
        // A check would count a copy of the superblock that is not the newest as a finding.
        let opens = |members: &&&str| run(&folder, &["show", members]).status.success();
        let members = ["a.img:b.img", "a.img:b.img:c.img", "a.img:c.img"];
        let opened =
            members.iter().find(opens).unwrap_or_else(|| panic!("{delay}: no members open the volume"));
        with(&folder, &[&format!("volume:{opened}")], "qemu-io -f raw -c 'read -P 7 0 8M' $uri");
        println!("killed after {delay} s: {opened}");
    }
}
