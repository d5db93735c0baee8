//! 90 % intervals from the profile likelihood, or from the derivatives alone if
//! [`Settings::profile_likelihood`](super::Settings::profile_likelihood) is off.
//!
//! The end of an interval is the coordinate at which chi-squared, minimised over the other numbers, has risen
//! by [`CHI2_RISE`]. The derivatives predict the motion of the other numbers, and the model shows the true
//! rise. Each evaluation corrects the derivatives of its end with Broyden's update (Nocedal and Wright,
//! chapter 11). All ends are refined together, so that each batch has a point of every unfinished end.
//!
//! A number that is a small multiple of a unit or a power of two moves by whole steps. The search for the
//! intervals of the other numbers holds such a number fixed. Afterwards, these intervals are extended to
//! cover the neighbouring values of the number that the cells still permit.

use super::descent::{Descent, Local, Point, learn};
use super::matrix::{gram, inverse, solve, transposed_times};
use super::problem::{NEIGHBOURS, Number, Scale};
use super::{CHI2_RISE, DETERMINED_SHARE, Determined};

/// Number of rounds of refinement.
const ROUNDS: usize = 8;
/// Number of corrections of the other numbers in a round.
const CORRECTIONS: usize = 4;
/// Motion of a coordinate below which a correction is not worth an evaluation.
const MOTION_MIN: f64 = 2e-3;
/// Relative error of the rise at which an end is accepted.
const RISE_ERROR: f64 = 0.12;

/// An interval in coordinates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    /// Lower end.
    pub(super) low: f64,
    /// Upper end.
    pub(super) high: f64,
    /// True if the cells do not limit the number from below. The lower end is then the bound of the number.
    open_below: bool,
    /// True if the cells do not limit the number from above. The upper end is then the bound of the number.
    open_above: bool,
}

impl Interval {
    /// Returns the extent to which the cells determine a number with this interval.
    pub(super) fn determined(&self, value: f64, low: f64, high: f64) -> Determined {
        let half = 0.5 * (high - low) / value.abs();
        if low == high {
            return Determined::Yes;
        }
        match (self.open_below, self.open_above) {
            (true, true) => Determined::No,
            (true, false) => Determined::AtMost,
            (false, true) => Determined::AtLeast,
            (false, false) if half <= DETERMINED_SHARE => Determined::Yes,
            (false, false) => Determined::Loosely,
        }
    }
}

/// Rise of chi-squared up to which a minimum counts as almost permitted, as a multiple of the rise at the end
/// of an interval.
const ALMOST: f64 = 10.0;

/// One end of an interval during the refinement.
struct End {
    number: usize,
    /// Sign of the direction from the estimate.
    sign: f64,
    /// Distance from the estimate to the bound.
    room: f64,
    /// Next distance from the estimate to try.
    distance: f64,
    /// Largest tried distance at which chi-squared rises too little, with the point there.
    inside: (f64, Point),
    /// Smallest tried distance at which chi-squared rises too much, with the rise there.
    outside: Option<(f64, f64)>,
    /// Derivatives of the residuals on the way to this end.
    jacobian: Vec<Vec<f64>>,
    done: bool,
    open: bool,
}

/// Returns the intervals of all numbers. `inflation` widens them.
pub(super) fn intervals(
    descent: &mut Descent<'_>,
    best: &Point,
    local: &Local,
    inflation: f64,
) -> Vec<Interval> {
    let target = CHI2_RISE * inflation * inflation;
    let mut ends = Vec::new();
    for (k, number) in descent.problem.numbers.iter().enumerate() {
        let (low, high) = number.limits();
        for sign in [-1.0, 1.0] {
            let room = if sign < 0.0 { best.at[k] - low } else { high - best.at[k] };
            let sd = local.covariance[k][k].sqrt();
            // `permit_neighbours` finds the ends of a power of two.
            let is_done = room <= 1e-9 || number.scale == Scale::PowersOfTwo;
            ends.push(End {
                number: k,
                sign,
                room,
                distance: (target.sqrt() * sd).min(room).min(1.0),
                inside: (0.0, best.clone()),
                outside: None,
                jacobian: local.jacobian.clone(),
                done: is_done,
                open: room <= 1e-9,
            });
        }
    }
    let rounds = if descent.problem.settings.profile_likelihood { ROUNDS } else { 0 };
    for _ in 0..rounds {
        refine(descent, best, local, target, &mut ends);
        if ends.iter().all(|end| end.done) {
            break;
        }
    }
    let mut found: Vec<Interval> = ends.chunks(2).map(|pair| interval(pair, best)).collect();
    for k in 0..found.len() {
        let is_coarse = descent.problem.numbers[k].is_coarse(best.at[k]);
        if is_coarse || !descent.other_minima[k].is_empty() {
            permit_neighbours(descent, best, local, k, target, &mut found);
        }
    }
    for (interval, number) in found.iter_mut().zip(&descent.problem.numbers) {
        let (low, high) = number.limits();
        interval.open_below |= interval.low <= low + 1e-9;
        interval.open_above |= interval.high >= high - 1e-9;
    }
    found
}

/// Returns the interval between two ends.
fn interval(pair: &[End], best: &Point) -> Interval {
    let [below, above] = pair else { unreachable!("each number has two ends") };
    let at = best.at[below.number];
    Interval {
        low: at - below.distance,
        high: at + above.distance,
        open_below: below.open,
        open_above: above.open,
    }
}

/// Tries the other minima of number `k`, its distant rivals, and its neighbouring values up to the first on
/// each side that the cells do not permit. Extends the intervals over the values that the cells permit.
fn permit_neighbours(
    descent: &mut Descent<'_>,
    best: &Point,
    local: &Local,
    k: usize,
    target: f64,
    found: &mut [Interval],
) {
    let number = &descent.problem.numbers[k];
    let here = number.rounded(best.at[k]);
    let mut information = local.information.clone();
    information.iter_mut().for_each(|row| row[k] = 0.0);
    information[k].fill(0.0);
    information[k][k] = 1.0;
    let conditional = inverse(&information);
    let (mut least, mut most) = (best.at[k], best.at[k]);
    let mut permitted = Vec::new();
    let is_permitted = |point: &Point| point.chi2 - best.chi2 < target;
    let is_coarse = number.is_coarse(best.at[k]);
    let mut distant = if is_coarse { number.distant_rivals(here) } else { Vec::new() };
    distant.extend(&descent.other_minima[k]);
    distant.sort_by(f64::total_cmp);
    distant.dedup();
    for value in distant {
        let at = |value: f64| Number::coordinate(value);
        let Some(minimum) = descent.minimum_at(best, &local.jacobian, k, at(value)) else { continue };
        // The neighbours of a minimum that is almost permitted may be permitted.
        if is_coarse && minimum.chi2 - best.chi2 < ALMOST * target {
            for next in [-1, 1].into_iter().filter_map(|steps| number.neighbour(value, steps)) {
                let beside = descent.minimum_at(&minimum, &local.jacobian, k, at(next));
                permitted.extend(beside.filter(is_permitted));
            }
        }
        permitted.extend(Some(minimum).filter(is_permitted));
    }
    for sign in [-1, 1].into_iter().filter(|_| is_coarse) {
        let mut near = best.clone();
        for steps in 1..=NEIGHBOURS {
            let Some(value) = number.neighbour(here, sign * steps) else { break };
            let minimum = descent.minimum_at(&near, &local.jacobian, k, Number::coordinate(value));
            let Some(point) = minimum.filter(is_permitted) else { break };
            near = point.clone();
            permitted.push(point);
        }
    }
    for point in permitted {
        (least, most) = (least.min(point.at[k]), most.max(point.at[k]));
        let room = target - (point.chi2 - best.chi2);
        for (i, interval) in found.iter_mut().enumerate().filter(|(i, _)| *i != k) {
            let (low, high) = descent.problem.numbers[i].limits();
            let half = (room * conditional[i][i]).sqrt();
            interval.low = interval.low.min((point.at[i] - half).max(low));
            interval.high = interval.high.max((point.at[i] + half).min(high));
        }
    }
    if is_coarse {
        extend(number, here, [least, most].map(|at| number.rounded(at)), &mut found[k]);
    } else {
        (found[k].low, found[k].high) = (found[k].low.min(least), found[k].high.max(most));
    }
}

/// Sets the ends of a stepped number's interval to `least` and `most`, the extreme values that the cells
/// permit. An end at the limit of the values that were tried around `here` is not known.
fn extend(number: &super::Number, here: f64, [least, most]: [f64; 2], interval: &mut Interval) {
    let (low, high) = number.limits();
    let Some(unit) = number.unit_size else {
        // Beyond the values that were tried, nothing is known.
        let is_open = |value: f64, steps: i32| {
            number.neighbour(value, steps.signum()).is_none() || number.neighbour(here, steps) == Some(value)
        };
        (interval.open_below, interval.open_above) = (is_open(least, -NEIGHBOURS), is_open(most, NEIGHBOURS));
        interval.low = if interval.open_below { low } else { Number::coordinate(least) };
        interval.high = if interval.open_above { high } else { Number::coordinate(most) };
        return;
    };
    // The end lies almost half a unit beyond the last permitted multiple. If the last tried multiple is
    // permitted, the end is not known, and stays as it was.
    let edge = |value: f64, sign: f64| Number::coordinate(value + sign * 0.49 * unit);
    let reach = f64::from(NEIGHBOURS) * unit;
    if least > here - reach {
        interval.low = edge(least, -1.0).max(low);
    }
    if most < here + reach {
        interval.high = edge(most, 1.0).min(high);
    }
}

/// Evaluates all unfinished ends at their distances, with the other numbers at their minimum.
fn refine(descent: &mut Descent<'_>, best: &Point, local: &Local, target: f64, ends: &mut [End]) {
    let mut pending: Vec<usize> = (0..ends.len()).filter(|i| !ends[*i].done).collect();
    let mut lowest: Vec<Option<Point>> = vec![None; ends.len()];
    let mut batch: Vec<Vec<f64>> = pending.iter().map(|i| ends[*i].begin(descent, best, local)).collect();
    let ran = pending.clone();
    for _ in 0..=CORRECTIONS {
        let points = descent.points(batch);
        (batch, pending) = (Vec::new(), {
            let mut unfinished = Vec::new();
            for (i, point) in pending.iter().zip(points) {
                let Some(point) = point else { continue };
                let from = lowest[*i].as_ref().unwrap_or(&ends[*i].inside.1).clone();
                learn(&mut ends[*i].jacobian, &from, &point);
                let fell = lowest[*i].as_ref().is_none_or(|low| low.chi2 - point.chi2 > 0.03 * target);
                if lowest[*i].as_ref().is_none_or(|low| point.chi2 < low.chi2) {
                    lowest[*i] = Some(point);
                }
                if fell {
                    unfinished.push(*i);
                }
            }
            unfinished
        });
        pending.retain(|i| {
            let from = lowest[*i].as_ref().expect("it was just evaluated");
            let at = others_moved(descent, local, &ends[*i], from, &from.residuals);
            let moves = at.iter().zip(&from.at).any(|(a, b)| (a - b).abs() > MOTION_MIN);
            if moves {
                batch.push(at);
            }
            moves
        });
        if pending.is_empty() {
            break;
        }
    }
    for i in ran {
        ends[i].advance(lowest[i].take(), best.chi2, target);
    }
}

impl End {
    /// Returns the point that the derivatives predict at the current distance, starting from the last point
    /// inside the interval.
    fn begin(&self, descent: &Descent<'_>, best: &Point, local: &Local) -> Vec<f64> {
        let (_, from) = &self.inside;
        let coordinate = best.at[self.number] + self.sign * self.distance;
        let moved = coordinate - from.at[self.number];
        let residual = |(row, residual): (&Vec<f64>, &f64)| residual + moved * row[self.number];
        let residuals: Vec<f64> = self.jacobian.iter().zip(&from.residuals).map(residual).collect();
        let mut at = others_moved(descent, local, self, from, &residuals);
        at[self.number] = coordinate;
        at
    }

    /// Chooses the next distance. `lowest` is the point with the lowest chi-squared at the current distance.
    /// A distance at which the model cannot run counts as far outside.
    fn advance(&mut self, lowest: Option<Point>, chi2: f64, target: f64) {
        let rise = lowest.as_ref().map_or(f64::INFINITY, |point| point.chi2 - chi2);
        if (rise / target - 1.0).abs() < RISE_ERROR {
            // The rise is a parabola near the estimate.
            self.distance = (self.distance * (target / rise).sqrt()).min(self.room);
            self.done = true;
            return;
        }
        if rise < target {
            if self.distance >= self.room - 1e-12 {
                (self.done, self.open, self.distance) = (true, true, self.room);
                return;
            }
            self.inside = (self.distance, lowest.expect("its rise is finite"));
        } else {
            self.outside = Some((self.distance, rise));
        }
        let inside = (self.inside.1.chi2 - chi2).max(0.0);
        self.distance = match self.outside {
            None => {
                let factor = (target / inside.max(1e-3 * target)).sqrt();
                (self.distance * factor.clamp(1.3, 3.0)).min(self.room)
            }
            Some((outer, high)) => {
                let (low, high, goal) = (inside.sqrt(), high.min(1e4 * target).sqrt(), target.sqrt());
                let share = ((goal - low) / (high - low)).clamp(0.1, 0.9);
                self.inside.0 + share * (outer - self.inside.0)
            }
        };
    }
}

/// Returns `from` with the other numbers at the minimum that the derivatives of `end` predict for `residuals`.
fn others_moved(
    descent: &Descent<'_>,
    local: &Local,
    end: &End,
    from: &Point,
    residuals: &[f64],
) -> Vec<f64> {
    let numbers = &descent.problem.numbers;
    let others: Vec<usize> =
        (0..from.at.len()).filter(|k| *k != end.number && !numbers[*k].is_coarse(from.at[*k])).collect();
    let mut at = from.at.clone();
    if others.is_empty() {
        return at;
    }
    let rows: Vec<Vec<f64>> =
        end.jacobian.iter().map(|row| others.iter().map(|k| row[*k]).collect()).collect();
    let right = transposed_times(&rows, residuals, others.len());
    let mut products = gram(&rows, others.len());
    // The width of the bounds keeps in place the numbers that the cells do not determine.
    others.iter().enumerate().for_each(|(i, k)| products[i][i] += local.width_information[*k]);
    for (k, step) in others.iter().zip(solve(&products, &right)) {
        let (low, high) = descent.problem.numbers[*k].limits();
        at[*k] = (at[*k] - step.clamp(-0.7, 0.7)).clamp(low, high);
    }
    at
}
