//! Commands whose feature this build leaves out. The program still recognises these commands. Its error
//! message names the feature.

#![cfg_attr(
    any(
        feature = "fit",
        feature = "image",
        feature = "record",
        feature = "serve",
        feature = "manual",
        feature = "sweep",
        feature = "volume",
        feature = "web"
    ),
    expect(dead_code, reason = "this build has these commands")
)]

use crate::failure::Failure;
use clap::{Args, Subcommand};
use std::ffi::OsString;

/// The commands of the feature `fit`.
#[derive(Subcommand)]
pub(crate) enum Measurement {
    /// Compares two results: the figures that changed, and the mechanisms that explain them (not in this build; feature `fit`).
    Diff(Ignored),
    /// Measures a card, a file or a virtual device by a plan of fio jobs (not in this build; feature `fit`).
    Measure(Ignored),
    /// Estimates the numbers of a card from measurements, and writes a profile (not in this build; feature `fit`).
    Fit(Ignored),
    /// Finds the structure of a device from the latencies of micro-patterns (not in this build; feature `fit`).
    Probe(Ignored),
}

/// The command of the feature `record`.
#[derive(Subcommand)]
pub(crate) enum Record {
    /// Records a workload on a filesystem under a real kernel, in a QEMU guest (not in this build; feature `record`).
    Record(Ignored),
}

/// The command of the feature `image`.
#[derive(Subcommand)]
pub(crate) enum Image {
    /// Composes disks from recipes, builds root images, lists the files that an overlay changed (not in this build; feature `image`).
    Image(Ignored),
}

/// The commands of the feature `serve`.
#[derive(Subcommand)]
pub(crate) enum Server {
    /// Serves devices as real block devices over NBD (not in this build; feature `serve`).
    Serve(Ignored),
    /// Controls a running server: statistics, wear, power cuts, faults (not in this build; feature `serve`).
    Ctl(Ignored),
    /// Generates load on any NBD server (not in this build; feature `serve`).
    Load(Ignored),
}

/// The commands of the feature `manual`.
#[derive(Subcommand)]
pub(crate) enum Manual {
    /// Prints completions of the command line for a shell (not in this build; feature `manual`).
    Completions(Ignored),
    /// Prints manual pages (not in this build; feature `manual`).
    Man(Ignored),
}

/// The command of the feature `sweep`.
#[derive(Subcommand)]
pub(crate) enum Sweep {
    /// Runs one job at every point of a grid or a sample, and stores the figures (not in this build; feature `sweep`).
    Sweep(Ignored),
}

/// The command of the feature `web`.
#[derive(Subcommand)]
pub(crate) enum Web {
    /// Shows a virtual device under a job as a live page in a browser (not in this build; feature `web`).
    Web(Ignored),
}

/// The command of the feature `volume`.
#[derive(Subcommand)]
pub(crate) enum Volume {
    /// Makes one device of several: a copy-on-write volume (not in this build; feature `volume`).
    Volume(Ignored),
}

/// Arguments of a command that is not in this build.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

impl Measurement {
    pub(crate) fn failure(&self) -> Failure {
        let command = match self {
            Measurement::Diff(_) => "diff",
            Measurement::Measure(_) => "measure",
            Measurement::Fit(_) => "fit",
            Measurement::Probe(_) => "probe",
        };
        failure(&format!("flashlab {command}"), "fit")
    }
}

impl Record {
    pub(crate) fn failure(&self) -> Failure {
        failure("flashlab record", "record")
    }
}

impl Image {
    pub(crate) fn failure(&self) -> Failure {
        failure("flashlab image", "image")
    }
}

impl Server {
    pub(crate) fn failure(&self) -> Failure {
        let command = match self {
            Server::Serve(_) => "serve",
            Server::Ctl(_) => "ctl",
            Server::Load(_) => "load",
        };
        failure(&format!("flashlab {command}"), "serve")
    }
}

impl Manual {
    pub(crate) fn failure(&self) -> Failure {
        let command = match self {
            Manual::Completions(_) => "completions",
            Manual::Man(_) => "man",
        };
        failure(&format!("flashlab {command}"), "manual")
    }
}

impl Sweep {
    pub(crate) fn failure(&self) -> Failure {
        failure("flashlab sweep", "sweep")
    }
}

impl Volume {
    pub(crate) fn failure(&self) -> Failure {
        failure("flashlab volume", "volume")
    }
}

impl Web {
    pub(crate) fn failure(&self) -> Failure {
        failure("flashlab web", "web")
    }
}

/// Returns the usage error of `wanted`, which needs the cargo feature `feature`.
pub(crate) fn failure(wanted: &str, feature: &str) -> Failure {
    Failure::usage(format_args!(
        "{wanted} is not in this build; build with the feature `{feature}` (cargo build --release --features \
         {feature}), or with all of them (--features full)"
    ))
}
