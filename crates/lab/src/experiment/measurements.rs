//! The published figures of an experiment as measurements of one of its devices.

use super::Experiment;
use super::definition::{Metric, THROUGHPUTS};
use super::measured::bytes_of;
use crate::results::Published;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::{Direction, Mix};
use flashlab_fit::observation::{Measurements, Observation, Quantity, State, Step, Target};

/// Name of the engine in measurements that are published figures.
pub const ENGINE_PUBLISHED: &str = "published";

impl Experiment {
    /// Returns the published figures of `column` as measurements: the steps in their order on a new device.
    pub fn measurements(&self, column: &str, library: &Library) -> Result<Measurements, String> {
        self.check_column(column).map_err(|error| error.to_string())?;
        let device = self.device(column, "", library).map_err(|error| error.to_string())?;
        let mut steps = Vec::new();
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
                job: step.job.split_whitespace().map(str::to_owned).collect(),
                before: if steps.is_empty() { State::New } else { State::AsLeft },
                filesystem: step.filesystem.clone(),
                observations: observation.into_iter().collect(),
                ..Step::default()
            });
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
