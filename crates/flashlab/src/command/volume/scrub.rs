//! `flashlab volume scrub` and `flashlab volume reconcile`.

use super::work::{self, Rate};
use super::{Name, size};
use crate::failure::{Failure, say};
use crate::file;
use crate::interrupts::Interrupts;
use crate::progress::ProgressDisplay;
use clap::Args;
use flashlab_block::Context;
use flashlab_catalogue::library::Library;
use flashlab_served::wait::wait_on;
use flashlab_sim::Instant;
use flashlab_volume::{Scrub, Scrubbed, Volume};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    rate: Rate,
}

/// Reads every copy, and repairs what can be repaired. Ends with 1 if data is lost, or if a copy stays bad or
/// unreadable.
pub(super) fn run(
    options: &Options,
    library: &Library,
    interrupts: &Interrupts,
) -> Result<ExitCode, Failure> {
    let pool = options.name.open(false, library)?;
    let (scrubbed, lost) = work::close_after(&pool, scrub(&pool.volume, options.rate, interrupts))?;
    file::print(&format!("{scrubbed}\n"))?;
    let is_good = scrubbed.pending == 0 && scrubbed.unreadable == 0 && scrubbed.poisoned == 0 && lost == 0;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Scrubs a volume, and shows the progress. Also returns the number of lost bytes. A signal stops the scrub, which is a
/// failure.
fn scrub(volume: &Volume, rate: Rate, interrupts: &Interrupts) -> Result<(Scrubbed, u64), Failure> {
    let (cx, limiter, mut scrub) = (Context::new(Instant::ZERO), rate.begin(), Scrub::default());
    let is_complete = {
        let display = ProgressDisplay::new("scrub");
        display.plan(volume.usage().stored);
        interrupts.stop(&display);
        let report = |bytes: u64| {
            display.reach(bytes);
            limiter.wait(bytes, &display);
            !display.is_stopped()
        };
        wait_on(scrub.run(volume, &cx, 0, report), volume).map_err(|error| work::failed(&error))?
    };
    let scrubbed = scrub.result();
    if !is_complete {
        return Err(Failure::interrupted(format!(
            "stopped: {scrubbed}; repeat the command to scrub the volume from its beginning"
        )));
    }
    let lost = volume.usage().poisoned;
    if lost > 0 {
        say(format_args!("{} are lost: reads of them fail until they are overwritten", size(lost)));
    }
    Ok((scrubbed, lost))
}

/// Does all background work that can be done now. Ends with 1 if other work remains.
pub(super) fn reconcile(
    options: &Options,
    library: &Library,
    interrupts: &Interrupts,
) -> Result<ExitCode, Failure> {
    let pool = options.name.open(false, library)?;
    let done = work::close_after(&pool, work::reconcile(&pool.volume, options.rate, interrupts))?;
    work::print(&done)?;
    Ok(if done.pending.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
