//! `flashlab compare`: runs one job on many devices and compares the results.

use super::jobs::{self, Setup};
use super::run::print_skipped_devices;
use crate::failure::{Failure, say};
use crate::width::columns;
use crate::{Medium, file, progress};
use clap::{Args, ValueEnum};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::Hint;
use flashlab_lab::compare::{Compared, compare};
use flashlab_lab::figures::DeviceFigures;
use flashlab_lab::run_inputs::RunInputs;
use flashlab_report::compare as report;
use flashlab_report::html::{JobPage, jobs_page};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    medium: Medium,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// File for a page with results, latencies and mechanisms.
    #[arg(long, value_name = "PAGE")]
    html: Option<PathBuf>,
    /// Leaves new devices unwritten. By default, the data that the jobs read is written before they begin.
    #[arg(long)]
    unwritten: bool,
    /// Also writes, before the jobs begin, the space that they overwrite or write at random, as on devices that hold
    /// data there.
    #[arg(long, conflicts_with = "unwritten")]
    written: bool,
    /// The devices: `sd/kingston sd/sandisk`, `sd/*`, `sd/s*:host=raspberry-pi-4`.
    device: String,
    /// More devices, then a job file (`-`: standard input), a recording, or options of fio. The first word that is
    /// neither a device nor a pattern of devices begins fio's part.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "DEVICES... FIO")]
    rest: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table to read.
    Table,
    /// All figures as JSON; standard output contains nothing else.
    Json,
    /// One CSV record for each direction of each job on each device.
    Csv,
}

/// Splits the words after the first device into more devices and fio's part.
///
/// A word with the prefix of a device family (`sd/`, `nvme/`) names devices, unless a file of that name exists. The
/// name of a device file (`card.toml`) also names a device.
fn split<'a>(words: &'a [String], library: &Library) -> (&'a [String], &'a [String]) {
    let is_family = |word: &str| {
        let family = word.split_once('/').map(|(family, _)| family);
        family.is_some_and(|family| {
            library.devices().any(|(name, _)| name.split_once('/').is_some_and(|(of, _)| of == family))
        })
    };
    let is_device = |word: &String| {
        let name = word.split(':').next().unwrap_or(word);
        !word.starts_with('-') && (name.ends_with(".toml") || is_family(name) && !Path::new(word).is_file())
    };
    words.split_at(words.iter().position(|word| !is_device(word)).unwrap_or(words.len()))
}

/// Returns true if a word begins like memory, a file, a volume or an export, which move bytes and have no
/// model.
fn is_bytes(word: &str) -> bool {
    ["memory:", "file:", "volume:", "nbd:", "nbd+unix:"].iter().any(|prefix| word.starts_with(prefix))
}

/// Opens each device that matches `patterns` once.
pub(super) fn open_all<'a>(
    patterns: impl Iterator<Item = &'a String>,
    library: &Library,
) -> Result<Vec<Device>, Failure> {
    let mut all: Vec<Device> = Vec::new();
    for pattern in patterns {
        for device in
            progress::show_elapsed(format!("opening {pattern}"), || Device::open_all(pattern, library))?
        {
            if !all.iter().any(|other| other.argument == device.argument) {
                all.push(device);
            }
        }
    }
    Ok(all)
}

/// Returns the names of the matching devices that are left out because they have no timing, each once.
pub(super) fn untimed<'a>(
    patterns: impl Iterator<Item = &'a String>,
    library: &Library,
) -> Result<Vec<String>, Failure> {
    let mut all: Vec<String> = Vec::new();
    for pattern in patterns {
        for name in Device::untimed(pattern, library)? {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    Ok(all)
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let (more_devices, fio) = split(&options.rest, library);
    let named = std::iter::once(&options.device).chain(&options.rest);
    if let Some(bytes) = named.into_iter().find(|word| is_bytes(word)) {
        return Err(Failure::usage(format!(
            "{bytes}: compare takes simulated devices; bench takes volume:, memory:, file: and other devices that move bytes"
        )));
    }
    let patterns = || std::iter::once(&options.device).chain(more_devices);
    let devices = open_all(patterns(), library)?;
    let mut untimed = untimed(patterns(), library)?;
    untimed.retain(|name| devices.iter().all(|device| device.name != *name));
    let invocation = jobs::read("compare", fio)?;
    jobs::check_no_output_format(
        "compare",
        "one table instead of fio's output for each device",
        &invocation,
    )?;
    let setup = Setup::new(&options.medium, &invocation, library)?;
    if invocation.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    let read: Vec<&str> = std::iter::once(&options.device).chain(&options.rest).map(String::as_str).collect();
    jobs::check_outputs(&invocation, false, &read)?;
    jobs::check_page(options.html.as_deref(), &read)?;
    file::check_distinct(options.html.as_deref().into_iter().chain(jobs::output(&invocation)))?;
    progress::catch_interrupts();
    let compared = {
        let progress = progress::ProgressDisplay::new("compare");
        compare(
            &devices,
            library,
            &|device| setup.bench(device),
            &invocation.jobs,
            jobs::write_first(options.unwritten, options.written),
            &Settings { timeline: options.html.is_some(), ..Settings::default() },
            &progress,
        )
    };
    if let Some(error) = common_error(&compared) {
        return Err(error);
    }
    let figures: Vec<DeviceFigures> = compared.iter().map(Compared::device_figures).collect();
    let inputs =
        RunInputs { unwritten: options.unwritten, written: options.written, ..setup.inputs(&invocation) };
    let is_replay = invocation.jobs.iter().any(|job| job.read_iolog.is_some());
    let text = match options.format {
        Format::Table => report::table(&compared, is_replay, columns()),
        Format::Json => report::json(&inputs, &figures),
        Format::Csv => report::csv(&figures),
    };
    match &invocation.output {
        Some(path) => file::write(Path::new(path), text.as_bytes())?,
        None => file::print(&text)?,
    }
    if let Some(path) = &options.html {
        let page = JobPage {
            title: "compare",
            run: &inputs,
            command: &jobs::as_typed(),
            devices: &figures,
            notes: &report::random_writes(&compared),
        };
        file::write(path, jobs_page(&page).as_bytes())?;
        say(format_args!("the page is {}", path.display()));
    }
    print_remarks(&compared, &options.medium, &invocation);
    print_skipped_devices(&untimed);
    let succeeded = compared.iter().all(|device| device.jobs.is_ok());
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the common error of the devices if all devices have the same error. The cause of such an error is
/// usually the job.
fn common_error(compared: &[Compared]) -> Option<Failure> {
    let mut errors = compared.iter().map(|device| device.jobs.as_ref().err());
    let first = errors.next()??;
    errors.all(|error| error == Some(first)).then(|| first.clone().into())
}

/// Prints hints and notes that the table does not contain.
fn print_remarks(compared: &[Compared], medium: &Medium, invocation: &Invocation) {
    let mut hints: Vec<&Hint> = Vec::new();
    for hint in compared.iter().flat_map(|device| &device.hints) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints.into_iter().for_each(say);
    jobs::print_remarks("compare", medium, invocation);
}
