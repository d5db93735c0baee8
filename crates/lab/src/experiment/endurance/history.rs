//! The lives of one device's media under a workload without end.
//!
//! The seed draws how often each block can be erased, and a few per cent of each block's time to program; what wears out,
//! and how fast, is the workload's doing. So one history, on the first medium, serves all seeds: each seed's limits are
//! applied to its erase counts. Two kinds of media have a history of their own: those that have other blocks bad from the
//! factory, and those of which a block fails before the history is long enough, or the first medium's does.
//!
//! A history goes on until its wear is steady ([`Estimates::are_steady`]), or until it has taken its share of a
//! [`budget`](Scene::budget). A budget is counted in what the simulation does and not in seconds, so that it ends a history
//! at the same request on every machine.

use super::EnduranceWorkload;
use super::estimates::{Estimates, lengths};
use super::extrapolation::{Medium, Snapshot};
use crate::bench::{Bench, BenchError, refusal};
use crate::device::Device;
use crate::experiment::measured::run_whole;
use crate::progress::Progress;
use crate::results::DeviceStatistics;
use crate::statistics::{Counters, Wear, statistics};
use flashlab_fio::job::Job;
use flashlab_fio::stats::Settings;
use flashlab_sim::{Instant, Model};

/// Runs of the workload after which one that has erased nothing is taken to wear nothing.
const IDLE_RUNS: u64 = 64;
/// The most runs of the workload that are simulated.
const RUNS_MAX: u64 = 1 << 20;
/// Steps of a budget, in which a history is looked at: the first estimate comes after an eighth of it.
const STEPS: u64 = 64;
/// Programmed pages of 4 KiB that take as long to simulate as a request.
const PAGES_A_REQUEST: u64 = 32;
/// Requests that take as long to simulate as the beginning and the end of a run.
const REQUESTS_A_RUN: u64 = 128;
/// Bytes of capacity for each request between looks at a device: a look at a large device takes longer.
const LOOK_BYTES: u64 = 8 << 20;

/// What is simulated.
pub(super) struct Scene<'a> {
    pub(super) device: &'a Device,
    pub(super) workload: &'a EnduranceWorkload,
    /// Jobs that are run once, first.
    pub(super) preparation: &'a [Vec<Job>],
    pub(super) steady_percent: f64,
    /// Requests that are simulated at most, with what else takes as long as a request; `None`: as many as it takes.
    pub(super) budget: Option<u64>,
    /// Counts the budget that is used up.
    pub(super) progress: &'a Progress,
    /// Receives each estimate of the first medium's life as it is made.
    pub(super) told: &'a (dyn Fn(&Life) + Sync),
}

/// How the life of one medium ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// When the first block failed, in nanoseconds; `None`: never.
    pub(super) first_failure_ns: Option<f64>,
    /// The 95 % interval of it, in nanoseconds; `None` where it was simulated to its end or has none.
    pub(super) interval: Option<(f64, f64)>,
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
            let estimates = Estimates::new(&media, sharing, history.begin);
            for (n, life) in history.live(estimates)? {
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

    /// Goes on until the lives of the media that share it are known, or the budget is used up. Media that turn out to need a
    /// history of their own are left out.
    fn live(&mut self, estimates: Estimates<'_>) -> Result<Vec<(usize, Life)>, BenchError> {
        match self.scene.budget {
            None => self.live_by_runs(estimates),
            Some(budget) => self.live_within(budget, estimates),
        }
    }

    /// Runs the workload until wear is steady, and looks at the device between runs.
    fn live_by_runs(&mut self, mut estimates: Estimates<'_>) -> Result<Vec<(usize, Life)>, BenchError> {
        let first = estimates.sharing()[0];
        for length in lengths() {
            while self.runs < length {
                if let Some(failed) = self.run_once()? {
                    return Ok(vec![(first, self.failed(failed))]);
                }
            }
            if !estimates.look(snapshot(self.bench.now(), self.bench.device())) {
                continue;
            }
            self.tell(&estimates);
            let steady = self.is_steady(&estimates);
            let idle = estimates.are_idle() && self.runs >= IDLE_RUNS;
            if steady || idle || self.runs >= RUNS_MAX {
                return Ok(self.lives(&estimates, steady || idle));
            }
        }
        unreachable!("lengths have no end")
    }

    /// Runs the workload until wear is steady or the budget is used up, and looks at the device within runs too.
    fn live_within(
        &mut self,
        budget: u64,
        mut estimates: Estimates<'_>,
    ) -> Result<Vec<(usize, Life)>, BenchError> {
        let first = estimates.sharing()[0];
        let interval = (self.scene.device.capacity() / LOOK_BYTES).clamp(16, 4096);
        let step = (budget / STEPS).max(1);
        let (scene, begin, bad_before) = (self.scene, self.begin, self.bad_before);
        let programmed_before = self.at_begin.get("programmed_bytes");
        let at_begin = self.at_begin.clone();
        let mut lengths = lengths().map(|length| length * step).peekable();
        let is_endless = estimates.are_endless();
        let (mut requests, mut failed, mut steady) = (0, None, false);
        let (mut counted, mut looked) = (0, begin);
        // Returns false when the history is long enough.
        let mut look = |now: Instant, device: &dyn Model, more: u64| {
            requests += more;
            let counters = Counters::of(device);
            if counters.get("bad_block_count") > bad_before {
                failed.get_or_insert(now);
                return false;
            }
            let programmed = counters.get("programmed_bytes") - programmed_before;
            let done = requests + programmed / 4096 / PAGES_A_REQUEST;
            scene.progress.advance(done.min(budget) - counted);
            scene.progress.add_simulated(now.since(looked));
            (counted, looked) = (done.min(budget), now);
            if lengths.next_if(|length| done >= *length).is_some() && estimates.look(snapshot(now, device)) {
                (scene.told)(&Life::of(
                    &estimates,
                    first,
                    false,
                    now.since(begin).as_ns(),
                    &at_begin,
                    &counters,
                ));
                steady = estimates.are_steady(scene.steady_percent, scene.device.levelling_threshold());
            }
            // Of a device that does not wear out a few steps tell as much as all.
            !steady && !scene.progress.is_stopped() && done < if is_endless { budget / 8 } else { budget }
        };
        loop {
            let mut goes_on = true;
            let mut within = |now: Instant, device: &dyn Model| {
                goes_on = look(now, device, interval);
                goes_on
            };
            let run = self.bench.run_watched(&self.scene.workload.jobs, interval, &mut within);
            let run = run.and_then(|s| refusal(&s.reports(&self.scene.workload.jobs)).map_or(Ok(()), Err));
            self.runs += 1;
            let goes_on = goes_on && look(self.bench.now(), self.bench.device(), REQUESTS_A_RUN);
            if let Err(error) = run
                && self.bench.counters().get("bad_block_count") == bad_before
            {
                return Err(error);
            }
            let programmed = self.bench.counters().get("programmed_bytes") - programmed_before;
            let idle = self.runs >= IDLE_RUNS && (programmed == 0 || is_endless);
            if !goes_on || idle {
                break;
            }
        }
        self.scene.progress.advance(budget - counted);
        if let Some(failed) = failed {
            return Ok(vec![(first, self.failed(failed))]);
        }
        let programmed = self.bench.counters().get("programmed_bytes") - programmed_before;
        let idle = programmed == 0 || is_endless;
        let mut lives = self.lives(&estimates, steady || idle);
        // A medium that would have failed by now is simulated for itself; the first one has not failed.
        if lives.is_empty() {
            lives.push((first, self.life(&estimates, first, false)));
        }
        Ok(lives)
    }

    fn is_steady(&self, estimates: &Estimates<'_>) -> bool {
        estimates.are_steady(self.scene.steady_percent, self.scene.device.levelling_threshold())
    }

    fn tell(&self, estimates: &Estimates<'_>) {
        if let Some(first) = estimates.sharing().first() {
            (self.scene.told)(&self.life(estimates, *first, false));
        }
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

    fn lives(&self, estimates: &Estimates<'_>, steady: bool) -> Vec<(usize, Life)> {
        estimates.sharing().iter().map(|n| (*n, self.life(estimates, *n, steady))).collect()
    }

    fn life(&self, estimates: &Estimates<'_>, medium: usize, steady: bool) -> Life {
        let simulated = self.bench.now().since(self.begin).as_ns();
        Life::of(estimates, medium, steady, simulated, &self.at_begin, &self.bench.counters())
    }

    /// The life of a medium that failed in what was simulated.
    fn failed(&self, at: Instant) -> Life {
        let simulated = self.bench.now().since(self.begin).as_ns();
        let life = Life::measured(simulated, &self.at_begin, &self.bench.counters());
        Life { first_failure_ns: Some(at.since(self.begin).as_ns() as f64), steady: true, ..life }
    }

    fn used(&self) -> Used {
        let wear = self.bench.wear();
        Used { statistics: statistics(&self.at_begin, &self.bench.counters(), wear.as_ref()), wear }
    }
}

impl Life {
    /// The estimated life of a medium.
    fn of(
        estimates: &Estimates<'_>,
        medium: usize,
        steady: bool,
        simulated_ns: u64,
        at_begin: &Counters,
        counters: &Counters,
    ) -> Self {
        Life {
            first_failure_ns: estimates.life_ns(medium),
            interval: estimates.interval(medium),
            steady,
            ..Life::measured(simulated_ns, at_begin, counters)
        }
    }

    /// Returns the figures of a device whose history says nothing about its life.
    fn measured(simulated_ns: u64, at_begin: &Counters, counters: &Counters) -> Self {
        let found = statistics(at_begin, counters, None);
        Life {
            first_failure_ns: None,
            interval: None,
            steady: false,
            written_rate: found.host_written_bytes as f64 / simulated_ns.max(1) as f64,
            amplification: found.write_amplification,
            simulated_ns,
        }
    }
}

fn snapshot(at: Instant, device: &dyn Model) -> Snapshot {
    Snapshot { at, erase_counts: Wear::of(device).map_or(Vec::new(), |wear| wear.erase_counts) }
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
