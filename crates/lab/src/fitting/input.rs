//! The inputs of a fit: measurement files, and the columns of experiments.

use super::FitSettings;
use super::FittingError;
use super::forward::{Access, ReadyStep};
use super::history;
use crate::experiment::{ENGINE_PUBLISHED, Experiment};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::{HostError, Library};
use flashlab_catalogue::profile::Kind;
use flashlab_fio::job::{Direction, Job};
use flashlab_fit::estimate::Cell;
use flashlab_fit::observation::{Latencies, Mark, Measurements, Observation, Quantity, Step};
use std::path::Path;

/// The measurements of one card.
#[derive(Clone, Debug)]
pub struct Input {
    /// Name of the card in the names of cells: `raw write 1M/kingston`.
    pub label: String,
    /// The measurements.
    pub measurements: Measurements,
}

/// Measurements in the form that the forward model needs.
pub(super) struct Ready {
    pub(super) steps: Vec<ReadyStep>,
    pub(super) cells: Vec<Cell>,
    pub(super) accesses: Vec<Access>,
    /// Longest latency of each cell's writes in nanoseconds, if it was measured.
    pub(super) longest_writes: Vec<Option<u64>>,
    pub(super) capacity: Option<u64>,
    pub(super) notes: Vec<String>,
}

/// Returns the published cells of an experiment's column, such as `kingston` of `sd-cards`, as measurements that name
/// the host of the column's device.
pub fn measurements_of_experiment(
    experiment: &str,
    column: &str,
    library: &Library,
) -> Result<Measurements, FittingError> {
    let failed = |error: crate::experiment::ExperimentError| FittingError::Experiment(error.to_string());
    let experiment = Experiment::open(experiment, library).map_err(failed)?;
    experiment.measurements(column, library).map_err(FittingError::Experiment)
}

/// Returns the host of each input: the host of the settings, or the host that the measurements name.
pub(super) fn hosts_of(inputs: &[Input], settings: &FitSettings) -> Result<Vec<String>, FittingError> {
    let named = |input: &Input| input.measurements.host.clone().ok_or(FittingError::NoHost);
    match &settings.hosts[..] {
        [] => inputs.iter().map(named).collect(),
        [host] => Ok(vec![host.clone(); inputs.len()]),
        hosts if hosts.len() == inputs.len() => Ok(hosts.to_vec()),
        hosts => Err(FittingError::HostCount { hosts: hosts.len(), inputs: inputs.len() }),
    }
}

/// Returns sentences on hosts other than those that the measurements name, and on different targets of one card.
pub(super) fn doubts(inputs: &[Input], hosts: &[String], settings: &FitSettings) -> Vec<String> {
    let mut doubts = Vec::new();
    for (input, host) in inputs.iter().zip(hosts) {
        if let Some(named) = input.measurements.host.as_ref().filter(|named| *named != host) {
            let label = &input.label;
            doubts
                .push(format!("{label} was measured on {named}, but is fitted on {host}, because of --host"));
        }
    }
    let of = |input: &Input| {
        let target = &input.measurements.target;
        target.serial.clone().or_else(|| target.model.clone())
    };
    let mut targets: Vec<String> = inputs.iter().filter_map(of).collect();
    targets.sort();
    targets.dedup();
    if settings.same_card && targets.len() > 1 {
        doubts.push(format!(
            "the measurements name different targets, {}, which --same-card takes for one card",
            targets.join(" and ")
        ));
    }
    doubts
}

/// Rejects hosts that the base profile cannot be plugged into, and different hosts of cards that are fitted together.
pub(super) fn check_hosts(
    hosts: &[String],
    settings: &FitSettings,
    library: &Library,
) -> Result<(), FittingError> {
    let base = settings.bases.first().expect("a fit has a base profile");
    let base = Device::open(base, library).map_err(|error| FittingError::Device(error.to_string()))?;
    let known = |host: &String| check_host(host, base.kind(), library);
    hosts.iter().try_for_each(known)?;
    let mut different = hosts.to_vec();
    different.sort();
    different.dedup();
    // Cards on different hosts cannot be fitted together. One card on several hosts can be fitted, but
    // without the numbers of the hosts.
    match different.len() {
        1 => Ok(()),
        _ if !settings.same_card => Err(FittingError::Hosts(different)),
        _ if settings.fit_host => Err(FittingError::HostsOfOneCard(different)),
        _ => Ok(()),
    }
}

/// Rejects a host that does not exist or that is of another kind than the device needs.
fn check_host(name: &str, device: Kind, library: &Library) -> Result<(), FittingError> {
    let kind = device.host().expect("a device has a host");
    let unknown = |did_you_mean| FittingError::UnknownHost {
        name: name.to_owned(),
        did_you_mean,
        known: library.of_kind(kind).map(|(name, _)| name.to_owned()).collect(),
    };
    match library.host(name) {
        Ok(profile) if profile.kind == kind => Ok(()),
        Ok(_) => Err(FittingError::WrongHost {
            name: name.to_owned(),
            known: library.of_kind(kind).map(|(name, _)| name.to_owned()).collect(),
        }),
        Err(HostError::Unknown(error)) => Err(unknown(error.did_you_mean)),
        Err(error) => Err(FittingError::Device(error.to_string())),
    }
}

impl Input {
    /// Reads the measurements that an argument names: a file, or the published cells of an experiment's column, such as
    /// `sd-cards:kingston`. `base` is the base profile that the user chose, if any. `read` returns the bytes of a file,
    /// or the reason why it cannot be read.
    pub fn open(
        name: &str,
        base: Option<&str>,
        library: &Library,
        read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Input, FittingError> {
        if let Some((experiment, column)) = name.split_once(':')
            && !Path::new(name).exists()
        {
            let measurements = measurements_of_experiment(experiment, column, library)?;
            // If the base is the column's own profile, the sources of the new profile name the cells of the
            // experiment, which then counts them as fitted. Any other profile must not name these cells,
            // because it would be taken for a copy of the profile that the experiment uses.
            let label = if base == Some(measurements.target.name.as_str()) { column } else { name };
            return Ok(Input { label: label.to_owned(), measurements });
        }
        if !Path::new(name).is_file() && library.device(name).is_ok() {
            return Err(FittingError::DeviceNamed(name.to_owned()));
        }
        let wrong = |what: String| FittingError::File { file: name.to_owned(), what };
        let text = String::from_utf8(read(name).map_err(wrong)?).map_err(|error| {
            let at = error.utf8_error().valid_up_to() + 1;
            wrong(format!("byte {at} is not valid UTF-8; expected a text file"))
        })?;
        let stem =
            Path::new(name).file_stem().map_or("card".into(), |stem| stem.to_string_lossy().into_owned());
        let parsed = flashlab_fit::import::parse(&text, &stem);
        let measurements = parsed.map_err(|error| wrong(error.to_string()))?;
        Ok(Input { label: stem, measurements })
    }

    /// Returns true if the base profile is the profile of the measured device, so that the fit updates this profile.
    pub(super) fn is_refit(&self, base: &str) -> bool {
        self.measurements.target.name == base
    }

    /// Returns true if the measurements are the published figures of an experiment.
    pub(super) fn is_of_experiment(&self) -> bool {
        self.measurements.engine == ENGINE_PUBLISHED
    }

    /// Prepares the steps and selects the observations that a fit uses. The names of the cells contain the card's label,
    /// unless the fit has only these measurements, from a file.
    pub(super) fn ready(
        &self,
        settings: &FitSettings,
        is_only: bool,
        library: &Library,
    ) -> Result<Ready, FittingError> {
        let label = Some(&self.label).filter(|_| !is_only || self.is_of_experiment());
        let mut ready = Ready {
            steps: Vec::new(),
            cells: Vec::new(),
            accesses: Vec::new(),
            longest_writes: Vec::new(),
            capacity: self.measurements.target.capacity_bytes,
            notes: Vec::new(),
        };
        let has_tail = |step: &&Step| step.observations.iter().any(|o| is_tail(o.quantity));
        match self.measurements.steps.iter().filter(has_tail).count() {
            0 => {}
            1 => ready.notes.push("percentiles and maxima of one step are not fitted".to_owned()),
            steps => ready.notes.push(format!("percentiles and maxima of {steps} steps are not fitted")),
        }
        ready.notes.extend(self.sentences("assumed ", |step| &step.assumptions));
        ready.notes.extend(self.sentences("", |step| &step.notes));
        ready.notes.extend(self.repeated());
        let (mut unknown, mut incomplete, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        for step in self.measurements.steps.iter().filter(|step| !is_failed_discard(step)) {
            if has_no_request(step) {
                idle.push(step.name.as_str());
                continue;
            }
            let is_chosen = settings.steps.is_empty() || settings.steps.contains(&step.name);
            let used = if is_chosen { used(step) } else { Vec::new() };
            let (mut ready_step, note) = ReadyStep::of(step, used, library)?;
            if settings.exact {
                ready_step.runs = step.observations.iter().map(|o| o.runs).max().unwrap_or(1);
            }
            ready.notes.extend(note);
            // A plan states every state that it knows.
            if self.measurements.plan.is_some()
                && !ready_step.observations.is_empty()
                && !history::is_state_known(&ready.steps, &ready_step)
            {
                unknown.push(step.name.as_str());
                ready_step.observations.clear();
            }
            let used = &ready_step.observations;
            if !used.is_empty() {
                if step.is_marked(Mark::Incomplete) {
                    incomplete.push(step.name.as_str());
                }
                ready.notes.extend(inconsistent(step, &ready_step));
            }
            for observation in used {
                ready.cells.push(self.cell(step, observation, used.len(), label));
                ready.accesses.extend(Access::of(&ready_step, observation));
                ready.longest_writes.push(longest_write(step, observation));
            }
            ready.steps.push(ready_step);
        }
        ready.notes.extend(named(
            &incomplete,
            "is incomplete; its cells count like others",
            "are incomplete; their cells count like others",
        ));
        ready.notes.extend(named(
            &idle,
            "completed no request; it is left out",
            "completed no request; they are left out",
        ));
        ready.notes.extend(unknown_states(&unknown));
        // Steps after the last observation change nothing that is observed.
        let last = ready.steps.iter().rposition(|step| !step.observations.is_empty());
        ready.steps.truncate(last.map_or(0, |last| last + 1));
        Ok(ready)
    }

    /// Returns a sentence for each text that `of` finds in the steps. The sentence names the first step with the text.
    fn sentences(&self, before: &str, of: impl Fn(&Step) -> &Vec<String>) -> Vec<String> {
        let mut steps_of: Vec<(&String, Vec<&str>)> = Vec::new();
        for step in &self.measurements.steps {
            for text in of(step) {
                match steps_of.iter_mut().find(|(known, _)| *known == text) {
                    Some((_, steps)) => steps.push(&step.name),
                    None => steps_of.push((text, vec![&step.name])),
                }
            }
        }
        let sentence = |(text, steps): (&String, Vec<&str>)| match &steps[..] {
            [step] => format!("step {step}: {before}{text}"),
            [step, others @ ..] => {
                let plural = if others.len() == 1 { "" } else { "s" };
                format!("step {step} and {} other{plural}: {before}{text}", others.len())
            }
            [] => unreachable!("a step has the text"),
        };
        steps_of.into_iter().map(sentence).collect()
    }

    /// Returns a sentence if cells are means of several runs of a log.
    fn repeated(&self) -> Option<String> {
        let runs = |step: &Step| step.observations.iter().map(|o| o.runs).max().unwrap_or(1);
        let repeated: Vec<u32> = self.measurements.steps.iter().map(runs).filter(|runs| *runs > 1).collect();
        let most = repeated.iter().max()?;
        let steps = if repeated.len() == 1 { "step ran" } else { "steps ran" };
        Some(format!("{} {steps} up to {most} times; a cell is the mean of its runs", repeated.len()))
    }

    fn cell(&self, step: &Step, observation: &Observation, of: usize, label: Option<&String>) -> Cell {
        let mut name = step.name.clone();
        if of > 1 {
            for part in observation.job.iter().map(String::as_str).chain([observation.direction.name()]) {
                name = format!("{name} {part}");
            }
        }
        // The name of a job does not affect its requests.
        let job: Vec<&String> = step.job.iter().filter(|word| !word.starts_with("--name=")).collect();
        let state = format!("{job:?} {:?} {:?}", step.before, step.filesystem);
        let what = format!("{:?} {} {}", observation.job, observation.direction.name(), observation.quantity);
        // A step that continues in the state that the step before left is no repetition, even if its job is the same.
        let repeats = (step.before != flashlab_fit::observation::State::AsLeft)
            .then(|| format!("{} {state} {what}", self.label));
        Cell {
            name: label.map_or(name.clone(), |label| format!("{name}/{label}")),
            unit: observation.quantity.to_string(),
            value: observation.value,
            sd: observation.sd.unwrap_or(0.0),
            slowest_share: slowest_share(step, observation),
            repeats,
        }
    }
}

/// Returns the latencies of an observation, if they were measured.
fn latencies<'a>(step: &'a Step, observation: &Observation) -> Option<&'a Latencies> {
    step.latencies.iter().find(|l| l.direction == observation.direction && l.job == observation.job)
}

fn longest_write(step: &Step, observation: &Observation) -> Option<u64> {
    let written = latencies(step, observation).filter(|l| l.direction == Direction::Write);
    written.map(|l| l.max_ns)
}

/// Returns the share by which one more or one fewer of the slowest requests changes the mean of a single run; 0 if the
/// latencies are not known.
fn slowest_share(step: &Step, observation: &Observation) -> f64 {
    // The deviation over several runs includes this share.
    latencies(step, observation)
        .filter(|_| observation.sd.is_none())
        .filter(|l| l.mean_ns > 0.0)
        .map_or(0.0, |l| (l.max_ns as f64 - l.mean_ns).max(0.0) / (l.count as f64 * l.mean_ns))
}

/// Returns a sentence if the rate and the mean latency of a step contradict each other: by Little's law, their product is
/// the mean number of requests in flight, which the queue depth limits.
fn inconsistent(step: &Step, ready: &ReadyStep) -> Option<String> {
    let limit: u32 = ready.jobs.iter().map(Job::effective_depth).sum();
    Direction::ALL.into_iter().find_map(|direction| {
        let (iops, latency) =
            (step.find(direction, Quantity::Iops)?, step.find(direction, Quantity::LatencyMean)?);
        let in_flight = iops.value * latency.value / 1e9;
        (iops.job.is_none() && latency.job.is_none() && in_flight > 1.1 * f64::from(limit)).then(|| {
            format!(
                "step {}: {:.0} IOPS and a mean latency of {:.0} us contradict each other at a queue depth of {limit}; \
                 the rate is fitted",
                step.name,
                iops.value,
                latency.value / 1e3
            )
        })
    })
}

/// Returns true if the step is a failed discard of a plan, which changed nothing.
fn is_failed_discard(step: &Step) -> bool {
    step.observations.is_empty()
        && step.is_marked(Mark::Warned)
        && step.job.iter().any(|option| option == "--rw=trim")
}

/// Returns true if the step ended before its first request was complete, and therefore changed nothing.
fn has_no_request(step: &Step) -> bool {
    step.observations.is_empty() && step.latencies.is_empty() && step.is_marked(Mark::Incomplete)
}

/// Returns a sentence on the steps with these names. Its predicate is `one` for a single step, else
/// `several`.
fn named(steps: &[&str], one: &str, several: &str) -> Option<String> {
    match steps {
        [] => None,
        [step] => Some(format!("step {step} {one}")),
        _ => Some(format!("steps {} {several}", steps.join(", "))),
    }
}

/// Returns a sentence on the steps that are left out because the state of their addresses is not known.
fn unknown_states(steps: &[&str]) -> Option<String> {
    let subject = match steps {
        [] => return None,
        [step] => format!("step {step} is left out, because no discard brought its area"),
        _ => format!("steps {} are left out, because no discard brought their areas", steps.join(", ")),
    };
    Some(format!(
        "{subject} into a known state; to use such writes, measure in a slot or a reader that accepts discards"
    ))
}

fn is_tail(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::LatencyMax | Quantity::LatencyPercentile(_))
}

/// Returns the observations of a step that a fit uses. Rates and the mean latency of one job and direction carry the
/// same information, so only the first of them in this order counts: requests, bytes, mean latency.
fn used(step: &Step) -> Vec<Observation> {
    let rank = |quantity: Quantity| match quantity {
        Quantity::Iops => 0,
        Quantity::BytesPerSecond => 1,
        _ => 2,
    };
    let means = step.observations.iter().filter(|o| !is_tail(o.quantity));
    let mut used: Vec<Observation> = Vec::new();
    for observation in means {
        let same = |o: &&mut Observation| (&o.job, o.direction) == (&observation.job, observation.direction);
        match used.iter_mut().find(same) {
            Some(known) if rank(observation.quantity) < rank(known.quantity) => known.clone_from(observation),
            Some(_) => {}
            None => used.push(observation.clone()),
        }
    }
    used
}
