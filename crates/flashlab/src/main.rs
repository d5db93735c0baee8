//! The command line. This crate connects other crates: `lab` runs experiments and jobs, and `report` formats
//! their results.
//!
//! Exit codes:
//!
//! - 0: the command succeeded and all bounds held.
//! - 1: a bound was missed (the message names it), or I/O failed; `diff`: the results differ.
//! - 2: the arguments, the job, the profile, the experiment or another input file are invalid; `diff`: any error.
//! - 128: Ctrl-C stopped a bench or a measurement, which kept its results up to that point.
//! - 130: Ctrl-C stopped another command; `serve` and `web` then end with 0.

mod command;
mod edge;
mod failure;
mod file;
#[cfg(feature = "volume")]
mod interrupts;
mod limits;
#[cfg(feature = "serve")]
mod live;
#[cfg(feature = "serve")]
mod logging;
mod progress;
mod recorded;
#[cfg(feature = "serve")]
mod status;
#[cfg(any(feature = "serve", feature = "web"))]
mod tcp;
mod version;
mod width;
mod words;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand};
use failure::Failure;
use flashlab_catalogue::library::Library;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Allocator that asks for huge pages, since lookups in the maps of large devices are spread over all of their memory.
#[global_allocator]
static ALLOCATOR: flashlab_block::HugePages = flashlab_block::HugePages;

const EXAMPLES: &str = "\
Examples:
  flashlab run sd-cards
  flashlab bench sd/kingston job.fio
  flashlab bench sd/kingston --name=a --rw=randwrite --bs=4k --direct=1 --runtime=60
  flashlab bench --fs vfat sd/kingston --name=a --directory=/mnt --rw=write --size=64m --direct=1
  flashlab compare 'sd/*' job.fio
  flashlab diff before.json after.json --tolerance 2
  flashlab age sd/kingston job.fio --to used.state
  flashlab bench sd/kingston:state=used.state job.fio
  flashlab run endurance --job job.fio --devices 'sd/kingston:cycles=3000' --seeds 4
  flashlab explain sd/kingston
  flashlab measure sd/kingston --plan quick --to card.json
  flashlab fit card.json --host raspberry-pi-4 --to my-card.toml
  flashlab probe sd/kingston --destroy --html probe.html
  flashlab trace bring-up sd/kingston

Exit codes: 0 success, and all bounds held; 1 a bound was missed, or reading, writing or the device failed; 2 invalid
arguments, job, profile, experiment or other input; 128 Ctrl-C stopped a bench or a measurement, which kept its results
so far; 130 Ctrl-C stopped another command (serve and web end with 0). diff ends with 1 if the results differ, and with
2 after an error. If the reader of a pipe closes it early, the command ends with 1 and without a message.";

/// A flash-storage laboratory: virtual SD cards in simulated time, compared with measurements of real ones.
#[derive(Parser)]
#[command(version, long_version = version::LONG, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    /// Adds the profiles and experiments of DIR (laid out like this repository) to the built-in ones.
    #[arg(long, global = true, value_name = "DIR")]
    library: Vec<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs an experiment and shows its figures beside the published ones.
    Run(command::run::Options),
    /// Runs fio jobs on a virtual device, in simulated time, with fio's output.
    ///
    /// Options of flashlab come before the device; everything after it belongs to fio.
    Bench(command::bench::Options),
    /// Runs a job on a virtual device and saves the resulting state: a used device.
    ///
    /// Options of flashlab come before the device; everything after it belongs to fio, except --to FILE.
    /// DEVICE:state=FILE starts another command from the saved state. With a filesystem (--fs), the state contains the
    /// device alone.
    Age(command::age::Options),
    /// Runs one job on many devices and compares the results.
    Compare(command::compare::Options),
    #[command(flatten)]
    Measurement(command::Measurement),
    #[command(flatten)]
    Record(command::Record),
    /// Imports recorded runs, shows their contents, and replays them on virtual devices.
    ///
    /// `docs/recordings.md` describes the format, the causes of requests and the modes of replay.
    Recording(command::recording::Options),
    #[command(flatten)]
    Sweep(command::Sweep),
    #[command(flatten)]
    Image(command::Image),
    #[command(flatten)]
    Server(command::Server),
    #[command(flatten)]
    Volume(command::Volume),
    #[command(flatten)]
    Web(command::Web),
    /// Shows the bus traffic between a host and a card, step by step.
    Trace(command::trace::Options),
    /// Lists the available devices, hosts and filesystems.
    Devices {
        /// Limits the list to names that begin with this text (`sd/`) or match this pattern (`sd/s*`).
        pattern: Option<String>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Lists the available experiments.
    Experiments {
        /// Prints only the names, one per line.
        #[arg(long, conflicts_with = "json")]
        names: bool,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Explains a number, device, mechanism or fio option: its meaning and its source.
    Explain {
        /// Name to explain: `flash.t_prog`, `t_prog`, `sd/kingston`, `merge`, `bs`, ...; without it, lists all names.
        #[arg(allow_hyphen_values = true)]
        what: Option<String>,
        /// Prints JSON; may also follow the name.
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Manual(command::Manual),
}

/// Options that `bench`, `age` and `compare` share.
#[derive(Args)]
struct Medium {
    /// Seed of the medium, which draws a factor for each erase block.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Filesystem between the job and the device: `vfat`, `vfat:align=1MiB`.
    #[arg(long, value_name = "FILESYSTEM")]
    fs: Option<String>,
}

fn main() -> ExitCode {
    limits::install_limit_handlers();
    let result = parse().and_then(run);
    failure::say_notes();
    match result {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// Parses the command line. Prints help and the version to standard output, like results, and then ends the process.
fn parse() -> Result<Cli, Failure> {
    Cli::try_parse().map_err(|error| {
        let error = name_the_order(error);
        let printed = error.print().and_then(|()| io::stdout().flush());
        match printed {
            Err(output) if !error.use_stderr() => Failure::stdout(&output),
            // If the usage error cannot be printed, the exit code still reports it.
            _ => std::process::exit(error.exit_code()),
        }
    })
}

/// Replaces clap's advice on an unknown option that precedes the device of a job, because it is often an option of fio.
fn name_the_order(mut error: clap::Error) -> clap::Error {
    let has = |kind| error.get(kind).is_some();
    let takes_jobs = error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains("FIO]"));
    if takes_jobs && has(ContextKind::Suggested) && !has(ContextKind::SuggestedArg) {
        let advice = "options of fio follow the device: sd/kingston --name=a --rw=randread";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let library = Library::open(&cli.library)?;
    match cli.command {
        Command::Run(options) => command::run::run(&options, &library),
        Command::Bench(options) => command::bench::run(&options, &library),
        Command::Age(options) => command::age::run(&options, &library),
        Command::Compare(options) => command::compare::run(&options, &library),
        #[cfg(feature = "fit")]
        Command::Measurement(command) => command.run(&library),
        #[cfg(not(feature = "fit"))]
        Command::Measurement(command) => Err(command.failure()),
        #[cfg(feature = "record")]
        Command::Record(command) => command.run(&library),
        #[cfg(not(feature = "record"))]
        Command::Record(command) => Err(command.failure()),
        Command::Recording(options) => command::recording::run(&options, &library),
        #[cfg(feature = "sweep")]
        Command::Sweep(command) => command.run(&library),
        #[cfg(not(feature = "sweep"))]
        Command::Sweep(command) => Err(command.failure()),
        #[cfg(feature = "image")]
        Command::Image(command) => command.run(),
        #[cfg(not(feature = "image"))]
        Command::Image(command) => Err(command.failure()),
        #[cfg(feature = "serve")]
        Command::Server(command) => command.run(&library),
        #[cfg(not(feature = "serve"))]
        Command::Server(command) => Err(command.failure()),
        #[cfg(feature = "volume")]
        Command::Volume(command) => command.run(&library),
        #[cfg(not(feature = "volume"))]
        Command::Volume(command) => Err(command.failure()),
        #[cfg(feature = "web")]
        Command::Web(command) => command.run(&library),
        #[cfg(not(feature = "web"))]
        Command::Web(command) => Err(command.failure()),
        Command::Trace(options) => command::trace::run(&options, &library),
        Command::Devices { pattern, json } => command::list::devices(&library, pattern.as_deref(), json),
        Command::Experiments { names, json } => command::list::experiments(&library, names, json),
        Command::Explain { what, json } => match what.as_deref().map(str::trim) {
            None | Some("") => command::explain::list(&library, json),
            Some(what) => command::explain::run(what, &library, json),
        },
        #[cfg(feature = "manual")]
        Command::Manual(command) => command.run(&library),
        #[cfg(not(feature = "manual"))]
        Command::Manual(command) => Err(command.failure()),
    }
}
