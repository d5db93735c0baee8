//! `flashlab explain`: what a number, a device, a mechanism or an fio option is.

use crate::failure::Failure;
use crate::file;
use flashlab_lab::library::Library;
use std::process::ExitCode;

pub(crate) fn run(what: &str, library: &Library) -> Result<ExitCode, Failure> {
    let text = flashlab_lab::explain::explain(what, library, &flashlab_fio::explain::explain)
        .map_err(Failure::usage)?;
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
