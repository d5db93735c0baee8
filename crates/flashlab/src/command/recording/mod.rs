//! `flashlab recording`: imports and exports recorded runs, shows their contents, and replays them on virtual devices.

mod convert;
mod outcome;
mod replay;

use crate::failure::Failure;
use crate::width::columns;
use crate::{file, progress, recorded};
use clap::{Args, Subcommand};
use flashlab_catalogue::library::Library;
use flashlab_recording::{Header, Summary};
use flashlab_report::{quantity, terminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Converts a trace of another program to a recording.
    Import(convert::ImportOptions),
    /// Writes the requests of a recording as an iolog, which `fio --read_iolog` replays.
    Export(convert::ExportOptions),
    /// Shows the origin of a recording and counts its requests.
    Info {
        /// The recording.
        recording: PathBuf,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
        /// Prints long texts, such as the script of the workload, in full.
        #[arg(long)]
        full: bool,
    },
    /// Replays a recording on a virtual device, in simulated time.
    Replay(replay::Options),
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    progress::catch_interrupts();
    match &options.action {
        Action::Import(options) => convert::import(options),
        Action::Export(options) => convert::export(options),
        Action::Info { recording, json, full } => info(recording, *json, *full),
        Action::Replay(options) => replay::run(options, library),
    }
}

fn kinds(summary: &Summary) -> [(&'static str, flashlab_recording::Count); 4] {
    let Summary { reads, writes, trims, flushes, .. } = *summary;
    [("reads", reads), ("writes", writes), ("trims", trims), ("flushes", flushes)]
}

/// Returns the texts of a header with their names.
fn texts(header: &Header) -> [(&'static str, &str); 5] {
    let Header { kernel, filesystem, workload, host, origin, .. } = header;
    [
        ("kernel", kernel),
        ("filesystem", filesystem),
        ("workload", workload),
        ("host", host),
        ("origin", origin),
    ]
}

/// Maximum number of lines of a text that is not printed in full.
const LINES_MAX: usize = 4;

/// Returns a text, or its first lines unless it is wanted in `full`.
fn shortened(text: &str, full: bool) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    if full || lines.len() <= LINES_MAX {
        return text.to_owned();
    }
    let more = lines.len() - LINES_MAX;
    format!("{}\n({more} more lines; --full prints them)", lines[..LINES_MAX].join("\n"))
}

fn info(path: &Path, json: bool, full: bool) -> Result<ExitCode, Failure> {
    let recording = recorded::open(path)?;
    let (header, summary) = (recording.header(), recording.summary());
    let (tasks, digest) = (recording.tasks(), recording.digest());
    if json {
        let counts = |(name, count): (&str, flashlab_recording::Count)| {
            (name.to_owned(), serde_json::json!({ "requests": count.requests, "bytes": count.bytes }))
        };
        let mut value = serde_json::json!({
            "digest": digest,
            "capacity_bytes": header.capacity,
            "block_bytes": header.block,
            "dependencies": header.has_dependencies,
            "compressibility_percent": header.compressibility_percent,
            "span_ns": summary.span.as_ns(),
            "end_bytes": summary.end,
            "marks": summary.marks,
            "tasks": tasks,
            "requests": kinds(summary).into_iter().map(counts).collect::<serde_json::Map<_, _>>(),
        });
        for (name, text) in texts(header) {
            value[name] = text.into();
        }
        file::print(&file::pretty(&value))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Vec::new();
    let mut line = |name: &'static str, value: String| lines.push((name, value));
    line("capacity", format!("{} bytes; the requests reach byte {}", header.capacity, summary.end));
    line("dependencies", if header.has_dependencies { "yes" } else { "no: timestamps only" }.into());
    if let Some(percent) = header.compressibility_percent {
        line("compressible", format!("{percent} % of the written data"));
    }
    line("span", quantity::duration(summary.span));
    for (name, count) in kinds(summary) {
        let bytes = if count.bytes > 0 { format!(", {} bytes in all", count.bytes) } else { String::new() };
        line(name, format!("{}{bytes}", count.requests));
    }
    line("marks", summary.marks.to_string());
    line("digest", digest.into());
    for (name, value) in texts(header) {
        line(name, if value.is_empty() { "not stated".into() } else { shortened(value, full) });
    }
    let rows: Vec<Vec<&str>> = lines.iter().map(|(name, value)| vec![*name, value.as_str()]).collect();
    file::print(&terminal::columns(&rows, &[false, false], columns()))?;
    Ok(ExitCode::SUCCESS)
}
