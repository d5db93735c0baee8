//! `flashlab measure`: runs a plan of fio jobs on a card, a file or a virtual device, and writes a measurement file.

mod real;
mod session;
mod simulated;

use super::target::{Opened, TargetKind};
use crate::failure::Failure;
use crate::{file, progress, words};
use clap::Args;
use flashlab_catalogue::library::Library;
use flashlab_fio::number::{KbBase, LARGEST, bounded};
use flashlab_fit::plan::{Area, CAPACITY_MIN, Plan, Scale};
use flashlab_report::quantity::size;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  flashlab measure /dev/sdb --to card.json                      only reads
  flashlab measure /dev/sdb --to card.json --destroy            overwrites the card
  flashlab measure /mnt/card --to card.json                     in a file of its own on a mounted card
  flashlab measure nbd://board/card --to card.json              an export of an NBD server
  flashlab measure sd/kingston --to card.json --plan quick      a virtual device, in simulated time
  flashlab measure --plan standard --destroy --print-fio        the same plan for a board that has only fio

The command refuses disks that are mounted or in use. Ctrl-C keeps the results so far (exit code 128); the same command
continues from there.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Measurement file to write. If it contains an interrupted measurement of the same real target by the
    /// same plan, the command continues that measurement. With --print-fio, the job file to write.
    #[arg(long, value_name = "FILE", required_unless_present = "print_fio")]
    to: Option<PathBuf>,
    /// Plan: `quick` takes about a minute, `standard` about ten.
    #[arg(long, value_name = "PLAN", default_value = "standard", value_parser = scale)]
    plan: Scale,
    /// Permits writes to the whole device. ALL DATA ON IT IS LOST.
    #[arg(long)]
    destroy: bool,
    /// Prints the plan as a job file of fio, with the shell line that runs it, or writes it to --to; measures nothing.
    #[arg(long)]
    print_fio: bool,
    /// Capacity for --print-fio; the plan also fits every larger card.
    #[arg(long, value_name = "SIZE", requires = "print_fio", value_parser = bytes)]
    capacity: Option<u64>,
    /// Name of the host's profile, such as `raspberry-pi-4`, for `flashlab fit`. A virtual device names its own.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Seed of the medium of a virtual device.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Block device, file, directory, NBD URI, or virtual device (`sd/kingston`).
    #[arg(required_unless_present = "print_fio")]
    target: Option<String>,
}

fn scale(text: &str) -> Result<Scale, String> {
    Scale::parse(text).ok_or_else(|| "expected quick or standard".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    bounded(text, KbBase::default(), CAPACITY_MIN, LARGEST).map_err(|error| error.fault.to_string())
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    if options.print_fio {
        return print_fio(options);
    }
    let (Some(target), Some(to)) = (options.target.as_deref(), options.to.as_deref()) else {
        return Err(Failure::usage("measure needs a target and --to FILE"));
    };
    check_host(options, library)?;
    file::check_not_stdout(to)?;
    file::check_output(to)?;
    file::check_not_input(to, [target])?;
    let progress = progress::ProgressDisplay::new(format!("measure {target}"));
    progress::stop_on_interrupt(&progress);
    match TargetKind::of(target) {
        TargetKind::Virtual => simulated::run(options, target, to, library, &progress),
        TargetKind::Directory => real::directory(options, target, to, &progress),
        kind => real::opened(options, Opened::new(target, kind, options.destroy)?, to, &progress),
    }
}

fn check_host(options: &Options, library: &Library) -> Result<(), Failure> {
    let Some(host) = &options.host else { return Ok(()) };
    library.host(host).map(drop).map_err(|error| Failure::usage(format!("--host {host}: {error}")))
}

/// Capacity that practically every card reaches; SD cards of less than 2 GB are rare by now.
const COMMON_CAPACITY: u64 = 2_000_000_000;

fn print_fio(options: &Options) -> Result<ExitCode, Failure> {
    let area = Area {
        capacity: options.capacity.unwrap_or(COMMON_CAPACITY),
        block: 512,
        is_writable: options.destroy,
        discards: options.destroy,
    };
    let plan = Plan::new(options.plan, &area).map_err(Failure::usage)?;
    let target = options.target.as_deref().unwrap_or("/dev/mmcblk0");
    let Some(to) = &options.to else {
        file::print(&plan.fio_file("plan.fio", target))?;
        return Ok(ExitCode::SUCCESS);
    };
    file::check_not_stdout(to)?;
    file::check_output(to)?;
    let name = to.display().to_string();
    file::write(to, plan.fio_file(&words::quote(&name), target).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
