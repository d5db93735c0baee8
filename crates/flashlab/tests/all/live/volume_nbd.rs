//! Exports of NBD servers as devices: as members of a volume, and served again with layers.

use super::tools::{Folder, attempt, flashlab, with};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

/// A server in a process of its own, killed on drop.
struct Process(Child);

impl Process {
    /// Serves a device on the socket `NAME.sock`.
    fn serve(folder: &Folder, name: &str, device: &str) -> Process {
        let socket = format!("{name}.sock");
        let arguments = ["serve", device, "--unix", &socket, "--print-uri"];
        let server = flashlab(&arguments).current_dir(folder).stdout(Stdio::piped()).spawn();
        let mut server = Process(server.expect("the binary is built"));
        let stdout = server.0.stdout.as_mut().expect("the stream is piped");
        let mut uri = String::new();
        BufReader::new(stdout).read_line(&mut uri).expect("the server prints text");
        assert!(uri.starts_with("nbd+unix:"), "{uri}");
        server
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn volume(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String) {
    let arguments = [&["volume"], arguments].concat();
    let output = flashlab(&arguments).current_dir(folder).output().expect("the binary is built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

const A: &str = "nbd+unix:///?socket=a.sock";
const B: &str = "nbd+unix:///?socket=b.sock";
const POOL: &str = "volume:pool.toml,degraded=yes";
const LOAD: &str = concat!(
    env!("CARGO_BIN_EXE_flashlab"),
    " load $uri --rw=randwrite --bs=64k --iodepth=8 --size=8m --verify"
);

#[test]
fn a_volume_goes_on_without_a_server_that_disappears_and_takes_it_back_when_it_returns() {
    let folder = Folder::new("volume-nbd");
    let a = Process::serve(&folder, "a", "file:a.img,size=32MiB");
    let _b = Process::serve(&folder, "b", "file:b.img,size=32MiB");
    let (code, printed) = volume(&folder, &["format", "--replicas", "2", &format!("net.a={A}"), B]);
    assert!(code == Some(0) && printed.ends_with(" over 2 members\n"), "{printed}");
    let pool = format!("[[member]]\ndevice = \"{A}\"\n\n[[member]]\ndevice = \"{B}\"\n");
    std::fs::write(folder.path("pool.toml"), pool).expect("a writable folder");
    let (_, printed) = volume(&folder, &["show", "pool.toml"]);
    assert!(printed.contains("net.a") && printed.contains(A), "{printed}");

    // The first server ends between two loads of one mount.
    let script = format!(
        "{LOAD} && kill -9 {} && {LOAD} && {} ctl ctl.sock stats",
        a.0.id(),
        env!("CARGO_BIN_EXE_flashlab")
    );
    let stats = with(&folder, &["--control", "ctl.sock", POOL], &script);
    assert!(stats.contains("missing"), "{stats}");
    drop(a);
    let (code, printed) = volume(&folder, &["show", "pool.toml"]);
    assert!(code == Some(1) && printed.contains(&format!("{A}: cannot connect: ")), "{code:?} {printed}");

    let _a = Process::serve(&folder, "a", "file:a.img");
    with(&folder, &[POOL], LOAD);
    let (code, printed) = volume(&folder, &["reconcile", "pool.toml"]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = volume(&folder, &["check", "pool.toml"]);
    assert!(code == Some(0) && printed.ends_with("the volume is sound\n"), "{printed}");
    let (_, printed) = volume(&folder, &["show", "--json", "pool.toml"]);
    let shown: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let mapped = shown["mapped_bytes"].as_u64().expect("a number");
    assert!(mapped > 0 && shown["by_copies"]["2"] == mapped, "{printed}");
}

/// The server ends, another one takes its place, and its member returns, all while the volume is open.
#[test]
fn a_member_whose_server_was_replaced_is_online_again() {
    let folder = Folder::new("volume-nbd-online");
    let a = Process::serve(&folder, "a", "file:a.img,size=32MiB");
    let b = Process::serve(&folder, "b", "file:b.img,size=32MiB");
    let (code, printed) = volume(&folder, &["format", "--replicas", "2", A, B]);
    assert_eq!(code, Some(0), "{printed}");
    let pool = format!("[[member]]\ndevice = \"{A}\"\n\n[[member]]\ndevice = \"{B}\"\n");
    std::fs::write(folder.path("pool.toml"), pool).expect("a writable folder");
    let script = format!(
        "P={}; {LOAD}; kill -9 {}; {LOAD}; touch killed; \
        for n in $(seq 600); do [ -S a2.sock ] && break; sleep 0.1; done; \
        $P ctl ctl.sock online 'nbd+unix:///?socket=a2.sock'; \
        for n in $(seq 600); do $P ctl ctl.sock stats > stats.txt; \
        grep -q 'work bytes' stats.txt || break; sleep 0.1; done; {LOAD}; $P ctl ctl.sock stats > stats.txt",
        env!("CARGO_BIN_EXE_flashlab"),
        a.0.id(),
    );
    // The second server outlives the script, because the volume is closed after it.
    let (printed, second) = thread::scope(|scope| {
        let second = scope.spawn(|| {
            let waits = || !folder.path("killed").exists();
            (0..600).take_while(|_| waits()).for_each(|_| thread::sleep(Duration::from_millis(100)));
            Process::serve(&folder, "a2", "file:a.img")
        });
        (with(&folder, &["--control", "ctl.sock", POOL], &script), second.join())
    });
    assert!(printed.contains("member 0 is online; background work brings it up to date\n"), "{printed}");
    let stats = std::fs::read_to_string(folder.path("stats.txt")).expect("the script wrote it");
    assert!(
        stats.contains("metadata copies: 2") && !stats.contains("failing label= member=0 state=rw: 1"),
        "{stats}"
    );
    drop((second, a, b));
    let (code, printed) = volume(&folder, &["check", "a.img:b.img"]);
    assert!(code == Some(0) && printed.ends_with("the volume is sound\n"), "{printed}");
    let (_, printed) = volume(&folder, &["show", "--json", "a.img:b.img"]);
    let shown: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let mapped = shown["mapped_bytes"].as_u64().expect("a number");
    assert!(mapped > 0 && shown["by_copies"]["2"] == mapped, "{printed}");
}

/// Nothing locks an export, so the server of a volume claims it.
#[test]
fn a_volume_on_an_export_in_use_is_refused_until_its_server_is_gone() {
    let folder = Folder::new("volume-nbd-claim");
    let a = Process::serve(&folder, "a", "file:a.img,size=32MiB");
    let (code, printed) = volume(&folder, &["format", A]);
    assert_eq!(code, Some(0), "{printed}");
    std::fs::write(folder.path("pool.toml"), format!("[[member]]\ndevice = \"{A}\"\n")).expect("a folder");
    let server = Process::serve(&folder, "v", "volume:pool.toml");
    for command in [
        &["scrub", "pool.toml"][..],
        &["set", "pool.toml", "--compression", "lz4"],
        &["format", "--force", A],
        &["add", "pool.toml", A],
    ] {
        let (code, printed) = volume(&folder, command);
        let reason = format!("{A}: another program has opened this member of a volume for writing");
        assert!(code.is_some_and(|code| code != 0) && printed.contains(&reason), "{command:?}: {printed}");
    }
    let load = ["load", "nbd+unix:///?socket=v.sock", "--rw=write", "--bs=64k", "--size=1m", "--verify"];
    let load = || flashlab(&load).current_dir(&folder).output().expect("the binary is built");
    assert!(load().status.success());
    // A server that was killed leaves its claim behind.
    drop(server);
    let (code, printed) = volume(&folder, &["scrub", "pool.toml"]);
    assert_eq!(code, Some(0), "{printed}");
    drop(a);
    let (code, printed) = volume(&folder, &["check", "a.img"]);
    assert!(code == Some(0) && printed.ends_with("the volume is sound\n"), "{printed}");
}

#[test]
fn an_export_is_served_again_with_layers() {
    let folder = Folder::new("nbd-layers");
    let _a = Process::serve(&folder, "a", "memory:size=16MiB");
    with(&folder, &[&format!("{A}+stats")], LOAD);
    with(&folder, &[&format!("{A}+overlay+delay:read=1us")], LOAD);
    let failed = attempt(&folder, &[&format!("{A}+error:rate=1")], LOAD);
    assert!(!failed.status.success());
    let failed = attempt(&folder, &["nbd://localhost:1/x"], "true");
    let message = String::from_utf8_lossy(&failed.stderr);
    assert!(message.contains("nbd://localhost:1/x: cannot connect: "), "{message}");
    assert_eq!(failed.status.code(), Some(1), "{message}");
}
