//! `flashlab devices` and `flashlab experiments`: lists of the available devices and experiments.

use crate::failure::Failure;
use crate::file;
use crate::width::columns;
use flashlab_catalogue::explain::Listing;
use flashlab_catalogue::library::Library;
use flashlab_lab::experiment::{Experiment, Live};
use flashlab_report::terminal::wrapped;
use serde_json::json;
use std::process::ExitCode;

/// Column at which the titles of experiments begin.
const TITLES: usize = 13;

pub(crate) fn devices(library: &Library, pattern: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    let listing = match pattern {
        Some(pattern) => Listing::matching(pattern, library).map_err(Failure::usage)?,
        None => Listing::all(library),
    };
    file::print(&if json { file::pretty(&listing.json()) } else { listing.text(columns()) })?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn experiments(library: &Library, names: bool, json: bool) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    let mut list = Vec::new();
    for folder in library.experiments() {
        let (title, is_live) = match Live::open(&folder.name, library)? {
            Some(live) => (live.title().to_owned(), true),
            None => (Experiment::open(&folder.name, library)?.title().to_owned(), false),
        };
        match names {
            true => text.push_str(&format!("{}\n", folder.name)),
            false => {
                let title = wrapped(&title, columns() - TITLES).replace('\n', &format!("\n{:TITLES$}", ""));
                text.push_str(&format!("{:12} {}\n", folder.name, title.trim_end()));
            }
        }
        list.push(json!({ "name": folder.name, "title": title, "live": is_live }));
    }
    file::print(&if json { file::pretty(&json!({ "experiments": list })) } else { text })?;
    Ok(ExitCode::SUCCESS)
}
