//! The job of a session, from fio's options or the text of a job file. The job cannot name other files.

use super::SessionError;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Job;

/// Largest number of jobs in a session, clones included.
pub(super) const JOBS_MAX: usize = 64;

/// Name of the text in messages, in place of the name of a job file.
const NAME: &str = "the text of the job";

/// Parses `text`: a command line of fio, with words quoted as in a shell, or the lines of a job file.
pub(super) fn parse(text: &str) -> Result<Vec<Job>, SessionError> {
    let words = match is_command_line(text) {
        // A shell joins a line that ends with a backslash and the next line, but `shlex` would add an empty
        // word.
        true => shlex::split(&text.replace("\\\n", "")).ok_or(SessionError::OpenQuote)?,
        false => vec![NAME.to_owned()],
    };
    let loader = |path: &str| match path {
        NAME => Ok(text.as_bytes().to_vec()),
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

/// Returns true if `text` begins with an option, or with the name of the program as in a line that was pasted whole.
/// The lines of a job file begin with `[`.
fn is_command_line(text: &str) -> bool {
    let first = text.trim_start().trim_start_matches(['\'', '"']).split_whitespace().next().unwrap_or("");
    first.starts_with('-') || matches!(first, "fio" | "sudo") || first.ends_with("/fio")
}
