//! A closed loop that checks the fit: virtual cards with known numbers are measured with noise and fitted,
//! and the estimates are compared with the truth.

use super::forward::{ReadyStep, Rig, Setting, predict, run_history};
use super::table::Row;
use super::{CardFit, FitSettings, FittingError, Input, TYPICAL, fit, with_typical};
use crate::progress::Progress;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::Direction;
use flashlab_fit::estimate::{DETERMINED_SHARE, Determined};
use flashlab_fit::observation::{Measurements, Observation, Quantity, State, Step, Target};
use flashlab_fit::plan::{Area, Plan, PlannedStep, Scale};
use flashlab_sim::Rng;

/// Standard deviation of the noise, as a share of the value.
const NOISE: f64 = 0.02;

/// The result of the closed loop for one card.
#[derive(Clone, Debug)]
pub struct CheckedCard {
    /// The fit.
    pub fit: CardFit,
    /// True value of each estimated number.
    pub truths: Vec<f64>,
    /// Names and errors of jobs that the fit did not see, as shares of the truth.
    pub predictions: Vec<(String, f64)>,
    /// Optional numbers that the card has.
    pub drawn: Vec<&'static str>,
}

impl CheckedCard {
    /// Returns the optional numbers that the fit estimates.
    pub fn found(&self) -> impl Iterator<Item = &str> {
        let names = self.fit.estimate.numbers.iter().map(|number| number.name.as_str());
        names.filter(|name| Row::at(name).is_some_and(|row| row.optional))
    }
}

/// The results of the closed loop for several cards.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The cards.
    pub cards: Vec<CheckedCard>,
}

impl Checked {
    /// Returns two counts: the estimates whose interval contains the truth, and all estimates with an interval.
    pub fn covered(&self) -> (usize, usize) {
        let estimates = || self.estimates().filter(|(e, _)| e.determined != Determined::No);
        let inside = estimates().filter(|(e, truth)| e.low <= *truth && *truth <= e.high).count();
        (inside, estimates().count())
    }

    fn estimates(&self) -> impl Iterator<Item = (&flashlab_fit::estimate::NumberEstimate, f64)> {
        self.cards.iter().flat_map(|card| card.fit.estimate.numbers.iter().zip(card.truths.iter().copied()))
    }

    /// Returns three counts of optional numbers: those that the cards have and the fits estimate, all that the cards
    /// have, and those that the fits estimate although the cards lack them.
    pub fn mechanisms(&self) -> [usize; 3] {
        let has = |card: &&CheckedCard, name: &str| card.drawn.contains(&name);
        let count = |right: bool| {
            let found = |card| CheckedCard::found(card).filter(|name| has(&card, name) == right).count();
            self.cards.iter().map(found).sum()
        };
        [count(true), self.cards.iter().map(|card| card.drawn.len()).sum(), count(false)]
    }

    /// Returns the absolute errors of the numbers that are determined within [`DETERMINED_SHARE`], as shares
    /// of the truth in ascending order.
    pub fn determined_errors(&self) -> Vec<f64> {
        let determined = self.estimates().filter(|(e, _)| {
            e.determined == Determined::Yes && 0.5 * (e.high - e.low) <= DETERMINED_SHARE * e.value
        });
        sorted(determined.map(|(e, truth)| (e.value / truth - 1.0).abs()).collect())
    }

    /// Returns the absolute errors of the predicted jobs as shares of the truth, in ascending order.
    pub fn prediction_errors(&self) -> Vec<f64> {
        sorted(
            self.cards
                .iter()
                .flat_map(|card| card.predictions.iter().map(|(_, error)| error.abs()))
                .collect(),
        )
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the value below which the given share of the ascending values lies.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0.0)
}

/// Draws card `number` of `seed`, measures it with noise, fits it, and predicts other jobs.
pub fn check_card(seed: u64, number: u64, library: &Library) -> Result<CheckedCard, FittingError> {
    let library = with_typical(library);
    let mut rng = Rng::for_purpose(seed, number);
    let truth = draw(&mut rng);
    let run = |steps: &[Step]| run(steps, &truth, seed.wrapping_add(number), &library);
    let mut steps = plan();
    let values = run(&steps)?;
    for (step, value) in steps.iter_mut().filter(|step| !step.observations.is_empty()).zip(values) {
        let noisy = value * (NOISE * rng.normal()).exp();
        let observation = &mut step.observations[0];
        (observation.value, observation.sd) = (noisy, Some(NOISE * noisy));
    }
    let measurements = Measurements {
        target: Target { name: "virtual".into(), capacity_bytes: Some(CAPACITY), ..Target::default() },
        host: Some("raspberry-pi-4".into()),
        engine: "simulated".into(),
        plan: Some("standard".into()),
        steps,
    };
    let input = Input { label: format!("card-{number}"), measurements };
    let mut settings = FitSettings::default();
    settings.search.seed = seed;
    let fit = fit(&[input], &settings, &library, &Progress::default())?;
    let truth_of = |path: &str| {
        let text = &truth.iter().rfind(|(known, _)| *known == path)?.1;
        Some(Row::at(path)?.parse(text).expect("it was printed"))
    };
    let typical =
        Rig { device: TYPICAL.into(), settings: Vec::new(), steps: Vec::new() }.open(&[], &library)?;
    let truths = fit.estimate.numbers.iter().map(|estimate| {
        truth_of(&estimate.name).or_else(|| super::value_of(&typical, &estimate.name)).unwrap_or(f64::NAN)
    });
    let truths = truths.collect();
    let others = other_jobs();
    let expected = run(&others)?;
    let found = fit.predict(0, &others, seed, &library)?;
    let predictions = others
        .iter()
        .filter(|step| !step.observations.is_empty())
        .zip(expected.iter().zip(found))
        .map(|(step, (truth, value))| (step.name.clone(), value / truth - 1.0));
    let drawn =
        truth.iter().map(|(path, _)| *path).filter(|path| Row::at(path).is_some_and(|row| row.optional));
    let drawn = drawn.collect();
    Ok(CheckedCard { predictions: predictions.collect(), fit, truths, drawn })
}

/// Capacity of the virtual cards.
const CAPACITY: u64 = 16_000_000_000 / MIB * MIB;
const MIB: u64 = 1 << 20;

/// Draws the numbers of a card, each uniformly on a logarithmic scale over the range of published cards. A later number
/// replaces an earlier one with the same path.
fn draw(rng: &mut Rng) -> Vec<Setting> {
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.unit());
    let time = |ns: f64| format!("{}ns", ns as u64);
    let (t_read, t_prog) = (between(120e3, 900e3), between(200e3, 900e3));
    let (t_commit, rate) = (between(150e3, 5e6), between(25.0, 150.0));
    let (unit, cache) = (between(1.0, 24.0).round(), between(256.0, 2048.0));
    // On average, every second card has a busy time for each write command.
    let t_write = between(200e3, 2.5e6);
    let has_t_write = between(1.0, 4.0) > 2.0;
    let mut numbers = vec![
        ("flash.t_read", time(t_read)),
        ("flash.t_prog", time(t_prog)),
        ("ftl.t_commit", time(t_commit)),
        ("flash.read_rate", format!("{}KiB/s", (rate * 1024.0) as u64)),
        ("ftl.rewrite_unit", format!("{}KiB", 128 * unit as u64)),
        ("ftl.map_cache", format!("{}KiB", cache as u64 / 4 * 4)),
    ];
    if has_t_write {
        numbers.push(("ftl.t_write", time(t_write)));
    }
    numbers.extend(draw_mechanism(rng));
    numbers
}

/// Draws a further mechanism, which six of eight cards have on average.
fn draw_mechanism(rng: &mut Rng) -> Vec<Setting> {
    let kind = rng.below(8);
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.unit());
    let time = |ns: f64| format!("{}ns", ns as u64);
    let power = |kib: f64| format!("{}KiB", kib.log2().round().exp2());
    match kind {
        0 => vec![("card.read_ahead", power(between(16.0, 256.0)))],
        1 => vec![("flash.stripe", power(between(32.0, 128.0)))],
        2 => vec![
            ("ftl.small_max", power(between(4.0, 32.0))),
            ("flash.t_prog_small", time(between(150e3, 900e3))),
        ],
        3 => {
            let page = if between(1.0, 4.0) > 2.0 { "4KiB" } else { "16KiB" };
            vec![("flash.page", page.to_owned()), ("ftl.program_unit", page.to_owned())]
        }
        4 => vec![
            ("ftl.t_copy", time(between(100e6, 400e6))),
            ("ftl.open_units", format!("{}", between(2.0, 6.0).round())),
            ("flash.erase_block", "4MiB".to_owned()),
            ("ftl.map_unit", "4MiB".to_owned()),
            ("ftl.rewrite_unit", "4MiB".to_owned()),
            ("ftl.overwrite", "log".to_owned()),
        ],
        5 => vec![("card.write_buffer", power(between(64.0, 512.0)))],
        _ => Vec::new(),
    }
}

/// Runs steps on the card with these numbers, and returns the observed values.
fn run(steps: &[Step], numbers: &[Setting], seed: u64, library: &Library) -> Result<Vec<f64>, FittingError> {
    let settings = vec![("card.capacity", format!("{CAPACITY}B"))];
    let rig = Rig { device: TYPICAL.into(), settings, steps: ReadyStep::all(steps, library)? };
    let mut predicted = predict(&[rig], &[vec![numbers.to_vec()]], seed, library);
    let cells = predicted.pop().expect("one point")?;
    Ok(cells.into_iter().map(|cell| cell.value).collect())
}

fn step(name: &str, direction: Direction, before: State, options: &str) -> Step {
    let mut job: Vec<String> = vec![format!("--name={name}"), "--direct=1".into()];
    job.extend(options.split(' ').map(str::to_owned));
    let observation = Observation::new(direction, Quantity::BytesPerSecond, 1.0);
    Step { name: name.to_owned(), job, before, observations: vec![observation], ..Step::default() }
}

/// Returns the steps of the standard plan. Each step that measures has one observation, whose value is a placeholder.
fn plan() -> Vec<Step> {
    let area = Area { capacity: CAPACITY, block: 512, is_writable: true, discards: true };
    let plan = Plan::new(Scale::Standard, &area).expect("the card is large enough");
    let step = |planned: PlannedStep| {
        let direction = if planned.reads > 0 { Direction::Read } else { Direction::Write };
        let observation = Observation::new(direction, Quantity::BytesPerSecond, 1.0);
        Step {
            name: planned.name,
            job: planned.job,
            before: planned.before,
            rest: planned.rest,
            observations: if planned.only_prepares { Vec::new() } else { vec![observation] },
            ..Step::default()
        }
    };
    plan.steps.into_iter().map(step).collect()
}

/// Returns the jobs that the fit does not see.
fn other_jobs() -> Vec<Step> {
    use Direction::{Read, Write};
    use State::{Discarded, New, WrittenInSequence};
    vec![
        step("write-64k", Write, New, "--rw=write --bs=64k --size=256m"),
        step("randread-16k", Read, WrittenInSequence, "--rw=randread --bs=16k --size=1g --number_ios=1000"),
        step("randread-4k-2g", Read, WrittenInSequence, "--rw=randread --bs=4k --size=2g --number_ios=2000"),
        step("overwrite-16k", Write, WrittenInSequence, "--rw=randwrite --bs=16k --size=1g --number_ios=200"),
        step(
            "randwrite-8k-discarded",
            Write,
            Discarded,
            "--rw=randwrite --bs=8k --size=256m --number_ios=1000",
        ),
        step("read-256k", Read, WrittenInSequence, "--rw=read --bs=256k --size=256m"),
    ]
}

impl CardFit {
    /// Predicts the observations of further steps on a fitted card that starts as a new device.
    pub fn predict(
        &self,
        card: usize,
        steps: &[Step],
        seed: u64,
        library: &Library,
    ) -> Result<Vec<f64>, FittingError> {
        let cells = run_history(&self.devices[card], &ReadyStep::all(steps, library)?, seed)?;
        Ok(cells.into_iter().map(|cell| cell.value).collect())
    }
}
