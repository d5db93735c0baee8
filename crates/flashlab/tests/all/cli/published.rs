//! Published fio command lines and job files: each runs, runs with a note, or is refused with a reason.
//!
//! `published/lines.txt` contains these texts, each under the address of its source. The test reduces sizes
//! and times, so that all texts together take seconds, and changes nothing else. The snapshot contains the
//! outcome of each text.

use super::folder::{Folder, RunOutput};
use serde_json::Value;
use std::fmt::Write;

/// Sizes and times with their values in the test. The sizes have room for a large block: smaller ones are refused.
const CUT: [(&str, &str); 9] = [
    ("size", "16m"),
    ("filesize", "16m"),
    ("io_size", "16m"),
    ("runtime", "40ms"),
    ("timeout", "40ms"),
    ("ramp_time", "5ms"),
    ("startdelay", "5ms"),
    ("loops", "1"),
    ("offset_increment", "1m"),
];

/// Returns the value of an option in the test, if the test replaces the published one.
fn cut(option: &str) -> Option<&'static str> {
    CUT.iter().find(|(name, _)| *name == option).map(|(_, value)| *value)
}

/// Returns the words of a command line with reduced sizes and times.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = None;
    for word in line.split_whitespace().filter(|word| *word != "\\") {
        let option = word.trim_start_matches('-');
        let cut_down = match (before.take(), word.split_once('=')) {
            (Some(value), _) => Some(value),
            (None, Some((dashed, _))) => {
                cut(dashed.trim_start_matches('-')).map(|value| format!("{dashed}={value}"))
            }
            (None, None) => {
                before = cut(option).filter(|_| word.starts_with('-')).map(str::to_owned);
                None
            }
        };
        words.push(cut_down.unwrap_or_else(|| word.to_owned()));
    }
    words
}

/// Returns a job file with reduced sizes and times.
fn job_file(text: &str) -> String {
    let line = |line: &str| match line.split_once('=').and_then(|(name, _)| Some((name, cut(name.trim())?))) {
        Some((name, value)) => format!("{name}={value}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Runs a published text. A job without size or runtime gets those of the test.
fn run(folder: &Folder, text: &str) -> RunOutput {
    let mut arguments = vec!["bench".to_owned(), "sd/kingston".to_owned()];
    if text.starts_with('[') {
        folder.put("job.fio", format!("[global]\nsize=16m\nruntime=40ms\n{}", job_file(text)));
        arguments.push("job.fio".to_owned());
    } else {
        let words = words(text);
        let fio = words.iter().position(|word| word.ends_with("fio")).map_or(0, |at| at + 1);
        arguments.extend_from_slice(&words[..fio]);
        arguments.extend(["--size=16m", "--runtime=40ms"].map(str::to_owned));
        arguments.extend_from_slice(&words[fio..]);
    }
    folder.run(&arguments)
}

/// Returns the notes of an output: options without effect, and the placement of files.
fn notes(output: &RunOutput) -> Vec<String> {
    let line = |line: &str| {
        let plain = line.trim_start_matches("flashlab: ");
        let without =
            plain.strip_prefix("Without effect here: ").or(plain.strip_prefix("without effect here: "));
        let files = plain.starts_with("directory=").then_some(FILES);
        without.or(files).map(str::to_owned)
    };
    let mut notes: Vec<String> = output.out.lines().chain(output.err.lines()).filter_map(line).collect();
    if let Ok(json) = serde_json::from_str::<Value>(&output.out) {
        let options = json["jobs"][0]["flashlab"]["without_effect"].as_array().expect("a list");
        let options: Vec<&str> = options.iter().filter_map(Value::as_str).collect();
        notes.extend((!options.is_empty()).then(|| options.join(", ")));
        notes.extend(json["flashlab"]["files"].is_string().then(|| FILES.to_owned()));
    }
    notes
}

const FILES: &str = "files on the bare device";

#[test]
fn every_quoted_line_runs_or_is_refused_for_a_reason() {
    let folder = Folder::new("published");
    let mut outcomes = String::new();
    let mut rows = 0;
    for row in include_str!("published/lines.txt").split("== ").skip(1) {
        let (source, text) = row.split_once('\n').expect("a source, then the text");
        let output = run(&folder, text.trim());
        let host = source.split('/').next().expect("a split has a first part");
        assert!(source.contains('/') && host.contains('.'), "no address: {source}");
        rows += 1;
        writeln!(outcomes, "{rows}. {source}").expect("a string takes all");
        let outcome = match output.code {
            Some(0) => match notes(&output) {
                notes if notes.is_empty() => "runs".to_owned(),
                notes => format!("runs, notes: {}", notes.join("; ")),
            },
            Some(2) => {
                assert_eq!(output.out, "", "{text}");
                format!("refused: {}", output.err.trim_start_matches("flashlab: ").trim())
            }
            code => panic!("{source}: exit code {code:?}\n{text}\n{}", output.err),
        };
        writeln!(outcomes, "   {}", outcome.replace("\n    ", " ")).expect("a string takes all");
    }
    assert!(rows >= 100, "{rows} rows");
    insta::assert_snapshot!(outcomes);
}
