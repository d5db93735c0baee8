//! `flashlab probe`: finds the structure of a device from the latencies of micro-patterns.

use super::target::TargetKind;
use crate::failure::{Failure, say};
use crate::width::columns;
use crate::{file, progress};
use clap::{Args, ValueEnum};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fit::probe::Options as Permissions;
use flashlab_report::html::probe_page;
use flashlab_report::probe as report;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    /// The device: `sd/kingston`, `nvme/reference:blocks=40,ftl.capacity=3584MiB`.
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
    /// File for a page with the findings and a figure of each one's evidence.
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
    if TargetKind::of(&options.target) != TargetKind::Virtual {
        return Err(Failure::usage(format_args!(
            "{}: probe runs on virtual devices only; `flashlab devices` lists them",
            options.target
        )));
    }
    let device = Device::open(&options.target, library)?;
    [&options.to, &options.html].into_iter().flatten().try_for_each(|path| file::check_output(path))?;
    let permissions = Permissions { destroy: options.destroy, whole_device: options.whole_device };
    let (findings, stopped) = {
        let display = progress::ProgressDisplay::new(format!("probe {}", options.target));
        progress::stop_on_interrupt(&display);
        let findings = flashlab_lab::probe::probe(&device, permissions, options.seed, &display)
            .map_err(Failure::failed)?;
        (findings, display.is_stopped())
    };
    match options.format {
        Format::Table => file::print(&report::table(&findings, columns()))?,
        Format::Json => file::print(&report::json(&findings))?,
    }
    if let Some(path) = &options.to {
        file::write(path, report::json(&findings).as_bytes())?;
    }
    if let Some(path) = &options.html {
        file::write(path, probe_page(&findings).as_bytes())?;
        say(format_args!("the page is {}", path.display()));
    }
    if stopped {
        say("the probe was stopped; the findings above are those so far");
        return Ok(ExitCode::from(crate::failure::INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}
