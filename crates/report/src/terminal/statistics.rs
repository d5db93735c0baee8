//! Device counters on a terminal: one line per quantity and one column per run, with a few runs side by side.

use super::lines::{Lined, Style, clean, layout, wrap};
use crate::{number, statistics};
use flashlab_lab::results::Results;

/// Characters of the names of the quantities, and of the column of a run.
const NAMES: usize = 34;
const RUN: usize = 16;
/// Maximum number of runs shown; the page and JSON contain all of them.
const RUNS_MAX: usize = 16;

/// Returns the statistics of whole runs, and a reference to the statistics of other runs and of the points of curves.
pub(super) fn text(results: &Results, style: Style) -> String {
    let runs = statistics::whole_runs(results);
    let mut text = String::new();
    let side_by_side = (style.width.saturating_sub(NAMES) / RUN).clamp(1, 4);
    for runs in runs[..runs.len().min(RUNS_MAX)].chunks(side_by_side) {
        let mut head = vec![style.bold("statistics")];
        head.extend(runs.iter().map(|run| {
            let name = clean(&statistics::name(run));
            wrap(&name, 17).lines().map(|line| style.dim(line)).collect::<Vec<_>>().join("\n")
        }));
        let mut lines: Lined = vec![head];
        for line in statistics::lines(runs) {
            lines.push([vec![format!("  {}", line.name)], line.values].concat());
        }
        lines.push(vec![String::new(); runs.len() + 1]);
        let right: Vec<usize> = (1..=runs.len()).collect();
        text += &layout(lines, &vec![true; runs.len() + 1], &right, style.width);
    }
    let others = statistics::points(results).len() + runs.len().saturating_sub(RUNS_MAX);
    if others > 0 {
        let runs = number::plural(others, "more run");
        text += &style.dim(format!("the page and JSON contain the statistics of {runs}\n\n"));
    }
    text
}
