//! The repository's own checks. CI and developers run `cargo xtask ci`.

mod book;
mod boots;
mod budget;
mod closed_forms;
mod faults;
mod headless;
mod packages;
mod playground;
mod python;
mod recordings;
mod side_by_side;
mod tests_per_crate;
mod tidy;
mod under_load;

use budget::Times;
use faults::Baseline;
use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo xtask <task>
  ci            format, clippy, tidy, sbom, deny, no-std, docs, test, python, faults and golden-check; prints the time and
                the budget of each part
  full          the same with all cases of the exhaustive suites, which docs/checks.md lists
  format        cargo fmt --check
  clippy        lints as errors, on all targets
  tidy          checks beyond lints: dependencies between crates, licences, documents, experiments
  docs          rustdoc with warnings as errors
  test          all tests, and fit-check with one card in the build of the tests
  python        builds the wheel of the Python package and runs its tests
  faults        the tests of power loss, which must fail under each deliberate fault in the sources; with --record it
                searches for a test that catches each fault, and writes xtask/faults.txt
  golden-check  checks that every experiment, or some columns of a long one, gives its golden table and meets its bounds,
                that another seed gives another digest, and that no page is large
  fit-check [--seed N] [--cards N]  fits virtual cards with known numbers and compares, in a release build
  fuzz [SECS]   every fuzz target for SECS seconds (60), with cargo-fuzz on the stable toolchain; known failing inputs run first
  under-load [N [ARGS]]  the tests with clocks, threads or sockets N times (5) beside 16 busy loops; ARGS go to the
                test binaries: a filter, or --skip and a part of a name
  deb           packs the command as a .deb, with cargo-deb
  deny          cargo-deny on bans, licences and sources; skipped by name if cargo-deny is not installed
  musl [PROCESSOR]  builds the command for Linux with musl, without shared libraries, for this machine's processor
                or x86_64 or aarch64
  no-std        checks that the pure crates build for a target without a standard library
  playground [FILE|--check]  writes the page of the playground (target/playground.html), or checks it in a browser
  book          builds the documentation as a site with its live figures (target/book), with mdbook
  sbom FILE     writes a bill of materials of the command: CycloneDX, JSON
  install-c PREFIX  builds the C library and installs it into PREFIX: include, lib, lib/pkgconfig
  recordings [PART [DIR]]  regenerates the recordings of `run filesystems` whose names contain PART, in DIR;
                           PART `buffered`: those of buffered jobs on a raw device
  closed-loop [FS]  records the shipped workloads on a fast and on three slow devices, and compares predictions with them
  boots [PART [DIR]]  regenerates the root images and recordings of `run rootfs` whose names contain PART, in DIR
  golden        rewrites the golden tables of the experiments and the README's picture; `golden NAME` rewrites one table
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["ci"] => ci(Scope::Quick),
        ["full"] => ci(Scope::Full),
        ["format"] => format(),
        ["clippy"] => clippy(),
        ["tidy"] => tidy::check(),
        ["docs"] => docs(),
        ["test"] => test(),
        ["faults"] => faults::check(Baseline::Run),
        ["faults", "--record"] => faults::record(),
        ["python"] => python::check(),
        ["golden-check"] => golden_check(Scope::Quick),
        ["fit-check", ref arguments @ ..] => fit_check(arguments),
        ["fuzz"] => fuzz("60"),
        ["fuzz", seconds] => fuzz(seconds),
        ["under-load"] => under_load::check("5", &[]),
        ["under-load", times, ref arguments @ ..] => under_load::check(times, arguments),
        ["deb"] => packages::deb(),
        ["sbom", path] => packages::sbom(path),
        ["deny"] => packages::deny(),
        ["musl"] => packages::musl(std::env::consts::ARCH),
        ["musl", processor] => packages::musl(processor),
        ["no-std"] => playground::check_without_std(),
        ["playground"] => playground::build(playground::PAGE),
        ["playground", "--check"] => playground::check(),
        ["playground", path] => playground::build(path),
        ["book"] => book::build(),
        ["install-c", prefix] => install_c(prefix),
        ["recordings", "buffered"] => recordings::record_buffered(None),
        ["recordings", "buffered", folder] => recordings::record_buffered(Some(folder)),
        ["closed-loop"] => recordings::validate_predictions("ext4"),
        ["closed-loop", filesystem] => recordings::validate_predictions(filesystem),
        ["boots"] => boots::record("", None),
        ["boots", part] => boots::record(part, None),
        ["boots", part, folder] => boots::record(part, Some(folder)),
        ["recordings"] => recordings::record("", None),
        ["recordings", part] => recordings::record(part, None),
        ["recordings", part, folder] => recordings::record(part, Some(folder)),
        ["golden"] => golden("1", &[]),
        ["golden", name] => golden(name, &["every_experiment_gives_its_golden_table"]),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Extent of the exhaustive suites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    /// A selection of cases, for every run.
    Quick,
    /// All cases.
    Full,
}

/// Result of a task; the error describes the failure.
type Outcome = Result<(), String>;

/// Options that select the features of lints, documentation and tests. The command has all of its features; by default it
/// has none. The feature of the Python module gives its dependencies the features that the tests need, among
/// them the deliberate faults, which do nothing until `FLASHLAB_FAULT` selects one. Because all parts of CI share these
/// features, cargo builds each library once for all of them.
const FULL: [&str; 2] = ["--features", "flashlab/full,flashlab-python/as-in-tests"];

/// Environment variable that makes the exhaustive suites run all of their cases.
const EXHAUSTIVE: &str = "FLASHLAB_FULL";

fn ci(scope: Scope) -> Outcome {
    let mut times = Times::default();
    let outcome = parts_of_ci(scope, &mut times);
    times.print();
    outcome
}

fn parts_of_ci(scope: Scope, times: &mut Times) -> Outcome {
    times.measure("format", format)?;
    times.measure("clippy", clippy)?;
    times.measure("tidy", tidy::check)?;
    times.measure("tidy", || packages::sbom("target/sbom.json"))?;
    times.measure("deny", packages::deny)?;
    times.measure("no-std", playground::check_without_std)?;
    if scope == Scope::Full {
        times.measure("playground", playground::check)?;
        times.measure("playground", book::check)?;
    }
    times.measure("docs", docs)?;
    tests_per_crate::check(scope, times)?;
    times.measure("python", python::check)?;
    times.measure("faults", || faults::check(Baseline::Passed))?;
    times.measure("golden-check", || golden_check(scope))?;
    // The quick form runs beside the tests.
    if scope == Scope::Full {
        times.measure("fit-check", || fit_check(&["--cards", "50"]))?;
    }
    Ok(())
}

fn format() -> Outcome {
    cargo(&["fmt", "--all", "--check"])?;
    // A macro declares the modules of the victim policies, so cargo does not find their files.
    let mut command = Command::new("rustfmt");
    command.args(["--check", "--edition", "2024"]);
    let files = std::fs::read_dir(VICTIM_POLICIES).map_err(|error| format!("{VICTIM_POLICIES}: {error}"))?;
    for file in files {
        command.arg(file.map_err(|error| format!("{VICTIM_POLICIES}: {error}"))?.path());
    }
    run(&mut command)
}

/// Folder of the victim policies.
const VICTIM_POLICIES: &str = "crates/flash/src/ftl/gc";

fn clippy() -> Outcome {
    // Lints the simulator alone, which is the command without features, and then all crates with all features.
    cargo(&["clippy", "--package", "flashlab", "--locked", "--", "-D", "warnings"])?;
    cargo(&["clippy", "--workspace", "--all-targets", FULL[0], FULL[1], "--locked", "--", "-D", "warnings"])
}

fn docs() -> Outcome {
    let mut command = cargo_command();
    command.args(["doc", "--workspace", FULL[0], FULL[1], "--no-deps"]);
    command.args(["--document-private-items", "--locked"]);
    // rustdoc needs the results of checking the dependencies of the crate that it documents. With the environment that
    // `cargo clippy -- -D warnings` gives to cargo, cargo reuses clippy's results; otherwise it would check the crates
    // again.
    let clippy = Path::new(env!("CARGO")).canonicalize().map(|cargo| cargo.with_file_name("clippy-driver"));
    if let Some(clippy) = clippy.ok().filter(|clippy| clippy.exists()) {
        command.env("RUSTC_WORKSPACE_WRAPPER", clippy);
        command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    }
    run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn test() -> Outcome {
    let mut times = Times::default();
    let outcome = tests_per_crate::check(Scope::Quick, &mut times);
    times.print();
    outcome
}

/// Runs every experiment, or some columns of a long one, in the build of the tests; in the full form, also in
/// a release build. The golden tables are the same in debug and release builds, because a seed fixes the
/// digest in each.
fn golden_check(scope: Scope) -> Outcome {
    let mut command = cargo_command();
    command.args(["test", "--workspace", FULL[0], FULL[1], "--locked", "--test", "golden"]);
    if scope == Scope::Full {
        command.env(EXHAUSTIVE, "1");
    }
    run(&mut command)?;
    if scope == Scope::Full {
        let mut command = cargo_command();
        command.args(["test", "--release", "--locked", "--package", "flashlab", "--features", "full"]);
        run(command.args(["--test", "golden"]).env(EXHAUSTIVE, "1"))?;
    }
    Ok(())
}

/// Fits virtual cards with known numbers, in a release build.
fn fit_check(arguments: &[&str]) -> Outcome {
    let example =
        ["run", "--release", "--locked", "--package", "flashlab-lab", "--example", "fit_check", "--"];
    cargo(&[&example, arguments].concat())
}

/// Builds the C library for speed and installs it.
fn install_c(prefix: &str) -> Outcome {
    cargo(&["build", "--locked", "--profile", "dist", "--package", "flashlab-c"])?;
    run(Command::new("crates/c/install.sh").args(["target/dist", prefix]))
}

/// Rewrites the golden tables, or with `which` other than `1` the table of this experiment only.
fn golden(which: &str, tests: &[&str]) -> Outcome {
    let mut command = cargo_command();
    command.args(["test", "--release", "--package", "flashlab", "--features", "full", "--test", "golden"]);
    run(command.args(["--"]).args(tests).env("UPDATE_GOLDEN", which))
}

fn fuzz(seconds: &str) -> Outcome {
    seconds.parse::<u32>().map_err(|_| format!("fuzz: {seconds} is not a number of seconds"))?;
    let targets = std::fs::read_dir("fuzz/fuzz_targets").map_err(|e| format!("fuzz/fuzz_targets: {e}"))?;
    let mut names: Vec<String> = targets
        .map(|entry| entry.map(|e| e.path().file_stem().unwrap_or_default().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()
        .map_err(|e| format!("fuzz/fuzz_targets: {e}"))?;
    names.sort();
    let hint = |error: String| format!("{error}\n(to install cargo-fuzz: cargo install cargo-fuzz)");
    // A single build of all targets lets cargo compile them in parallel; the runs reuse it.
    cargo(&[&["fuzz", "build"][..], &FUZZ_BUILD].concat()).map_err(hint)?;
    for name in names {
        let limit = format!("-max_total_time={seconds}");
        let (corpus, regressions) = (format!("fuzz/corpus/{name}"), format!("fuzz/regressions/{name}"));
        for folder in [&corpus, &regressions] {
            std::fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
        }
        let run = [name.as_str(), &corpus, &regressions, "--", &limit, "-max_len=65536", "-timeout=10"];
        cargo(&[&["fuzz", "run"][..], &FUZZ_BUILD, &run].concat()).map_err(hint)?;
    }
    Ok(())
}

/// Build options of the fuzz targets: no sanitizer, because the stable toolchain lacks it, and several codegen units,
/// because a single unit takes twice as long to build and speeds up a run of a minute only slightly.
const FUZZ_BUILD: [&str; 4] = ["--sanitizer", "none", "--codegen-units", "16"];

/// Returns a command for cargo with the environment of a call by hand. See [`leave_package`].
fn cargo_command() -> Command {
    let mut command = Command::new(env!("CARGO"));
    leave_package(&mut command);
    command
}

/// Removes the variables that describe the package xtask from the environment of a program. The build script
/// of the crate `ring` runs again when these variables change, so each switch between `cargo test` and `cargo
/// xtask` would rebuild half of the crates.
fn leave_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

fn cargo(arguments: &[&str]) -> Outcome {
    run(cargo_command().args(arguments))
}

fn run(command: &mut Command) -> Outcome {
    let command_line = format!("{command:?}").replace('"', "");
    eprintln!("== {command_line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command_line}: {status}")),
        Err(error) => Err(format!("{command_line}: {error}")),
    }
}
