//! `flashlab devices` and `flashlab experiments`: what there is.

use crate::failure::Failure;
use crate::file;
use flashlab_lab::experiment::Experiment;
use flashlab_lab::library::Library;
use std::process::ExitCode;

pub(crate) fn devices(library: &Library) -> Result<ExitCode, Failure> {
    file::print(&flashlab_lab::explain::devices(library))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn experiments(library: &Library, names: bool) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    for folder in library.experiments() {
        let experiment = Experiment::open(&folder.name, library)?;
        match names {
            true => text.push_str(&format!("{}\n", experiment.name())),
            false => text.push_str(&format!("{:12} {}\n", experiment.name(), experiment.title())),
        }
    }
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
