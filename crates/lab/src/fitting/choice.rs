//! The choice of the mechanisms that the cells need.
//!
//! The choice is a forward selection: each mechanism is tried from closed-form starts, and the one with the
//! largest gain enters, until none gains enough. A mechanism that a later one makes superfluous is removed
//! again. If the model then does not explain the cells, each of its mechanisms is exchanged for the best
//! other one, as long as an exchange gains.
//!
//! The gain is the decrease of chi-squared minus the increase of a penalty. The penalty is that of AICc (Burnham and
//! Anderson, "Model Selection and Multimodel Inference", 2002) with 8 instead of 2 for each number, because many
//! mechanisms are tried. If the base model explains the cells within their deviations, no mechanism is tried.

use super::alternatives::{Change, Other};
use super::mechanisms::{Facts, MECHANISMS, Mechanism, Variant, access_time, starts};
use super::session::{Free, Model, Session};
use super::table::{Grid, Row};
use super::{FittingError, Held};
use flashlab_fit::estimate::{Determined, Estimate, Settings};
use flashlab_sd::Mode;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Penalty of each number in units of chi-squared.
const NUMBER_COST: f64 = 8.0;
/// Chi-squared per degree of freedom below which a model explains the cells.
const EXPLAINED: f64 = 1.5;
/// Least decrease of chi-squared with which a variant can become the best variant of its mechanism in a
/// screening.
const GAINED: f64 = 2.0;
/// Ratio of a screening's chi-squared to that of the model below which a mechanism may be searched further. A screening is
/// short, so a mechanism that the cells need may not have its full effect yet.
const PROMISING: f64 = 1.5;
/// Number of mechanisms that are searched further after a screening.
const FOLLOWED: usize = 2;
/// Number of mechanisms that are searched further before and during an exchange. A screening sorts mechanisms
/// by chi-squared. A mechanism without effect leaves chi-squared unchanged, and so precedes a mechanism that
/// needs a longer search.
const FOLLOWED_IN_EXCHANGE: usize = 4;
/// Iterations of a search that follows a screening.
const FOLLOWED_ITERATIONS: usize = 8;
/// Least gain of an exchange. A smaller gain can come from a longer search for the same minimum.
const EXCHANGE_GAIN_MIN: f64 = 1.0;

fn is_count(path: &&str) -> bool {
    Row::at(path).is_some_and(|row| row.grid == Grid::Whole)
}

/// A mechanism that can be added to a model for one card, with the starts of its search.
#[derive(Clone)]
struct Offer {
    mechanism: &'static Mechanism,
    card: usize,
    variants: Vec<Variant>,
}

impl Offer {
    fn key(&self) -> Key {
        (self.card, self.mechanism.name)
    }

    /// Returns true if `number` belongs to the mechanism, for this card.
    fn has(&self, number: &Free) -> bool {
        number.card == Some(self.card) && self.mechanism.numbers.contains(&number.row.path)
    }
}

/// Card and name of a mechanism.
type Key = (usize, &'static str);

/// Index of the best variant of each screened mechanism; `None` if the mechanism gains too little.
type Screened = BTreeMap<Key, Option<usize>>;

/// A mechanism that was added to a model.
pub(super) struct Taken {
    offer: Offer,
    /// Numbers that the mechanism replaced, with their starts.
    replaced: Vec<(Free, f64)>,
}

/// A choice of mechanisms in progress.
pub(super) struct Choice {
    model: Model,
    taken: Vec<Taken>,
    screened: Screened,
    /// Minimum of the model's chi-squared, and the values of its numbers there.
    best: (f64, Vec<f64>),
    /// True if the cells need no further mechanism, or none gains enough.
    pub(super) is_complete: bool,
}

impl Session<'_> {
    /// Returns the values of the numbers with which `model` explains the cells that it affects, without further
    /// mechanisms; `None` if `model` does not explain these cells.
    pub(super) fn explanation(&self, model: &Model) -> Result<Option<Vec<f64>>, FittingError> {
        let best = self.minimum_of_affected(model, &self.search(20), 4)?;
        let free = best.cells.saturating_sub(model.numbers.len());
        Ok((best.chi2 < NUMBER_COST.max(EXPLAINED * free as f64)).then_some(best.values))
    }

    fn is_explained(&self, model: &Model, chi2: f64) -> bool {
        let free = self.cells.len().saturating_sub(model.numbers.len());
        chi2 < NUMBER_COST.max(EXPLAINED * free as f64)
    }

    /// Begins the choice of mechanisms from a model without mechanisms. A number in `held` enters the model
    /// if a cell depends on the number at the minimum, although no cell did at the start of the search.
    pub(super) fn begin_choice(
        &self,
        mut model: Model,
        held: &mut Vec<Held>,
    ) -> Result<Choice, FittingError> {
        let mut best = self.minimum(&model, &self.search(20), 4)?;
        let at_best = Model { starts: best.1.clone(), ..model.clone() };
        if !held.is_empty()
            && let Some(more) = self.with_shown(&at_best, held)?
        {
            best = self.minimum(&more, &self.search(20), 4)?;
            model = more;
        }
        Ok(Choice { model, taken: Vec::new(), screened: Screened::new(), best, is_complete: false })
    }

    /// Adds the mechanism with the largest gain, and removes mechanisms that it makes superfluous. If no
    /// addition gains, exchanges one mechanism for another. The choice is complete if the cells need no
    /// further mechanism, or if no exchange gains either.
    pub(super) fn extend(&self, choice: &mut Choice) -> Result<(), FittingError> {
        let Choice { model, taken, screened, best, is_complete } = choice;
        *is_complete = self.is_explained(model, best.0);
        if *is_complete {
            return Ok(());
        }
        model.starts.clone_from(&best.1);
        let mut addition = self.best_addition(model, best.0, screened, FOLLOWED)?;
        if addition.is_none() && !taken.is_empty() {
            // Mechanisms were added to the model since the first screening, so another variant may be the
            // best now.
            screened.clear();
            addition = self.best_addition(model, best.0, screened, FOLLOWED_IN_EXCHANGE)?;
        }
        let (mechanism, found, chi2) = match addition {
            Some(addition) => addition,
            None => match self.best_exchange(model, best.0, taken)? {
                Some((out, mechanism, found, chi2)) => {
                    taken.remove(out);
                    (mechanism, found, chi2)
                }
                None => {
                    *is_complete = true;
                    return Ok(());
                }
            },
        };
        *best = (chi2, found.starts.clone());
        taken.push(mechanism);
        // A mechanism that gained too little may gain more together with the new one.
        screened.retain(|_, best| best.is_some());
        *model = found;
        self.drop_superfluous(model, taken, best)
    }

    /// Returns the score of a choice: chi-squared plus the penalty.
    pub(super) fn score(&self, choice: &Choice) -> f64 {
        choice.best.0 + penalty(choice.model.numbers.len(), self.cells.len())
    }

    /// Returns true if the model of a choice explains the cells.
    pub(super) fn explains(&self, choice: &Choice) -> bool {
        self.is_explained(&choice.model, choice.best.0)
    }

    /// Returns the model of a choice with its best values as the starts.
    pub(super) fn best_model(&self, choice: &Choice) -> Model {
        Model { starts: choice.best.1.clone(), ..choice.model.clone() }
    }

    /// Ends a choice. Returns its model and the mechanisms that were added.
    pub(super) fn end_choice(&self, choice: Choice) -> (Model, Vec<Taken>) {
        (self.best_model(&choice), choice.taken)
    }

    /// Removes a mechanism that the cells do not need after all: no cell limits any of its numbers from both
    /// sides, and a full search finds a model without the mechanism that is at least as good. Such a
    /// mechanism may have entered while another number had a wrong value, which a short search does not
    /// correct. Returns the model without the mechanism; `None` if all mechanisms are needed. `estimate` is
    /// the estimate of `model`.
    pub(super) fn drop_unlimited(
        &self,
        model: &Model,
        taken: &mut Vec<Taken>,
        estimate: &Estimate,
    ) -> Result<Option<Model>, FittingError> {
        let is_limited = |offer: &Offer| {
            offer.mechanism.numbers.iter().any(|path| {
                let row = Row::at(path).expect("a test checks the paths");
                let name = self.name(&Free { card: Some(offer.card), row });
                estimate.numbers.iter().any(|number| {
                    number.name == name && matches!(number.determined, Determined::Yes | Determined::Loosely)
                })
            })
        };
        for n in (0..taken.len()).rev() {
            if is_required(taken, n) || is_limited(&taken[n].offer) {
                continue;
            }
            let mut less = self.without(model, &taken[n]);
            // A device without the mechanism may be impossible.
            let Ok((chi2, values)) = self.minimum(&less, &self.search(20), 4) else { continue };
            if self.gain(&less, chi2, model, estimate.chi2) <= 0.0 {
                taken.remove(n);
                less.starts = values;
                return Ok(Some(less));
            }
        }
        Ok(None)
    }

    /// Returns models with one other mechanism that explain the cells as well as `model`. The other mechanism
    /// replaces one of those in `taken`, or is added to them. The card may have a mechanism that gains too
    /// little for the choice to add it. `estimate` is the estimate of `model`.
    pub(super) fn other_mechanisms<'b>(
        &self,
        model: &Model,
        taken: &[Taken],
        estimate: &Estimate,
    ) -> Result<Vec<Other<'b>>, FittingError> {
        let mut found = Vec::new();
        for n in (0..taken.len()).filter(|n| !is_required(taken, *n)) {
            let without = Some(taken[n].offer.mechanism.name);
            found.extend(
                self.exchanged(model, &taken[n])?.map(|(with, more, chi2)| (without, with, more, chi2)),
            );
        }
        // The function `other_sizes` compares other values of the sizes that the base profile has.
        let is_known = |offer: &Offer| {
            let is_power = |path: &&str| Row::at(path).is_some_and(|row| row.grid == Grid::PowersOfTwo);
            let exists = |path: &&str| self.value_in(model, offer.card, path).is_some();
            let numbers = offer.mechanism.numbers;
            !numbers.is_empty() && numbers.iter().all(|path| is_power(path) && exists(path))
        };
        let offers = self.offers(model);
        let known = offers.iter().filter(|offer| is_known(offer)).map(|offer| (offer.key(), None));
        for (chi2, with, more) in self.screen(model, estimate.chi2, &mut known.collect())? {
            found.push((None, with, more, chi2));
        }
        // A mechanism whose numbers are all counts needs no search of these numbers: each start may be the
        // truth.
        let has_own: Vec<Key> = found.iter().map(|(_, with, ..)| with.offer.key()).collect();
        let counts = |offer: &&Offer| {
            let numbers = offer.mechanism.numbers;
            !numbers.is_empty() && numbers.iter().all(is_count)
        };
        for offer in offers.iter().filter(counts).filter(|offer| !has_own.contains(&offer.key())) {
            for variant in &offer.variants {
                let more = self.with_counts(model, offer, variant);
                let Ok((chi2, values)) = self.minimum(&more, &self.search(20), 1) else { continue };
                let with = Taken { offer: offer.clone(), replaced: Vec::new() };
                found.push((None, with, Model { starts: values, ..more }, chi2));
            }
        }
        let permitted = found.into_iter().filter(|(.., chi2)| estimate.permits(*chi2));
        let other = |(without, with, model, _): (Option<&'static str>, Taken, Model, f64)| Other {
            change: Change::Mechanism { without, with: with.offer.mechanism.name },
            session: None,
            model,
        };
        Ok(permitted.map(other).collect())
    }

    /// Exchanges a mechanism of `model` for the best other mechanism. Returns the new mechanism, the new
    /// model and its chi-squared.
    fn exchanged(&self, model: &Model, taken: &Taken) -> Result<Option<(Taken, Model, f64)>, FittingError> {
        let mut less = self.without(model, taken);
        // A device without the mechanism may be impossible.
        let Ok((found, values)) = self.minimum(&less, &self.search(4), 1) else { return Ok(None) };
        less.starts = values;
        // The mechanism that leaves must not enter again.
        let mut known = Screened::from([(taken.offer.key(), None)]);
        self.best_addition(&less, found, &mut known, FOLLOWED_IN_EXCHANGE)
    }

    /// Returns the mechanism with the largest gain over `chi2`, and the model with it.
    fn best_addition(
        &self,
        model: &Model,
        chi2: f64,
        known: &mut Screened,
        followed: usize,
    ) -> Result<Option<(Taken, Model, f64)>, FittingError> {
        let mut screened = self.screen(model, chi2, known)?;
        screened.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        screened.truncate(followed);
        let mut best: Option<(f64, Taken, Model, f64)> = None;
        for (_, taken, more) in screened {
            let (found, values) = self.minimum(&more, &self.search(FOLLOWED_ITERATIONS), 1)?;
            let gain = self.gain(model, chi2, &more, found);
            if gain > 0.0 && best.as_ref().is_none_or(|(most, ..)| gain > *most) {
                best = Some((gain, taken, Model { starts: values, ..more }, found));
            }
        }
        Ok(best.map(|(_, taken, model, chi2)| (taken, model, chi2)))
    }

    /// Returns the exchange that gains most over the model with the mechanisms `taken` and with `chi2`: the
    /// index of the mechanism that leaves, the mechanism that enters, the new model and its chi-squared.
    fn best_exchange(
        &self,
        model: &Model,
        chi2: f64,
        taken: &[Taken],
    ) -> Result<Option<(usize, Taken, Model, f64)>, FittingError> {
        let mut best: Option<(f64, (usize, Taken, Model, f64))> = None;
        for n in (0..taken.len()).filter(|n| !is_required(taken, *n)) {
            let Some((other, more, found)) = self.exchanged(model, &taken[n])? else { continue };
            let gain = self.gain(model, chi2, &more, found);
            if gain > EXCHANGE_GAIN_MIN && best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, (n, other, more, found)));
            }
        }
        Ok(best.map(|(_, exchange)| exchange))
    }

    /// Runs a short search from each variant of each mechanism. Returns the mechanisms whose chi-squared stays below
    /// [`PROMISING`] times that of the model, each with the chi-squared and the model of its best variant. `known` holds
    /// the best variants of earlier calls; of a known mechanism, only the best variant, if any, is searched.
    fn screen(
        &self,
        model: &Model,
        chi2: f64,
        known: &mut Screened,
    ) -> Result<Vec<(f64, Taken, Model)>, FittingError> {
        let slopes = self.slopes(model)?;
        let mut screened = Vec::new();
        for offer in self.offers(model) {
            let mut lowest: Option<(f64, usize, Model)> = None;
            for (n, variant) in offer.variants.iter().enumerate() {
                if known.get(&offer.key()).is_some_and(|best| *best != Some(n)) {
                    continue;
                }
                let more = self.with(model, &offer, variant).0;
                let is_larger = more.numbers.len() > model.numbers.len();
                if is_larger && more.numbers.len() >= self.cells.len() {
                    continue;
                }
                // The simulator rejects combinations of numbers that no card can have.
                let Ok(found) = self.screened(&more, &slopes) else { continue };
                if lowest.as_ref().is_none_or(|(least, ..)| found.0 < *least) {
                    lowest = Some((found.0, n, Model { starts: found.1, ..more }));
                }
            }
            let best = lowest.as_ref().filter(|(found, ..)| chi2 - found > GAINED).map(|(_, n, _)| *n);
            known.insert(offer.key(), best);
            if let Some((found, n, more)) = lowest.filter(|(found, ..)| *found < PROMISING * chi2) {
                let replaced = self.with(model, &offer, &offer.variants[n]).1;
                screened.push((found, Taken { offer, replaced }, more));
            }
        }
        Ok(screened)
    }

    /// Removes the earlier mechanisms without which the model is better, in the order of their addition.
    fn drop_superfluous(
        &self,
        model: &mut Model,
        taken: &mut Vec<Taken>,
        best: &mut (f64, Vec<f64>),
    ) -> Result<(), FittingError> {
        let mut n = 0;
        while n + 1 < taken.len() {
            let less = self.without(model, &taken[n]);
            if !is_required(taken, n) {
                // A device without the mechanism may be impossible.
                let found = self.minimum(&less, &self.search(4), 1).ok();
                if let Some(found) = found.filter(|found| self.gain(&less, found.0, model, best.0) <= 0.0) {
                    *model = less;
                    *best = found;
                    taken.remove(n);
                    continue;
                }
            }
            n += 1;
        }
        Ok(())
    }

    /// Returns the gain of the model `larger`, with its `chi2`, over the model `smaller`.
    fn gain(&self, smaller: &Model, chi2_smaller: f64, larger: &Model, chi2: f64) -> f64 {
        let penalty = |model: &Model| penalty(model.numbers.len(), self.cells.len());
        (chi2_smaller + penalty(smaller)) - (chi2 + penalty(larger))
    }

    /// Returns the settings of a search from one start. With `iterations_max` = 0, the search only evaluates
    /// the start.
    pub(super) fn search(&self, iterations_max: usize) -> Settings {
        Settings { starts: 1, followed: 1, iterations_max, ..self.settings.search.clone() }
    }

    /// Returns the mechanisms that `model` lacks, with the starts that the cells of each card suggest.
    fn offers(&self, model: &Model) -> Vec<Offer> {
        let mut offers = Vec::new();
        for card in 0..self.labels.len() {
            let modes = self.modes(card);
            let facts = Facts {
                cells: &self.accesses[card],
                modes: &modes,
                has_queue: self.has_queue(card),
                has_access_time: self.access_time(model, card).is_some_and(|(_, time)| time > 0.0),
                page: self.value_in(model, card, "flash.page").unwrap_or(8192.0),
            };
            for mechanism in MECHANISMS {
                let is_in = |path: &&str| model.has(card, path);
                let exists = |path: &&str| self.value_in(model, card, path).is_some();
                let chosen = &self.settings.numbers;
                let is_chosen = |path: &&str| chosen.is_empty() || chosen.iter().any(|name| name == path);
                if mechanism.numbers.iter().any(is_in)
                    || !mechanism.requires.iter().all(exists)
                    || !mechanism.numbers.iter().all(is_chosen)
                {
                    continue;
                }
                let mut variants = (mechanism.variants)(&facts);
                // If the card already has these numbers, the first start has their present values. A search
                // does not change powers of two, so a start with the present powers of two would lead
                // nowhere.
                let present: Option<Vec<f64>> =
                    mechanism.numbers.iter().map(|path| self.value_in(model, card, path)).collect();
                let is_power = |path: &&str| Row::at(path).is_some_and(|row| row.grid == Grid::PowersOfTwo);
                let moves = mechanism.replaces.is_empty() && !mechanism.numbers.iter().all(is_power);
                if let Some(present) = present.filter(|_| moves) {
                    variants.insert(0, starts(&present));
                }
                if !variants.is_empty() {
                    offers.push(Offer { mechanism, card, variants });
                }
            }
        }
        offers
    }

    /// Returns `model` with a mechanism, and the numbers that the mechanism replaced.
    fn with(&self, model: &Model, offer: &Offer, variant: &Variant) -> (Model, Vec<(Free, f64)>) {
        let mut more = Model { fixed: model.fixed.clone(), ..Model::default() };
        let mut replaced = Vec::new();
        for (number, start) in model.numbers.iter().zip(&model.starts) {
            let is_of_card = number.card == Some(offer.card);
            if is_of_card && offer.mechanism.replaces.contains(&number.row.path) {
                replaced.push((*number, *start));
                continue;
            }
            more.numbers.push(*number);
            more.starts.push(*start);
        }
        more.fixed.extend(variant.fixed.iter().map(|setting| (offer.card, setting.clone())));
        for (path, start) in offer.mechanism.numbers.iter().zip(&variant.starts) {
            let row = Row::at(path).expect("a test checks the paths");
            more.numbers.push(Free { card: Some(offer.card), row });
            more.starts.push(*start);
        }
        self.keep_rate(&mut more, offer.card, self.program(model, offer.card));
        let (numbers, mut values) = (more.numbers.clone(), std::mem::take(&mut more.starts));
        for (number, start) in numbers.iter().zip(&mut values) {
            let (low, high) = self.bounds(&more, number);
            *start = start.clamp(low, high);
        }
        more.starts = values;
        (more, replaced)
    }

    /// Returns `model` with a mechanism whose numbers keep the values of `variant`.
    fn with_counts(&self, model: &Model, offer: &Offer, variant: &Variant) -> Model {
        let (mut more, _) = self.with(model, offer, variant);
        while let Some(place) = more.numbers.iter().position(|number| offer.has(number)) {
            let row = more.numbers.remove(place).row;
            let value = more.starts.remove(place);
            more = self.with_fixed(&more, offer.card, row, value);
        }
        more
    }

    /// Returns `model` without one of its added mechanisms.
    fn without(&self, model: &Model, taken: &Taken) -> Model {
        let Taken { offer, replaced } = taken;
        let mut less = Model::default();
        for (number, start) in model.numbers.iter().zip(&model.starts).filter(|(n, _)| !offer.has(n)) {
            less.numbers.push(*number);
            less.starts.push(*start);
        }
        for (number, start) in replaced {
            less.numbers.push(*number);
            less.starts.push(*start);
        }
        let its: Vec<&str> =
            offer.variants.iter().flat_map(|variant| variant.fixed.iter().map(|(path, _)| *path)).collect();
        let fixed = model.fixed.iter().filter(|(card, (path, _))| *card != offer.card || !its.contains(path));
        less.fixed = fixed.cloned().collect();
        self.keep_rate(&mut less, offer.card, self.program(model, offer.card));
        less
    }

    /// Returns the numbers of mechanisms that neither `model` nor the base profile has, and the access times
    /// that the cells show only as a part of a sum.
    pub(super) fn not_taken(&self, model: &Model) -> Vec<Held> {
        let offers = self.offers(model);
        let mut held: Vec<Held> = Vec::new();
        for offer in offers {
            for path in offer.mechanism.numbers {
                let row = Row::at(path).expect("a test checks the paths");
                let name = self.name(&Free { card: Some(offer.card), row });
                let is_absent = self.value_in(model, offer.card, path).is_none();
                if is_absent && held.iter().all(|known| known.name != name) {
                    let reason = "the cells do not need it".to_owned();
                    held.push(Held { name, value: "none".to_owned(), reason });
                }
            }
        }
        held.extend((0..self.labels.len()).filter_map(|card| {
            let (row, time) = self.access_time(model, card).filter(|(_, time)| *time > 0.0)?;
            let reason =
                "the cells show only its sum with flash.t_read; measure in another bus mode".to_owned();
            Some(Held { name: self.name(&Free { card: Some(card), row }), value: row.print(time), reason })
        }));
        held
    }

    /// Returns the access time of a card in the bus mode of its measurements. Returns `None` if there are
    /// several modes, or if the access time is a number of the model.
    fn access_time(&self, model: &Model, card: usize) -> Option<(&'static Row, f64)> {
        let [mode] = self.modes(card)[..] else { return None };
        let path = access_time(mode)?;
        let time = self.value_in(model, card, path)?;
        Some((Row::at(path)?, time)).filter(|_| !model.has(card, path))
    }

    /// Returns the bus modes in which a card was measured, slowest first.
    fn modes(&self, card: usize) -> Vec<Mode> {
        let mut modes: Vec<Mode> = self.machines(card).map(|(mode, _)| mode).collect();
        modes.sort_by_key(|mode| {
            let bus = mode.bus();
            let edges = if bus.ddr { 2 } else { 1 };
            (bus.clock_hz * edges * u64::from(bus.width), Reverse(mode.index()))
        });
        modes.dedup();
        modes
    }

    /// Returns true if a host of a card has a command queue.
    fn has_queue(&self, card: usize) -> bool {
        self.machines(card).any(|(_, has_queue)| has_queue)
    }
}

/// Returns true if another mechanism of the same card requires a number of the mechanism `n`.
fn is_required(taken: &[Taken], n: usize) -> bool {
    let Offer { mechanism, card, .. } = &taken[n].offer;
    taken
        .iter()
        .filter(|other| other.offer.card == *card)
        .any(|other| other.offer.mechanism.requires.iter().any(|path| mechanism.numbers.contains(path)))
}

/// Returns the penalty of a model.
fn penalty(numbers: usize, cells: usize) -> f64 {
    let (k, n) = (numbers as f64, cells as f64);
    NUMBER_COST * k + 2.0 * k * (k + 1.0) / (n - k - 1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_degrees_of_freedom_cost_more() {
        let step = |numbers, cells| penalty(numbers + 1, cells) - penalty(numbers, cells);
        assert!(step(6, 8) > 30.0 && step(6, 24) < 11.0);
        assert!((step(2, 1_000_000) - NUMBER_COST).abs() < 1e-3);
    }
}
