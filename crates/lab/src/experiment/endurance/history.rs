//! The simulation of one device's media under a workload that repeats without end.
//!
//! The seed determines the number of erases that each block endures, and changes each block's program time by
//! a few percent. The workload determines which blocks wear, and how fast. One history, on the first medium,
//! therefore serves all seeds: the limits of each seed are applied to the erase counts of this history. Two
//! kinds of media need a history of their own: media with other factory bad blocks, and media with a block
//! that fails before the history is long enough. The other media also need another history if a block of the
//! first medium fails that early.
//!
//! A history continues until a block of its medium fails, until its wear is steady
//! ([`Estimates::are_steady`]), or until it has used up the [`budget`](EnduranceSetup::budget), which each
//! history has for itself. The unit of a budget is simulated work, not seconds, so that a history ends at the
//! same request on every machine.

use super::EnduranceWorkload;
use super::estimates::{Estimates, lengths};
use super::extrapolation::{Medium, Snapshot};
use crate::bench::{Bench, BenchError, refusal};
use crate::experiment::measured::run_whole;
use crate::progress::Progress;
use crate::results::DeviceStatistics;
use crate::statistics::{Counters, Wear, statistics};
use flashlab_catalogue::device::Device;
use flashlab_fio::job::Job;
use flashlab_fio::stats::Settings;
use flashlab_sim::{Instant, Model};

/// Number of runs without wear after which the workload is assumed to cause none.
const IDLE_RUNS: u64 = 64;
/// Maximum number of simulated runs of the workload in a history without a budget.
const RUNS_MAX: u64 = 1 << 20;
/// Number of steps in a budget. A history is examined at multiples of a step: the first estimate comes after an eighth
/// of the budget.
const STEPS: u64 = 64;
/// Number of programmed 4 KiB pages that take as long to simulate as one request.
const PAGES_A_REQUEST: u64 = 32;
/// Number of requests that take as long to simulate as the beginning and the end of a run.
const REQUESTS_A_RUN: u64 = 128;
/// Bytes of capacity for each request between two examinations. The examination of a large device takes
/// longer, so the interval grows with the capacity.
const LOOK_BYTES: u64 = 8 << 20;

/// The simulated device with its workload and limits.
pub(super) struct EnduranceSetup<'a> {
    pub(super) device: &'a Device,
    pub(super) workload: &'a EnduranceWorkload,
    /// Jobs that run once, before the workload.
    pub(super) preparation: &'a [Vec<Job>],
    pub(super) steady_percent: f64,
    /// Maximum number of requests to simulate in each history, including other work in units of a request; `None` for
    /// no limit.
    pub(super) budget: Option<u64>,
    /// Receives the used part of the budget.
    pub(super) progress: &'a Progress,
    /// Callback for each new estimate of the first medium's life.
    pub(super) report_life: &'a (dyn Fn(&Life) + Sync),
}

/// The life of one medium, simulated to its end or estimated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// Time until the first block fails, in nanoseconds; `None` if no block ever fails.
    pub(super) first_failure_ns: Option<f64>,
    /// False while the workload has caused too few erases for an estimate, so that only the interval counts.
    pub(super) is_known: bool,
    /// The 95 % interval of `first_failure_ns`; `None` if the life was simulated to its end or there is no
    /// estimate.
    pub(super) interval: Option<(f64, f64)>,
    /// True if the wear became steady, the life ended, or the workload caused no wear, before the simulation
    /// reached its limit.
    pub(super) steady: bool,
    /// Mean write rate in bytes per nanosecond.
    pub(super) written_rate: f64,
    pub(super) amplification: Option<f64>,
    /// Duration of the simulation in nanoseconds.
    pub(super) simulated_ns: u64,
}

/// Statistics and wear of the device at the end of the first medium's history.
pub(super) struct Used {
    pub(super) statistics: DeviceStatistics,
    pub(super) wear: Option<Wear>,
}

impl EnduranceSetup<'_> {
    /// Simulates the lives of the media of `seeds`. Returns the lives in the order of the seeds, and the
    /// statistics and the wear of the device with the first medium.
    pub(super) fn lives(&self, seeds: &[u64]) -> Result<(Vec<Life>, Used), BenchError> {
        let media: Vec<Medium> =
            seeds.iter().map(|seed| Medium::of(&Bench::with(self.device, *seed))).collect();
        let mut lives: Vec<Option<Life>> = vec![None; seeds.len()];
        let mut first_used = None;
        while let Some(first) = lives.iter().position(Option::is_none) {
            let shares = |n: &usize| lives[*n].is_none() && media[*n].bad == media[first].bad;
            let medium_indices = (first..seeds.len()).filter(shares).collect();
            let mut history = History::begin(self, seeds[first])?;
            let estimates = Estimates::new(&media, medium_indices, history.begin);
            for (n, life) in history.live(estimates)? {
                lives[n] = Some(life);
            }
            first_used.get_or_insert_with(|| history.used());
        }
        let lives = lives.into_iter().map(|life| life.expect("every seed has a life")).collect();
        Ok((lives, first_used.expect("there is a first seed")))
    }
}

/// A device that runs the workload.
struct History<'a> {
    setup: &'a EnduranceSetup<'a>,
    bench: Bench,
    /// Number of bad blocks before the first job.
    bad_before: u64,
    begin: Instant,
    at_begin: Counters,
    runs: u64,
}

impl<'a> History<'a> {
    fn begin(setup: &'a EnduranceSetup<'a>, seed: u64) -> Result<Self, BenchError> {
        let mut bench = Bench::with(setup.device, seed);
        for (name, trace) in &setup.workload.traces {
            bench.load_trace(name, trace.clone());
        }
        let bad_before = bench.counters().get("bad_block_count");
        for jobs in setup.preparation {
            run_whole(&mut bench, jobs, &Settings::default())?;
        }
        let (begin, at_begin) = (bench.now(), bench.counters());
        Ok(History { setup, bench, bad_before, begin, at_begin, runs: 0 })
    }

    /// Runs the workload until the lives of the media that share the history are known, or the budget is used up. The
    /// result omits media that need a history of their own.
    fn live(&mut self, estimates: Estimates<'_>) -> Result<Vec<(usize, Life)>, BenchError> {
        match self.setup.budget {
            None => self.live_by_runs(estimates),
            Some(budget) => self.live_within(budget, estimates),
        }
    }

    /// Runs the workload until wear is steady, a block fails, or the limit of runs is reached. Examines the
    /// device between runs.
    fn live_by_runs(&mut self, mut estimates: Estimates<'_>) -> Result<Vec<(usize, Life)>, BenchError> {
        let first = estimates.medium_indices()[0];
        for length in lengths() {
            while self.runs < length {
                if let Some(failed) = self.run_once()? {
                    return Ok(vec![(first, self.failed(failed))]);
                }
            }
            if !estimates.examine(snapshot(self.bench.now(), self.bench.device())) {
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

    /// Runs the workload until wear is steady, a block fails, or the budget is used up. Examines the device
    /// between and within runs.
    fn live_within(
        &mut self,
        budget: u64,
        mut estimates: Estimates<'_>,
    ) -> Result<Vec<(usize, Life)>, BenchError> {
        let first = estimates.medium_indices()[0];
        let interval = (self.setup.device.capacity() / LOOK_BYTES).clamp(16, 4096);
        let step = (budget / STEPS).max(1);
        let (setup, begin, bad_before) = (self.setup, self.begin, self.bad_before);
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
            setup.progress.advance(done.min(budget) - counted);
            setup.progress.add_simulated(now.since(looked));
            (counted, looked) = (done.min(budget), now);
            if lengths.next_if(|length| done >= *length).is_some() && estimates.examine(snapshot(now, device))
            {
                (setup.report_life)(&Life::of(
                    &estimates,
                    first,
                    false,
                    now.since(begin).as_ns(),
                    &at_begin,
                    &counters,
                ));
                steady = estimates.are_steady(setup.steady_percent, setup.device.leveling_threshold());
            }
            // For a device that never wears out, an eighth of the budget gives the same answer as all of it.
            !steady && !setup.progress.is_stopped() && done < if is_endless { budget / 8 } else { budget }
        };
        loop {
            let mut goes_on = true;
            let mut within = |now: Instant, device: &dyn Model| {
                goes_on = look(now, device, interval);
                goes_on
            };
            let run = self.bench.run_watched(&self.setup.workload.jobs, interval, &mut within);
            let run = run.and_then(|s| refusal(&s.reports(&self.setup.workload.jobs)).map_or(Ok(()), Err));
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
        self.setup.progress.advance(budget - counted);
        if let Some(failed) = failed {
            return Ok(vec![(first, self.failed(failed))]);
        }
        let programmed = self.bench.counters().get("programmed_bytes") - programmed_before;
        let idle = programmed == 0 || is_endless;
        let mut lives = self.lives(&estimates, steady || idle);
        // Media that would have failed by now get a history of their own. If no medium remains, the first
        // medium still gets its estimate, because its device has not failed.
        if lives.is_empty() {
            lives.push((first, self.life(&estimates, first, false)));
        }
        Ok(lives)
    }

    fn is_steady(&self, estimates: &Estimates<'_>) -> bool {
        estimates.are_steady(self.setup.steady_percent, self.setup.device.leveling_threshold())
    }

    fn tell(&self, estimates: &Estimates<'_>) {
        if let Some(first) = estimates.medium_indices().first() {
            (self.setup.report_life)(&self.life(estimates, *first, false));
        }
    }

    /// Runs the workload once. Returns the instant of a failure, if there was one.
    fn run_once(&mut self) -> Result<Option<Instant>, BenchError> {
        if self.setup.progress.is_stopped() {
            return Err(BenchError::Stopped);
        }
        let run = run_whole(&mut self.bench, &self.setup.workload.jobs, &Settings::default());
        self.runs += 1;
        let failed = self.bench.counters().get("bad_block_count") > self.bad_before;
        match run {
            Err(error) if !failed => Err(error),
            _ => Ok(failed.then(|| self.bench.now())),
        }
    }

    fn lives(&self, estimates: &Estimates<'_>, steady: bool) -> Vec<(usize, Life)> {
        estimates.medium_indices().iter().map(|n| (*n, self.life(estimates, *n, steady))).collect()
    }

    fn life(&self, estimates: &Estimates<'_>, medium: usize, steady: bool) -> Life {
        let simulated = self.bench.now().since(self.begin).as_ns();
        Life::of(estimates, medium, steady, simulated, &self.at_begin, &self.bench.counters())
    }

    /// Returns the life of a medium that failed during the simulation.
    fn failed(&self, at: Instant) -> Life {
        let simulated = self.bench.now().since(self.begin).as_ns();
        let life = Life::measured(simulated, &self.at_begin, &self.bench.counters());
        let first_failure_ns = Some(at.since(self.begin).as_ns() as f64);
        Life { first_failure_ns, is_known: true, steady: true, ..life }
    }

    fn used(&self) -> Used {
        let wear = self.bench.wear();
        Used { statistics: statistics(&self.at_begin, &self.bench.counters(), wear.as_ref()), wear }
    }
}

impl Life {
    /// Returns true if the medium will fail but too few erases show when.
    pub(super) fn is_unknown(&self) -> bool {
        self.first_failure_ns.is_some() && !self.is_known
    }

    /// Returns the estimated life of a medium.
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
            is_known: estimates.is_known(medium),
            interval: estimates.interval(medium),
            steady,
            ..Life::measured(simulated_ns, at_begin, counters)
        }
    }

    /// Returns a life with the measured figures of a device, but without a failure.
    fn measured(simulated_ns: u64, at_begin: &Counters, counters: &Counters) -> Self {
        let found = statistics(at_begin, counters, None);
        Life {
            first_failure_ns: None,
            is_known: false,
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
