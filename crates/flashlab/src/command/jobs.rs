//! What `bench` and `compare` share: fio's words behind the device, and a bench to run them on.

use crate::failure::{Failure, say};
use crate::{Medium, file};
use flashlab_fio::cmdline::{Invocation, OutputFormat};
use flashlab_fio::iolog::Iolog;
use flashlab_fio::job::Job;
use flashlab_fio::loader::Loader;
use flashlab_lab::bench::{Bench, BenchError};
use flashlab_lab::device::{Device, Filesystem};
use flashlab_lab::library::Library;
use flashlab_sim::Duration;
use std::path::Path;

/// Options of flashlab that somebody may put behind the device by mistake.
const OURS: [&str; 11] = [
    "--fs",
    "--seed",
    "--against",
    "--library",
    "--logger-rate",
    "--html",
    "--no-html",
    "--format",
    "--to",
    "--bytes",
    "--unwritten",
];

const JOB_FILE_BYTES_MAX: u64 = 16 << 20;
const IOLOG_BYTES_MAX: u64 = 4 << 30;

/// Reads job files and variables for fio's parser.
struct Disk;

impl Loader for Disk {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        file::read(path, JOB_FILE_BYTES_MAX)
    }
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Returns the command line as it can be typed again, words with spaces or signs of the shell in quotes.
pub(crate) fn as_typed() -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=/.,:%+@".contains(c);
    let quoted = |word: String| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    ["flashlab".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// The jobs that fio's `words` ask for.
pub(crate) fn read(words: &[String]) -> Result<Invocation, Failure> {
    let names = words.iter().filter_map(|word| word.split('=').next());
    if let Some(ours) = names.clone().find(|name| OURS.contains(name)) {
        return Err(Failure::usage(format!(
            "{ours} is an option of flashlab: put it before the device; everything behind the device belongs to fio"
        )));
    }
    if let Some(help) = names.clone().find(|name| matches!(*name, "--help" | "-h")) {
        return Err(Failure::usage(format!(
            "{help} stands behind the device, where everything belongs to fio: `flashlab bench --help` is about flashlab, \
             `flashlab explain` lists fio's options"
        )));
    }
    if words.is_empty() {
        return Err(Failure::usage(
            "no job: name a job file, or give fio's options (--name=a --rw=randread --bs=4k --direct=1 --runtime=10)",
        ));
    }
    Invocation::parse(words, &Disk).map_err(Failure::usage)
}

/// What stands between jobs and devices: a filesystem, the traces that are replayed, the seed.
pub(crate) struct Setup {
    filesystem: Option<Filesystem>,
    iologs: Vec<(String, Iolog)>,
    seed: u64,
}

impl Setup {
    pub(crate) fn new(medium: &Medium, invocation: &Invocation, library: &Library) -> Result<Self, Failure> {
        let filesystem = medium.fs.as_ref().map(|fs| Filesystem::open(fs, library)).transpose()?;
        Ok(Setup { filesystem, iologs: iologs(invocation)?, seed: medium.seed })
    }

    /// `device`, new, with everything around it.
    pub(crate) fn bench(&self, device: &Device) -> Result<Bench, BenchError> {
        self.around(Bench::with(device, self.seed))
    }

    /// A bench with everything around its device.
    pub(crate) fn around(&self, mut bench: Bench) -> Result<Bench, BenchError> {
        for (path, iolog) in &self.iologs {
            bench.load_iolog(path, iolog.clone());
        }
        if let Some(filesystem) = &self.filesystem {
            bench.format_once(&filesystem.vfat)?;
        }
        Ok(bench)
    }
}

/// The bytes of a workload's file, which is read once more by whoever reads what it is.
pub(crate) fn read_bytes(path: &str) -> Result<Vec<u8>, Failure> {
    if path == "-" {
        return Err(Failure::usage("--job reads its file twice, so it cannot be standard input"));
    }
    file::read(path, IOLOG_BYTES_MAX).map_err(|why| Failure::usage(format!("{path}: cannot be read: {why}")))
}

/// The traces that jobs replay, each once.
pub(crate) fn iologs(invocation: &Invocation) -> Result<Vec<(String, Iolog)>, Failure> {
    let mut iologs: Vec<(String, Iolog)> = Vec::new();
    for path in invocation.jobs.iter().filter_map(|job| job.read_iolog.as_ref()) {
        if !iologs.iter().any(|(known, _)| known == path) {
            iologs.push((path.clone(), read_iolog(path)?));
        }
    }
    Ok(iologs)
}

/// Says that a device is not new, where it is not.
pub(crate) fn introduce(device: &Device) {
    if let Some(state) = &device.state {
        let (name, made) = (&device.name, span(state.used));
        say(format_args!("{name} begins in the state of {}: {made} of use, seed {}", state.file, state.seed));
    }
}

/// A time, for a person: `3.2 days`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_ns() as f64 / 1e9;
    match seconds {
        s if s < 120.0 => format!("{s:.3} s"),
        s if s < 7_200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Bytes of a file, for a person.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        b if b < 10 << 10 => format!("{b} B"),
        b if b < 10 << 20 => format!("{} KiB", b >> 10),
        b if b < 10 << 30 => format!("{} MiB", b >> 20),
        b => format!("{} GiB", b >> 30),
    }
}

/// The device as it was asked for, ready for one more key; without the state that it began in.
pub(crate) fn before_more_keys(device: &Device) -> String {
    let (name, keys) = device.argument.split_once(':').unwrap_or((&device.argument, ""));
    let keys = keys.split(',').filter(|key| !key.is_empty() && !key.starts_with("state="));
    let keys: String = keys.flat_map(|key| [key, ","]).collect();
    format!("{name}:{keys}")
}

fn read_iolog(path: &str) -> Result<Iolog, Failure> {
    let bytes = file::read(path, IOLOG_BYTES_MAX)
        .map_err(|why| Failure::usage(format!("{path}: cannot read the iolog: {why}")))?;
    Iolog::read(&bytes)
        .map_err(|error| Failure::usage(format!("{path}:{}:{}: {}", error.line, error.column, error.problem)))
}

/// Returns the note that files lie on the bare device, where jobs have `directory=` and there is no filesystem.
pub(crate) fn files_on_device(medium: &Medium, invocation: &Invocation) -> Option<String> {
    let directory = invocation.jobs.iter().find_map(|job| job.directory.as_ref());
    let directory = directory.filter(|_| medium.fs.is_none())?;
    Some(format!(
        "directory={directory}: its files lie one after the other on the bare device, without a filesystem (--fs vfat puts \
         one there)"
    ))
}

/// Refuses places that cannot be written, of all files that the jobs name for results; before anything runs.
pub(crate) fn check_outputs(invocation: &Invocation, logs: bool) -> Result<(), Failure> {
    if let Some(path) = &invocation.output {
        file::check_output(Path::new(path))?;
    }
    for job in invocation.jobs.iter().filter(|_| logs) {
        let named = [(&job.write_bw_log, "bw"), (&job.write_lat_log, "lat"), (&job.write_iops_log, "iops")];
        let logs = named.into_iter().filter_map(|(log, kind)| Some((log.as_ref()?, kind)));
        // Their numbers do not matter: it is the folder that may be wrong.
        let logs = logs.map(|(prefix, kind)| format!("{prefix}_{kind}.1.log"));
        for path in logs.chain(job.write_iolog.clone()) {
            file::check_output(Path::new(&path))?;
        }
    }
    Ok(())
}

/// The options that were accepted and change nothing here, each once.
pub(crate) fn without_effect(invocation: &Invocation) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for irrelevant in &invocation.irrelevant {
        let option = irrelevant.as_written();
        if !options.contains(&option) {
            options.push(option);
        }
    }
    options
}

/// Refuses formats of fio's output for a command that prints none.
pub(crate) fn no_fio_output(command: &str, prints: &str, invocation: &Invocation) -> Result<(), Failure> {
    if invocation.output_formats == [OutputFormat::Normal] {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{command} prints {prints}: leave --output-format out, or use `flashlab bench`"
    )))
}

/// Reports the options without effect and the place of files on standard error, for an output that has no room for them.
pub(crate) fn notes(medium: &Medium, invocation: &Invocation) {
    let without_effect = without_effect(invocation);
    if !without_effect.is_empty() {
        say(format_args!("without effect here: {}", without_effect.join(", ")));
    }
    files_on_device(medium, invocation).iter().for_each(say);
}

/// Says what such a command does not show or write of what the jobs ask for.
pub(crate) fn remarks(command: &str, medium: &Medium, invocation: &Invocation) {
    notes(medium, invocation);
    let logs = |job: &Job| {
        [&job.write_bw_log, &job.write_lat_log, &job.write_iops_log, &job.write_iolog]
            .into_iter()
            .any(Option::is_some)
    };
    if invocation.jobs.iter().any(logs) {
        say(format_args!("{command} writes no logs; `flashlab bench` does"));
    }
}
