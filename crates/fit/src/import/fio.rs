//! fio's JSON, of versions 2.1 to 3.36, with warnings before it and several documents in one file.
//!
//! Differences between the versions: before 2.99, latencies are in `clat` in microseconds; since then, they are in
//! `clat_ns` in nanoseconds. Before 3.0, `io_bytes` is in KiB; since then, it is in bytes. `bw_bytes` and `io_kbytes`
//! exist since 3.3. Older files of 2.x have no `job options`; their numbers cannot be attributed to a job, so they are
//! refused.
//!
//! The jobs of a group (between two `stonewall`s) run together and become one step. Clones of a job have one
//! entry each, unless `group_reporting` combines them. The rates of clones are added. The percentiles of
//! clones follow from the sum of their histograms, if the output contains histograms (`json+`).

use super::{Bins, CONTIGUOUS, ImportError, Problem};
use crate::observation::{
    Latencies, Mark, Measurements, Observation, Quantity, State, Step, Target, problem_of,
};
use crate::plan;
use flashlab_fio::job::Direction;
use serde_json::{Map, Value};

/// Returns the version of fio if a line is terse output.
pub(super) fn terse_version(line: &str) -> Option<String> {
    let mut fields = line.trim().split(';');
    let is_terse = matches!(fields.next()?, "2" | "3" | "4" | "5") && line.matches(';').count() > 40;
    let version = fields.next()?;
    is_terse.then(|| if version.starts_with("fio-") { version.to_owned() } else { "fio".to_owned() })
}

/// Reads the documents from offset `at` on. `has_memory` includes results that measured the host's memory.
pub(super) fn parse(
    text: &str,
    at: usize,
    (name, has_memory): (&str, bool),
) -> Result<Measurements, ImportError> {
    let lines_before = text[..at].matches('\n').count();
    let mut steps: Vec<Step> = Vec::new();
    let mut version = String::new();
    let mut rest = &text[at..];
    let mut skipped = lines_before;
    // fio also prints warnings and other formats between the documents.
    while let Some(start) = super::json_start(rest) {
        skipped += rest[..start].matches('\n').count();
        rest = &rest[start..];
        let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let Some(document) = documents.next() else { break };
        let document = document.map_err(|error| {
            let text = error.to_string();
            let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
            ImportError::at(skipped + error.line(), Problem::Syntax(message))
        })?;
        let end = documents.byte_offset();
        if document.get("fio version").is_some() {
            version = string(&document, "fio version", "fio version")?.to_owned();
            read(&document, (&version, has_memory), &mut steps)?;
        }
        skipped += rest[..end].matches('\n').count();
        rest = &rest[end..];
    }
    let plan = steps.iter().find_map(|step| plan::name_in(&step.notes));
    for step in &mut steps {
        step.notes.retain(|note| !plan::is_mark(note));
    }
    let target = Target { name: name.to_owned(), ..Target::default() };
    Ok(Measurements { target, host: None, engine: version, plan, steps })
}

/// A job of the JSON: its name, options, and results.
struct Entry<'a> {
    name: &'a str,
    path: String,
    options: Vec<(String, String)>,
    value: &'a Value,
}

/// Options that make writes durable before the time that fio measures ends.
const SYNCS: [&str; 5] = ["fsync", "fdatasync", "end_fsync", "fsync_on_close", "sync"];

impl Entry<'_> {
    fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Returns true if the job used the page cache of the host.
    fn is_buffered(&self) -> bool {
        let is_set = |key: &str| self.option(key).is_some_and(|value| value.is_empty() || value == "1");
        // The engine nbd has its own connection to the server, and bypasses the page cache.
        !is_set("direct") && self.option("buffered") != Some("0") && self.option("ioengine") != Some("nbd")
    }

    /// Returns true if the results of a direction measured the host's memory instead of the device: reads
    /// from the page cache, and writes into the page cache that nothing makes durable.
    fn is_of_memory(&self, direction: Direction) -> bool {
        let is_off = |value: &str| matches!(value, "0" | "none");
        let is_synced = || SYNCS.iter().any(|key| self.option(key).is_some_and(|value| !is_off(value)));
        self.is_buffered()
            && match direction {
                Direction::Read => true,
                Direction::Write => !is_synced(),
                Direction::Trim => false,
            }
    }
}

fn read(
    document: &Value,
    (version, has_memory): (&str, bool),
    steps: &mut Vec<Step>,
) -> Result<(), ImportError> {
    let jobs = document.get("jobs").or_else(|| document.get("client_stats"));
    let jobs = jobs.and_then(Value::as_array).ok_or_else(|| json("jobs", "a list of jobs"))?;
    if jobs.is_empty() {
        return Err(json("jobs", "the results of at least one job"));
    }
    let global = options_of(document.get("global options"));
    let mut groups: Vec<(u64, Vec<Entry<'_>>)> = Vec::new();
    for (index, value) in jobs.iter().enumerate() {
        let path = format!("jobs[{index}]");
        let name = string(value, "jobname", &format!("{path}.jobname"))?;
        if name == "All clients" {
            continue;
        }
        let Some(own) = value.get("job options") else {
            let message = format!(
                "{version} has written no `job options`, without which the job is not known: use fio 2.16 or newer"
            );
            return Err(ImportError::whole(Problem::Job { job: name.to_owned(), message }));
        };
        let mut options = global.clone();
        for (key, value) in options_of(Some(own)) {
            options.retain(|(known, _)| *known != key);
            options.push((key, value));
        }
        let group = value.get("groupid").and_then(Value::as_u64).unwrap_or(index as u64);
        let entry = Entry { name, path, options, value };
        match groups.last_mut().filter(|(last, _)| *last == group) {
            Some((_, entries)) => entries.push(entry),
            None => groups.push((group, vec![entry])),
        }
    }
    for (_, entries) in groups {
        let step = step(&entries, (version, has_memory), steps)?;
        steps.push(step);
    }
    Ok(())
}

fn options_of(value: Option<&Value>) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let all = value.and_then(Value::as_object).into_iter().flatten();
    all.map(|(key, value)| (key.clone(), text(value))).collect()
}

/// Options that name files or control the output, and that a simulation of the job does not need.
const DROPPED: [&str; 22] = [
    "name",
    "filename",
    "uri",
    "directory",
    "description",
    "stonewall",
    "wait_for_previous",
    "new_group",
    "group_reporting",
    "direct",
    "buffered",
    "output",
    "output-format",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
    "log_avg_msec",
    "per_job_logs",
    "eta",
    "thread",
    "filename_format",
];

/// Returns the step of jobs that ran together.
fn step(
    entries: &[Entry<'_>],
    (version, has_memory): (&str, bool),
    steps: &[Step],
) -> Result<Step, ImportError> {
    let mut step = Step { before: State::Unknown, ..Step::default() };
    let mut names: Vec<&str> = Vec::new();
    for entry in entries {
        if names.contains(&entry.name) {
            continue;
        }
        names.push(entry.name);
        options(entry, &mut step)?;
    }
    step.name = unique(&names.join(" + "), steps);
    if let Err(error) = step.jobs() {
        // The error states a place in our list of options, not one in the JSON.
        let (job, message) = (step.name, error.problem.to_string());
        return Err(ImportError::whole(Problem::Job { job, message }));
    }
    // The discard of a plan has no results, and a device may lack the operation.
    let only_prepares = is_discard_of_plan(&step);
    failures(entries, if only_prepares { Mark::Warned } else { Mark::Incomplete }, &mut step);
    for name in names.iter().filter(|_| !only_prepares) {
        let clones: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.name == *name).collect();
        let of = (names.len() > 1).then_some(*name);
        results(&clones, of, (version, has_memory), &mut step)?;
    }
    let is_idle = !only_prepares && !completed_any(entries, version)?;
    if is_idle && !step.is_marked(Mark::Incomplete) {
        step.marks.push(Mark::Incomplete);
    }
    let discard = steps.iter().rfind(|step| is_discard_of_plan(step));
    if step.before == State::Discarded && discard.is_some_and(|step| step.is_marked(Mark::Warned)) {
        step.before = State::AsLeft;
    }
    if let Some(problem) = problem_of(&step) {
        return Err(ImportError::whole(Problem::Job { job: step.name, message: problem.to_string() }));
    }
    Ok(step)
}

/// Returns true if a job has completed a request.
fn completed_any(entries: &[Entry<'_>], version: &str) -> Result<bool, ImportError> {
    for entry in entries {
        for direction in Direction::ALL {
            if let Some(value) = entry.value.get(direction.name())
                && Numbers::read(value, &format!("{}.{}", entry.path, direction.name()), version)?.is_some()
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns true if the step is the discard with which a plan prepares its areas.
fn is_discard_of_plan(step: &Step) -> bool {
    step.notes.iter().any(|note| plan::is_mark(note)) && step.job.iter().any(|option| option == "--rw=trim")
}

fn unique(name: &str, steps: &[Step]) -> String {
    let is_taken = |name: &str| steps.iter().any(|step| step.name == name);
    let numbered = (2..).map(|number| format!("{name} {number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name)).expect("endless")
}

/// Adds the options of a job to the step.
fn options(entry: &Entry<'_>, step: &mut Step) -> Result<(), ImportError> {
    let value = |key: &str| entry.option(key);
    step.job.push(format!("--name={}", entry.name));
    for (key, value) in entry.options.iter().filter(|(key, _)| !DROPPED.contains(&key.as_str())) {
        step.job.push(match (key.as_str(), value.as_str()) {
            // The engine only queues requests to the server of the device, which `uri` names.
            ("ioengine", "nbd") => "--ioengine=libaio".to_owned(),
            (_, "") => format!("--{key}"),
            _ => format!("--{key}={value}"),
        });
    }
    step.job.push("--direct=1".to_owned());
    if value("group_reporting").is_some() || value("numjobs").is_some_and(|n| n != "1") {
        step.job.push("--group_reporting".to_owned());
    }
    if entry.is_buffered() && !entry.is_of_memory(Direction::Write) {
        mark(
            step,
            Mark::Warned,
            "the job used the page cache of the host; the simulation uses direct I/O".to_owned(),
        );
    }
    let file = value("filename").unwrap_or_default();
    let is_file =
        !file.starts_with("/dev/") && value("description").and_then(plan::Description::parse).is_none();
    if is_file && !step.assumptions.iter().any(|known| known == CONTIGUOUS) {
        step.assumptions.push(CONTIGUOUS.to_owned());
    }
    if let Some(state) = value("description").and_then(plan::Description::parse) {
        step.before = state.before;
        step.rest = state.rest;
        step.notes.push(state.to_string());
    }
    Ok(())
}

fn mark(step: &mut Step, mark: Mark, note: String) {
    if !step.marks.contains(&mark) {
        step.marks.push(mark);
    }
    if !step.notes.contains(&note) {
        step.notes.push(note);
    }
}

/// Adds `kind` and a note for each job that failed.
fn failures(entries: &[Entry<'_>], kind: Mark, step: &mut Step) {
    for entry in entries {
        let error = entry.value.get("error").and_then(Value::as_i64).unwrap_or(0);
        if error != 0 {
            mark(step, kind, format!("job `{}` failed with error {error}", entry.name));
        }
    }
}

/// Adds the results of a job, summed over its clones.
fn results(
    clones: &[&Entry<'_>],
    of: Option<&str>,
    (version, has_memory): (&str, bool),
    step: &mut Step,
) -> Result<(), ImportError> {
    for direction in Direction::ALL {
        let mut numbers: Vec<Numbers> = Vec::new();
        let mut latencies_of_clones = Vec::new();
        for entry in clones {
            let Some(value) = entry.value.get(direction.name()) else { continue };
            let path = format!("{}.{}", entry.path, direction.name());
            if let Some(found) = Numbers::read(value, &path, version)? {
                numbers.push(found);
                latencies_of_clones.push(value.get("clat_ns").unwrap_or(&Value::Null));
            }
        }
        if numbers.is_empty() {
            continue;
        }
        if !has_memory && clones.iter().any(|entry| entry.is_of_memory(direction)) {
            let remedy = match direction {
                Direction::Write => "direct=1, or end_fsync=1",
                _ => "direct=1",
            };
            let note = format!(
                "its {}s are left out, because they measured the host's memory: run the job with {remedy}",
                direction.name()
            );
            mark(step, Mark::Warned, note);
            step.latencies.extend(latencies(&numbers, of, direction));
            continue;
        }
        let requests: f64 = numbers.iter().map(|n| n.iops).sum();
        let are_counted = numbers.iter().all(|n| n.count.is_some());
        let weight = |n: &Numbers| if are_counted { n.count.unwrap_or(0.0) } else { n.iops };
        let mean = numbers.iter().map(|n| n.mean_ns * weight(n)).sum::<f64>()
            / numbers.iter().map(weight).sum::<f64>();
        let mut all = vec![
            (Quantity::Iops, requests),
            (Quantity::BytesPerSecond, numbers.iter().map(|n| n.bytes_per_second).sum()),
            (Quantity::LatencyMean, mean),
            (Quantity::LatencyMax, numbers.iter().map(|n| n.max_ns).fold(0.0, f64::max)),
        ];
        if let [only] = &numbers[..] {
            all.extend(only.percentiles.iter().map(|(p, ns)| (Quantity::LatencyPercentile(*p), *ns)));
        } else if let Some(bins) = Bins::of(latencies_of_clones) {
            let percentile =
                |percent| Some((Quantity::LatencyPercentile(percent), bins.percentile(percent)? as f64));
            all.extend(PERCENTILES.into_iter().filter_map(percentile));
        }
        step.latencies.extend(latencies(&numbers, of, direction));
        // fio states 0 IOPS for a job that took less than a millisecond.
        for (quantity, value) in all.into_iter().filter(|(_, value)| value.is_finite() && *value > 0.0) {
            let job = of.map(str::to_owned);
            step.observations.push(Observation { job, ..Observation::new(direction, quantity, value) });
        }
    }
    Ok(())
}

/// Returns the summary of the latencies of all clones; `None` if a clone does not state the count of its requests.
fn latencies(clones: &[Numbers], job: Option<&str>, direction: Direction) -> Option<Latencies> {
    let counts: Vec<f64> = clones.iter().map(|clone| clone.count).collect::<Option<_>>()?;
    let count: f64 = counts.iter().sum();
    let sum: f64 = clones.iter().zip(&counts).map(|(clone, count)| clone.mean_ns * count).sum();
    (count > 0.0).then(|| Latencies {
        job: job.map(str::to_owned),
        direction,
        count: count as u64,
        min_ns: clones.iter().map(|clone| clone.min_ns).fold(f64::INFINITY, f64::min) as u64,
        max_ns: clones.iter().map(|clone| clone.max_ns).fold(0.0, f64::max) as u64,
        mean_ns: sum / count,
        buckets: Vec::new(),
        series_ns: Vec::new(),
    })
}

/// The results of one direction.
struct Numbers {
    /// Number of requests, if the output states it.
    count: Option<f64>,
    min_ns: f64,
    iops: f64,
    bytes_per_second: f64,
    mean_ns: f64,
    max_ns: f64,
    percentiles: Vec<(f64, f64)>,
}

impl Numbers {
    /// Returns the numbers of a direction, or `None` if it has no requests.
    fn read(value: &Value, path: &str, version: &str) -> Result<Option<Numbers>, ImportError> {
        let is_old = version.starts_with("fio-2.") || version.starts_with("fio 2.");
        let is_idle = value.get("total_ios").and_then(Value::as_f64) == Some(0.0);
        if number(value, "io_bytes", path)? == 0.0 || is_idle {
            return Ok(None);
        }
        let bytes_per_second = match value.get("bw_bytes") {
            Some(_) => number(value, "bw_bytes", path)?,
            None => 1024.0 * number(value, "bw", path)?,
        };
        // fio 2.99 has nanoseconds already.
        let (key, factor) = match value.get("clat_ns") {
            Some(_) => ("clat_ns", 1.0),
            None => ("clat", 1e3),
        };
        if key == "clat" && !is_old {
            return Err(json(&format!("{path}.clat_ns"), "this member"));
        }
        let clat = value.get(key).ok_or_else(|| json(&format!("{path}.{key}"), "this member"))?;
        let path_of_clat = format!("{path}.{key}");
        let percentiles = clat.get("percentile").and_then(Value::as_object);
        Ok(Some(Numbers {
            count: value.get("total_ios").and_then(Value::as_f64).filter(|count| *count >= 1.0),
            min_ns: factor * clat.get("min").and_then(Value::as_f64).unwrap_or(0.0),
            iops: number(value, "iops", path)?,
            bytes_per_second,
            mean_ns: factor * number(clat, "mean", &path_of_clat)?,
            max_ns: factor * number(clat, "max", &path_of_clat)?,
            percentiles: percentiles.map_or(Vec::new(), |map| some_percentiles(map, factor)),
        }))
    }
}

/// The percentiles that are read.
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// Returns the [`PERCENTILES`] that the list contains.
fn some_percentiles(map: &Map<String, Value>, factor: f64) -> Vec<(f64, f64)> {
    let parsed = map.iter().filter_map(|(key, value)| Some((key.parse().ok()?, factor * value.as_f64()?)));
    parsed.filter(|(percent, _): &(f64, f64)| PERCENTILES.contains(percent)).collect()
}

fn json(path: &str, expected: &'static str) -> ImportError {
    ImportError::whole(Problem::Json { path: path.to_owned(), expected })
}

fn string<'a>(value: &'a Value, key: &str, path: &str) -> Result<&'a str, ImportError> {
    value.get(key).and_then(Value::as_str).ok_or_else(|| json(path, "a string"))
}

fn number(value: &Value, key: &str, path: &str) -> Result<f64, ImportError> {
    let number = value.get(key).and_then(Value::as_f64).filter(|number| *number >= 0.0);
    number.ok_or_else(|| json(&format!("{path}.{key}"), "a number that is not negative"))
}
