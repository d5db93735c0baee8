//! `flashlab serve --run`, and the options and signals that scripts use with it.

use super::tools::{Folder, are_installed, attempt, flashlab, skipped, with};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

#[test]
fn run_passes_uri_and_socket_to_the_command_and_returns_its_status() {
    let folder = Folder::new("run");
    let printed = with(&folder, &["memory:size=1M"], "echo $uri; test -S $unixsocket; echo $unixsocket");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], format!("nbd+unix:///?socket={}", lines[1]));
    assert!(!std::path::Path::new(lines[1]).exists(), "the private socket outlives the server");
    for code in [0, 1, 7, 255] {
        assert_eq!(attempt(&folder, &["memory:size=1M"], &format!("exit {code}")).status.code(), Some(code));
    }
    assert_eq!(attempt(&folder, &["memory:size=1M"], "kill -9 $$").status.code(), Some(137));
    let tcp = with(&folder, &["memory:size=1M", "--tcp", "127.0.0.1:0"], "echo $uri; echo \"<$unixsocket>\"");
    assert!(tcp.starts_with("nbd://127.0.0.1:") && tcp.ends_with("<>\n"), "{tcp}");
    let named = with(&folder, &["a card=memory:size=1M", "--abstract", "flashlab-run-test"], "echo $uri");
    assert_eq!(named, "nbd+unix:///a%20card?socket=%00flashlab-run-test\n");
}

fn started(folder: &Folder, arguments: &[&str]) -> (Child, String) {
    let mut child =
        flashlab(arguments).current_dir(folder).stdout(Stdio::piped()).spawn().expect("the binary is built");
    let mut uri = String::new();
    BufReader::new(child.stdout.as_mut().expect("the stream is piped"))
        .read_line(&mut uri)
        .expect("the server prints text");
    (child, uri.trim_end().to_owned())
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let killed = std::process::Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(killed.is_ok_and(|status| status.success()));
}

#[test]
fn the_pidfile_of_a_server_on_standard_input_exists_at_the_greeting_and_remains() {
    let folder = Folder::new("pidfile");
    let mut server = flashlab(&["serve", "memory:size=1M", "-s", "-P", "pid"])
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    let greeting = &mut [0; 18];
    server.stdout.as_mut().expect("the stream is piped").read_exact(greeting).expect("the server greets");
    let pid = || std::fs::read_to_string(folder.path("pid")).expect("the pid file is written");
    assert_eq!(pid().trim_end(), server.id().to_string());
    drop(server.stdin.take());
    assert!(server.wait().expect("the process ends").success());
    assert_eq!(pid().trim_end(), server.id().to_string());
}

#[test]
fn a_device_of_zero_bytes_is_served() {
    if !are_installed(&["nbdinfo"]) {
        return;
    }
    let folder = Folder::new("empty-export");
    std::fs::write(folder.path("empty.img"), b"").expect("the disk has room");
    for device in ["memory:size=0", "file:empty.img", "memory:size=0+delay:read=1ms+stats"] {
        assert_eq!(with(&folder, &[device], "nbdinfo --size $uri; nbdinfo --map $uri"), "0\n", "{device}");
    }
    let refused =
        flashlab(&["bench", "memory:size=0", "--name=a", "--rw=read"]).output().expect("the binary is built");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn sizes_and_rates_accept_units_and_fractions() {
    if !are_installed(&["nbdinfo"]) {
        return;
    }
    let folder = Folder::new("sizes");
    for (device, size) in [
        ("memory:size=1048576", "1048576\n"),
        ("memory:size=2TiB", "2199023255552\n"),
        ("memory:size=1T+rate:read=97.66MiB/s", "1099511627776\n"),
    ] {
        assert_eq!(with(&folder, &[device], "nbdinfo --size $uri"), size);
    }
    let noted = attempt(&folder, &["memory:size=1M+rate:read=97.66MiB/s"], "true");
    let printed = String::from_utf8_lossy(&noted.stderr).into_owned();
    assert_eq!(printed, "flashlab: 97.66MiB/s is rounded to 102403932B/s\n");
}

#[test]
fn a_signal_under_load_shuts_the_server_down_and_removes_its_files() {
    for name in ["TERM", "INT"] {
        let folder = Folder::new(&format!("signal-{name}"));
        let serve = [
            "serve",
            "memory:size=16M",
            "--unix",
            "card.sock",
            "--print-uri",
            "-P",
            "pid",
            "--record",
            "log",
        ];
        let (mut server, uri) = started(&folder, &serve);
        let pid = std::fs::read_to_string(folder.path("pid")).expect("clients can connect");
        assert_eq!(pid.trim_end(), server.id().to_string());
        let load = ["load", &uri, "--rw=randrw", "--iodepth=16", "--connections=2", "--runtime=3600"];
        let loading = flashlab(&load).stderr(Stdio::piped()).spawn().expect("the binary is built");
        // Requests have arrived once the log has grown.
        while std::fs::metadata(folder.path("log")).is_ok_and(|log| log.len() < 10_000) {
            std::thread::yield_now();
        }
        signal(&server, name);
        assert_eq!(server.wait().expect("the process ends").code(), Some(0), "{name}");
        let loaded = loading.wait_with_output().expect("the process ends");
        let printed = String::from_utf8_lossy(&loaded.stderr);
        assert_eq!(loaded.status.code(), Some(1), "{printed}");
        assert!(printed.contains("the server closed the connection"), "{printed}");
        assert!(!folder.path("card.sock").exists() && !folder.path("pid").exists());
        let log = std::fs::read_to_string(folder.path("log")).expect("the log was recorded");
        assert!(
            log.starts_with("fio version 3 iolog\n0 device add\n0 device open\n")
                && log.ends_with("device close\n")
        );
    }
}

#[test]
fn a_signal_also_ends_the_command() {
    let folder = Folder::new("signal-run");
    let script = "echo up; exec sleep 600";
    let (mut server, up) = started(&folder, &["serve", "memory:size=1M", "--run", script]);
    assert_eq!(up, "up");
    signal(&server, "TERM");
    assert_eq!(server.wait().expect("the process ends").code(), Some(128 + 15));
}

#[test]
fn a_recording_is_replayed_in_simulated_time() {
    let folder = Folder::new("record");
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!("{program} load $uri --rw=randrw --size=1m --iodepth=4");
    with(&folder, &["memory:size=1M", "--record", "log"], &script);
    let job = ["bench", "sd/kingston", "--name=a", "--read_iolog=log", "--direct=1", "--output-format=json"];
    let output = flashlab(&job).current_dir(&folder).output().expect("the binary is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the output is JSON");
    let ios = |direction: &str| json["jobs"][0][direction]["total_ios"].as_u64();
    assert_eq!(ios("read").zip(ios("write")).map(|(reads, writes)| reads + writes), Some(256));
}

#[test]
fn load_prints_text_and_json() {
    let folder = Folder::new("load");
    let program = env!("CARGO_BIN_EXE_flashlab");
    let options = "--rw=write --bs=4k --iodepth=8 --numjobs=2 --verify";
    let printed = with(&folder, &["memory:size=1M"], &format!("{program} load $uri {options}"));
    assert!(
        printed.contains("connections 2") && printed.contains("blocks, all as they were written"),
        "{printed}"
    );
    let json =
        with(&folder, &["memory:size=1M"], &format!("{program} load $uri {options} --output-format=json"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("the output is JSON");
    assert_eq!((&json["total_ios"], &json["verified_blocks"]), (&256.into(), &256.into()));
}

#[test]
fn one_client_is_served_on_standard_input_and_output() {
    let mut server = flashlab(&["serve", "-s", "memory:size=1M"]);
    let mut server =
        server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary is built");
    let mut greeting = [0; 18];
    server
        .stdout
        .as_mut()
        .expect("the stream is piped")
        .read_exact(&mut greeting)
        .expect("the server greets");
    assert!(greeting.starts_with(b"NBDMAGICIHAVEOPT"));
    drop(server.stdin.take());
    assert_eq!(server.wait().expect("the process ends").code(), Some(0));
}

#[test]
fn a_terminal_has_a_status_line_and_a_pipe_has_none() {
    if !are_installed(&["script"]) {
        return;
    }
    let folder = Folder::new("terminal");
    let serve =
        format!("{} serve memory:size=1M --unix s.sock --pidfile pid", env!("CARGO_BIN_EXE_flashlab"));
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-qfec", &serve, "shown"]).env("TERM", "xterm").stdin(Stdio::null()).stdout(Stdio::null());
    let mut terminal = terminal.current_dir(&folder).spawn().expect("the program is installed");
    let shown = || std::fs::read(folder.path("shown")).unwrap_or_default();
    let shows = |text: &str| String::from_utf8_lossy(&shown()).contains(text);
    while !shows("connections 0   read 0 IOPS") {
        assert!(
            terminal.try_wait().expect("the process is our child").is_none(),
            "{}",
            String::from_utf8_lossy(&shown())
        );
        std::thread::yield_now();
    }
    assert!(shows("serving nbd+unix:///?socket="));
    let pid = std::fs::read_to_string(folder.path("pid")).expect("the server is up");
    let killed = std::process::Command::new("sh").args(["-c", &format!("kill {pid}")]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    terminal.wait().expect("the process is our child");
    let piped = attempt(&folder, &["memory:size=1M"], "true");
    assert!(piped.stderr.is_empty(), "{}", String::from_utf8_lossy(&piped.stderr));
}

#[test]
fn realtime_serves_the_same_bytes_or_reports_the_denial() {
    let folder = Folder::new("realtime");
    let load = format!("{} load $uri --rw=randrw --size=1m --verify", env!("CARGO_BIN_EXE_flashlab"));
    let output = attempt(&folder, &["sd/kingston", "--speed=100", "--realtime"], &load);
    let printed = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(printed.contains("--realtime: "), "{printed}");
        skipped("real-time scheduling is not permitted here");
    }
}
