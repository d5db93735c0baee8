//! Plans: a device, a job, and the points at which they run.
//!
//! ```toml
//! device = "sd/kingston"
//! job = "--rw=randwrite --bs=4k --size=64m --runtime=10 --ioengine=libaio"   # or a job file's text, or a table
//! [grid]                                                                     # every combination of these values
//! "flash.t_prog" = ["250us", "500us", "1ms"]
//! iodepth = [1, 4, 16]
//! ```

use crate::error::SweepError;
use crate::point::{InOrder, Point, Value};
use crate::sample::Sample;
use flashlab_catalogue::profile::{did_you_mean, suggest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of points of a sweep, which bounds its memory.
pub(crate) const POINTS_MAX: u64 = 10_000_000;

/// A device, a job, and the points at which they run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The device, as an argument of `flashlab bench` names it.
    pub device: String,
    /// The job.
    pub job: JobText,
    /// Filesystem between the job and the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs: Option<String>,
    /// Seed of the medium.
    #[serde(default = "one")]
    pub seed: u64,
    /// True to leave the device unwritten. Otherwise, the data that a job reads is written before the job
    /// begins, except on a device that starts from a saved state.
    #[serde(default)]
    pub unwritten: bool,
    /// The values of each name; every combination is a point.
    #[serde(
        default,
        deserialize_with = "in_order",
        serialize_with = "as_map",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub grid: Vec<(String, Vec<Value>)>,
    /// A random sample of points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// A list of points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
}

/// A job, in one of the forms that fio knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JobText {
    /// A command line, or the text of a job file.
    Text(String),
    /// Options of one job.
    #[serde(deserialize_with = "in_order", serialize_with = "as_map")]
    Options(Vec<(String, Value)>),
}

fn one() -> u64 {
    1
}

impl Plan {
    /// Reads a plan from the text of a TOML file.
    ///
    /// # Errors
    /// Returns the fault with its line.
    pub fn from_toml(text: &str) -> Result<Plan, SweepError> {
        toml::from_str(text).map_err(|error| fault(&with_suggestion(error.to_string().trim_end())))
    }

    /// Reads a plan from JSON of the same structure.
    ///
    /// # Errors
    /// Returns the fault with its line.
    pub fn from_json(text: &str) -> Result<Plan, SweepError> {
        serde_json::from_str(text).map_err(|error| fault(&with_suggestion(&error.to_string())))
    }

    /// Returns the plan with other points.
    pub fn with_points(&self, points: Vec<Point>) -> Plan {
        Plan { grid: Vec::new(), sample: None, points, ..self.clone() }
    }

    /// Returns the plan as JSON, for [`Plan::from_json`] in another process.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a plan is JSON")
    }

    /// Returns the points in the order of the plan: the last name of a grid varies fastest.
    ///
    /// # Errors
    /// Returns an error if the points are given in none or in several of the forms, if there are too
    /// many points, or if the grid or the sample has a fault.
    pub fn all_points(&self) -> Result<Vec<Point>, SweepError> {
        let kinds = [!self.grid.is_empty(), self.sample.is_some(), !self.points.is_empty()];
        match kinds.iter().filter(|is_there| **is_there).count() {
            1 => {}
            0 => {
                return Err(fault(
                    "no points: give [grid] a list of values for each name, or [sample] ranges",
                ));
            }
            _ => {
                return Err(fault(
                    "give the points as a grid, as a sample or as a list, not as several of these",
                ));
            }
        }
        let count = match &self.sample {
            Some(sample) => Some(sample.count),
            None if !self.points.is_empty() => Some(self.points.len() as u64),
            None => self.grid.iter().try_fold(1_u64, |all, (_, values)| all.checked_mul(values.len() as u64)),
        };
        if count.is_none_or(|count| count > POINTS_MAX) {
            return Err(SweepError::Plan(format!("the sweep has over {POINTS_MAX} points; divide it")));
        }
        match &self.sample {
            Some(sample) => sample.points(),
            None if !self.points.is_empty() => Ok(self.points.clone()),
            None => self.combinations(),
        }
    }

    fn combinations(&self) -> Result<Vec<Point>, SweepError> {
        for (name, values) in &self.grid {
            if values.is_empty() {
                return Err(SweepError::Plan(format!("grid: {name}: the list has no values")));
            }
            let twice = values.iter().enumerate().find(|(n, value)| values[..*n].contains(value));
            if let Some((_, value)) = twice {
                return Err(SweepError::Plan(format!("grid: {name}: the value {value} is given twice")));
            }
        }
        let mut points = vec![Point::default()];
        for (name, values) in &self.grid {
            let extended = |point: &Point| {
                let point = point.clone();
                values.iter().map(move |value| {
                    let mut point = point.clone();
                    point.0.push((name.clone(), value.clone()));
                    point
                })
            };
            points = points.iter().flat_map(|point| extended(point).collect::<Vec<_>>()).collect();
        }
        Ok(points)
    }
}

/// Appends the key that was probably meant to an error message about an unknown key. The message lists the known keys.
fn with_suggestion(message: &str) -> String {
    let unknown = message.split_once("unknown field `").map(|(_, rest)| rest);
    let names: Vec<&str> = unknown.into_iter().flat_map(|rest| rest.split('`').step_by(2)).collect();
    let suggestion = names.split_first().and_then(|(name, known)| suggest(name, known.iter().copied()));
    format!("{message}{}", did_you_mean(suggestion))
}

fn fault(text: &str) -> SweepError {
    SweepError::Plan(text.to_owned())
}

/// Reads a map into a list, in the order of the text.
pub(crate) fn in_order<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<(String, T)>, D::Error> {
    deserializer.deserialize_map(InOrder::default())
}

/// Writes a list as a map.
pub(crate) fn as_map<S: Serializer, T: Serialize>(
    entries: &[(String, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(name, value)| (name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "device = \"sd/kingston\"\njob = \"--rw=randwrite\"\n";

    #[test]
    fn a_grid_has_every_combination_and_its_last_name_varies_fastest() {
        let plan = Plan::from_toml(&format!("{BASE}[grid]\nzz = [1, 2.5]\nbs = [\"4k\", \"8k\"]")).unwrap();
        let points: Vec<String> = plan.all_points().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(points, ["zz=1, bs=4k", "zz=1, bs=8k", "zz=2.5, bs=4k", "zz=2.5, bs=8k"]);
    }

    #[test]
    fn a_plan_with_other_points_is_read_again_from_json() {
        let plan = Plan::from_toml(&format!("{BASE}seed = 7\n[grid]\nbs = [\"4k\", \"8k\"]")).unwrap();
        let points = plan.all_points().unwrap();
        let again = Plan::from_json(&plan.with_points(points[1..].to_vec()).to_json()).unwrap();
        assert_eq!((again.seed, again.all_points().unwrap()), (7, points[1..].to_vec()));
    }

    #[test]
    fn mistakes_are_refused() {
        for (text, part) in [
            ("", "no points"),
            ("[grid]\nbs = []", "no values"),
            ("[grid]\nbs = [\"4k\", \"4k\"]", "4k is given twice"),
            ("[gird]\nbs = [1]", "unknown field `gird`"),
            ("[gird]\nbs = [1]", "did you mean grid?"),
            ("[sample]\ncuont = 3\n[sample.range]\nbs = [1]", "did you mean count?"),
            ("[sample]\ncount = -5\n[sample.range]\nbs = [1]", "-5 is not a valid number of points"),
            ("[sample]\ncount = 0\n[sample.range]\nbs = [1]", "0 is not a valid number of points"),
            ("[sample]\ncount = \"many\"\n[sample.range]\nbs = [1]", "a number of points from 1 to 10000000"),
            ("[grid]\nbs = [1]\n[sample]\ncount = 1\n[sample.range]\nbs = [1]", "not as several"),
            ("[sample]\ncount = 10000001\n[sample.range]\nbs = [1]", "over 10000000 points"),
        ] {
            let error = Plan::from_toml(&format!("{BASE}{text}")).and_then(|plan| plan.all_points());
            let error = error.unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
