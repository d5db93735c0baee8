//! `flashlab run`: runs an experiment, prints its table and writes its page.

use super::{compare, jobs};
use crate::failure::{Failure, say};
#[cfg(feature = "serve")]
use crate::live::{Settings, measure};
use crate::width::columns;
#[cfg(feature = "serve")]
use crate::words;
use crate::{file, progress, recorded, version};
use clap::{Args, ValueEnum};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_lab::bench::Trace;
use flashlab_lab::experiment::{EnduranceSettings, EnduranceWorkload, Experiment, Kind, Live};
use flashlab_report::{csv, html, json, terminal};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Default budget of an endurance experiment with a user's job or devices, in millions of simulated requests: some
/// minutes on two cores.
const BUDGET_MILLIONS: u32 = 150;

#[derive(Args)]
pub(crate) struct Options {
    /// Name of the experiment, from the list of `flashlab experiments`, or a folder with an experiment: `./mine`.
    experiment: String,
    /// Seed of the medium, which draws a factor for each erase block.
    #[arg(long, allow_negative_numbers = true, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Runs this column only, such as one card of a table; can be repeated.
    #[arg(long = "column", value_name = "NAME")]
    columns: Vec<String>,
    /// For an endurance experiment: a job file, a recording or an iolog that replaces the experiment's own workload.
    #[arg(long, value_name = "FILE")]
    job: Option<String>,
    /// For an endurance experiment: devices that replace the experiment's own: `sd/*`, `sd/kthn-16gb:cycles=1000`; can
    /// be repeated.
    #[arg(long, value_name = "DEVICES", conflicts_with = "columns")]
    devices: Vec<String>,
    /// For an endurance experiment: number of seeds, from --seed on, each of which draws a medium.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    /// For an endurance experiment with --job or --devices: millions of requests that are simulated on all devices
    /// together; the default is 150. A longer simulation narrows the intervals.
    #[arg(long, value_name = "MILLIONS", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "exact")]
    budget: Option<u32>,
    /// For an endurance experiment: simulates until the wear of each device is steady, however long that takes.
    #[arg(long)]
    exact: bool,
    /// For a live experiment: measures in a QEMU guest, with the system's kernel (on Debian: `apt-get install
    /// linux-image-amd64`) or that of --kernel.
    #[arg(long)]
    guest: bool,
    /// Folder with an unpacked package linux-image-VERSION-amd64 of Debian (`dpkg-deb -x`) for the guest; by
    /// default, the kernel that `./test` unpacks in target/guest, or else that of the system.
    #[arg(long, value_name = "DIR", requires = "guest")]
    kernel: Option<PathBuf>,
    /// For a live experiment: number of measurements of each row.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,
    /// For a live experiment: seconds of each measurement.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    runtime: Option<u32>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Folder for all figures as CSV files: cells.csv and, if the experiment has them, curves.csv (a line per point),
    /// series.csv (over time) and wear.csv (a line per erase block).
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// File for the page; the default is `EXPERIMENT.html` in the current folder.
    #[arg(long, value_name = "PAGE", conflicts_with = "no_html")]
    html: Option<PathBuf>,
    /// Writes no page.
    #[arg(long)]
    no_html: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables to read.
    Table,
    /// All results as JSON; standard output contains nothing else.
    Json,
    /// One line per cell. The files of --csv contain curves, series and erase blocks.
    Csv,
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    if let Some(live) = Live::open(&options.experiment, library)? {
        options.check_outputs(live.name(), &live.paths_read())?;
        return run_live(options, &live);
    }
    let mut experiment = Experiment::open(&options.experiment, library)?;
    options.check_outputs(experiment.name(), &experiment.paths_read())?;
    if let Some(option) = options.live_options().next() {
        let name = experiment.name();
        return Err(Failure::usage(format!("{option} belongs to live experiments; {name} is simulated")));
    }
    if !options.columns.is_empty() {
        experiment.choose_columns(&options.columns)?;
    }
    if let Some(settings) = endurance(options, &experiment, library)? {
        experiment.set_endurance(settings);
    }
    progress::catch_interrupts();
    let mut results = {
        let progress = progress::ProgressDisplay::new(experiment.name());
        experiment.run(library, options.seed, &progress)?
    };
    results.commit = version::commit();
    let text = match options.format {
        Format::Table => terminal::table(&results, columns(), colour()),
        Format::Json => json::results(&results),
        Format::Csv => csv::cells(&results),
    };
    file::print(&text)?;
    if let Some(folder) = &options.csv {
        std::fs::create_dir_all(folder).map_err(|error| Failure::io(folder, &error))?;
        for (name, text) in csv::files(&results) {
            file::write(&folder.join(name), text.as_bytes())?;
        }
        say(format_args!("the figures are in {}", folder.display()));
    }
    if !options.no_html {
        write_page(options, experiment.name(), &html::page(&results, &jobs::as_typed()))?;
    }
    let missed: Vec<_> = results.bounds.iter().filter(|bound| !bound.held).collect();
    for bound in &missed {
        say(terminal::missed(bound));
    }
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_page(options: &Options, name: &str, page: &str) -> Result<(), Failure> {
    let path = options.page(name);
    file::write(&path, page.as_bytes())?;
    say(format_args!("the page is {}", path.display()));
    Ok(())
}

impl Options {
    /// Returns the path of the page of experiment `name`.
    fn page(&self, name: &str) -> PathBuf {
        self.html.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.html")))
    }

    /// Checks, before anything runs, that the outputs can be written and replace no file of `read`.
    fn check_outputs(&self, name: &str, read: &[PathBuf]) -> Result<(), Failure> {
        if let Some(folder) = &self.csv {
            file::check_output_folder(folder)?;
        }
        if self.no_html {
            return Ok(());
        }
        let page = self.page(name);
        file::check_output(&page)?;
        file::check_not_input(&page, read)?;
        file::check_not_read(&page, self.job.iter().chain(&self.devices).map(String::as_str))
    }

    /// Returns the given options that belong to live experiments alone.
    fn live_options(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--guest", self.guest),
            ("--repeats", self.repeats.is_some()),
            ("--runtime", self.runtime.is_some()),
        ];
        given.into_iter().filter_map(|(option, given)| given.then_some(option))
    }

    /// Returns the given options that belong to simulated experiments alone.
    #[cfg(feature = "serve")]
    fn simulated_options(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--column", !self.columns.is_empty()),
            ("--job", self.job.is_some()),
            ("--devices", !self.devices.is_empty()),
            ("--seeds", self.seeds.is_some()),
            ("--budget", self.budget.is_some()),
            ("--exact", self.exact),
            ("--csv", self.csv.is_some()),
        ];
        given.into_iter().filter_map(|(option, given)| given.then_some(option))
    }
}

#[cfg(not(feature = "serve"))]
fn run_live(_: &Options, live: &Live) -> Result<ExitCode, Failure> {
    Err(super::absent::failure(&format!("run {}, a live experiment,", live.name()), "serve"))
}

/// Runs a live experiment, which measures a machine.
#[cfg(feature = "serve")]
fn run_live(options: &Options, live: &Live) -> Result<ExitCode, Failure> {
    if let Some(option) = options.simulated_options().next() {
        let name = live.name();
        return Err(Failure::usage(format!("{option} belongs to simulated experiments; {name} is live")));
    }
    let mut sizes = live.settings(options.guest);
    sizes.repeats = options.repeats.unwrap_or(sizes.repeats);
    sizes.runtime = options.runtime.unwrap_or(sizes.runtime);
    let settings = Settings { guest: options.guest, kernel: options.kernel.as_deref(), sizes };
    let outcome = measure(live, settings)?;
    let (title, reference) = (live.title(), live.reference());
    file::print(&match options.format {
        Format::Table => outcome.table(title, reference, columns()),
        Format::Json => outcome.json(live.name(), title, reference),
        Format::Csv => outcome.csv(reference),
    })?;
    if !options.no_html {
        let mut guest = if options.guest { " --guest".to_owned() } else { String::new() };
        if let Some(folder) = &options.kernel {
            guest += &format!(" --kernel {}", words::quote(&folder.display().to_string()));
        }
        let command = format!(
            "flashlab run {}{guest} --runtime {} --repeats {}",
            live.name(),
            sizes.runtime,
            sizes.repeats
        );
        write_page(options, live.name(), &outcome.page(live.name(), title, reference, &command))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the settings that replace those of an endurance experiment; `None` if no option sets any.
fn endurance(
    options: &Options,
    experiment: &Experiment,
    library: &Library,
) -> Result<Option<EnduranceSettings>, Failure> {
    let given = [
        ("--job", options.job.is_some()),
        ("--devices", !options.devices.is_empty()),
        ("--seeds", options.seeds.is_some()),
        ("--budget", options.budget.is_some()),
        ("--exact", options.exact),
    ];
    let Some((option, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(None) };
    if experiment.kind() != Kind::Endurance {
        return Err(Failure::usage(format!(
            "{option} is for endurance experiments (`flashlab run endurance`); {} has its own devices and jobs \
             (`flashlab bench` runs your job on a device)",
            experiment.name()
        )));
    }
    let devices = compare::open_all(options.devices.iter(), library)?;
    print_skipped_devices(&compare::untimed(options.devices.iter(), library)?);
    let is_custom = options.job.is_some() || !options.devices.is_empty();
    let budget = options.budget.or(is_custom.then_some(BUDGET_MILLIONS)).filter(|_| !options.exact);
    let named = |device: Device| (device.argument.clone(), device);
    Ok(Some(EnduranceSettings {
        workload: options.job.as_deref().map(workload).transpose()?,
        devices: (!devices.is_empty()).then(|| devices.into_iter().map(named).collect()),
        seeds: options.seeds,
        budget: budget.map(|millions| u64::from(millions) * 1_000_000),
    }))
}

/// Prints the names of the devices that a pattern skips because they have no timing.
pub(crate) fn print_skipped_devices(untimed: &[String]) {
    if !untimed.is_empty() {
        say(format_args!("skipped, because they have no timing: {}", untimed.join(", ")));
    }
}

/// Reads a workload: a job file, or a recording or an iolog to replay.
fn workload(path: &str) -> Result<EnduranceWorkload, Failure> {
    if recorded::is_recording(Path::new(path)) {
        let invocation = jobs::read("run", &[path.to_owned()])?;
        let traces = jobs::traces(&invocation)?;
        let digest = traces.iter().find_map(|(_, trace)| match trace {
            Trace::Recording(source) => Some(source.digest().to_owned()),
            Trace::Iolog(_) => None,
        });
        let bytes = digest.unwrap_or_default().into_bytes();
        return Ok(EnduranceWorkload { name: path.to_owned(), bytes, jobs: invocation.jobs, traces });
    }
    let bytes = jobs::read_bytes(path)?;
    let invocation = if bytes.starts_with(b"fio version ") {
        jobs::read(
            "run",
            &["--name=replay".into(), "--direct=1".into(), format!("--read_iolog={}", jobs::escaped(path))],
        )?
    } else {
        jobs::read("run", &[path.to_owned()])?
    };
    let traces = jobs::traces(&invocation)?;
    Ok(EnduranceWorkload { name: path.to_owned(), bytes, jobs: invocation.jobs, traces })
}

/// Returns true if tables have colours: on a terminal, unless NO_COLOR is set.
fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
