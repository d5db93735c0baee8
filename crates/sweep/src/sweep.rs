//! A plan whose points have been checked, and the run of a point.

use crate::error::SweepError;
use crate::plan::{JobText, Plan};
use crate::point::{Point, Value};
use crate::row::Row;
use flashlab_block::read_whole;
use flashlab_catalogue::device::{ArgumentProblem, Device, DeviceError, Filesystem};
use flashlab_catalogue::digest::short;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::error::{Error, Place as ErrorPlace};
use flashlab_fio::jobfile::is_global;
use flashlab_fio::loader::Loader;
use flashlab_fio::option;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::Bench;
use flashlab_lab::iologs;
use flashlab_lab::job_run::JobRun;
use flashlab_lab::progress::Progress;
use flashlab_lab::write_first::WriteFirst;
use sha2::{Digest, Sha256};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// Part of the hash of each point. It changes when the meaning of a row changes, so that the points of earlier rows run
/// again.
const REVISION: &str = concat!("flashlab-sweep 1 ", env!("CARGO_PKG_VERSION"));

/// Name of a job without a name. Messages also use it for a job file whose text is in the plan.
const JOB_NAME: &str = "job";

/// Hash of all inputs of a run: the name, the numbers and the saved state of the device, the numbers of the
/// host and the filesystem, the job with the contents of its iologs, the seed, `unwritten`, the names and
/// values of the point, and the version of flashlab.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(pub String);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A plan whose points have been checked, with a library of profiles (`L` owns or borrows it).
pub struct Sweep<L> {
    plan: Plan,
    library: L,
    points: Vec<(Key, Point)>,
    without_effect: BTreeSet<String>,
}

/// The inputs of one run.
struct Inputs {
    device: Device,
    filesystem: Option<Filesystem>,
    invocation: Invocation,
    job: Vec<String>,
    seed: u64,
    unwritten: bool,
}

impl<L: Borrow<Library>> Sweep<L> {
    /// Checks all points of `plan`: devices, numbers and jobs. Points with equal inputs are kept once.
    ///
    /// # Errors
    /// Returns the first fault with its point.
    pub fn new(plan: Plan, library: L) -> Result<Sweep<L>, SweepError> {
        let all = plan.all_points()?;
        let points = Vec::with_capacity(all.len());
        let mut sweep = Sweep { plan, library, points, without_effect: BTreeSet::new() };
        let mut seen = BTreeSet::new();
        for point in all {
            let fault = |fault| SweepError::Point { point: point.to_string(), fault };
            let inputs = sweep.inputs(&point).map_err(fault)?;
            let key = key(&inputs, &point).map_err(fault)?;
            let options = inputs.invocation.without_effect().into_iter();
            sweep.without_effect.extend(options.map(|option| option_name(&option).to_owned()));
            if seen.insert(key.clone()) {
                sweep.points.push((key, point));
            }
        }
        Ok(sweep)
    }

    /// Returns the points with their keys, in the order of the plan.
    pub fn points(&self) -> &[(Key, Point)] {
        &self.points
    }

    /// Returns the names of the job's options that have no effect at some point, sorted.
    pub fn without_effect(&self) -> impl Iterator<Item = &str> {
        self.without_effect.iter().map(String::as_str)
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the point with the index `at` and returns its row. A run that fails gives a row with its error.
    /// Returns `None` if `progress` stopped the run.
    pub fn run(&self, at: usize, progress: &Progress) -> Option<Row> {
        let (key, point) = &self.points[at];
        let inputs = self.inputs(point);
        let outcome = inputs.and_then(|inputs| self.run_inputs(&inputs, progress));
        if progress.is_stopped() {
            return None;
        }
        Some(match outcome {
            Ok(run) => Row::of(key.0.clone(), point, &run),
            Err(error) => Row::of_error(key.0.clone(), point, error),
        })
    }

    fn run_inputs(&self, inputs: &Inputs, progress: &Progress) -> Result<JobRun, String> {
        let Inputs { device, filesystem, invocation, seed, unwritten, .. } = inputs;
        let mut bench = Bench::with(device, *seed);
        bench.report_to(progress);
        if let Some(filesystem) = filesystem {
            bench.format_once(&filesystem.parameters).map_err(text)?;
        }
        for (name, iolog) in iologs::read_all(&invocation.jobs, &read_file).map_err(text)? {
            bench.load_iolog(&name, iolog);
        }
        let write_first = match *unwritten || device.state.is_some() {
            true => WriteFirst::Nothing,
            false => WriteFirst::Read,
        };
        JobRun::new(&mut bench, invocation, &Settings::default(), write_first).map_err(text)
    }

    /// Opens the device and parses the job of a point.
    fn inputs(&self, point: &Point) -> Result<Inputs, String> {
        let plan = &self.plan;
        let words = JobWords::of(&plan.job)?;
        let mut argument = point.get("device").map_or(plan.device.clone(), Value::to_string);
        let mut options = Vec::new();
        for (name, value) in &point.0 {
            match name.as_str() {
                "device" | "seed" | "fs" => {}
                option if words.accepts(option) => options.push((option, value)),
                key => {
                    argument.push(if argument.contains(':') { ',' } else { ':' });
                    let value = match value {
                        Value::Flag(true) => "yes".to_owned(),
                        Value::Flag(false) => "no".to_owned(),
                        value => value.to_string(),
                    };
                    argument.push_str(&format!("{key}={value}"));
                }
            }
        }
        let seed = match point.get("seed") {
            None => plan.seed,
            Some(seed) => {
                seed.to_string().parse().map_err(|_| format!("seed={seed}: expected a whole number"))?
            }
        };
        let fs = point.get("fs").map(Value::to_string).or_else(|| plan.fs.clone()).filter(|fs| fs != "none");
        let filesystem =
            fs.map(|fs| Filesystem::open(&fs, self.library.borrow())).transpose().map_err(text)?;
        let device = Device::open(&argument, self.library.borrow())
            .map_err(|fault| of_job_file(&words, &fault).unwrap_or_else(|| fault.to_string()))?;
        let job = words.with(&options);
        // The number of a word means nothing in the plan, because some words are defaults or options of the
        // point.
        let wrong = |error: Error| match error.place {
            ErrorPlace::Argument { .. } => format!("job: {}", error.problem),
            _ => error.to_string(),
        };
        let files = Files { text: words.text, variables: &options };
        let invocation = Invocation::parse(&job, &files).map_err(wrong)?;
        if let Some(output) = &invocation.output {
            return Err(format!("--output={output}: a sweep stores figures only; leave the option out"));
        }
        Ok(Inputs { device, filesystem, invocation, job, seed, unwritten: plan.unwritten })
    }
}

/// Returns a message on how to vary an option of fio that the text of a job file does not refer to; `None`
/// for any other fault.
fn of_job_file(words: &JobWords<'_>, fault: &DeviceError) -> Option<String> {
    let DeviceError::Argument(fault) = fault else { return None };
    let ArgumentProblem::UnknownKey { key, .. } = &*fault.problem else { return None };
    words.text.and_then(|_| option::lookup(key))?;
    Some(format!("{key} is an option of fio: write {key}=${{{key}}} in the job file"))
}

/// Returns the hash of all inputs, which include the contents of files that the job replays.
fn key(inputs: &Inputs, point: &Point) -> Result<Key, String> {
    let Inputs { device, filesystem, invocation, job, seed, unwritten } = inputs;
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(REVISION);
    add(&device.name);
    let numbers = device.numbers().into_iter().chain(filesystem.iter().flat_map(Filesystem::numbers));
    for number in numbers {
        add(&number.path);
        add(&number.value);
    }
    if let Some(state) = &device.state {
        add(&state.checksum());
    }
    for word in job {
        add(word);
    }
    // The text of a job file does not show the values of its variables, but the jobs do.
    add(&format!("{:?}", invocation.jobs));
    for path in invocation.jobs.iter().filter_map(|job| job.read_iolog.as_deref()) {
        add(&flashlab_catalogue::digest::of_bytes(&read_file(path)?));
    }
    add(&seed.to_string());
    for (name, value) in &point.0 {
        add(name);
        add(&value.to_string());
    }
    // A device whose data is written first, the common case, adds nothing.
    if *unwritten {
        add("unwritten");
    }
    Ok(Key(short(hash)))
}

/// The job of a plan: words of a command line, or the text of a job file.
struct JobWords<'a> {
    words: Vec<String>,
    text: Option<&'a str>,
}

impl<'a> JobWords<'a> {
    fn of(job: &'a JobText) -> Result<JobWords<'a>, String> {
        match job {
            JobText::Text(text) if is_job_file(text) => {
                Ok(JobWords { words: vec![JOB_NAME.to_owned()], text: Some(text) })
            }
            JobText::Text(line) => {
                let words = shlex::split(line).ok_or("job: a quotation mark is not closed")?;
                Ok(JobWords { words: with_defaults(words), text: None })
            }
            JobText::Options(options) => {
                let words = options.iter().map(|(name, value)| format!("--{name}={value}")).collect();
                Ok(JobWords { words: with_defaults(words), text: None })
            }
        }
    }

    /// Returns true if `name` belongs to the job and not to the device: an option of fio, or a variable of a job file.
    fn accepts(&self, name: &str) -> bool {
        match self.text {
            Some(text) => text.contains(&format!("${{{name}}}")),
            None => option::lookup(name).is_some(),
        }
    }

    /// Returns the words with `options` at the end of each job; the last of several equal options counts. For
    /// a job file, returns the words alone, since the file refers to `options` as variables.
    fn with(&self, options: &[(&str, &Value)]) -> Vec<String> {
        if self.text.is_some() {
            return self.words.clone();
        }
        let mut sections = sections(&self.words);
        for section in sections.iter_mut().filter(|section| is_job(section)) {
            section.extend(options.iter().map(|(name, value)| format!("--{name}={value}")));
        }
        sections.concat()
    }
}

/// Returns true for the text of a job file: several lines, or a section.
fn is_job_file(text: &str) -> bool {
    text.trim().contains('\n') || text.trim_start().starts_with(['[', ';', '#'])
}

/// Adds a name to a command line that has none, and `direct=1` to each job that lacks it: a sweep measures the device
/// rather than the page cache.
fn with_defaults(mut words: Vec<String>) -> Vec<String> {
    if !words.iter().any(|word| option_name(word) == "name") {
        words.insert(0, format!("--name={JOB_NAME}"));
    }
    let mut sections = sections(&words);
    let has_direct =
        |section: &Vec<String>| section.iter().any(|word| matches!(option_name(word), "direct" | "buffered"));
    let all_jobs_have_it = sections.iter().any(|section| !is_job(section) && has_direct(section));
    if !all_jobs_have_it {
        for section in sections.iter_mut().filter(|section| is_job(section) && !has_direct(section)) {
            section.push("--direct=1".to_owned());
        }
    }
    sections.concat()
}

/// Splits a command line before each `--name`. The options of the first section apply to all jobs.
fn sections(words: &[String]) -> Vec<Vec<String>> {
    let mut sections = vec![Vec::new()];
    for word in words {
        if option_name(word) == "name" {
            sections.push(Vec::new());
        }
        sections.last_mut().expect("there is a first section").push(word.clone());
    }
    sections
}

/// Returns true if the options of a section of a command line apply to one job, false if they apply to all jobs.
fn is_job(section: &[String]) -> bool {
    let name = section.first().filter(|word| option_name(word) == "name");
    let name = name
        .and_then(|word| word.split_once('=').map(|(_, name)| name).or(section.get(1).map(String::as_str)));
    name.is_some_and(|name| !is_global(name))
}

/// Returns the name of the option that `word` gives, or the word itself if it gives none.
fn option_name(word: &str) -> &str {
    word.trim_start_matches('-').split('=').next().unwrap_or(word)
}

/// Gives the parser the text of the plan's job file, and the values of a point as the variables of that file.
struct Files<'a> {
    text: Option<&'a str>,
    variables: &'a [(&'a str, &'a Value)],
}

impl Loader for Files<'_> {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        match self.text {
            Some(text) if path == JOB_NAME => Ok(text.as_bytes().to_vec()),
            _ => read_file(path),
        }
    }
    fn variable(&self, name: &str) -> Option<String> {
        let of_point = self.variables.iter().find(|(known, _)| *known == name);
        of_point.map(|(_, value)| value.to_string()).or_else(|| std::env::var(name).ok())
    }
}

/// Reads a file that a job names.
fn read_file(path: &str) -> Result<Vec<u8>, String> {
    read_whole(Path::new(path), iologs::BYTES_MAX).map_err(|error| format!("{path}: {error}"))
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_of_a_command_line_gets_the_defaults_and_the_options_of_the_point() {
        let with_depth = |line: &str| {
            let job = JobText::Text(line.to_owned());
            JobWords::of(&job).unwrap().with(&[("iodepth", &Value::Number(4.0))]).join(" ")
        };
        for (line, expected) in [
            ("--rw=read", "--name=job --rw=read --direct=1 --iodepth=4"),
            ("--rw=read --name a", "--rw=read --name a --direct=1 --iodepth=4"),
            ("--name=a --name=b", "--name=a --direct=1 --iodepth=4 --name=b --direct=1 --iodepth=4"),
            (
                "--name=a --direct=0 --name=b",
                "--name=a --direct=0 --iodepth=4 --name=b --direct=1 --iodepth=4",
            ),
            ("--buffered=1 --name=a --name=b", "--buffered=1 --name=a --iodepth=4 --name=b --iodepth=4"),
            ("--name=global --direct=0 --name=b", "--name=global --direct=0 --name=b --iodepth=4"),
        ] {
            assert_eq!(with_depth(line), expected);
        }
    }
}
