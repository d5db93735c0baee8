//! `flashlab trace`: the bus traffic between a host and a card, step by step.

use crate::failure::{Failure, say};
use crate::file;
use crate::width::columns;
use clap::{Args, Subcommand, ValueEnum};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_lab::trace::{self, Controller, Kernel};
use flashlab_report::{html, json, terminal};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Initialisation of a card by Linux: each command, the meaning of its response, its duration.
    BringUp(BringUp),
}

#[derive(Args)]
struct BringUp {
    /// The card: `sd/kingston`, `sd/kingston:card.t_init=500ms`; `flashlab devices` lists all.
    card: String,
    /// The host controller: pl181, sdhci, sdhci-uhs, bcm2711, vub300, at91rm9200, at91rm9200-1-block. The default is
    /// the controller of the card's own host.
    #[arg(long, value_name = "CONTROLLER")]
    host: Option<String>,
    /// The version of Linux: 5.15, 6.1, 6.12 or 6.13.
    #[arg(long, default_value = "6.1", value_name = "VERSION")]
    kernel: String,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// File for a page with a sequence diagram.
    #[arg(long, value_name = "PAGE")]
    html: Option<PathBuf>,
    /// Seed of the medium.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The commands and the meaning of the responses.
    Table,
    /// The lines that Linux prints with dynamic debug enabled for mmc_core.
    Linux,
    /// All steps as JSON; standard output contains nothing else.
    Json,
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let What::BringUp(options) = &options.what;
    super::jobs::check_page(options.html.as_deref(), &[&options.card])?;
    let device = Device::open(&options.card, library)?;
    let controller = match &options.host {
        None => trace::controller_of(&device.host_name),
        Some(name) => Controller::named(name).ok_or_else(|| {
            unknown("host controller", name, Controller::ALL.iter().map(|controller| controller.name))
        })?,
    };
    let kernel = Kernel::named(&options.kernel)
        .ok_or_else(|| unknown("kernel", &options.kernel, Kernel::ALL.iter().map(|kernel| kernel.name())))?;
    let trace = trace::bring_up(&device, controller, kernel, options.seed).ok_or_else(|| {
        Failure::usage(format!("{} is not an SD card; `flashlab devices` lists them", options.card))
    })?;
    file::print(&match options.format {
        Format::Table => terminal::trace(&trace, columns()),
        Format::Linux => trace.linux.iter().map(|line| format!("{line}\n")).collect(),
        Format::Json => json::trace(&trace),
    })?;
    if let Some(path) = &options.html {
        file::write(path, html::trace_page(&trace, &super::jobs::as_typed()).as_bytes())?;
        say(format_args!("the page is {}", path.display()));
    }
    Ok(if trace.found.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn unknown(what: &str, name: &str, known: impl Iterator<Item = &'static str>) -> Failure {
    let known: Vec<&str> = known.collect();
    Failure::usage(format!("unknown {what} {name}; the known ones are {}", known.join(", ")))
}
