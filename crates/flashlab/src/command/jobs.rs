//! Parts that commands with jobs share, such as `bench`, `age` and `compare`: parsing of fio's arguments, a
//! bench for the jobs, and messages.

use crate::failure::{Failure, say};
use crate::{Medium, file, recorded, version, words};
use clap::CommandFactory;
use flashlab_catalogue::device::{Device, Filesystem};
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::{Invocation, OutputFormat};
use flashlab_fio::job::Job;
use flashlab_fio::loader::Loader;
use flashlab_lab::bench::{Bench, BenchError, Trace};
use flashlab_lab::iologs;
use flashlab_lab::job_run::files_on_bare_device;
use flashlab_lab::run_inputs::RunInputs;
use flashlab_lab::write_first::WriteFirst;
use flashlab_report::quantity;
use std::path::Path;

/// Options of the commands with jobs that users may put after the device by mistake.
const FLASHLAB_OPTIONS: [&str; 15] = [
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
    "--written",
    "--compressibility",
    "--listen",
    "--speed",
];

/// Maximum size of a job file in bytes.
pub(crate) const JOB_FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads job files and environment variables for fio's parser.
struct Disk;

impl Loader for Disk {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        file::read(path, JOB_FILE_BYTES_MAX)
    }
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Returns the command line in a form that can be typed again: words with spaces or shell metacharacters are quoted.
pub(crate) fn as_typed() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    words::join(&["flashlab".to_owned()].into_iter().chain(words).collect::<Vec<_>>())
}

/// Returns true if a command has an option, such as `--seed`.
fn has_option(command: &str, option: &str) -> bool {
    let program = crate::Cli::command();
    let own = program.find_subcommand(command).into_iter().flat_map(clap::Command::get_arguments);
    own.chain(program.get_arguments()).any(|known| known.get_long() == option.strip_prefix("--"))
}

/// Checks that fio's arguments to `command` contain no option of flashlab.
pub(crate) fn check_owner(command: &str, words: &[String]) -> Result<(), Failure> {
    let names = words.iter().filter_map(|word| word.split('=').next());
    if let Some(misplaced) = names.clone().find(|name| FLASHLAB_OPTIONS.contains(name)) {
        let advice = match has_option(command, misplaced) {
            true => "put it before the device".to_owned(),
            false => format!("`flashlab {command}` does not have it"),
        };
        return Err(Failure::usage(format!(
            "{misplaced} is an option of flashlab: {advice}; everything after the device belongs to fio"
        )));
    }
    if let Some(help) = names.clone().find(|name| matches!(*name, "--help" | "-h")) {
        return Err(Failure::usage(format!(
            "{help} after the device belongs to fio: `flashlab {command} --help` shows flashlab's options, and \
             `flashlab explain` lists fio's options"
        )));
    }
    Ok(())
}

/// Parses fio's arguments to `command` into jobs.
pub(crate) fn read(command: &str, words: &[String]) -> Result<Invocation, Failure> {
    check_owner(command, words)?;
    if words.is_empty() {
        return Err(Failure::usage(
            "no job: name a job file or a recording, or give fio's options (--name=a --rw=randread --bs=4k --direct=1 \
             --runtime=10)",
        ));
    }
    let words: Vec<String> = words.iter().flat_map(|word| job_of(word)).collect();
    Invocation::parse(&words, &Disk).map_err(Failure::usage)
}

/// Expands a word of fio's command line: a recording becomes a job that replays it; any other word stays as it is.
fn job_of(word: &str) -> Vec<String> {
    let path = Path::new(word);
    if word.starts_with('-') || !recorded::is_recording(path) {
        return vec![word.to_owned()];
    }
    let name = path.file_stem().map_or("recording".into(), |stem| stem.to_string_lossy());
    vec![format!("--name={name}"), "--direct=1".into(), format!("--read_iolog={}", escaped(word))]
}

/// Escapes the colons of a path, which separate several files in an option of fio.
pub(crate) fn escaped(path: &str) -> String {
    path.replace(':', "\\:")
}

/// Returns the data that the options `--unwritten` and `--written` ask to write to a new device before jobs begin.
pub(crate) fn write_first(unwritten: bool, written: bool) -> WriteFirst {
    match (unwritten, written) {
        (true, _) => WriteFirst::Nothing,
        (false, true) => WriteFirst::Used,
        (false, false) => WriteFirst::Read,
    }
}

/// Environment of the jobs: the filesystem, the traces to replay, the seed.
pub(crate) struct Setup {
    filesystem: Option<Filesystem>,
    traces: Vec<(String, Trace)>,
    seed: u64,
}

impl Setup {
    pub(crate) fn new(medium: &Medium, invocation: &Invocation, library: &Library) -> Result<Self, Failure> {
        let filesystem = medium.fs.as_ref().map(|fs| Filesystem::open(fs, library)).transpose()?;
        Ok(Setup { filesystem, traces: traces(invocation)?, seed: medium.seed })
    }

    /// Returns the compressibility of the written data, if a job replays a recording that states it.
    pub(crate) fn compressibility_percent(&self) -> Option<u8> {
        self.traces.iter().find_map(|(_, trace)| match trace {
            Trace::Recording(source) => source.header().compressibility_percent,
            Trace::Iolog(_) => None,
        })
    }

    /// Returns the inputs of a run of `invocation` in this environment.
    pub(crate) fn inputs(&self, invocation: &Invocation) -> RunInputs {
        RunInputs {
            commit: version::commit(),
            seed: self.seed,
            filesystem: self.filesystem.as_ref().map(|filesystem| filesystem.argument.clone()),
            ..RunInputs::new(invocation)
        }
    }

    /// Returns a bench on `device` with this environment.
    pub(crate) fn bench(&self, device: &Device) -> Result<Bench, BenchError> {
        self.set_up(Bench::with(device, self.seed))
    }

    /// Adds this environment to `bench`.
    pub(crate) fn set_up(&self, mut bench: Bench) -> Result<Bench, BenchError> {
        for (path, trace) in &self.traces {
            bench.load_trace(path, trace.clone());
        }
        if let Some(filesystem) = &self.filesystem {
            bench.format_once(&filesystem.parameters)?;
        }
        Ok(bench)
    }
}

/// Reads the bytes of a workload's file. The parser of the workload reads the file a second time, so standard input is
/// refused.
pub(crate) fn read_bytes(path: &str) -> Result<Vec<u8>, Failure> {
    if path == "-" {
        return Err(Failure::usage("--job reads its file twice, so it cannot be standard input"));
    }
    file::read(path, iologs::BYTES_MAX)
        .map_err(|why| Failure::usage(format!("{path}: cannot be read: {why}")))
}

/// Returns the iologs and recordings that the jobs replay, each once.
pub(crate) fn traces(invocation: &Invocation) -> Result<Vec<(String, Trace)>, Failure> {
    let mut traces: Vec<(String, Trace)> = Vec::new();
    let mut others: Vec<Job> = Vec::new();
    for job in &invocation.jobs {
        match job.read_iolog.as_deref() {
            Some(path) if traces.iter().any(|(known, _)| known == path) => {}
            Some(path) if recorded::is_recording(Path::new(path)) => {
                traces.push((path.to_owned(), Trace::Recording(Box::new(recorded::open(Path::new(path))?))));
            }
            _ => others.push(job.clone()),
        }
    }
    let read = |path: &str| file::read(path, iologs::BYTES_MAX);
    let iologs = iologs::read_all(&others, &read).map_err(Failure::usage)?;
    traces.extend(iologs.into_iter().map(|(path, iolog)| (path, Trace::Iolog(iolog))));
    Ok(traces)
}

/// Prints the origin of a device that starts from a saved state.
pub(crate) fn print_state_origin(device: &Device) {
    if let Some(state) = &device.state {
        let (name, made) = (&device.name, quantity::span(state.used));
        say(format_args!(
            "{name} starts from the state in {}: {made} of use, seed {}",
            state.file, state.seed
        ));
    }
}

/// Returns the device argument without its `state=` key, in a form to which another key can be appended.
pub(crate) fn argument_without_state(device: &Device) -> String {
    let (name, keys) = device.argument.split_once(':').unwrap_or((&device.argument, ""));
    let keys = keys.split(',').filter(|key| !key.is_empty() && !key.starts_with("state="));
    let keys: String = keys.flat_map(|key| [key, ","]).collect();
    format!("{name}:{keys}")
}

/// Checks, before anything runs, that all result files that the jobs name can be written, and that none of them is a
/// file that `words` name. `logs` includes the jobs' logs.
pub(crate) fn check_outputs(invocation: &Invocation, logs: bool, words: &[&str]) -> Result<(), Failure> {
    if let Some(path) = &invocation.output {
        file::check_output(Path::new(path))?;
        file::check_not_read(Path::new(path), words.iter().copied())?;
    }
    for job in invocation.jobs.iter().filter(|_| logs) {
        let named = [(&job.write_bw_log, "bw"), (&job.write_lat_log, "lat"), (&job.write_iops_log, "iops")];
        let logs = named.into_iter().filter_map(|(log, kind)| Some((log.as_ref()?, kind)));
        // The number of the log does not matter, since only the folder can be wrong.
        let logs = logs.map(|(prefix, kind)| format!("{prefix}_{kind}.1.log"));
        for path in logs.chain(job.write_iolog.clone()) {
            file::check_output(Path::new(&path))?;
            file::check_not_read(Path::new(&path), words.iter().copied())?;
        }
    }
    Ok(())
}

/// Returns the file of fio's `--output`.
pub(crate) fn output(invocation: &Invocation) -> Option<&Path> {
    invocation.output.as_deref().map(Path::new)
}

/// Checks that the page can be written and is none of the files that `words` name.
pub(crate) fn check_page(page: Option<&Path>, words: &[&str]) -> Result<(), Failure> {
    let Some(page) = page else { return Ok(()) };
    file::check_output(page)?;
    file::check_not_read(page, words.iter().copied())
}

/// Returns an error if the user asks for a format of fio's output and the command prints no such output.
pub(crate) fn check_no_output_format(
    command: &str,
    prints: &str,
    invocation: &Invocation,
) -> Result<(), Failure> {
    if invocation.output_formats == [OutputFormat::Normal] {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{command} prints {prints}: leave --output-format out, or use `flashlab bench`"
    )))
}

/// Prints the options without effect and the placement of files to standard error, for output formats that have no room
/// for these notes.
pub(crate) fn print_notes(medium: &Medium, invocation: &Invocation) {
    let without_effect = invocation.without_effect();
    if !without_effect.is_empty() {
        say(format_args!("without effect here: {}", without_effect.join(", ")));
    }
    if medium.fs.is_none() {
        files_on_bare_device(invocation).iter().for_each(say);
    }
    if let Some(job) = invocation.jobs.iter().find(|job| job.buffered && job.read_iolog.is_none()) {
        say(format_args!("{}: buffered (no direct=1), through a model of Linux's page cache", job.name));
    }
}

/// Prints the notes of [`print_notes`], and one more if the jobs ask for logs, which `command` does not write.
pub(crate) fn print_remarks(command: &str, medium: &Medium, invocation: &Invocation) {
    print_notes(medium, invocation);
    let logs = |job: &Job| {
        [&job.write_bw_log, &job.write_lat_log, &job.write_iops_log, &job.write_iolog]
            .into_iter()
            .any(Option::is_some)
    };
    if invocation.jobs.iter().any(logs) {
        say(format_args!("{command} writes no logs; `flashlab bench` does"));
    }
}
