//! `flashlab compare`: one job on many devices.

use super::jobs;
use crate::failure::Failure;
use crate::{Medium, file, progress};
use clap::Args;
use flashlab_lab::compare::compare;
use flashlab_lab::device::{Device, Filesystem};
use flashlab_lab::library::Library;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    medium: Medium,
    /// The devices: `sd/*`, `sd/s*:host=raspberry-pi-4`, or one name.
    devices: String,
    /// A job file, or fio's own options.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FIO")]
    fio: Vec<String>,
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let devices = Device::open_all(&options.devices, library)?;
    let filesystem = options.medium.fs.as_ref().map(|fs| Filesystem::open(fs, library)).transpose()?;
    let invocation = jobs::read(&options.fio)?;
    progress::catch_interrupts();
    let compared = {
        let progress = progress::Progress::bar(devices.len() as u64, "compare");
        compare(&devices, filesystem.as_ref(), &invocation.jobs, options.medium.seed, &|| progress.step())
    };
    file::print(&flashlab_report::compare::table(&compared))?;
    let without_effect = jobs::without_effect(&invocation);
    if !without_effect.is_empty() {
        eprintln!("flashlab: without effect here: {}", without_effect.join(", "));
    }
    let all = compared.iter().all(|device| device.lines.is_ok());
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
