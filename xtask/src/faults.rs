//! Fault injection: runs the tests of power loss once unchanged, and once under each deliberate fault in the sources.
//!
//! A fault is a call of `flashlab_sim::fault("name")` in a device's code. The build of the tests contains all faults; the
//! environment variable `FLASHLAB_FAULT` selects one at run time. The tests must pass without a fault and fail under
//! each.
//!
//! The file `xtask/faults.txt` names a test that catches each fault. This test runs first, and the suites run
//! only if it passes. CI therefore does not run all tests of power loss for a fault that only one of the last
//! tests catches.

use crate::Outcome;
use crate::tests_per_crate::{messages, test_binaries};
use crate::tidy::files;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Modules with tests of power loss, for each crate that contains faults. Quick modules come first, because the run for
/// a fault ends with the first failing test.
const SUITES: &[(&str, &[&str])] = &[
    ("flash", &["power_cut"]),
    ("nvme", &["power_cut"]),
    ("block", &["timed"]),
    (
        "volume",
        &[
            "faulty",
            "rekey",
            "nonces",
            "encrypted",
            "redundancy",
            "corruption",
            "members",
            "cached",
            "room",
            "reconcile",
            "changes",
            "crash",
        ],
    ),
    ("sd", &["power_cut", "card"]),
    ("host", &["cache"]),
];

/// Pairs of a crate and a crate above it whose suites also run for its faults: the driver's tests also test the card.
const ABOVE: &[(&str, &str)] = &[("sd", "host")];

/// Part of the names of the slowest tests, which do not run under faults. These tests cut the power at every
/// 7th clock cycle, and at every one with `FLASHLAB_FULL`; the others cut it at every 401st.
const SLOW: &str = "at_every_single_clock";

/// Environment variable that selects a fault.
const FAULT: &str = "FLASHLAB_FAULT";
/// Longest time without output before a test binary counts as hung.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// Test binary that contains these modules.
const BINARY: &str = "all";

/// File with a test that catches each fault.
const CATCHERS: &str = "xtask/faults.txt";

/// A test binary, and the module whose tests run.
type Suite = (PathBuf, &'static str);

/// A fault and the crate that contains it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Fault {
    crate_name: String,
    name: String,
}

/// A test, and the crate that contains it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Test {
    crate_name: String,
    name: String,
}

/// The test that catches each fault that the file lists.
type Catchers = BTreeMap<Fault, Test>;

/// Result of a suite.
enum SuiteResult {
    Passed,
    /// The test failed.
    Failed(Test),
    Error(String),
}

/// Decides whether the suites must first pass without a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Baseline {
    /// Run the suites without a fault first.
    Run,
    /// Skip that run: CI has just run all tests.
    Passed,
}

/// Runs the suites without a fault, and then under each fault. Prints a warning for each fault whose catcher
/// in the file is missing or no longer catches it.
pub(crate) fn check(baseline: Baseline) -> Outcome {
    let catchers = read_catchers()?;
    for (fault, test) in run_with(baseline, &catchers)? {
        if catchers.get(&fault) != Some(&test) {
            let Fault { crate_name, name } = fault;
            println!("WARNING: {CATCHERS} names no test that catches {name} of {crate_name}");
            println!("(`cargo xtask faults --record` writes the file)");
        }
    }
    Ok(())
}

/// Runs the suites under each fault, and writes the first test that catches it to the file.
pub(crate) fn record() -> Outcome {
    let caught = run_with(Baseline::Run, &Catchers::new())?;
    let mut text = String::from(
        "# Each deliberate fault and a test that catches it: crate and fault, crate and test.\n\
         # `cargo xtask faults --record` writes this file.\n",
    );
    for (fault, test) in caught {
        text += &format!("{} {} {} {}\n", fault.crate_name, fault.name, test.crate_name, test.name);
    }
    std::fs::write(CATCHERS, text).map_err(|error| format!("{CATCHERS}: {error}"))
}

/// Reads the file of the catchers.
fn read_catchers() -> Result<Catchers, String> {
    let text = std::fs::read_to_string(CATCHERS).map_err(|error| format!("{CATCHERS}: {error}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let catcher = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [crate_name, name, tests, test] => Ok((
            Fault { crate_name: crate_name.to_owned(), name: name.to_owned() },
            Test { crate_name: tests.to_owned(), name: test.to_owned() },
        )),
        _ => Err(format!("{CATCHERS}: expected four words in: {line}")),
    };
    lines.map(catcher).collect()
}

/// Runs the suites without a fault, and then under each fault, its catcher first. Returns the test that caught each fault.
fn run_with(baseline: Baseline, catchers: &Catchers) -> Result<Catchers, String> {
    let faults = find()?;
    if let Some(stale) = catchers.keys().find(|fault| !faults.contains(fault)) {
        return Err(format!("{CATCHERS}: {} has no fault {}; delete its line", stale.crate_name, stale.name));
    }
    let suites = build()?;
    let unmodified =
        SUITES.iter().filter(|_| baseline == Baseline::Run).map(|(crate_name, _)| (None, *crate_name));
    let faulty = faults.iter().map(|fault| (Some(fault), fault.crate_name.as_str()));
    let jobs: Vec<(Option<&Fault>, &str)> = unmodified.chain(faulty).collect();
    let results = run_all(&jobs, &suites, catchers);
    let (mut wrong, mut caught) = (Vec::new(), Catchers::new());
    println!("{:<40} {:<6} caught by", "fault", "crate");
    for ((fault, crate_name), result) in jobs.iter().zip(results) {
        let name = fault.map_or("(none)", |fault| fault.name.as_str());
        let shown = match (fault, result) {
            (None, SuiteResult::Passed) => "none, as expected".to_owned(),
            (Some(fault), SuiteResult::Failed(test)) => {
                let shown = test.name.clone();
                caught.insert((*fault).clone(), test);
                shown
            }
            (None, SuiteResult::Failed(test)) => {
                wrong.push(format!("{crate_name}: {} fails without a fault", test.name));
                test.name
            }
            (Some(_), SuiteResult::Passed) => {
                wrong.push(format!("{crate_name}: no test fails under {FAULT}={name}"));
                "NO TEST".to_owned()
            }
            (_, SuiteResult::Error(why)) => {
                wrong.push(format!("{crate_name}, {name}: {why}"));
                why
            }
        };
        println!("{name:<40} {crate_name:<6} {shown}");
    }
    if wrong.is_empty() { Ok(caught) } else { Err(format!("faults:\n{}", wrong.join("\n"))) }
}

/// Collects the faults from the sources, without duplicates.
fn find() -> Result<BTreeSet<Fault>, String> {
    let mut found = BTreeSet::new();
    for (crate_name, _) in SUITES {
        for file in files(&Path::new("crates").join(crate_name).join("src"), ".rs") {
            let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let names = text.split("fault(\"").skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(
                names.map(|name| Fault { crate_name: (*crate_name).to_owned(), name: name.to_owned() }),
            );
        }
    }
    Ok(found)
}

/// Builds the test binaries, unless the build of all tests has done so. Returns the suites of each crate.
fn build() -> Result<BTreeMap<&'static str, Vec<Suite>>, String> {
    // The feature of the Python module gives all crates the features that they have in the build of all tests.
    let mut arguments = vec!["test", "--locked", "--no-run", "--features", "flashlab-python/as-in-tests"];
    arguments.extend(["--test", BINARY, "--package", "flashlab-python"]);
    let packages: Vec<String> =
        SUITES.iter().map(|(crate_name, _)| format!("flashlab-{crate_name}")).collect();
    arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
    let mut suites = BTreeMap::new();
    for binary in test_binaries(&messages(&arguments)?)? {
        let folder = binary.folder.file_name().unwrap_or_default();
        if let Some((crate_name, modules)) = SUITES.iter().find(|(crate_name, _)| *crate_name == folder) {
            let suite = |module: &&'static str| (binary.file.clone(), *module);
            suites.insert(*crate_name, modules.iter().map(suite).collect());
        }
    }
    Ok(suites)
}

/// Runs all jobs, as many at a time as there are processors. Each suite runs its tests one after the other, so
/// that the first failing test is always the same.
fn run_all(
    jobs: &[(Option<&Fault>, &str)],
    suites: &BTreeMap<&str, Vec<Suite>>,
    catchers: &Catchers,
) -> Vec<SuiteResult> {
    let next = Mutex::new(0..jobs.len());
    let results: Mutex<Vec<Option<SuiteResult>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let work = || {
        let next_job = || next.lock().expect("no worker panics").next();
        while let Some(n) = next_job() {
            let (fault, crate_name) = jobs[n];
            let above = ABOVE.iter().filter(|(below, _)| *below == crate_name).map(|(_, above)| *above);
            let tested_by = std::iter::once(crate_name).chain(above.filter(|_| fault.is_some()));
            let in_order = tested_by.flat_map(|tests| {
                let suites = suites.get(tests).into_iter().flatten();
                suites.map(move |(binary, module)| (tests, binary, Tests::Module(module)))
            });
            let catcher = fault.and_then(|fault| catchers.get(fault)).and_then(|test| {
                let (binary, _) = suites.get(test.crate_name.as_str())?.first()?;
                Some((test.crate_name.as_str(), binary, Tests::One(&test.name)))
            });
            let mut result = SuiteResult::Error("no test binaries".to_owned());
            for (tests, binary, selected) in catcher.into_iter().chain(in_order) {
                result = run(tests, binary, selected, fault);
                if !matches!(result, SuiteResult::Passed) {
                    break;
                }
            }
            results.lock().expect("no worker panics")[n] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        (0..workers).for_each(|_| {
            scope.spawn(work);
        });
    });
    results
        .into_inner()
        .expect("no worker panics")
        .into_iter()
        .map(|result| result.expect("every job ran"))
        .collect()
}

/// The tests of a run.
enum Tests<'a> {
    /// All tests of a module.
    Module(&'a str),
    /// One test.
    One(&'a str),
}

/// Runs tests up to the first that fails.
fn run(crate_name: &str, binary: &Path, tests: Tests<'_>, fault: Option<&Fault>) -> SuiteResult {
    let mut command = Command::new(binary);
    // The working directory is the one that cargo uses. proptest generates the same cases in each run, and does not
    // store or shrink those that a fault breaks.
    command.current_dir(Path::new("crates").join(crate_name));
    match tests {
        Tests::Module(module) => command.args([&format!("{module}::"), "--skip", SLOW]),
        Tests::One(test) => command.args([test, "--exact"]),
    };
    command.arg("--test-threads=1");
    command.env("PROPTEST_RNG_SEED", "1").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
    command.env("PROPTEST_MAX_SHRINK_ITERS", "0").env_remove(FAULT);
    if let Some(fault) = fault {
        command.env(FAULT, &fault.name);
    }
    match command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
        Ok(child) => watch(crate_name, child),
        Err(error) => SuiteResult::Error(format!("{}: {error}", binary.display())),
    }
}

/// Reads the output of a test binary, and kills it after its first failing test.
fn watch(crate_name: &str, mut child: Child) -> SuiteResult {
    let failed = |name| SuiteResult::Failed(Test { crate_name: crate_name.to_owned(), name });
    let (sender, lines) = channel();
    let output = child.stdout.take().expect("the stream is piped");
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The receiver is gone.
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut running_test: Option<String> = None;
    let result_of_test = loop {
        let line = match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {
                break Some(SuiteResult::Error(format!("{} hangs", running_test.as_deref().unwrap_or("it"))));
            }
        };
        let Some((test, result)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        else {
            continue;
        };
        running_test = Some(test.to_owned());
        match result {
            "ok" | "ignored" => running_test = None,
            "FAILED" => break Some(failed(test.to_owned())),
            _ => {}
        }
    };
    if result_of_test.is_some() {
        // The process may have ended by itself.
        let _ = child.kill();
    }
    drop(lines);
    let status = child.wait();
    // The pipe has reached its end.
    let _ = reader.join();
    match (result_of_test, status) {
        (Some(result), _) => result,
        (None, Ok(status)) if status.success() => SuiteResult::Passed,
        // A panic during a panic aborts the process in the middle of a test.
        (None, Ok(status)) => match running_test {
            Some(test) => failed(test),
            None => SuiteResult::Error(status.to_string()),
        },
        (None, Err(error)) => SuiteResult::Error(error.to_string()),
    }
}
