//! Tables of comma-separated values with the columns `job,value,sd`, and optionally `unit` and `runs`.
//!
//! `job` contains options of fio (`rw=randread bs=4k`, with or without dashes); `#` begins a comment. `unit` is `IOPS`,
//! a rate (`MiB/s`, `MB/s`, ...) or a mean latency (`us`, `ms`). Without a unit, values of random jobs are IOPS, and
//! values of sequential jobs are MiB/s.

use super::runs::{Ran, Runs};
use super::{ImportError, Problem, positive};
use crate::observation::{Measurements, Quantity, State, Target};
use flashlab_fio::job::Direction;

/// Options of fio that limit the length of a job. A job without any of them would cover the whole device.
/// Published measurements of cards rarely do so: those of iozone, CrystalDiskMark and `agnostics` cover at
/// most 1 GiB.
const LENGTHS: [&str; 6] = ["size", "filesize", "io_size", "io_limit", "number_ios", "runtime"];

/// Largest number of runs of a row. `fit --exact` repeats a job as often as it was measured.
const RUNS_MAX: u32 = 10_000;

/// Returns true if a line is the header of a table.
pub(super) fn is_header(line: &str) -> bool {
    let names: Vec<String> = fields(line).iter().map(|name| name.to_lowercase()).collect();
    names.first().is_some_and(|name| name == "job") && names.iter().any(|name| name == "value")
}

/// Returns true if a line is neither empty nor a comment.
pub(super) fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// Reads a table.
pub(super) fn parse(text: &str, name: &str) -> Result<Measurements, ImportError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| is_content(line));
    let (first, header) = lines.next().expect("the caller has seen the header");
    let columns: Vec<String> = fields(header).iter().map(|name| name.to_lowercase()).collect();
    if let Some(unknown) =
        columns.iter().find(|name| !matches!(name.as_str(), "job" | "value" | "sd" | "unit" | "runs"))
    {
        let of = format!("column `{unknown}`");
        let what = "the columns are job, value, sd, unit and runs".to_owned();
        return Err(ImportError::at(first + 1, Problem::Missing { of, what }));
    }
    let mut runs = Runs::default();
    let mut rows: Vec<Row> = Vec::new();
    for (index, line) in lines {
        let row = row(index + 1, &columns, line, &mut runs)?;
        if let Some(first) = rows.iter().find(|first| first.contradicts(&row)) {
            let message = format!(
                "{} contradicts {} of the same job in line {}: give each job one row, with its mean and sd",
                row.text, first.text, first.line
            );
            return Err(ImportError::at(row.line, Problem::Contradiction(message)));
        }
        rows.push(row);
    }
    let mut steps = runs.steps();
    for row in rows.into_iter().filter(|row| row.sd.is_some() || row.runs.is_some()) {
        let observation = steps[row.step].observations.iter_mut().find(|o| o.quantity == row.quantity);
        let observation = observation.expect("the row added its quantity to the step");
        observation.sd = row.sd;
        observation.runs = row.runs.unwrap_or(1);
    }
    if steps.is_empty() {
        let of = "the table".to_owned();
        return Err(ImportError::at(first + 1, Problem::Missing { of, what: "no row follows".to_owned() }));
    }
    let target = Target { name: name.to_owned(), ..Target::default() };
    Ok(Measurements { target, host: None, engine: "table".to_owned(), plan: None, steps })
}

/// Ratio of the values of two rows of one job above which the rows are not runs of the same measurement.
const RUNS_RATIO: f64 = 1.5;

/// A row of a table.
struct Row {
    line: usize,
    /// Index of the row's step.
    step: usize,
    quantity: Quantity,
    value: f64,
    /// Requests per second, if the row states a rate.
    iops: Option<f64>,
    /// Value and unit in the table.
    text: String,
    /// The deviation and the number of runs, if the row states them.
    sd: Option<f64>,
    runs: Option<u32>,
}

impl Row {
    /// Returns true if a later row of the same job cannot be another run, because one of the rows is already
    /// a mean, or because the values differ too much.
    fn contradicts(&self, later: &Row) -> bool {
        if self.step != later.step {
            return false;
        }
        let differ = |a: f64, b: f64| a.max(b) / a.min(b) > RUNS_RATIO;
        if self.quantity == later.quantity {
            let is_mean = |row: &Row| row.sd.is_some() || row.runs.is_some();
            return is_mean(self) || is_mean(later) || differ(self.value, later.value);
        }
        self.iops.zip(later.iops).is_some_and(|(one, other)| differ(one, other))
    }
}

/// Adds a row to the runs.
fn row(number: usize, columns: &[String], line: &str, runs: &mut Runs) -> Result<Row, ImportError> {
    let values = fields(line);
    if values.len() != columns.len() {
        let message = format!("the row has {} fields, and the header has {}", values.len(), columns.len());
        return Err(ImportError::at(number, Problem::Contradiction(message)));
    }
    let field = |name: &str| {
        let at = columns.iter().position(|column| column == name)?;
        Some(values[at].as_str()).filter(|value| !value.is_empty())
    };
    let job = field("job").unwrap_or_default();
    let options: Vec<&str> = job.split_whitespace().map(|option| option.trim_start_matches('-')).collect();
    let rw =
        options.iter().find_map(|option| option.strip_prefix("rw=").or(option.strip_prefix("readwrite=")));
    let Some(rw) = rw else {
        let of = format!("job `{job}`");
        let what = "expected options of fio with rw=, such as `rw=randread bs=4k`".to_owned();
        return Err(ImportError::at(number, Problem::Missing { of, what }));
    };
    let direction = direction(rw).ok_or_else(|| {
        let of = format!("job `{job}`");
        let what = if ["rw", "readwrite", "randrw", "trimwrite", "randtrimwrite"].contains(&rw) {
            "one value does not describe a mix of directions: use fio's JSON".to_owned()
        } else {
            format!("unknown rw={rw}; expected read, write, trim, randread, randwrite or randtrim")
        };
        ImportError::at(number, Problem::Missing { of, what })
    })?;
    let name = options.iter().find_map(|option| option.strip_prefix("name=")).unwrap_or(job);
    let is_random = rw.starts_with("rand");
    let unit = field("unit").unwrap_or(if is_random { "IOPS" } else { "MiB/s" });
    let value = positive(number, field("value").unwrap_or_default(), "value")?;
    let (quantity, factor) = quantity(unit).ok_or_else(|| {
        let of = format!("unit `{unit}`");
        let what = "expected IOPS, kIOPS, B/s, kB/s, KiB/s, MB/s, MiB/s, ns, us, ms or s".to_owned();
        ImportError::at(number, Problem::Missing { of, what })
    })?;
    let sd = field("sd").map(|text| deviation(number, text)).transpose()?.map(|sd| sd * factor);
    let count = field("runs").map(|text| count(number, text)).transpose()?;
    let mut assumptions = vec!["the bare device, written in sequence before".to_owned()];
    if field("unit").is_none() {
        assumptions.push(format!("the value has the unit {unit}"));
    }
    let mut kept: Vec<&str> = options
        .into_iter()
        .filter(|option| !option.starts_with("name=") && *option != "direct=1" && *option != "direct")
        .collect();
    if !kept.iter().any(|option| LENGTHS.contains(&option.split('=').next().unwrap_or_default())) {
        kept.extend(["size=1g", "runtime=30"]);
        assumptions.push(
            "the job accessed 1 GiB for at most 30 s, because its row states no size and no time".to_owned(),
        );
    }
    // A synchronous engine, fio's default, has one request in flight.
    let depth = kept.iter().find_map(|option| option.strip_prefix("iodepth="));
    let is_queued = depth.is_some_and(|depth| depth != "1");
    if is_queued && !kept.iter().any(|option| option.starts_with("ioengine=")) {
        kept.push("ioengine=libaio");
        assumptions.push("ioengine=libaio, because the row states a queue depth and no engine".to_owned());
    }
    let ran = Ran {
        name: name.to_owned(),
        options: kept.join(" "),
        before: State::WrittenInSequence,
        filesystem: None,
        assumptions,
        warning: None,
    };
    let step = runs.add(number, ran, direction, &[(quantity, value * factor)])?;
    let value = value * factor;
    let iops = match quantity {
        Quantity::Iops => Some(value),
        Quantity::BytesPerSecond => runs.block_size(step, direction).map(|block| value / block as f64),
        _ => None,
    };
    let text = format!("{} {unit}", field("value").unwrap_or_default());
    Ok(Row { line: number, step, quantity, value, iops, text, sd, runs: count })
}

/// Returns the direction of a job's requests; `None` if they have several.
fn direction(rw: &str) -> Option<Direction> {
    Some(match rw.split(':').next()? {
        "read" | "randread" => Direction::Read,
        "write" | "randwrite" => Direction::Write,
        "trim" | "randtrim" => Direction::Trim,
        _ => return None,
    })
}

fn deviation(number: usize, text: &str) -> Result<f64, ImportError> {
    let sd = text.parse::<f64>().ok().filter(|sd| sd.is_finite() && *sd >= 0.0);
    sd.ok_or_else(|| unexpected(number, "sd", text, "a number of at least 0".to_owned()))
}

fn count(number: usize, text: &str) -> Result<u32, ImportError> {
    let runs = text.parse::<u32>().ok().filter(|runs| (1..=RUNS_MAX).contains(runs));
    runs.ok_or_else(|| unexpected(number, "runs", text, format!("a whole number from 1 to {RUNS_MAX}")))
}

fn unexpected(number: usize, name: &str, text: &str, expected: String) -> ImportError {
    let of = format!("{name} is `{text}`");
    ImportError::at(number, Problem::Missing { of, what: format!("expected {expected}") })
}

fn quantity(unit: &str) -> Option<(Quantity, f64)> {
    Some(match unit {
        "IOPS" | "iops" => (Quantity::Iops, 1.0),
        "kIOPS" => (Quantity::Iops, 1e3),
        "B/s" => (Quantity::BytesPerSecond, 1.0),
        "kB/s" => (Quantity::BytesPerSecond, 1e3),
        "KiB/s" => (Quantity::BytesPerSecond, 1024.0),
        "MB/s" => (Quantity::BytesPerSecond, 1e6),
        "MiB/s" => (Quantity::BytesPerSecond, 1_048_576.0),
        "ns" => (Quantity::LatencyMean, 1.0),
        "us" | "µs" => (Quantity::LatencyMean, 1e3),
        "ms" => (Quantity::LatencyMean, 1e6),
        "s" => (Quantity::LatencyMean, 1e9),
        _ => return None,
    })
}

/// Splits a line into fields, at commas or semicolons. A field in double quotes may contain these separators, and `""`
/// for a double quote.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => {
                fields.last_mut().expect("at least one").push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' | ';' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("at least one").push(c),
        }
    }
    fields.into_iter().map(|field| field.trim().to_owned()).collect()
}
