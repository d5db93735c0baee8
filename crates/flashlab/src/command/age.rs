//! `flashlab age`: runs a job on a device and saves the resulting state, which later commands start from.

use super::jobs::{self, Setup};
use crate::failure::{Failure, say};
use crate::{Medium, file, progress};
use clap::Args;
use flashlab_catalogue::device::{Device, State};
use flashlab_catalogue::library::Library;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::{refusal, work};
use flashlab_lab::statistics::statistics;
use flashlab_report::quantity;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    medium: Medium,
    /// File for the state; the option may also follow the job.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Replaces the state that the file already holds.
    #[arg(long)]
    force: bool,
    /// The device: `sd/kingston`, `nvme/p32a80:hmb=0`; `...:state=FILE` continues from a saved state.
    device: String,
    /// A job file (`-`: standard input), a recording, or options of fio.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FIO")]
    fio: Vec<String>,
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let mut words = options.fio.clone();
    let to = destination(options.to.as_deref(), &mut words)?;
    let is_forced = options.force || take_force(&mut words);
    let opening = format!("opening {}", options.device);
    let device = progress::show_elapsed(opening, || Device::open(&options.device, library))?;
    let invocation = jobs::read("age", &words)?;
    jobs::check_no_output_format("age", "the device's counters instead of fio's output", &invocation)?;
    let setup = Setup::new(&options.medium, &invocation, library)?;
    if invocation.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    let read: Vec<&str> = std::iter::once(&options.device).chain(&words).map(String::as_str).collect();
    jobs::check_outputs(&invocation, false, &read)?;
    file::check_not_stdout(&to)?;
    file::check_output(&to)?;
    file::check_distinct(std::iter::once(to.as_path()).chain(jobs::output(&invocation)))?;
    // The state that the device begins with may be replaced by the state that it ends with.
    let profile = options.device.split(':').next().unwrap_or_default();
    file::check_not_input(&to, std::iter::once(profile).chain(words.iter().map(String::as_str)))?;
    if !is_forced && State::read(&to).is_ok() {
        return Err(Failure::usage(format!(
            "{}: it holds the state of a device; --force replaces it",
            to.display()
        )));
    }
    jobs::print_state_origin(&device);
    progress::catch_interrupts();
    let (bench, before, reports) = {
        let progress = progress::ProgressDisplay::new(format!("age {}", device.name));
        progress.plan(work(&invocation.jobs, device.capacity()));
        let mut bench = setup.bench(&device)?;
        bench.report_to(&progress);
        let before = bench.counters();
        let statistics = bench.run(&invocation.jobs, &Settings::default())?;
        (bench, before, statistics.reports(&invocation.jobs))
    };
    let bytes = progress::show_elapsed(format!("saving {}", to.display()), || -> Result<_, Failure> {
        let bytes = State::save(&device, options.medium.seed, bench.used(), bench.device())?.to_bytes();
        file::write(&to, &bytes)?;
        Ok(bytes)
    })?;
    let mut counted = statistics(&before, &bench.counters(), bench.wear().as_ref());
    device.argument.clone_into(&mut counted.column);
    let text = flashlab_report::of_device(&counted);
    match &invocation.output {
        Some(path) => file::write(Path::new(path), text.as_bytes())?,
        None => file::print(&text)?,
    }
    jobs::print_remarks("age", &options.medium, &invocation);
    say(format_args!(
        "the state of {} after {} is in {} ({}); start from it with {}state={}",
        device.argument,
        quantity::span(bench.used()),
        to.display(),
        quantity::size(bytes.len() as u64),
        jobs::argument_without_state(&device),
        to.display(),
    ));
    let refusal = refusal(&reports);
    refusal.iter().for_each(say);
    Ok(if refusal.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Removes the option `--force` from `words`, where it may follow the job, as `--to` does. Returns true if
/// the option was there.
fn take_force(words: &mut Vec<String>) -> bool {
    let count = words.len();
    words.retain(|word| word != "--force");
    words.len() < count
}

/// Returns the file for the state, from `--to FILE` before the device or among `words`. Removes the option
/// from `words`.
fn destination(option: Option<&Path>, words: &mut Vec<String>) -> Result<PathBuf, Failure> {
    let mut found = option.map(Path::to_path_buf);
    while let Some(at) = words.iter().position(|word| word == "--to" || word.starts_with("--to=")) {
        let word = words.remove(at);
        let path = match word.strip_prefix("--to=") {
            Some(path) => path.to_owned(),
            None if at < words.len() => words.remove(at),
            None => return Err(Failure::usage("--to needs the name of a file: --to FILE")),
        };
        if found.replace(PathBuf::from(path)).is_some() {
            return Err(Failure::usage("--to is given twice; name one file for the state"));
        }
    }
    found.ok_or_else(|| {
        Failure::usage(
            "no file for the state: add --to FILE; later commands start from it with DEVICE:state=FILE",
        )
    })
}
