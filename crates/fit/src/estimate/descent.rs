//! The search: Levenberg-Marquardt steps within bounds, from several starts, with numeric derivatives.
//!
//! An iteration evaluates whole batches: one for the derivatives of all numbers, then up to three with the
//! trial steps of several damping factors. The damping acts on the coordinates themselves, so a number that
//! the cells do not determine stays at its start.

use super::matrix::{Matrix, dot, gram, inverse, solve, times, transposed_times};
use super::problem::{FitError, Forward, Number, Predictions, Problem};
use flashlab_sim::Rng;

/// Factors of the damping that one iteration tries.
pub(super) const DAMPINGS: [f64; 3] = [0.03, 1.0, 30.0];
/// Longest step of a coordinate in one iteration.
const STEP_MAX: f64 = 1.5;
/// Fall of chi-squared, as a share of 1 + chi-squared, below which a search ends.
pub(super) const FALL_MIN: f64 = 2e-3;
/// The same share for a search that holds one number. Such a search only has to show whether the cells permit
/// the value of this number.
const HELD_FALL_MIN: f64 = 2e-2;
/// Largest number of rounds over the neighbours of stepped numbers.
pub(super) const NEIGHBOUR_ROUNDS: usize = 4;
/// Threshold for starts. No search descends from a start whose chi-squared exceeds this many times the sum of
/// this value and the chi-squared of the best minimum so far.
const HOPELESS: f64 = 10.0;
/// Spread of the additional starts on the logarithmic scale: a factor of e to this power.
const SPREAD: f64 = 1.2;

/// A point with its residuals.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Coordinates of the numbers.
    pub(super) at: Vec<f64>,
    /// Predicted cells.
    pub(super) predicted: Vec<f64>,
    /// Weighted residuals of the cells.
    pub(super) residuals: Vec<f64>,
    /// Sum of the squared residuals.
    pub(super) chi2: f64,
}

/// The model near the estimate.
#[derive(Clone, Debug)]
pub(super) struct Local {
    /// Derivatives of the residuals: one row per cell, one column per number.
    pub(super) jacobian: Vec<Vec<f64>>,
    /// Inverse of `information`. It always exists, because the information includes the width of the bounds.
    pub(super) covariance: Matrix,
    /// Information matrix: the products of the derivatives, plus `width_information` on the diagonal.
    pub(super) information: Matrix,
    /// Contribution of each number's bounds to its information: that of a uniform distribution between them.
    pub(super) width_information: Vec<f64>,
}

impl Local {
    pub(super) fn of(problem: &Problem<'_>, jacobian: Vec<Vec<f64>>) -> Local {
        let mut information = gram(&jacobian, problem.numbers.len());
        let width = |number: &super::Number| {
            let (low, high) = number.limits();
            12.0 / ((high - low) * (high - low))
        };
        let width_information: Vec<f64> = problem.numbers.iter().map(width).collect();
        width_information.iter().enumerate().for_each(|(k, width)| information[k][k] += width);
        Local { covariance: inverse(&information), information, width_information, jacobian }
    }

    /// Returns the leverage of a cell: the share that its own measurement has in its fitted value.
    pub(super) fn leverage(&self, cell: usize) -> f64 {
        let row = &self.jacobian[cell];
        dot(row, &times(&self.covariance, row))
    }

    /// Returns the names of the cells that determine number `k`: those with at least a fifth of the largest influence
    /// on its estimate.
    pub(super) fn informative_cells(&self, problem: &Problem<'_>, k: usize) -> Vec<String> {
        let influence = |row: &Vec<f64>| super::matrix::dot(&self.covariance[k], row).abs();
        let mut cells: Vec<(f64, &str)> =
            self.jacobian.iter().map(influence).zip(problem.cells.iter().map(|c| c.name.as_str())).collect();
        cells.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let least = 0.2 * cells.first().map_or(0.0, |(most, _)| *most);
        cells.retain(|(influence, _)| *influence > 0.0 && *influence >= least);
        cells.into_iter().map(|(_, name)| name.to_owned()).collect()
    }
}

/// The derivatives of the candidates in units of their deviations: one row per candidate, in the order of the
/// problem; `None` if the model predicts no candidates.
pub(super) type CandidateRows = Vec<Option<Vec<f64>>>;

/// A search and the count of its evaluations.
pub(super) struct Descent<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) evaluations: usize,
    /// Values near which other minima lie, by number; only numbers with a unit have such values.
    pub(super) other_minima: Vec<Vec<f64>>,
}

impl<'a> Descent<'a> {
    pub(super) fn new(problem: &'a Problem<'a>) -> Self {
        Descent { problem, evaluations: 0, other_minima: vec![Vec::new(); problem.numbers.len()] }
    }

    /// Evaluates a batch of coordinates. `None` stands for points at which the model cannot run.
    pub(super) fn points(&mut self, batch: Vec<Vec<f64>>) -> Vec<Option<Point>> {
        self.tried(batch).into_iter().map(Result::ok).collect()
    }

    fn tried(&mut self, batch: Vec<Vec<f64>>) -> Vec<Result<Point, String>> {
        let problem = self.problem;
        let predictions = self.run(problem.forward, &batch, problem.cells.len());
        let point = |(at, predicted): (Vec<f64>, Predictions)| {
            let predicted = predicted?;
            let residual = |(cell, value): (&super::Cell, &f64)| {
                (value / cell.value).ln() / cell.share(&problem.settings)
            };
            let residuals: Vec<f64> = problem.cells.iter().zip(&predicted).map(residual).collect();
            let chi2 = residuals.iter().map(|r| r * r).sum();
            Ok(Point { at, predicted, residuals, chi2 })
        };
        batch.into_iter().zip(predictions).map(point).collect()
    }

    /// Runs a forward model and rejects predictions that are not positive numbers.
    fn run(&mut self, forward: &Forward<'_>, batch: &[Vec<f64>], cells: usize) -> Vec<Predictions> {
        if batch.is_empty() {
            return Vec::new();
        }
        let numbers = &self.problem.numbers;
        let value = |(number, at): (&super::Number, &f64)| number.rounded(*at);
        let points: Vec<Vec<f64>> =
            batch.iter().map(|at| numbers.iter().zip(at).map(value).collect()).collect();
        self.evaluations += points.len();
        let predictions = forward(&points);
        assert_eq!(predictions.len(), points.len(), "the forward model answers every point");
        let checked = |predicted: Predictions| {
            let predicted = predicted?;
            assert_eq!(predicted.len(), cells, "the forward model predicts every cell");
            let wrong = predicted.iter().position(|value| !(value.is_finite() && *value > 0.0));
            wrong.map_or(Ok(predicted.clone()), |n| {
                Err(format!("cell {} of the model is {}", n + 1, predicted[n]))
            })
        };
        predictions.into_iter().map(checked).collect()
    }

    /// Returns the best minimum of the followed starts, after up to `neighbour_rounds` rounds over the
    /// neighbours of stepped numbers.
    fn search(&mut self, neighbour_rounds: usize) -> Result<Point, FitError> {
        let starts = self.starts();
        let mut reason = String::new();
        let mut points = Vec::new();
        for tried in self.tried(starts) {
            match tried {
                Ok(point) => points.push(point),
                Err(message) if reason.is_empty() => reason = message,
                Err(_) => {}
            }
        }
        points.sort_by(|a, b| a.chi2.total_cmp(&b.chi2));
        points.truncate(self.problem.settings.followed.max(1));
        if neighbour_rounds == NEIGHBOUR_ROUNDS
            && let Some(start) = points.first().cloned()
        {
            points.extend(self.starts_of_ranges(&start));
            points.sort_by(|a, b| a.chi2.total_cmp(&b.chi2));
        }
        let mut found: Option<Point> = None;
        let followed = self.problem.settings.followed.max(1);
        for (n, point) in points.into_iter().enumerate() {
            // Later starts are tried only if the first ones have led to no minimum that explains the cells.
            if n > followed && found.as_ref().is_some_and(|best| best.chi2 < 1.0) {
                break;
            }
            if found.as_ref().is_some_and(|best| point.chi2 > HOPELESS * (best.chi2 + HOPELESS)) {
                continue;
            }
            let minimum = self.descend(point, None);
            found = [found, Some(minimum)].into_iter().flatten().min_by(|a, b| a.chi2.total_cmp(&b.chi2));
        }
        let found = found.ok_or(FitError::Forward { message: reason })?;
        Ok(self.try_neighbours(found, neighbour_rounds))
    }

    /// Returns the best minimum. Compares it with its rivals if `neighbour_rounds` is [`NEIGHBOUR_ROUNDS`].
    pub(super) fn minimum(&mut self, neighbour_rounds: usize) -> Result<Point, FitError> {
        let best = self.search(neighbour_rounds)?;
        if neighbour_rounds < NEIGHBOUR_ROUNDS {
            return Ok(best);
        }
        let best = self.leave_plateaus(best);
        Ok(self.compare_rivals(best))
    }

    /// Compares `best` with the minima over the other numbers at rival values of each coarse number, and
    /// returns the best point of all. The other numbers may have to move far before a rival is better, so the
    /// derivatives at the best point do not reveal such a rival.
    fn compare_rivals(&mut self, mut best: Point) -> Point {
        let numbers = &self.problem.numbers;
        loop {
            let jacobian = self.jacobian(&best);
            let mut lowest: Option<Point> = None;
            for k in (0..numbers.len()).filter(|k| numbers[*k].is_coarse(best.at[*k])) {
                for value in numbers[k].rivals(numbers[k].rounded(best.at[k])) {
                    let found = self.minimum_at(&best, &jacobian, k, Number::coordinate(value));
                    lowest = [lowest, found].into_iter().flatten().min_by(|a, b| a.chi2.total_cmp(&b.chi2));
                }
            }
            match lowest {
                Some(rival) if rival.chi2 < best.chi2 - FALL_MIN * (1.0 + best.chi2) => {
                    best = self.descend(rival, None);
                }
                _ => return best,
            }
        }
    }

    /// Returns the minimum over the other numbers with number `k` at `coordinate`, given the derivatives at a point nearby;
    /// `None` if the model cannot run there. Other powers of two move by one step at most.
    pub(super) fn minimum_at(
        &mut self,
        near: &Point,
        jacobian: &[Vec<f64>],
        k: usize,
        coordinate: f64,
    ) -> Option<Point> {
        let alone = replaced(&near.at, k, coordinate);
        let mut batch = vec![self.others_moved(near, jacobian, k, coordinate)];
        let numbers = &self.problem.numbers;
        for other in (0..numbers.len()).filter(|other| *other != k && numbers[*other].is_power()) {
            for value in
                [-1, 1].map(|steps| numbers[other].neighbour(numbers[other].rounded(alone[other]), steps))
            {
                let coordinate = value.map(Number::coordinate);
                batch.extend(coordinate.map(|at| replaced(&alone, other, at)));
            }
        }
        batch.push(alone);
        let tried = self.points(batch);
        let start = tried.into_iter().flatten().min_by(|a, b| a.chi2.total_cmp(&b.chi2))?;
        Some(self.descend(start, Some(k)))
    }

    /// Tries the neighbouring values of stepped numbers, and descends from the best. Derivatives miss a minimum that
    /// lies between the two points that they compare.
    fn try_neighbours(&mut self, mut best: Point, rounds: usize) -> Point {
        let numbers = &self.problem.numbers;
        let stepped: Vec<usize> = (0..numbers.len()).filter(|k| numbers[*k].is_stepped()).collect();
        for _ in 0..rounds {
            if stepped.is_empty() {
                break;
            }
            let jacobian = self.jacobian(&best);
            let mut batch = Vec::new();
            for k in &stepped {
                let number = &self.problem.numbers[*k];
                let here = number.rounded(best.at[*k]);
                for value in number.neighbours(here) {
                    let coordinate = Number::coordinate(value);
                    batch.push(self.others_moved(&best, &jacobian, *k, coordinate));
                    // The derivatives do not hold across a jump of the model, so the point at which the other
                    // numbers stay is tried as well.
                    if number.is_power() {
                        let mut at = best.at.clone();
                        at[*k] = coordinate;
                        batch.push(at);
                    }
                }
            }
            let tried = self.points(batch).into_iter().flatten();
            let Some(lower) = tried.min_by(|a, b| a.chi2.total_cmp(&b.chi2)) else { break };
            if lower.chi2 > best.chi2 - FALL_MIN * (1.0 + best.chi2) {
                break;
            }
            best = self.descend(lower, None);
        }
        best
    }

    /// Moves number `k` to `coordinate`, and returns the point at which the derivatives at `from` predict the
    /// minimum over the other numbers. Powers of two keep their values.
    pub(super) fn others_moved(
        &self,
        from: &Point,
        jacobian: &[Vec<f64>],
        k: usize,
        coordinate: f64,
    ) -> Vec<f64> {
        let moved = coordinate - from.at[k];
        let mut from = from.clone();
        from.at[k] = coordinate;
        from.residuals.iter_mut().zip(jacobian).for_each(|(residual, row)| *residual += moved * row[k]);
        self.others_at_minimum(&from, jacobian, k)
    }

    /// Returns the point at which the derivatives predict the minimum over all numbers but `k`. Powers of two
    /// keep their values.
    pub(super) fn others_at_minimum(&self, from: &Point, jacobian: &[Vec<f64>], k: usize) -> Vec<f64> {
        let numbers = &self.problem.numbers;
        let slope = |(i, slope): (usize, &f64)| if i == k || numbers[i].is_power() { 0.0 } else { *slope };
        let without: Vec<Vec<f64>> =
            jacobian.iter().map(|row| row.iter().enumerate().map(slope).collect()).collect();
        let products = gram(&without, from.at.len());
        let largest = (0..from.at.len()).map(|i| products[i][i]).fold(1e-9, f64::max);
        self.step(from, &without, 1e-4 * largest)
    }

    /// Returns the start of the problem with its predictions.
    pub(super) fn start(&mut self) -> Result<Point, FitError> {
        let start = self.problem.numbers.iter().map(|number| Number::coordinate(number.start)).collect();
        let tried = self.tried(vec![start]).pop().expect("one point was tried");
        tried.map_err(|message| FitError::Forward { message })
    }

    /// Returns the start of the problem, and further starts around it.
    fn starts(&self) -> Vec<Vec<f64>> {
        let numbers = &self.problem.numbers;
        let mut rng = Rng::new(self.problem.settings.seed);
        let mut starts =
            vec![numbers.iter().map(|number| Number::coordinate(number.start)).collect::<Vec<_>>()];
        while starts.len() < self.problem.settings.starts {
            let scattered = numbers.iter().zip(&starts[0]).map(|(number, at)| {
                let (low, high) = number.limits();
                let spread = SPREAD.min(0.25 * (high - low));
                let at = (at + spread * (2.0 * rng.unit() - 1.0)).clamp(low, high);
                if number.is_power() { Number::coordinate(number.rounded(at)) } else { at }
            });
            let scattered = scattered.collect();
            starts.push(scattered);
        }
        starts
    }

    /// Descends from a point to a minimum of chi-squared, over all numbers but `held` and the powers of two.
    /// A fraction of the step of a power of two changes nothing, so the other numbers would compensate for a
    /// change that does not happen.
    pub(super) fn descend(&mut self, mut point: Point, held: Option<usize>) -> Point {
        let fall_min = if held.is_some() { HELD_FALL_MIN } else { FALL_MIN };
        let mut damping: Option<f64> = None;
        let mut stalled = false;
        for _ in 0..self.problem.settings.iterations_max {
            let numbers = &self.problem.numbers;
            let is_held = |k: usize| held == Some(k) || numbers[k].is_power();
            let jacobian = self.jacobian_without(&point, is_held);
            let n = numbers.len();
            let products = gram(&jacobian, n);
            let largest = (0..n).map(|k| products[k][k]).fold(1e-9, f64::max);
            let mut near = damping.unwrap_or(1e-3 * largest);
            let mut fell = None;
            for _ in 0..3 {
                let steps = DAMPINGS.map(|factor| self.step(&point, &jacobian, near * factor));
                let tried = self.points(steps.to_vec());
                let best = tried.into_iter().enumerate().filter_map(|(i, p)| Some((i, p?)));
                let best = best.min_by(|(_, a), (_, b)| a.chi2.total_cmp(&b.chi2));
                match best {
                    Some((i, lower)) if lower.chi2 < point.chi2 => {
                        near *= DAMPINGS[i];
                        fell = Some(lower);
                        break;
                    }
                    _ => near *= 1e3,
                }
            }
            damping = Some(near.clamp(1e-9 * largest, 1e6 * largest));
            let Some(lower) = fell else { break };
            let fall = point.chi2 - lower.chi2;
            point = lower;
            let stalls = fall < fall_min * (1.0 + point.chi2);
            // Strong damping also makes steps short. Cells that are not explained justify one attempt with weak damping.
            if stalls && (stalled || held.is_some() || point.chi2 < point.residuals.len() as f64) {
                break;
            }
            if stalls {
                damping = None;
            }
            stalled = stalls;
        }
        point
    }

    /// Returns the end of a damped step from `point`, within the bounds. A number whose step would leave its bounds stops
    /// there, and the others adapt.
    pub(super) fn step(&self, point: &Point, jacobian: &[Vec<f64>], damping: f64) -> Vec<f64> {
        let n = self.problem.numbers.len();
        let mut fixed: Vec<Option<f64>> = vec![None; n];
        loop {
            let free: Vec<usize> = (0..n).filter(|k| fixed[*k].is_none()).collect();
            if free.is_empty() {
                break;
            }
            let shifted = |(row, residual): (&Vec<f64>, &f64)| {
                residual + fixed.iter().zip(row).map(|(step, slope)| step.unwrap_or(0.0) * slope).sum::<f64>()
            };
            let residuals: Vec<f64> = jacobian.iter().zip(&point.residuals).map(shifted).collect();
            let rows: Vec<Vec<f64>> =
                jacobian.iter().map(|row| free.iter().map(|k| row[*k]).collect()).collect();
            let mut products = gram(&rows, free.len());
            (0..free.len()).for_each(|i| products[i][i] += damping);
            let right = transposed_times(&rows, &residuals, free.len());
            let steps = solve(&products, &right);
            let mut stopped = false;
            for (k, step) in free.iter().zip(&steps) {
                let (low, high) = self.problem.numbers[*k].limits();
                let end = (point.at[*k] - step.clamp(-STEP_MAX, STEP_MAX)).clamp(low, high);
                if end == low || end == high {
                    fixed[*k] = Some(end - point.at[*k]);
                    stopped = true;
                }
            }
            if !stopped {
                for (k, step) in free.iter().zip(&steps) {
                    fixed[*k] = Some(-step.clamp(-STEP_MAX, STEP_MAX));
                }
                break;
            }
        }
        point.at.iter().zip(&fixed).map(|(at, step)| at + step.unwrap_or(0.0)).collect()
    }

    /// Returns the derivatives of the residuals by one-sided differences.
    pub(super) fn jacobian(&mut self, point: &Point) -> Vec<Vec<f64>> {
        self.jacobian_without(point, |_| false)
    }

    /// Returns the derivatives of the residuals by one-sided differences; 0 for the numbers that `is_held` selects, so that
    /// no step moves them.
    fn jacobian_without(&mut self, point: &Point, is_held: impl Fn(usize) -> bool) -> Vec<Vec<f64>> {
        let (ends, steps) = self.differences(point, 1.0);
        let free: Vec<usize> = (0..steps.len()).filter(|k| !is_held(*k)).collect();
        let moved = self.points(free.iter().map(|k| ends[*k].clone()).collect());
        let mut rows = vec![vec![0.0; steps.len()]; point.residuals.len()];
        for (k, moved) in free.into_iter().zip(moved) {
            let Some(moved) = moved else { continue };
            for (cell, row) in rows.iter_mut().enumerate() {
                row[k] = (moved.residuals[cell] - point.residuals[cell]) / steps[k];
            }
        }
        rows
    }

    /// Returns one point for each number, in which this number is one step away from `point`, and the signed steps.
    pub(super) fn differences(&self, point: &Point, sign: f64) -> (Vec<Vec<f64>>, Vec<f64>) {
        let step = |(number, at): (&super::Number, &f64)| number.difference(*at, sign);
        let steps: Vec<f64> = self.problem.numbers.iter().zip(&point.at).map(step).collect();
        let ends = steps.iter().enumerate().map(|(k, step)| {
            let mut at = point.at.clone();
            at[k] += step;
            at
        });
        (ends.collect(), steps)
    }

    /// Returns the model near `point`, from two-sided differences where the bounds permit.
    pub(super) fn local(&mut self, point: &Point) -> Result<Local, FitError> {
        let n = self.problem.numbers.len();
        let (mut ends, mut steps) = self.differences(point, 1.0);
        let (below, below_steps) = self.differences(point, -1.0);
        ends.extend(below);
        steps.extend(below_steps);
        let moved = self.points(ends);
        let slope = |k: usize, cell: usize| {
            let one = |i: usize| {
                let moved = moved[i].as_ref()?;
                Some((moved.residuals[cell] - point.residuals[cell]) / steps[i])
            };
            match (one(k), one(k + n)) {
                (Some(up), Some(down)) => f64::midpoint(up, down),
                (one, other) => one.or(other).unwrap_or(0.0),
            }
        };
        let rows = (0..point.residuals.len()).map(|cell| (0..n).map(|k| slope(k, cell)).collect());
        Ok(Local::of(self.problem, rows.collect()))
    }

    /// Returns the derivatives of the candidates.
    pub(super) fn candidates(&mut self, point: &Point) -> CandidateRows {
        let problem = self.problem;
        let Some(forward) = problem.forward_candidates else { return vec![None; problem.candidates.len()] };
        let (mut ends, steps) = self.differences(point, 1.0);
        ends.push(point.at.clone());
        let mut moved = self.run(forward, &ends, problem.candidates.len());
        let Some(Ok(here)) = moved.pop() else { return vec![None; problem.candidates.len()] };
        let row = |(c, candidate): (usize, &super::Candidate)| {
            let slope = |k: usize| match &moved[k] {
                Ok(moved) => (moved[c] / here[c]).ln() / candidate.share / steps[k],
                Err(_) => 0.0,
            };
            Some((0..steps.len()).map(slope).collect())
        };
        problem.candidates.iter().enumerate().map(row).collect()
    }
}

/// Returns a copy of the coordinates `at` in which `coordinate` replaces that of number `k`.
pub(super) fn replaced(at: &[f64], k: usize, coordinate: f64) -> Vec<f64> {
    let mut at = at.to_vec();
    at[k] = coordinate;
    at
}

/// Corrects derivatives by the difference between two points: Broyden's update.
pub(super) fn learn(jacobian: &mut [Vec<f64>], from: &Point, to: &Point) {
    let moved: Vec<f64> = to.at.iter().zip(&from.at).map(|(to, from)| to - from).collect();
    let square = dot(&moved, &moved);
    if square < 1e-6 {
        return;
    }
    for (cell, row) in jacobian.iter_mut().enumerate() {
        let surprise = to.residuals[cell] - from.residuals[cell] - dot(row, &moved);
        row.iter_mut().zip(&moved).for_each(|(slope, moved)| *slope += surprise * moved / square);
    }
}
