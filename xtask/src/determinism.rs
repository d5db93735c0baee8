//! The promise that a seed fixes the digest, in both builds; and that another seed is another run.

use crate::Outcome;
use std::process::Command;

/// Experiments that take about a minute: golden-check has run them in a release build, and a debug build is held against that.
const LONG: &[&str] = &["endurance", "hmb", "wear"];

/// Experiments that measure a machine.
const LIVE: &[&str] = &["block-paths"];

/// Runs the experiments and compares digests.
pub(crate) fn check() -> Outcome {
    let experiments = flashlab("release", &["experiments", "--names"])?;
    for experiment in experiments.lines().filter(|name| !LIVE.contains(name)) {
        let first = golden(experiment)?;
        let mut runs = vec![("a debug build", digest("dev", experiment, "1")?)];
        if !LONG.contains(&experiment) {
            runs.push(("a release build", digest("release", experiment, "1")?));
            if digest("release", experiment, "2")? == first {
                return Err(format!("{experiment}: seed 2 gives the digest of seed 1"));
            }
        }
        if let Some((what, other)) = runs.iter().find(|(_, other)| *other != first) {
            return Err(format!("{experiment}: the golden digest is {first}, but {what} gives {other}"));
        }
        eprintln!("== {experiment}: digest {first} every time");
    }
    Ok(())
}

/// The digest of an experiment at seed 1, of which golden-check shows that a release build gives it.
fn golden(experiment: &str) -> Result<String, String> {
    let path = format!("experiments/{experiment}/golden.txt");
    let table = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let digest = table.split_once("digest ").and_then(|(_, rest)| rest.split(',').next());
    digest.map(String::from).ok_or_else(|| format!("{path}: no digest in it"))
}

fn digest(profile: &str, experiment: &str, seed: &str) -> Result<String, String> {
    let json = flashlab(profile, &["run", experiment, "--seed", seed, "--format", "json", "--no-html"])?;
    let line = json.lines().find_map(|line| line.trim().strip_prefix("\"digest\": \""));
    let digest = line.and_then(|rest| rest.split('"').next());
    digest.map(String::from).ok_or_else(|| format!("{experiment}: no digest in the output"))
}

/// What a command of the program prints. Exit status 1 (a bound missed) still prints; the tests judge bounds.
fn flashlab(profile: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["run", "--quiet", "--locked", "--package", "flashlab", "--profile", profile, "--"])
        .args(arguments);
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if !matches!(output.status.code(), Some(0 | 1)) || output.stdout.is_empty() {
        return Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{command:?}: {e}"))
}
