//! Destinations of results: standard output, files, device files, and pipes whose reader has closed them.

use super::folder::{Folder, run_command};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::process::{Command, Stdio};

const JOB: &str = "--name=a --rw=write --bs=4k --size=16k --direct=1";

#[test]
fn json_output_contains_nothing_else() {
    let folder = Folder::new("json");
    let fio = folder.line(&format!("bench sd/kingston {JOB} --thread --output-format=json"));
    let parsed: serde_json::Value = serde_json::from_str(&fio.out).expect("nothing but JSON");
    assert_eq!(parsed["jobs"][0]["write"]["total_ios"], 4);
    assert_eq!(parsed["jobs"][0]["flashlab"]["without_effect"][0], "thread");
    let run = folder.line("run at91 --format json --no-html");
    let parsed: serde_json::Value = serde_json::from_str(&run.out).expect("nothing but JSON");
    assert_eq!((parsed["experiment"].as_str(), run.err.as_str()), (Some("at91"), ""));
    assert!(folder.line("run at91 --format csv --no-html").succeeded().lines().count() > 16);
    assert_eq!(folder.names(), [""; 0]);
    folder.line("run at91 --format json --no-html --csv figures").succeeded();
    assert_eq!(folder.names(), ["figures"]);
}

#[test]
fn a_column_alone_has_the_cells_of_a_run_of_all_columns() {
    let folder = Folder::new("column");
    let all = folder.line("run at91 --format csv --no-html").succeeded();
    let expected: Vec<&str> = all.lines().filter(|line| !line.contains(",sandisk-512mb,")).collect();
    let part = folder.line("run at91 --column sandisk-2gb --format csv --no-html").succeeded();
    assert_eq!(part.lines().collect::<Vec<_>>(), expected);
    // Bounds on columns that do not run are left out. The limit of parameters also holds for the remaining
    // columns.
    let part = folder.line("run at91 --column sandisk-512mb --format json --no-html").succeeded();
    let results: serde_json::Value = serde_json::from_str(&part).expect("nothing but JSON");
    let bounds = results["bounds"].as_array().expect("a list");
    assert!(bounds.len() > 1 && bounds.iter().all(|bound| bound["held"] == true), "{bounds:?}");
    let names = bounds.iter().flat_map(|bound| bound["cells"].as_array().expect("a list"));
    assert!(names.clone().count() > 0);
    assert!(names.into_iter().all(|name| name.as_str().is_some_and(|n| n.ends_with("/sandisk-512mb"))));
}

#[test]
fn a_column_that_cannot_run_alone_is_refused() {
    let folder = Folder::new("no-column");
    let run = folder.line("run at91 --column sandisk-2g --no-html");
    assert_eq!(run.code, Some(2), "{}", run.err);
    let expected = "at91 has no column sandisk-2g; its columns are sandisk-512mb, sandisk-2gb; did you mean sandisk-2gb?";
    assert!(run.err.contains(expected), "{}", run.err);
    let run = folder.line("run rootfs --column kingston --no-html");
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("rootfs compares its columns with one another"), "{}", run.err);
}

#[test]
fn pipe_output_has_no_colours_and_no_animation() {
    let folder = Folder::new("pipe");
    for line in [
        "run at91 --no-html",
        "devices",
        "experiments",
        "explain sd/kingston",
        "compare sd/* --name=a --direct=1 --rw=write --size=64k",
    ] {
        let output = folder.line(line);
        assert!(!output.out.contains('\x1b') && !output.err.contains(['\x1b', '\r']), "{line}");
        output.succeeded();
    }
}

#[test]
fn the_version_names_the_commit_and_the_features() {
    let folder = Folder::new("version");
    let short = folder.line("-V").succeeded();
    assert_eq!(short, format!("flashlab {}\n", env!("CARGO_PKG_VERSION")));
    let long = folder.line("--version").succeeded();
    let lines: Vec<&str> = long.lines().collect();
    let [version, commit, listed] = lines[..] else { panic!("{long}") };
    assert_eq!(version, short.trim_end());
    assert!(commit.strip_prefix("commit: ").is_some_and(|commit| !commit.is_empty()), "{long}");
    let listed: Vec<&str> = listed.strip_prefix("features: ").expect(&long).split(", ").collect();
    assert_eq!(listed.contains(&"serve"), cfg!(feature = "serve"), "{long}");
    if cfg!(feature = "full") {
        let manifest = include_str!("../../../Cargo.toml");
        let table = manifest.split("\n[features]\n").nth(1).and_then(|rest| rest.split("\n[").next());
        let names = table.expect("a table").lines().filter_map(|line| Some(line.split_once(" = [")?.0));
        let mut features: Vec<&str> = names.filter(|name| !["default", "full"].contains(name)).collect();
        features.sort_unstable();
        assert_eq!(listed, features);
    }
}

#[test]
fn a_closed_pipe_ends_the_program_without_a_message() {
    let folder = Folder::new("closed");
    for line in ["run at91 --no-html --format json", "explain sd/kingston", "--help", "--version"] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let mut command = folder.command(&arguments);
        // The reader is closed before the program starts, so that the program cannot finish its output first.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut child = command.stdout(writer).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut err = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        let status = child.wait().expect("the process ends");
        assert_eq!((status.code(), err.as_str()), (Some(1), ""), "{line}");
    }
    folder.put("a.json", folder.line("run at91 --no-html --format json").succeeded());
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    // An error of diff has the code 2, but a closed pipe is none.
    let status =
        folder.command(&["diff", "a.json", "a.json"]).stdout(writer).status().expect("the program starts");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_full_disk_fails_and_leaves_nothing() {
    let folder = Folder::new("full");
    for line in
        ["run at91 --html /dev/full".to_owned(), format!("bench sd/kingston {JOB} --output=/dev/full")]
    {
        let err = folder.line(&line).failed();
        assert!(err.contains("flashlab: /dev/full: No space left on device"), "{err}");
    }
    let device = std::fs::metadata("/dev/full").expect("every Linux has /dev/full");
    assert!(device.file_type().is_char_device(), "the device was replaced");
    let mut command = folder.command(&["run", "at91", "--no-html"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("writable");
    let err = run_command(command.stdout(full)).failed();
    assert!(err.contains("standard output: No space left on device"), "{err}");
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn commands_report_a_full_standard_output() {
    let folder = Folder::new("full-output");
    let lines = [
        "--help",
        "--version",
        "help",
        "bench --help",
        "help trace bring-up",
        "devices",
        "experiments",
        "experiments --names",
        "explain",
        "explain bs",
        "explain sd/kingston",
        "compare sd/kingston --name=a --direct=1 --rw=write --size=64k",
        "trace bring-up sd/kingston",
        "trace bring-up sd/kingston --format json",
        "age sd/kingston --name=a --direct=1 --rw=write --size=64k --to used",
    ];
    for line in lines {
        let mut command = folder.command(&line.split(' ').collect::<Vec<_>>());
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("writable");
        let err = run_command(command.stdout(full)).failed();
        assert!(err.contains("standard output: No space left on device"), "{line}: {err}");
    }
    assert_eq!(folder.names(), ["used"]);
}

#[test]
fn a_write_above_the_file_size_limit_fails_and_names_the_file() {
    let folder = Folder::new("file-limit");
    for (line, name) in [
        ("run at91 --html page.html", "page.html"),
        ("bench sd/kingston --name=a --direct=1 --rw=write --size=64k --output=text", "text"),
        ("age sd/kingston --name=a --direct=1 --rw=write --size=64k --to used", "used"),
    ] {
        let script = format!("ulimit -f 1; exec \"$0\" {line}");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_flashlab")]).current_dir(folder.path(""));
        let err = run_command(&mut command).failed();
        assert!(err.contains(&format!("flashlab: {name}: File too large")), "{line}: {err}");
        assert_eq!(folder.names(), [""; 0], "{line}");
    }
}

#[test]
fn a_failed_allocation_ends_the_program_with_a_message() {
    let folder = Folder::new("memory-limit");
    let script = "ulimit -v 150000; exec \"$0\" bench nvme/p32a80 --name=a --direct=1 --rw=randwrite --number_ios=9 --output=text";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_flashlab")]).current_dir(folder.path(""));
    let err = run_command(&mut command).failed();
    assert!(err.contains("flashlab: out of memory: the system denied an allocation of"), "{err}");
    assert_eq!(folder.names(), [""; 0]);
    let err = folder.line("serve memory:size=102400GiB").refused();
    assert!(err.contains("a memory device holds at most 16384GiB"), "{err}");
}

/// Runs in a mount namespace of its own, which needs root. Without root, the test prints that it was skipped.
#[test]
fn a_page_that_does_not_fit_leaves_the_old_page() {
    let folder = Folder::new("small-disk");
    let script = "mount -t tmpfs -o size=32k tmpfs . && cd . && cd \"$PWD\" && echo old > page.html && \
                  { \"$0\" run at91 --html page.html > /dev/null; echo \"code $?\"; ls; cat page.html; }";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_flashlab")])
        .current_dir(folder.path(""));
    match command.output() {
        Ok(output) if output.stdout.starts_with(b"code") => {
            assert_eq!(String::from_utf8_lossy(&output.stdout), "code 1\npage.html\nold\n");
            let err = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(err.contains("flashlab: page.html: No space left on device"), "{err}");
        }
        other => eprintln!("left out, it needs root and unshare: {other:?}"),
    }
}

#[test]
fn a_file_is_replaced_as_a_whole_and_keeps_its_permissions_and_links() {
    let folder = Folder::new("replaced");
    folder.put("real", "old");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.path("real"), private).expect("the test owns the path");
    std::os::unix::fs::symlink("real", folder.path("link")).expect("a free name");
    folder.line(&format!("bench sd/kingston {JOB} --output=link")).succeeded();
    assert!(folder.read("real").starts_with("a: (g=0): rw=write"));
    assert!(folder.path("link").is_symlink());
    let mode = std::fs::metadata(folder.path("real")).expect("the path exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(folder.names(), ["link", "real"]);
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let folder = Folder::new("unwritable");
    folder.put("folder/x", "");
    for path in ["nowhere/x", "folder"] {
        let output = folder.line(&format!("bench sd/kingston {JOB} --output={path}"));
        assert!(output.refused().starts_with(&format!("flashlab: {path}: ")));
        let output = folder.line(&format!("run at91 --html {path}"));
        assert!(output.refused().starts_with(&format!("flashlab: {path}: ")));
    }
    let logs = folder.line(&format!("bench sd/kingston {JOB} --write_bw_log=nowhere/x")).refused();
    assert!(logs.starts_with("flashlab: nowhere/x_bw.1.log: "), "{logs}");
    assert_eq!(folder.names(), ["folder"]);
}

#[test]
fn outputs_are_checked_before_anything_runs_and_not_truncated() {
    let folder = Folder::new("checked");
    folder.put("folder/x", "").put("file", "old");
    // A job that runs for 300 days of simulated time.
    let endless = "--name=a --rw=randread --bs=4k --direct=1 --size=1m --time_based --runtime=300d";
    for (line, says) in [
        (format!("bench sd/kingston {endless} --output=nowhere/x"), "no folder nowhere; create it"),
        (format!("bench sd/kingston {endless} --output=folder"), "it is a folder"),
        (format!("bench sd/kingston {endless} --output=/proc/x"), "accepts no new file"),
        (format!("bench sd/kingston {endless} --output=file/x"), "accepts no new file"),
        (format!("bench sd/kingston {endless} --write_iolog=nowhere/x"), "no folder nowhere"),
        (format!("compare sd/* {endless} --output=nowhere/x"), "no folder nowhere"),
        (format!("age sd/kingston {endless} --to nowhere/x"), "no folder nowhere"),
        (format!("age sd/kingston {endless} --to folder"), "it is a folder"),
        ("run hmb --html nowhere/x".to_owned(), "no folder nowhere"),
        ("run hmb --no-html --csv file".to_owned(), "it is not a folder"),
        ("run hmb --no-html --csv /proc/x/y".to_owned(), "accepts no new file"),
        ("run block-paths --html nowhere/x".to_owned(), "no folder nowhere"),
        ("trace bring-up sd/kingston --html folder".to_owned(), "it is a folder"),
        (format!("bench --html x sd/kingston {endless} --output=x"), "x is named for two outputs"),
        (format!("compare --html x sd/kingston {endless} --output=x"), "x is named for two outputs"),
        (format!("age sd/kingston {endless} --to x --output=x"), "x is named for two outputs"),
        (format!("age sd/kingston {endless} --to -"), "cannot go to standard output"),
    ] {
        let err = folder.line(&line).refused();
        assert!(err.contains(says), "{line}: {err}");
    }
    assert_eq!(folder.names(), ["file", "folder"]);
    let err = folder.line(&format!("bench sd/kingston {JOB} --bs=1000 --output=file")).refused();
    assert!(err.contains("not a multiple"), "{err}");
    assert_eq!(folder.read("file"), "old");
}

#[test]
fn a_page_is_written_to_the_given_file_or_the_current_folder() {
    let folder = Folder::new("page");
    let err = folder.line("run at91").err;
    assert_eq!(err, "flashlab: the page is at91.html\n");
    folder.line("run at91 --html other.html").succeeded();
    assert_eq!(folder.names(), ["at91.html", "other.html"]);
    let other = folder.read("other.html");
    assert!(other.contains(">flashlab run at91 --html other.html<"), "the page lacks the command as typed");
    assert_eq!(folder.read("at91.html"), other.replace("at91 --html other.html<", "at91<"));
    assert!(folder.line("run at91 --html x --no-html").refused().contains("--no-html"));
}
