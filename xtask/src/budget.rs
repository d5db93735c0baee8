//! Time budgets of CI: wall-clock seconds of each crate's tests and of each other part, with a warm build directory on
//! two quiet cores.
//!
//! A part over its budget gives a warning and not a failure, because machines differ and other programs share them.

use crate::Outcome;
use std::time::{Duration, Instant};

/// Largest sum of the budgets in seconds. A run takes about two thirds of it, because each budget has room for a machine
/// that is not quite quiet.
#[cfg(test)]
const CI_MAX: u32 = 24 * 60;

/// Seconds for each crate's tests: unit tests and integration tests, one binary after the other.
pub(crate) const CRATES: &[(&str, u32)] = &[
    ("sim", 10),
    ("flash", 25),
    ("sd", 15),
    ("nvme", 10),
    ("host", 10),
    ("playground", 10),
    ("fio", 25),
    ("nbd", 10),
    ("block", 10),
    ("volume", 60),
    ("usb", 10),
    ("serve", 30),
    ("catalogue", 10),
    ("image", 20),
    ("served", 60),
    ("device", 10),
    ("c", 15),
    ("lab", 15),
    ("report", 20),
    ("sweep", 5),
    ("flashlab", 215),
    ("fit", 5),
    ("recording", 5),
    ("recorder", 5),
    ("measure", 5),
    ("web", 10),
    ("xtask", 5),
];

/// Seconds for each other part of CI.
pub(crate) const PARTS: &[(&str, u32)] = &[
    ("format", 5),
    ("clippy", 60),
    ("tidy", 5),
    ("deny", 5),
    ("no-std", 10),
    ("playground", 30),
    ("docs", 40),
    ("build of the tests", 120),
    ("examples in documents", 20),
    ("examples", 10),
    ("python", 25),
    ("faults", 80),
    ("golden-check", 180),
    ("fit-check", 30),
    ("determinism", 150),
];

/// Time of each part so far, in the order of the runs.
#[derive(Default, Debug)]
pub(crate) struct Times(Vec<(String, Duration)>);

impl Times {
    /// Runs a part and adds its time to that of earlier runs of the same part.
    pub(crate) fn measure(&mut self, part: &str, run: impl FnOnce() -> Outcome) -> Outcome {
        #[allow(clippy::disallowed_methods, reason = "budgets are in wall-clock time")]
        let start = Instant::now();
        let outcome = run();
        let time = start.elapsed();
        match self.0.iter_mut().find(|(name, _)| name == part) {
            Some((_, sum)) => *sum += time,
            None => self.0.push((part.to_owned(), time)),
        }
        outcome
    }

    /// Prints the time of each part beside its budget, and a warning for each part that exceeds it.
    pub(crate) fn print(&self) {
        println!("{:<24} {:>8} {:>8}", "part of CI", "used s", "budget s");
        for (part, time) in &self.0 {
            let budget = budget(part).map_or_else(|| "none".to_owned(), |seconds| seconds.to_string());
            println!("{part:<24} {:>8.1} {budget:>8}", time.as_secs_f64());
        }
        let sum: Duration = self.0.iter().map(|(_, time)| *time).sum();
        println!("{:<24} {:>8.1} {:>8}", "sum", sum.as_secs_f64(), total());
        self.warnings().iter().for_each(|warning| eprintln!("xtask: WARNING: {warning}"));
    }

    /// Returns a line for each part that exceeds its budget or has none.
    fn warnings(&self) -> Vec<String> {
        let warning = |(part, time): &(String, Duration)| match budget(part) {
            None => Some(format!("{part} has no budget; add one in xtask/src/budget.rs")),
            Some(seconds) if *time > Duration::from_secs(u64::from(seconds)) => Some(format!(
                "{part} took {:.1} s, and its budget is {seconds} s; if the machine was quiet, make it faster or \
                 move cases to the full form (docs/contributing.md)",
                time.as_secs_f64()
            )),
            Some(_) => None,
        };
        self.0.iter().filter_map(warning).collect()
    }
}

fn budget(part: &str) -> Option<u32> {
    CRATES.iter().chain(PARTS).find(|(name, _)| *name == part).map(|(_, seconds)| *seconds)
}

fn total() -> u32 {
    CRATES.iter().chain(PARTS).map(|(_, seconds)| seconds).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_budgets_together_stay_below_the_longest_time_of_ci() {
        assert!(total() < CI_MAX, "{} of {CI_MAX} s", total());
    }

    #[test]
    fn a_part_over_its_budget_and_a_part_without_one_give_warnings() {
        let of = |part: &str, seconds| (part.to_owned(), Duration::from_secs(seconds));
        let times = Times(vec![of("usb", 10), of("tidy", 6), of("unknown", 0)]);
        let warnings = times.warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("tidy took 6.0 s, and its budget is 5 s"), "{warnings:?}");
        assert!(warnings[1].starts_with("unknown has no budget"), "{warnings:?}");
    }
}
