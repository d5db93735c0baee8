//! A measurement in progress: the completed steps, the file that keeps their results, and the resumption
//! after an interruption.

use super::size;
use crate::failure::{Failure, STOPPED, say};
use crate::file;
use flashlab_fit::observation::{Mark, Measurements, State, Step, Target};
use flashlab_fit::plan::{ASSUMED_CYCLES, Plan, PlannedStep};
use flashlab_lab::progress::Progress;
use std::path::Path;
use std::process::ExitCode;

/// A measurement of one target by one plan.
pub(super) struct Session<'a> {
    plan: &'a Plan,
    to: &'a Path,
    done: Measurements,
    progress: &'a Progress,
    /// Number of steps that an earlier run has completed.
    resumed: usize,
    /// True if the target keeps the state in which a stopped measurement leaves it.
    can_resume: bool,
    /// True once a discard has failed, so that no step starts from discarded addresses.
    is_discard_lost: bool,
}

/// The program that runs the steps.
#[derive(Clone, Copy)]
pub(super) struct Engine {
    /// Name in measurement files.
    pub(super) name: &'static str,
    /// True if a target keeps the state in which a stopped measurement leaves it, so that the measurement can continue.
    pub(super) can_resume: bool,
}

/// The end of a measurement. The file keeps the results so far.
pub(super) enum Finish {
    /// All steps have run. `failed` steps of this run are incomplete, because a request failed.
    Complete { failed: usize },
    /// Ctrl-C stopped the measurement.
    Stopped,
    /// The device cannot continue, for the reason in the message.
    Fatal(String),
}

impl Finish {
    /// Returns the exit code of the command.
    pub(super) fn code(self) -> Result<ExitCode, Failure> {
        match self {
            Finish::Complete { failed: 0 } => Ok(ExitCode::SUCCESS),
            Finish::Complete { failed: 1 } => {
                Err(Failure::failed("1 step is incomplete, because requests failed; see its notes"))
            }
            Finish::Complete { failed } => Err(Failure::failed(format!(
                "{failed} steps are incomplete, because requests failed; see their notes"
            ))),
            Finish::Stopped => Ok(ExitCode::from(STOPPED)),
            Finish::Fatal(message) => Err(Failure::failed(message)),
        }
    }
}

/// Result of one step.
pub(super) struct Outcome {
    pub(super) step: Step,
    /// Message that ends the measurement, such as that the device is gone.
    pub(super) fatal: Option<String>,
}

impl<'a> Session<'a> {
    /// Starts a measurement, or continues the one in the file.
    pub(super) fn open(
        host: Option<String>,
        plan: &'a Plan,
        to: &'a Path,
        target: Target,
        engine: Engine,
        progress: &'a Progress,
    ) -> Result<Self, Failure> {
        let new = Measurements {
            target,
            host,
            engine: engine.name.to_owned(),
            plan: Some(plan.name.clone()),
            steps: Vec::new(),
        };
        let done = resume(plan, to, &new)?.filter(|_| engine.can_resume).unwrap_or(new);
        let is_discard_lost = done.steps.iter().any(|step| step.name == "discard" && !step.marks.is_empty());
        let resumed = done.steps.len();
        Ok(Session { plan, to, done, progress, resumed, can_resume: engine.can_resume, is_discard_lost })
    }

    /// Returns the number of steps that an earlier run has completed.
    pub(super) fn resumed(&self) -> usize {
        self.resumed
    }

    /// Returns the target.
    pub(super) fn target(&self) -> &Target {
        &self.done.target
    }

    /// Returns the steps that an earlier run has not completed.
    pub(super) fn steps_left(&self) -> &'a [PlannedStep] {
        &self.plan.steps[self.resumed..]
    }

    /// Prints the amounts of data and the time that the measurement needs at most.
    pub(super) fn announce(&self, capacity: u64) {
        let (plan, name) = (self.plan, &self.done.target.name);
        if self.resumed > 0 {
            say(format_args!("{name}: {} of {} steps are done already", self.resumed, plan.steps.len()));
        }
        let seconds = plan.time_max().as_secs_f64();
        let time = format!("at most {:.0} min", (seconds / 60.0).ceil());
        match plan.written_bytes() {
            0 => say(format_args!(
                "{name}: plan {} only reads: up to {}, {time}",
                plan.name,
                size(plan.read_bytes())
            )),
            bytes => say(format_args!(
                "{name}: plan {} writes up to {}, which is {:.4} % of the life of the device if it endures \
                 {ASSUMED_CYCLES} cycles; it reads up to {}, {time}",
                plan.name,
                size(bytes),
                100.0 * plan.life_share(capacity),
                size(plan.read_bytes())
            )),
        }
    }

    /// Runs the remaining steps, and writes the file after each one. `run` returns the result of one step.
    pub(super) fn run(
        mut self,
        mut run: impl FnMut(&PlannedStep) -> Result<Outcome, Failure>,
    ) -> Result<Finish, Failure> {
        let mut failed = 0;
        for (number, planned) in self.plan.steps.iter().enumerate().skip(self.resumed) {
            self.progress.enter(&planned.name);
            let Outcome { mut step, fatal } = run(planned)?;
            if self.is_discard_lost && step.before == State::Discarded {
                step.before = State::AsLeft;
            }
            let is_stopped = self.progress.is_stopped();
            if is_stopped && !step.is_marked(Mark::Incomplete) {
                step.marks.push(Mark::Incomplete);
            }
            if planned.only_prepares && step.is_marked(Mark::Warned) {
                self.is_discard_lost = true;
            }
            let is_incomplete = step.is_marked(Mark::Incomplete);
            failed += usize::from(is_incomplete);
            self.done.steps.push(step);
            file::write(self.to, self.done.to_json().as_bytes())?;
            let left = self.plan.steps.len() - number - usize::from(!is_incomplete);
            if let Some(message) = fatal {
                let to = self.to.display();
                let left =
                    if left == 1 { "1 step is left".to_owned() } else { format!("{left} steps are left") };
                return Ok(Finish::Fatal(format!("{message}; {to} keeps the results so far, and {left}")));
            }
            if is_stopped {
                let to = self.to.display();
                let next = match self.can_resume {
                    true => format!("runs the {left} steps left"),
                    false => "measures all steps again".to_owned(),
                };
                say(format_args!("stopped; {to} keeps the results so far; the same command {next}"));
                return Ok(Finish::Stopped);
            }
        }
        say(format_args!("{} contains {} steps", self.to.display(), self.done.steps.len()));
        Ok(Finish::Complete { failed })
    }
}

/// Returns the unfinished measurement of the same target and plan that the file contains; `None` if there is
/// no file. Any other file is an error.
fn resume(plan: &Plan, to: &Path, new: &Measurements) -> Result<Option<Measurements>, Failure> {
    let text = match std::fs::read_to_string(to) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::io(to, &error)),
    };
    let refuse = |why: String| {
        Err(Failure::usage(format!("{}: {why}; name another file, or remove this one", to.display())))
    };
    let mut old = match Measurements::parse(&text) {
        Ok(old) => old,
        Err(error) => return refuse(format!("it exists, and is no measurement to continue ({error})")),
    };
    if (&old.target.name, &old.plan, &old.engine) != (&new.target.name, &new.plan, &new.engine) {
        return refuse(format!(
            "it contains a measurement of {} by the plan {}",
            old.target.name,
            old.plan.as_deref().unwrap_or("of another program")
        ));
    }
    if let Some((what, before, now)) = difference(&old.target, &new.target) {
        return refuse(format!(
            "it contains a measurement of another device or filesystem at {}, whose {what} was {before} and is {now} now",
            old.target.name
        ));
    }
    // The last step of an interrupted measurement runs again.
    if old.steps.last().is_some_and(|step| step.is_marked(Mark::Incomplete)) {
        old.steps.pop();
    }
    if old.steps.len() >= plan.steps.len() {
        return refuse("it contains a complete measurement".to_owned());
    }
    let is_prefix = old.steps.iter().zip(&plan.steps).all(|(step, planned)| step.job == planned.job);
    if !is_prefix {
        return refuse("its steps are not those of this plan".to_owned());
    }
    old.host.clone_from(&new.host);
    Ok(Some(old))
}

/// Returns the first property in which the target of an earlier run differs from the present target of the
/// same name, with both values.
fn difference(old: &Target, new: &Target) -> Option<(&'static str, String, String)> {
    let known = |value: &Option<String>| value.as_deref().unwrap_or("not known").to_owned();
    let number = |value: Option<u64>| value.map_or_else(|| "not known".to_owned(), |value| value.to_string());
    let block = |target: &Target| number(target.block_bytes.map(u64::from));
    [
        ("filesystem's identity", known(&old.filesystem_id), known(&new.filesystem_id)),
        ("serial number", known(&old.serial), known(&new.serial)),
        ("model", known(&old.model), known(&new.model)),
        ("capacity in bytes", number(old.capacity_bytes), number(new.capacity_bytes)),
        ("logical block in bytes", block(old), block(new)),
    ]
    .into_iter()
    .find(|(_, before, now)| before != now)
}
