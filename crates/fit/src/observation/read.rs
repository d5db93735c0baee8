//! Reader and writer of measurement files.

use super::{FileError, Latencies, Measurements, Observation, Problem, Step, VERSION};
use flashlab_fio::job::{Direction, Job, Mix};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The file as JSON: the version, then the measurements.
#[derive(Serialize)]
struct File<'a> {
    flashlab_measurements: u32,
    #[serde(flatten)]
    measurements: &'a Measurements,
}

const KEY: &str = "flashlab_measurements";

impl Measurements {
    /// Reads the text of a measurement file.
    pub fn parse(text: &str) -> Result<Measurements, FileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Err(FileError::Empty);
        }
        let json: Value = serde_json::from_str(text).map_err(|error| syntax(&error))?;
        let version = json
            .get(KEY)
            .ok_or_else(|| FileError::Foreign { looks_like: origin(&json) })?
            .as_u64()
            .ok_or_else(|| syntax_at(text, KEY, format!("expected a version such as {VERSION}")))?;
        if version > u64::from(VERSION) {
            return Err(FileError::Newer { version });
        }
        if version == 0 {
            return Err(syntax_at(text, KEY, format!("there is no version 0; the current one is {VERSION}")));
        }
        // The versioned type is parsed from the text instead of the JSON tree, because only the text has
        // lines and columns.
        let measurements =
            serde_json::from_str::<Versioned>(text).map_err(|error| syntax(&error))?.into_measurements();
        check(&measurements)?;
        Ok(measurements)
    }

    /// Returns the text of a measurement file.
    pub fn to_json(&self) -> String {
        let file = File { flashlab_measurements: VERSION, measurements: self };
        let mut text = serde_json::to_string_pretty(&file).expect("all keys are text");
        text.push('\n');
        text
    }
}

/// The keys of [`Measurements`] and the version. The keys are repeated here, because errors would lose their
/// lines with serde's `flatten`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Versioned {
    #[serde(rename = "flashlab_measurements")]
    _version: u32,
    target: super::Target,
    #[serde(default)]
    host: Option<String>,
    engine: String,
    #[serde(default)]
    plan: Option<String>,
    steps: Vec<Step>,
}

impl Versioned {
    fn into_measurements(self) -> Measurements {
        let Versioned { target, host, engine, plan, steps, .. } = self;
        Measurements { target, host, engine, plan, steps }
    }
}

fn syntax(error: &serde_json::Error) -> FileError {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let message = if error.is_eof() { "the file ends here, so it is incomplete" } else { message };
    FileError::Syntax { line: error.line(), column: error.column(), message: message.to_owned() }
}

/// Returns a syntax error at the first occurrence of `key`.
fn syntax_at(text: &str, key: &str, message: String) -> FileError {
    let before = &text[..text.find(key).unwrap_or(0)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    FileError::Syntax { line, column, message: format!("{key}: {message}") }
}

/// Returns the program that wrote a foreign JSON, if its keys reveal it.
fn origin(json: &Value) -> Option<&'static str> {
    if json.get("fio version").is_some() {
        return Some("fio; pass the file to `flashlab fit` as it is");
    }
    let is_result = json.get("experiment").is_some() && json.get("cells").is_some();
    is_result.then_some("`flashlab run --format json`, whose cells are simulated")
}

fn check(measurements: &Measurements) -> Result<(), FileError> {
    let mut names = BTreeSet::new();
    for (index, step) in measurements.steps.iter().enumerate() {
        let problem = match step.name.as_str() {
            "" => Some(Problem::NoName),
            name if !names.insert(name) => Some(Problem::SameName),
            _ => problem_of(step),
        };
        if let Some(problem) = problem {
            return Err(FileError::Step { number: index + 1, name: step.name.clone(), problem });
        }
    }
    Ok(())
}

/// Returns the first fault of a step, if it has one: an invalid job, or an impossible or contradictory number.
pub fn problem_of(step: &Step) -> Option<Problem> {
    let jobs = match step.jobs() {
        Err(error) => return Some(Problem::Job(error.to_string())),
        Ok(jobs) if jobs.is_empty() => return Some(Problem::NoJob),
        Ok(jobs) => jobs,
    };
    let mut seen = BTreeSet::new();
    for observation in &step.observations {
        let of = name_of(observation);
        let problem = value_problem(observation, &of)
            .or_else(|| job_problem(&jobs, observation.job.as_deref(), observation.direction, &of));
        if problem.is_some() {
            return problem;
        }
        if !seen.insert(of.clone()) {
            return Some(Problem::Twice { of });
        }
    }
    step.latencies.iter().find_map(|latencies| latency_problem(&jobs, latencies))
}

/// Returns the name of an observation in messages: `write iops of job a`.
fn name_of(observation: &Observation) -> String {
    let of = format!("{} {}", observation.direction.name(), observation.quantity);
    observation.job.as_ref().map_or(of.clone(), |job| format!("{of} of job `{job}`"))
}

/// Values that an observation can have, in any unit: from a request in eleven days to a petabyte per second.
const PLAUSIBLE: RangeInclusive<f64> = 1e-6..=1e15;

fn value_problem(observation: &Observation, of: &str) -> Option<Problem> {
    let Observation { value, sd, runs, .. } = observation;
    if !(value.is_finite() && *value > 0.0) {
        let expected = "a finite number above zero";
        return Some(Problem::Value { of: of.to_owned(), value: value.to_string(), expected });
    }
    if !PLAUSIBLE.contains(value) {
        let expected = "a number that a storage device can have, from 1e-6 to 1e15";
        return Some(Problem::Value { of: of.to_owned(), value: format!("{value:e}"), expected });
    }
    if let Some(sd) = sd.filter(|sd| !(sd.is_finite() && *sd >= 0.0)) {
        let expected = "a finite number, at least zero";
        return Some(Problem::Value {
            of: format!("the deviation of {of}"),
            value: sd.to_string(),
            expected,
        });
    }
    let expected = "at least one run";
    (*runs == 0).then(|| Problem::Value {
        of: format!("the number of runs of {of}"),
        value: "0".into(),
        expected,
    })
}

fn job_problem(jobs: &[Job], name: Option<&str>, direction: Direction, of: &str) -> Option<Problem> {
    let mut named = jobs.iter().filter(|job| name.is_none_or(|name| job.name == name)).peekable();
    if named.peek().is_none() {
        return Some(Problem::UnknownJob(name.unwrap_or_default().to_owned()));
    }
    let submits = |job: &Job| {
        job.read_iolog.is_some()
            || match job.pattern.mix {
                Mix::Read => direction == Direction::Read,
                Mix::Write => direction == Direction::Write,
                Mix::Trim => direction == Direction::Trim,
                Mix::ReadWrite => direction != Direction::Trim,
                Mix::TrimWrite => direction != Direction::Read,
            }
    };
    (!named.any(submits)).then(|| Problem::Direction { of: of.to_owned() })
}

fn latency_problem(jobs: &[Job], latencies: &Latencies) -> Option<Problem> {
    let of = format!("{} latencies", latencies.direction.name());
    let Latencies { count, min_ns, max_ns, mean_ns, buckets, series_ns, .. } = latencies;
    let problem = |value: String, expected| Some(Problem::Value { of: of.clone(), value, expected });
    if !(mean_ns.is_finite() && *mean_ns >= 0.0) {
        return problem(format!("a mean of {mean_ns} ns"), "a finite number, at least zero");
    }
    if min_ns > max_ns {
        return problem(format!("a minimum of {min_ns} ns"), "at most the maximum");
    }
    let total = buckets.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
    if !buckets.is_empty() && total != Some(*count) {
        return problem(format!("a count of {count}"), "the sum of the buckets");
    }
    if !buckets.is_sorted_by(|a, b| a.0 < b.0) {
        return problem("a list of buckets".into(), "buckets in ascending order");
    }
    if series_ns.len() as u64 > *count {
        return problem(format!("a series of {}", series_ns.len()), "at most as many as the count");
    }
    job_problem(jobs, latencies.job.as_deref(), latencies.direction, &of)
}
