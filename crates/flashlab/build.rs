//! Records the commit and the features of the build, which `flashlab --version` prints.
//!
//! The commit comes from the variable `FLASHLAB_COMMIT`, for builds outside a checkout, or from git. A debug build does
//! not ask git, because each commit would then force a rebuild of the program and its tests.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FLASHLAB_COMMIT");
    let commit = commit();
    println!("cargo::rustc-env=FLASHLAB_BUILD_COMMIT={}", commit.as_deref().unwrap_or_else(|reason| reason));
    // Results name the commit only if it is known.
    println!("cargo::rustc-env=FLASHLAB_BUILD_KNOWN_COMMIT={}", commit.as_deref().unwrap_or_default());
    println!("cargo::rustc-env=FLASHLAB_BUILD_FEATURES={}", features());
}

/// Returns the commit, or the reason why it is not known.
fn commit() -> Result<String, &'static str> {
    match std::env::var("FLASHLAB_COMMIT") {
        Ok(commit) if !commit.is_empty() => Ok(commit),
        _ if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") => {
            Err("not recorded in a debug build")
        }
        _ => from_git().ok_or("unknown, because the build had no git checkout"),
    }
}

/// Returns the commit of the checkout, and "with changes" if files differ from it.
fn from_git() -> Option<String> {
    let commit = git(&["show", "--no-patch", "--format=%h %cs", "--abbrev=12", "HEAD"])?;
    // The log changes with each commit and checkout, the index when changes are staged.
    for file in ["logs/HEAD", "index"] {
        println!(
            "cargo::rerun-if-changed={}",
            git(&["rev-parse", "--path-format=absolute", "--git-path", file])?
        );
    }
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changes.is_empty() { commit } else { format!("{commit}, with changes") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Returns the cargo features of the build, sorted, without those that only group others.
fn features() -> String {
    let mut features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-")))
        .filter(|name| !matches!(name.as_str(), "default" | "full"))
        .collect();
    features.sort();
    if features.is_empty() { "none".to_owned() } else { features.join(", ") }
}
