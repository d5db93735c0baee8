//! Whether the bounds of an experiment hold.

use super::definition::BoundDefinition;
use super::pattern::cell_name;
use crate::results::{Bound, Cell, Published};

/// Judges one bound over the cells of a run. A bound without a cell does not hold: it would say nothing.
pub(super) fn judge(bound: &BoundDefinition, cells: &[Cell]) -> Bound {
    let name = |cell: &Cell| cell_name(&cell.table, &cell.row, &cell.column);
    let bounded: Vec<&Cell> =
        cells.iter().filter(|c| bound.cells.iter().any(|p| p.matches(&name(c)))).collect();
    if let (Some(other), Some(at_least)) = (&bound.against, bound.at_least) {
        return same_side(bound, &bounded, cells, other, at_least);
    }
    let (limit, unit) = match (bound.percent, bound.sd) {
        (Some(percent), _) => (percent, "%"),
        (_, sd) => (sd.expect("one of the three is given"), "sd"),
    };
    let errors = bounded.iter().map(|cell| (name(cell), error(cell, unit == "sd")));
    let worst = errors.fold(None, |worst: Option<(String, f64)>, (cell, error)| match &worst {
        Some((_, known)) if known.abs() >= error.abs() => worst,
        _ => Some((cell, error)),
    });
    let (worst_cell, worst) = worst.unwrap_or(("no cell".into(), f64::INFINITY));
    Bound {
        name: bound.name.clone(),
        limit: format!("{limit} {unit}"),
        cells: bounded.iter().map(|cell| name(cell)).collect(),
        worst_cell,
        worst,
        held: worst.abs() <= limit,
    }
}

/// The error of a cell in percent, or in published deviations; infinite where nothing is published.
fn error(cell: &Cell, in_deviations: bool) -> f64 {
    match cell.published {
        Some(Published::Figure { mean, sd }) if in_deviations => match sd {
            Some(sd) if sd > 0.0 => (cell.simulated.mean - mean) / sd,
            _ => f64::INFINITY,
        },
        Some(Published::Figure { .. }) => cell.error_percent.unwrap_or(f64::INFINITY),
        Some(Published::Below { below }) if cell.simulated.mean < below => 0.0,
        _ => f64::INFINITY,
    }
}

/// Counts the columns in which simulated and published figures lie on the same side of the other table's.
fn same_side(
    bound: &BoundDefinition,
    bounded: &[&Cell],
    cells: &[Cell],
    other: &str,
    at_least: usize,
) -> Bound {
    let mut wrong = Vec::new();
    for cell in bounded {
        let kin = cells.iter().find(|c| c.table == other && c.row == cell.row && c.column == cell.column);
        let agrees = kin.is_some_and(|kin| match (published_mean(cell), published_mean(kin)) {
            (Some(mine), Some(theirs)) => (mine < theirs) == (cell.simulated.mean < kin.simulated.mean),
            _ => false,
        });
        if !agrees {
            wrong.push(cell.column.clone());
        }
    }
    let right = bounded.len() - wrong.len();
    Bound {
        name: bound.name.clone(),
        limit: format!("{at_least} of {}", bounded.len()),
        cells: bounded.iter().map(|cell| cell_name(&cell.table, &cell.row, &cell.column)).collect(),
        worst_cell: if wrong.is_empty() { "none".into() } else { wrong.join(", ") },
        worst: right as f64,
        held: right >= at_least,
    }
}

fn published_mean(cell: &Cell) -> Option<f64> {
    match cell.published {
        Some(Published::Figure { mean, .. }) => Some(mean),
        _ => None,
    }
}
