//! What `bench` and `compare` share: fio's words behind the device.

use crate::failure::Failure;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::iolog::Iolog;
use flashlab_fio::loader::Loader;
use flashlab_lab::bench::Bench;
use flashlab_lab::library::read_file;
use std::path::Path;

/// Options of flashlab that somebody may put behind the device by mistake.
const OURS: [&str; 8] =
    ["--fs", "--seed", "--against", "--library", "--logger-rate", "--html", "--no-html", "--format"];

/// Reads job files and variables for fio's parser.
struct Disk;

impl Loader for Disk {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        read_file(Path::new(path)).map_err(|error| error.to_string())
    }
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// The jobs that fio's `words` ask for.
pub(crate) fn read(words: &[String]) -> Result<Invocation, Failure> {
    if let Some(ours) = words.iter().find(|word| OURS.contains(&word.split('=').next().unwrap_or_default())) {
        let ours = ours.split('=').next().unwrap_or_default();
        return Err(Failure::usage(format!(
            "{ours} is an option of flashlab, and stands behind the device, where everything belongs to fio: put it before the device"
        )));
    }
    if words.is_empty() {
        return Err(Failure::usage(
            "no job: name a job file, or give fio's options (--name=a --rw=randread --bs=4k --direct=1 --runtime=10)",
        ));
    }
    Invocation::parse(words, &Disk).map_err(Failure::usage)
}

/// Gives `bench` the traces that the jobs replay.
pub(crate) fn load_iologs(invocation: &Invocation, bench: &mut Bench) -> Result<(), Failure> {
    for path in invocation.jobs.iter().filter_map(|job| job.read_iolog.as_ref()) {
        let bytes = read_file(Path::new(path))?;
        let iolog = Iolog::read(&bytes).map_err(|error| Failure::usage(format!("{path}:{error}")))?;
        bench.load_iolog(path, iolog);
    }
    Ok(())
}

/// The options that were accepted and change nothing here, as written, each once.
pub(crate) fn without_effect(invocation: &Invocation) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for irrelevant in &invocation.irrelevant {
        let option = match &irrelevant.value {
            Some(value) => format!("{}={value}", irrelevant.option),
            None => irrelevant.option.to_owned(),
        };
        if !options.contains(&option) {
            options.push(option);
        }
    }
    options
}
