//! Time budgets of CI, with a warm build directory on two quiet cores.
//!
//! A part has a budget of wall-clock seconds. The test binaries run side by side in one part, so each crate's
//! tests have a budget of processor seconds instead, which depends less on other load on the machine.
//! Programs in a guest count; waiting does not.
//!
//! A part over its budget gives a warning and not a failure, because machines differ and other programs share them.

use crate::Outcome;
use crate::side_by_side::{Job, Spent, run_all};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::time::{Duration, Instant};

/// Largest sum of the budgets of the parts in seconds. A run takes about two thirds of this sum, because each
/// budget has room for a machine with some other load.
#[cfg(test)]
const CI_MAX: u32 = 20 * 60;

/// Processor seconds of each crate's tests, unit tests and integration tests together, and of the closed loop
/// of `fit`, which runs beside the tests. The programs with the largest budgets start first.
pub(crate) const CRATES: &[(&str, u32)] = &[
    ("sim", 2),
    ("flash", 25),
    ("sd", 10),
    ("nvme", 5),
    ("host", 5),
    ("playground", 5),
    ("fio", 25),
    ("nbd", 5),
    ("block", 5),
    ("volume", 150),
    ("usb", 2),
    ("serve", 15),
    ("catalogue", 5),
    ("image", 10),
    ("served", 10),
    ("device", 10),
    ("c", 15),
    ("lab", 60),
    ("report", 25),
    ("sweep", 2),
    ("flashlab", 380),
    ("fit", 2),
    ("recording", 5),
    ("recorder", 2),
    ("measure", 2),
    ("web", 2),
    ("xtask", 2),
    ("fit-check", 60),
];

/// Seconds for the tests of all crates.
const TESTS: u32 = 430;

/// Seconds for each part of CI.
pub(crate) const PARTS: &[(&str, u32)] = &[
    ("format", 5),
    ("clippy", 60),
    ("tidy", 5),
    ("deny", 5),
    ("no-std", 10),
    ("playground", 30),
    ("docs", 25),
    ("build of the tests", 120),
    ("tests", TESTS),
    ("examples in documents", 20),
    ("examples", 5),
    ("python", 20),
    ("faults", 60),
    ("golden-check", 170),
];

/// Time of each part so far, in the order of the runs, and time of each crate's tests.
#[derive(Default, Debug)]
pub(crate) struct Times {
    parts: Vec<Time>,
    crates: Vec<Spent>,
}

/// Time of a part.
#[derive(Debug)]
struct Time {
    part: String,
    wall: Duration,
    /// Processor time of the programs of the part that have ended.
    processor: Duration,
}

impl Times {
    /// Runs a part and adds its time to that of earlier runs of the same part.
    pub(crate) fn measure(&mut self, part: &str, run: impl FnOnce() -> Outcome) -> Outcome {
        #[allow(clippy::disallowed_methods, reason = "budgets are in wall-clock time")]
        let start = Instant::now();
        let processor_before = processor_time_of_children();
        let outcome = run();
        let wall = start.elapsed();
        let processor = processor_time_of_children().saturating_sub(processor_before);
        match self.parts.iter_mut().find(|time| time.part == part) {
            Some(time) => {
                time.wall += wall;
                time.processor += processor;
            }
            None => self.parts.push(Time { part: part.to_owned(), wall, processor }),
        }
        outcome
    }

    /// Runs programs side by side as one part, and adds the time of each to that of its crate.
    pub(crate) fn measure_jobs(&mut self, part: &str, jobs: Vec<Job>) -> Outcome {
        let mut spent = Vec::new();
        let outcome = self.measure(part, || {
            let (times, outcome) = run_all(jobs);
            spent = times;
            outcome
        });
        spent.into_iter().for_each(|spent| self.add(spent));
        outcome
    }

    fn add(&mut self, spent: Spent) {
        match self.crates.iter_mut().find(|of_crate| of_crate.part == spent.part) {
            Some(of_crate) => {
                of_crate.wall += spent.wall;
                of_crate.processor += spent.processor;
            }
            None => self.crates.push(spent),
        }
    }

    /// Prints the times of each crate's tests and of each part beside their budgets, and a warning for each that exceeds
    /// its budget.
    pub(crate) fn print(&self) {
        let shown =
            |budget: Option<u32>| budget.map_or_else(|| "none".to_owned(), |seconds| seconds.to_string());
        if !self.crates.is_empty() {
            println!("{:<24} {:>8} {:>8} {:>8}", "tests, side by side", "used s", "CPU s", "budget s");
        }
        for Spent { part, wall, processor } in &self.crates {
            let budget = shown(budget(CRATES, part));
            println!("{part:<24} {:>8.1} {:>8.1} {budget:>8}", wall.as_secs_f64(), processor.as_secs_f64());
        }
        println!("{:<24} {:>8} {:>8} {:>8}", "part of CI", "CPU s", "used s", "budget s");
        for Time { part, wall, processor } in &self.parts {
            let budget = shown(budget(PARTS, part));
            println!("{part:<24} {:>8.1} {:>8.1} {budget:>8}", processor.as_secs_f64(), wall.as_secs_f64());
        }
        let sum = |of: fn(&Time) -> Duration| self.parts.iter().map(of).sum::<Duration>().as_secs_f64();
        let (processor, wall) = (sum(|time| time.processor), sum(|time| time.wall));
        println!("{:<24} {processor:>8.1} {wall:>8.1} {:>8}", "sum", total());
        self.warnings().iter().for_each(|warning| eprintln!("xtask: WARNING: {warning}"));
    }

    /// Returns a line for each crate and each part that exceeds its budget or has none.
    fn warnings(&self) -> Vec<String> {
        let crates = self.crates.iter().map(|of| (&of.part, of.processor, budget(CRATES, &of.part), "CPU s"));
        let parts = self.parts.iter().map(|of| (&of.part, of.wall, budget(PARTS, &of.part), "s"));
        let warning = |(part, used, budget, unit): (&String, Duration, Option<u32>, &str)| match budget {
            None => Some(format!("{part} has no budget; add one in xtask/src/budget.rs")),
            Some(seconds) if used > Duration::from_secs(u64::from(seconds)) => Some(format!(
                "{part} took {:.1} {unit}, and its budget is {seconds} {unit}; if the machine was quiet, make it faster \
                 or move cases to the full form (docs/checks.md)",
                used.as_secs_f64()
            )),
            Some(_) => None,
        };
        crates.chain(parts).filter_map(warning).collect()
    }
}

/// Returns the processor time of all programs that this process has started and that have ended, in user and kernel mode.
fn processor_time_of_children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the constant is valid");
    let duration = |time: TimeVal| {
        let microseconds = time.tv_sec() * 1_000_000 + time.tv_usec();
        Duration::from_micros(microseconds.try_into().expect("a process uses no negative time"))
    };
    duration(usage.user_time()) + duration(usage.system_time())
}

/// Returns the budget of the tests of a crate in processor seconds; zero without one.
pub(crate) fn processor_budget(crate_name: &str) -> u32 {
    budget(CRATES, crate_name).unwrap_or(0)
}

fn budget(table: &[(&str, u32)], part: &str) -> Option<u32> {
    table.iter().find(|(name, _)| *name == part).map(|(_, seconds)| *seconds)
}

fn total() -> u32 {
    PARTS.iter().map(|(_, seconds)| seconds).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_budgets_together_stay_below_the_longest_time_of_ci() {
        assert!(total() < CI_MAX, "{} of {CI_MAX} s", total());
        let processor: u32 = CRATES.iter().map(|(_, seconds)| seconds).sum();
        assert!(
            processor <= 2 * TESTS,
            "two cores give {} s in the time of the tests: {processor}",
            2 * TESTS
        );
    }

    #[test]
    fn a_part_above_its_budget_or_without_a_budget_gives_a_warning() {
        let of = |part: &str, seconds| Time {
            part: part.to_owned(),
            wall: Duration::from_secs(seconds),
            processor: Duration::ZERO,
        };
        let mut times =
            Times { parts: vec![of("docs", 10), of("tidy", 6), of("unknown", 0)], ..Times::default() };
        let spent = |wall, processor| Spent {
            part: "c".to_owned(),
            wall: Duration::from_secs(wall),
            processor: Duration::from_secs(processor),
        };
        times.add(spent(900, 12));
        assert_eq!(times.warnings().len(), 2, "{:?}", times.warnings());
        times.add(spent(0, 12));
        let warnings = times.warnings();
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].starts_with("c took 24.0 CPU s, and its budget is 15 CPU s"), "{warnings:?}");
        assert!(warnings[1].starts_with("tidy took 6.0 s, and its budget is 5 s"), "{warnings:?}");
        assert!(warnings[2].starts_with("unknown has no budget"), "{warnings:?}");
    }

    #[test]
    fn the_time_of_a_part_includes_the_processor_time_of_its_programs() {
        let mut times = Times::default();
        let busy = "n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done";
        times.measure("busy", || crate::run(std::process::Command::new("sh").args(["-c", busy]))).unwrap();
        assert!(times.parts[0].processor > Duration::ZERO, "{times:?}");
    }
}
