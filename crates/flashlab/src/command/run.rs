//! `flashlab run`: an experiment, its table, its page.

use crate::failure::{Failure, say};
use crate::{file, progress};
use clap::{Args, ValueEnum};
use flashlab_lab::experiment::Experiment;
use flashlab_lab::library::Library;
use flashlab_report::{csv, html, json, terminal};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    /// The experiment: `flashlab experiments` lists them; or a folder with one: `./mine`.
    experiment: String,
    /// Seeds the medium: no two erase blocks are alike.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Where the page is written; `EXPERIMENT.html` here if not given.
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
    /// All results as JSON, and nothing else on standard output.
    Json,
    /// A line a cell.
    Csv,
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let experiment = Experiment::open(&options.experiment, library)?;
    progress::catch_interrupts();
    let results = {
        let progress = progress::Progress::bar(experiment.runs(), experiment.name());
        experiment.run(library, options.seed, &progress)?
    };
    let text = match options.format {
        Format::Table => terminal::table(&results, colour()),
        Format::Json => json::results(&results),
        Format::Csv => csv::cells(&results),
    };
    file::print(&text)?;
    if !options.no_html {
        let path =
            options.html.clone().unwrap_or_else(|| PathBuf::from(format!("{}.html", experiment.name())));
        file::write(&path, html::page(&results).as_bytes())?;
        say(format_args!("the page is {}", path.display()));
    }
    let missed: Vec<_> = results.bounds.iter().filter(|bound| !bound.held).collect();
    for bound in &missed {
        say(format_args!("missed: {} (limit {}; worst {})", bound.name, bound.limit, bound.worst_cell));
    }
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether tables have colours: on a terminal, unless NO_COLOR is set.
fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
