//! `flashlab probe`: finds the structure of a device from the latencies of micro-patterns.

use super::target::{Opened, TargetKind};
use crate::failure::{Failure, say};
use crate::width::columns;
use crate::{file, progress};
use clap::{Args, ValueEnum};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fit::probe::{Findings, Name, Options as Permissions, Probe, Target, drive};
use flashlab_measure::{ProbeError, ProbedTarget};
use flashlab_report::html::probe_page;
use flashlab_report::probe as report;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    /// Block device, file, NBD URI, or virtual device: `/dev/sdb`, `sd/kingston`.
    target: String,
    /// Also writes and discards, anywhere on the device. All data on it is lost.
    #[arg(long)]
    destroy: bool,
    /// Also runs the patterns that write the whole device several times.
    #[arg(long, requires = "destroy")]
    whole_device: bool,
    /// File for the findings with their evidence, as JSON.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// File for a page with the findings and a figure of the evidence for each finding.
    #[arg(long, value_name = "PAGE")]
    html: Option<PathBuf>,
    /// Seed of the random offsets, and of the medium.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table to read.
    Table,
    /// The findings with their evidence as JSON; standard output contains nothing else.
    Json,
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let outputs = || [&options.to, &options.html].into_iter().flatten().map(PathBuf::as_path);
    for output in outputs() {
        // The findings go to standard output.
        file::check_not_stdout(output)?;
        file::check_output(output)?;
        file::check_not_input(output, [&options.target])?;
    }
    file::check_distinct(outputs())?;
    let permissions = Permissions { destroy: options.destroy, whole_device: options.whole_device };
    let (findings, stopped) = match TargetKind::of(&options.target) {
        TargetKind::Virtual => probe_virtual(options, permissions, library)?,
        TargetKind::Directory => {
            return Err(Failure::usage(format!(
                "{}: it is a directory; probe a block device, or a file on it",
                options.target
            )));
        }
        kind => probe_real(options, permissions, kind)?,
    };
    match options.format {
        Format::Table => file::print(&report::table(&findings, columns()))?,
        Format::Json => file::print(&report::json(&findings))?,
    }
    if let Some(path) = &options.to {
        file::write(path, report::json(&findings).as_bytes())?;
    }
    if let Some(path) = &options.html {
        file::write(path, probe_page(&findings, &super::jobs::as_typed()).as_bytes())?;
        say(format_args!("the page is {}", path.display()));
    }
    if stopped {
        say("the probe was stopped; the findings above are those so far");
        return Ok(ExitCode::from(crate::failure::INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

/// Minimum capacity of a real target in bytes: the size of one read in the patterns.
const CAPACITY_MIN: u64 = 4096;

/// Probes a virtual device in simulated time. Returns the findings, and whether Ctrl-C stopped the probe.
fn probe_virtual(
    options: &Options,
    permissions: Permissions,
    library: &Library,
) -> Result<(Findings, bool), Failure> {
    let device = Device::open(&options.target, library)?;
    let display = progress::ProgressDisplay::new(format!("probe {}", options.target));
    progress::stop_on_interrupt(&display);
    let findings = flashlab_lab::probe::probe(&device, permissions, options.seed, &display);
    Ok((findings.map_err(Failure::failed)?, display.is_stopped()))
}

/// Probes a real device in real time. Returns the findings, and whether Ctrl-C stopped the probe.
fn probe_real(
    options: &Options,
    permissions: Permissions,
    kind: TargetKind,
) -> Result<(Findings, bool), Failure> {
    let opened = Opened::new(&options.target, kind, options.destroy)?;
    if options.destroy {
        say(format_args!("{}: the probe writes all over the device; all its data is lost", options.target));
    }
    let display = progress::ProgressDisplay::new(format!("probe {}", options.target));
    progress::stop_on_interrupt(&display);
    let is_stopped = || display.is_stopped();
    let mut target = ProbedTarget::new(&*opened.device, &is_stopped);
    let geometry = target.geometry();
    if geometry.capacity < CAPACITY_MIN {
        return Err(Failure::usage(format_args!(
            "{}: it has {} bytes; a probe needs at least {CAPACITY_MIN}",
            options.target, geometry.capacity
        )));
    }
    let mut probe = Probe::new(geometry, permissions, options.seed);
    display.plan(Name::ALL.len() as u64);
    let outcome = drive(&mut probe, &mut target, |probe, _| {
        display.reach(probe.findings().len() as u64);
        true
    });
    let is_stopped = match outcome {
        Ok(_) => false,
        Err(ProbeError::Stopped) => true,
        Err(error) => return Err(Failure::failed(format!("{}: {error}", options.target))),
    };
    let findings = Findings {
        target: options.target.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: options.seed,
        capacity: geometry.capacity,
        block: geometry.block,
        written_bytes: probe.written_bytes(),
        destroy: options.destroy,
        findings: probe.findings(),
    };
    Ok((findings, is_stopped))
}
