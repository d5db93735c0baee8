//! The promise that a seed fixes the digest, in both builds and from one day to the next; and that another seed is
//! another run.

use crate::Outcome;
use std::process::Command;

/// Runs every experiment and compares digests. That a release build gives the golden digest, `golden-check` says.
pub(crate) fn check() -> Outcome {
    let experiments = flashlab("release", &["experiments", "--names"])?;
    for experiment in experiments.lines() {
        let golden = golden_digest(experiment)?;
        let debug = digest("dev", experiment, "1")?;
        if debug != golden {
            return Err(format!(
                "{experiment}: the golden digest is {golden}, but a debug build gives {debug}"
            ));
        }
        if digest("release", experiment, "2")? == golden {
            return Err(format!("{experiment}: seed 2 gives the digest of seed 1"));
        }
        eprintln!("== {experiment}: digest {golden} in a debug build too; another with another seed");
    }
    Ok(())
}

/// The digest that the first line of an experiment's golden table names.
fn golden_digest(experiment: &str) -> Result<String, String> {
    let path = format!("experiments/{experiment}/golden.txt");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let digest = text.split_once("digest ").and_then(|(_, rest)| rest.get(..16));
    digest.map(String::from).ok_or_else(|| format!("{path}: no digest in its first line"))
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
