//! fio's outputs as fio 3.33 writes them: normal text, JSON, terse lines and log files.
//!
//! The outputs do not depend on the time or the machine: timestamps and process ids are 0.

pub mod json;
pub mod logs;
pub mod normal;
mod number;
pub mod terse;

pub(crate) use number::{Base, Unit, bytes, count, rate, short};

use crate::stats::Report;

/// The data from which the outputs are made.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Version of the program, such as `flashlab-0.1.0`.
    pub version: &'a str,
    /// Entries of the output, in order.
    pub reports: &'a [Report],
    /// Options of `[global]` as written, for JSON.
    pub global_options: &'a [(String, String)],
    /// Options that were accepted although they have no effect here. The output lists them.
    pub accepted: &'a [String],
}

impl Run<'_> {
    /// Returns the time from the start of the run to the end of its last job in whole seconds, rounded down, plus one, as
    /// in fio.
    fn elapsed_s(&self) -> u64 {
        let end = self.reports.iter().map(|report| report.stats.finished).max().unwrap_or_default();
        end.as_ns() / 1_000_000_000 + 1
    }
}
