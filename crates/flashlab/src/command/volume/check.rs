//! `flashlab volume check`.

use super::{Name, size};
use crate::failure::{Failure, say};
use crate::file;
use crate::progress::ProgressDisplay;
use flashlab_block::Context;
use flashlab_catalogue::library::Library;
use flashlab_served::wait::wait_on;
use flashlab_sim::Instant;
use std::process::ExitCode;

pub(super) fn run(name: &Name, library: &Library) -> Result<ExitCode, Failure> {
    let volume = name.open_read_only(library)?.volume;
    let report = {
        let display = ProgressDisplay::new("check");
        display.plan(volume.usage().stored);
        let cx = Context::new(Instant::ZERO);
        wait_on(volume.check_with(&cx, |bytes| display.reach(bytes)), &volume)
    };
    report
        .unclean
        .iter()
        .for_each(|state| say(format!("unclean stop; the next opening repairs it: {state}")));
    report.findings.iter().for_each(say);
    let findings = report.findings.len();
    file::print(&format!(
        "{} extents, {} copies, {} verified: {}\n",
        report.extents,
        report.copies,
        size(report.bytes),
        match findings {
            0 => "the volume is sound".to_owned(),
            1 => "1 finding".to_owned(),
            _ => format!("{findings} findings"),
        }
    ))?;
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
