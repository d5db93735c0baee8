//! `flashlab recording import` and `export`.

use crate::failure::{Failure, say};
use crate::recorded::{self, fault};
use crate::{file, progress};
use clap::{Args, ValueEnum};
use flashlab_fio::iolog::Version;
use flashlab_recording::{Action, Export, Header, Import, ImportError, Summary, TraceFormat, Writer};
use flashlab_sim::Op;
use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct ImportOptions {
    /// Format of the trace.
    #[arg(long, value_enum)]
    from: Format,
    /// Device to import if the trace contains several: `8,0` (blkparse, blktrace), the name of a file (iolog), `usr.0`
    /// (MSR), `419` (Alibaba).
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Share of the written data that compresses away, in per cent; traces do not state it. A replay on a device that
    /// moves bytes writes data that compresses by this share.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    compressibility: Option<u8>,
    /// File for the recording; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The trace. For blktrace: all of its files, or their common name, such as `sda` for `sda.blktrace.0` and so on.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
}

#[derive(Args)]
pub(super) struct ExportOptions {
    /// File for the iolog; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Version of the iolog: version 3 has a time on every line, and version 2 has `wait` lines in whole
    /// milliseconds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    version: u8,
    /// Name of the file in the iolog; `fio --replay_redirect=/dev/sdX` replaces it.
    #[arg(long, value_name = "NAME", default_value = "device")]
    name: String,
    /// The recording.
    recording: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text of blkparse.
    Blkparse,
    /// Binary files of blktrace.
    Blktrace,
    /// Iolog of fio, version 2 or 3.
    Iolog,
    /// CSV of the MSR Cambridge traces.
    Msr,
    /// CSV of Alibaba's block traces.
    Alibaba,
}

impl Format {
    /// Returns the name of the format in the header of a recording.
    fn origin(self) -> &'static str {
        match self {
            Format::Blkparse => "text of blkparse",
            Format::Blktrace => "files of blktrace",
            Format::Iolog => "iolog of fio",
            Format::Msr => "MSR Cambridge CSV",
            Format::Alibaba => "Alibaba CSV",
        }
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    File::open(path).map(BufReader::new).map_err(|error| fault(path, error))
}

/// A trace that can be read several times.
struct Trace<'a> {
    format: Format,
    files: Vec<PathBuf>,
    device: Option<&'a str>,
}

impl Trace<'_> {
    fn new(options: &ImportOptions) -> Result<Trace<'_>, Failure> {
        let files = match (options.from == Format::Blktrace, &options.traces[..]) {
            (true, [one]) if !one.is_file() => files_of_blktrace(one)?,
            (true, several) => several.to_vec(),
            (false, [one]) => vec![one.clone()],
            (false, _) => {
                return Err(Failure::usage("a trace of this format is one file; import one at a time"));
            }
        };
        if let Some(path) = files.iter().find(|path| path.exists() && !path.is_file()) {
            return Err(fault(path, "a trace is read twice, so it has to be a regular file"));
        }
        Ok(Trace { format: options.from, files, device: options.device.as_deref() })
    }

    fn read(&self) -> Result<Import<'_>, Failure> {
        let first = &self.files[0];
        let text = |format| Ok(Import::new(open(first)?, format, self.device));
        match self.format {
            Format::Blkparse => text(TraceFormat::Blkparse),
            Format::Msr => text(TraceFormat::Msr),
            Format::Alibaba => text(TraceFormat::Alibaba),
            Format::Blktrace => {
                let files: Result<Vec<BufReader<File>>, Failure> =
                    self.files.iter().map(|path| open(path)).collect();
                Ok(Import::blktrace(files?, self.device))
            }
            Format::Iolog => Ok(Import::iolog(open(first)?, self.device)),
        }
    }

    fn fault(&self, error: &ImportError) -> Failure {
        fault(&self.files[error.file], error)
    }
}

/// Returns the files of all processors, as `blkparse -i NAME` finds them.
fn files_of_blktrace(name: &Path) -> Result<Vec<PathBuf>, Failure> {
    let file = |number: usize| {
        let mut path = name.as_os_str().to_owned();
        path.push(format!(".blktrace.{number}"));
        PathBuf::from(path)
    };
    // Processors can be offline, so numbers may be missing.
    let files: Vec<PathBuf> = (0..4096).map(file).filter(|path| path.is_file()).collect();
    if files.is_empty() {
        return Err(fault(name, format_args!("neither this file nor {} exists", file(0).display())));
    }
    Ok(files)
}

/// Imports a trace. Reads it twice, because the header of a recording contains the capacity and the tasks, which are
/// known only at the end of the trace.
pub(super) fn import(options: &ImportOptions) -> Result<ExitCode, Failure> {
    let (trace, to) = (Trace::new(options)?, &options.to);
    let shown = options.traces[0].display();
    file::check_output(to)?;
    file::check_not_input(to, &trace.files)?;
    let mut summary = Summary::default();
    let tasks = progress::show_elapsed(format!("reading {shown}"), || {
        let mut import = trace.read()?;
        for step in &mut import {
            summary.add(&step.map_err(|error| trace.fault(&error))?);
        }
        Ok::<_, Failure>(import.tasks().to_vec())
    })?;
    let requests = summary.requests();
    if requests == 0 {
        let origin = options.from.origin();
        let device = options.device.as_deref().map_or_else(String::new, |device| format!(" of {device}"));
        return Err(fault(
            &options.traces[0],
            format_args!("it contains no request{device} when read as {origin}; check --from"),
        ));
    }
    let origin = options.from.origin().into();
    let compressibility_percent = options.compressibility;
    let header =
        Header { capacity: summary.end, block: 512, compressibility_percent, origin, ..Header::default() };
    let again = trace.read()?;
    let mut digest = String::new();
    progress::show_elapsed(format!("writing {}", file::shown(to)), || {
        file::write_with(to, |file| {
            let mut writer = Writer::new(file, &header, &tasks)?;
            for step in again {
                writer.push(&step.map_err(|error| io::Error::other(error.to_string()))?)?;
            }
            (_, digest) = writer.finish()?;
            Ok(())
        })
    })?;
    say(format_args!("{requests} requests of {shown} are in {} (digest {digest})", file::shown(to)));
    Ok(ExitCode::SUCCESS)
}

/// Exports a recording. Checks all of it before writing the first line of the iolog.
pub(super) fn export(options: &ExportOptions) -> Result<ExitCode, Failure> {
    let ExportOptions { to, recording: path, name, .. } = options;
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Failure::usage(format!(
            "--name {name:?}: the name of a file in an iolog cannot be empty or contain spaces or control characters"
        )));
    }
    let version = if options.version == 2 { Version::Two } else { Version::Three };
    file::check_output(to)?;
    file::check_not_input(to, [path])?;
    let exported = recorded::open(path)?;
    let mut durable = 0;
    progress::show_elapsed(format!("writing {}", file::shown(to)), || {
        let mut steps = exported.steps().map_err(|error| fault(path, error))?;
        file::write_with(to, |file| {
            let mut export = Export::new(version, name);
            for step in &mut steps {
                durable += u64::from(matches!(step.action, Action::Request { op: Op::WriteFua, .. }));
                file.write_all(export.push(&step).as_bytes())?;
            }
            if let Some(error) = steps.error() {
                return Err(io::Error::other(error.to_string()));
            }
            file.write_all(export.finish().as_bytes())
        })
    })?;
    let requests = exported.summary().requests();
    say(format_args!("{requests} requests of {} are in {}", path.display(), file::shown(to)));
    if durable > 0 {
        say(format_args!(
            "{durable} writes with force unit access became writes, each followed by a datasync"
        ));
    }
    if exported.header().has_dependencies {
        say("an iolog has no dependencies: fio replays the recorded intervals, however slow the device is");
    }
    Ok(ExitCode::SUCCESS)
}
