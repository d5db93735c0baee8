//! The published figures of an experiment as measurements of one of its devices.

use super::Experiment;
use super::definition::{Metric, Preparation, THROUGHPUTS};
use super::measured::bytes_of;
use crate::results::Published;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::{Direction, Mix};
use flashlab_fit::observation::{Measurements, Observation, Quantity, State, Step, Target};

/// Name of the engine in measurements that are published figures.
pub const ENGINE_PUBLISHED: &str = "published";

impl Experiment {
    /// Returns the published figures of `column` as measurements: the preparation and the steps in their order on a new
    /// device.
    ///
    /// # Errors
    /// Returns an error if the experiment lacks the column, or if it has rows, because each row changes the
    /// device.
    pub fn measurements(&self, column: &str, library: &Library) -> Result<Measurements, String> {
        self.check_column(column).map_err(|error| error.to_string())?;
        let device = self.device(column, "", library).map_err(|error| error.to_string())?;
        if !self.definition.rows.is_empty() {
            return Err(format!(
                "{} has rows, each with a device of its own; expected an experiment without rows",
                self.name()
            ));
        }
        let prepare = |preparation: &Preparation| Step {
            name: "preparation".to_owned(),
            job: words(&preparation.job),
            before: State::AsLeft,
            ..Step::default()
        };
        let mut steps: Vec<Step> = self.definition.preparation.iter().map(prepare).collect();
        for step in self.definition.steps.iter().filter(|step| step.is_on(column)) {
            let jobs = self.read_job(&step.table, &step.job).map_err(|error| error.to_string())?;
            let direction = match jobs.first().map(|job| job.pattern.mix) {
                Some(Mix::Read) => Direction::Read,
                Some(Mix::Write) => Direction::Write,
                _ => return Err(format!("step {}: expected a job that reads or writes", step.table)),
            };
            let is_rate = step.metric == Metric::Throughput && THROUGHPUTS.contains(&step.unit.as_str());
            let observation = match self.published.cell(&step.table, "", column) {
                Some((Published::Figure { mean, sd }, _)) if is_rate => {
                    let (quantity, factor) = match step.unit.as_str() {
                        "IOPS" => (Quantity::Iops, 1.0),
                        "kIOPS" => (Quantity::Iops, 1e3),
                        unit => (Quantity::BytesPerSecond, bytes_of(unit)),
                    };
                    Some(Observation {
                        sd: sd.map(|sd| sd * factor),
                        runs: self.definition.runs,
                        ..Observation::new(direction, quantity, mean * factor)
                    })
                }
                // A fit reads rates only.
                _ => None,
            };
            steps.push(Step {
                name: step.table.clone(),
                job: words(&step.job),
                before: State::AsLeft,
                filesystem: step.filesystem.clone(),
                observations: observation.into_iter().collect(),
                ..Step::default()
            });
        }
        if let Some(first) = steps.first_mut() {
            first.before = State::New;
        }
        Ok(Measurements {
            target: Target {
                name: device.name.clone(),
                capacity_bytes: Some(device.capacity()),
                ..Target::default()
            },
            host: Some(device.host_name.clone()),
            engine: ENGINE_PUBLISHED.to_owned(),
            plan: None,
            steps,
        })
    }
}

fn words(job: &str) -> Vec<String> {
    job.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurements(experiment: &str, column: &str) -> Result<Measurements, String> {
        let library = Library::built_in().expect("the library is sound");
        Experiment::open(experiment, &library).expect("a shipped experiment").measurements(column, &library)
    }

    #[test]
    fn the_steps_of_an_experiment_follow_its_preparation() {
        let steps = measurements("usb-sticks", "usb3-1").expect("an experiment without rows").steps;
        assert_eq!((&*steps[0].name, &steps[0].before), ("preparation", &State::New));
        assert!(steps[0].observations.is_empty() && steps[0].job.iter().any(|word| word == "--rw=write"));
        assert!(steps[1..].iter().all(|step| step.before == State::AsLeft), "{steps:?}");
        assert!(steps.iter().any(|step| !step.observations.is_empty()), "{steps:?}");
    }

    #[test]
    fn experiments_with_rows_are_refused() {
        let error = measurements("at91", "sandisk-2gb").expect_err("it has rows");
        assert!(error.contains("at91 has rows"), "{error}");
    }
}
