//! Searches over the whole range of one number, for minima that no derivative leads to.

use super::advice::WITHOUT_EFFECT;
use super::descent::{Descent, FALL_MIN, Point, replaced};
use super::matrix::dot;
use super::problem::Number;

/// Step of a search over the whole range of a number, as the logarithm of a factor: 15 %.
const RANGE_STEP: f64 = 0.14;
/// Number of the smallest multiples of the unit, all of which are tried.
const RANGE_MULTIPLES: u32 = 12;
/// Number of points of this search that are evaluated again after the other numbers have moved to their
/// predicted minimum.
const RANGE_TRIED: usize = 8;
/// Number of these points from which a search descends.
const RANGE_FOLLOWED: usize = 2;

impl Descent<'_> {
    /// Returns further starts: for each number that is a multiple of a unit, points over its whole range.
    pub(super) fn starts_of_ranges(&mut self, start: &Point) -> Vec<Point> {
        let numbers = &self.problem.numbers;
        let multiples: Vec<usize> = (0..numbers.len()).filter(|k| numbers[*k].unit_size.is_some()).collect();
        if multiples.is_empty() {
            return Vec::new();
        }
        let jacobian = self.jacobian(start);
        let mut starts = Vec::new();
        for k in multiples {
            let found = self.lowest_of_range(start, &jacobian, k);
            self.other_minima[k] = found.iter().map(|point| numbers[k].rounded(point.at[k])).collect();
            starts.extend(found);
        }
        starts
    }

    /// Leaves a minimum at which a number has no effect or is at a bound, although other values of the number
    /// explain the cells better. A rate of the array, for example, has no effect above the rate of the bus,
    /// so that no derivative leads below it.
    pub(super) fn leave_plateaus(&mut self, mut best: Point) -> Point {
        let numbers = &self.problem.numbers;
        let free = self.problem.cells.len().saturating_sub(numbers.len()).max(1);
        if best.chi2 <= free as f64 {
            return best;
        }
        let jacobian = self.jacobian(&best);
        for k in (0..numbers.len()).filter(|k| !numbers[*k].is_stepped()) {
            let effect: f64 = jacobian.iter().map(|row| row[k] * row[k]).sum();
            if effect >= WITHOUT_EFFECT && !numbers[k].is_at_bound(best.at[k]) {
                continue;
            }
            for start in self.lowest_of_range(&best, &jacobian, k) {
                if start.chi2 < best.chi2 - FALL_MIN * (1.0 + best.chi2) {
                    best = self.descend(start, None);
                }
            }
        }
        best
    }

    /// Searches the whole range of number `k`. Returns the points from which a descent may find another
    /// minimum: the points with the lowest chi-squared after the other numbers have moved as `jacobian`, the
    /// derivatives at `start`, predicts. The whole range is searched because some cells fit only in narrow
    /// ranges: if few requests of a cell cross the end of a unit, only certain sizes of the unit explain the
    /// cell.
    fn lowest_of_range(&mut self, start: &Point, jacobian: &[Vec<f64>], k: usize) -> Vec<Point> {
        let number = &self.problem.numbers[k];
        let (low, high) = number.limits();
        let steps = ((high - low) / RANGE_STEP) as usize;
        let units = number.unit_size.into_iter();
        let multiples = units
            .flat_map(|unit| (1..=RANGE_MULTIPLES).map(move |n| Number::coordinate(f64::from(n) * unit)));
        let range = multiples.chain((0..=steps).map(|n| low + n as f64 * RANGE_STEP));
        let mut values: Vec<f64> = range.map(|at| number.rounded(at.clamp(low, high))).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let batch = values.iter().map(|value| replaced(&start.at, k, Number::coordinate(*value))).collect();
        let mut points: Vec<(f64, Vec<f64>)> = Vec::new();
        for point in self.points(batch).into_iter().flatten() {
            let at = self.others_at_minimum(&point, jacobian, k);
            let moved: Vec<f64> = at.iter().zip(&point.at).map(|(to, from)| to - from).collect();
            let residuals =
                point.residuals.iter().zip(jacobian).map(|(residual, row)| residual + dot(row, &moved));
            points.push((residuals.map(|residual| residual * residual).sum(), at));
        }
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let lowest = points.into_iter().take(RANGE_TRIED).map(|(_, at)| at).collect();
        let mut lowest: Vec<Point> = self.points(lowest).into_iter().flatten().collect();
        lowest.sort_by(|a, b| a.chi2.total_cmp(&b.chi2));
        lowest.truncate(RANGE_FOLLOWED);
        lowest
    }
}
