//! Evaluation of an experiment's bounds. A bound applies to the cells that its patterns match, starting at row `from`
//! if the bound has one. Bounds on errors skip the cells that have no figure to compare with.
//!
//! | keys of the bound | the bound holds if |
//! |---|---|
//! | `percent` | each cell is within this many percent of its published mean or reference, or of `expected` |
//! | `apart_percent` | each cell is at least this many percent away from `expected = { row = figure }` |
//! | `sd` | each cell is within this many published standard deviations of its published mean |
//! | `against`, `at_least` | at least this many cells compare to the other table's cell as in the publication |
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
    /// Rejects a bound that has no requirement, several requirements, or a requirement that nothing can meet.
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_numbers()?;
        self.limit().map(drop)
    }

    /// Rejects numbers that no cell can meet.
    fn check_numbers(&self) -> Result<(), String> {
        let widths = [
            ("percent", self.percent),
            ("apart_percent", self.apart_percent),
            ("sd", self.sd),
            ("equal_percent", self.equal_percent),
            ("flat_percent", self.flat_percent),
        ];
        let wrong = |width: &Option<f64>| width.is_some_and(|width| !(width >= 0.0 && width.is_finite()));
        if let Some((key, _)) = widths.iter().find(|(_, width)| wrong(width)) {
            return Err(format!("{key} must be 0 or more"));
        }
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least > most => {
                Err(format!("at_least = {least} is above at_most = {most}"))
            }
            _ => Ok(()),
        }
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

/// A value that a bound limits. It belongs to one cell or to a group of cells.
struct Value<'a> {
    cells: Vec<&'a Cell>,
    shown: String,
    value: f64,
    /// The larger this number, the worse the value.
    badness: f64,
}

impl<'a> Value<'a> {
    fn of_cell(cell: &'a Cell, value: f64, badness: f64) -> Value<'a> {
        Value { cells: vec![cell], shown: name(cell), value, badness }
    }
}

/// The worst of several values: the first one with the greatest badness.
struct Worst {
    cell: String,
    value: f64,
    /// Names of all cells whose values are outside the limit; `None` without any value.
    missed: Option<Vec<String>>,
}

impl Worst {
    fn of<'a>(values: impl Iterator<Item = Value<'a>>, holds: impl Fn(f64) -> bool) -> Worst {
        let (mut worst, mut missed) = (None::<Value<'_>>, Vec::new());
        for mut value in values {
            if !holds(value.value) {
                missed.extend(value.cells.iter().map(|cell| name(cell)));
            }
            // 0/0 is not a number. It counts as the worst value, so that the bound does not hold.
            value.badness = if value.badness.is_nan() { f64::INFINITY } else { value.badness };
            if worst.as_ref().is_none_or(|worst| value.badness > worst.badness) {
                worst = Some(value);
            }
        }
        match worst {
            Some(Value { shown, value, .. }) => Worst { cell: shown, value, missed: Some(missed) },
            None => Worst { cell: "no cell".into(), value: f64::INFINITY, missed: None },
        }
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
    let mut bounded: Vec<&Cell> = cells
        .iter()
        .filter(|c| bound.cells.iter().any(|p| p.matches(&name(c))))
        .filter(late_enough)
        .collect();
    let limit = bound.limit().expect("checked when the experiment was read");
    let compares = matches!(limit, Limit::Percent(_) | Limit::Apart(_) | Limit::Deviations(_));
    if compares {
        bounded.retain(|cell| error(bound, cell).is_some());
    }
    let errors = |badness: fn(f64) -> f64| {
        let errors = bounded.iter().filter_map(|cell| Some((*cell, error(bound, cell)?)));
        errors.map(move |(cell, error)| Value::of_cell(cell, error, badness(error.abs())))
    };
    let (text, worst) = match limit {
        Limit::SameSide { other, at_least } => return same_side(bound, &bounded, cells, other, at_least),
        Limit::Percent(percent) => {
            (format!("{percent} %"), Worst::of(errors(|error| error), |error| error.abs() <= percent))
        }
        Limit::Apart(percent) => {
            let nearest = Worst::of(errors(|error| -error), |error| error.abs() >= percent);
            (format!("at least {percent} % away"), nearest)
        }
        Limit::Deviations(most) => {
            (format!("{most} sd"), Worst::of(errors(|error| error), |error| error.abs() <= most))
        }
        Limit::Figure(interval) => {
            let figures = bounded.iter().map(|cell| (*cell, cell.simulated.mean));
            let figures = figures.map(|(cell, figure)| Value::of_cell(cell, figure, interval.beyond(figure)));
            let unit = bounded.first().map_or("", |cell| &cell.unit);
            let text = format!("{interval} {unit}").trim_end().to_owned();
            (text, Worst::of(figures, |figure| interval.holds(figure)))
        }
        Limit::Ratio { row, interval } => {
            (format!("{interval} times {row}"), worst_ratio(&bounded, cells, row, interval))
        }
        Limit::Equal { percent, along } => {
            (format!("within {percent} % of each other"), widest_group(&bounded, along, percent))
        }
        Limit::Knee { row, away } => {
            let text = format!("falls most after {row}, or at most {away} rows away");
            (text, farthest_knee(&bounded, row, away))
        }
    };
    Bound {
        name: bound.name.clone(),
        limit: text,
        held: worst.missed.as_ref().is_some_and(Vec::is_empty),
        missed: worst.missed.unwrap_or_default(),
        cells: bounded.iter().map(|cell| name(cell)).collect(),
        worst_cell: match bounded.is_empty() && compares {
            true => "no cell with a figure to compare with".into(),
            false => worst.cell,
        },
        worst: worst.value,
    }
}

/// Returns the cell whose ratio to the cell in `row`, of the same table and column, is farthest beyond `interval`.
fn worst_ratio(bounded: &[&Cell], cells: &[Cell], row: &str, interval: Interval) -> Worst {
    let ratio = |cell: &Cell| {
        let is_base = |c: &&Cell| (&c.table, &c.column) == (&cell.table, &cell.column) && c.row == row;
        let base = cells.iter().find(is_base);
        base.map_or(f64::INFINITY, |base| cell.simulated.mean / base.simulated.mean)
    };
    let others = bounded.iter().filter(|cell| cell.row != row).map(|cell| (*cell, ratio(cell)));
    let ratios = others.map(|(cell, ratio)| Value::of_cell(cell, ratio, interval.beyond(ratio)));
    Worst::of(ratios, |ratio| interval.holds(ratio))
}

/// Returns the group whose figures differ most, in percent of their mean.
fn widest_group(bounded: &[&Cell], along: Along, percent: f64) -> Worst {
    let values = groups(bounded, along).into_iter().map(|group| {
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
        Value { cells: group, shown, value: difference, badness: difference }
    });
    Worst::of(values, |difference| difference <= percent)
}

/// Returns the column whose largest relative fall is the most rows away from `row`.
fn farthest_knee(bounded: &[&Cell], row: &str, away: usize) -> Worst {
    let values = groups(bounded, Along::Column).into_iter().map(|curve| {
        let fall = |pair: &[&Cell]| 1.0 - pair[1].simulated.mean / pair[0].simulated.mean;
        let steepest = curve.windows(2).enumerate().max_by(|(_, a), (_, b)| fall(a).total_cmp(&fall(b)));
        let found = steepest.map_or(0, |(at, _)| at);
        let expected = curve.iter().position(|cell| cell.row == row);
        let distance = expected.map_or(f64::INFINITY, |expected| expected.abs_diff(found) as f64);
        Value { shown: name(curve[found]), cells: curve, value: distance, badness: distance }
    });
    Worst::of(values, |distance| distance <= away as f64)
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

/// Returns the error that a bound limits, in published standard deviations or in percent; `None` if there is
/// no figure to compare the cell with. If the publication states only an upper limit, the error of a figure
/// below the limit is 0, and the error of a figure above the limit is the difference from the limit.
fn error(bound: &BoundDefinition, cell: &Cell) -> Option<f64> {
    let simulated = cell.simulated.mean;
    if let Some(expected) = &bound.expected {
        return expected.get(&cell.row).and_then(number).map(|n| 100.0 * (simulated - n) / n);
    }
    match cell.published {
        Some(Published::Figure { mean, sd }) if bound.sd.is_some() => {
            sd.filter(|sd| *sd > 0.0).map(|sd| (simulated - mean) / sd)
        }
        Some(Published::Figure { .. }) => Some(cell.error_percent.unwrap_or(f64::INFINITY)),
        Some(Published::Below { below }) if bound.sd.is_none() => {
            Some((100.0 * (simulated - below) / below).max(0.0))
        }
        None if bound.sd.is_none() => cell.reference.as_ref().map(|found| found.error_percent),
        _ => None,
    }
}

/// Evaluates a bound with `against`: counts the cells that lie on the same side of the other table's cell as
/// in the publication.
fn same_side(
    bound: &BoundDefinition,
    bounded: &[&Cell],
    cells: &[Cell],
    other: &str,
    at_least: f64,
) -> Bound {
    let (mut wrong, mut missed) = (Vec::new(), Vec::new());
    for cell in bounded {
        let kin = cells.iter().find(|c| c.table == other && c.row == cell.row && c.column == cell.column);
        let agrees = kin.is_some_and(|kin| match (published_mean(cell), published_mean(kin)) {
            (Some(mine), Some(theirs)) => (mine < theirs) == (cell.simulated.mean < kin.simulated.mean),
            _ => false,
        });
        if !agrees {
            wrong.push(cell.column.clone());
            missed.push(name(cell));
        }
    }
    let right = bounded.len() - wrong.len();
    let held = right as f64 >= at_least;
    Bound {
        name: bound.name.clone(),
        limit: format!("{at_least} of {}", bounded.len()),
        cells: bounded.iter().map(|cell| name(cell)).collect(),
        worst_cell: if wrong.is_empty() { "none".into() } else { wrong.join(", ") },
        worst: right as f64,
        held,
        missed: if held { Vec::new() } else { missed },
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
    fn a_ratio_of_zero_to_zero_does_not_hold_and_hides_no_other_ratio() {
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

    #[test]
    fn only_cells_with_a_published_figure_have_an_error_or_miss_the_bound() {
        let pattern: CellPattern = toml::Value::String("*".into()).try_into().expect("a pattern");
        let bound =
            BoundDefinition { cells: vec![pattern], percent: Some(30.0), ..BoundDefinition::default() };
        let published = |column: &str, mean, published, error_percent| Cell {
            published: Some(published),
            error_percent,
            ..cell("", column, mean)
        };
        let figure = Published::Figure { mean: 100.0, sd: None };
        let good = published("good", 100.6, figure.clone(), Some(0.6));
        let bad = published("bad", 144.0, figure, Some(44.0));
        let above = published("above", 20.0, Published::Below { below: 18.0 }, None);
        let unmeasured = cell("", "unmeasured", 5.0);
        let judged = judge(&bound, &[unmeasured.clone(), above, good, bad]);
        assert_eq!((judged.held, &*judged.worst_cell, judged.worst), (false, "t/bad", 44.0));
        assert_eq!(judged.missed, ["t/bad"]);
        assert_eq!(judged.cells, ["t/above", "t/good", "t/bad"]);
        let nothing = judge(&bound, &[unmeasured]);
        assert_eq!((nothing.held, &*nothing.worst_cell), (false, "no cell with a figure to compare with"));
    }
}
