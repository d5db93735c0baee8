//! A fit in progress: the rigs of the measurements, the cells, and the numbers that the search moves.

use super::forward::{Access, KnownRuns, Predicted, ReadyStep, Rig, Setting};
use super::table::{Grid, Row, TABLE};
use super::{Companion, FitSettings, FittingError, Held, Input, SPREAD, candidates, value_of};
use crate::progress::Progress;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::kind::CardInHost;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Parameter;
use flashlab_fit::estimate::{
    AffectedMinimum, Candidate, Cell, Estimate, Number, Predictions, Problem, Scale, Selection, Settings,
    Slopes, estimate, minimum, minimum_of_affected, screen, select, slopes,
};
use flashlab_sd::Mode;
use std::cell::RefCell;

/// Returns the setting that gives a base profile the capacity of a target, rounded down to whole MiB for a
/// card, and to whole erase blocks for a stick. A target may be a file of any size.
fn capacity_of(base: &str, bytes: u64, library: &Library) -> Option<Setting> {
    let device = Device::open(base, library).ok()?;
    let has = |path: &&str| Parameter::at(path).is_some_and(|parameter| device.kind().has(parameter));
    let path = ["card.capacity", "stick.capacity"].into_iter().find(has)?;
    let block = value_of(&device, "flash.erase_block").map_or(MIB, |block| block as u64);
    let unit = if path == "card.capacity" { MIB } else { block };
    Some((path, format!("{}B", bytes / unit * unit)))
}

const MIB: u64 = 1 << 20;

/// Path of the size of a rewrite unit.
const REWRITE_UNIT: &str = "ftl.rewrite_unit";

/// Reason for which a number is not fitted.
const WITHOUT_EFFECT: &str = "no cell depends on it";

/// Least change of the logarithm of a candidate's latency at which the candidate shows that a number is half
/// or twice as large.
const SHOWN: f64 = 0.1;

/// A number of a fit: a row of the table, and the card to which it belongs. Numbers of the host belong to all cards.
#[derive(Clone, Copy)]
pub(super) struct Free {
    pub(super) card: Option<usize>,
    pub(super) row: &'static Row,
}

impl Free {
    /// Returns true if this is the number of a card at `path`.
    fn is(&self, card: usize, path: &str) -> bool {
        self.row.path == path && self.card.is_none_or(|of| of == card)
    }
}

/// The numbers that a search moves, and those that mechanisms fix.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) numbers: Vec<Free>,
    /// Start of each number.
    pub(super) starts: Vec<f64>,
    /// Fixed numbers, by card.
    pub(super) fixed: Vec<(usize, Setting)>,
}

impl Model {
    /// Returns true if the search moves the number of a card at `path`.
    pub(super) fn has(&self, card: usize, path: &str) -> bool {
        self.numbers.iter().any(|number| number.is(card, path))
    }
}

/// Rigs, cells and numbers of a fit. A rig has the measurements of one input. A card has one rig, or all rigs
/// if all measurements are of one card.
pub(super) struct Session<'a> {
    library: &'a Library,
    pub(super) settings: &'a FitSettings,
    /// Labels of the cards.
    pub(super) labels: Vec<String>,
    rigs: Vec<Rig>,
    /// Card of each rig.
    card_of: Vec<usize>,
    /// Devices with the numbers of the base profile, by rig.
    bases: Vec<Device>,
    pub(super) cells: Vec<Cell>,
    /// Patterns of the cells, by card.
    pub(super) accesses: Vec<Vec<Access>>,
    /// Longest latency of each cell's writes in nanoseconds, if it was measured.
    longest_writes: Vec<Option<u64>>,
    /// Runs of the measured steps.
    known: RefCell<KnownRuns>,
    candidates: Vec<Candidate>,
    candidate_rigs: Vec<Rig>,
    /// Card of each of the candidates' rigs.
    candidate_card_of: Vec<usize>,
    /// Runs of the candidates' steps.
    known_candidates: RefCell<KnownRuns>,
}

/// Ratio of a cell's longest write to the longest write in the model above which the card or its host seems
/// to pause.
const PAUSE: f64 = 3.0;

impl<'a> Session<'a> {
    pub(super) fn new(
        inputs: &[Input],
        base: &str,
        settings: &'a FitSettings,
        hosts: &[String],
        library: &'a Library,
        progress: &Progress,
    ) -> Result<(Session<'a>, Vec<String>), FittingError> {
        let labels: Vec<String> = inputs.iter().map(|input| input.label.clone()).collect();
        let labels = if settings.same_card { vec![labels.join(" and ")] } else { labels };
        let mut session = Session {
            library,
            settings,
            accesses: vec![Vec::new(); labels.len()],
            labels,
            rigs: Vec::new(),
            card_of: Vec::new(),
            bases: Vec::new(),
            cells: Vec::new(),
            longest_writes: Vec::new(),
            known: RefCell::new(KnownRuns::new(progress.clone())),
            candidates: Vec::new(),
            candidate_rigs: Vec::new(),
            candidate_card_of: Vec::new(),
            known_candidates: RefCell::new(KnownRuns::new(progress.clone())),
        };
        let mut notes = Vec::new();
        for (n, (input, host)) in inputs.iter().zip(hosts).enumerate() {
            let card = if settings.same_card { 0 } else { n };
            let ready = input.ready(settings, inputs.len() == 1, library)?;
            notes.extend(ready.notes);
            let mut fixed: Vec<Setting> = vec![("host", host.clone())];
            if !settings.exact {
                fixed.push((SPREAD, "0%".to_owned()));
            }
            if let Some(capacity) = ready.capacity.filter(|_| !input.is_refit(base)) {
                fixed.extend(capacity_of(base, capacity, library));
            }
            let rig = Rig { device: base.to_owned(), settings: fixed.clone(), steps: ready.steps };
            session.bases.push(rig.open(&[], library)?);
            session.rigs.push(rig);
            session.card_of.push(card);
            session.cells.extend(ready.cells);
            session.longest_writes.extend(ready.longest_writes);
            session.accesses[card].extend(ready.accesses);
            let prefix = match (settings.same_card, inputs.len()) {
                (_, 1) => String::new(),
                (true, _) if hosts[..n].contains(host) => continue,
                (true, _) => format!("on {host}: "),
                (false, _) => format!("{}: ", input.label),
            };
            let rig = Rig { device: base.to_owned(), settings: fixed, steps: Vec::new() };
            session.add_candidates(card, rig, &prefix)?;
        }
        if session.cells.is_empty() {
            notes.retain(|note: &String| note.contains("left out"));
            return Err(FittingError::NoCells { left_out: notes });
        }
        Ok((session, notes))
    }

    fn add_candidates(&mut self, card: usize, rig: Rig, prefix: &str) -> Result<(), FittingError> {
        let measured = self.card_of.iter().zip(&self.rigs).filter(|(of, _)| **of == card);
        let measured: Vec<ReadyStep> = measured.flat_map(|(_, rig)| rig.steps.clone()).collect();
        let capacity = rig.open(&[], self.library)?.capacity();
        let (candidates, steps) = candidates::candidates(&measured, self.library, capacity)?;
        let named = candidates.into_iter().map(|c| Candidate { name: format!("{prefix}{}", c.name), ..c });
        self.candidates.extend(named);
        self.candidate_rigs.push(Rig { steps, ..rig });
        self.candidate_card_of.push(card);
        Ok(())
    }

    /// Returns the index of the first input of each card.
    pub(super) fn first_inputs(&self) -> impl Iterator<Item = usize> {
        (0..self.labels.len()).map(|card| self.first_rig(card))
    }

    fn first_rig(&self, card: usize) -> usize {
        self.card_of.iter().position(|of| *of == card).expect("a card has a rig")
    }

    /// Returns the model of the base profile without the numbers that the cells cannot determine, and lists these
    /// numbers.
    pub(super) fn determined(&self) -> Result<(Model, Vec<Held>), FittingError> {
        let model = self.nearer_start(self.model())?;
        let selection = self.select(&model)?;
        let held = self.held(&model, &selection);
        let model = Model {
            numbers: selection.kept.iter().map(|k| model.numbers[*k]).collect(),
            starts: selection.kept.iter().map(|k| model.starts[*k]).collect(),
            fixed: model.fixed,
        };
        Ok((model, held))
    }

    /// Returns the model of the base profile: the rows of the table that the base profile has and the cells may
    /// determine.
    fn model(&self) -> Model {
        let chosen = &self.settings.numbers;
        let is_named = |row: &Row| chosen.iter().any(|path| path == row.path);
        let mut model = Model::default();
        for row in TABLE.iter().filter(|row| chosen.is_empty() || is_named(row)) {
            let is_shown = |card: &usize| self.closed_form(row, *card).is_some();
            let cards: Vec<usize> = (0..self.labels.len())
                .filter(|card| (is_named(row) && row.optional) || is_shown(card))
                .filter(|card| self.base_value(*card, row.path).is_some())
                .filter(|card| row.path != REWRITE_UNIT || !self.is_page_mapped(*card))
                .collect();
            if row.is_of_host() {
                if self.settings.fit_host && !cards.is_empty() {
                    model.numbers.push(Free { card: None, row });
                }
            } else {
                model.numbers.extend(cards.into_iter().map(|card| Free { card: Some(card), row }));
            }
        }
        model.starts = model.numbers.iter().map(|number| self.start(&model, number)).collect();
        model
    }

    /// Returns true if no write to a card with the base profile rewrites anything, because its rewrite units
    /// are smaller than a page.
    fn is_page_mapped(&self, card: usize) -> bool {
        let bytes = |path| self.base_value(card, path);
        bytes(REWRITE_UNIT).zip(bytes("flash.page")).is_some_and(|(unit, page)| unit < page)
    }

    /// Returns `model`, which is at a minimum, together with the numbers of `held` on which cells depend at
    /// this minimum, and removes these numbers from `held`. Returns `None` if there are no such numbers.
    pub(super) fn with_shown(
        &self,
        model: &Model,
        held: &mut Vec<Held>,
    ) -> Result<Option<Model>, FittingError> {
        let mut all = self.model();
        let is_same = |a: &Free, b: &Free| a.card == b.card && a.row.path == b.row.path;
        for (number, start) in all.numbers.iter().zip(&mut all.starts) {
            let known = model.numbers.iter().position(|known| is_same(known, number));
            let base = || self.base_value(number.card.unwrap_or(0), number.row.path);
            *start = known.map(|n| model.starts[n]).or_else(base).unwrap_or(*start);
        }
        let selection = self.select(&all)?;
        let mut more = model.clone();
        for k in selection.kept {
            let number = all.numbers[k];
            if more.numbers.len() < self.cells.len()
                && !model.numbers.iter().any(|known| is_same(known, &number))
            {
                held.retain(|held| held.name != self.name(&number));
                more.numbers.push(number);
                more.starts.push(all.starts[k]);
            }
        }
        Ok((more.numbers.len() > model.numbers.len()).then_some(more))
    }

    /// Returns `model` with the starts that explain the cells better: its own, or the values of the base profile.
    fn nearer_start(&self, model: Model) -> Result<Model, FittingError> {
        let of_base = |(number, start): (&Free, &f64)| {
            let (low, high) = self.bounds(&model, number);
            let base = self.base_value(number.card.unwrap_or(0), number.row.path);
            base.map_or(*start, |base| base.clamp(low, high))
        };
        let starts = model.numbers.iter().zip(&model.starts).map(of_base).collect();
        let other = Model { starts, ..model.clone() };
        let chi2 = |model: &Model| self.minimum(model, &self.search(0), 0).map(|(chi2, _)| chi2);
        Ok(match (chi2(&model), chi2(&other)) {
            (Ok(own), Ok(of_base)) if of_base < own => other,
            // If neither device can exist, the search reports the reason.
            (Err(_), Ok(_)) => other,
            _ => model,
        })
    }

    fn start(&self, model: &Model, number: &Free) -> f64 {
        let row = number.row;
        let base = || self.base_value(number.card.unwrap_or(0), row.path);
        let guess = match number.card {
            Some(card) if self.settings.numbers.is_empty() => self.closed_form(row, card),
            Some(card) => base().or_else(|| self.closed_form(row, card)),
            None => base(),
        };
        let (low, high) = self.bounds(model, number);
        guess.unwrap_or(low).clamp(low, high)
    }

    /// Returns the start of a number that the cells of a card suggest.
    fn closed_form(&self, row: &Row, card: usize) -> Option<f64> {
        let bytes = |path| self.base_value(card, path);
        let program = bytes("flash.stripe").or_else(|| bytes("flash.page")).unwrap_or(8192.0);
        (row.start)(&self.accesses[card], program)
    }

    /// Returns the value that the base profile of a card has at `path`, in base units.
    fn base_value(&self, card: usize, path: &str) -> Option<f64> {
        value_of(&self.bases[self.first_rig(card)], path)
    }

    /// Returns the value that a number has in a model: the start of the search, the fixed value, or that of the base
    /// profile.
    pub(super) fn value_in(&self, model: &Model, card: usize, path: &str) -> Option<f64> {
        let searched = model.numbers.iter().zip(&model.starts).find(|(number, _)| number.is(card, path));
        let fixed = model.fixed.iter().find(|(of, (fixed, _))| *of == card && *fixed == path);
        let parsed = |(_, (_, text)): &(usize, Setting)| Row::at(path).and_then(|row| row.parse(text));
        searched
            .map(|(_, start)| *start)
            .or_else(|| fixed.and_then(parsed))
            .or_else(|| self.base_value(card, path))
    }

    /// Returns the bounds of a number.
    pub(super) fn bounds(&self, model: &Model, number: &Free) -> (f64, f64) {
        let (low, high) = number.row.bounds;
        let unit = self.unit_of(model, number).unwrap_or(low);
        let capacity = self.bases[self.first_rig(number.card.unwrap_or(0))].capacity() as f64;
        match number.row.grid {
            Grid::MultiplesOf(_) => (low.max(unit), high.min(capacity / 4.0).max(2.0 * unit)),
            Grid::Any | Grid::PowersOfTwo | Grid::Whole => (low, high),
        }
    }

    /// Returns the unit that a number is a multiple of.
    fn unit_of(&self, model: &Model, number: &Free) -> Option<f64> {
        match number.row.grid {
            Grid::MultiplesOf(path) => self.value_in(model, number.card.unwrap_or(0), path),
            Grid::Whole => Some(1.0),
            Grid::Any | Grid::PowersOfTwo => None,
        }
    }

    /// Returns the name of a number in tables.
    pub(super) fn name(&self, number: &Free) -> String {
        match number.card {
            Some(card) if self.labels.len() > 1 => format!("{}:{}", self.labels[card], number.row.path),
            _ => number.row.path.to_owned(),
        }
    }

    /// Returns the settings of a card at a point.
    fn settings_of(&self, card: usize, model: &Model, values: &[f64]) -> Vec<Setting> {
        let fixed = model.fixed.iter().filter(|(of, _)| *of == card).map(|(_, setting)| setting.clone());
        let own = model.numbers.iter().zip(values).filter(|(n, _)| n.card.is_none_or(|c| c == card));
        let set = own.flat_map(|(number, value)| {
            let text = number.row.print(*value);
            let paths = [number.row.path].into_iter().chain(number.row.tied.iter().copied());
            paths.map(move |path| (path, text.clone()))
        });
        fixed.chain(set).collect()
    }

    /// Returns the bytes of a card that `flash.t_prog` programs.
    pub(super) fn program(&self, model: &Model, card: usize) -> Option<f64> {
        let bytes = |path| self.value_in(model, card, path);
        bytes("flash.stripe").or_else(|| bytes("flash.page"))
    }

    /// Adapts the program time of a card in `model` to a new size of programs, so that the rate of long
    /// writes stays the same. `before` is the previous size in bytes.
    pub(super) fn keep_rate(&self, model: &mut Model, card: usize, before: Option<f64>) {
        let Some(ratio) = self.program(model, card).zip(before).map(|(now, before)| now / before) else {
            return;
        };
        let starts = model.numbers.iter().zip(&mut model.starts);
        let t_prog = starts.into_iter().find(|(number, _)| number.is(card, "flash.t_prog"));
        t_prog.into_iter().for_each(|(_, start)| *start *= ratio);
    }

    /// Returns `model` with the number of a card fixed at `value`.
    pub(super) fn with_fixed(&self, model: &Model, card: usize, row: &Row, value: f64) -> Model {
        let paths = [row.path].into_iter().chain(row.tied.iter().copied());
        let mut fixed = model.clone();
        fixed.fixed.extend(paths.map(|path| (card, (path, row.print(value)))));
        fixed
    }

    /// Returns the settings of each rig at a point.
    pub(super) fn point(&self, model: &Model, values: &[f64]) -> Vec<Vec<Setting>> {
        self.card_of.iter().map(|card| self.settings_of(*card, model, values)).collect()
    }

    /// Returns the numbers of each card that `model` sets without an estimate, because a mechanism fixes them
    /// or because they always equal a fitted number.
    pub(super) fn companions(&self, model: &Model) -> Vec<Vec<Companion>> {
        let of = |card: usize| {
            let fixed = model.fixed.iter().filter(|(of, _)| *of == card);
            let fixed = fixed.map(|(_, (path, _))| Companion {
                path,
                reason: "part of a mechanism that the measurements need".to_owned(),
            });
            let own = model.numbers.iter().filter(|number| number.card == Some(card));
            let tied = own.flat_map(|number| {
                let reason = format!("always equal to {}", number.row.path);
                number.row.tied.iter().map(move |path| Companion { path, reason: reason.clone() })
            });
            fixed.chain(tied).collect()
        };
        (0..self.labels.len()).map(of).collect()
    }

    /// Returns the device of each card at a point.
    pub(super) fn devices(&self, point: &[Vec<Setting>]) -> Result<Vec<Device>, FittingError> {
        let device = |rig: usize| {
            // Only the fit ran without a spread between erase blocks.
            let settings = self.rigs[rig].settings.iter().filter(|(path, _)| *path != SPREAD);
            let rig_with_spread = Rig { settings: settings.cloned().collect(), ..self.rigs[rig].clone() };
            rig_with_spread.open(&point[rig], self.library)
        };
        self.first_inputs().map(device).collect()
    }

    /// Returns a sentence if the longest measured write of a cell took much longer than the longest one in
    /// the model. `predicted` are the cells of the model.
    pub(super) fn pauses(&self, predicted: &[Predicted]) -> Option<String> {
        let of_cell = |(n, cell): (usize, &Predicted)| {
            let (measured, model) = (self.longest_writes[n]? as f64, cell.longest_ns as f64);
            (measured > PAUSE * model).then_some((measured / model, n, measured, model))
        };
        let paused: Vec<_> = predicted.iter().enumerate().filter_map(of_cell).collect();
        let (_, n, measured, model) = paused.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let others = match paused.len() - 1 {
            0 => String::new(),
            1 => " (and writes of one other cell)".to_owned(),
            more => format!(" (and writes of {more} other cells)"),
        };
        Some(format!(
            "the longest write of {}{others} took {:.3} ms, and {:.3} ms in the model: pauses of the card or \
             of the host are not fitted, so latency tails predicted with the profile are lower bounds, and \
             times in the profile may contain a share of the pauses",
            self.cells[*n].name,
            measured / 1e6,
            model / 1e6
        ))
    }

    /// Predicts the cells at several points.
    pub(super) fn predict(&self, points: &[Vec<Vec<Setting>>]) -> Vec<Result<Vec<Predicted>, FittingError>> {
        self.known.borrow_mut().predict(&self.rigs, points, self.settings.search.seed, self.library)
    }

    /// Predicts the candidates, the measurements that could be made, at the starts of `model`. Returns the name and the
    /// mean latency of each.
    pub(super) fn predict_candidates(&self, model: &Model) -> Result<Vec<(String, f64)>, FittingError> {
        let point = self.candidate_card_of.iter().map(|card| self.settings_of(*card, model, &model.starts));
        let points = [point.collect()];
        let seed = self.settings.search.seed;
        let mut known = self.known_candidates.borrow_mut();
        let predicted =
            known.predict(&self.candidate_rigs, &points, seed, self.library).pop().expect("one point")?;
        let names = self.candidates.iter().map(|candidate| candidate.name.clone());
        Ok(names.zip(predicted.into_iter().map(|cell| cell.value)).collect())
    }

    /// Completes the reason of each number in `held` on which no cell depends. The reason then names the
    /// candidate whose latency changes most with the number, if the change exceeds [`SHOWN`]. The other
    /// numbers keep the starts of `model`.
    pub(super) fn name_candidates(&self, model: &Model, held: &mut [Held]) -> Result<(), FittingError> {
        let all = self.model();
        for held in held.iter_mut().filter(|held| held.reason == WITHOUT_EFFECT) {
            let Some(number) = all.numbers.iter().find(|number| self.name(number) == held.name) else {
                continue;
            };
            let card = number.card.unwrap_or(0);
            let Some(value) = self.value_in(model, card, number.row.path) else { continue };
            let unit = self.unit_of(model, number).unwrap_or(1.0);
            let half = (0.5 * value / unit).round().max(1.0) * unit;
            let other = if half < value { half } else { 2.0 * value };
            let moved = self.predict_candidates(&self.with_fixed(model, card, number.row, other))?;
            let change = |((name, here), (_, there)): ((String, f64), (String, f64))| {
                (name, (there / here).ln().abs())
            };
            let changes = self.predict_candidates(model)?.into_iter().zip(moved).map(change);
            let most = changes.max_by(|(_, a), (_, b)| a.total_cmp(b));
            if let Some((name, _)) = most.filter(|(_, change)| *change > SHOWN) {
                held.reason += &format!("; {name} would show it");
            }
        }
        Ok(())
    }

    /// Calls `with` with the problem of estimating the numbers of `model`.
    fn with_problem<R>(
        &self,
        model: &Model,
        search: Settings,
        with_candidates: bool,
        with: impl FnOnce(&Problem<'_>) -> R,
    ) -> R {
        let run = |known: &RefCell<KnownRuns>, rigs: &[Rig], cards: &[usize], points: &[Vec<f64>]| {
            let of = |values: &Vec<f64>| -> Vec<Vec<Setting>> {
                cards.iter().map(|card| self.settings_of(*card, model, values)).collect()
            };
            let points: Vec<_> = points.iter().map(of).collect();
            let values = |cells: Vec<Predicted>| cells.into_iter().map(|cell| cell.value).collect();
            let seed = self.settings.search.seed;
            let predicted = known.borrow_mut().predict(rigs, &points, seed, self.library).into_iter();
            predicted.map(|cells| cells.map(values).map_err(|error| error.to_string())).collect()
        };
        let forward =
            |points: &[Vec<f64>]| -> Vec<Predictions> { run(&self.known, &self.rigs, &self.card_of, points) };
        let forward_candidates = |points: &[Vec<f64>]| -> Vec<Predictions> {
            run(&self.known_candidates, &self.candidate_rigs, &self.candidate_card_of, points)
        };
        let number = |(free, start): (&Free, &f64)| Number {
            name: self.name(free),
            unit: free.row.unit(),
            bounds: self.bounds(model, free),
            scale: if free.row.grid == Grid::PowersOfTwo { Scale::PowersOfTwo } else { Scale::Log },
            start: *start,
            step: free.row.step,
            unit_size: self.unit_of(model, free),
        };
        with(&Problem {
            numbers: model.numbers.iter().zip(&model.starts).map(number).collect(),
            cells: self.cells.clone(),
            forward: &forward,
            candidates: if with_candidates { self.candidates.clone() } else { Vec::new() },
            forward_candidates: if with_candidates { Some(&forward_candidates) } else { None },
            settings: search,
        })
    }

    /// Selects the numbers of `model` that the cells can determine.
    fn select(&self, model: &Model) -> Result<Selection, FittingError> {
        let search = self.settings.search.clone();
        let select = |problem: &Problem<'_>| select(problem, problem.cells.len());
        Ok(self.with_problem(model, search, false, select)?)
    }

    /// Estimates the numbers of `model`, with intervals and advice.
    pub(super) fn estimate(&self, model: &Model) -> Result<Estimate, FittingError> {
        Ok(self.with_problem(model, self.settings.search.clone(), true, estimate)?)
    }

    /// Returns the minimum of the chi-squared of `model`, and the values of its numbers there.
    pub(super) fn minimum(
        &self,
        model: &Model,
        search: &Settings,
        neighbour_rounds: usize,
    ) -> Result<(f64, Vec<f64>), FittingError> {
        let found = self.with_problem(model, search.clone(), false, |p| minimum(p, neighbour_rounds))?;
        Ok((found.chi2, found.values))
    }

    /// Returns the minimum of the chi-squared of `model`, judged by the cells that its numbers affect.
    pub(super) fn minimum_of_affected(
        &self,
        model: &Model,
        search: &Settings,
        neighbour_rounds: usize,
    ) -> Result<AffectedMinimum, FittingError> {
        let search = search.clone();
        Ok(self.with_problem(model, search, false, |p| minimum_of_affected(p, neighbour_rounds))?)
    }

    /// Returns the derivatives at the starts of `model`.
    pub(super) fn slopes(&self, model: &Model) -> Result<Slopes, FittingError> {
        Ok(self.with_problem(model, self.settings.search.clone(), false, slopes)?)
    }

    /// Runs a short search for `model`, which extends the model of `slopes`. Returns the chi-squared that the search
    /// reaches, and the values there.
    pub(super) fn screened(&self, model: &Model, slopes: &Slopes) -> Result<(f64, Vec<f64>), FittingError> {
        let found =
            self.with_problem(model, self.settings.search.clone(), false, |problem| screen(problem, slopes))?;
        Ok((found.chi2, found.values))
    }

    /// Returns the numbers that the selection left out.
    fn held(&self, model: &Model, selection: &Selection) -> Vec<Held> {
        let held = |k: &usize, reason: &str| {
            let number = &model.numbers[*k];
            let value = self.base_value(number.card.unwrap_or(0), number.row.path);
            let text = value.map_or("none".to_owned(), |value| number.row.print(value));
            Held { name: self.name(number), value: text, reason: reason.to_owned() }
        };
        let without_effect = selection.without_effect.iter().map(|k| held(k, WITHOUT_EFFECT));
        let too_few =
            selection.without_cells.iter().map(|k| held(k, "there are too few cells to determine it"));
        without_effect.chain(too_few).collect()
    }

    /// Returns the bus mode of each rig of an SD card, and true if its host has a command queue.
    pub(super) fn machines(&self, card: usize) -> impl Iterator<Item = (Mode, bool)> {
        let bases = self.card_of.iter().zip(&self.bases).filter(move |(of, _)| **of == card);
        let hardware = bases.filter_map(|(_, base)| base.hardware::<CardInHost>());
        hardware.map(|found| (found.host.mode(&found.card.modes), found.host.queue.is_some()))
    }
}
