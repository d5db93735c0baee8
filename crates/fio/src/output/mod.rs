//! fio's outputs: the normal text, JSON, the terse lines, and log files, as fio 3.33 writes them.
//!
//! Nothing here depends on when or where it runs: timestamps and process ids are 0.

pub mod json;
pub mod logs;
pub mod normal;
mod number;
pub mod terse;

pub(crate) use number::{Base, Unit, bytes, count, rate, short};

use crate::stats::Report;

/// Everything that an output is made of.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What made it: `flashlab-0.1.0`.
    pub version: &'a str,
    /// The entries, in order.
    pub reports: &'a [Report],
    /// Options of `[global]` as written, for JSON.
    pub global_options: &'a [(String, String)],
    /// Options that were accepted and cannot matter here; the output lists them.
    pub accepted: &'a [String],
}

impl Run<'_> {
    /// Whole seconds from the beginning to the end, the begun one included.
    fn elapsed_s(&self) -> u64 {
        let end = self.reports.iter().map(|report| report.stats.finished).max().unwrap_or_default();
        end.as_ns() / 1_000_000_000 + 1
    }
}
