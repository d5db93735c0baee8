//! Runs the tests with clocks, threads or sockets beside busy loops, because no test may depend on the speed of the
//! machine.

use crate::{Outcome, cargo};
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of busy loops beside the tests.
const LOOPS: usize = 16;

/// The tests with clocks, threads or sockets, as arguments of `cargo test`.
const TESTS: [&[&str]; 3] = [
    &["--package", "flashlab-serve", "--package", "flashlab-block"],
    &["--package", "flashlab-report", "--test", "report"],
    &["--package", "flashlab", "--features", "full", "--test", "all"],
];

/// Runs the tests `times` times with `arguments` for the test binaries, such as a filter or `--skip`.
pub(crate) fn check(times: &str, arguments: &[&str]) -> Outcome {
    let times: u32 = times.parse().map_err(|_| format!("under-load: {times} is not a number of runs"))?;
    test(&["--no-run"], &[])?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..LOOPS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let outcome = (1..=times).try_for_each(|run| {
            eprintln!("== run {run} of {times}, beside {LOOPS} busy loops");
            test(&[], arguments)
        });
        done.store(true, Ordering::Relaxed);
        outcome
    })
}

fn test(options: &[&str], arguments: &[&str]) -> Outcome {
    TESTS
        .iter()
        .try_for_each(|tests| cargo(&[&["test", "--locked"], options, tests, &["--"], arguments].concat()))
}
