//! Checks of the repository that lints cannot perform.

use crate::Outcome;
use crate::{closed_forms, headless};
use std::fs;
use std::path::{Path, PathBuf};

/// The document with the table of the crates and their dependencies.
const ARCHITECTURE: &str = "docs/architecture.md";
/// The head of the table of dependencies.
const DEPENDENCIES_HEAD: &str = "| crate | uses |\n|---|---|\n";

/// The pure crates, which have no clocks, files or threads, as in docs/architecture.md.
pub(crate) const PURE: &[&str] = &["sim", "flash", "sd", "nvme", "host", "nbd", "usb"];
/// Permitted external dependencies of the pure crates, with reasons.
const PURE_DEPENDENCIES: &[(&str, &str)] = &[
    ("hashbrown", "a hash table for look-ups, whose order has no effect, no_std"),
    ("libm", "logarithms and roots that are the same on every machine, no_std"),
    ("serde", "state files, no_std; derives only"),
    ("embedded-hal", "the traits that drivers for microcontrollers use, no_std; behind a feature"),
    ("postcard", "the encoding of state files: a small, stable, no_std format of serde"),
];

/// The files that may contain unsafe code, each in one small function that states why it is sound.
const UNSAFE: [&str; 12] = [
    "crates/sim/src/prefetch.rs",
    "crates/block/src/memory/chunk.rs",
    "crates/block/src/huge_pages.rs",
    "crates/block/src/memory/past_caches.rs",
    "crates/measure/src/discard.rs",
    // Exported symbols for WebAssembly.
    "crates/playground/src/export.rs",
    // The boundary to C.
    "crates/c/src/export.rs",
    "crates/c/src/handle.rs",
    "crates/c/src/pointer.rs",
    "crates/c/src/store.rs",
    // A driver in a test requires a controller to implement traits with unsafe functions.
    "crates/sd/tests/all/clients/controller.rs",
    // A counting allocator.
    "crates/volume/tests/reconcile_memory.rs",
];

/// Permitted licences of dependencies, as manifests name them.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "ISC",
    "0BSD",
    "CC0-1.0",
];

/// Runs all checks and reports all findings.
pub(crate) fn check() -> Outcome {
    let mut findings = Vec::new();
    arrows(&mut findings);
    sources(&mut findings);
    headless::check(&mut findings);
    closed_forms::check(&mut findings);
    experiments(&mut findings);
    licences(&mut findings);
    links(&mut findings);
    packaging(&mut findings);
    faults(&mut findings);
    if findings.is_empty() {
        eprintln!("== tidy: nothing found");
        return Ok(());
    }
    Err(format!("tidy found {}:\n{}", findings.len(), findings.join("\n")))
}

/// Checks that the table of dependencies in the architecture agrees with the manifests, that dependencies point to
/// earlier rows, and that pure crates use permitted crates only.
fn arrows(findings: &mut Vec<String>) {
    let text = read(Path::new(ARCHITECTURE), findings);
    let table = dependency_table(&text);
    for (row, (crate_name, uses)) in table.iter().enumerate() {
        for other in uses.iter().filter(|other| !table[..row].iter().any(|(above, _)| above == *other)) {
            findings
                .push(format!("{ARCHITECTURE}: {crate_name} uses {other}, which is not in a row above it"));
        }
    }
    for entry in files(Path::new("crates"), "Cargo.toml") {
        let crate_name =
            entry.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let manifest: toml::Table = match read(&entry, findings).parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                findings.push(format!("{}: {error}", entry.display()));
                continue;
            }
        };
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        let names: Vec<&str> =
            dependencies.into_iter().flat_map(|table| table.keys().map(String::as_str)).collect();
        let mut used: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("flashlab-")).collect();
        used.sort_unstable();
        match table.iter().find(|(name, _)| *name == crate_name) {
            None => findings
                .push(format!("{ARCHITECTURE}: the table of dependencies has no row for {crate_name}")),
            Some((_, listed)) if *listed != used => findings.push(format!(
                "{ARCHITECTURE}: {crate_name} uses {}, but its manifest says {}",
                listed.join(", "),
                used.join(", ")
            )),
            Some(_) => {}
        }
        let external = names.iter().filter(|name| !name.starts_with("flashlab-"));
        for name in external.filter(|_| PURE.contains(&crate_name.as_str())) {
            if !PURE_DEPENDENCIES.iter().any(|(permitted, _)| permitted == name) {
                findings
                    .push(format!("{}: the pure crate {crate_name} must not use {name}", entry.display()));
            }
        }
    }
}

/// Returns the rows of the table of dependencies: each crate with the crates that it uses, sorted.
fn dependency_table(text: &str) -> Vec<(&str, Vec<&str>)> {
    let rows = text.split_once(DEPENDENCIES_HEAD).map_or("", |(_, rest)| rest);
    rows.lines()
        .map_while(|row| row.strip_prefix("| ")?.strip_suffix('|')?.split_once('|'))
        .map(|(crate_name, uses)| {
            let mut uses: Vec<&str> =
                uses.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            uses.sort_unstable();
            (crate_name.trim(), uses)
        })
        .collect()
}

/// Checks the source files: each opens with a module comment, pure crates are `no_std`, and unsafe code stays
/// in the listed files. Also checks that the main documents exist.
fn sources(findings: &mut Vec<String>) {
    let mut rust = files(Path::new("crates"), ".rs");
    rust.extend(files(Path::new("xtask"), ".rs"));
    for file in rust {
        let text = read(&file, findings);
        let path = file.display().to_string();
        if !text.starts_with("//!") && !path.contains("/fixtures/") {
            findings.push(format!("{path}: does not open with a module comment (//!)"));
        }
        if path.ends_with("src/lib.rs") {
            let pure = PURE.iter().any(|crate_name| path == format!("crates/{crate_name}/src/lib.rs"));
            if pure && !text.contains("#![no_std]") {
                findings.push(format!("{path}: a pure crate must be no_std"));
            }
            let folder = path.trim_end_matches("lib.rs");
            let has_unsafe_files = UNSAFE.iter().any(|file| file.starts_with(folder));
            if !text.contains("#![forbid(unsafe_code)]") && !has_unsafe_files {
                findings.push(format!("{path}: #![forbid(unsafe_code)] is missing"));
            }
        }
        if text.contains("allow(unsafe_code")
            && !UNSAFE.contains(&path.as_str())
            && !path.starts_with("xtask")
        {
            findings.push(format!("{path}: unsafe code is allowed in {} only", UNSAFE.join(", ")));
        }
    }
    for file in [
        "README.md",
        "CHANGELOG.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "docs/architecture.md",
        "docs/glossary.md",
    ] {
        if !Path::new(file).is_file() {
            findings.push(format!("{file}: missing"));
        }
    }
}

/// Checks that every experiment is complete, and that every cell listed as `fitted` in a profile exists.
fn experiments(findings: &mut Vec<String>) {
    let mut cells = Vec::new();
    for folder in folders(Path::new("experiments")) {
        let live = read(&folder.join("experiment.toml"), findings).contains("kind = \"live\"");
        let golden = if live { "paths.sh" } else { "golden.txt" };
        for part in ["experiment.toml", "published.toml", "README.md", golden] {
            if !folder.join(part).is_file() {
                findings.push(format!("{}: missing", folder.join(part).display()));
            }
        }
        let Ok(published) = read(&folder.join("published.toml"), findings).parse::<toml::Table>() else {
            findings.push(format!("{}: not TOML", folder.join("published.toml").display()));
            continue;
        };
        for table in published.get("table").and_then(toml::Value::as_array).into_iter().flatten() {
            let text = |key| table.get(key).and_then(toml::Value::as_str).unwrap_or_default();
            let prefix = format!("{} {}", text("name"), text("row"));
            for column in table.as_table().into_iter().flatten().filter(|(_, v)| v.is_table()).map(|(k, _)| k)
            {
                cells.push(format!("{}/{column}", prefix.trim_end()));
            }
        }
    }
    for profile in files(Path::new("profiles"), ".toml") {
        let text = read(&profile, findings);
        for (number, line) in text.lines().enumerate() {
            let Some((_, list)) = line.split_once("fitted = [") else { continue };
            for cell in list.split('"').skip(1).step_by(2) {
                if !cells.iter().any(|c| c == cell) {
                    findings.push(format!(
                        "{}:{}: no experiment has a cell {cell}",
                        profile.display(),
                        number + 1
                    ));
                }
            }
        }
    }
}

/// Checks that the targets of relative links in the documentation exist.
fn links(findings: &mut Vec<String>) {
    let mut texts = vec![PathBuf::from("README.md"), PathBuf::from("CHANGELOG.md")];
    texts.extend(files(Path::new("docs"), ".md"));
    texts.extend(files(Path::new("experiments"), ".md"));
    for text in texts {
        for link in read(&text, findings).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            let is_external = path.is_empty() || path.contains("://");
            if !is_external && !text.parent().unwrap_or(Path::new(".")).join(path).exists() {
                findings.push(format!("{}: links to {link}, which does not exist", text.display()));
            }
        }
    }
}

/// Checks the licence of every package that the workspace uses on this machine with its default features.
fn licences(findings: &mut Vec<String>) {
    let mut command = std::process::Command::new(env!("CARGO"));
    command.args([
        "tree",
        "--workspace",
        "--locked",
        "--edges",
        "normal,build,dev",
        "--prefix",
        "none",
        "--format",
        "{p}\t{l}",
    ]);
    let output = match command.output() {
        Ok(output) if output.status.success() => output,
        other => return findings.push(format!("cargo tree: {other:?}")),
    };
    let mut lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap_or_default().lines().collect();
    lines.sort_unstable();
    lines.dedup();
    for line in lines {
        let Some((package, licence)) = line.split_once('\t') else { continue };
        // "A OR B" and "A/B" need one permitted licence; "A AND B" needs all of them to be permitted.
        let licence = licence.trim_end_matches(" (*)");
        let is_permitted =
            |term: &str| term.split(" AND ").all(|l| LICENCES.contains(&l.trim_matches(['(', ')', ' '])));
        if !licence.replace('/', " OR ").split(" OR ").any(is_permitted) {
            findings.push(format!("{package}: the licence {licence:?} is not on the list"));
        }
    }
}

/// Checks files of other tools: deny.toml permits the licences in [`LICENCES`], and the Containerfile uses the Rust
/// version of rust-toolchain.toml.
fn packaging(findings: &mut Vec<String>) {
    let deny: toml::Table = read(Path::new("deny.toml"), findings).parse().unwrap_or_default();
    let allowed = deny.get("licenses").and_then(|licences| licences.get("allow")?.as_array());
    let allowed: Vec<&str> = allowed.into_iter().flatten().filter_map(toml::Value::as_str).collect();
    if allowed != LICENCES {
        findings.push("deny.toml: licenses.allow is not LICENCES in xtask/src/tidy.rs".to_owned());
    }
    let toolchain: toml::Table = read(Path::new("rust-toolchain.toml"), findings).parse().unwrap_or_default();
    let channel = toolchain.get("toolchain").and_then(|toolchain| toolchain.get("channel")?.as_str());
    let image = format!("library/rust:{}-", channel.unwrap_or_default());
    if !read(Path::new("Containerfile"), findings).contains(&image) {
        findings
            .push(format!("Containerfile: does not build with {image}, the version in rust-toolchain.toml"));
    }
}

/// Checks that only the feature for the build of the tests enables deliberate faults, so that no package contains them.
fn faults(findings: &mut Vec<String>) {
    for entry in files(Path::new("crates"), "Cargo.toml") {
        let manifest = read(&entry, findings);
        let parts = enables_faults(&manifest);
        findings.extend(parts.map(|part| format!("{}: {part} enables deliberate faults", entry.display())));
    }
}

/// Returns the parts of a manifest, other than the feature for the build of the tests, that enable deliberate faults.
fn enables_faults(manifest: &str) -> impl Iterator<Item = String> {
    let manifest: toml::Table = manifest.parse().unwrap_or_default();
    let parts = ["features", "dependencies", "build-dependencies"].into_iter().filter_map(move |part| {
        let entries = manifest.get(part)?.as_table()?.clone();
        Some(entries.into_iter().map(move |(name, value)| (format!("{part}.{name}"), value)))
    });
    parts.flatten().filter_map(|(name, value)| {
        let enabled =
            value.get("features").unwrap_or(&value).as_array()?.iter().filter_map(toml::Value::as_str);
        let mut names = enabled.map(|enabled| enabled.rsplit('/').next().unwrap_or_default());
        let is_found = names.any(|name| ["faults", "as-in-tests"].contains(&name));
        (is_found && name != "features.as-in-tests").then_some(name)
    })
}

/// Returns the text of a file. A file that cannot be read is a finding, and has an empty text.
pub(crate) fn read(path: &Path, findings: &mut Vec<String>) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| {
        findings.push(format!("{}: {error}", path.display()));
        String::new()
    })
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(root).into_iter().flatten().flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    found.sort();
    found
}

/// Returns the files below `root` whose names end with `ending`, sorted.
pub(crate) fn files(root: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_feature_for_tests_may_enable_deliberate_faults() {
        let found = |manifest: &str| enables_faults(manifest).collect::<Vec<_>>();
        assert!(found("[features]\nas-in-tests = [\"flashlab-sim/faults\", \"dep:nix\"]").is_empty());
        assert!(found("[features]\nfaults = []\n[dependencies]\nflashlab-sim.workspace = true").is_empty());
        assert_eq!(found("[features]\nfull = [\"as-in-tests\"]"), ["features.full"]);
        let dependency = "[dependencies]\nflashlab-sim = { workspace = true, features = [\"faults\"] }";
        assert_eq!(found(dependency), ["dependencies.flashlab-sim"]);
    }
}
