//! `flashlab measure` and `flashlab probe` of an export of an NBD server.

use super::tools::{Folder, flashlab, with};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

fn measured(folder: &Folder, name: &str) -> Value {
    let text = std::fs::read_to_string(folder.path(name)).expect("the file is there");
    serde_json::from_str(&text).expect("JSON")
}

fn steps(measured: &Value) -> impl Iterator<Item = &Value> {
    measured["steps"].as_array().expect("a list").iter()
}

fn measure(arguments: &str) -> String {
    format!("{} measure {arguments}", env!("CARGO_BIN_EXE_flashlab"))
}

/// Returns the requests that the server saw: its log without the names of the columns.
fn requests(folder: &Folder) -> String {
    let log = std::fs::read_to_string(folder.path("requests")).expect("there is a log");
    log.split_once('\n').expect("there are columns").1.to_owned()
}

/// The server's log is the proof: it contains every request.
#[test]
fn without_permission_the_server_sees_reads_only() {
    let folder = Folder::new("measure-read");
    let line = measure("\"$uri\" --plan quick --to card.json");
    with(&folder, &["memory:size=64M+log:to=requests"], &line);
    let log = requests(&folder);
    // For a read, the server also asks its device for holes.
    let is_read = |line: &str| matches!(line.split(' ').nth(1), Some("read" | "extents"));
    assert!(log.lines().count() > 1000 && log.lines().all(is_read), "{log}");
    let card = measured(&folder, "card.json");
    assert_eq!(
        (&card["plan"], &card["target"]["capacity_bytes"]),
        (&"quick-read".into(), &(64 << 20).into())
    );
    for step in steps(&card) {
        assert!(step["observations"].as_array().is_some_and(|all| !all.is_empty()), "{step}");
        assert!(step.get("marks").is_none(), "{step}");
    }
}

#[test]
fn with_permission_an_export_is_discarded_and_written() {
    let folder = Folder::new("measure-write");
    let line = measure("\"$uri\" --plan quick --destroy --to card.json");
    with(&folder, &["memory:size=64M+log:to=requests"], &line);
    let log = requests(&folder);
    for op in ["discard", "write", "flush", "read"] {
        assert!(log.lines().any(|line| line.split(' ').nth(1) == Some(op)), "no {op}");
    }
    let card = measured(&folder, "card.json");
    assert!(steps(&card).all(|step| step.get("marks").is_none()), "{card}");
    assert!(steps(&card).any(|step| step["name"] == "write-random-4k-untouched"), "{card}");
}

#[test]
fn a_read_only_export_is_not_destroyed() {
    let folder = Folder::new("measure-refused");
    let line = measure("\"$uri\" --plan quick --destroy --to card.json");
    let script = format!("if {line} 2>message; then exit 1; else test $? = 2; cat message; fi");
    let message = with(&folder, &["--read-only", "memory:size=64M"], &script);
    assert!(message.contains("the server offers it for reading only"), "{message}");
    assert!(!folder.path("card.json").exists());
}

#[test]
fn a_server_that_disappears_ends_the_measurement_but_its_steps_are_kept() {
    let folder = Folder::new("measure-gone");
    let mut server = flashlab(&["serve", "memory:size=64M", "--unix", "card.sock", "--print-uri"])
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    let mut uri = String::new();
    let out = server.stdout.as_mut().expect("the stream is piped");
    BufReader::new(out).read_line(&mut uri).expect("the server prints text");
    let mut measuring = flashlab(&["measure", uri.trim_end(), "--plan", "quick", "--to", "card.json"])
        .current_dir(&folder)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    // The file exists once the first step is complete. The next step begins after a rest.
    while !folder.path("card.json").exists() && measuring.try_wait().expect("the process runs").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    server.kill().expect("the process runs");
    server.wait().expect("the process ends");
    let mut message = String::new();
    measuring.stderr.take().expect("the stream is piped").read_to_string(&mut message).expect("text");
    assert_eq!(measuring.wait().expect("the process ends").code(), Some(1), "{message}");
    assert!(message.contains("the device disappeared during"), "{message}");
    assert!(steps(&measured(&folder, "card.json")).next().is_some(), "{message}");
}

/// The test checks only the requests that the server saw: the structure that the probe finds depends on the machine.
#[test]
fn a_probe_without_permission_reads_only() {
    let folder = Folder::new("probe-read");
    let line = format!("{} probe \"$uri\" --format json --to probe.json", env!("CARGO_BIN_EXE_flashlab"));
    let printed = with(&folder, &["memory:size=64M+log:to=requests"], &line);
    let log = requests(&folder);
    let is_read = |line: &str| matches!(line.split(' ').nth(1), Some("read" | "extents"));
    assert!(log.lines().count() > 1000 && log.lines().all(is_read), "{log}");
    let printed: Value = serde_json::from_str(&printed).expect("nothing but JSON");
    assert_eq!(printed, measured(&folder, "probe.json"));
    assert_eq!((&printed["capacity"], &printed["written_bytes"]), (&(64 << 20).into(), &0.into()));
    assert_eq!(printed["findings"].as_array().map(Vec::len), Some(17));
}
