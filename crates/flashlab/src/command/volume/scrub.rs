//! `flashlab volume scrub` and `flashlab volume reconcile`.

use super::{Name, size, work};
use crate::failure::{Failure, say};
use crate::file;
use crate::progress::ProgressDisplay;
use flashlab_block::Context;
use flashlab_catalogue::library::Library;
use flashlab_served::wait::wait_on;
use flashlab_sim::Instant;
use flashlab_volume::{Scrubbed, Volume};
use std::process::ExitCode;

/// Reads every copy, and repairs what can be repaired. Ends with 1 if data is lost, or if a copy stays bad or
/// unreadable.
pub(super) fn run(name: &Name, library: &Library) -> Result<ExitCode, Failure> {
    let pool = name.open(false, library)?;
    let (scrubbed, lost) = work::close_after(&pool, scrub(&pool.volume))?;
    file::print(&format!("{scrubbed}\n"))?;
    let is_good = scrubbed.pending == 0 && scrubbed.unreadable == 0 && scrubbed.poisoned == 0 && lost == 0;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Scrubs a volume, and shows the progress. Also returns the number of lost bytes.
fn scrub(volume: &Volume) -> Result<(Scrubbed, u64), Failure> {
    let cx = Context::new(Instant::ZERO);
    let scrubbed = {
        let display = ProgressDisplay::new("scrub");
        display.plan(volume.usage().stored);
        let report = |bytes: u64| {
            display.reach(bytes);
            true
        };
        wait_on(volume.scrub_with(&cx, report), volume).map_err(|error| work::failed(&error))?
    };
    let lost = volume.usage().poisoned;
    if lost > 0 {
        say(format_args!("{} are lost: reads of them fail until they are overwritten", size(lost)));
    }
    Ok((scrubbed, lost))
}

/// Does all background work that can be done now. Ends with 1 if other work remains.
pub(super) fn reconcile(name: &Name, library: &Library) -> Result<ExitCode, Failure> {
    let pool = name.open(false, library)?;
    let done = work::close_after(&pool, work::reconcile(&pool.volume))?;
    work::print(&done)?;
    Ok(if done.pending.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
