//! The job of a session, from fio's options or the text of a job file. The job cannot name other files.

use super::SessionError;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Job;

/// Largest number of jobs in a session, clones included.
pub(super) const JOBS_MAX: usize = 64;

/// Parses `text`: options that begin with `--`, with words quoted as in a shell, or the lines of a job file.
pub(super) fn parse(text: &str) -> Result<Vec<Job>, SessionError> {
    let is_options = text.trim_start().trim_start_matches(['\'', '"']).starts_with("--");
    let words = match is_options {
        true => shlex::split(text).ok_or(SessionError::OpenQuote)?,
        false => vec!["-".to_owned()],
    };
    let loader = |path: &str| match path {
        "-" => Ok(text.as_bytes().to_vec()),
        _ => Err("a job on the live page cannot read other files".to_owned()),
    };
    let jobs = Invocation::parse(&words, &loader).map_err(|error| SessionError::Job(Box::new(error)))?.jobs;
    if jobs.len() > JOBS_MAX {
        return Err(SessionError::TooManyJobs { jobs: jobs.len() });
    }
    for job in &jobs {
        let unsupported = [
            (job.verify.method().is_some(), "verify="),
            (job.directory.is_some(), "directory="),
            (job.read_iolog.is_some(), "read_iolog="),
            (job.buffered, "buffered I/O (add direct=1)"),
        ];
        if let Some((_, option)) = unsupported.into_iter().find(|(is_set, _)| *is_set) {
            return Err(SessionError::JobOption { job: job.name.clone(), option });
        }
    }
    Ok(jobs)
}
