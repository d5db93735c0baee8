//! The lives of a device's media as cells, a survival curve, a wear map and notes.

use super::history::{Life, Used};
use crate::experiment::Outcome;
use crate::experiment::measured::{MeasuredCell, figure_of};
use crate::results::{Figure, Series, WearMap};
use flashlab_catalogue::device::Device;

const NS_A_DAY: f64 = 86_400e9;
const NS_A_HOUR: f64 = 3_600e9;
const DAYS: &str = "days until the first failure";

/// Adds the lives of a column to the outcome. Returns the reason if no medium fails.
pub(super) fn report(
    outcome: &mut Outcome,
    column: &str,
    device: &Device,
    lives: &[Life],
    used: Used,
) -> Option<String> {
    let mut ends: Vec<&Life> = lives.iter().filter(|life| life.first_failure_ns.is_some()).collect();
    ends.sort_by(|a, b| days(a).total_cmp(&days(b)));
    let reason = ends.is_empty().then(|| reason_for_no_failure(column, device, lives, &used));
    outcome.notes.extend(reason.clone());
    let is_known = ends.iter().all(|life| life.is_known);
    if is_known && !ends.is_empty() {
        add_failures(outcome, column, lives.len(), &ends);
    }
    if let Some(life) = ends.iter().find(|life| !life.steady && is_known) {
        outcome.notes.push(format!(
            "{column}: the wear was not steady after {:.1} simulated days; the days until the first failure are a rough \
             estimate.",
            life.simulated_ns as f64 / NS_A_DAY
        ));
    }
    if device.state.is_some() {
        outcome.notes.push(format!(
            "{column}: a device restored from a state file has one medium, so the number of seeds has no effect."
        ));
    }
    let simulated = lives[0].simulated_ns as f64 / NS_A_DAY;
    let name = format!("{column}, after {simulated:.3} simulated days on the first medium");
    outcome.wear.extend(used.wear.map(|wear| -> WearMap { wear.map(name) }));
    let mut statistics = used.statistics;
    column.clone_into(&mut statistics.column);
    statistics.first_failure_seconds = lives[0].first_failure_ns.filter(|_| is_known).map(|ns| ns / 1e9);
    outcome.statistics.push(statistics);
    reason
}

/// Adds the cells of `ends` and the survival curve of `media` media. `ends` are the lives that end with a
/// failure, shortest first.
fn add_failures(outcome: &mut Outcome, column: &str, media: usize, ends: &[&Life]) {
    let median = ends[(ends.len() - 1) / 2];
    let all: Vec<f64> = ends.iter().map(|life| days(life)).collect();
    let mut cell = |table: &str, row: &str, unit: &str, figure: Figure| {
        add_cell(outcome, column, [table, row, unit], figure);
    };
    cell(DAYS, "shortest", "days", single(all[0]));
    cell(DAYS, "median", "days", single(days(median)));
    cell(DAYS, "longest", "days", single(all[all.len() - 1]));
    // The deviation between media is not the error of an estimate. The interval of the median shows that
    // error.
    let is_steady = ends.iter().all(|life| life.steady);
    let mean = figure_of(&all);
    cell(DAYS, "mean", "days", if is_steady { mean } else { single(mean.mean) });
    let written = median.written_rate * median.first_failure_ns.unwrap_or(0.0) / 1e12;
    cell("written until then", "median", "TB", single(written));
    if let Some(amplification) = median.amplification {
        cell("write amplification", "median", "ratio", single(amplification));
    }
    let left = |n: usize| 100.0 * (media - n) as f64 / media as f64;
    let steps = (0..).zip(&all).flat_map(|(n, days)| [(*days, left(n)), (*days, left(n + 1))]);
    outcome.series.push(Series {
        name: "media without a failure".into(),
        step: DAYS.into(),
        column: column.to_owned(),
        unit: "%".into(),
        x_unit: "days".into(),
        points: std::iter::once((0.0, 100.0)).chain(steps).collect(),
    });
}

/// Returns a note on why no medium of a column fails, and on how to get an estimate.
fn reason_for_no_failure(column: &str, device: &Device, lives: &[Life], used: &Used) -> String {
    match &used.wear {
        None => format!(
            "{column}: {} does not report erase blocks, so its life cannot be estimated.",
            device.argument
        ),
        Some(wear) if wear.limits.is_empty() => format!(
            "{column}: wear is not limited on {}, because its profile has no endurance. To set one, add for example \
             :cycles=3000 to the device.",
            device.argument
        ),
        Some(_) if lives.iter().any(|life| !life.steady) && used.statistics.erase_count > 0 => format!(
            "{column}: {:.1} simulated days are too short to estimate the life of {}. Simulate more with `--budget`, or \
             until wear is steady with `--exact`.",
            lives[0].simulated_ns as f64 / NS_A_DAY,
            device.argument
        ),
        Some(_) if lives.iter().any(|life| !life.steady) => format!(
            "{column}: the workload caused no erase on {} in {:.1} simulated days, too short a time to estimate its \
             life. Simulate more with `--budget`, or until wear is steady with `--exact`.",
            device.argument,
            lives[0].simulated_ns as f64 / NS_A_DAY
        ),
        Some(_) => format!(
            "{column}: the workload causes no erases on {}, so the device never wears out.",
            device.argument
        ),
    }
}

/// Returns a figure without a deviation.
fn single(mean: f64) -> Figure {
    Figure { mean, sd: 0.0 }
}

/// Adds a cell for a column; `names` are its table, its row and its unit.
fn add_cell(outcome: &mut Outcome, column: &str, [table, row, unit]: [&str; 3], simulated: Figure) {
    let cell = MeasuredCell::of_one_run((table, row, column), unit, simulated.mean);
    outcome.cells.push(MeasuredCell { simulated, ..cell });
}

/// Adds the 95 % interval of a column's median life to the outcome, and a note with the estimate.
pub(super) fn interval(outcome: &mut Outcome, column: &str, lives: &[Life], steady_percent: f64) {
    let mut ends: Vec<&Life> = lives.iter().filter(|life| life.interval.is_some()).collect();
    ends.sort_by(|a, b| days(a).total_cmp(&days(b)));
    let Some(median) = ends.get(ends.len().saturating_sub(1) / 2) else { return };
    let Some((from, to)) = median.interval.map(|(from, to)| (from / NS_A_DAY, to / NS_A_DAY)) else { return };
    for (row, days) in [("95 % from", from), ("95 % to", to)] {
        add_cell(outcome, column, [DAYS, row, "days"], single(days));
    }
    let more = if median.steady {
        String::new()
    } else {
        format!(
            " A longer simulation narrows the interval: a `--budget` four times as large about halves the random \
             part, and `--exact` continues until all estimates since the midpoint of the history lie within \
             {steady_percent} %."
        )
    };
    outcome.notes.push(format!("{}.{more}", estimate(column, median)));
}

/// Formats the life of a device as known so far, in one line.
pub(super) fn estimate(column: &str, life: &Life) -> String {
    let hours = life.simulated_ns as f64 / NS_A_HOUR;
    let from = if hours < 24.0 {
        format!("from {hours:.1} simulated hours")
    } else {
        format!("from {:.1} simulated days", hours / 24.0)
    };
    match (life.first_failure_ns, life.interval) {
        (Some(_), Some((low, high))) => {
            let (low, high) = (low / NS_A_DAY, high / NS_A_DAY);
            if !life.is_known {
                return format!(
                    "{column}: the life is between {low:.1} and {high:.1} days (95 %), {from}; there were \
                     too few erases for an estimate"
                );
            }
            format!("{column}: {:.1} days (95 %: {low:.1} to {high:.1}), {from}", days(life))
        }
        (Some(_), None) => format!("{column}: {:.1} days, simulated to the end", days(life)),
        (None, _) => format!("{column}: no estimate of the life so far, {from}"),
    }
}

fn days(life: &Life) -> f64 {
    life.first_failure_ns.unwrap_or(f64::INFINITY) / NS_A_DAY
}
