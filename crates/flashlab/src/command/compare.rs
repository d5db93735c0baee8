//! `flashlab compare`: one job on many devices.

use super::jobs::{self, Setup};
use crate::failure::{Failure, say};
use crate::{Medium, file, progress};
use clap::Args;
use flashlab_fio::cmdline::Invocation;
use flashlab_lab::bench::Hint;
use flashlab_lab::compare::{Compared, compare};
use flashlab_lab::device::Device;
use flashlab_lab::library::Library;
use std::path::Path;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    medium: Medium,
    /// Leaves a new device as it is; else what the jobs read is written before they begin.
    #[arg(long)]
    unwritten: bool,
    /// The devices: `sd/*`, `sd/s*:host=raspberry-pi-4`, or one name.
    devices: String,
    /// A job file (`-`: standard input), or fio's own options.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FIO")]
    fio: Vec<String>,
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let opening = format!("opening {}", options.devices);
    let all = progress::during(opening, || Device::open_all(&options.devices, library))?;
    let (mut devices, mut timeless): (Vec<_>, Vec<_>) = all.into_iter().partition(Device::takes_time);
    // Whoever asks for these alone gets them.
    if devices.is_empty() {
        devices.append(&mut timeless);
    }
    let invocation = jobs::read(&options.fio)?;
    jobs::no_fio_output("compare", "one table, and no fio output for each device", &invocation)?;
    let setup = Setup::new(&options.medium, &invocation, library)?;
    if invocation.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    jobs::check_outputs(&invocation, false)?;
    progress::catch_interrupts();
    let compared = {
        let progress = progress::Shown::new("compare");
        compare(&devices, &|device| setup.bench(device), &invocation.jobs, !options.unwritten, &progress)
    };
    if let Some(error) = refused_by_all(&compared) {
        return Err(error);
    }
    let table = flashlab_report::compare::table(&compared);
    match &invocation.output {
        Some(path) => file::write(Path::new(path), table.as_bytes())?,
        None => file::print(&table)?,
    }
    remarks(&compared, &options.medium, &invocation);
    if !timeless.is_empty() {
        let names: Vec<&str> = timeless.iter().map(|device| device.name.as_str()).collect();
        say(format_args!("left out, since they take no time: {}", names.join(", ")));
    }
    let all = compared.iter().all(|device| device.lines.is_ok());
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A job that no device takes for one and the same reason is itself at fault.
fn refused_by_all(compared: &[Compared]) -> Option<Failure> {
    let mut errors = compared.iter().map(|device| device.lines.as_ref().err());
    let first = errors.next()??;
    errors.all(|error| error == Some(first)).then(|| Failure::usage(first))
}

/// What the table does not show.
fn remarks(compared: &[Compared], medium: &Medium, invocation: &Invocation) {
    let mut hints: Vec<&Hint> = Vec::new();
    for hint in compared.iter().flat_map(|device| &device.hints) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints.into_iter().for_each(say);
    jobs::remarks("compare", medium, invocation);
}
