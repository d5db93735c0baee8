//! Evaluation of an experiment's bounds. A bound applies to the cells that its patterns match, starting at row `from`
//! if the bound has one.
//!
//! | keys of the bound | the bound holds if |
//! |---|---|
//! | `percent` | each cell is within this many percent of its published mean or reference, or of `expected` |
//! | `apart_percent` | each cell is at least this many percent away from `expected = { row = figure }` |
//! | `sd` | each cell is within this many published standard deviations of its published mean |
//! | `against`, `at_least` | at least this many cells lie above or below the other table's cell as in the publication |
//! | `below`, `at_least`, `at_most` | each figure lies within these limits |
//! | `ratio_to`, `at_least`, `at_most` | the ratio of each cell to the cell in that row lies within these limits |
//! | `equal_percent` | the cells of each row differ by at most this many percent of their mean |
//! | `flat_percent` | the cells of each column differ by at most this many percent of their mean |
//! | `knee`, `rows_away` | the largest relative fall of each column is at most this many rows away from that row |

use super::definition::BoundDefinition;
use super::pattern::cell_name;
use crate::results::{Bound, Cell, Published};

/// The requirement of a bound.
enum Limit<'a> {
    Percent(f64),
    Apart(f64),
    Deviations(f64),
    SameSide { other: &'a str, at_least: f64 },
    Figure(Interval),
    Ratio { row: &'a str, interval: Interval },
    Equal { percent: f64, along: Along },
    Knee { row: &'a str, away: usize },
}

/// The coordinate that the cells of a group share.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Along {
    Row,
    Column,
}

#[derive(Clone, Copy)]
struct Interval {
    least: f64,
    most: f64,
    /// True if `most` itself lies outside.
    open: bool,
}

impl Interval {
    /// Returns the distance of `value` from the interval; zero or negative inside.
    fn beyond(self, value: f64) -> f64 {
        (self.least - value).max(value - self.most)
    }
    fn holds(self, value: f64) -> bool {
        value >= self.least && if self.open { value < self.most } else { value <= self.most }
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.least.is_finite(), self.most.is_finite()) {
            (true, true) => write!(f, "{} to {}", self.least, self.most),
            (true, false) => write!(f, "at least {}", self.least),
            _ if self.open => write!(f, "below {}", self.most),
            _ => write!(f, "at most {}", self.most),
        }
    }
}

impl BoundDefinition {
    /// Rejects a bound with no requirement or more than one.
    pub(super) fn check(&self) -> Result<(), String> {
        self.limit().map(drop)
    }

    fn limit(&self) -> Result<Limit<'_>, String> {
        const EXPECTED: &str = "expected one of percent; apart_percent with expected; sd; against with at_least; below; at_least or at_most, also with \
                                ratio_to; equal_percent; flat_percent; knee";
        let interval = match (self.at_least, self.at_most, self.below) {
            (None, None, None) => None,
            (least, most, None) => Some(Interval {
                least: least.unwrap_or(f64::NEG_INFINITY),
                most: most.unwrap_or(f64::INFINITY),
                open: false,
            }),
            (None, None, Some(most)) => Some(Interval { least: f64::NEG_INFINITY, most, open: true }),
            _ => return Err(format!("below cannot be combined with at_least or at_most; {EXPECTED}")),
        };
        let mut found = Vec::new();
        found.extend(self.percent.map(Limit::Percent));
        found.extend(self.apart_percent.map(Limit::Apart));
        found.extend(self.sd.map(Limit::Deviations));
        found.extend(self.equal_percent.map(|percent| Limit::Equal { percent, along: Along::Row }));
        found.extend(self.flat_percent.map(|percent| Limit::Equal { percent, along: Along::Column }));
        found.extend(self.knee.as_deref().map(|row| Limit::Knee { row, away: self.rows_away }));
        match (&self.against, &self.ratio_to, interval) {
            (Some(other), None, Some(Interval { least, most, .. }))
                if least > 0.0 && most == f64::INFINITY =>
            {
                found.push(Limit::SameSide { other, at_least: least });
            }
            (None, Some(row), Some(interval)) => found.push(Limit::Ratio { row, interval }),
            (None, None, Some(interval)) => found.push(Limit::Figure(interval)),
            (None, None, None) => {}
            _ => return Err(EXPECTED.to_owned()),
        }
        if self.expected.is_some() && self.percent.or(self.apart_percent).is_none() {
            return Err("the key expected requires percent or apart_percent".into());
        }
        if self.expected.is_none() && self.apart_percent.is_some() {
            return Err("apart_percent requires the key expected".into());
        }
        let mut figures = self.expected.iter().flat_map(toml::Table::values);
        if figures.any(|figure| number(figure).is_none_or(|n| n == 0.0)) {
            return Err(
                "the key expected needs a figure other than 0 for each row: { \"1 GiB\" = 58.0 }".into()
            );
        }
        if found.len() != 1 {
            return Err(EXPECTED.to_owned());
        }
        Ok(found.remove(0))
    }
}

fn number(value: &toml::Value) -> Option<f64> {
    let number = value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64));
    number.filter(|number| number.is_finite())
}

/// The worst of several values: the first one with the greatest badness.
struct Worst {
    cell: String,
    value: f64,
    badness: f64,
}

impl Worst {
    fn of(values: impl Iterator<Item = (String, f64, f64)>) -> Worst {
        let none = Worst { cell: "no cell".into(), value: f64::INFINITY, badness: f64::NEG_INFINITY };
        values.fold(none, |worst, (cell, value, badness)| {
            // 0/0 is not a number. It counts as the worst value, so that the bound does not hold.
            let badness = if badness.is_nan() { f64::INFINITY } else { badness };
            if worst.badness >= badness { worst } else { Worst { cell, value, badness } }
        })
    }
}

/// Returns true if a bound concerns the cells of several columns together.
pub(super) fn compares_columns(bound: &BoundDefinition) -> bool {
    bound.against.is_some() || bound.equal_percent.is_some()
}

/// Returns the name of a cell.
fn name(cell: &Cell) -> String {
    cell_name(&cell.table, &cell.row, &cell.column)
}

/// Evaluates one bound over the cells of a run. A bound that matches no cell does not hold, because it would state
/// nothing.
pub(super) fn judge(bound: &BoundDefinition, cells: &[Cell]) -> Bound {
    let mut rows: Vec<&str> = Vec::new();
    for cell in cells {
        if !rows.contains(&cell.row.as_str()) {
            rows.push(&cell.row);
        }
    }
    let late_enough = |cell: &&Cell| match &bound.from {
        Some(from) => {
            rows.iter().position(|row| row == from) <= rows.iter().position(|row| *row == cell.row)
                && rows.contains(&from.as_str())
        }
        None => true,
    };
    let bounded: Vec<&Cell> = cells
        .iter()
        .filter(|c| bound.cells.iter().any(|p| p.matches(&name(c))))
        .filter(late_enough)
        .collect();
    let judged = |limit: String, worst: Worst, held: bool| Bound {
        name: bound.name.clone(),
        limit,
        cells: bounded.iter().map(|cell| name(cell)).collect(),
        worst_cell: worst.cell,
        worst: worst.value,
        held,
    };
    match bound.limit().expect("checked when the experiment was read") {
        Limit::SameSide { other, at_least } => same_side(bound, &bounded, cells, other, at_least),
        Limit::Percent(percent) => {
            let worst = Worst::of(bounded.iter().map(|cell| {
                let error = match &bound.expected {
                    Some(expected) => error_of(cell, expected.get(&cell.row).and_then(number)),
                    None => error(cell, false),
                };
                (name(cell), error, error.abs())
            }));
            let held = worst.value.abs() <= percent;
            judged(format!("{percent} %"), worst, held)
        }
        Limit::Apart(percent) => {
            let nearest = nearest(bound, &bounded);
            let held = !bounded.is_empty() && nearest.value.abs() >= percent;
            judged(format!("at least {percent} % away"), nearest, held)
        }
        Limit::Deviations(most) => {
            let errors = bounded.iter().map(|cell| (name(cell), error(cell, true)));
            let worst = Worst::of(errors.map(|(cell, error)| (cell, error, error.abs())));
            let held = worst.value.abs() <= most;
            judged(format!("{most} sd"), worst, held)
        }
        Limit::Figure(interval) => {
            let figures = bounded.iter().map(|cell| (name(cell), cell.simulated.mean));
            let worst = Worst::of(figures.map(|(cell, figure)| (cell, figure, interval.beyond(figure))));
            let held = !bounded.is_empty() && interval.holds(worst.value);
            let unit = bounded.first().map_or("", |cell| &cell.unit);
            judged(format!("{interval} {unit}").trim_end().to_owned(), worst, held)
        }
        Limit::Ratio { row, interval } => {
            let worst = worst_ratio(&bounded, cells, row, interval);
            let held = interval.holds(worst.value) && worst.badness > f64::NEG_INFINITY;
            judged(format!("{interval} times {row}"), worst, held)
        }
        Limit::Equal { percent, along } => {
            let worst = widest_group(&bounded, along);
            let held = worst.value <= percent;
            judged(format!("within {percent} % of each other"), worst, held)
        }
        Limit::Knee { row, away } => {
            let worst = farthest_knee(&bounded, row);
            let held = worst.value <= away as f64;
            judged(format!("falls most after {row}, or at most {away} rows away"), worst, held)
        }
    }
}

/// Returns the cell whose ratio to the cell in `row`, of the same table and column, is farthest beyond `interval`.
fn worst_ratio(bounded: &[&Cell], cells: &[Cell], row: &str, interval: Interval) -> Worst {
    let ratio = |cell: &Cell| {
        let is_base = |c: &&Cell| (&c.table, &c.column) == (&cell.table, &cell.column) && c.row == row;
        let base = cells.iter().find(is_base);
        base.map_or(f64::INFINITY, |base| cell.simulated.mean / base.simulated.mean)
    };
    let others = bounded.iter().filter(|cell| cell.row != row);
    Worst::of(others.map(|cell| {
        let ratio = ratio(cell);
        (name(cell), ratio, interval.beyond(ratio))
    }))
}

/// Returns the group whose figures differ most, in percent of their mean.
fn widest_group(bounded: &[&Cell], along: Along) -> Worst {
    Worst::of(groups(bounded, along).into_iter().map(|group| {
        let figures = || group.iter().map(|cell| cell.simulated.mean);
        let mean = figures().sum::<f64>() / group.len() as f64;
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (least, most) =
            figures().fold(ends, |(least, most), figure| (least.min(figure), most.max(figure)));
        let difference = if most > least { 100.0 * (most - least) / mean } else { 0.0 };
        let cell = group[0];
        let shown = match along {
            Along::Row => cell_name(&cell.table, &cell.row, "*"),
            Along::Column => cell_name(&cell.table, "*", &cell.column),
        };
        (shown, difference, difference)
    }))
}

/// Returns the column whose largest relative fall is the most rows away from `row`.
fn farthest_knee(bounded: &[&Cell], row: &str) -> Worst {
    Worst::of(groups(bounded, Along::Column).into_iter().map(|curve| {
        let fall = |pair: &[&Cell]| 1.0 - pair[1].simulated.mean / pair[0].simulated.mean;
        let steepest = curve.windows(2).enumerate().max_by(|(_, a), (_, b)| fall(a).total_cmp(&fall(b)));
        let found = steepest.map_or(0, |(at, _)| at);
        let expected = curve.iter().position(|cell| cell.row == row);
        let distance = expected.map_or(f64::INFINITY, |expected| expected.abs_diff(found) as f64);
        (name(curve[found]), distance, distance)
    }))
}

/// Returns the cell that is nearest to its expected figure, and the error in percent of that figure.
fn nearest(bound: &BoundDefinition, bounded: &[&Cell]) -> Worst {
    let errors = bounded.iter().map(|cell| {
        let expected = bound.expected.as_ref().and_then(|expected| expected.get(&cell.row));
        let error = expected.and_then(number).map_or(0.0, |expected| error_of(cell, Some(expected)));
        (name(cell), error, -error.abs())
    });
    Worst::of(errors)
}

/// Groups the cells that share a table and a row, or a table and a column. The order of the cells is preserved.
fn groups<'a>(cells: &[&'a Cell], along: Along) -> Vec<Vec<&'a Cell>> {
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    let same = |a: &Cell, b: &Cell| {
        a.table == b.table
            && match along {
                Along::Row => a.row == b.row,
                Along::Column => a.column == b.column,
            }
    };
    for cell in cells {
        match groups.iter_mut().find(|group| same(group[0], cell)) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups
}

/// Returns the error of a cell in percent, or in published standard deviations; infinite if no figure is published.
fn error(cell: &Cell, in_deviations: bool) -> f64 {
    match cell.published {
        Some(Published::Figure { mean, sd }) if in_deviations => match sd {
            Some(sd) if sd > 0.0 => (cell.simulated.mean - mean) / sd,
            _ => f64::INFINITY,
        },
        Some(Published::Figure { .. }) => cell.error_percent.unwrap_or(f64::INFINITY),
        Some(Published::Below { below }) if cell.simulated.mean < below => 0.0,
        None if !in_deviations => cell.reference.as_ref().map_or(f64::INFINITY, |found| found.error_percent),
        _ => f64::INFINITY,
    }
}

/// Returns the error of a cell in percent of its expected figure.
fn error_of(cell: &Cell, expected: Option<f64>) -> f64 {
    expected.map_or(f64::INFINITY, |expected| 100.0 * (cell.simulated.mean - expected) / expected)
}

/// Counts the cells that lie on the same side of the other table's cell as in the publication.
fn same_side(
    bound: &BoundDefinition,
    bounded: &[&Cell],
    cells: &[Cell],
    other: &str,
    at_least: f64,
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
        held: right as f64 >= at_least,
    }
}

fn published_mean(cell: &Cell) -> Option<f64> {
    match cell.published {
        Some(Published::Figure { mean, .. }) => Some(mean),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::pattern::CellPattern;
    use crate::results::{Figure, Mechanisms, Role};

    fn cell(row: &str, column: &str, mean: f64) -> Cell {
        Cell {
            table: "t".into(),
            row: row.into(),
            column: column.into(),
            unit: "blocks".into(),
            published: None,
            reference: None,
            simulated: Figure { mean, sd: 0.0 },
            role: Role::Predicted,
            error_percent: None,
            requests: 0,
            latency_ns_mean: 0.0,
            mechanisms: Mechanisms(vec![]),
            mechanism_ns_totals: Mechanisms(vec![]),
            tail: None,
        }
    }

    #[test]
    fn a_ratio_of_nothing_to_nothing_does_not_hold_and_hides_no_other() {
        let pattern: CellPattern = toml::Value::String("t *".into()).try_into().expect("a pattern");
        let bound = BoundDefinition {
            name: "grows".into(),
            cells: vec![pattern],
            ratio_to: Some("base".into()),
            at_least: Some(2.0),
            ..BoundDefinition::default()
        };
        let base = [cell("base", "a", 1.0), cell("base", "b", 0.0), cell("base", "c", 1.0)];
        let with = |a, b, c| {
            let rows = [cell("row", "a", a), cell("row", "b", b), cell("row", "c", c)];
            judge(&bound, &[&base[..], &rows].concat())
        };
        assert!(with(3.0, 1.0, 3.0).held);
        assert!(!with(3.0, 0.0, 3.0).held, "0 of 0");
        let worst = with(1.0, 0.0, 3.0);
        assert!(!worst.held, "{} is {}", worst.worst_cell, worst.worst);
    }
}
