//! The lives of one device's media under a workload without end.
//!
//! The seed draws how often each block can be erased, and a few per cent of each block's time to program; what wears out,
//! and how fast, is the workload's doing. So one history, on the first medium, serves all seeds: each seed's limits are
//! applied to its erase counts. Two kinds of media have a history of their own: those that have other blocks bad from the
//! factory, and those of which a block fails before the history is long enough, or the first medium's does.
//!
//! A history goes on until its wear is steady: for every medium, the estimates of its life that were made since the half
//! of the history ([`GRID`] of them) lie within `steady_percent`, the block that fails first has seen some erases, and
//! static levelling, if it will move data at all, does so.

use super::EnduranceWorkload;
use super::extrapolation::{Estimate, Medium, Rates, Snapshot};
use crate::bench::{Bench, BenchError};
use crate::device::Device;
use crate::experiment::measured::run_whole;
use crate::results::DeviceStatistics;
use crate::statistics::{Counters, Wear, statistics};
use flashlab_fio::job::Job;
use flashlab_fio::stats::Settings;
use flashlab_sim::Instant;
use std::collections::VecDeque;

/// Runs of the workload after which one that has erased nothing is taken to wear nothing.
const IDLE_RUNS: u64 = 64;
/// Estimates of a life in each doubling of a history.
const GRID: usize = 4;
/// The most runs of the workload that are simulated.
const RUNS_MAX: u64 = 1 << 20;
/// Erases that the block which fails first must have seen in the time over which rates are taken.
const ERASES_LEAST: f64 = 4.0;

/// What is simulated.
pub(super) struct Scene<'a> {
    pub(super) device: &'a Device,
    pub(super) workload: &'a EnduranceWorkload,
    /// Jobs that are run once, first.
    pub(super) preparation: &'a [Vec<Job>],
    pub(super) steady_percent: f64,
}

/// How the life of one medium ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// When the first block failed, in nanoseconds; `None`: never.
    pub(super) first_failure_ns: Option<f64>,
    /// Whether its wear was steady, or it ended, before there was no patience left.
    pub(super) steady: bool,
    /// Bytes written a nanosecond, in the mean.
    pub(super) written_rate: f64,
    pub(super) amplification: Option<f64>,
    /// What was simulated.
    pub(super) simulated_ns: u64,
}

/// What a device had done when its first medium's history ended.
pub(super) struct Used {
    pub(super) statistics: DeviceStatistics,
    pub(super) wear: Option<Wear>,
}

impl Scene<'_> {
    /// The lives of the media of `seeds`, in their order, and what the first one's device had done.
    pub(super) fn lives(&self, seeds: &[u64]) -> Result<(Vec<Life>, Used), BenchError> {
        let media: Vec<Medium> =
            seeds.iter().map(|seed| Medium::of(&Bench::with(self.device, *seed))).collect();
        let mut lives: Vec<Option<Life>> = vec![None; seeds.len()];
        let mut first_used = None;
        while let Some(first) = lives.iter().position(Option::is_none) {
            let shares = |n: &usize| lives[*n].is_none() && media[*n].bad == media[first].bad;
            let sharing = (first..seeds.len()).filter(shares).collect();
            let mut history = History::begin(self, seeds[first])?;
            for (n, life) in history.live(&media, sharing)? {
                lives[n] = Some(life);
            }
            first_used.get_or_insert_with(|| history.used());
        }
        let lives = lives.into_iter().map(|life| life.expect("all have one")).collect();
        Ok((lives, first_used.expect("there is a first seed")))
    }
}

/// A device under the workload.
struct History<'a> {
    scene: &'a Scene<'a>,
    bench: Bench,
    /// Blocks that were bad before anything ran.
    bad_before: u64,
    begin: Instant,
    at_begin: Counters,
    runs: u64,
}

impl<'a> History<'a> {
    fn begin(scene: &'a Scene<'a>, seed: u64) -> Result<Self, BenchError> {
        let mut bench = Bench::with(scene.device, seed);
        for (name, iolog) in &scene.workload.iologs {
            bench.load_iolog(name, iolog.clone());
        }
        let bad_before = bench.counters().get("bad_block_count");
        for jobs in scene.preparation {
            run_whole(&mut bench, jobs, &Settings::default())?;
        }
        let (begin, at_begin) = (bench.now(), bench.counters());
        Ok(History { scene, bench, bad_before, begin, at_begin, runs: 0 })
    }

    /// Goes on until the lives of `sharing` are known, of which the first is the medium that is simulated. Media that
    /// turn out to need a history of their own are left out.
    fn live(&mut self, media: &[Medium], mut sharing: Vec<usize>) -> Result<Vec<(usize, Life)>, BenchError> {
        let first = sharing[0];
        // Since the half of the history.
        let mut snapshots = VecDeque::new();
        let mut known = vec![VecDeque::new(); media.len()];
        for length in lengths() {
            while self.runs < length {
                if let Some(failed) = self.run_once()? {
                    return Ok(vec![(first, self.life(Some(failed.since(self.begin).as_ns() as f64), true))]);
                }
            }
            let end = self.snapshot();
            sharing.retain(|n| !media[*n].has_failed(&end.erase_counts));
            let Some(half) = pushed(&mut snapshots, end.clone()) else { continue };
            let rates = Rates::new(&half, &end, &media[first].bad);
            for &n in &sharing {
                pushed(&mut known[n], rates.carry_on(&end, &media[n], self.begin));
            }
            let steady = sharing.iter().all(|n| self.is_steady(&known[*n]));
            let idle = sharing.iter().all(|n| known[*n].back() == Some(&None)) && self.runs >= IDLE_RUNS;
            if steady || idle || self.runs >= RUNS_MAX {
                let end = |n: usize| known[n].back().copied().flatten();
                let life = |n: &usize| {
                    (*n, self.life(end(*n).map(|estimate| estimate.first_failure_ns), steady || idle))
                };
                return Ok(sharing.iter().map(life).collect());
            }
        }
        unreachable!("lengths have no end")
    }

    /// Whether the estimates since the half of the history say the same.
    fn is_steady(&self, estimates: &VecDeque<Option<Estimate>>) -> bool {
        let Some(estimates) = estimates.iter().copied().collect::<Option<Vec<Estimate>>>() else {
            return false;
        };
        let (Some(now), true) = (estimates.last(), estimates.len() > GRID) else { return false };
        let lives = estimates.iter().map(|estimate| estimate.first_failure_ns);
        let (least, most) = lives.fold((f64::INFINITY, 0.0_f64), |(a, b), life| (a.min(life), b.max(life)));
        let levelling_will_begin = self.scene.device.levelling_threshold().is_some_and(|threshold| {
            let threshold = f64::from(threshold);
            now.gap_now < threshold && now.gap_at_end >= threshold
        });
        most - least <= self.scene.steady_percent / 100.0 * now.first_failure_ns
            && now.erases >= ERASES_LEAST
            && !levelling_will_begin
    }

    /// Runs the workload once; the instant of a failure, if there was one.
    fn run_once(&mut self) -> Result<Option<Instant>, BenchError> {
        let run = run_whole(&mut self.bench, &self.scene.workload.jobs, &Settings::default());
        self.runs += 1;
        let failed = self.bench.counters().get("bad_block_count") > self.bad_before;
        match run {
            Err(error) if !failed => Err(error),
            _ => Ok(failed.then(|| self.bench.now())),
        }
    }

    fn snapshot(&self) -> Snapshot {
        let erase_counts = self.bench.wear().map_or(Vec::new(), |wear| wear.erase_counts);
        Snapshot { at: self.bench.now(), erase_counts }
    }

    fn life(&self, first_failure_ns: Option<f64>, steady: bool) -> Life {
        let found = statistics(&self.at_begin, &self.bench.counters(), None);
        let simulated_ns = self.bench.now().since(self.begin).as_ns();
        Life {
            first_failure_ns,
            steady,
            written_rate: found.host_written_bytes as f64 / simulated_ns.max(1) as f64,
            amplification: found.write_amplification,
            simulated_ns,
        }
    }

    fn used(&self) -> Used {
        let wear = self.bench.wear();
        Used { statistics: statistics(&self.at_begin, &self.bench.counters(), wear.as_ref()), wear }
    }
}

/// The lengths of a history at which its life is estimated, in runs: [`GRID`] in each doubling.
fn lengths() -> impl Iterator<Item = u64> {
    (0..).flat_map(|doublings| (0..GRID as u64).map(move |n| (GRID as u64 + n) << doublings))
}

/// Keeps one doubling of what `next` ends; what lay one doubling before `next` falls out.
fn pushed<T: Clone>(last: &mut VecDeque<T>, next: T) -> Option<T> {
    last.push_back(next);
    if last.len() > GRID + 1 {
        last.pop_front();
    }
    (last.len() > GRID).then(|| last[0].clone())
}

impl Medium {
    fn of(bench: &Bench) -> Self {
        let wear = bench.wear();
        wear.map_or(Medium { limits: vec![], bad: vec![] }, |wear| Medium {
            limits: wear.limits,
            bad: wear.bad,
        })
    }
}
