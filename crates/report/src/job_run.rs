//! The output of a run of jobs: fio's formats, with the counters of the device.

use crate::{compare, number, of_device, quantity};
use flashlab_fio::cmdline::{Invocation, OutputFormat};
use flashlab_fio::output::{Run, json, normal::Normal, terse};
use flashlab_lab::job_run::{JobRun, Notes};
use flashlab_lab::write_first::WriteFirst;

/// Returns the output of `run`, a run of the jobs of `invocation`, in one of fio's formats. The counters of
/// the device follow the normal text. In JSON, the counters and the inputs of the run are beside the jobs,
/// under the key `flashlab`, which fio does not use.
pub fn text(invocation: &Invocation, run: &JobRun, format: OutputFormat) -> String {
    let accepted = invocation.without_effect();
    let output = Run {
        version: concat!("flashlab-", env!("CARGO_PKG_VERSION")),
        reports: &run.reports,
        global_options: &invocation.global_options,
        accepted: &accepted,
    };
    match format {
        OutputFormat::Normal => {
            let text = Normal { jobs: &invocation.jobs, run: output }.to_string();
            format!("{text}{}\n{}", paragraphs(&run.notes), of_device(&run.counted))
        }
        OutputFormat::Json => with_device(json::document(&output, json::Bins::Without), run),
        OutputFormat::Terse => terse::text(&run.reports, invocation.terse_version),
        OutputFormat::JsonPlus => with_device(json::document(&output, json::Bins::With), run),
    }
}

/// Returns the note on a run that the user ended.
pub fn incomplete_note(notes: &Notes) -> Option<String> {
    let after = quantity::span(notes.stopped_after?);
    Some(format!("stopped by a signal after {after} of simulated time: incomplete"))
}

/// Returns the note on the data that was written before the jobs began.
pub fn written_first_note(notes: &Notes) -> Option<String> {
    let is_everything = notes.write_first == WriteFirst::Used;
    let note = compare::written_first_note([notes.written_first].into_iter(), is_everything);
    note.map(|note| number::plain(&note))
}

/// Returns the note on a job that writes at random to space that nothing wrote before.
pub fn random_writer_note(notes: &Notes) -> Option<String> {
    compare::random_writer_note(notes.random_writer.as_deref())
}

/// Returns the notes as paragraphs of fio's normal output.
fn paragraphs(notes: &Notes) -> String {
    let written_first = written_first_note(notes);
    let random_writer = random_writer_note(notes);
    let notes = [&notes.files, &notes.page_cache, &written_first, &random_writer].into_iter().flatten();
    notes.map(|note| format!("\n{note}\n")).collect()
}

fn with_device(mut document: serde_json::Value, run: &JobRun) -> String {
    document["flashlab"] = serde_json::to_value(&run.counted).expect("names are text and figures are finite");
    if let Some(files) = &run.notes.files {
        document["flashlab"]["files"] = files.as_str().into();
    }
    if let Some(page_cache) = &run.notes.page_cache {
        document["flashlab"]["page_cache"] = page_cache.as_str().into();
    }
    document["flashlab"]["written_first_bytes"] = run.notes.written_first.into();
    if let Some(job) = &run.notes.random_writer {
        document["flashlab"]["writes_at_random_to_new_space"] = job.as_str().into();
    }
    if run.notes.stopped_after.is_some() {
        document["flashlab"]["incomplete"] = true.into();
    }
    document["flashlab"]["run"] = serde_json::to_value(&run.inputs).expect("the inputs are text and numbers");
    document["flashlab"]["device"] = serde_json::to_value(&run.device).expect("the inputs are text");
    json::layout(&document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::Duration;

    #[test]
    fn the_notes_of_a_run_have_plain_spaces() {
        let notes = Notes {
            written_first: 16 << 20,
            stopped_after: Some(Duration::from_secs(5_400)),
            ..Notes::default()
        };
        assert_eq!(
            written_first_note(&notes).as_deref(),
            Some(
                "Before the jobs began, the data that they read (16.0 MiB) was written; --unwritten skips this."
            )
        );
        assert_eq!(
            incomplete_note(&notes).as_deref(),
            Some("stopped by a signal after 90.0 min of simulated time: incomplete")
        );
        assert_eq!((written_first_note(&Notes::default()), incomplete_note(&Notes::default())), (None, None));
    }
}
