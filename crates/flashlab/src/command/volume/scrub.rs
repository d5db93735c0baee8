//! `flashlab volume scrub` and `flashlab volume reconcile`.

use super::{Name, size, work};
use crate::failure::{Failure, say};
use crate::file;
use crate::progress::ProgressDisplay;
use flashlab_block::Context;
use flashlab_catalogue::library::Library;
use flashlab_served::wait::wait_on;
use flashlab_sim::Instant;
use std::process::ExitCode;

/// Reads every copy, and repairs what can be repaired. Ends with 1 if data is lost, or if a copy stays bad or
/// unreadable.
pub(super) fn run(name: &Name, library: &Library) -> Result<ExitCode, Failure> {
    let pool = name.open(false, library)?;
    let cx = Context::new(Instant::ZERO);
    let total = pool.volume.usage().stored;
    let scrubbed = {
        let display = ProgressDisplay::new("scrub");
        display.plan(total);
        let report = |bytes: u64| {
            display.reach(bytes);
            true
        };
        wait_on(pool.volume.scrub_with(&cx, report), &pool.volume).map_err(|error| work::failed(&error))?
    };
    let lost = pool.volume.usage().poisoned;
    if lost > 0 {
        say(format_args!("{} are lost: reads of them fail until they are overwritten", size(lost)));
    }
    work::close(&pool)?;
    file::print(&format!("{scrubbed}\n"))?;
    let is_good = scrubbed.pending == 0 && scrubbed.unreadable == 0 && scrubbed.poisoned == 0 && lost == 0;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Does all background work that can be done now.
pub(super) fn reconcile(name: &Name, library: &Library) -> Result<ExitCode, Failure> {
    let pool = name.open(false, library)?;
    let done = work::reconcile(&pool.volume)?;
    work::close(&pool)?;
    work::print(&done)?;
    Ok(ExitCode::SUCCESS)
}
