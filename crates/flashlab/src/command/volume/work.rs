//! Progress and results of long work on a volume.

use super::size;
use crate::failure::{Failure, and_then_end};
use crate::file;
use crate::progress::ProgressDisplay;
use flashlab_block::Context;
use flashlab_served::volume::OpenPool;
use flashlab_served::wait::wait_on;
use flashlab_sim::Instant;
use flashlab_volume::{Amount, Backlog, Reason, Reconciled, Usage, Volume, Work};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Does the background work of a volume that can be done now, and shows its progress.
pub(super) fn reconcile(volume: &Volume) -> Result<Reconciled, Failure> {
    let total = volume.backlog().current_bytes();
    let display = ProgressDisplay::new("reconcile");
    display.plan(total);
    let cx = Context::new(Instant::ZERO);
    let report = |done: &Reconciled| {
        let bytes: u64 = done.done.values().map(|amount| amount.bytes).sum();
        display.reach(bytes);
        true
    };
    wait_on(volume.reconcile(&cx, 0, report), volume).map_err(|error| failed(&error))
}

/// Closes a volume after work on it, even if the work failed. Returns the first error.
pub(super) fn close_after<T>(pool: &OpenPool, done: Result<T, Failure>) -> Result<T, Failure> {
    use flashlab_served::Closing;
    and_then_end(done, pool.close().map_err(Failure::failed))
}

pub(super) fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("the volume: {error}"))
}

/// Prints the result of background work.
pub(super) fn print(done: &Reconciled) -> Result<(), Failure> {
    let mut text = String::new();
    for (work, amount) in &done.done {
        let _ = writeln!(text, "{:<10} {} in {} extents", work.name(), size(amount.bytes), amount.extents);
    }
    let _ = writeln!(text, "written    {}", size(done.moved_bytes));
    file::print(&(text + &pending(&done.pending)))
}

/// Describes all pending work of a volume, one line each.
pub(super) fn all_pending(usage: &Usage, backlog: &Backlog) -> String {
    let mut text = pending(&backlog.pending);
    if usage.metadata_copies < u32::from(usage.replicas) {
        let members = if usage.metadata_copies == 1 { "member" } else { "members" };
        let _ = writeln!(
            text,
            "pending    journal and map: on {} {members}, and {} copies are wanted",
            usage.metadata_copies, usage.replicas
        );
    }
    text
}

/// Describes pending work with its reasons, one line each.
pub(super) fn pending(pending: &BTreeMap<(Work, Reason), Amount>) -> String {
    let mut text = String::new();
    for ((work, reason), amount) in pending {
        let _ = writeln!(text, "pending    {} {}: {}", work.name(), size(amount.bytes), reason.text());
    }
    text
}
