//! Parts of fio's JSON that the importer of `fit` leaves out: flushes, directions that are counted together
//! (`unified_rw_reporting`), failed jobs, and the mechanisms that flashlab adds.

use super::inputs::add_options;
use super::read::{RunFile, figure_of};
use super::{Figure, Line};
use crate::run_inputs::DeviceInputs;
use flashlab_fit::import::{Bins, json_start};
use flashlab_fit::observation::{Quantity, Step};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The documents of a file, with the entries of each job in order.
pub(super) struct Documents(Vec<Value>);

/// A job of the JSON.
struct Job<'a> {
    /// Name that the importer gives the job.
    name: &'a str,
    /// Entry of each clone.
    clones: Vec<&'a Value>,
}

impl Documents {
    /// Reads the documents that fio or flashlab wrote; none if the text has another format. The importer must
    /// have accepted the text before.
    pub(super) fn read(text: &str) -> Documents {
        let mut all: Vec<Value> = Vec::new();
        let mut rest = text;
        // Messages of fio may precede each document.
        while let Some(start) = json_start(rest) {
            rest = &rest[start..];
            let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let Some(Ok(document)) = documents.next() else { break };
            rest = &rest[documents.byte_offset()..];
            all.push(document);
        }
        all.retain(|document| document.get("fio version").is_some());
        Documents(all)
    }

    /// Returns the jobs under their names in `steps`; each group is one step.
    fn jobs<'a>(&'a self, steps: &'a [Step]) -> Vec<Job<'a>> {
        let mut all = Vec::new();
        for (group, step) in self.groups().into_iter().zip(steps) {
            let first = group[0].0;
            let is_only = group.iter().all(|(name, _)| *name == first);
            let mut jobs: Vec<Job<'a>> = Vec::new();
            for (name, entry) in group {
                let name = if is_only { &step.name } else { name };
                match jobs.iter_mut().find(|job| job.name == name) {
                    Some(job) => job.clones.push(entry),
                    None => jobs.push(Job { name, clones: vec![entry] }),
                }
            }
            all.extend(jobs);
        }
        all
    }

    /// Returns names and entries of the jobs that ran together, group by group.
    fn groups(&self) -> Vec<Vec<(&str, &Value)>> {
        let mut all: Vec<Vec<(&str, &Value)>> = Vec::new();
        for document in &self.0 {
            let jobs = document.get("jobs").or_else(|| document.get("client_stats"));
            let mut last = None;
            for (index, entry) in jobs.and_then(Value::as_array).into_iter().flatten().enumerate() {
                let name = entry.get("jobname").and_then(Value::as_str).unwrap_or_default();
                if name == "All clients" {
                    continue;
                }
                let group = entry.get("groupid").and_then(Value::as_u64).unwrap_or(index as u64);
                match all.last_mut().filter(|_| last == Some(group)) {
                    Some(entries) => entries.push((name, entry)),
                    None => all.push(vec![(name, entry)]),
                }
                last = Some(group);
            }
        }
        all
    }

    /// Returns the name and the error of each failed job.
    pub(super) fn errors(&self, steps: &[Step]) -> Vec<(String, i64)> {
        let error = |entry: &&Value| entry.get("error").and_then(Value::as_i64).filter(|error| *error != 0);
        let failed = |job: Job<'_>| Some((job.name.to_owned(), job.clones.iter().find_map(error)?));
        self.jobs(steps).into_iter().filter_map(failed).collect()
    }

    /// Returns true if flashlab wrote the documents.
    pub(super) fn is_simulated(&self) -> bool {
        self.0.iter().any(|document| document.get("flashlab").is_some())
    }

    /// Returns the inputs of the run, which `bench` states.
    pub(super) fn run(&self) -> Option<RunFile> {
        self.member("run")
    }

    /// Returns the inputs of the device, which `bench` states.
    pub(super) fn device(&self) -> Option<DeviceInputs> {
        self.member("device").or_else(|| {
            // Documents of version 0.1.0 may state only the name of the device.
            let name = self.0.iter().find_map(|document| document.pointer("/flashlab/column")?.as_str())?;
            Some(DeviceInputs { device: name.to_owned(), ..DeviceInputs::default() })
        })
    }

    fn member<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let of = |document: &Value| document.get("flashlab")?.get(name).cloned();
        serde_json::from_value(self.0.iter().find_map(of)?).ok()
    }

    /// Returns the options of all jobs; `None` without documents.
    pub(super) fn options(&self) -> Option<Vec<(String, String)>> {
        let groups = self.groups();
        let (first, _) = groups.first()?.first()?;
        let is_one_of_several = groups.iter().flatten().any(|(name, _)| name != first);
        let mut all = Vec::new();
        for document in &self.0 {
            let of_all = document.get("global options");
            let jobs = document.get("jobs").or_else(|| document.get("client_stats"));
            for entry in jobs.and_then(Value::as_array).into_iter().flatten() {
                let name = entry.get("jobname").and_then(Value::as_str).unwrap_or_default();
                let own = entry.get("job options");
                let objects = [own, of_all].into_iter().flatten().filter_map(Value::as_object);
                let texts =
                    objects.flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
                add_options(name, is_one_of_several, texts, &mut all);
            }
        }
        Some(all)
    }

    /// Adds the lines of flushes and of directions that are counted together. Each follows the other lines of its job.
    pub(super) fn add_lines(&self, steps: &[Step], device: &str, lines: &mut Vec<Line>) {
        for job in self.jobs(steps) {
            for direction in ["mixed", "sync"] {
                let figures = figures(&job.clones, direction);
                if figures.is_empty() {
                    continue;
                }
                let mechanisms = job.mechanisms(direction);
                let name = [device, job.name, direction].map(str::to_owned);
                let last = lines.iter().rposition(|line| line.name[1] == job.name);
                lines.insert(last.map_or(lines.len(), |last| last + 1), Line { name, figures, mechanisms });
            }
        }
    }

    /// Returns the mechanisms of the job with this name, which flashlab adds to fio's JSON; none for a file that fio
    /// wrote.
    pub(super) fn mechanisms(&self, steps: &[Step], job: &str, direction: &str) -> Vec<(String, f64)> {
        let jobs = self.jobs(steps);
        jobs.iter().find(|other| other.name == job).map_or(Vec::new(), |job| job.mechanisms(direction))
    }
}

impl Job<'_> {
    /// Returns the nanoseconds per request by mechanism, over the requests of all clones.
    fn mechanisms(&self, direction: &str) -> Vec<(String, f64)> {
        let mut totals_ns: Vec<(String, f64)> = Vec::new();
        let mut requests = 0.0;
        for clone in &self.clones {
            let of_clone = clone.pointer(&format!("/flashlab/mechanisms_ns/{direction}"));
            for (name, ns) in of_clone.and_then(Value::as_object).into_iter().flatten() {
                add(&mut totals_ns, name, ns.as_f64().unwrap_or(0.0));
            }
            let count = clone.pointer(&format!("/{direction}/total_ios"));
            requests += count.and_then(Value::as_f64).unwrap_or(0.0);
        }
        totals_ns.retain(|_| requests > 0.0);
        totals_ns.into_iter().map(|(name, ns)| (name, ns / requests)).collect()
    }
}

/// Adds `ns` to the total of a mechanism.
pub(super) fn add(totals_ns: &mut Vec<(String, f64)>, mechanism: &str, ns: f64) {
    match totals_ns.iter_mut().find(|(known, _)| known == mechanism) {
        Some((_, total)) => *total += ns,
        None => totals_ns.push((mechanism.to_owned(), ns)),
    }
}

/// Percentiles of the lines that the importer does not read.
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// Returns the figures of one direction over all clones; empty without requests. Rates are summed. fio states
/// no rate of flushes.
fn figures(clones: &[&Value], direction: &str) -> Vec<Figure> {
    let results: Vec<&Value> = clones.iter().filter_map(|clone| clone.get(direction)).collect();
    let latency = if direction == "sync" { "lat_ns" } else { "clat_ns" };
    let number = |result: &Value, path: &str| result.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    let numbers = |path: String| results.iter().map(move |result| number(result, &path));
    let sum = |path: &str| numbers(path.to_owned()).sum::<f64>();
    let requests = sum("/total_ios");
    let with_requests = results.iter().filter(|result| number(result, "/total_ios") > 0.0);
    let total_ns =
        numbers("/total_ios".into()).zip(numbers(format!("/{latency}/mean"))).map(|(n, ns)| n * ns);
    let mut all = vec![
        (Quantity::Iops, sum("/iops")),
        (Quantity::BytesPerSecond, sum("/bw_bytes")),
        (Quantity::LatencyMean, total_ns.sum::<f64>() / requests),
    ];
    if let [only] = &results[..] {
        let percentile = |percent: f64| {
            let value = number(only, &format!("/{latency}/percentile/{percent:.6}"));
            (Quantity::LatencyPercentile(percent), value)
        };
        all.extend(PERCENTILES.map(percentile));
    } else if let Some(bins) = Bins::of(with_requests.filter_map(|result| result.get(latency))) {
        let percentile = |percent: f64| {
            let value = bins.percentile(percent).unwrap_or(0) as f64;
            (Quantity::LatencyPercentile(percent), value)
        };
        all.extend(PERCENTILES.map(percentile));
    }
    all.push((Quantity::LatencyMax, numbers(format!("/{latency}/max")).fold(0.0, f64::max)));
    // A job with `gtod_reduce=1` states zero for each latency.
    let stated = all.into_iter().filter(|(_, value)| value.is_finite() && *value > 0.0);
    stated.map(|(quantity, value)| figure_of(quantity, value)).collect()
}
