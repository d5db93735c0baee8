//! Time budgets of CI: wall-clock seconds of each crate's tests and of each other part, with a warm build directory on
//! two quiet cores.
//!
//! The table also contains the processor time of the programs that a part has run, which depends less on other users of the
//! machine.
//!
//! A part over its budget gives a warning and not a failure, because machines differ and other programs share them.

use crate::Outcome;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::time::{Duration, Instant};

/// Largest sum of the budgets in seconds. A run takes about two thirds of it, because each budget has room for a machine
/// that is not quite quiet.
#[cfg(test)]
const CI_MAX: u32 = 20 * 60;

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
    ("flashlab", 200),
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
    ("docs", 25),
    ("build of the tests", 120),
    ("examples in documents", 20),
    ("examples", 5),
    ("python", 20),
    ("faults", 60),
    ("golden-check", 170),
    ("fit-check", 40),
];

/// Time of each part so far, in the order of the runs.
#[derive(Default, Debug)]
pub(crate) struct Times(Vec<Time>);

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
        match self.0.iter_mut().find(|time| time.part == part) {
            Some(time) => {
                time.wall += wall;
                time.processor += processor;
            }
            None => self.0.push(Time { part: part.to_owned(), wall, processor }),
        }
        outcome
    }

    /// Prints the times of each part beside its budget, and a warning for each part that exceeds it.
    pub(crate) fn print(&self) {
        println!("{:<24} {:>8} {:>8} {:>8}", "part of CI", "CPU s", "used s", "budget s");
        for Time { part, wall, processor } in &self.0 {
            let budget = budget(part).map_or_else(|| "none".to_owned(), |seconds| seconds.to_string());
            println!("{part:<24} {:>8.1} {:>8.1} {budget:>8}", processor.as_secs_f64(), wall.as_secs_f64());
        }
        let sum = |of: fn(&Time) -> Duration| self.0.iter().map(of).sum::<Duration>().as_secs_f64();
        let (processor, wall) = (sum(|time| time.processor), sum(|time| time.wall));
        println!("{:<24} {processor:>8.1} {wall:>8.1} {:>8}", "sum", total());
        self.warnings().iter().for_each(|warning| eprintln!("xtask: WARNING: {warning}"));
    }

    /// Returns a line for each part that exceeds its budget or has none.
    fn warnings(&self) -> Vec<String> {
        let warning = |Time { part, wall, .. }: &Time| match budget(part) {
            None => Some(format!("{part} has no budget; add one in xtask/src/budget.rs")),
            Some(seconds) if *wall > Duration::from_secs(u64::from(seconds)) => Some(format!(
                "{part} took {:.1} s, and its budget is {seconds} s; if the machine was quiet, make it faster or \
                 move cases to the full form (docs/contributing.md)",
                wall.as_secs_f64()
            )),
            Some(_) => None,
        };
        self.0.iter().filter_map(warning).collect()
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
        let of = |part: &str, seconds| Time {
            part: part.to_owned(),
            wall: Duration::from_secs(seconds),
            processor: Duration::ZERO,
        };
        let times = Times(vec![of("usb", 10), of("tidy", 6), of("unknown", 0)]);
        let warnings = times.warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("tidy took 6.0 s, and its budget is 5 s"), "{warnings:?}");
        assert!(warnings[1].starts_with("unknown has no budget"), "{warnings:?}");
    }

    #[test]
    fn the_time_of_a_part_includes_the_processor_time_of_its_programs() {
        let mut times = Times::default();
        let busy = "n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done";
        times.measure("busy", || crate::run(std::process::Command::new("sh").args(["-c", busy]))).unwrap();
        assert!(times.0[0].processor > Duration::ZERO, "{times:?}");
    }
}
