//! Builds all tests with one command, so that every crate is built once, and runs the test binaries, two at a time on two
//! processors.

use crate::budget::{Times, processor_budget};
use crate::side_by_side::Job;
use crate::{EXHAUSTIVE, FULL, Outcome, Scope, cargo, cargo_command};
use serde_json::Value;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A test binary or an example of the workspace.
pub(crate) struct Binary {
    /// Folder of its package.
    pub(crate) folder: PathBuf,
    /// Option of cargo that selects it.
    pub(crate) target: String,
    /// Path of the binary.
    pub(crate) file: PathBuf,
}

/// Runs all tests and examples of the workspace, in the full form with all cases of the exhaustive suites.
pub(crate) fn check(scope: Scope, times: &mut Times) -> Outcome {
    let mut messages = Vec::new();
    times.measure("build of the tests", || {
        messages = messages_of_build()?;
        Ok(())
    })?;
    let mut jobs: Vec<Job> = test_binaries(&messages)?.iter().map(|binary| job(binary, scope)).collect();
    if scope == Scope::Quick {
        jobs.push(fit_check(&messages)?);
    }
    // The part with the largest budget starts first, so that no long part remains at the end beside an idle
    // processor.
    jobs.sort_by_key(|job| Reverse(processor_budget(&job.part)));
    times.measure_jobs("tests", jobs)?;
    times.measure("examples in documents", || {
        cargo(&["test", "--workspace", FULL[0], FULL[1], "--locked", "--doc"])
    })?;
    times.measure("examples", || run_examples(&messages))
}

/// Returns the run of a test binary.
fn job(binary: &Binary, scope: Scope) -> Job {
    let crate_name = binary.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // As under `cargo test`: the working directory is the package's, and tests find cargo and the manifest.
    let mut command = Command::new(&binary.file);
    command.current_dir(&binary.folder);
    command.env("CARGO", env!("CARGO")).env("CARGO_MANIFEST_DIR", &binary.folder);
    // Many tests wait for guests, clients and timers, so more of them run at a time than there are processors.
    let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    command.env("RUST_TEST_THREADS", threads.to_string());
    if scope == Scope::Full {
        command.env(EXHAUSTIVE, "1");
    }
    let repeat = format!("cargo test -p {} {}", package(&crate_name), binary.target);
    let name = format!("{crate_name}{}", binary.target.replace("--", "-").replace(' ', "-"));
    Job { part: crate_name, name, command, repeat }
}

/// Returns the run of the closed loop of `fit` with one card, in the build of the tests.
fn fit_check(messages: &[Value]) -> Result<Job, String> {
    let program = messages.iter().find(|message| {
        let target = &message["target"];
        target["kind"][0] == "example" && target["name"] == "fit_check" && message["profile"]["test"] == false
    });
    let file = program.and_then(|message| message["executable"].as_str());
    let mut command = Command::new(file.ok_or("the build names no example fit_check")?);
    command.args(["--cards", "1"]);
    let repeat = "cargo run -p flashlab-lab --example fit_check -- --cards 1".to_owned();
    Ok(Job { part: "fit-check".to_owned(), name: "fit-check".to_owned(), command, repeat })
}

/// Examples that need arguments or privileges, or run for long; `fit_check` is a part of CI of its own.
const NOT_RUN: &[&str] = &["boot", "buffered", "closed_loop", "fit_check", "python_peer", "stalled"];

/// Runs the examples of all crates.
fn run_examples(messages: &[Value]) -> Outcome {
    let mut examples: Vec<Binary> = messages.iter().filter_map(example).collect();
    examples.sort_by(|a, b| (&a.folder, &a.target).cmp(&(&b.folder, &b.target)));
    for example in examples {
        let mut command = Command::new(&example.file);
        let output = command.current_dir(&example.folder).output();
        let output = output.map_err(|error| format!("{}: {error}", example.target))?;
        if !output.status.success() {
            let [stdout, stderr] =
                [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            return Err(format!("{}: {}\n{stdout}{stderr}", example.target, output.status));
        }
        eprintln!("== {}: passed", example.target);
    }
    Ok(())
}

/// Returns the test binaries that the messages of a build announce, sorted by crate.
pub(crate) fn test_binaries(messages: &[Value]) -> Result<Vec<Binary>, String> {
    let mut binaries: Vec<Binary> = messages.iter().filter_map(binary).collect();
    binaries.sort_by(|a, b| (&a.folder, &a.target).cmp(&(&b.folder, &b.target)));
    if binaries.is_empty() { Err("the build names no test binary".to_owned()) } else { Ok(binaries) }
}

/// Builds all tests. Returns the messages of cargo.
fn messages_of_build() -> Result<Vec<Value>, String> {
    messages(&["test", "--workspace", FULL[0], FULL[1], "--locked", "--no-run"])
}

/// Runs a build. Returns the messages of cargo.
pub(crate) fn messages(arguments: &[&str]) -> Result<Vec<Value>, String> {
    let mut command = cargo_command();
    command.args(arguments).arg("--message-format=json-render-diagnostics");
    eprintln!("== {}", format!("{command:?}").replace('"', ""));
    let output = command.stderr(Stdio::inherit()).output().map_err(|e| format!("{command:?}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status));
    }
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(|e| format!("{command:?}: {e}"))).collect()
}

/// Returns the example that a message of cargo announces; `None` if it announces none, or one that CI does not run.
fn example(message: &Value) -> Option<Binary> {
    let (target, name) = (&message["target"], message["target"]["name"].as_str()?);
    let runs =
        target["kind"][0] == "example" && message["profile"]["test"] == false && !NOT_RUN.contains(&name);
    runs.then(|| executable(message, format!("--example {name}"))).flatten()
}

/// Returns the test binary that a message of cargo announces; `None` if it announces none.
fn binary(message: &Value) -> Option<Binary> {
    if message["profile"]["test"] != true {
        return None;
    }
    let target = &message["target"];
    let option = match (target["kind"][0].as_str()?, target["name"].as_str()?) {
        ("test", name) => format!("--test {name}"),
        ("bin", name) => format!("--bin {name}"),
        _ => "--lib".to_owned(),
    };
    executable(message, option)
}

/// Returns the executable of a message of cargo with the option that selects it, if the message names one.
fn executable(message: &Value, target: String) -> Option<Binary> {
    Some(Binary {
        folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        target,
        file: PathBuf::from(message["executable"].as_str()?),
    })
}

fn package(crate_name: &str) -> String {
    match crate_name {
        "flashlab" | "xtask" => crate_name.to_owned(),
        _ => format!("flashlab-{crate_name}"),
    }
}
