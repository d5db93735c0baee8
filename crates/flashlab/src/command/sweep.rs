//! `flashlab sweep`: runs one job at many points of a space of device numbers and job options.

use crate::failure::{Failure, INTERRUPTED, say};
use crate::{file, progress, width};
use clap::{Args, Subcommand, ValueEnum};
use flashlab_catalogue::library::Library;
use flashlab_report::quantity;
use flashlab_report::terminal::columns;
use flashlab_sim::Duration;
use flashlab_sweep::{Cell, JobText, Plan, Row, Store, Sweep as Checked, SweepError, run_locally};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Size in bytes of the largest plan or job file that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The command `sweep`.
#[derive(Subcommand)]
pub(crate) enum Sweep {
    /// Runs one job at every point of a grid or a sample, and stores the figures in a Parquet file.
    ///
    /// The file PLAN names the device, the job and the points; `docs/sweeps.md` describes it. A sweep that was
    /// interrupted, extended or repeated runs only the points that are missing in its folder or failed there.
    Sweep(Options),
}

/// Options of the command.
#[derive(Args)]
pub(crate) struct Options {
    /// Folder for the results, `results.parquet` and `parts/`; by default the name of the plan without `.toml`.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Number of threads; by default one for each processor.
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<NonZeroUsize>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Lists the points with the hashes of their inputs, and runs nothing.
    #[arg(long)]
    list: bool,
    /// The plan, a TOML file.
    plan: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Requests per second and latencies of the first 20 rows.
    Table,
    /// All rows with all figures.
    Csv,
}

/// Maximum number of rows of the table.
const ROWS_MAX: usize = 20;

/// Parses a number of threads.
fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse().ok().and_then(NonZeroUsize::new);
    threads.ok_or_else(|| "expected at least 1; without the option, each processor has a thread".to_owned())
}

impl Sweep {
    pub(crate) fn run(&self, library: &Library) -> Result<ExitCode, Failure> {
        let Sweep::Sweep(options) = self;
        run(options, library)
    }
}

fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let plan = read_plan(&options.plan)?;
    let open = || Checked::new(plan, library).map_err(|error| in_plan(&options.plan, &error));
    let sweep = progress::show_elapsed("checking the points".to_owned(), open)?;
    say_without_effect(&sweep);
    if options.list {
        return list(&sweep);
    }
    let folder = options.to.clone().unwrap_or_else(|| options.plan.with_extension(""));
    if folder == options.plan {
        return Err(Failure::usage(format_args!(
            "{}: name a folder for the results (--to DIR)",
            folder.display()
        )));
    }
    file::check_output_folder(&folder)?;
    let mut store = Store::open(&folder).map_err(failure)?;
    let missing = store.missing(sweep.points());
    let threads = options.threads.or(std::thread::available_parallelism().ok()).map_or(1, usize::from);
    let (ran, is_stopped) = {
        let progress = progress::ProgressDisplay::new(format!("sweep of {} points", missing.len()));
        progress::stop_on_interrupt(&progress);
        let ran = run_locally(&sweep, &mut store, &missing, threads, &progress).map_err(failure)?;
        (ran, progress.is_stopped())
    };
    let path = store.finish(sweep.points()).map_err(failure)?;
    let rows = store.rows(sweep.points());
    file::print(&match options.format {
        Format::Table => table(&rows),
        Format::Csv => csv(&rows),
    })?;
    Ok(report(&sweep, &store, ran, &path, is_stopped))
}

/// Prints the options of the job that have no effect. Points that differ only in such an option have equal
/// results.
fn say_without_effect(sweep: &Checked<&Library>) {
    let is_varied = |name: &str| sweep.points().iter().any(|(_, point)| point.get(name).is_some());
    let named = |name: &str| match is_varied(name) {
        true => format!("{name}, which the plan varies"),
        false => name.to_owned(),
    };
    let names: Vec<String> = sweep.without_effect().map(named).collect();
    if !names.is_empty() {
        say(format_args!("without effect here: {}", names.join("; ")));
    }
}

/// Prints what was run and stored, and returns the exit code.
fn report(sweep: &Checked<&Library>, store: &Store, ran: usize, path: &Path, is_stopped: bool) -> ExitCode {
    let all = sweep.points().len();
    let (rows, errors) = store.counts(sweep.points());
    say(format_args!(
        "{ran} points ran, {} were stored already; {} has {rows} of {all} rows",
        rows - ran,
        path.display()
    ));
    if let Some((point, error)) = store.first_error(sweep.points()) {
        say(format_args!(
            "{errors} rows have an error (they run again next time); the first is {point}: {error}"
        ));
    }
    if is_stopped {
        say("the sweep was stopped; the same command continues it");
        return ExitCode::from(INTERRUPTED);
    }
    if errors > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Returns the main figures of the first rows.
fn table(rows: &[&Row]) -> String {
    let mut lines = vec![["point", "IOPS", "mean", "p99"].map(str::to_owned)];
    for row in &rows[..rows.len().min(ROWS_MAX)] {
        let words = row.point.iter().map(|(name, value)| format!("{name}={}", text(value)));
        let point = words.collect::<Vec<_>>().join(", ");
        let point = if point.is_empty() { "the job".to_owned() } else { point };
        let latency = |name: &str| match row.figures.get(name) {
            Some(Cell::Number(ns)) => quantity::duration(Duration::from_ns(*ns as u64)),
            Some(Cell::Count(ns)) => quantity::duration(Duration::from_ns(*ns as u64)),
            _ => "-".to_owned(),
        };
        let iops = match row.figures.get("iops") {
            Some(Cell::Number(iops)) => quantity::iops(*iops),
            _ => "-".to_owned(),
        };
        lines.push([point, iops, latency("latency_ns_mean"), latency("latency_ns_p99")]);
    }
    let lines: Vec<Vec<&str>> = lines.iter().map(|line| line.iter().map(String::as_str).collect()).collect();
    let mut text = columns(&lines, &[false, true, true, true], width::columns());
    if rows.len() > ROWS_MAX {
        text += &format!("{} more; --format csv prints all rows\n", rows.len() - ROWS_MAX);
    }
    text
}

/// Returns all rows as CSV: the key, the names of the points, and the figures.
fn csv(rows: &[&Row]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.point) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let figures: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.figures.keys().map(String::as_str)).collect();
    let header: Vec<String> = ["key"]
        .into_iter()
        .chain(names.iter().copied())
        .chain(figures.iter().copied())
        .map(String::from)
        .collect();
    let record = |row: &&Row| {
        let value =
            |name: &&str| row.point.iter().find(|(known, _)| known == name).map(|(_, value)| text(value));
        let point = names.iter().map(|name| value(name).unwrap_or_default());
        let figures = figures.iter().map(|name| row.figures.get(*name).map(text).unwrap_or_default());
        [row.key.clone()].into_iter().chain(point).chain(figures).collect::<Vec<String>>()
    };
    flashlab_report::csv::file(&header, rows.iter().map(record))
}

/// Returns a value as plain text.
fn text(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => number.to_string(),
        Cell::Count(count) => count.to_string(),
        Cell::Text(text) => text.clone(),
    }
}

fn list(sweep: &Checked<&Library>) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    for (key, point) in sweep.points() {
        text.push_str(&format!("{key} {point}\n"));
    }
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a plan. A job of one line without `=` and `[` that does not begin with `-` names a job file beside the plan.
fn read_plan(path: &Path) -> Result<Plan, Failure> {
    let mut plan = Plan::from_toml(&read_text(path)?).map_err(|error| in_plan(path, &error))?;
    if let JobText::Text(text) = &plan.job {
        let is_name = !text.trim().is_empty() && !text.contains(['\n', '=', '[']) && !text.starts_with('-');
        if is_name {
            plan.job = JobText::Text(read_text(&path.parent().unwrap_or(Path::new("")).join(text.trim()))?);
        }
    }
    Ok(plan)
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let bytes = file::read(&path.to_string_lossy(), FILE_BYTES_MAX)
        .map_err(|why| Failure::usage(format_args!("{shown}: {why}")))?;
    String::from_utf8(bytes).map_err(|_| Failure::usage(format_args!("{shown}: it is not a text file")))
}

/// Returns the usage error for a fault in the plan.
fn in_plan(path: &Path, error: &SweepError) -> Failure {
    Failure::usage(format_args!("{}: {error}", path.display()))
}

/// Returns the failure for a fault in the folder of results.
fn failure(error: SweepError) -> Failure {
    match error {
        SweepError::Io { path, error } => Failure::io(&path, &error),
        other => Failure::usage(other),
    }
}
