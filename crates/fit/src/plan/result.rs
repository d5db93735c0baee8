//! The result of a step: the statistics of its jobs as observations.

use super::PlannedStep;
use crate::observation::{Latencies, Mark, Observation, Quantity, Step};
use flashlab_fio::job::Direction;
use flashlab_fio::stats::Report;

/// Quantities that a result contains.
const QUANTITIES: [Quantity; 7] = [
    Quantity::Iops,
    Quantity::BytesPerSecond,
    Quantity::LatencyMean,
    Quantity::LatencyMax,
    Quantity::LatencyPercentile(50.0),
    Quantity::LatencyPercentile(99.0),
    Quantity::LatencyPercentile(99.9),
];

impl PlannedStep {
    /// Returns the step with the results of its jobs. The jobs of a step are one job with its clones, so
    /// there is one report; a step that only prepares has no observations.
    pub fn result(&self, reports: &[Report]) -> Step {
        let mut step = Step {
            name: self.name.clone(),
            job: self.job.clone(),
            before: self.before,
            rest: self.rest,
            ..Step::default()
        };
        if !self.only_prepares {
            reports.iter().for_each(|report| observe(report, &mut step));
        }
        for failure in reports.iter().filter_map(|report| report.stats.failure.as_ref()) {
            let (direction, offset) = (failure.io.direction.name(), failure.io.offset);
            let note = format!("a {direction} at byte {offset} failed: {}", failure.description());
            step.marks.push(if self.only_prepares { Mark::Warned } else { Mark::Incomplete });
            step.notes.push(note);
        }
        step
    }
}

fn observe(report: &Report, step: &mut Step) {
    for direction in Direction::ALL {
        let stats = report.stats.direction(direction);
        if stats.total_ios() == 0 {
            continue;
        }
        for (quantity, value) in QUANTITIES.map(|quantity| (quantity, quantity.of(stats))) {
            // A run that took no time has no rate.
            if value > 0.0 {
                step.observations.push(Observation::new(direction, quantity, value));
            }
        }
        step.latencies.push(Latencies::of(direction, &stats.clat));
    }
}
