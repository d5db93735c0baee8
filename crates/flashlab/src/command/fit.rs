//! `flashlab fit`: estimates the numbers of a card from measurements, and writes its profile.

use crate::failure::{Failure, say};
use crate::file;
use crate::progress::{self, ProgressDisplay};
use crate::width::columns;
use clap::{Args, ValueEnum};
use flashlab_catalogue::library::Library;
use flashlab_lab::fitting::refit::{RefitSettings, refit};
use flashlab_lab::fitting::{FitSettings, FittingError, Input, fit};
use flashlab_report as report;
use flashlab_report::html::{FitPage, fit_page};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    /// Measurements of a card: a file of `flashlab measure`, fio's JSON, a table `job,value,sd`, or a log with lines of
    /// hdparm, dd, iozone, flashbench, agnostics and sdbench; or the published cells of a device: `sd-cards:kingston`.
    /// Several cards on one host share the host's numbers. An experiment without a column, `sd-cards`, fits the profiles of
    /// all its devices together, each number on the cells that its source names.
    #[arg(required = true, value_name = "MEASUREMENTS")]
    measurements: Vec<String>,
    /// Profile of the machine on which the cards were measured; by default, the one that the measurements name. With
    /// --same-card, it can be repeated, once for each of the measurements in their order.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// All measurements are of the same card, on several hosts. The profile has the numbers that agree with all of the
    /// measurements, including an access time for each bus mode that needs one.
    #[arg(long)]
    same_card: bool,
    /// Also fits the software times of the host. By default, they stay as in its profile.
    #[arg(long)]
    fit_host: bool,
    /// Profile that provides all numbers that are not fitted. By default, the fit chooses one of two typical cards,
    /// `sd/typical-buffered` and `sd/typical`; on a host with eMMC, `emmc/typical-16gb`; for USB sticks,
    /// a stick from the library.
    #[arg(long, value_name = "DEVICE")]
    base: Option<String>,
    /// Fits only this number, starting from its value in the base profile; can be repeated.
    #[arg(long = "number", value_name = "PATH")]
    numbers: Vec<String>,
    /// Fits the results of this step only; can be repeated. The other steps still run before it.
    #[arg(long = "step", value_name = "NAME")]
    steps: Vec<String>,
    /// Runs each step as often as it was measured, on a device whose erase blocks differ in speed. This is slower.
    #[arg(long)]
    exact: bool,
    /// File for the profile, one for each card in their order, or one with --same-card; for an experiment, a folder for its
    /// profiles.
    #[arg(long = "to", value_name = "FILE")]
    to: Vec<PathBuf>,
    /// Name of the product in the profile.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Error of the model in per cent, for effects that the model omits. It adds to the standard deviation of each
    /// cell.
    #[arg(long, allow_negative_numbers = true, value_name = "PERCENT", default_value_t = 1.5)]
    floor: f64,
    /// Seed of the search and of the medium.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// File for a page with numbers, intervals, measured and simulated values, and mechanisms.
    #[arg(long, value_name = "PAGE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables to read.
    Table,
    /// Everything as JSON; standard output contains nothing else.
    Json,
}

/// Maximum size of a file of measurements in bytes.
const BYTES_MAX: u64 = flashlab_fit::import::BYTES_MAX as u64;

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    if !(0.1..=50.0).contains(&options.floor) {
        return Err(Failure::usage(format!("--floor {}: expected 0.1 to 50 (per cent)", options.floor)));
    }
    if let [experiment] = &options.measurements[..]
        && is_experiment(experiment, library)
    {
        return run_refit(experiment, options, library);
    }
    let cards = if options.same_card { 1 } else { options.measurements.len() };
    if !options.to.is_empty() && options.to.len() != cards {
        return Err(Failure::usage(format!(
            "--to is given {} times for {cards} card{}; repeat it once for each card, in their order",
            options.to.len(),
            if cards == 1 { "" } else { "s" }
        )));
    }
    let base = options.base.as_deref();
    let inputs = options.measurements.iter();
    let inputs = inputs.map(|name| Input::open(name, base, library, &|path| file::read(path, BYTES_MAX)));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let outputs: Vec<&PathBuf> = options.to.iter().chain(&options.html).collect();
    file::check_distinct(outputs.iter().map(|output| output.as_path()))?;
    outputs.into_iter().map(PathBuf::as_path).try_for_each(|output| {
        // The tables go to standard output.
        file::check_not_stdout(output)?;
        file::check_output(output)?;
        file::check_not_input(output, &options.measurements)
    })?;
    let mut settings = FitSettings {
        bases: base.map(str::to_owned).into_iter().collect(),
        hosts: options.hosts.clone(),
        same_card: options.same_card,
        fit_host: options.fit_host,
        numbers: options.numbers.clone(),
        steps: options.steps.clone(),
        exact: options.exact,
        ..FitSettings::default()
    };
    (settings.search.seed, settings.search.floor) = (options.seed, options.floor / 100.0);
    progress::catch_interrupts();
    let display = ProgressDisplay::new("fit");
    let fitted = fit(&inputs, &settings, library, &display)?;
    drop(display);
    for (card, path) in options.to.iter().enumerate() {
        let title = options.name.clone().or_else(|| inputs[card].measurements.target.model.clone());
        let text = fitted.profile(card, &title.unwrap_or_else(|| inputs[card].label.clone()))?;
        file::write(path, text.as_bytes())?;
        say(format_args!("the profile is {}", path.display()));
    }
    match options.format {
        Format::Table => file::print(&report::fit::table(&fitted, columns()))?,
        Format::Json => file::print(&report::fit::json(&fitted))?,
    }
    if let Some(path) = &options.html {
        let page = FitPage {
            title: &fitted.cards.join(", "),
            version: env!("CARGO_PKG_VERSION"),
            command: &super::jobs::as_typed(),
            fit: &fitted,
        };
        file::write(path, fit_page(&page).as_bytes())?;
        say(format_args!("the page is {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if `name` is the folder of an experiment, or an experiment of the library that is not also a file.
fn is_experiment(name: &str, library: &Library) -> bool {
    let path = Path::new(name);
    !path.is_file() && (library.experiment(name).is_ok() || path.join("experiment.toml").is_file())
}

/// Fits the profiles of an experiment together.
fn run_refit(experiment: &str, options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let given = [
        ("--base", options.base.is_some()),
        ("--host", !options.hosts.is_empty()),
        ("--same-card", options.same_card),
        ("--fit-host", options.fit_host),
        ("--number", !options.numbers.is_empty()),
        ("--step", !options.steps.is_empty()),
        ("--exact", options.exact),
        ("--name", options.name.is_some()),
        ("--html", options.html.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!(
            "{option} belongs to the fit of one card, such as `flashlab fit {experiment}:COLUMN`; the fit of a whole experiment \
             reads its numbers and cells from the sources of the profiles"
        )));
    }
    if options.to.len() > 1 {
        return Err(Failure::usage("--to is given more than once; expected one folder for all profiles"));
    }
    options.to.iter().try_for_each(|folder| file::check_output_folder(folder))?;
    let settings = RefitSettings { floor: options.floor / 100.0, seed: options.seed };
    progress::catch_interrupts();
    let display = ProgressDisplay::new("fit");
    let fitted = refit(experiment, &settings, library, &display)?;
    drop(display);
    if let [folder] = &options.to[..] {
        for (name, text) in &fitted.profiles {
            let path = folder.join(format!("{name}.toml"));
            let parent = path.parent().expect("the name follows the folder");
            std::fs::create_dir_all(parent).map_err(|error| Failure::io(parent, &error))?;
            file::write(&path, text.as_bytes())?;
        }
        say(format_args!("{} profiles are in {}", fitted.profiles.len(), folder.display()));
    }
    match options.format {
        Format::Table => file::print(&report::refit::table(&fitted, columns()))?,
        Format::Json => file::print(&report::refit::json(&fitted))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl From<FittingError> for Failure {
    fn from(error: FittingError) -> Self {
        Failure::usage(error)
    }
}
