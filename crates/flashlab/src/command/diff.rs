//! `flashlab diff`: compares two results and shows the figures that changed.

use super::jobs::as_typed;
use crate::failure::{Failure, say};
use crate::file;
use crate::width::columns;
use clap::{Args, ValueEnum};
use flashlab_block::read_whole;
use flashlab_lab::difference::{BYTES_MAX, Difference, ResultFile};
use flashlab_report::difference as report;
use flashlab_report::html::{DifferencePage, difference_page};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    /// The first result: JSON of `run`, `compare`, `bench`, `measure` or fio, or a log that `flashlab fit` reads. -
    /// stands for standard input.
    a: PathBuf,
    /// The second result.
    b: PathBuf,
    /// Figures that differ by at most PERCENT of their value in the first result count as equal.
    #[arg(long, allow_negative_numbers = true, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    tolerance: f64,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// HTML file for the changed figures and the mechanisms (time per request) that explain them.
    #[arg(long, value_name = "PAGE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table of the changed figures.
    Table,
    /// All differences as JSON, and the figures that did not change.
    Json,
}

/// Exit code for errors; as in diff and cmp, 1 means that the results differ.
const TROUBLE: u8 = 2;

fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    value
        .filter(|percent| (0.0..1e6).contains(percent))
        .ok_or_else(|| "expected a percentage, such as 2 or 0.5".to_owned())
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    compare(options).map_err(|failure| failure.with_code(TROUBLE))
}

fn compare(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(page) = &options.html {
        file::check_output(page)?;
        file::check_not_input(page, [&options.a, &options.b])?;
    }
    if is_stdin(&options.a) && is_stdin(&options.b) {
        return Err(Failure::usage("only one of the results can be standard input (-)"));
    }
    let (a, b) = (read(&options.a)?, read(&options.b)?);
    let difference = Difference::between(&a, &b).map_err(Failure::usage)?;
    let [a, b] = [&options.a, &options.b].map(|path| shown(path));
    let text = match options.format {
        Format::Table => report::table(&difference, &a, &b, options.tolerance, columns()),
        Format::Json => report::json(&difference),
    };
    file::print(&text)?;
    if let Some(path) = &options.html {
        let page = DifferencePage {
            a: &a,
            b: &b,
            version: env!("CARGO_PKG_VERSION"),
            command: &as_typed(),
            tolerance: options.tolerance,
            difference: &difference,
        };
        file::write(path, difference_page(&page).as_bytes())?;
        say(format_args!("the page is {}", path.display()));
    }
    Ok(if difference.is_changed(options.tolerance) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the name of a result for readers.
fn shown(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

fn read(path: &Path) -> Result<ResultFile, Failure> {
    let bytes = if is_stdin(path) {
        file::read("-", BYTES_MAX as u64)
            .map_err(|error| Failure::usage(format!("standard input: {error}")))?
    } else {
        read_whole(path, BYTES_MAX as u64).map_err(|error| Failure::io(path, &error))?
    };
    ResultFile::parse(&bytes).map_err(|error| Failure::usage(format!("{}: {error}", shown(path))))
}
