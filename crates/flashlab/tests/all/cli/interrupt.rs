//! Progress and Ctrl-C during long runs.

use super::folder::Folder;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SIGINT: i32 = 2;
const ENDLESS: &str = "--name=a --rw=randread --bs=4k --direct=1 --size=1g --time_based --runtime=300d";

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
    assert!(sent.success());
}

/// Starts the program with pipes, and returns once it has printed its first progress line with simulated time.
fn run_until_progress(folder: &Folder, line: &str) -> (Child, String) {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let mut command = folder.command(&arguments);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let lines = BufReader::new(child.stderr.as_mut().expect("the stream is piped")).lines();
    let mut lines = lines.map(|line| line.expect("the output is text"));
    let progress =
        lines.find(|line| line.contains(" simulated")).expect("the run goes on until it is stopped");
    (child, progress)
}

#[test]
fn a_stopped_bench_in_a_pipe_prints_progress_and_its_results_so_far() {
    let folder = Folder::new("stopped-bench");
    let log = "--write_iops_log=log --log_avg_msec=1000000";
    let jobs = format!("{ENDLESS} {log} --name=later --stonewall --rw=write --bs=1m --size=1m --direct=1");
    let line = format!("bench sd/kingston {jobs} --output-format=normal,json");
    let (mut child, progress) = run_until_progress(&folder, &line);
    assert!(progress.starts_with("flashlab: bench sd/kingston: "), "{progress}");
    assert!(progress.contains(" %, "), "{progress}");
    interrupt(&child);
    let mut text = String::new();
    child
        .stdout
        .as_mut()
        .expect("the stream is piped")
        .read_to_string(&mut text)
        .expect("the output is text");
    assert_eq!(child.wait().expect("the process ends").code(), Some(128), "as fio's");
    let (normal, json) = text.split_at(text.find("\n{").expect("JSON behind the text"));
    assert!(normal.starts_with("\nflashlab: stopped by a signal after "), "{normal}");
    assert!(normal.contains("\na: (groupid=0, jobs=1): err= 0"), "{normal}");
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(json["flashlab"]["incomplete"], true);
    let read = &json["jobs"][0]["read"];
    let (ios, runtime_ms) =
        (read["total_ios"].as_f64().expect("a count"), read["runtime"].as_f64().expect("ms"));
    assert!(ios > 0.0 && runtime_ms > 0.0, "{read}");
    let rate = read["iops"].as_f64().expect("a rate");
    assert!((ios / runtime_ms * 1e3 / rate - 1.0).abs() < 0.01, "{read}");
    assert_eq!(json["jobs"][1]["write"]["total_ios"], 0);
    assert!(folder.names().contains(&"log_iops.1.log".to_owned()), "{:?}", folder.names());
}

#[test]
fn the_first_ctrl_c_ends_a_comparison_at_once_and_leaves_no_file() {
    let folder = Folder::new("interrupt");
    let line = format!("compare sd/k* {ENDLESS} --output=out");
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let mut command = folder.command(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let status = child.wait().expect("the process ends");
    // Before the program installs its handler, SIGINT ends the process; shells also report this end as 130.
    assert!(status.code() == Some(130) || status.signal() == Some(SIGINT), "{line}: {status}");
    assert_eq!(folder.names(), [""; 0], "{line}");
}
