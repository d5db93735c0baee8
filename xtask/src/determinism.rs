//! Checks the guarantee that a seed fixes the digest in debug and release builds; and that the page of each experiment
//! stays small. golden-check verifies that another seed gives another digest, because a release build runs faster.

use crate::{Outcome, tests_per_crate};
use std::path::Path;
use std::process::Command;

/// Maximum size of the page of an experiment, in bytes.
const PAGE_MAX: u64 = 3_000_000;

/// Page of the run that is checked; later runs replace it.
const PAGE: &str = "target/experiment.html";

/// Experiments that measure a real machine.
const LIVE: &[&str] = &["block-paths"];

/// Runs the experiments in a debug build, and compares their digests with those that golden-check has verified for a
/// release build.
pub(crate) fn check() -> Outcome {
    // The program from the build of the tests, so that cargo builds nothing a second time with other features.
    let program = tests_per_crate::command_under_test()?;
    let experiments = run(&program, &["experiments", "--names"])?;
    for experiment in experiments.lines().filter(|name| !LIVE.contains(name)) {
        let golden = golden(experiment)?;
        let debug = digest(&program, experiment)?;
        check_size(experiment)?;
        if debug != golden {
            return Err(format!(
                "{experiment}: the golden digest is {golden}, but a debug build gives {debug}"
            ));
        }
        eprintln!("== {experiment}: digest {golden} in both builds");
    }
    Ok(())
}

/// Returns the golden digest of an experiment at seed 1, which golden-check verifies for a release build.
fn golden(experiment: &str) -> Result<String, String> {
    let path = format!("experiments/{experiment}/golden.txt");
    let table = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let digest = table.split_once("digest ").and_then(|(_, rest)| rest.split(',').next());
    digest.map(String::from).ok_or_else(|| format!("{path}: contains no digest"))
}

/// Checks the size of the page of the last run.
fn check_size(experiment: &str) -> Outcome {
    let size = std::fs::metadata(PAGE).map_err(|e| format!("{PAGE}: {e}"))?.len();
    if size > PAGE_MAX {
        return Err(format!("{experiment}: its page has {size} bytes, more than {PAGE_MAX}"));
    }
    Ok(())
}

/// Runs the experiment at seed 1, which writes its page to [`PAGE`], and returns its digest.
fn digest(program: &Path, experiment: &str) -> Result<String, String> {
    let json = run(program, &["run", experiment, "--seed", "1", "--format", "json", "--html", PAGE])?;
    let line = json.lines().find_map(|line| line.trim().strip_prefix("\"digest\": \""));
    let digest = line.and_then(|rest| rest.split('"').next());
    digest.map(String::from).ok_or_else(|| format!("{experiment}: no digest in the output"))
}

/// Returns the output of the program. Exit status 1 (a missed bound) is accepted, because other tests check the bounds.
fn run(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if !matches!(output.status.code(), Some(0 | 1)) || output.stdout.is_empty() {
        return Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{command:?}: {e}"))
}
