//! Writes the page of made-up results: `cargo run -p flashlab-report --example page -- sd-cards page.html`.
//!
//! A second file name ending in `.svg` gets the first figure.

#[allow(dead_code)] // the tests need more of it
#[path = "../tests/report/fixture/mod.rs"]
mod fixture;

use std::{env, fs, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let results = match arguments.first().map(String::as_str) {
        None | Some("sd-cards") => fixture::sd_cards_fixture(),
        Some("at91") => fixture::at91_fixture(),
        Some("hostile") => fixture::hostile_fixture(),
        Some("empty") => fixture::empty_fixture(),
        Some(other) => {
            eprintln!("there is no fixture {other}; there are sd-cards, at91, hostile and empty");
            return ExitCode::from(2);
        }
    };
    let Some(path) = arguments.get(1) else {
        print!("{}", flashlab_report::terminal::table(&results, false));
        return ExitCode::SUCCESS;
    };
    let text = if path.ends_with(".svg") {
        flashlab_report::figure::bars::figures(&results)[0].to_svg()
    } else {
        flashlab_report::html::page(&results)
    };
    match fs::write(path, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}
