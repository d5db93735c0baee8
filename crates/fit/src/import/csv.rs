//! Tables of comma-separated values with the columns `job,value,sd`, and optionally `unit` and `runs`.
//!
//! `job` contains options of fio (`rw=randread bs=4k`, with or without dashes); `#` begins a comment. `unit` is `IOPS`,
//! a rate (`MiB/s`, `MB/s`, ...) or a mean latency (`us`, `ms`). Without a unit, values of random jobs are IOPS, and
//! values of sequential jobs are MiB/s.

use super::runs::{Ran, Runs};
use super::{ImportError, Problem, positive};
use crate::observation::{Measurements, Quantity, State, Target};
use flashlab_fio::job::Direction;

/// Options of fio that limit the length of a job. A job without any of them would cover the whole device, which
/// published measurements of cards rarely do: those of iozone, CrystalDiskMark and the agnostics cover at most 1 GiB.
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
    let mut spreads = Vec::new();
    for (index, line) in lines {
        spreads.extend(row(index + 1, &columns, line, &mut runs)?);
    }
    let mut steps = runs.steps();
    // The last row of a job is the superfluous one.
    for spread in spreads.into_iter().rev() {
        let step = &mut steps[spread.step];
        let observation = step.observations.iter_mut().find(|o| o.quantity == spread.quantity);
        let observation = observation.expect("the row added its quantity to the step");
        if observation.runs > 1 {
            let message = format!("job `{}` occurs twice: give it one row with its mean and sd", step.name);
            return Err(ImportError::at(spread.line, Problem::Contradiction(message)));
        }
        observation.sd = spread.sd;
        observation.runs = spread.runs.unwrap_or(1);
    }
    if steps.is_empty() {
        let of = "the table".to_owned();
        return Err(ImportError::at(first + 1, Problem::Missing { of, what: "no row follows".to_owned() }));
    }
    let target = Target { name: name.to_owned(), ..Target::default() };
    Ok(Measurements { target, host: None, engine: "table".to_owned(), plan: None, steps })
}

/// The deviation and the number of runs that a row states.
struct Spread {
    line: usize,
    /// Index of the row's step.
    step: usize,
    quantity: Quantity,
    sd: Option<f64>,
    runs: Option<u32>,
}

/// Adds a row to the runs. Returns its spread if it states one.
fn row(
    number: usize,
    columns: &[String],
    line: &str,
    runs: &mut Runs,
) -> Result<Option<Spread>, ImportError> {
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
    let states_spread = sd.is_some() || count.is_some();
    Ok(states_spread.then_some(Spread { line: number, step, quantity, sd, runs: count }))
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
