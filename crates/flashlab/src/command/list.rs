//! `flashlab devices` and `flashlab experiments`: what there is.

use crate::failure::Failure;
use crate::file;
use flashlab_lab::experiment::{Experiment, Live};
use flashlab_lab::library::Library;
use std::process::ExitCode;

pub(crate) fn devices(library: &Library) -> Result<ExitCode, Failure> {
    file::print(&flashlab_lab::explain::devices(library))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn experiments(library: &Library, names: bool) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    for folder in library.experiments() {
        let title = match Live::open(&folder.name, library)? {
            Some(live) => live.title().to_owned(),
            None => Experiment::open(&folder.name, library)?.title().to_owned(),
        };
        match names {
            true => text.push_str(&format!("{}\n", folder.name)),
            false => text.push_str(&format!("{:12} {title}\n", folder.name)),
        }
    }
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
