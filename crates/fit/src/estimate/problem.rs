//! The problem of an estimation: numbers, cells, candidates and the forward model.

use std::f64::consts::LN_2;
use std::fmt;

/// The predictions for one point: a value for each cell, or the reason why the model cannot run there.
pub type Predictions = Result<Vec<f64>, String>;

/// A forward model: predicts the cells for each point of a batch.
pub type Forward<'a> = dyn Fn(&[Vec<f64>]) -> Vec<Predictions> + 'a;

/// Numbers to estimate, and the cells that determine them.
pub struct Problem<'a> {
    /// The numbers.
    pub numbers: Vec<Number>,
    /// The measured cells.
    pub cells: Vec<Cell>,
    /// Predicts all cells, in their order, for a batch of points. A point has one value per number.
    pub forward: &'a Forward<'a>,
    /// Measurements that could be made.
    pub candidates: Vec<Candidate>,
    /// Predicts all candidates, in their order, for a batch of points.
    pub forward_candidates: Option<&'a Forward<'a>>,
    /// Settings of the search.
    pub settings: Settings,
}

/// A number to estimate.
#[derive(Clone, PartialEq, Debug)]
pub struct Number {
    /// Name, such as `flash.t_read`.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Least and greatest value.
    pub bounds: (f64, f64),
    /// Scale on which the search moves.
    pub scale: Scale,
    /// First value of the search.
    pub start: f64,
    /// Step of the numeric derivative, a difference of logarithms. A number that the model rounds needs a step larger
    /// than the rounding.
    pub step: f64,
    /// Unit of which the number is a whole multiple; `None` if it may have any value. The search tries the neighbours
    /// of its best multiple one by one.
    pub unit_size: Option<f64>,
}

/// The scale on which the search moves a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// The logarithm of the number. The bounds are positive.
    Log,
    /// The logarithm of a number that is a power of two, as sizes in devices are. The bounds are powers of
    /// two. The search tries the powers near the best one.
    PowersOfTwo,
}

/// Step of a numeric derivative that suits smooth models with a little noise.
const STEP: f64 = 0.04;

/// Number of values that the search tries on each side of the best value of a stepped number.
pub(super) const NEIGHBOURS: i32 = 4;

/// Ratios between rival multiples of one unit: models often repeat at fractions and multiples of the true value.
const RIVALS: [f64; 6] = [1.0 / 3.0, 0.5, 2.0 / 3.0, 1.5, 2.0, 3.0];

/// Unit, as a share of the value, above which a number is coarse, because neighbouring multiples differ
/// noticeably.
const COARSE_SHARE: f64 = 0.02;

impl Number {
    /// Returns a number with a logarithmic scale and the usual step.
    pub fn log(name: &str, unit: &str, bounds: (f64, f64), start: f64) -> Number {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Number { name, unit, bounds, scale: Scale::Log, start, step: STEP, unit_size: None }
    }

    /// Returns the coordinate of a value: its logarithm.
    pub(super) fn coordinate(value: f64) -> f64 {
        value.ln()
    }

    /// Returns the value at a coordinate.
    pub(super) fn value(&self, coordinate: f64) -> f64 {
        coordinate.exp().clamp(self.bounds.0, self.bounds.1)
    }

    /// Returns the value that the model uses at a coordinate: a power of two, or a whole multiple if the number has a
    /// unit.
    pub(super) fn rounded(&self, coordinate: f64) -> f64 {
        let value = self.value(coordinate);
        if self.scale == Scale::PowersOfTwo {
            return value.log2().round().exp2();
        }
        self.unit_size.map_or(value, |unit| (value / unit).round().max(1.0) * unit)
    }

    /// Returns true if the number is a power of two.
    pub(super) fn is_power(&self) -> bool {
        self.scale == Scale::PowersOfTwo
    }

    /// Returns true if the number can have certain values only.
    pub(super) fn is_stepped(&self) -> bool {
        self.is_power() || self.unit_size.is_some()
    }

    /// Returns the value `steps` places after `value` in the sequence of values that a stepped number can have; `None`
    /// beyond the bounds, or if the number is not stepped.
    pub(super) fn neighbour(&self, value: f64, steps: i32) -> Option<f64> {
        let there = match (self.scale, self.unit_size) {
            (Scale::PowersOfTwo, _) => value * f64::from(steps).exp2(),
            (_, Some(unit)) => value + f64::from(steps) * unit,
            (_, None) => return None,
        };
        (self.bounds.0..=self.bounds.1).contains(&there).then_some(there)
    }

    /// Returns the values up to [`NEIGHBOURS`] places before and after `value`, in ascending order; none if the number is
    /// not stepped.
    pub(super) fn neighbours(&self, value: f64) -> impl Iterator<Item = f64> {
        (-NEIGHBOURS..=NEIGHBOURS)
            .filter(|steps| *steps != 0)
            .filter_map(move |steps| self.neighbour(value, steps))
    }

    /// Returns the values of a stepped number that the search compares with `value`, each with the other
    /// numbers at their minimum: the neighbouring values, and simple fractions and multiples.
    pub(super) fn rivals(&self, value: f64) -> Vec<f64> {
        let next = [-1, 1].into_iter().filter_map(|steps| self.neighbour(value, steps));
        next.chain(self.distant_rivals(value)).collect()
    }

    /// Returns the simple fractions and multiples among the rivals, without the values next to `value`.
    pub(super) fn distant_rivals(&self, value: f64) -> Vec<f64> {
        let Some(unit) = self.unit_size else { return Vec::new() };
        let multiple = |ratio: f64| (value * ratio / unit).round() * unit;
        let inside = |rival: &f64| (self.bounds.0..=self.bounds.1).contains(rival);
        let is_distant = |rival: &f64| (rival - value).abs() > 1.5 * unit;
        let mut rivals: Vec<f64> =
            RIVALS.map(multiple).into_iter().filter(|r| inside(r) && is_distant(r)).collect();
        rivals.dedup();
        rivals
    }

    /// Returns true if neighbouring values of the number differ so much that the model jumps between them.
    pub(super) fn is_coarse(&self, coordinate: f64) -> bool {
        self.scale == Scale::PowersOfTwo
            || self.unit_size.is_some_and(|unit| unit > COARSE_SHARE * self.value(coordinate))
    }

    /// Returns the step of the numeric derivative at a coordinate, in the direction of `sign` if the bounds permit. A
    /// number with a unit moves to another multiple.
    pub(super) fn difference(&self, coordinate: f64, sign: f64) -> f64 {
        let (low, high) = self.limits();
        let step = |sign: f64| {
            if self.scale == Scale::PowersOfTwo {
                return Number::coordinate(self.rounded(coordinate)) + sign * LN_2 - coordinate;
            }
            let step = sign * self.step;
            let Some(unit) = self.unit_size else { return step };
            let here = self.rounded(coordinate);
            let there = self.rounded(coordinate + step);
            let there = if there == here { here + sign * unit } else { there };
            // This step leaves the bounds, so that the direction is reversed below.
            if there < unit { 2.0 * (low - coordinate) - 1.0 } else { Number::coordinate(there) - coordinate }
        };
        let forward = step(sign);
        // A power of two may miss its bound by the rounding error of a logarithm.
        if (low - 1e-9..=high + 1e-9).contains(&(coordinate + forward)) { forward } else { step(-sign) }
    }

    /// Returns the coordinates of the bounds.
    pub(super) fn limits(&self) -> (f64, f64) {
        (Number::coordinate(self.bounds.0), Number::coordinate(self.bounds.1))
    }

    /// Returns true if a coordinate is that of the least or greatest value.
    pub(super) fn is_at_bound(&self, coordinate: f64) -> bool {
        let (low, high) = self.limits();
        coordinate <= low + 1e-9 || coordinate >= high - 1e-9
    }

    fn check(&self) -> Result<(), FitError> {
        let (low, high) = self.bounds;
        let ordered = low.is_finite() && high.is_finite() && low < high;
        let inside = (low..=high).contains(&self.start);
        if ordered && inside && low > 0.0 && self.step > 0.0 {
            return Ok(());
        }
        let what =
            format!("its start {} and step {} do not fit its bounds {low} to {high}", self.start, self.step);
        Err(FitError::BadNumber { name: self.name.clone(), what })
    }
}

/// A measured cell.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// Name.
    pub name: String,
    /// Unit of the value.
    pub unit: String,
    /// Measured value, positive.
    pub value: f64,
    /// Standard deviation of the value; 0 if unknown.
    pub sd: f64,
    /// Share by which the value changes if one more or one fewer of the slowest requests occurs; 0 if unknown.
    pub slowest_share: f64,
    /// Identity of the measurement: cells with the same identity repeat one job in one state. `None` if the
    /// cell repeats no other cell.
    pub repeats: Option<String>,
}

impl Cell {
    /// Returns the standard deviation as a share of the value, combined with the independent errors of the model: its floor,
    /// and one of the slowest requests. A rare slow request, such as the copy of a large unit, may occur once more or once
    /// less than in the model.
    pub(super) fn share(&self, settings: &Settings) -> f64 {
        (self.sd / self.value).hypot(settings.floor).hypot(self.slowest_share)
    }

    fn check(&self) -> Result<(), FitError> {
        let bad = |what| Err(FitError::BadCell { name: self.name.clone(), what });
        match () {
            () if !(self.value.is_finite() && self.value > 0.0) => {
                bad(format!("its value is {}; expected a number above 0", self.value))
            }
            () if !(self.sd.is_finite() && self.sd >= 0.0) => {
                bad(format!("its deviation is {}; expected a number of at least 0", self.sd))
            }
            () if !(self.slowest_share.is_finite() && self.slowest_share >= 0.0) => bad(format!(
                "the share of its slowest request is {}; expected a number of at least 0",
                self.slowest_share
            )),
            () => Ok(()),
        }
    }
}

/// A measurement that could be made.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Name as a noun phrase, such as `64 KiB random read`.
    pub name: String,
    /// Expected standard deviation as a share of the value.
    pub share: f64,
}

/// Settings of the search.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Error of the model as a share of each cell's value, in addition to the deviation of the measurement.
    pub floor: f64,
    /// Number of starts that are tried; the best ones are followed to their minimum.
    pub starts: usize,
    /// Number of starts that are followed to their minimum.
    pub followed: usize,
    /// Largest number of iterations of one descent to a minimum.
    pub iterations_max: usize,
    /// Seed of the additional starts.
    pub seed: u64,
    /// True if intervals come from the profile likelihood; otherwise they come from the derivatives at the estimate alone,
    /// which needs no further evaluations.
    pub profile_likelihood: bool,
    /// True if each cell is also predicted from the others.
    pub leave_one_out: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            floor: 0.015,
            starts: 8,
            followed: 2,
            iterations_max: 20,
            seed: 1,
            profile_likelihood: true,
            leave_one_out: true,
        }
    }
}

impl Problem<'_> {
    pub(super) fn check(&self) -> Result<(), FitError> {
        self.numbers.iter().try_for_each(Number::check)?;
        self.cells.iter().try_for_each(Cell::check)?;
        if self.numbers.is_empty() || self.cells.is_empty() {
            return Err(FitError::Empty { numbers: self.numbers.len(), cells: self.cells.len() });
        }
        if self.numbers.len() > self.cells.len() {
            let names = self.numbers.iter().map(|number| number.name.clone()).collect();
            return Err(FitError::MoreNumbersThanCells { numbers: names, cells: self.cells.len() });
        }
        Ok(())
    }
}

/// The reason why a problem has no estimate.
#[derive(Clone, PartialEq, Debug)]
pub enum FitError {
    /// The problem has no numbers or no cells.
    Empty {
        /// Count of numbers.
        numbers: usize,
        /// Count of cells.
        cells: usize,
    },
    /// The problem has more numbers than cells.
    MoreNumbersThanCells {
        /// Names of the numbers.
        numbers: Vec<String>,
        /// Count of cells.
        cells: usize,
    },
    /// A number cannot be searched.
    BadNumber {
        /// Name of the number.
        name: String,
        /// The fault.
        what: String,
    },
    /// A cell has an impossible value.
    BadCell {
        /// Name of the cell.
        name: String,
        /// The fault.
        what: String,
    },
    /// The forward model fails at every start.
    Forward {
        /// The message of the model.
        message: String,
    },
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::Empty { numbers: 0, .. } => {
                write!(f, "there is no number to fit; free one, or add cells that depend on one")
            }
            FitError::Empty { .. } => write!(f, "there are no cells to fit; add measurements"),
            FitError::MoreNumbersThanCells { numbers, cells } => write!(
                f,
                "{} numbers cannot be fitted to {cells} cells: {}; add measurements or fix numbers",
                numbers.len(),
                numbers.join(", ")
            ),
            FitError::BadNumber { name, what } => write!(f, "number {name}: {what}"),
            FitError::BadCell { name, what } => write!(f, "cell {name}: {what}"),
            FitError::Forward { message } => write!(f, "the model cannot run the measurements: {message}"),
        }
    }
}

impl std::error::Error for FitError {}
