//! The commands that take measurements, fit profiles to them, and compare results.

use super::{diff, fit, measure, probe};
use crate::failure::Failure;
use clap::Subcommand;
use flashlab_catalogue::library::Library;
use std::process::ExitCode;

#[derive(Subcommand)]
pub(crate) enum Measurement {
    /// Compares two results: the figures that changed, and the mechanisms that explain them.
    ///
    /// Reads the JSON of `run`, `compare`, `bench` and `measure`, fio's JSON from hardware, and all other
    /// formats that `fit` reads. Ends with 0 if the results are equal, with 1 if they differ, and with 2 on
    /// an error.
    Diff(diff::Options),
    /// Measures a card, a file or a virtual device by a plan of fio jobs, for `flashlab fit`.
    ///
    /// The command only reads, unless --destroy permits writes to the whole device, or the target is a directory.
    Measure(measure::Options),
    /// Estimates the numbers of a card from measurements, and writes a profile.
    ///
    /// The output says which numbers the measurements determine. `docs/fit.md` describes the fit.
    Fit(fit::Options),
    /// Finds the structure of a device from the latencies of micro-patterns.
    ///
    /// Without --destroy, the probe only reads. `docs/probe.md` describes each finding and its rule.
    Probe(probe::Options),
}

impl Measurement {
    pub(crate) fn run(&self, library: &Library) -> Result<ExitCode, Failure> {
        match self {
            Measurement::Diff(options) => diff::run(options),
            Measurement::Measure(options) => measure::run(options, library),
            Measurement::Fit(options) => fit::run(options, library),
            Measurement::Probe(options) => probe::run(options, library),
        }
    }
}
