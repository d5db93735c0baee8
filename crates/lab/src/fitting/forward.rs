//! The forward model of a fit: the steps of a measurement, run on a simulated device.
//!
//! Steps that share a history run in order on one bench; a step that starts from a new device begins another history.
//! Histories and points run in parallel. Steps run in full: the simulation of a minute of requests takes a few
//! hundredths of a second, so shortening the steps would save little and lose the changes of state that long steps
//! cause.
//!
//! Unless `FitSettings::exact` is set, a device in a fit has no spread between erase blocks, since a fit looks for the
//! means.

use super::{FittingError, history};
use crate::bench::{Bench, refusal};
use crate::experiment::map_parallel::map_parallel;
use crate::progress::Progress;
use flashlab_catalogue::device::{Device, Filesystem};
use flashlab_catalogue::library::Library;
use flashlab_fio::job::{BlockSize, Direction, Extent, Job, Mix, Pattern};
use flashlab_fio::stats::{JobStats, Settings, Statistics};
use flashlab_fit::observation::{Observation, Quantity, State, Step};
use flashlab_host::FilesystemParameters;
use flashlab_sim::{Duration, Mechanism};
use std::collections::{BTreeMap, BTreeSet};

/// A number of a device in a fit: path and value as in a device argument.
pub(super) type Setting = (&'static str, String);

/// A step that can run: its jobs are parsed, and its filesystem is known.
#[derive(Clone, Debug)]
pub(super) struct ReadyStep {
    /// Name of the step.
    pub name: String,
    /// The jobs.
    pub jobs: Vec<Job>,
    pub before: State,
    rest: Duration,
    pub filesystem: Option<FilesystemParameters>,
    /// Observations that the model predicts, in order.
    pub observations: Vec<Observation>,
    /// Number of runs of the jobs, each with new files. A prediction is the mean over the runs.
    pub runs: u32,
}

impl ReadyStep {
    /// Prepares steps with all of their observations.
    pub(super) fn all(steps: &[Step], library: &Library) -> Result<Vec<ReadyStep>, FittingError> {
        steps.iter().map(|step| Ok(ReadyStep::of(step, step.observations.clone(), library)?.0)).collect()
    }

    /// Prepares a step. A filesystem without a model is replaced by the bare device. The second result is a
    /// note on this.
    pub(super) fn of(
        step: &Step,
        observations: Vec<Observation>,
        library: &Library,
    ) -> Result<(ReadyStep, Option<String>), FittingError> {
        let failed = |what: String| FittingError::Step { step: step.name.clone(), what };
        let jobs = step.jobs().map_err(|error| failed(error.to_string()))?;
        if jobs.is_empty() {
            return Err(failed("it has no job".to_owned()));
        }
        let (mut filesystem, mut note) = (None, None);
        if let Some(name) = &step.filesystem {
            match Filesystem::open(name, library) {
                Ok(found) => filesystem = Some(found.parameters),
                Err(_) => {
                    note = Some(format!(
                        "step {}: {name} is not modelled; its requests go to the bare device",
                        step.name
                    ));
                }
            }
        }
        let (name, before, rest) = (step.name.clone(), step.before, step.rest);
        Ok((ReadyStep { name, jobs, before, rest, filesystem, observations, runs: 1 }, note))
    }

    /// Returns true if the step starts from a new device.
    fn begins_history(&self) -> bool {
        self.before == State::New
    }
}

/// The predicted value of one observation of a step, with the time per request by mechanism.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Predicted {
    /// Value in the unit of the observation.
    pub value: f64,
    /// Longest latency of a request in nanoseconds.
    pub longest_ns: u64,
    /// Nanoseconds that the mean request spends in each mechanism, in printing order.
    pub mechanisms_ns: Vec<(&'static str, f64)>,
}

/// A device and its steps.
#[derive(Clone, Debug)]
pub(super) struct Rig {
    /// Name of the device's profile.
    pub device: String,
    /// Settings that no number of the fit changes.
    pub settings: Vec<Setting>,
    /// The steps, in order.
    pub steps: Vec<ReadyStep>,
}

impl Rig {
    /// Opens the device with further settings. A later setting replaces an earlier one with the same path.
    pub(super) fn open(&self, settings: &[Setting], library: &Library) -> Result<Device, FittingError> {
        let mut all: Vec<&Setting> = Vec::new();
        for setting in self.settings.iter().chain(settings) {
            all.retain(|(path, _)| *path != setting.0);
            all.push(setting);
        }
        let keys: Vec<String> = all.iter().map(|(path, value)| format!("{path}={value}")).collect();
        let separator = if keys.is_empty() { "" } else { ":" };
        let argument = format!("{}{separator}{}", self.device, keys.join(","));
        Device::open(&argument, library).map_err(|error| FittingError::Device(error.to_string()))
    }

    /// Returns the ranges of steps that share a history.
    fn histories(&self) -> Vec<&[ReadyStep]> {
        let mut histories = Vec::new();
        let mut from = 0;
        for n in 1..=self.steps.len() {
            if n == self.steps.len() || self.steps[n].begins_history() {
                histories.push(&self.steps[from..n]);
                from = n;
            }
        }
        histories
    }
}

/// Runs the steps of several rigs at several points, all in parallel. A point has the settings of each rig. Returns the
/// predictions of each point, rig by rig and step by step.
pub(super) fn predict(
    rigs: &[Rig],
    points: &[Vec<Vec<Setting>>],
    seed: u64,
    library: &Library,
) -> Vec<Result<Vec<Predicted>, FittingError>> {
    KnownRuns::default().predict(rigs, points, seed, library)
}

/// The runs of a fit so far, by rig and settings.
///
/// The points of a search differ from one another in the numbers of only a few cards. A card with the same numbers
/// gives the same predictions, so it runs once.
#[derive(Debug, Default)]
pub(super) struct KnownRuns {
    progress: Progress,
    known: BTreeMap<(usize, Vec<Setting>), Result<Vec<Predicted>, FittingError>>,
}

impl KnownRuns {
    /// Creates an empty collection of runs. `progress` can stop the runs to come.
    pub(super) fn new(progress: Progress) -> KnownRuns {
        KnownRuns { progress, known: BTreeMap::new() }
    }

    /// Returns the number of runs so far, each of one rig with one set of settings.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// Predicts as [`predict`] does, and runs no rig twice with the same settings. All calls must pass the same rigs,
    /// seed and library.
    pub(super) fn predict(
        &mut self,
        rigs: &[Rig],
        points: &[Vec<Vec<Setting>>],
        seed: u64,
        library: &Library,
    ) -> Vec<Result<Vec<Predicted>, FittingError>> {
        self.run_unknown(rigs, points, seed, library);
        let cells = |point: &Vec<Vec<Setting>>| {
            let mut cells = Vec::new();
            for (r, settings) in point.iter().enumerate() {
                cells.extend(self.known[&(r, settings.clone())].clone()?);
            }
            Ok(cells)
        };
        points.iter().map(cells).collect()
    }

    /// Runs the rigs with settings that are not known yet.
    fn run_unknown(&mut self, rigs: &[Rig], points: &[Vec<Vec<Setting>>], seed: u64, library: &Library) {
        let mut unknown: BTreeSet<(usize, &Vec<Setting>)> = BTreeSet::new();
        for point in points {
            assert_eq!(point.len(), rigs.len(), "a point has the settings of each rig");
            unknown.extend(point.iter().enumerate());
        }
        unknown.retain(|(r, settings)| !self.known.contains_key(&(*r, (*settings).clone())));
        let mut work = Vec::new();
        for (r, settings) in unknown {
            self.known.insert((r, settings.clone()), Ok(Vec::new()));
            work.extend(rigs[r].histories().into_iter().map(|history| (r, settings, history)));
        }
        let progress = &self.progress;
        let results = map_parallel(&work, |(r, settings, history): &(usize, &Vec<Setting>, &[ReadyStep])| {
            if progress.is_stopped() {
                return Err(FittingError::Stopped);
            }
            run_history(&rigs[*r].open(settings, library)?, history, seed)
        });
        for ((r, settings, _), result) in work.into_iter().zip(results) {
            let known = self.known.get_mut(&(r, settings.clone())).expect("it was inserted above");
            match (&mut *known, result) {
                (Ok(cells), Ok(more)) => cells.extend(more),
                (Ok(_), Err(error)) => *known = Err(error),
                (Err(_), _) => {}
            }
        }
    }
}

/// Runs steps in order on one device, and returns the predictions of their observations.
pub(super) fn run_history(
    device: &Device,
    steps: &[ReadyStep],
    seed: u64,
) -> Result<Vec<Predicted>, FittingError> {
    let mut bench = Bench::with(device, seed);
    let mut predicted = Vec::<Predicted>::new();
    for (n, step) in steps.iter().enumerate() {
        let is_left = history::is_left(&steps[..n], step);
        let failed = |what: String| FittingError::Step { step: step.name.clone(), what };
        let first = predicted.len();
        for run in 0..step.runs {
            let statistics =
                run_step(&mut bench, step, run, is_left).map_err(|error| failed(error.to_string()))?;
            for (k, observation) in step.observations.iter().enumerate() {
                let value = observe(&statistics, &step.jobs, observation)
                    .ok_or_else(|| failed("it moves no data in an observed direction".to_owned()))?;
                // The mechanisms are those of the last run.
                match predicted.get_mut(first + k) {
                    Some(mean) => {
                        let sum = mean.value * f64::from(run) + value.value;
                        let longest_ns = mean.longest_ns.max(value.longest_ns);
                        *mean = Predicted { value: sum / f64::from(run + 1), longest_ns, ..value };
                    }
                    None => predicted.push(value),
                }
            }
        }
    }
    Ok(predicted)
}

/// Prepares the device, unless earlier steps left it in the state that the step names, and runs the step's jobs. `run`
/// counts the runs of the step from 0. If the step has several runs, each of them lays out its files anew, on the device
/// as the previous run left it.
fn run_step(
    bench: &mut Bench,
    step: &ReadyStep,
    run: u32,
    is_left: bool,
) -> Result<Statistics, crate::bench::BenchError> {
    if let Some(filesystem) = &step.filesystem {
        bench.format_once(filesystem)?;
    }
    if step.runs > 1 {
        bench.remove_files();
    }
    if run == 0 {
        bench.pause(step.rest);
    }
    let prepare = |bench: &mut Bench, mix, random| {
        // The jobs are prepared one after another, so that the areas of jobs that write in turn are all full
        // before the step begins.
        step.jobs.iter().try_for_each(|job| {
            let jobs = [covering(job, mix, random)];
            let statistics = bench.run(&jobs, &Settings::default())?;
            refusal(&statistics.reports(&jobs)).map_or(Ok(()), Err)
        })
    };
    match step.before {
        State::AsLeft | State::New => {}
        _ if run == 0 && is_left => {}
        State::Unknown => drop(bench.write_before_read(&step.jobs)?),
        State::Discarded => prepare(bench, Mix::Trim, false)?,
        State::WrittenInSequence => prepare(bench, Mix::Write, false)?,
        State::WrittenAtRandom => prepare(bench, Mix::Write, true)?,
    }
    let statistics = bench.run(&step.jobs, &Settings::default())?;
    refusal(&statistics.reports(&step.jobs)).map_or(Ok(statistics), Err)
}

/// Returns a job that covers the addresses of `job` once: in ascending order and with large requests, or in random
/// order with requests of the job's own size.
fn covering(job: &Job, mix: Mix, random: bool) -> Job {
    const LARGE: u64 = 1 << 20;
    Job {
        pattern: Pattern { random, mix, ..Job::default().pattern },
        block_size: if random { job.block_size.clone() } else { [(); 3].map(|()| BlockSize::Fixed(LARGE)) },
        block_align: if random { job.block_align } else { [LARGE; 3] },
        io_size: None,
        number_ios: None,
        runtime: None,
        time_based: false,
        ramp_time: Duration::ZERO,
        rate: [None; 3],
        rate_iops: [None; 3],
        think_time: Duration::ZERO,
        loops: 1,
        fsync: 0,
        fdatasync: 0,
        sync: None,
        ..job.clone()
    }
}

/// Returns the statistics that an observation refers to: the statistics of one job, or the merged statistics
/// of all jobs. The jobs of a wave run at the same time.
fn observed(statistics: &Statistics, jobs: &[Job], observation: &Observation) -> JobStats {
    let mut all = JobStats::default();
    for (n, job) in jobs.iter().enumerate() {
        if observation.job.as_ref().is_none_or(|name| *name == job.name) {
            all.merge(statistics.job(n));
        }
    }
    all
}

fn observe(statistics: &Statistics, jobs: &[Job], observation: &Observation) -> Option<Predicted> {
    let stats = observed(statistics, jobs, observation);
    let stats = stats.direction(observation.direction);
    let requests = stats.clat.count();
    if requests == 0 {
        return None;
    }
    let value = observation.quantity.of(stats);
    let mechanism = |(mechanism, ns): (Mechanism, u64)| (mechanism.name(), ns as f64 / requests as f64);
    let mechanisms_ns = stats.mechanisms_ns().filter(|(_, ns)| *ns > 0).map(mechanism).collect();
    Some(Predicted { value, longest_ns: stats.clat.max().as_ns(), mechanisms_ns })
}

/// Access pattern of an observed job, from which the starts of the search follow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Access {
    /// Direction of the requests.
    pub direction: Direction,
    /// True for random offsets.
    pub random: bool,
    /// Size of a request in bytes.
    pub block: u64,
    /// Maximum number of requests in flight, over all jobs.
    pub depth: u32,
    /// Number of jobs.
    pub streams: u32,
    /// Bytes that each job accesses; `None` if the job does not state them.
    pub area: Option<u64>,
    /// Measured time per request in seconds.
    pub seconds: f64,
}

impl Access {
    /// Returns the pattern of an observation; `None` if its requests have several sizes.
    pub(super) fn of(step: &ReadyStep, observation: &Observation) -> Option<Access> {
        let is_it = |job: &&Job| observation.job.as_ref().is_none_or(|name| *name == job.name);
        let jobs: Vec<&Job> = step.jobs.iter().filter(is_it).collect();
        let job = *jobs.first()?;
        let BlockSize::Fixed(block) = job.block_size[observation.direction as usize] else { return None };
        let seconds = match observation.quantity {
            Quantity::Iops => 1.0 / observation.value,
            Quantity::BytesPerSecond => block as f64 / observation.value,
            _ => observation.value / 1e9,
        };
        let area = match job.size {
            Some(Extent::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        Some(Access {
            direction: observation.direction,
            random: job.pattern.random,
            block,
            depth: job.effective_depth().saturating_mul(jobs.len() as u32),
            streams: jobs.len() as u32,
            area,
            seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rig_runs_again_only_if_its_settings_changed() {
        let library =
            super::super::with_typical(&Library::built_in().expect("the built-in library is valid"));
        let step = |name: &str, before| Step {
            name: name.to_owned(),
            job: ["--name=job", "--direct=1", "--rw=randwrite", "--bs=4k", "--size=8m", "--number_ios=20"]
                .map(str::to_owned)
                .to_vec(),
            before,
            ..Step::default()
        };
        let observed = || vec![Observation::new(Direction::Write, Quantity::LatencyMean, 1.0)];
        let ready = |step: &Step| ReadyStep::of(step, observed(), &library).expect("the job is valid").0;
        // Two histories of one step each.
        let steps = vec![ready(&step("first", State::New)), ready(&step("second", State::New))];
        let rig = Rig { device: super::super::TYPICAL.to_owned(), settings: Vec::new(), steps };
        let rigs = [rig.clone(), rig];
        let of = |us: u32| vec![("ftl.t_commit", format!("{us}us"))];
        let mut known = KnownRuns::default();
        let first = known.predict(&rigs, &[vec![of(300), of(300)], vec![of(400), of(300)]], 1, &library);
        assert_eq!(known.count(), 3, "the second rig runs once");
        let again = known.predict(&rigs, &[vec![of(400), of(300)], vec![of(400), of(500)]], 1, &library);
        assert_eq!(known.count(), 4, "only the second rig has a new number");
        assert_eq!(first[1], again[0]);
        let alone = predict(&rigs, &[vec![of(400), of(500)]], 1, &library);
        assert_eq!(alone[0], again[1]);
        let means = |cells: &Result<Vec<Predicted>, FittingError>| {
            cells.as_ref().expect("the steps run").iter().map(|cell| cell.value).collect::<Vec<_>>()
        };
        let (slow, slower) = (means(&again[0]), means(&again[1]));
        assert_eq!((slow.len(), &slow[..2]), (4, &slower[..2]));
        assert!(slow[2] < slower[2], "a longer commit makes small writes slower");
    }

    #[test]
    fn a_device_that_cannot_be_built_fails_only_its_own_point() {
        let library =
            super::super::with_typical(&Library::built_in().expect("the built-in library is valid"));
        let rig = Rig { device: super::super::TYPICAL.to_owned(), settings: Vec::new(), steps: Vec::new() };
        let of = |value: &str| vec![vec![("ftl.t_commit", value.to_owned())]];
        // Without steps, nothing is built.
        assert_eq!(
            predict(std::slice::from_ref(&rig), &[of("none of these")], 1, &library),
            [Ok(Vec::new())]
        );
        let step = Step {
            name: "new".into(),
            job: ["--name=job", "--direct=1", "--size=1m"].map(str::to_owned).to_vec(),
            ..Step::default()
        };
        let steps = vec![ReadyStep::of(&step, Vec::new(), &library).expect("the job is valid").0];
        let results = predict(&[Rig { steps, ..rig }], &[of("300us"), of("none of these")], 1, &library);
        assert_eq!(results[0], Ok(Vec::new()));
        assert!(matches!(&results[1], Err(FittingError::Device(what)) if what.contains("t_commit")));
    }
}
