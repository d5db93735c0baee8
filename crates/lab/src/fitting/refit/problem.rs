//! The problem of a refit, as the sources of the profiles state it: the places of the experiment, the cells of the fit,
//! and the numbers with the cells that determine them.

use super::super::table::Row;
use super::super::{FittingError, Held};
use super::RefitSettings;
use crate::experiment::map_parallel::map_parallel;
use crate::experiment::{Experiment, ExperimentError, MatrixPlace, NumbersByKey};
use crate::progress::Progress;
use crate::results::Figure;
use flashlab_catalogue::device::SourcedNumber;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::{Source, Value};
use flashlab_catalogue::units::Dimension;
use std::collections::BTreeMap;

/// A cell with a published figure.
#[derive(Clone, Debug)]
pub(super) struct RefitCell {
    pub(super) name: String,
    /// Index of the place that gives the cell.
    pub(super) place: usize,
    /// Index of the cell's step among the steps of the place.
    step: usize,
    pub(super) mean: f64,
    /// Published deviation as a share of the mean, combined with the floor.
    pub(super) share: f64,
    /// True if the source of a number names the cell.
    pub(super) is_fitted: bool,
    /// True if the cell is the only one that determines some number.
    pub(super) is_own: bool,
}

/// Values that a number can have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Grid {
    /// Values with four significant digits.
    Digits,
    /// Multiples of a unit.
    Multiples(f64),
    /// Multiples of another number of the refit.
    MultiplesOf(usize),
    /// Powers of two.
    PowersOfTwo,
}

/// A number of a refit.
#[derive(Clone, Debug)]
pub(super) struct RefitNumber {
    pub(super) path: &'static str,
    pub(super) dimension: Dimension,
    bounds: (f64, f64),
    pub(super) grid: Grid,
    /// Names of the profiles that contain the number.
    pub(super) profiles: Vec<String>,
    places: Vec<usize>,
    is_of_filesystem: bool,
    /// Indices of the cells that determine the number.
    pub(super) cells: Vec<usize>,
    /// Value in the profiles.
    pub(super) before: f64,
    /// Numbers that equal this one in some places, and whose sources say that they follow from another number.
    pub(super) followers: Vec<Follower>,
}

impl RefitNumber {
    /// Returns a value as a profile writes it.
    pub(super) fn print(&self, value: f64) -> String {
        self.dimension.print(value.round() as u64)
    }
}

/// A number of a profile that equals a number of the refit.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    pub(super) path: &'static str,
    pub(super) profile: String,
    place: usize,
}

/// A point of the search.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) values: Vec<f64>,
    /// Simulated figure of each cell; `None` for a cell that the search does not need.
    pub(super) figures: Vec<Option<Figure>>,
}

/// Numbers with the source `fitted`, by path and cells. Each entry has the index of the place, true for a
/// number of the filesystem, and the number.
type Fitted = BTreeMap<(&'static str, Vec<String>), Vec<(usize, bool, SourcedNumber)>>;

/// Places, cells and numbers of a refit, and the runs so far.
pub(super) struct RefitProblem<'a> {
    experiment: Experiment,
    library: &'a Library,
    seed: u64,
    progress: &'a Progress,
    places: Vec<MatrixPlace>,
    pub(super) cells: Vec<RefitCell>,
    pub(super) numbers: Vec<RefitNumber>,
    known: BTreeMap<(usize, usize, NumbersByKey), Result<Vec<Figure>, FittingError>>,
}

impl<'a> RefitProblem<'a> {
    /// Reads the problem of an experiment. The second result lists the fitted numbers that the refit leaves as they
    /// are.
    pub(super) fn of(
        experiment: &str,
        settings: &RefitSettings,
        library: &'a Library,
        progress: &'a Progress,
    ) -> Result<(RefitProblem<'a>, Vec<Held>), FittingError> {
        let failed = |error: ExperimentError| FittingError::Experiment(error.to_string());
        let opened = Experiment::open(experiment, library).map_err(failed)?;
        let mut problem = RefitProblem {
            places: opened.matrix_places(library).map_err(failed)?,
            experiment: opened,
            library,
            seed: settings.seed,
            progress,
            cells: Vec::new(),
            numbers: Vec::new(),
            known: BTreeMap::new(),
        };
        problem.add_cells(settings.floor);
        let fitted = problem.fitted();
        let held = problem.add_numbers(fitted);
        if problem.numbers.is_empty() {
            return Err(FittingError::NothingToRefit(experiment.to_owned()));
        }
        let own =
            problem.numbers.iter().filter(|number| number.cells.len() == 1).map(|number| number.cells[0]);
        own.collect::<Vec<_>>().into_iter().for_each(|cell| problem.cells[cell].is_own = true);
        problem.add_followers();
        Ok((problem, held))
    }

    fn add_cells(&mut self, floor: f64) {
        for (place, of) in self.places.iter().enumerate() {
            for (step, cell) in of.cells.iter().enumerate() {
                let Some((mean, sd)) = cell.published.filter(|(mean, _)| *mean > 0.0) else { continue };
                self.cells.push(RefitCell {
                    name: cell.name.clone(),
                    place,
                    step,
                    mean,
                    share: (sd.unwrap_or(0.0) / mean).hypot(floor),
                    is_fitted: false,
                    is_own: false,
                });
            }
        }
    }

    /// Returns the numbers of all places with the source `fitted`. A number that a column or a row sets belongs to the
    /// experiment, not to a profile.
    fn fitted(&self) -> Fitted {
        let mut fitted = Fitted::new();
        for (p, place) in self.places.iter().enumerate() {
            let set: Vec<&str> = place.device.overrides().into_iter().map(|(path, _)| path).collect();
            let own = place.device.sourced_numbers().iter();
            let own = own.filter(|n| !set.contains(&n.number.parameter.path)).map(|n| (false, n));
            let filesystems = place.filesystems.iter().flat_map(|f| f.sourced_numbers()).map(|n| (true, n));
            for (is_of_filesystem, number) in own.chain(filesystems) {
                if let Source::Fitted(cells) = &number.number.source {
                    let key = (number.number.parameter.path, cells.clone());
                    fitted.entry(key).or_default().push((p, is_of_filesystem, number.clone()));
                }
            }
        }
        fitted
    }

    fn add_numbers(&mut self, fitted: Fitted) -> Vec<Held> {
        let mut held = Vec::new();
        for ((path, names), owners) in fitted {
            let cells: Vec<usize> =
                (0..self.cells.len()).filter(|n| names.contains(&self.cells[*n].name)).collect();
            cells.iter().for_each(|n| self.cells[*n].is_fitted = true);
            let (place, is_of_filesystem, number) = &owners[0];
            let mut profiles: Vec<String> =
                owners.iter().map(|(_, _, number)| number.profile.clone()).collect();
            profiles.sort();
            profiles.dedup();
            let quantity = match number.number.value {
                Value::Quantity(dimension, value) => Ok((dimension, value as f64)),
                _ => Err("only quantities are refitted; it stays as it was chosen"),
            };
            let known = quantity.and_then(|(dimension, before)| {
                if cells.is_empty() {
                    return Err("none of its cells is in this experiment");
                }
                Ok((dimension, before, self.values_of(path, dimension, *place)?))
            });
            match known {
                Ok((dimension, before, (bounds, grid))) => self.numbers.push(RefitNumber {
                    path,
                    dimension,
                    bounds,
                    grid,
                    profiles,
                    places: owners.iter().map(|(place, ..)| *place).collect(),
                    is_of_filesystem: *is_of_filesystem,
                    cells,
                    before,
                    followers: Vec::new(),
                }),
                Err(reason) => held.push(Held {
                    name: format!("{path} of {}", profiles.join(", ")),
                    value: number.number.value.to_string(),
                    reason: reason.to_owned(),
                }),
            }
        }
        held
    }

    /// Returns the bounds of a number and its grid, or the reason why a refit cannot change it.
    fn values_of(
        &self,
        path: &str,
        dimension: Dimension,
        place: usize,
    ) -> Result<((f64, f64), Grid), &'static str> {
        const KIB: f64 = 1024.0;
        let row = Row::at(path);
        let unit = row.and_then(Row::multiple_of).and_then(|of| self.quantity(of, place));
        let bounds = row.map(|row| row.bounds);
        match (dimension, unit) {
            (Dimension::Time, _) => Ok((bounds.unwrap_or((10.0, 1e9)), Grid::Digits)),
            (Dimension::Rate, _) => {
                let mib = KIB * KIB;
                Ok((bounds.unwrap_or((mib, 4096.0 * mib)), Grid::Multiples(mib)))
            }
            (Dimension::Size, Some(unit)) => Ok((bounds.unwrap_or((unit, 1e12)), Grid::Multiples(unit))),
            (Dimension::Size, None) if path == MAP_UNIT => {
                Ok(((4.0 * KIB, 16.0 * KIB * KIB), Grid::PowersOfTwo))
            }
            _ => Err("a refit has no bounds for it; it stays as it was chosen"),
        }
    }

    /// Returns a quantity of a place's device.
    fn quantity(&self, path: &str, place: usize) -> Option<f64> {
        let numbers = self.places[place].device.sourced_numbers();
        match numbers.iter().find(|n| n.number.parameter.path == path)?.number.value {
            Value::Quantity(_, value) => Some(value as f64),
            _ => None,
        }
    }

    /// Ties each number to the number of the refit that it is a multiple of, if there is one, and lists its followers.
    fn add_followers(&mut self) {
        let unit_of = |path: &str| Row::at(path).and_then(Row::multiple_of);
        for k in 0..self.numbers.len() {
            let unit = self.numbers.iter().position(|unit| {
                unit_of(self.numbers[k].path) == Some(unit.path)
                    && self.numbers[k].places.iter().all(|place| unit.places.contains(place))
            });
            if let Some(unit) = unit {
                self.numbers[k].grid = Grid::MultiplesOf(unit);
            }
            let number = &self.numbers[k];
            let mut followers = Vec::new();
            for place in &number.places {
                let numbers = self.places[*place].device.sourced_numbers();
                let equal = numbers.iter().filter(|n| {
                    unit_of(n.number.parameter.path) == Some(number.path)
                        && matches!(n.number.source, Source::Follows(_))
                        && matches!(n.number.value, Value::Quantity(_, v) if v as f64 == number.before)
                });
                let follower = |n: &SourcedNumber| (n.number.parameter.path, n.profile.clone(), *place);
                followers.extend(equal.map(follower));
            }
            let follower = |(path, profile, place)| Follower { path, profile, place };
            self.numbers[k].followers = followers.into_iter().map(follower).collect();
        }
    }

    /// Returns the values of the profiles.
    pub(super) fn before(&self) -> Vec<f64> {
        self.numbers.iter().map(|number| number.before).collect()
    }

    /// Returns the indices of the numbers whose count of cells `of` selects.
    pub(super) fn numbers_with(&self, of: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.numbers.len()).filter(|k| of(self.numbers[*k].cells.len())).collect()
    }

    /// Returns the value of a number's grid that is nearest to `value`, within the bounds.
    pub(super) fn rounded(&self, k: usize, value: f64, values: &[f64]) -> f64 {
        let number = &self.numbers[k];
        let (low, high) = number.bounds;
        let unit = match number.grid {
            Grid::PowersOfTwo => return 2f64.powf(value.clamp(low, high).log2().round()),
            Grid::Digits => 10f64.powf(value.max(1.0).log10().floor() - 3.0).max(1.0),
            Grid::Multiples(unit) => unit,
            Grid::MultiplesOf(unit) => values[unit],
        };
        let (least, most) = ((low / unit).ceil().max(1.0), (high / unit).floor());
        (value / unit).round().clamp(least, most.max(least)) * unit
    }

    /// Returns the settings of a place: the values of its numbers, as keys.
    fn settings(&self, place: usize, values: &[f64]) -> NumbersByKey {
        let mut keys = NumbersByKey::default();
        for (number, value) in self.numbers.iter().zip(values) {
            let value = number.print(*value);
            if number.places.contains(&place) {
                let of = if number.is_of_filesystem { &mut keys.filesystem } else { &mut keys.device };
                of.push(format!("{}={value}", number.path));
            }
            let followers = number.followers.iter().filter(|follower| follower.place == place);
            keys.device.extend(followers.map(|follower| format!("{}={value}", follower.path)));
        }
        keys
    }

    /// Simulates at a point the cells that `needed` selects, and the cells before them in the same places.
    pub(super) fn at(
        &mut self,
        values: Vec<f64>,
        needed: impl Fn(&RefitCell) -> bool,
    ) -> Result<Point, FittingError> {
        let steps = |place: usize| {
            let steps = self.cells.iter().filter(|cell| cell.place == place && needed(cell));
            steps.map(|cell| cell.step + 1).max().unwrap_or(0)
        };
        let places = (0..self.places.len()).map(|place| (place, steps(place), self.settings(place, &values)));
        let places: Vec<_> = places.filter(|(_, steps, _)| *steps > 0).collect();
        self.run_unknown(&places);
        let mut figures = vec![None; self.cells.len()];
        for key in places {
            let found = self.known[&key].clone()?;
            for (cell, figure) in self.cells.iter().zip(&mut figures).filter(|(cell, _)| cell.place == key.0)
            {
                *figure = found.get(cell.step).copied();
            }
        }
        Ok(Point { values, figures })
    }

    /// Runs the places with settings that are not known yet.
    fn run_unknown(&mut self, places: &[(usize, usize, NumbersByKey)]) {
        let unknown: Vec<_> = places.iter().filter(|key| !self.known.contains_key(key)).collect();
        let results = map_parallel(&unknown, |(place, steps, numbers)| {
            if self.progress.is_stopped() {
                return Err(FittingError::Stopped);
            }
            let place = &self.places[*place];
            let run =
                self.experiment.run_place(place, *steps, numbers, self.library, self.seed, self.progress);
            run.map_err(|error| match error {
                ExperimentError::Stopped => FittingError::Stopped,
                error => FittingError::Experiment(error.to_string()),
            })
        });
        let unknown: Vec<_> = unknown.into_iter().cloned().collect();
        self.known.extend(unknown.into_iter().zip(results));
    }

    /// Returns the number of runs so far. A run simulates one place with one choice of numbers.
    pub(super) fn runs(&self) -> usize {
        self.known.len()
    }

    /// Returns the logarithm of the ratio of a cell's simulated mean to its published mean; 0 for a cell that
    /// was not simulated.
    pub(super) fn error(&self, point: &Point, cell: usize) -> f64 {
        point.figures[cell].map_or(0.0, |figure| (figure.mean / self.cells[cell].mean).ln())
    }

    /// Returns the error of a cell that a number need not improve upon: a thirtieth of the cell's deviation, or twice
    /// the standard error of the simulated mean if this is larger.
    pub(super) fn tolerance(&self, point: &Point, cell: usize) -> f64 {
        let runs = f64::from(self.experiment.runs());
        let noise = point.figures[cell].map_or(0.0, |figure| 2.0 * figure.sd / figure.mean / runs.sqrt());
        noise.max(self.cells[cell].share / 30.0)
    }

    /// Returns the sum of the squared deviations of the cells that `of` selects.
    pub(super) fn sum(&self, point: &Point, of: impl Fn(&RefitCell) -> bool) -> f64 {
        let cells = (0..self.cells.len()).filter(|n| of(&self.cells[*n]));
        cells.map(|n| (self.error(point, n) / self.cells[n].share).powi(2)).sum()
    }
}

/// Path of the number whose values are powers of two.
const MAP_UNIT: &str = "ftl.map_unit";
