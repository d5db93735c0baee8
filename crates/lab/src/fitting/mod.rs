//! Fits: a profile from the measurements of a card, with the simulator as the forward model.
//!
//! [`fit`] takes measurement files, a base profile and a host, and estimates the numbers of [`table::TABLE`] that the
//! cells can determine. All other numbers stay as in the base profile. [`CardFit::profile`] writes the result as a
//! profile whose numbers name the cells that they were fitted on.
//!
//! Cells are rates and mean latencies. Percentiles and maxima are not fitted: the model has no numbers for tails that
//! could be estimated from them.

pub mod candidates;
pub mod check;
mod error;
pub mod forward;
mod input;
mod profile_text;
pub mod refit;
pub mod table;

pub use error::FittingError;
pub use input::{Input, measurements_of_experiment};

use crate::progress::Progress;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Value;
use flashlab_fit::estimate::{
    Candidate, Cell, Determined, Estimate, Number, Predictions, Problem, Scale, Selection, estimate, select,
};
use forward::{Access, KnownRuns, Predicted, Rig, Setting};
use serde::Serialize;
use std::cell::RefCell;
use table::{Row, TABLE};

/// Name of the profile that a fit starts from if the user names none.
pub const TYPICAL: &str = "sd/typical";

/// Fall of chi-squared that an additional mechanism must bring. It costs one number.
const MECHANISM_FALL: f64 = 8.0;

/// Settings of a fit.
#[derive(Clone, Debug)]
pub struct FitSettings {
    /// Profile that provides the numbers that are not fitted.
    pub base: String,
    /// Host of the measurements; `None` for the host that they name.
    pub host: Option<String>,
    /// True if the numbers of the host are fitted too.
    pub fit_host: bool,
    /// Paths of the numbers to fit, from their values in the base profile on; empty for all that the cells determine.
    pub numbers: Vec<String>,
    /// Names of the steps whose results are cells of the fit; empty for all.
    pub steps: Vec<String>,
    /// True if each step runs as often as it was measured, on a device with the spread between erase blocks.
    pub exact: bool,
    /// Settings of the search.
    pub search: flashlab_fit::estimate::Settings,
}

impl Default for FitSettings {
    fn default() -> Self {
        FitSettings {
            base: TYPICAL.to_owned(),
            host: None,
            fit_host: false,
            numbers: Vec::new(),
            steps: Vec::new(),
            exact: false,
            search: Default::default(),
        }
    }
}

/// The result of a fit.
#[derive(Clone, Debug, Serialize)]
pub struct CardFit {
    /// Base profile.
    pub base: String,
    /// Host of the measurements.
    pub host: String,
    /// Labels of the cards.
    pub cards: Vec<String>,
    /// Estimates, residuals and advice.
    pub estimate: Estimate,
    /// Numbers that keep the value of the base profile, with the reason.
    pub held: Vec<Held>,
    /// Nanoseconds of the mean request by mechanism, for each cell.
    pub mechanisms_ns: Vec<Vec<(&'static str, f64)>>,
    /// Remarks on the cells: what is not modelled and what was left out.
    pub notes: Vec<String>,
    /// The fitted devices.
    #[serde(skip)]
    devices: Vec<Device>,
    /// Text of the base profile for each card whose own profile it is; a fit changes only its fitted numbers.
    #[serde(skip)]
    own_texts: Vec<Option<String>>,
    /// True if cells are published figures of an experiment.
    #[serde(skip)]
    is_of_experiment: bool,
}

/// A number that was not fitted.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// Path of the number.
    pub name: String,
    /// Value that it keeps; `none` for a mechanism that the profile lacks.
    pub value: String,
    /// The reason.
    pub reason: String,
}

/// A number of a fit: a row of the table, and the card to which it belongs. Numbers of the host belong to all cards.
#[derive(Clone, Copy)]
struct Free {
    card: Option<usize>,
    row: &'static Row,
}

/// Rigs, cells and numbers of a fit.
struct Session<'a> {
    library: &'a Library,
    settings: &'a FitSettings,
    labels: Vec<String>,
    rigs: Vec<Rig>,
    /// Devices with the numbers of the base profile.
    bases: Vec<Device>,
    cells: Vec<Cell>,
    accesses: Vec<Vec<Access>>,
    /// Runs of the measured steps.
    known: RefCell<KnownRuns>,
    candidates: Vec<Candidate>,
    candidate_rigs: Vec<Rig>,
    /// Runs of the candidates' steps.
    known_candidates: RefCell<KnownRuns>,
}

/// Adds the typical card to a library.
pub fn with_typical(library: &Library) -> Library {
    let mut library = library.clone();
    library.add_device(TYPICAL, include_bytes!("typical.toml")).expect("the tests parse the profile");
    library
}

/// Fits the measurements of one or several cards on one host.
///
/// A fit that `progress` stops ends with [`FittingError::Stopped`].
pub fn fit(
    inputs: &[Input],
    settings: &FitSettings,
    library: &Library,
    progress: &Progress,
) -> Result<CardFit, FittingError> {
    let library = with_typical(library);
    check_names(inputs, settings)?;
    let (session, host, notes) = Session::new(inputs, settings, &library, progress)?;
    let mut numbers = session.numbers(false);
    let mut starts = session.starts(&numbers);
    let selection = session.select(&numbers, &starts)?;
    let mut held = session.held(&numbers, &selection);
    numbers = selection.kept.iter().map(|k| numbers[*k]).collect();
    starts = selection.kept.iter().map(|k| starts[*k]).collect();
    if numbers.is_empty() {
        return Err(FittingError::NothingToFit);
    }
    held.extend(session.add_mechanisms(&mut numbers, &mut starts)?);
    let estimate = session.estimate(&numbers, &starts, settings.search.clone(), true)?;
    let values: Vec<f64> = estimate.numbers.iter().map(|number| number.value).collect();
    let point = session.point(&numbers, &values);
    let predicted = session.predict(std::slice::from_ref(&point)).pop().expect("one point")?;
    let devices = session.rigs.iter().zip(&point).map(|(rig, settings)| {
        // The spread between erase blocks was zero in the fit only.
        let rig = Rig {
            settings: rig.settings.iter().filter(|(p, _)| *p != SPREAD).cloned().collect(),
            ..rig.clone()
        };
        rig.open(settings, &library)
    });
    Ok(CardFit {
        base: settings.base.clone(),
        host,
        cards: session.labels.clone(),
        estimate,
        held,
        mechanisms_ns: predicted.into_iter().map(|cell: Predicted| cell.mechanisms_ns).collect(),
        notes,
        devices: devices.collect::<Result<_, _>>()?,
        own_texts: inputs.iter().map(|input| own_text(input, settings, &library)).collect(),
        is_of_experiment: inputs.iter().any(Input::is_of_experiment),
    })
}

/// Returns the text of the base profile if it is the profile of the measured device.
fn own_text(input: &Input, settings: &FitSettings, library: &Library) -> Option<String> {
    let profile = library.device(&settings.base).ok().filter(|_| input.is_refit(settings));
    profile.map(|profile| profile.text.text.clone())
}

/// Rejects selected numbers and steps that do not exist.
fn check_names(inputs: &[Input], settings: &FitSettings) -> Result<(), FittingError> {
    let unknown = |what, name: &String, known: Vec<&str>| {
        let known = known.into_iter().map(str::to_owned).collect();
        Err(FittingError::Unknown { what, name: name.clone(), known })
    };
    let rows: Vec<&str> = TABLE.iter().map(|row| row.path).collect();
    if let Some(name) = settings.numbers.iter().find(|name| !rows.contains(&name.as_str())) {
        return unknown("number", name, rows);
    }
    let steps = || inputs.iter().flat_map(|input| &input.measurements.steps).map(|step| step.name.as_str());
    match settings.steps.iter().find(|name| !steps().any(|step| step == *name)) {
        Some(name) => unknown("step", name, steps().collect()),
        None => Ok(()),
    }
}

/// Path of the spread between erase blocks.
const SPREAD: &str = "flash.spread";

impl<'a> Session<'a> {
    fn new(
        inputs: &[Input],
        settings: &'a FitSettings,
        library: &'a Library,
        progress: &Progress,
    ) -> Result<(Session<'a>, String, Vec<String>), FittingError> {
        let host = input::host_of(inputs, settings)?;
        let mut session = Session {
            library,
            settings,
            labels: inputs.iter().map(|input| input.label.clone()).collect(),
            rigs: Vec::new(),
            bases: Vec::new(),
            cells: Vec::new(),
            accesses: Vec::new(),
            known: RefCell::new(KnownRuns::new(progress.clone())),
            candidates: Vec::new(),
            candidate_rigs: Vec::new(),
            known_candidates: RefCell::new(KnownRuns::new(progress.clone())),
        };
        let mut notes = Vec::new();
        for input in inputs {
            let ready = input.ready(settings, library)?;
            notes.extend(ready.notes);
            let mut fixed: Vec<Setting> = vec![("host", host.clone())];
            if !settings.exact {
                fixed.push((SPREAD, "0%".to_owned()));
            }
            if let Some(capacity) = ready.capacity.filter(|_| !input.is_refit(settings)) {
                fixed.push(("card.capacity", format!("{capacity}B")));
            }
            let rig = Rig { device: settings.base.clone(), settings: fixed.clone(), steps: ready.steps };
            session.bases.push(rig.open(&[], library)?);
            session.rigs.push(rig);
            session.cells.extend(ready.cells);
            session.accesses.push(ready.accesses);
            let (candidates, steps) =
                candidates::candidates(library, input.measurements.target.capacity_bytes)?;
            let prefix = if inputs.len() > 1 { format!("{}: ", input.label) } else { String::new() };
            session.candidates.extend(
                candidates.into_iter().map(|c| Candidate { name: format!("{prefix}{}", c.name), ..c }),
            );
            session.candidate_rigs.push(Rig { device: settings.base.clone(), settings: fixed, steps });
        }
        if session.cells.is_empty() {
            return Err(FittingError::NoCells);
        }
        Ok((session, host, notes))
    }

    /// Returns the rows of the table that the cells may determine: those of mechanisms that the base profile has, or the
    /// optional ones that it lacks.
    fn numbers(&self, optional: bool) -> Vec<Free> {
        let mut numbers = Vec::new();
        let chosen = &self.settings.numbers;
        let is_chosen = |row: &&Row| chosen.is_empty() || chosen.iter().any(|path| path == row.path);
        for row in TABLE.iter().filter(|row| row.optional == optional).filter(is_chosen) {
            let cards: Vec<usize> = (0..self.rigs.len())
                .filter(|card| (row.start)(&self.accesses[*card]).is_some())
                .filter(|card| self.base_value(*card, row).is_some() || optional)
                .collect();
            if row.is_of_host() {
                if self.settings.fit_host && !cards.is_empty() {
                    numbers.push(Free { card: None, row });
                }
            } else {
                numbers.extend(cards.into_iter().map(|card| Free { card: Some(card), row }));
            }
        }
        numbers
    }

    /// Returns the value of the base profile in base units.
    fn base_value(&self, card: usize, row: &Row) -> Option<f64> {
        value_of(&self.bases[card], row.path)
    }

    fn starts(&self, numbers: &[Free]) -> Vec<f64> {
        let start = |number: &Free| {
            let row = number.row;
            let guess = match number.card {
                Some(card) if self.settings.numbers.is_empty() => (row.start)(&self.accesses[card]),
                Some(card) => self.base_value(card, row).or_else(|| (row.start)(&self.accesses[card])),
                None => self.base_value(0, row),
            };
            let (low, high) = self.bounds(number);
            guess.unwrap_or(low).clamp(low, high)
        };
        numbers.iter().map(start).collect()
    }

    fn bounds(&self, number: &Free) -> (f64, f64) {
        let (low, high) = number.row.bounds;
        let unit = self.unit_of(number).unwrap_or(low);
        let capacity = self.bases[number.card.unwrap_or(0)].capacity() as f64;
        match number.row.multiple_of {
            Some(_) => (low.max(unit), high.min(capacity / 4.0).max(2.0 * unit)),
            None => (low, high),
        }
    }

    /// Returns the unit that a number is a multiple of.
    fn unit_of(&self, number: &Free) -> Option<f64> {
        value_of(&self.bases[number.card.unwrap_or(0)], number.row.multiple_of?)
    }

    fn name(&self, number: &Free) -> String {
        match number.card {
            Some(card) if self.rigs.len() > 1 => format!("{}:{}", self.labels[card], number.row.path),
            _ => number.row.path.to_owned(),
        }
    }

    /// Returns the settings of each rig at a point.
    fn point(&self, numbers: &[Free], values: &[f64]) -> Vec<Vec<Setting>> {
        let of = |card: usize| {
            let own = numbers.iter().zip(values).filter(|(n, _)| n.card.is_none_or(|c| c == card));
            own.map(|(number, value)| (number.row.path, number.row.dimension.print(value.round() as u64)))
                .collect()
        };
        (0..self.rigs.len()).map(of).collect()
    }

    /// Predicts the cells at several points.
    fn predict(&self, points: &[Vec<Vec<Setting>>]) -> Vec<Result<Vec<Predicted>, FittingError>> {
        self.known.borrow_mut().predict(&self.rigs, points, self.settings.search.seed, self.library)
    }

    /// Calls `with` with the problem of estimating `numbers`.
    fn with_problem<R>(
        &self,
        numbers: &[Free],
        starts: &[f64],
        search: flashlab_fit::estimate::Settings,
        with_candidates: bool,
        with: impl FnOnce(&Problem<'_>) -> R,
    ) -> R {
        let run = |known: &RefCell<KnownRuns>, rigs: &[Rig], points: &[Vec<f64>]| -> Vec<Predictions> {
            let points: Vec<_> = points.iter().map(|values| self.point(numbers, values)).collect();
            let values = |cells: Vec<Predicted>| cells.into_iter().map(|cell| cell.value).collect();
            let seed = self.settings.search.seed;
            let predicted = known.borrow_mut().predict(rigs, &points, seed, self.library).into_iter();
            predicted.map(|cells| cells.map(values).map_err(|error| error.to_string())).collect()
        };
        let forward = |points: &[Vec<f64>]| run(&self.known, &self.rigs, points);
        let forward_candidates =
            |points: &[Vec<f64>]| run(&self.known_candidates, &self.candidate_rigs, points);
        let number = |(free, start): (&Free, &f64)| Number {
            name: self.name(free),
            unit: free.row.dimension.print(1).trim_start_matches('1').to_owned(),
            bounds: self.bounds(free),
            scale: Scale::Log,
            start: *start,
            step: free.row.step,
            unit_size: self.unit_of(free),
        };
        with(&Problem {
            numbers: numbers.iter().zip(starts).map(number).collect(),
            cells: self.cells.clone(),
            forward: &forward,
            candidates: if with_candidates { self.candidates.clone() } else { Vec::new() },
            forward_candidates: if with_candidates { Some(&forward_candidates) } else { None },
            settings: search,
        })
    }

    fn select(&self, numbers: &[Free], starts: &[f64]) -> Result<Selection, FittingError> {
        let search = self.settings.search.clone();
        let select = |problem: &Problem<'_>| select(problem, problem.cells.len());
        Ok(self.with_problem(numbers, starts, search, false, select)?)
    }

    fn estimate(
        &self,
        numbers: &[Free],
        starts: &[f64],
        search: flashlab_fit::estimate::Settings,
        with_candidates: bool,
    ) -> Result<Estimate, FittingError> {
        Ok(self.with_problem(numbers, starts, search, with_candidates, estimate)?)
    }

    fn held(&self, numbers: &[Free], selection: &Selection) -> Vec<Held> {
        let held = |k: &usize, reason: &str| {
            let number = &numbers[*k];
            let value = self.base_value(number.card.unwrap_or(0), number.row);
            let text = value.map_or("none".to_owned(), |v| number.row.dimension.print(v as u64));
            Held { name: self.name(number), value: text, reason: reason.to_owned() }
        };
        let without_effect = selection.without_effect.iter().map(|k| held(k, "no cell depends on it"));
        let too_few = selection.without_cells.iter().map(|k| held(k, "the cells are too few for it"));
        without_effect.chain(too_few).collect()
    }

    /// Adds the optional mechanisms that the cells need, one by one, while each lowers chi-squared enough.
    fn add_mechanisms(
        &self,
        numbers: &mut Vec<Free>,
        starts: &mut Vec<f64>,
    ) -> Result<Vec<Held>, FittingError> {
        let quick = flashlab_fit::estimate::Settings {
            starts: 1,
            profile_likelihood: false,
            leave_one_out: false,
            ..self.settings.search.clone()
        };
        let mut optional = self.numbers(true);
        while !optional.is_empty() && numbers.len() < self.cells.len() {
            let now = self.estimate(numbers, starts, quick.clone(), false)?;
            let free = (self.cells.len() - numbers.len()).max(1);
            if now.chi2 < MECHANISM_FALL.max(1.5 * free as f64) {
                break;
            }
            *starts = now.numbers.iter().map(|number| number.value).collect();
            let mut best: Option<(f64, usize, Vec<f64>)> = None;
            for (n, mechanism) in optional.iter().enumerate() {
                let mut more = numbers.clone();
                more.push(*mechanism);
                let mut from = starts.clone();
                from.extend(self.starts(&[*mechanism]));
                let Ok(found) = self.estimate(&more, &from, quick.clone(), false) else { continue };
                let last = found.numbers.last().expect("it was added");
                let needed = matches!(last.determined, Determined::Yes | Determined::Loosely);
                let fall = now.chi2 - found.chi2;
                if needed && fall > MECHANISM_FALL && best.as_ref().is_none_or(|(most, ..)| fall > *most) {
                    best = Some((fall, n, found.numbers.iter().map(|number| number.value).collect()));
                }
            }
            let Some((_, n, values)) = best else { break };
            numbers.push(optional.remove(n));
            *starts = values;
        }
        let held = |number: &Free| Held {
            name: self.name(number),
            value: "none".to_owned(),
            reason: "the cells do not need it".to_owned(),
        };
        Ok(optional.iter().map(held).collect())
    }
}

/// Returns a quantity of a device in base units.
fn value_of(device: &Device, path: &str) -> Option<f64> {
    let number = device.sourced_numbers().iter().find(|n| n.number.parameter.path == path)?;
    match number.number.value {
        Value::Quantity(_, value) => Some(value as f64),
        Value::Count(count) => Some(f64::from(count)),
        _ => None,
    }
}
