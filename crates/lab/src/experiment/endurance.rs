//! Experiments of kind `endurance`: how long until the first erase block wears out under a workload that never ends.
//!
//! ```toml
//! kind = "endurance"
//! [columns]
//! kthn-16gb = "sd/kthn-16gb"
//! [endurance]
//! job = "--rw=randwrite --bs=4k ..."   # repeats without end
//! seeds = 16                           # media that are drawn
//! steady_percent = 1.0                 # see below
//! [[preparation]]                      # jobs that are run once, first
//! ```
//! [`Experiment::set_endurance`] puts a user's job, devices and number of seeds in place of the file's.
//!
//! A life of years is not simulated whole. The workload runs until its wear is steady; from there each block's rate of erases
//! is carried on to the limit that the seed gave to this block, and the first to arrive ends the life. Rates are taken over
//! the second half of the history. What a block's rate in one quarter of it says of its rate in the next (their correlation
//! over all blocks) is how far blocks differ for good: a block that only had its turn, as levelling gives it, is carried on at
//! the mean rate, one that is always written at its own. After each doubling of the history there is an estimate; wear is
//! steady once one differs from the one before by at most `steady_percent`, and static levelling moves data if it ever will. A device that fails before is simulated to its
//! failure. What fails without being worn (`endurance.program_fail`, `endurance.erase_fail`) counts if it happens in what is
//! simulated, and is not carried on.

use super::error::ExperimentError;
use super::measured::{Measured, MeasuredCell, figure_of, run_whole};
use super::side_by_side::side_by_side;
use super::{Experiment, Outcome, Watch};
use crate::bench::{Bench, BenchError};
use crate::device::Device;
use crate::library::Library;
use crate::results::{DeviceStatistics, Figure, Series, WearMap};
use crate::statistics::{Counters, Wear, statistics};
use flashlab_fio::iolog::Iolog;
use flashlab_fio::job::Job;
use flashlab_fio::stats::Settings;
use flashlab_sim::Instant;

/// Runs of the workload after which one that has erased nothing is taken to wear nothing.
const IDLE_RUNS: u64 = 64;
/// The most runs of the workload that are simulated.
const RUNS_MAX: u64 = 1 << 20;
/// Erases that the block which fails first must have seen in the time over which rates are taken.
const ERASES_LEAST: u32 = 4;
const NS_A_DAY: f64 = 86_400e9;

/// What a user puts in place of the experiment's own.
#[derive(Clone, Debug, Default)]
pub struct EnduranceSettings {
    /// The workload.
    pub workload: Option<EnduranceWorkload>,
    /// The devices, by the name of their column.
    pub devices: Option<Vec<(String, Device)>>,
    /// How many media are drawn.
    pub seeds: Option<u32>,
}

/// A workload that repeats without end.
#[derive(Clone, Debug)]
pub struct EnduranceWorkload {
    /// What it is called: the name of its file.
    pub name: String,
    /// Its bytes, for the hash of the inputs.
    pub bytes: Vec<u8>,
    /// Its jobs; they run together and again as they end.
    pub jobs: Vec<Job>,
    /// The traces that they name.
    pub iologs: Vec<(String, Iolog)>,
}

/// One medium of one device.
struct Place<'a> {
    column: &'a str,
    device: &'a Device,
    seed: u64,
}

/// How a life ended.
struct Life {
    /// When the first block wore out, in nanoseconds; `None`: never.
    first_failure_ns: Option<f64>,
    /// Whether its wear was steady, or it ended, before there was no patience left.
    steady: bool,
    /// Bytes written a nanosecond, in the mean.
    written_rate: f64,
    amplification: Option<f64>,
    /// What was simulated.
    simulated_ns: u64,
    statistics: DeviceStatistics,
    wear: Option<Wear>,
}

/// Runs the workload on all columns and seeds.
pub(super) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Outcome, ExperimentError> {
    let definition = experiment.definition.endurance.as_ref().expect("checked when the experiment was read");
    let own;
    let workload = match &experiment.endurance.workload {
        Some(workload) => workload,
        None => {
            own = EnduranceWorkload {
                name: "the experiment's job".into(),
                bytes: Vec::new(),
                jobs: experiment.read_job("endurance", &definition.job)?,
                iologs: Vec::new(),
            };
            &own
        }
    };
    let columns = match &experiment.endurance.devices {
        Some(devices) => devices.clone(),
        None => experiment.columns(library)?,
    };
    let preparation = &experiment.definition.preparation;
    let preparation = preparation.iter().map(|p| experiment.read_job("preparation", &p.job));
    let preparation = preparation.collect::<Result<Vec<_>, _>>()?;
    let seeds = u64::from(experiment.endurance.seeds.unwrap_or(definition.seeds));
    let places: Vec<Place<'_>> = columns
        .iter()
        .flat_map(|(column, device)| {
            (0..seeds).map(move |n| Place { column, device, seed: seed.wrapping_add(n) })
        })
        .collect();
    let lives = side_by_side(&places, |place| {
        if watch.stopped() {
            return Err(ExperimentError::Stopped);
        }
        let life = place.live(workload, &preparation, definition.steady_percent);
        watch.ran();
        life.map_err(|error| ExperimentError::Bench { cell: place.column.to_owned(), error })
    });
    let mut lives = lives.into_iter();
    let mut outcome = Outcome::default();
    for (column, device) in &columns {
        let of_column = lives.by_ref().take(seeds as usize).collect::<Result<Vec<Life>, _>>()?;
        report(&mut outcome, column, device, of_column);
    }
    outcome.devices = columns.into_iter().map(|(_, device)| device).collect();
    Ok(outcome)
}

impl Place<'_> {
    fn live(
        &self,
        workload: &EnduranceWorkload,
        preparation: &[Vec<Job>],
        steady_percent: f64,
    ) -> Result<Life, BenchError> {
        let mut bench = Bench::with(self.device, self.seed);
        for (name, iolog) in &workload.iologs {
            bench.load_iolog(name, iolog.clone());
        }
        for jobs in preparation {
            run_whole(&mut bench, jobs, &Settings::default())?;
        }
        let (begin, at_begin) = (bench.now(), bench.counters());
        let mut known: Option<f64> = None;
        let mut runs = 0;
        // Four quarters of a history of `length` runs; then twice as long.
        let mut length = 4;
        let mut snapshots = vec![Snapshot::of(&bench); 1];
        loop {
            for at in [length / 2, length * 3 / 4, length] {
                while runs < at {
                    if let Some(ended) = self.once(&mut bench, workload, &at_begin)? {
                        let after = ended.since(begin).as_ns() as f64;
                        return Ok(self.life(&bench, begin, &at_begin, (Some(after), true)));
                    }
                    runs += 1;
                }
                snapshots.push(Snapshot::of(&bench));
            }
            let [.., half, three, whole] = snapshots.as_slice() else { unreachable!("four were taken") };
            let estimate = extrapolate(half, three, whole, begin);
            let steady = match (known, &estimate) {
                (Some(before), Some(now)) => {
                    let difference = (now.first_failure_ns - before).abs();
                    let close = difference <= steady_percent / 100.0 * now.first_failure_ns;
                    close && now.erases >= ERASES_LEAST && !self.levelling_will_begin(now)
                }
                _ => false,
            };
            let nothing = estimate.is_none() && runs >= IDLE_RUNS;
            known = estimate.map(|estimate| estimate.first_failure_ns);
            if steady || nothing || runs >= RUNS_MAX {
                return Ok(self.life(&bench, begin, &at_begin, (known, steady || nothing)));
            }
            // What is half of the next history is the end of this one.
            snapshots.clear();
            snapshots.push(Snapshot::of(&bench));
            length *= 2;
        }
    }

    /// Whether static levelling, which moves nothing yet, would before the end.
    fn levelling_will_begin(&self, estimate: &Estimate) -> bool {
        let threshold = self.device.levelling_threshold();
        threshold.is_some_and(|threshold| {
            let threshold = f64::from(threshold);
            estimate.gap_now < threshold && estimate.gap_at_end >= threshold
        })
    }

    /// Runs the workload once; the instant of a failure, if there was one.
    fn once(
        &self,
        bench: &mut Bench,
        workload: &EnduranceWorkload,
        at_begin: &Counters,
    ) -> Result<Option<Instant>, BenchError> {
        let run = run_whole(bench, &workload.jobs, &Settings::default());
        let failed = bench.counters().since(at_begin, "bad_block_count") > 0;
        match run {
            Err(error) if !failed => Err(error),
            _ => Ok(failed.then(|| bench.now())),
        }
    }

    fn life(
        &self,
        bench: &Bench,
        begin: Instant,
        at_begin: &Counters,
        (first_failure_ns, steady): (Option<f64>, bool),
    ) -> Life {
        let wear = bench.wear();
        let mut found = statistics(at_begin, &bench.counters(), wear.as_ref());
        self.column.clone_into(&mut found.column);
        found.first_failure_seconds = first_failure_ns.map(|ns| ns / 1e9);
        let simulated_ns = bench.now().since(begin).as_ns();
        Life {
            first_failure_ns,
            steady,
            written_rate: found.host_written_bytes as f64 / simulated_ns.max(1) as f64,
            amplification: found.write_amplification,
            simulated_ns,
            statistics: found,
            wear,
        }
    }
}

/// The erase blocks at an instant.
#[derive(Clone)]
struct Snapshot {
    at: Instant,
    wear: Option<Wear>,
}

impl Snapshot {
    fn of(bench: &Bench) -> Self {
        Snapshot { at: bench.now(), wear: bench.wear() }
    }
}

/// How a life would end if all went on.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Estimate {
    /// When the first block reaches its limit, in nanoseconds.
    first_failure_ns: f64,
    /// The erases that this block has seen in the time over which rates were taken.
    erases: u32,
    /// Difference of erases between the most and the least worn block, now and then.
    gap_now: f64,
    gap_at_end: f64,
}

/// When the first block reaches its limit, counted from `begin`, if each goes on as it did from `half` on. `None` where
/// nothing wears.
fn extrapolate(half: &Snapshot, three: &Snapshot, whole: &Snapshot, begin: Instant) -> Option<Estimate> {
    let (first, second, last) = (half.wear.as_ref()?, three.wear.as_ref()?, whole.wear.as_ref()?);
    let mut bad = last.bad.iter().copied().peekable();
    let counts = first.erase_counts.iter().zip(&second.erase_counts).zip(&last.erase_counts);
    let blocks: Vec<Block> = (0..)
        .zip(counts.zip(&last.limits))
        .filter(|(block, _)| bad.next_if_eq(block).is_none())
        .map(|(_, (((a, b), c), limit))| Block {
            early: f64::from(b - a),
            late: f64::from(c - b),
            erases: c - a,
            count: f64::from(*c),
            left: f64::from(limit.saturating_sub(*c)),
        })
        .collect();
    let n = blocks.len() as f64;
    let mean = |of: &dyn Fn(&Block) -> f64| blocks.iter().map(of).sum::<f64>() / n;
    let (early, late) = (mean(&|b| b.early), mean(&|b| b.late));
    let covariance = mean(&|b| (b.early - early) * (b.late - late));
    let variances = mean(&|b| (b.early - early).powi(2)) * mean(&|b| (b.late - late).powi(2));
    let correlation = if variances > 0.0 { (covariance / variances.sqrt()).clamp(0.0, 1.0) } else { 0.0 };
    // Spearman and Brown: how far two quarters together tell what is for good.
    let for_good = 2.0 * correlation / (1.0 + correlation);
    let time = whole.at.since(half.at).as_ns() as f64;
    let rate = |block: &Block| (early + late + for_good * (f64::from(block.erases) - early - late)) / time;
    let lives = blocks.iter().filter_map(|block| {
        let rate = rate(block);
        (rate > 0.0).then(|| (block.left / rate, block.erases))
    });
    let (rest, erases) = lives.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
    let gap = |count: &dyn Fn(&Block) -> f64| {
        let (least, most) = blocks
            .iter()
            .map(count)
            .fold((f64::INFINITY, 0.0_f64), |(least, most), count| (least.min(count), most.max(count)));
        most - least
    };
    Some(Estimate {
        first_failure_ns: whole.at.since(begin).as_ns() as f64 + rest,
        erases,
        gap_now: gap(&|block| block.count),
        gap_at_end: gap(&|block| block.count + rate(block) * rest),
    })
}

/// A block's erases in the third and the fourth quarter of a history, and those that it has left.
struct Block {
    early: f64,
    late: f64,
    erases: u32,
    count: f64,
    left: f64,
}

const DAYS: &str = "days until the first failure";

/// Puts the lives of a column into the outcome.
fn report(outcome: &mut Outcome, column: &str, device: &Device, lives: Vec<Life>) {
    let mut ends: Vec<&Life> = lives.iter().filter(|life| life.first_failure_ns.is_some()).collect();
    ends.sort_by(|a, b| days(a).total_cmp(&days(b)));
    let mut cell = |table: &str, row: &str, unit: &str, simulated: Figure| {
        let run = Measured { counted: (simulated.mean * 1e6).round() as u64, ..Measured::default() };
        outcome.cells.push(MeasuredCell {
            table: table.to_owned(),
            row: row.to_owned(),
            column: column.to_owned(),
            unit: unit.to_owned(),
            role: None,
            simulated,
            runs: vec![run],
            logger_bytes: None,
        });
    };
    let single = |mean| Figure { mean, sd: 0.0 };
    if let ([first, ..], [.., last]) = (ends.as_slice(), ends.as_slice()) {
        let median = ends[(ends.len() - 1) / 2];
        let all: Vec<f64> = ends.iter().map(|life| days(life)).collect();
        cell(DAYS, "least", "days", single(days(first)));
        cell(DAYS, "median", "days", single(days(median)));
        cell(DAYS, "most", "days", single(days(last)));
        cell(DAYS, "mean", "days", figure_of(&all));
        let written = median.written_rate * median.first_failure_ns.unwrap_or(0.0) / 1e12;
        cell("written until then", "median", "TB", single(written));
        if let Some(amplification) = median.amplification {
            cell("write amplification", "median", "ratio", single(amplification));
        }
        let left = |n: usize| 100.0 * (lives.len() - n) as f64 / lives.len() as f64;
        let steps = (0..).zip(&all).flat_map(|(n, days)| [(*days, left(n)), (*days, left(n + 1))]);
        outcome.series.push(Series {
            name: "media without a failure".into(),
            step: DAYS.into(),
            column: column.to_owned(),
            unit: "%".into(),
            x_unit: "days".into(),
            points: std::iter::once((0.0, 100.0)).chain(steps).collect(),
        });
    } else {
        outcome.notes.push(match lives.first().and_then(|life| life.wear.as_ref()) {
            None => format!("{column}: {} counts no erase blocks, so nothing is known of its life.", device.argument),
            Some(wear) if wear.limits.is_empty() => format!(
                "{column}: wear has no end on {}: its profile has no endurance. To give it one, add for example \
                 :cycles=3000 to the device.",
                device.argument
            ),
            Some(_) => format!("{column}: the workload erases nothing on {}, so it never wears out.", device.argument),
        });
    }
    if let Some(life) = lives.iter().find(|life| !life.steady) {
        outcome.notes.push(format!(
            "{column}: the wear was not steady after {:.1} simulated days; the days until the first failure are a rough \
             estimate. A job that writes more in a run is estimated better.",
            life.simulated_ns as f64 / NS_A_DAY
        ));
    }
    let Some(life) = lives.into_iter().next() else { return };
    let simulated = life.simulated_ns as f64 / NS_A_DAY;
    let name = format!("{column}, after {simulated:.3} simulated days on the first medium");
    outcome.wear.extend(life.wear.map(|wear| -> WearMap { wear.map(name) }));
    outcome.statistics.push(life.statistics);
}

fn days(life: &Life) -> f64 {
    life.first_failure_ns.unwrap_or(f64::INFINITY) / NS_A_DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(at: u64, erase_counts: Vec<u32>, limits: Vec<u32>) -> Snapshot {
        let wear = Wear { bytes: 4096, erase_counts, bad: vec![], rated_cycles: Some(100), limits };
        Snapshot { at: Instant::from_ns(at), wear: Some(wear) }
    }
    fn end(counts: [Vec<u32>; 3], limits: Vec<u32>) -> Option<Estimate> {
        let [a, b, c] = counts;
        let limits = || limits.clone();
        extrapolate(
            &snapshot(100, a, limits()),
            &snapshot(150, b, limits()),
            &snapshot(200, c, limits()),
            Instant::ZERO,
        )
    }

    #[test]
    fn a_block_that_is_always_written_is_carried_on_at_its_own_rate() {
        let cold = vec![0, 1, 0, 1];
        let with = |hot| [vec![hot], cold.clone()].concat();
        let found = end([with(100), with(150), with(200)], vec![1_000; 5]).expect("it wears");
        // 100 erases in 100 ns, 800 are left.
        assert!((found.first_failure_ns - 1_000.0).abs() < 1.0, "{found:?}");
        assert_eq!((found.erases, found.gap_now), (100, 200.0));
        assert!((found.gap_at_end - 1_000.0).abs() < 2.0, "{found:?}");
    }

    #[test]
    fn a_block_that_had_its_turn_is_carried_on_at_the_mean_rate() {
        // Blocks of which one half is written in each quarter.
        let counts = [[10, 10, 10, 10], [20, 20, 10, 10], [20, 20, 20, 20]].map(Vec::from);
        let found = end(counts, vec![1_000, 900, 1_000, 1_000]).expect("it wears");
        assert!((found.first_failure_ns - (200.0 + 880.0 * 10.0)).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn what_is_not_written_never_wears() {
        let still = vec![7, 7, 7];
        assert_eq!(end([still.clone(), still.clone(), still.clone()], vec![100; 3]), None);
        assert_eq!(end([vec![0, 0], vec![1, 1], vec![2, 2]], vec![]), None, "without limits there is no end");
    }
}
