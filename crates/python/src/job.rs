//! Jobs from Python: the text of a job file, a command line, a path, or options as keyword arguments.

use crate::arguments::word;
use crate::error::error;
use flashlab_block::read_whole;
use flashlab_fio::cmdline::{Invocation, OutputFormat};
use flashlab_fio::loader::Loader;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::path::{Path, PathBuf};

/// Size in bytes of the largest job file that is read.
const JOB_FILE_BYTES_MAX: u64 = 16 << 20;

/// Name of a job file whose text the caller passes, in messages.
const TEXT_NAME: &str = "job";

/// A job in the form of fio's command line.
pub(crate) struct Source {
    words: Vec<String>,
    /// Text of a job file, to which the word [`TEXT_NAME`] refers.
    text: Option<String>,
}

impl Source {
    /// Reads the arguments of a call: a job, or options. Options alone describe one job with `direct=1`, unless they
    /// contain `direct`, because a caller usually means the device rather than the page cache above it.
    pub(crate) fn new(
        job: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Source> {
        let options = options.filter(|options| !options.is_empty());
        match (job, options) {
            (Some(job), None) => Source::of_job(job),
            (None, Some(options)) => Source::of_options(options),
            (Some(_), Some(_)) => {
                Err(error("give a job or options as keywords, not both: add the options to the job"))
            }
            (None, None) => Err(error(
                "no job: give the text of a job file, a command line, a path, or options (rw=\"randread\", bs=\"4k\", \
                 runtime=10)",
            )),
        }
    }

    fn of_job(job: &Bound<'_, PyAny>) -> PyResult<Source> {
        if job.is_instance_of::<PyList>() || job.is_instance_of::<PyTuple>() {
            return Ok(Source { words: job.extract()?, text: None });
        }
        if !job.is_instance_of::<PyString>() {
            let path: PathBuf = job.extract()?;
            return Ok(Source { words: vec![path.to_string_lossy().into_owned()], text: None });
        }
        let text: String = job.extract()?;
        let begin = text.trim_start();
        if text.contains('\n') || begin.starts_with(['[', ';', '#']) {
            return Ok(Source { words: vec![TEXT_NAME.to_owned()], text: Some(text) });
        }
        if begin.starts_with('-') || begin.contains(" -") {
            let split = job.py().import("shlex")?.call_method1("split", (text,));
            return Ok(Source {
                words: split.map_err(|fault| error(fault.value(job.py())))?.extract()?,
                text: None,
            });
        }
        Ok(Source { words: vec![text], text: None })
    }

    fn of_options(options: &Bound<'_, PyDict>) -> PyResult<Source> {
        let mut words = Vec::new();
        if !options.contains("name")? {
            words.push(format!("--name={TEXT_NAME}"));
        }
        if !options.contains("direct")? {
            words.push("--direct=1".to_owned());
        }
        for (option, value) in options {
            let option: String = option.extract()?;
            let word = format!("--{option}={}", word(&option, &value, ["1", "0"])?);
            // In fio's command line, a name begins a job, and the options before it apply to all jobs.
            if option == "name" { words.insert(0, word) } else { words.push(word) }
        }
        Ok(Source { words, text: None })
    }

    /// Parses the job.
    pub(crate) fn parse(&self) -> PyResult<Invocation> {
        let invocation = Invocation::parse(&self.words, self).map_err(error)?;
        if invocation.output.is_some() || invocation.output_formats != [OutputFormat::Normal] {
            return Err(error(
                "a result has no output file: leave the output options out, and use text(), json() or jobs of the result",
            ));
        }
        Ok(invocation)
    }
}

impl Loader for Source {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        match &self.text {
            Some(text) if path == TEXT_NAME => Ok(text.clone().into_bytes()),
            _ if path == "-" => Err("standard input is not read: pass the text of the job file".to_owned()),
            _ => read_file(path, JOB_FILE_BYTES_MAX),
        }
    }
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Reads a file of at most `bytes_max` bytes.
pub(crate) fn read_file(path: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
    read_whole(Path::new(path), bytes_max).map_err(|error| error.to_string())
}
