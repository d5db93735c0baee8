//! `flashlab measure`: virtual devices, files, directories, refusals and resumption.

use super::folder::Folder;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

fn json(folder: &Folder, name: &str) -> Value {
    serde_json::from_str(&folder.read(name)).expect("JSON")
}

fn steps(measured: &Value) -> Vec<String> {
    let steps = measured["steps"].as_array().expect("a list");
    steps.iter().map(|step| step["name"].as_str().expect("a name").to_owned()).collect()
}

/// Returns true if the folder's filesystem has no direct I/O, without which no file is measured.
fn lacks_direct_io(err: &str) -> bool {
    let lacks = err.contains("direct I/O");
    if lacks {
        println!("skipped: no direct I/O here: {err}");
    }
    lacks
}

#[test]
fn a_virtual_device_gives_the_same_measurement_each_time() {
    let folder = Folder::new("measure-virtual");
    for name in ["a.json", "b.json"] {
        let run = folder.line(&format!("measure sd/kingston --plan quick --to {name}"));
        assert_eq!(run.code, Some(0), "{}", run.err);
        assert!(run.err.contains("writes up to 386 MiB, which is "), "{}", run.err);
    }
    assert_eq!(folder.read("a.json"), folder.read("b.json"));
    let measured = json(&folder, "a.json");
    assert_eq!((measured["plan"].as_str(), measured["engine"].as_str()), (Some("quick"), Some("simulated")));
    assert_eq!(measured["host"], "raspberry-pi-4");
    let names = steps(&measured);
    assert_eq!((names.len(), names[0].as_str()), (31, "discard"));
    for step in measured["steps"].as_array().expect("a list").iter().skip(1) {
        assert!(!step["observations"].as_array().expect("a list").is_empty(), "{step}");
        assert!(step.get("marks").is_none(), "{step}");
    }
}

#[test]
fn a_virtual_device_names_its_own_host() {
    let folder = Folder::new("measure-virtual-host");
    let other = folder.line("measure sd/kingston:host=raspberry-pi-3 --plan quick --to card.json");
    assert_eq!(other.code, Some(0), "{}", other.err);
    assert_eq!(json(&folder, "card.json")["host"], "raspberry-pi-3");
    let wrong = folder.line("measure sd/kingston --plan quick --host raspberry-pi-3 --to wrong.json");
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    assert!(wrong.err.contains("set it as in sd/kingston:host=raspberry-pi-3"), "{}", wrong.err);
    assert!(!folder.path("wrong.json").exists());
}

/// Checks for a whole run that every byte outside the measurement's own files stays as it is.
#[test]
fn without_permission_nothing_but_its_own_file_changes() {
    let folder = Folder::new("measure-file");
    let bytes: Vec<u8> = (0..65_u32 << 20).map(|n| (n % 251) as u8).collect();
    folder.put("disk", &bytes).put("card/precious", "precious");
    let run = folder.line("measure disk --plan quick --to card.json");
    if lacks_direct_io(&run.err) {
        return;
    }
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("plan quick-read only reads"), "{}", run.err);
    assert!(std::fs::read(folder.path("disk")).expect("the file is there") == bytes, "the file has changed");
    assert_eq!(folder.names(), ["card", "card.json", "disk"]);
    let measured = json(&folder, "card.json");
    assert!(steps(&measured).iter().all(|name| name.starts_with("read-")), "{measured}");
    assert_eq!(folder.read("card/precious"), "precious");
}

#[test]
fn an_interrupted_measurement_continues_where_it_ended() {
    let folder = Folder::new("measure-resume");
    folder.put("disk", vec![7; 65 << 20]);
    let line = "measure disk --plan quick --to card.json";
    let first = folder.line(line);
    if lacks_direct_io(&first.err) {
        return;
    }
    let mut cut = json(&folder, "card.json");
    let all = steps(&cut);
    // Ctrl-C in the third step leaves this state.
    cut["steps"].as_array_mut().expect("a list").truncate(3);
    cut["steps"][2]["marks"] = serde_json::json!(["incomplete"]);
    cut["steps"][0]["notes"] = serde_json::json!(["of the first run"]);
    folder.put("card.json", cut.to_string());
    let second = folder.line(line);
    assert_eq!(second.code, Some(0), "{}", second.err);
    assert!(second.err.contains("2 of 9 steps are done already"), "{}", second.err);
    let done = json(&folder, "card.json");
    assert_eq!(steps(&done), all);
    assert_eq!(done["steps"][0]["notes"][0], "of the first run");
    assert!(done["steps"][2].get("marks").is_none());
}

/// Starts a measurement, and sends SIGINT once `file` contains `steps` steps. Returns standard error.
fn interrupted_after(folder: &Folder, line: &str, file: &str, steps: usize) -> String {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let mut child = folder.command(&arguments).stderr(Stdio::piped()).spawn().expect("the program starts");
    let is_reached = || {
        let text = std::fs::read_to_string(folder.path(file)).unwrap_or_default();
        serde_json::from_str(&text).is_ok_and(|measured: Value| self::steps(&measured).len() >= steps)
    };
    while child.try_wait().expect("the process is our child").is_none() && !is_reached() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    String::from_utf8_lossy(&child.wait_with_output().expect("the process ends").stderr).into_owned()
}

#[test]
fn a_measurement_of_a_directory_continues_only_with_its_own_file_on_its_own_filesystem() {
    let folder = Folder::new("measure-resume-directory");
    folder.put("card/precious", "precious");
    let line = "measure card --plan quick --to card.json";
    let own_file = folder.path("card/flashlab-measure.tmp");
    let first = interrupted_after(&folder, line, "card.json", 1);
    if lacks_direct_io(&first) {
        return;
    }
    assert!(first.contains("card/flashlab-measure.tmp is kept"), "{first}");
    let stopped = folder.read("card.json");

    folder.put("card.json", stopped.replace("\"filesystem_id\": \"", "\"filesystem_id\": \"other "));
    let other = folder.line(line).refused();
    assert!(other.contains("filesystem at card, whose filesystem's identity was other "), "{other}");
    folder.put("card.json", &stopped);

    let second = interrupted_after(&folder, line, "card.json", 3);
    assert!(second.contains(" of 30 steps are done already"), "{second}");
    assert!(steps(&json(&folder, "card.json")).len() >= 3, "{second}");

    let stopped = folder.read("card.json");
    std::fs::remove_file(&own_file).expect("the file is kept");
    let gone = folder.line(line).refused();
    assert!(gone.contains("the file that they wrote, card/flashlab-measure.tmp, is gone"), "{gone}");
    assert!(gone.contains("remove the results to start anew"), "{gone}");
    assert_eq!(folder.read("card.json"), stopped);
    assert_eq!(folder.names(), ["card", "card.json"]);
    assert!(!own_file.exists(), "the file was created again");
    assert_eq!(folder.read("card/precious"), "precious");
}

#[test]
fn results_of_another_target_are_not_overwritten() {
    let folder = Folder::new("measure-other");
    folder.put("notes.txt", "precious").put("results.json", "{\"cells\": []}");
    let first = folder.line("measure sd/kingston --plan quick --to card.json");
    assert_eq!(first.code, Some(0), "{}", first.err);
    let card = folder.read("card.json");
    for (line, reason) in [
        ("measure sd/suneast --plan quick --to card.json", "it contains a measurement of sd/kingston"),
        ("measure sd/kingston --plan standard --to card.json", "by the plan quick"),
        ("measure sd/kingston --plan quick --to card.json", "it contains a complete measurement"),
        ("measure sd/kingston --to notes.txt", "it exists, and is no measurement to continue"),
        ("measure sd/kingston --to results.json", "it exists, and is no measurement to continue"),
    ] {
        let run = folder.line(line);
        assert_eq!(run.code, Some(2), "{line}: {}", run.err);
        assert!(run.err.contains(reason), "{line}: {}", run.err);
    }
    assert_eq!(folder.read("card.json"), card);
    assert_eq!(folder.read("notes.txt"), "precious");
}

#[test]
fn a_stopped_measurement_of_a_virtual_device_starts_anew_and_no_other_device_replaces_it() {
    let folder = Folder::new("measure-virtual-stopped");
    let line = "measure sd/kingston --plan quick --to card.json";
    assert_eq!(folder.line(line).code, Some(0));
    let whole = folder.read("card.json");
    let mut cut = json(&folder, "card.json");
    cut["steps"].as_array_mut().expect("a list").truncate(3);
    cut["steps"][2]["marks"] = serde_json::json!(["incomplete"]);
    folder.put("card.json", cut.to_string());
    let other = folder.line("measure sd/suneast --plan quick --to card.json");
    assert_eq!(other.code, Some(2), "{}", other.err);
    assert_eq!(folder.read("card.json"), cut.to_string(), "the results of sd/kingston changed");
    let again = folder.line(line);
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert!(!again.err.contains("done already"), "{}", again.err);
    assert_eq!(folder.read("card.json"), whole);
}

#[test]
fn unsuitable_targets_are_refused_with_a_reason() {
    let folder = Folder::new("measure-refused");
    folder.put("small", vec![0; 1 << 20]);
    for (line, code, reason) in [
        ("measure /dev/null --to x.json", 2, "neither a block device nor a file nor a directory"),
        ("measure /dev/no-such-disk --to x.json", 1, "No such file"),
        ("measure /proc --to x.json", 1, "/proc: no file can be created there"),
        ("measure ./no-such-file --to x.json", 1, "No such file"),
        ("probe ./no-such-file", 1, "No such file"),
        ("measure sd/no-such-card --to x.json", 2, "no device sd/no-such-card"),
        ("measure sd/kingston --host raspbery-pi-4 --to x.json", 2, "did you mean raspberry-pi-4?"),
        ("measure sd/kingston --plan thorough --to x.json", 2, "expected quick or standard"),
        ("measure sd/kingston", 2, "--to"),
    ] {
        let run = folder.line(line);
        assert_eq!(run.code, Some(code), "{line}: {}", run.err);
        assert!(run.err.contains(reason), "{line}: {}", run.err);
    }
    let run = folder.line("measure small --to x.json");
    assert!(lacks_direct_io(&run.err) || run.err.contains("a plan needs at least"), "{}", run.err);
    assert_eq!(folder.names(), ["small"]);
}

#[test]
fn a_users_file_with_the_name_of_the_measurements_own_file_is_kept() {
    let folder = Folder::new("measure-directory");
    folder.put("card/flashlab-measure.tmp", "of the user");
    let run = folder.line("measure card --plan quick --to x.json");
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert_eq!(folder.read("card/flashlab-measure.tmp"), "of the user");
}

#[test]
fn a_printed_plan_names_the_line_that_runs_it() {
    let folder = Folder::new("measure-print");
    let run = folder.line("measure --plan quick --print-fio");
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("It only reads."), "{}", run.out);
    assert!(!run.out.contains("write\n") && !run.out.contains("rw=trim"), "{}", run.out);
    let run = folder.line("measure --plan quick --destroy --print-fio /dev/mmcblk1");
    assert!(run.out.contains("DESTROYS") && run.out.contains("TARGET=/dev/mmcblk1"), "{}", run.out);
    folder.put("plan.fio", &run.out);
    // Flashlab's own parser also reads the plan.
    let parsed = folder
        .command(&["bench", "sd/kingston", "plan.fio", "--parse-only"])
        .env("TARGET", "/dev/mmcblk1")
        .output()
        .expect("the process runs");
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    let written = folder.line("measure --plan quick --print-fio --to other.fio").succeeded();
    let text = folder.read("other.fio");
    assert!(written.is_empty() && text.contains("fio --output-format=json --section=$s other.fio"), "{text}");
}

#[test]
fn a_file_is_probed_without_a_change_and_a_directory_is_refused() {
    let folder = Folder::new("probe-file");
    let bytes: Vec<u8> = (0..65_u32 << 20).map(|n| (n % 249) as u8).collect();
    folder.put("disk", &bytes).put("card/precious", "precious");
    let refused = folder.line("probe card").refused();
    assert!(refused.contains("card: it is a directory; probe a block device"), "{refused}");
    assert!(folder.line("probe /dev/none-such").failed().contains("/dev/none-such"));
    let run = folder.line("probe disk --to findings.json");
    if lacks_direct_io(&run.err) {
        return;
    }
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("The probe only read."), "{}", run.out);
    assert_eq!(json(&folder, "findings.json")["capacity"], 65 << 20);
    assert!(std::fs::read(folder.path("disk")).expect("the file is there") == bytes, "the file has changed");
}
