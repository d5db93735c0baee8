//! `flashlab bench`: runs fio jobs on one virtual device.

use super::jobs::{self, Setup};
use super::stored;
use crate::failure::{Failure, STOPPED, and_then_end, say};
use crate::{Medium, file, progress};
use clap::Args;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::{Library, read_file};
use flashlab_catalogue::units::Dimension;
use flashlab_fio::against::{Comparison, RealRun};
use flashlab_fio::cmdline::{Invocation, OutputFormat};
use flashlab_fio::output::logs;
use flashlab_fio::stats::{Report, Settings, Statistics};
use flashlab_lab::bench::{Bench, BenchError, Hint, hints, refusal, work};
use flashlab_lab::dependence::{dependence, figures as compared_figures};
use flashlab_lab::figures::{DeviceFigures, JobFigures, figures};
use flashlab_lab::job_run::JobRun;
use flashlab_lab::progress::Progress;
use flashlab_lab::results::DeviceStatistics;
use flashlab_lab::run_inputs::{DeviceInputs, RunInputs};
use flashlab_lab::write_first::WriteFirst;
use flashlab_report::html::{JobPage, jobs_page};
use flashlab_report::job_run::{self as report, incomplete_note, random_writer_note, written_first_note};
use flashlab_served::{StoreModel, VerifyFormat};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    medium: Medium,
    /// Compares the results with those of a real fio run, which FILE contains (from --output-format=json).
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Prints the buffer that a logger with this rate (`1MiB/s`) needs so that it never waits for a write.
    #[arg(long, value_name = "RATE")]
    logger_rate: Vec<String>,
    /// Leaves a new device unwritten. By default, the data that the jobs read is written before they begin, as on a
    /// used device. Nothing is written in advance to devices that move bytes, or to those with state=.
    #[arg(long)]
    unwritten: bool,
    /// Also writes, before the jobs begin, the space that they overwrite or write at random, as on a device that holds
    /// data there.
    #[arg(long, conflicts_with = "unwritten")]
    written: bool,
    /// Moves bytes as a served device does, with recognisable data in each write and a check of each read. Memory,
    /// files and devices with layers always do so.
    #[arg(long)]
    bytes: bool,
    /// Share of zeros in the data written to a device that moves bytes, in per cent; by default that of the recording
    /// that a job replays, or 0.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    compressibility: Option<u8>,
    /// File for a page with results, latencies and mechanisms.
    #[arg(long, value_name = "PAGE")]
    html: Option<PathBuf>,
    /// The device: `sd/kingston`, `sd/kingston:flash.t_prog=250us`, a TOML file, or a device of `serve` without an
    /// export name: `memory:size=1G+delay:read=1ms`, `sd/kingston+error:rate=0.001`.
    device: String,
    /// A job file (`-`: standard input), a recording, or options of fio.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FIO")]
    fio: Vec<String>,
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let mut target = Target::open(options, library)?;
    let real = options.against.as_deref().map(read_real_run).transpose()?;
    let settings =
        Settings { logger_rates: logger_rates(&options.logger_rate)?, timeline: options.html.is_some() };
    let invocation = jobs::read("bench", &options.fio)?;
    if real.is_some() && invocation.output_formats != [OutputFormat::Normal] {
        return Err(Failure::usage(
            "--against prints a table of its own: leave --output-format or --against out",
        ));
    }
    let setup = Setup::new(&options.medium, &invocation, library)?;
    if invocation.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    let mut read: Vec<&str> =
        std::iter::once(&options.device).chain(&options.fio).map(String::as_str).collect();
    read.extend(options.against.as_deref().and_then(Path::to_str));
    jobs::check_outputs(&invocation, true, &read)?;
    jobs::check_page(options.html.as_deref(), &read)?;
    file::check_distinct(options.html.as_deref().into_iter().chain(jobs::output(&invocation)))?;
    target.prepare(options, &setup, &invocation)?;
    let session = Session { options, library, invocation: &invocation, setup: &setup, target: &target };
    let code = session.run(&settings, real.as_ref());
    and_then_end(code, target.close())
}

/// Inputs of a bench, which are checked before the first job runs.
struct Session<'a> {
    options: &'a Options,
    library: &'a Library,
    invocation: &'a Invocation,
    setup: &'a Setup,
    target: &'a Target,
}

impl Session<'_> {
    /// Runs the jobs, prints their results and writes the files. Returns the exit code.
    fn run(&self, settings: &Settings, real: Option<&RealRun>) -> Result<ExitCode, Failure> {
        let outcome = {
            let progress = progress::ProgressDisplay::new(format!("bench {}", self.options.device));
            progress::stop_on_interrupt(&progress);
            let mut outcome = self.run_jobs(settings, &progress)?;
            self.add_dependences(&mut outcome, &progress);
            outcome
        };
        self.print_results(real, &outcome)?;
        self.write_files(&outcome)?;
        Ok(self.report_errors(&outcome))
    }

    /// Returns the data that is written before the jobs begin: nothing on a device with data or a history of its own.
    fn write_first(&self) -> WriteFirst {
        match self.target {
            Target::Model(device) if device.state.is_none() => {
                jobs::write_first(self.options.unwritten, self.options.written)
            }
            _ => WriteFirst::Nothing,
        }
    }

    /// Writes the data of [`Session::write_first`], and runs the jobs. Ends early if `progress` is stopped.
    fn run_jobs(&self, settings: &Settings, progress: &Progress) -> Result<JobRun, Failure> {
        let jobs = &self.invocation.jobs;
        let mut bench = self.target.bench(self.setup)?;
        progress.plan(work(jobs, bench.device().geometry().capacity));
        bench.report_to(progress);
        let mut run = JobRun::new(&mut bench, self.invocation, settings, self.write_first())?;
        let (column, remarks) = self.target.label_and_remarks(&self.options.device, self.library);
        run.counted = DeviceStatistics { column, remarks, ..run.counted };
        run.inputs = RunInputs {
            unwritten: self.options.unwritten,
            written: self.options.written,
            ..self.setup.inputs(self.invocation)
        };
        run.device = match self.target {
            Target::Model(device) => {
                run.inputs.seed = device.medium_seed(run.inputs.seed);
                DeviceInputs::of(device)
            }
            Target::Bytes(_) => DeviceInputs::named(&self.options.device),
        };
        Ok(run)
    }

    /// Repeats the jobs with other values of the device's undetermined numbers, and adds a remark for each number that
    /// the results depend on. Skips an interrupted run, because its figures cannot be compared with complete
    /// repetitions.
    fn add_dependences(&self, outcome: &mut JobRun, progress: &Progress) {
        let (Target::Model(device), None) = (self.target, outcome.notes.stopped_after) else { return };
        let jobs = &self.invocation.jobs;
        let repeat = |other: &Device| {
            let mut bench = self.setup.bench(other)?;
            bench.report_to(&progress.unplanned());
            bench.prepare(jobs, self.write_first())?;
            let statistics = bench.run(jobs, &Settings::default())?;
            if bench.is_stopped() {
                return Err(BenchError::Stopped);
            }
            Ok(compared_figures(&statistics.reports(jobs)))
        };
        outcome.counted.remarks.extend(dependence(device, self.library, &outcome.reports, &repeat));
    }

    /// Prints fio's output, or the comparison with the `real` run, to standard output or the `--output` file. Notes for
    /// which the format has no room go to standard error.
    fn print_results(&self, real: Option<&RealRun>, outcome: &JobRun) -> Result<(), Failure> {
        let JobRun { reports, counted, notes, .. } = outcome;
        let text = match real {
            Some(real) => {
                written_first_note(notes).iter().chain(&random_writer_note(notes)).for_each(say);
                comparison_table(real, reports)?
            }
            None => formats(self.invocation, outcome),
        };
        let text = match incomplete_note(notes) {
            Some(mark) => mark_incomplete(text, self.invocation, mark),
            None => text,
        };
        match &self.invocation.output {
            Some(path) => file::write(Path::new(path), text.as_bytes())?,
            None => file::print(&text)?,
        }
        if real.is_some() || self.invocation.output_formats == [OutputFormat::Terse] {
            jobs::print_notes(&self.options.medium, self.invocation);
            counted.remarks.iter().for_each(say);
        }
        Ok(())
    }

    /// Writes the page, the jobs' logs and the recorded iologs.
    fn write_files(&self, outcome: &JobRun) -> Result<(), Failure> {
        if let Some(path) = &self.options.html {
            let figures = self.target.figures(&self.options.device, outcome);
            write_page(path, self.options, figures, outcome)?;
        }
        write_logs(self.invocation, &outcome.statistics)?;
        for (job, iolog) in &outcome.iologs {
            let path = iolog_path(self.invocation, *job);
            file::write(Path::new(&path), iolog.as_bytes())?;
            let job = &self.invocation.jobs[*job];
            if job.write_iolog.as_ref() != Some(&path) {
                say(format_args!(
                    "{}: its iolog is {path}, since several jobs or clones write one",
                    job.name
                ));
            }
        }
        Ok(())
    }

    /// Prints hints, the result of the verification and the error of a job to standard error. Returns the exit code.
    fn report_errors(&self, outcome: &JobRun) -> ExitCode {
        let has_wrong_data = match self.target {
            Target::Model(_) => {
                self.target.hints(&outcome.reports).into_iter().for_each(say);
                false
            }
            Target::Bytes(device) => {
                let checked = device.verification();
                say(checked);
                checked.wrong > 0
            }
        };
        let refusal = refusal(&outcome.reports);
        refusal.iter().for_each(say);
        match outcome.notes.stopped_after {
            Some(_) => ExitCode::from(STOPPED),
            None if refusal.is_some() || has_wrong_data => ExitCode::FAILURE,
            None => ExitCode::SUCCESS,
        }
    }
}

/// Writes the page of one device to `path`.
fn write_page(path: &Path, options: &Options, figures: DeviceFigures, run: &JobRun) -> Result<(), Failure> {
    let notes = &run.notes;
    let facts = notes.files.clone().into_iter().chain(notes.page_cache.clone());
    let facts = facts.chain(random_writer_note(notes));
    let remarks: Vec<String> = facts.chain(incomplete_note(notes)).collect();
    let page = JobPage {
        title: &options.device,
        run: &run.inputs,
        command: &jobs::as_typed(),
        devices: &[figures],
        notes: &remarks,
    };
    file::write(path, jobs_page(&page).as_bytes())?;
    say(format_args!("the page is {}", path.display()));
    Ok(())
}

/// Marks `text` as incomplete: puts the mark in front of fio's normal output, as fio does, or prints it to standard
/// error for the other formats.
fn mark_incomplete(text: String, invocation: &Invocation, mark: String) -> String {
    if invocation.output_formats.contains(&OutputFormat::Normal) {
        return format!("\nflashlab: {mark}\n\n{text}");
    }
    say(mark);
    text
}

/// Device that jobs run on.
enum Target {
    /// Model, which times requests and moves no bytes.
    Model(Box<Device>),
    /// Device that moves bytes.
    Bytes(StoreModel),
}

impl Target {
    fn open(options: &Options, library: &Library) -> Result<Target, Failure> {
        let argument = &options.device;
        if stored::moves_bytes(argument, options.bytes) {
            return Ok(Target::Bytes(stored::open(argument, options.medium.seed, library)?));
        }
        if options.compressibility.is_some() {
            return Err(stored::no_data_to_compress(argument));
        }
        let device =
            progress::show_elapsed(format!("opening {argument}"), || Device::open(argument, library))?;
        Ok(Target::Model(Box::new(device)))
    }

    /// Prints the origin of a device that starts from a saved state. On a device that moves bytes, sets the format of
    /// the blocks if the jobs verify them; otherwise sets the compressibility of the data, which comes from the option
    /// or from the recording that a job replays.
    fn prepare(&mut self, options: &Options, setup: &Setup, invocation: &Invocation) -> Result<(), Failure> {
        match self {
            Target::Model(device) => jobs::print_state_origin(device),
            Target::Bytes(device) => {
                if let Some(verified) = VerifyFormat::of(&invocation.jobs).map_err(Failure::usage)? {
                    if options.compressibility.is_some() {
                        return Err(Failure::usage(
                            "--compressibility: verify= gives the data a format of its own; leave one of the two out",
                        ));
                    }
                    *device = device.clone().with_format(verified);
                } else if let Some(percent) = options.compressibility.or(setup.compressibility_percent()) {
                    *device = device.clone().with_compressibility(percent);
                }
            }
        }
        Ok(())
    }

    /// Closes the device after its last request.
    fn close(&self) -> Result<(), Failure> {
        match self {
            Target::Model(_) => Ok(()),
            Target::Bytes(device) => device.close().map_err(Failure::failed),
        }
    }

    /// Returns a bench on this device.
    fn bench(&self, setup: &Setup) -> Result<Bench, BenchError> {
        match self {
            Target::Model(device) => setup.bench(device),
            Target::Bytes(device) => setup.set_up(Bench::of_bytes(Box::new(device.clone()))),
        }
    }

    /// Returns the name of the device for its counters, and the remarks on its numbers.
    fn label_and_remarks(&self, argument: &str, library: &Library) -> (String, Vec<String>) {
        match self {
            Target::Model(device) => (device.label(), device.remarks()),
            Target::Bytes(device) if argument.starts_with("volume:") && !device.has_timing() => {
                let remark = "the members have no timing: each request takes 1 us, which says nothing about a real device; for \
                              timing, name members with a model (sd/... or usb/...) in a pool, volume:pool.toml. The writes go \
                              to the members, as with `serve`";
                (argument.to_owned(), vec![remark.to_owned()])
            }
            Target::Bytes(device) if argument.starts_with("volume:") => {
                (argument.to_owned(), device.remarks())
            }
            // A device with layers cannot be opened as a model, so it has no label and no remarks of its own.
            Target::Bytes(_) => Device::open(argument, library)
                .map_or((argument.to_owned(), Vec::new()), |device| (device.label(), device.remarks())),
        }
    }

    /// Returns the figures of `run` on this device for a page.
    fn figures(&self, device: &str, run: &JobRun) -> DeviceFigures {
        let reports = &run.reports;
        let (title, t_read) = match self {
            Target::Model(device) => (device.title.clone(), device.t_read()),
            Target::Bytes(_) => (String::new(), None),
        };
        let mut jobs: Vec<JobFigures> = reports.iter().flat_map(|report| figures(report, t_read)).collect();
        jobs.iter_mut().for_each(|job| job.set_write_amplification(run.counted.write_amplification));
        DeviceFigures {
            device: device.to_owned(),
            title,
            written_first_bytes: run.notes.written_first,
            jobs,
            notes: self.notes(run),
            error: refusal(reports).as_ref().map(ToString::to_string),
            inputs: run.device.clone(),
        }
    }

    /// Returns the notes of a page: hints, and the remarks on a volume's times.
    fn notes(&self, run: &JobRun) -> Vec<String> {
        match self {
            Target::Model(_) => self.hints(&run.reports).iter().map(Hint::to_string).collect(),
            Target::Bytes(device) => device.remarks(),
        }
    }

    /// Returns hints on how to read the reports.
    fn hints(&self, reports: &[Report]) -> Vec<Hint> {
        match self {
            Target::Model(device) => hints(reports, device.t_read()),
            Target::Bytes(_) => Vec::new(),
        }
    }
}

fn read_real_run(path: &Path) -> Result<RealRun, Failure> {
    let bytes = read_file(path)?;
    RealRun::parse(&bytes).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn comparison_table(real: &RealRun, reports: &[Report]) -> Result<String, Failure> {
    let comparison = Comparison::new(real, reports);
    if comparison.figures.is_empty() {
        let notes = comparison.notes.join("\n  ");
        return Err(Failure::usage(format!("--against: there is nothing to compare:\n  {notes}")));
    }
    Ok(comparison.to_string())
}

fn logger_rates(texts: &[String]) -> Result<Vec<u64>, Failure> {
    let rate = |text: &String| {
        Dimension::Rate.parse_argument(text).map_err(|e| Failure::usage(format!("--logger-rate: {e}")))
    };
    texts.iter().map(rate).collect()
}

/// Returns the results in each of the requested formats.
fn formats(invocation: &Invocation, run: &JobRun) -> String {
    invocation.output_formats.iter().map(|format| report::text(invocation, run, *format)).collect()
}

/// Returns the file for a job's iolog: its `write_iolog`, with the job's number appended if several jobs name the same
/// file.
fn iolog_path(invocation: &Invocation, job: usize) -> String {
    let path = invocation.jobs[job].write_iolog.clone().unwrap_or_default();
    let shared = invocation.jobs.iter().filter(|other| other.write_iolog.as_ref() == Some(&path)).count() > 1;
    if shared { format!("{path}.{}", job + 1) } else { path }
}

/// Writes the log files that the jobs ask for.
fn write_logs(invocation: &Invocation, statistics: &Statistics) -> Result<(), Failure> {
    for (n, job) in invocation.jobs.iter().enumerate() {
        for log in logs::files(job, n + 1, statistics.job(n)) {
            file::write_with(Path::new(&log.name), |file| log.write_to(file))?;
        }
    }
    Ok(())
}
