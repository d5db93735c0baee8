//! Readers of the outputs of other measuring programs.
//!
//! [`parse`] recognises the format: a measurement file of `flashlab measure`, fio's JSON (2.x and 3.x), a table
//! `job,value,sd`, or a log that contains lines of hdparm, dd, iozone, flashbench, agnostics and sdbench in any mixture.
//!
//! Each number becomes an observation of a job that a simulator can run. If the job depends on something that
//! an output does not state, the step lists the assumption. Equal jobs are runs of one step: the observation
//! has their mean and their standard deviation.

mod agnostics;
mod bins;
mod csv;
mod dd;
mod error;
mod fio;
mod flashbench;
mod hdparm;
mod iozone;
mod runs;
mod sdbench;

pub use bins::Bins;
pub use error::{ImportError, Problem};

use crate::observation::{FileError, Measurements, Target, problem_of};
use runs::Runs;

/// Assumption of a job on a file.
const CONTIGUOUS: &str = "the file is contiguous, and filesystem metadata costs nothing";

/// Largest text that is read.
pub const BYTES_MAX: usize = 64 << 20;

/// Reads the text of a measurement in any known format. `name` becomes the name of the target if the text has
/// none. Leaves out results of fio that measured the host's memory instead of the device.
///
/// # Errors
/// Returns the fault and its line.
pub fn parse(text: &str, name: &str) -> Result<Measurements, ImportError> {
    parse_text(text, name, false)
}

/// Reads the text of a measurement as [`parse`] does, but keeps results of fio that measured the host's
/// memory, for comparisons of two results.
///
/// # Errors
/// Returns the fault and its line.
pub fn parse_all(text: &str, name: &str) -> Result<Measurements, ImportError> {
    parse_text(text, name, true)
}

fn parse_text(text: &str, name: &str, has_memory: bool) -> Result<Measurements, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > BYTES_MAX {
        return Err(ImportError::whole(Problem::TooLarge { bytes: text.len() }));
    }
    if text.trim().is_empty() {
        return Err(ImportError::whole(Problem::Empty));
    }
    let measurements = if let Some(at) = json_start(text).filter(|_| is_json(text)) {
        if text[at..].contains("\"fio version\"") {
            fio::parse(text, at, (name, has_memory))?
        } else {
            return Measurements::parse(text).map_err(ImportError::from);
        }
    } else if text.lines().find(|line| csv::is_content(line)).is_some_and(csv::is_header) {
        csv::parse(text, name)?
    } else {
        log(text, name)?
    };
    check(&measurements)?;
    Ok(measurements)
}

/// Returns true if the text is JSON, perhaps after warnings. Lines of other programs may also begin with a
/// brace.
fn is_json(text: &str) -> bool {
    text.contains("\"fio version\"")
        || text.contains("\"flashlab_measurements\"")
        || text.trim_start().starts_with('{')
        || is_array(text)
}

/// Returns true if the text is a JSON array. A log may also begin with a bracket: a prompt (`[root@pi ~]# dd
/// ...`), or the time of a kernel message.
fn is_array(text: &str) -> bool {
    text.trim_start().starts_with('[') && text.trim_end().ends_with([']', '}'])
}

/// Returns the offset of the first line that begins a JSON object, or 0 for a JSON array. fio prints warnings
/// before its object.
pub fn json_start(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('{') {
            return Some(at);
        }
        at += line.len();
    }
    is_array(text).then_some(0)
}

/// A reader of the lines of one program.
trait LineReader {
    /// Reads a line. Returns false if the line is not of this program.
    fn read(&mut self, number: usize, line: &str, runs: &mut Runs) -> Result<bool, ImportError>;
}

/// Reads a log with lines of several programs. Other lines are skipped.
fn log(text: &str, name: &str) -> Result<Measurements, ImportError> {
    let mut readers: [(&str, Box<dyn LineReader>); 6] = [
        ("hdparm", Box::new(hdparm::Reader)),
        ("iozone", Box::new(iozone::Reader::default())),
        ("flashbench", Box::new(flashbench::Reader::new(text))),
        ("agnostics", Box::new(agnostics::Reader)),
        ("sdbench", Box::new(sdbench::Reader::default())),
        ("dd", Box::new(dd::Reader::new(text))),
    ];
    let mut runs = Runs::default();
    let mut programs: Vec<&str> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(version) = fio::terse_version(line) {
            return Err(ImportError::at(index + 1, Problem::Terse { version }));
        }
        for (program, reader) in &mut readers {
            if reader.read(index + 1, line, &mut runs)? {
                if !programs.contains(program) {
                    programs.push(program);
                }
                break;
            }
        }
    }
    let steps = runs.steps();
    if steps.is_empty() {
        let (number, first) = text
            .lines()
            .enumerate()
            .find(|(_, line)| !line.trim().is_empty())
            .expect("the text is not empty");
        return Err(ImportError::at(number + 1, Problem::Unknown { line: excerpt(first) }));
    }
    let target = Target { name: name.to_owned(), ..Target::default() };
    Ok(Measurements { target, host: None, engine: programs.join(", "), plan: None, steps })
}

/// Returns the start of a line, for messages.
fn excerpt(line: &str) -> String {
    line.trim().chars().take(60).collect()
}

/// Returns the first fault of the steps. The readers have checked each line, so a fault found here belongs to no single
/// line.
fn check(measurements: &Measurements) -> Result<(), ImportError> {
    for (index, step) in measurements.steps.iter().enumerate() {
        if let Some(problem) = problem_of(step) {
            let error = FileError::Step { number: index + 1, name: step.name.clone(), problem };
            return Err(ImportError::whole(Problem::File(error)));
        }
    }
    Ok(())
}

/// Parses a positive number of a line.
fn positive(number: usize, text: &str, what: &str) -> Result<f64, ImportError> {
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| {
        ImportError::at(number, Problem::Value { what: what.to_owned(), text: text.trim().to_owned() })
    })
}

/// Returns a size in the form that names of steps use: `16K`, `1M`.
fn short_size(bytes: u64) -> String {
    let units = [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    let unit = units.into_iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or(bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

/// Returns the value of a size such as `4k`, `1MiB` or `$[4 * 1024]`, as GNU programs read it: `k`, `M` and
/// `G` are powers of 1024, and `kB`, `MB` and `GB` are powers of 1000.
fn size(text: &str) -> Option<u64> {
    if let Some(product) = text.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
        return product
            .split('*')
            .map(|factor| factor.trim().parse().ok())
            .try_fold(1_u64, |product, factor| product.checked_mul(factor?));
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "B" | "c" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "m" | "M" | "MiB" => 1 << 20,
        "g" | "G" | "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}
