//! The runs of each job: equal jobs are runs of one step.

use super::{ImportError, Problem};
use crate::observation::{Mark, Observation, Quantity, State, Step, problem_of};
use flashlab_fio::job::{BlockSize, Direction};

/// The steps of a text, with the values of each run.
#[derive(Default)]
pub(super) struct Runs {
    steps: Vec<(Step, Vec<Series>)>,
}

/// The values of one quantity, by run.
struct Series {
    direction: Direction,
    quantity: Quantity,
    values: Vec<f64>,
}

/// A job that ran, without its numbers.
pub(super) struct Ran<'a> {
    /// Name of the step. Another job of the same name gets a number after its name.
    pub(super) name: String,
    /// Options of fio, separated by spaces, without `--name` and `--direct`.
    pub(super) options: String,
    pub(super) before: State,
    /// Filesystem under the job, if the program implies one.
    pub(super) filesystem: Option<&'a str>,
    pub(super) assumptions: Vec<String>,
    pub(super) warning: Option<String>,
}

impl Runs {
    /// Adds the numbers of one run of a job, which are on line `line`. Returns the index of its step.
    pub(super) fn add(
        &mut self,
        line: usize,
        ran: Ran<'_>,
        direction: Direction,
        numbers: &[(Quantity, f64)],
    ) -> Result<usize, ImportError> {
        let index = match self.steps.iter().position(|(step, _)| is_run_of(&ran, step)) {
            Some(index) => index,
            None => {
                let step = self.step(&ran);
                if let Some(problem) = problem_of(&step) {
                    let problem = Problem::Job { job: step.name, message: problem.to_string() };
                    return Err(ImportError::at(line, problem));
                }
                self.steps.push((step, Vec::new()));
                self.steps.len() - 1
            }
        };
        for (quantity, value) in numbers {
            if !(value.is_finite() && *value > 0.0) {
                let (what, text) = (quantity.to_string(), value.to_string());
                return Err(ImportError::at(line, Problem::Value { what, text }));
            }
            let all = &mut self.steps[index].1;
            match all.iter_mut().find(|series| series.direction == direction && series.quantity == *quantity)
            {
                Some(series) => series.values.push(*value),
                None => all.push(Series { direction, quantity: *quantity, values: vec![*value] }),
            }
        }
        Ok(index)
    }

    /// Returns the size of the requests of a step, if it is fixed.
    pub(super) fn block_size(&self, step: usize, direction: Direction) -> Option<u64> {
        let jobs = self.steps[step].0.jobs().ok()?;
        match jobs.first()?.block_size[direction as usize] {
            BlockSize::Fixed(block) => Some(block),
            _ => None,
        }
    }

    /// Returns a new step for a job, with a name that no other step has.
    fn step(&self, ran: &Ran<'_>) -> Step {
        let is_taken = |name: &str| self.steps.iter().any(|(step, _)| step.name == name);
        let mut name = ran.name.clone();
        for number in 2.. {
            if !is_taken(&name) {
                break;
            }
            name = format!("{} {number}", ran.name);
        }
        let mut job = vec![format!("--name={}", ran.name)];
        job.extend(options(ran));
        Step {
            name,
            job,
            before: ran.before,
            filesystem: ran.filesystem.map(str::to_owned),
            assumptions: ran.assumptions.clone(),
            marks: ran.warning.iter().map(|_| Mark::Warned).collect(),
            notes: ran.warning.iter().cloned().collect(),
            ..Step::default()
        }
    }

    /// Returns the steps with the mean and the deviation of each quantity.
    pub(super) fn steps(self) -> Vec<Step> {
        let finish = |(mut step, all): (Step, Vec<Series>)| {
            step.observations = all.iter().map(Series::observation).collect();
            step
        };
        self.steps.into_iter().map(finish).collect()
    }
}

fn options(ran: &Ran<'_>) -> impl Iterator<Item = String> {
    let written = ran.options.split_whitespace().map(|option| format!("--{option}")).collect::<Vec<_>>();
    written.into_iter().chain(["--direct=1".to_owned()])
}

fn is_run_of(ran: &Ran<'_>, step: &Step) -> bool {
    step.job[1..].iter().eq(options(ran).collect::<Vec<_>>().iter())
        && step.before == ran.before
        && step.assumptions == ran.assumptions
}

impl Series {
    fn observation(&self) -> Observation {
        let n = self.values.len() as f64;
        let mean = self.values.iter().sum::<f64>() / n;
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (self.values.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        Observation {
            sd,
            runs: self.values.len() as u32,
            ..Observation::new(self.direction, self.quantity, mean)
        }
    }
}
