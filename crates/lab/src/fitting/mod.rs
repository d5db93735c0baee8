//! Fits that derive a profile from the measurements of a card, with the simulator as the forward model.
//!
//! [`fit`] takes measurements and, optionally, base profiles and hosts. It estimates the numbers of the table
//! `TABLE` that the cells can determine. All other numbers stay as in the base profile, except those that a
//! mechanism of the fit sets. [`CardFit::profile`] writes the result as a profile whose fitted numbers name
//! their cells.
//!
//! Cells are rates and mean latencies. Percentiles and maxima are not fitted, because the model has no
//! numbers for the tails of latencies.

mod alternatives;
mod bases;
mod candidates;
pub mod check;
mod choice;
mod error;
mod forward;
mod history;
mod input;
mod mechanisms;
mod profile_text;
pub mod refit;
mod session;
mod table;

pub use alternatives::{Alternative, Change, Difference, Separation, Size};
pub use error::FittingError;
pub use input::{Input, measurements_of_experiment};

use crate::progress::Progress;
use alternatives::{Other, alternatives, other_sizes};
use choice::Taken;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Value;
use flashlab_fit::estimate::{Estimate, UNEXPLAINED};
use forward::Predicted;
use serde::Serialize;
use session::{Model, Session};
use table::TABLE;

/// Typical cards: names and profiles. A fit without a base profile starts from the first card that explains
/// the cells. If no card does, the fit starts from the card that explains the cells best with further
/// mechanisms.
///
/// The first card collects 256 KiB before it programs them, and has an area for small writes. If the cells
/// cannot tell the cards apart, this card predicts other hosts and other request sizes better.
pub const TYPICAL_CARDS: [(&str, &[u8]); 2] =
    [(BUFFERED, include_bytes!("typical-buffered.toml")), (TYPICAL, include_bytes!("typical.toml"))];

/// The typical card that programs page by page, and rewrites a unit for each small overwrite.
pub const TYPICAL: &str = "sd/typical";

/// The typical card with a write buffer and an area for small writes.
pub const BUFFERED: &str = "sd/typical-buffered";

/// Settings of a fit.
#[derive(Clone, Debug, Default)]
pub struct FitSettings {
    /// Profiles that may provide the numbers that are not fitted; if empty, the typical cards, the typical
    /// eMMC device, or the sticks of the library, depending on the host. The fit takes the first profile that
    /// explains the cells. If no profile does, the fit takes the profile that explains the cells best with
    /// further mechanisms.
    pub bases: Vec<String>,
    /// Hosts of the measurements: one for each, or one for all. If empty, the hosts that the measurements name.
    pub hosts: Vec<String>,
    /// True if all measurements are of one card, on several hosts.
    pub same_card: bool,
    /// True if the numbers of the host are fitted too.
    pub fit_host: bool,
    /// Paths of the numbers to fit; the search starts from their values in the base profile. If empty, the fit
    /// estimates all numbers that the cells determine.
    pub numbers: Vec<String>,
    /// Names of the steps whose results are cells of the fit; empty for all.
    pub steps: Vec<String>,
    /// True if each step runs as often as it was measured, on a device with the spread between erase blocks.
    pub exact: bool,
    /// Settings of the search.
    pub search: flashlab_fit::estimate::Settings,
}

/// The result of a fit.
#[derive(Clone, Debug, Serialize)]
pub struct CardFit {
    /// Base profile.
    pub base: String,
    /// Host of the measurements; the first one if they have several.
    pub host: String,
    /// Host of each of the measurements.
    pub hosts: Vec<String>,
    /// Labels of the cards.
    pub cards: Vec<String>,
    /// Estimates, residuals and advice.
    pub estimate: Estimate,
    /// Numbers that keep the value of the base profile, with the reason.
    pub held: Vec<Held>,
    /// Other models that explain the cells too. The intervals include the values of these models.
    pub alternatives: Vec<Alternative>,
    /// Measurements that distinguish the fitted model from the alternatives, the most useful one first.
    pub separations: Vec<Separation>,
    /// Nanoseconds that the mean request of each cell spends in each mechanism.
    pub mechanisms_ns: Vec<Vec<(&'static str, f64)>>,
    /// Remarks on the cells: what is not modelled and what was left out.
    pub notes: Vec<String>,
    /// The fitted devices.
    #[serde(skip)]
    devices: Vec<Device>,
    /// Numbers of each card that a mechanism sets without an estimate.
    #[serde(skip)]
    companions: Vec<Vec<Companion>>,
    /// For each card, the text of the base profile if that is the card's own profile, in which a fit changes only the
    /// fitted numbers.
    #[serde(skip)]
    own_texts: Vec<Option<String>>,
    /// True if cells are published figures of an experiment.
    #[serde(skip)]
    is_of_experiment: bool,
}

/// A number that was not fitted.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// Name of the number: its path, with the card or the profiles if there are several.
    pub name: String,
    /// Value that the number keeps; `none` for a mechanism that the profile lacks.
    pub value: String,
    /// The reason.
    pub reason: String,
}

/// Adds the typical cards to a library.
pub fn with_typical(library: &Library) -> Library {
    let mut library = library.clone();
    for (name, profile) in TYPICAL_CARDS {
        library.add_device(name, profile).expect("the tests parse the profiles");
    }
    library
}

/// Fits the measurements of one or several cards on one host, or of one card on several hosts.
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
    let hosts = input::hosts_of(inputs, settings)?;
    let bases = bases::bases(inputs, settings, &hosts[0], &library)?;
    let stick = bases::of_stick(&hosts[0], &library).filter(|_| settings.bases.is_empty());
    let settings = &FitSettings { bases, ..settings.clone() };
    input::check_hosts(&hosts, settings, &library)?;
    let Draft { base, session, mut model, mut taken, mut held, mut notes, mut others } =
        draft(inputs, settings, &hosts, &library, progress)?;
    notes.extend(stick);
    notes.extend(input::doubts(inputs, &hosts, settings));
    progress.enter(match model.numbers.len() {
        1 => "interval of one number, and predictions of left-out cells".to_owned(),
        numbers => format!("intervals of {numbers} numbers, and predictions of left-out cells"),
    });
    let mut estimate = session.estimate(&model)?;
    while let Some(less) = session.drop_unlimited(&estimated(&model, &estimate), &mut taken, &estimate)? {
        model = less;
        estimate = session.estimate(&model)?;
    }
    held.extend(session.not_taken(&model));
    let values: Vec<f64> = estimate.numbers.iter().map(|number| number.value).collect();
    let fitted = estimated(&model, &estimate);
    if estimate.inflation < UNEXPLAINED {
        progress.enter("other models that explain the cells");
        others.extend(session.other_mechanisms(&fitted, &taken, &estimate)?);
        others.extend(other_sizes(&session, base, &fitted, &estimate, inputs));
    }
    progress.enter("measurements that would help");
    session.name_candidates(&fitted, &mut held)?;
    // A stopped search has missed points, so its intervals would be too narrow.
    if progress.is_stopped() {
        return Err(FittingError::Stopped);
    }
    let (alternatives, separations) = alternatives(&session, &fitted, &others, &mut estimate)?;
    let point = session.point(&model, &values);
    let predicted = session.predict(std::slice::from_ref(&point)).pop().expect("one point")?;
    notes.extend(session.pauses(&predicted));
    Ok(CardFit {
        own_texts: session.first_inputs().map(|input| own_text(&inputs[input], base, &library)).collect(),
        base: base.to_owned(),
        host: hosts[0].clone(),
        hosts,
        cards: session.labels.clone(),
        estimate,
        held,
        alternatives,
        separations,
        mechanisms_ns: predicted.into_iter().map(|cell: Predicted| cell.mechanisms_ns).collect(),
        notes,
        devices: session.devices(&point)?,
        companions: session.companions(&model),
        is_of_experiment: inputs.iter().any(Input::is_of_experiment),
    })
}

/// Returns `model` with the values of its `estimate` as the starts.
fn estimated(model: &Model, estimate: &Estimate) -> Model {
    let values = estimate.numbers.iter().map(|number| number.value);
    Model { starts: values.collect(), ..model.clone() }
}

/// A base profile, and the model whose numbers a fit estimates.
struct Draft<'a> {
    base: &'a str,
    session: Session<'a>,
    model: Model,
    /// Mechanisms that were added to the model.
    taken: Vec<Taken>,
    /// Numbers that the cells cannot determine.
    held: Vec<Held>,
    notes: Vec<String>,
    /// Other base profiles that explain the cells, with their fitted models.
    others: Vec<Other<'a>>,
}

/// Chooses the base profile and the numbers to estimate. The first profile that explains the cells is the
/// base. If no profile does, the base is a profile that explains the cells with further mechanisms, or else
/// explains them best.
fn draft<'a>(
    inputs: &[Input],
    settings: &'a FitSettings,
    hosts: &[String],
    library: &'a Library,
    progress: &Progress,
) -> Result<Draft<'a>, FittingError> {
    let mut rivals = Vec::new();
    let mut others = Vec::new();
    let mut is_explained = false;
    for base in &settings.bases {
        progress.enter(format!("search from {base}"));
        let (session, notes) = Session::new(inputs, base, settings, hosts, library, progress)?;
        let (model, mut held) = session.determined()?;
        if model.numbers.is_empty() {
            continue;
        }
        let explanation = if settings.bases.len() > 1 { session.explanation(&model)? } else { None };
        if is_explained {
            let other = |starts| {
                let model = Model { starts, ..model };
                Other { change: Change::Base(base.to_owned()), session: Some(session), model }
            };
            others.extend(explanation.map(other));
            continue;
        }
        is_explained = explanation.is_some();
        if is_explained {
            rivals.clear();
        }
        let choice = session.begin_choice(model, &mut held)?;
        rivals.push(Rival { base, session, choice, held, notes });
    }
    for round in 1.. {
        progress.enter(format!("search for mechanism {round}"));
        for Rival { session, choice, .. } in rivals.iter_mut().filter(|rival| !rival.choice.is_complete) {
            session.extend(choice)?;
        }
        // Rivals that explain the cells come first; otherwise, lower scores come first.
        rivals.sort_by(|a, b| b.is_settled().cmp(&a.is_settled()).then(a.score().total_cmp(&b.score())));
        let Some(first) = rivals.first() else { return Err(FittingError::NothingToFit) };
        if first.is_settled() || rivals.iter().all(|rival| rival.choice.is_complete) {
            break;
        }
        let limit = BEATEN * first.score();
        rivals.retain(|rival| rival.score() <= limit);
    }
    let mut rivals = rivals.into_iter();
    let first = rivals.next().expect("a loop over no rivals ends with an error");
    others.extend(rivals.filter(Rival::is_settled).map(Rival::into_other));
    Ok(first.into_draft(others))
}

/// Ratio of a base profile's score to the best score, after the same number of mechanisms, above which the base profile
/// is dropped. For cards drawn at random, the ratio of a wrong base profile is 5 to 30 after the first mechanism.
const BEATEN: f64 = 3.0;

/// A base profile, with its choice of mechanisms.
struct Rival<'a> {
    base: &'a str,
    session: Session<'a>,
    choice: choice::Choice,
    held: Vec<Held>,
    notes: Vec<String>,
}

impl<'a> Rival<'a> {
    /// Returns true if the choice is complete and its model explains the cells.
    fn is_settled(&self) -> bool {
        self.choice.is_complete && self.session.explains(&self.choice)
    }

    fn score(&self) -> f64 {
        self.session.score(&self.choice)
    }

    fn into_other(self) -> Other<'a> {
        let model = self.session.best_model(&self.choice);
        Other { change: Change::Base(self.base.to_owned()), session: Some(self.session), model }
    }

    fn into_draft(self, others: Vec<Other<'a>>) -> Draft<'a> {
        let Rival { base, session, choice, held, notes } = self;
        let (model, taken) = session.end_choice(choice);
        Draft { base, session, model, taken, held, notes, others }
    }
}

/// A number that a mechanism sets without an estimate.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Companion {
    path: &'static str,
    /// Reason for the value, as the source of the profile's number.
    reason: String,
}

/// Returns the text of the base profile if it is the profile of the measured device.
fn own_text(input: &Input, base: &str, library: &Library) -> Option<String> {
    let profile = library.device(base).ok().filter(|_| input.is_refit(base));
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

/// Returns a quantity of a device in base units, or a count.
fn value_of(device: &Device, path: &str) -> Option<f64> {
    let number = device.sourced_numbers().iter().find(|n| n.number.parameter.path == path)?;
    match number.number.value {
        Value::Quantity(_, value) => Some(value as f64),
        Value::Count(count) => Some(f64::from(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::forward::{Access, ReadyStep, Rig};
    use super::*;
    use flashlab_fit::estimate::Settings;
    use flashlab_fit::observation::Step;

    /// Four figures that people publish of a card: hdparm in MiB/s, dd in MB/s, random reads and writes of iozone in
    /// kB/s.
    type Published = [f64; 4];

    /// Returns the output of the programs with these figures.
    fn lines([hdparm, dd, reads, writes]: Published) -> String {
        format!(
            " Timing buffered disk reads:  66 MB in  {:.4} seconds =  {hdparm} MB/sec\n\
             $ dd if=/dev/zero of=test bs=8k count=50k conv=fsync\n\
             419430400 bytes (419 MB, 400 MiB) copied, {:.4} s, {dd} MB/s\n\
             $ iozone -e -I -a -s 100M -r 4k -i 2\n              \
             kB  reclen    write  rewrite    read    reread    read     write\n          \
             102400       4                                      {reads}     {writes}\n",
            66.0 / hdparm,
            419.4304 / dd
        )
    }

    fn fitted(text: &str, host: &str) -> (CardFit, Vec<Step>) {
        let measurements = flashlab_fit::import::parse(text, "card").expect("a log");
        let steps = measurements.steps.clone();
        let search = Settings { profile_likelihood: false, leave_one_out: false, ..Settings::default() };
        let settings = FitSettings { hosts: vec![host.to_owned()], search, ..FitSettings::default() };
        let library = Library::built_in().expect("the built-in library is valid");
        let input = Input { label: "card".to_owned(), measurements };
        (fit(&[input], &settings, &library, &Progress::default()).expect("a fit"), steps)
    }

    /// Returns the values of the cells of `steps` on another host.
    fn on_host(card: &CardFit, host: &str, steps: &[Step]) -> Vec<f64> {
        let mut library = Library::built_in().expect("the built-in library is valid");
        let profile = card.profile(0, "A card").expect("a profile");
        library.add_device("sd/fitted", profile.as_bytes()).expect("a valid profile");
        let ready = |step: &Step| ReadyStep::of(step, step.observations.clone(), &library).expect("a job").0;
        let settings = vec![("host", host.to_owned())];
        let rig =
            Rig { device: "sd/fitted".into(), settings, steps: steps.iter().map(ready).collect::<Vec<_>>() };
        let found = forward::predict(&[rig], &[vec![Vec::new()]], 1, &library).pop().expect("one point");
        found.expect("the steps run").into_iter().map(|cell| cell.value).collect()
    }

    /// Cards of pidramble.com: a Samsung Evo, which the array limits, a SanDisk Extreme, and a SanDisk Ultra.
    /// The second four figures of each card are from a Raspberry Pi 4. Without `FLASHLAB_FULL`, the test fits
    /// the first card only.
    #[test]
    fn four_published_cells_of_one_host_predict_another() {
        let cards: [(&str, Published, Published); 3] = [
            ("raspberry-pi-2", [17.39, 10.4, 5360.0, 1050.0], [43.40, 12.1, 7090.0, 1240.0]),
            ("raspberry-pi-3", [22.08, 21.8, 9440.0, 2420.0], [43.95, 39.5, 9460.0, 2460.0]),
            ("raspberry-pi-2", [17.73, 7.3, 5340.0, 1520.0], [42.30, 8.2, 6570.0, 1520.0]),
        ];
        let full = std::env::var_os("FLASHLAB_FULL").is_some();
        for (host, published, [hdparm, dd, reads, writes]) in cards.into_iter().take(if full { 3 } else { 1 })
        {
            let (card, steps) = fitted(&lines(published), host);
            assert_eq!(card.base, BUFFERED, "{published:?}");
            let expected = [hdparm * 1048576.0, dd * 1e6, reads * 1024.0, writes * 1024.0];
            let found = on_host(&card, "raspberry-pi-4", &steps);
            for ((found, expected), step) in found.into_iter().zip(expected).zip(&steps) {
                let error = found / expected - 1.0;
                assert!(error.abs() < 0.13, "{published:?}, {}: {found} beside {expected}", step.name);
            }
        }
    }

    #[test]
    fn the_fit_of_a_card_that_rewrites_units_starts_from_such_a_typical_card() {
        let text = "job,value,sd\n\
                    rw=randread bs=4k size=64m,2212,3\nrw=write bs=1m size=64m,22.2,0.1\n\
                    rw=randwrite bs=4k size=64m,130,2\nrw=randwrite bs=64k size=64m,110,2\n";
        let (card, _) = fitted(text, "raspberry-pi-4");
        assert_eq!(card.base, TYPICAL, "{:?}", card.estimate);
        let is_card = |other: &Alternative| matches!(other.change, Change::Base(_));
        assert!(!card.alternatives.iter().any(is_card), "{:?}", card.alternatives);
        let held = card.held.iter().find(|held| held.name == "ftl.map_cache").expect("it is not fitted");
        assert_eq!(held.reason, "no cell depends on it; 4 KiB random reads over 14 GiB would show it");
    }

    #[test]
    fn cells_that_both_typical_cards_explain_give_an_alternative_card() {
        let text = "job,value,sd\n\
                    rw=randread bs=4k size=256m number_ios=4k,2882,3\nrw=write bs=1m size=256m,25.6,0.1\n\
                    rw=randwrite bs=4k size=256m number_ios=16k,146,2\n";
        let (card, _) = fitted(text, "raspberry-pi-4");
        assert_eq!(card.base, BUFFERED);
        let is_card = |other: &&Alternative| matches!(other.change, Change::Base(_));
        let others: Vec<&Alternative> = card.alternatives.iter().filter(is_card).collect();
        let [other] = others[..] else { panic!("one other card: {:?}", card.alternatives) };
        assert_eq!(other.change, Change::Base(TYPICAL.to_owned()));
        let difference = other.difference.as_ref().expect("a measurement tells them apart");
        let ratio = difference.latency_ns / difference.alternative_latency_ns;
        assert!(!(0.5..2.0).contains(&ratio), "{other:?}");
        // The write buffer hides the page, so that only the rate of the programs is known.
        let is_page =
            |other: &&Alternative| matches!(&other.change, Change::Size(size) if size.number == "flash.page");
        let page = card.alternatives.iter().find(is_page).expect("another page explains the cells too");
        assert_eq!(page.numbers, ["flash.t_prog"]);
        let t_prog = card.estimate.numbers.iter().find(|n| n.name == "flash.t_prog").expect("it is fitted");
        assert!(t_prog.low < 0.51 * t_prog.value && t_prog.high > 1.99 * t_prog.value, "{t_prog:?}");
        let profile = card.profile(0, "A card").expect("a profile");
        assert!(profile.contains("\"flash.page\" = { undetermined"), "{profile}");
    }

    #[test]
    fn typical_cards_have_closed_forms_for_the_numbers_that_cells_show() {
        let library = with_typical(&Library::built_in().expect("the built-in library is valid"));
        for (name, _) in TYPICAL_CARDS {
            let device = Device::open(name, &library).expect("a valid profile");
            let required = ["flash.t_read", "flash.t_prog", "flash.read_rate"];
            assert!(required.iter().all(|path| value_of(&device, path).is_some()), "{name}");
        }
        let none: &[Access] = &[];
        assert!(TABLE.iter().all(|row| (row.start)(none, 8192.0).is_none()), "no cells, no start");
    }
}
