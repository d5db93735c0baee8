//! Live experiments: the scripts of `block-paths` run on a small experiment that this file defines.

use super::guest::kernel;
use super::tools::{Folder, are_installed, flashlab, skipped};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const ROWS: &str = r#"
title = "a small one"
kind = "live"
source = "nobody"
options = "--rw=randrw --bs=4k --ioengine=libaio --direct=1 --overwrite=1 --nrfiles=2 --time_based --group_reporting"
reference = "loop"
machine = { device = 384, size = 2, runtime = 1, repeats = 2 }
guest = { device = 384, size = 2, runtime = 1, repeats = 1, memory = 2048 }
row = [
    { name = "loop", path = "loop", jobs = 2, depth = 4 },
    { name = "lio", path = "lio-file", jobs = 2, depth = 4 },
    { name = "ours", path = "ours", sockets = 2, jobs = 2, depth = 4 },
    { name = "direct", path = "ours", how = "in-process", sockets = 2, depth = 4 },
]
"#;

/// Returns a folder with the small experiment and the repository's scripts.
fn small(name: &str) -> Folder {
    let folder = Folder::new(name);
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/block-paths");
    for script in ["paths.sh", "guest.sh"] {
        std::fs::copy(scripts.join(script), folder.path(script)).expect("the path exists");
    }
    let write = |name: &str, text: &str| std::fs::write(folder.path(name), text).expect("the disk has room");
    write("experiment.toml", ROWS);
    write("published.toml", "row = [{ name = \"loop\", read = 478, write = 478 }]\n");
    folder
}

/// Runs the experiment and returns the rows of its JSON.
fn run(folder: &Folder, options: &[&str]) -> Vec<Value> {
    let words = [&["run", ".", "--format", "json", "--html", "page.html"], options].concat();
    let output = flashlab(&words).current_dir(folder).output().expect("the binary is built");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("the output is JSON");
    assert!(json.get("digest").is_none() && json["live"].is_string());
    let page = std::fs::read_to_string(folder.path("page.html")).expect("the file was written");
    for row in json["rows"].as_array().expect("the JSON has rows") {
        let name = row["row"].as_str().expect("the row has a name");
        assert!(page.contains(name), "{name}");
    }
    json["rows"].as_array().expect("the JSON has rows").clone()
}

fn measured(row: &Value) -> bool {
    ["read", "write"].iter().all(|way| row["measured"][way].as_f64().is_some_and(|figure| figure > 0.0))
}

#[test]
fn rows_are_measured_or_have_a_reason() {
    if !are_installed(&["fio", "mkfs.xfs", "losetup", "nbdfuse", "fusermount3"]) {
        return;
    }
    let rows = run(&small("paths"), &[]);
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert!(measured(row) != row["missing"].is_string(), "{row}");
    }
    assert!(measured(&rows[3]), "nothing but this program is needed for {}", rows[3]);
    assert_eq!(rows[3]["attached"], "in-process");
    assert_eq!((&rows[0]["published_ratio"], &rows[3]["published_ratio"]), (&1.0.into(), &Value::Null));
    if measured(&rows[0]) {
        assert_eq!((&rows[0]["ratio"], rows[0]["runs"].as_array().map(Vec::len)), (&1.0.into(), Some(2)));
    }
}

#[test]
fn in_a_guest_every_path_is_measured() {
    if !are_installed(&["qemu-system-x86_64", "busybox", "fio", "mkfs.xfs", "losetup", "nbd-client"]) {
        return;
    }
    let Some((image, modules)) = kernel() else {
        skipped("no Debian kernel in target/guest or /boot");
        return;
    };
    let boot = image.parent().expect("a file has a folder");
    let folder = small("paths-guest");
    let links = format!(
        "mkdir -p 'a kernel/lib/modules' && ln -s {} 'a kernel/boot' && ln -s {} 'a kernel/lib/modules'",
        boot.canonicalize().expect("the path exists").display(),
        modules.canonicalize().expect("the path exists").display(),
    );
    let linked = std::process::Command::new("sh").args(["-c", &links]).current_dir(&folder).status();
    assert!(linked.is_ok_and(|status| status.success()));
    let rows = run(&folder, &["--guest", "--kernel", "a kernel"]);
    let attached: Vec<&str> = rows.iter().filter_map(|row| row["attached"].as_str()).collect();
    assert_eq!(attached, ["loop-over-tmpfs", "tcm_loop", "kernel-client", "in-process"], "{rows:?}");
    assert!(rows.iter().all(measured), "{rows:?}");
}

#[test]
fn a_missing_kernel_is_named_with_the_package_that_has_it() {
    let folder = small("paths-kernel");
    let run = |options: &[&str]| {
        let words = [&["run", ".", "--no-html"], options].concat();
        let output = flashlab(&words).current_dir(&folder).output().expect("the binary is built");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    std::fs::create_dir(folder.path("empty")).expect("a writable folder");
    let (code, printed) = run(&["--guest", "--kernel", "empty"]);
    assert_eq!(code, Some(1), "{printed}");
    let advice =
        "flashlab: the guest needs a kernel with its modules; on Debian: apt-get install linux-image-amd64, ";
    assert!(printed.starts_with(advice) && printed.ends_with("(there is none in empty)\n"), "{printed}");
    let (code, printed) = run(&["--kernel", "empty"]);
    assert!(code == Some(2) && printed.contains("--guest"), "{printed}");
}

#[test]
fn a_script_that_ends_early_reports_its_last_messages() {
    let folder = small("paths-early");
    let script = "for n in 1 2 3 4 5 6 7 8 9 10 11; do echo message $n >&2; done; sleep 2 & exit 3";
    std::fs::write(folder.path("paths.sh"), script).expect("the disk has room");
    let output =
        flashlab(&["run", ".", "--no-html"]).current_dir(&folder).output().expect("the binary is built");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("the script ended early (exit status: 3); its last messages:\n  message 2\n"));
    assert!(printed.ends_with("  message 11\n"), "{printed}");
}

#[test]
fn ctrl_c_stops_the_script_and_removes_its_private_folder() {
    let folder = small("paths-interrupt");
    // The script records its folder and the signal. The shell runs the trap once its foreground program has ended.
    let script = "trap 'echo stopped > stopped; exit 130' TERM\n\
                  stat -c %a \"${WORK%/*}\" > mode; echo \"$WORK\" > begun.new; mv begun.new begun\n\
                  while :; do sleep 600; done";
    std::fs::write(folder.path("paths.sh"), script).expect("the disk has room");
    let mut command = flashlab(&["run", ".", "--no-html"]);
    let mut child = command.current_dir(&folder).stderr(Stdio::null()).spawn().expect("the binary is built");
    while !folder.path("begun").exists() {
        assert!(
            child.try_wait().expect("the process is our child").is_none(),
            "the script ended before the signal"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = |name: &str| std::fs::read_to_string(folder.path(name)).expect("the script wrote this file");
    let work = PathBuf::from(read("begun").trim_end());
    assert!(work.is_dir());
    assert_eq!(read("mode"), "700\n", "another user cannot change the scripts, which may run as root");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
    assert!(sent.success());
    assert_eq!(child.wait().expect("the process ends").code(), Some(130));
    assert_eq!(read("stopped"), "stopped\n");
    assert!(!work.parent().expect("a folder").exists(), "{}", work.display());
}

#[test]
fn options_of_the_other_kind_of_experiment_are_refused() {
    let folder = small("paths-refused");
    let refused = |arguments: &[&str]| {
        let output = flashlab(arguments).current_dir(&folder).output().expect("the binary is built");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["run", "at91", "--guest"]).contains("--guest belongs to live experiments"));
    assert!(refused(&["run", ".", "--seeds", "2"]).contains("--seeds belongs to simulated experiments"));
    for (from, to, what) in [
        ("kind = \"live\"", "kind = \"live\"\nsize = 3", "unknown field"),
        ("path = \"lio-file\"", "path = \"lio file; reboot\"", "path must be one of"),
        ("name = \"lio\"", "name = \"loop\"", "exists twice"),
        ("reference = \"loop\"", "reference = \"lop\"", "there is no row"),
        ("runtime = 1, repeats = 2", "runtime = 0, repeats = 2", "at least 1"),
        (
            "jobs = 2, depth = 4 },\n    { name = \"direct\"",
            "depth = 4 },\n    { name = \"direct\"",
            "devices have jobs",
        ),
    ] {
        assert!(ROWS.contains(from), "{from}");
        std::fs::write(folder.path("experiment.toml"), ROWS.replacen(from, to, 1))
            .expect("the disk has room");
        let printed = refused(&["run", "."]);
        assert!(printed.contains(what), "{to}: {printed}");
    }
}
