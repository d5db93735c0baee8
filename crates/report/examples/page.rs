//! Writes the page of made-up results, which shows every figure without a run: `cargo run -p flashlab-report --example
//! page -- sweep page.html`.
//!
//! The made-up results are `sd-cards`, `at91`, `sweep` (curves), `worn` (wear, series, statistics), `endurance`,
//! `hostile` and `empty`. A file name ending in `.svg` receives the first figure; a name ending in `/` is a folder that
//! receives every figure as a file. Without a file name, the program prints the terminal form; `--colour` in place of
//! the name adds colours.

#[allow(dead_code)] // the tests use the rest of it
#[path = "../tests/report/fixture/mod.rs"]
mod fixture;

use flashlab_lab::results::Results;
use flashlab_report::figure;
use std::{env, fs, io, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let results = match arguments.first().map(String::as_str) {
        None | Some("sd-cards") => fixture::sd_cards_fixture(),
        Some("at91") => fixture::at91_fixture(),
        Some("sweep") => fixture::sweep_fixture(),
        Some("worn") => fixture::worn_fixture(),
        Some("endurance") => fixture::endurance_fixture(),
        Some("hostile") => fixture::hostile_fixture(),
        Some("empty") => fixture::empty_fixture(),
        Some(other) => {
            eprintln!(
                "there is no fixture {other}; there are sd-cards, at91, sweep, worn, endurance, hostile and empty"
            );
            return ExitCode::from(2);
        }
    };
    let Some(path) = arguments.get(1).filter(|argument| *argument != "--colour") else {
        print!(
            "{}",
            flashlab_report::terminal::table(&results, flashlab_report::terminal::WIDTH, arguments.len() > 1)
        );
        return ExitCode::SUCCESS;
    };
    match write(path, &results) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(path: &str, results: &Results) -> io::Result<()> {
    let figures = figure::all(results);
    if let Some(folder) = path.strip_suffix('/') {
        fs::create_dir_all(folder)?;
        for (i, (kind, figure)) in figures.iter().enumerate() {
            fs::write(format!("{folder}/{i:03}-{kind}.svg"), figure.to_svg())?;
        }
        return Ok(());
    }
    let text = match figures.first().filter(|_| path.ends_with(".svg")) {
        Some((_, figure)) => figure.to_svg(),
        None => flashlab_report::html::page(results, "cargo run -p flashlab-report --example page"),
    };
    fs::write(path, text)
}
