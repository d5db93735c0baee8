//! `flashlab recording`: imports and exports recorded runs, shows their contents, and replays them on virtual devices.

mod convert;

use crate::failure::{Failure, say};
use crate::{file, progress};
use clap::{Args, Subcommand, ValueEnum};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_lab::statistics::{Counters, Wear, statistics};
use flashlab_recording::{Header, Mode, Outcome, Reader, Replay, Summary};
use flashlab_sim::{
    Arrival, Completion, FileId, Histogram, Instant, Op, Request, RequestId, Workload, run as run_workload,
};
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
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
    },
    /// Replays a recording on a virtual device, in simulated time.
    Replay(ReplayOptions),
}

#[derive(Args)]
struct ReplayOptions {
    /// Rule for the start of each request; by dependencies if the recording has them, else by timestamps.
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    /// Factor for the recorded instants with `--mode timestamps`, in per cent: 200 replays at half the speed.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..))]
    scale: Option<u32>,
    /// Requests in flight with `--mode fast`; 32 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Replays on the device as it is. Otherwise a new device is first written up to the last byte that is read.
    #[arg(long)]
    unwritten: bool,
    /// Seed of the medium.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// The device: `sd/kingston`, `nvme/p32a80:hmb=0`.
    device: String,
    /// The recording.
    recording: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// A request starts when its causes are over.
    Dependencies,
    /// A request starts at its recorded instant.
    Timestamps,
    /// A request starts when the queue has room.
    Fast,
}

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    match &options.action {
        Action::Import(options) => convert::import(options),
        Action::Export(options) => convert::export(options),
        Action::Info { recording, json } => info(recording, *json),
        Action::Replay(options) => replay(options, library),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    File::open(path).map(BufReader::new).map_err(|error| Failure::io(path, &error))
}

/// Prefixes a fault of a file with its name.
fn fault(path: &Path, problem: impl std::fmt::Display) -> Failure {
    Failure::usage(format_args!("{}: {problem}", path.display()))
}

/// Contents of a recording after all of it was read and checked.
struct Contents {
    header: Header,
    tasks: Vec<String>,
    digest: String,
    summary: Summary,
}

fn contents(path: &Path) -> Result<Contents, Failure> {
    let mut reader = Reader::new(open(path)?).map_err(|error| fault(path, error))?;
    let mut summary = Summary::default();
    progress::show_elapsed(format!("reading {}", path.display()), || {
        reader.by_ref().try_for_each(|step| step.map(|step| summary.add(&step)))
    })
    .map_err(|error| fault(path, error))?;
    let digest = reader.digest().expect("a recording that was read has a digest").to_owned();
    Ok(Contents { header: reader.header().clone(), tasks: reader.tasks().to_vec(), digest, summary })
}

fn requests(summary: &Summary) -> u64 {
    kinds(summary).iter().map(|(_, count)| count.requests).sum()
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

fn info(path: &Path, json: bool) -> Result<ExitCode, Failure> {
    let Contents { header, tasks, digest, summary } = contents(path)?;
    if json {
        let counts = |(name, count): (&str, flashlab_recording::Count)| {
            (name.to_owned(), serde_json::json!({ "requests": count.requests, "bytes": count.bytes }))
        };
        let mut value = serde_json::json!({
            "digest": digest,
            "capacity_bytes": header.capacity,
            "block_bytes": header.block,
            "dependencies": header.has_dependencies,
            "span_ns": summary.span.as_ns(),
            "end_bytes": summary.end,
            "marks": summary.marks,
            "tasks": tasks,
            "requests": kinds(&summary).into_iter().map(counts).collect::<serde_json::Map<_, _>>(),
        });
        for (name, text) in texts(&header) {
            value[name] = text.into();
        }
        file::print(&file::pretty(&value))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    let mut line = |name: &str, value: String| writeln!(text, "{name:<13} {value}").expect("a string grows");
    for (name, value) in texts(&header) {
        line(name, if value.is_empty() { "not stated".into() } else { value.into() });
    }
    line("capacity", format!("{} bytes; the requests reach byte {}", header.capacity, summary.end));
    line("dependencies", if header.has_dependencies { "yes" } else { "no: timestamps only" }.into());
    line("span", summary.span.to_string());
    for (name, count) in kinds(&summary) {
        line(name, format!("{} of {} bytes in all", count.requests, count.bytes));
    }
    line("marks", summary.marks.to_string());
    line("digest", digest);
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn replay(options: &ReplayOptions, library: &Library) -> Result<ExitCode, Failure> {
    let path = &options.recording;
    let Contents { header, summary, .. } = contents(path)?;
    let device = Device::open(&options.device, library)?;
    if summary.end > device.capacity() {
        return Err(fault(
            path,
            format_args!(
                "step {} reaches byte {}, but {} has {} bytes; choose a larger device",
                summary.highest_step,
                summary.end,
                options.device,
                device.capacity()
            ),
        ));
    }
    let mode = mode_of(options, &header)?;
    let mut model = device.build(options.seed);
    let is_new = device.used_time().as_ns() == 0;
    let prepared = if is_new && !options.unwritten { summary.reads_end } else { 0 };
    let start = progress::show_elapsed(format!("writing {}", options.device), || {
        run_workload(
            &mut *model,
            &mut Fill { end: prepared, next: 0, in_flight: false },
            Instant::ZERO + device.used_time(),
        )
    });
    let before = Counters::of(&*model);
    let outcome = progress::show_elapsed(format!("replaying {}", path.display()), || {
        let mut error = None;
        let reader = Reader::new(open(path)?).map_err(|error| fault(path, error))?;
        let steps = reader.map_while(|step| step.map_err(|problem| error = Some(problem)).ok());
        let mut replay = Replay::new(steps, mode, start);
        run_workload(&mut *model, &mut replay, start);
        let outcome = replay.finish().map_err(|error| fault(path, error))?;
        error.map_or(Ok(outcome), |error| Err(fault(path, error)))
    })?;
    let mut counted = statistics(&before, &Counters::of(&*model), Wear::of(&*model).as_ref());
    device.argument.clone_into(&mut counted.column);
    file::print(&format!("{}\n{}", table(&outcome, mode), flashlab_report::of_device(&counted)))?;
    if prepared > 0 {
        say(format_args!(
            "the new device was written up to byte {prepared}, the end of the reads, before the replay; --unwritten \
             replays on it as it is"
        ));
    }
    if outcome.failed > 0 {
        say(format_args!("the device refused {} requests", outcome.failed));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the mode of a replay. An option of another mode is refused, because it would have no effect.
fn mode_of(options: &ReplayOptions, header: &Header) -> Result<Mode, Failure> {
    let by_default = if header.has_dependencies { ModeName::Dependencies } else { ModeName::Timestamps };
    let name = options.mode.unwrap_or(by_default);
    if options.scale.is_some() && name != ModeName::Timestamps {
        return Err(Failure::usage(
            "--scale applies to --mode timestamps only; leave out --scale or choose that mode",
        ));
    }
    if options.depth.is_some() && name != ModeName::Fast {
        return Err(Failure::usage(
            "--depth applies to --mode fast only; leave out --depth or choose that mode",
        ));
    }
    match name {
        ModeName::Dependencies if !header.has_dependencies => Err(fault(
            &options.recording,
            "the recording has no dependencies; use --mode timestamps or --mode fast",
        )),
        ModeName::Dependencies => Ok(Mode::Dependencies),
        ModeName::Timestamps => {
            Ok(Mode::Timestamps { numerator: options.scale.unwrap_or(100).into(), denominator: 100 })
        }
        ModeName::Fast => Ok(Mode::Fast { depth: options.depth.unwrap_or(32) }),
    }
}

/// Returns the elapsed time and the latencies of a replay.
fn table(outcome: &Outcome, mode: Mode) -> String {
    let mode = match mode {
        Mode::Dependencies => "by dependencies".to_owned(),
        Mode::Timestamps { numerator: 100, .. } => "by timestamps".to_owned(),
        Mode::Timestamps { numerator, .. } => {
            format!("by timestamps, at {numerator} % of the recorded intervals")
        }
        Mode::Fast { depth } => format!("as fast as possible, {depth} requests in flight"),
    };
    let mut text = format!("replayed {mode} in {}\n\n", outcome.elapsed);
    let columns = ["", "count", "mean", "p50", "p99", "p99.9", "max"];
    let mut row = |cells: [String; 7]| {
        let [name, rest @ ..] = cells;
        let rest: String = rest.iter().map(|cell| format!(" {cell:>12}")).collect();
        writeln!(text, "{name:<12}{rest}").expect("a string grows");
    };
    row(columns.map(str::to_owned));
    let Outcome { reads, writes, trims, flushes, operations, .. } = outcome;
    let kinds: [(&str, &Histogram); 5] = [
        ("reads", &reads.histogram),
        ("writes", &writes.histogram),
        ("trims", &trims.histogram),
        ("flushes", &flushes.histogram),
        ("operations", operations),
    ];
    for (name, latencies) in kinds.into_iter().filter(|(_, latencies)| latencies.count() > 0) {
        let at = |percent| latencies.percentile(percent).to_string();
        let mean = flashlab_sim::Duration::from_ns(latencies.mean_ns() as u64).to_string();
        let count = latencies.count().to_string();
        row([name.into(), count, mean, at(50.0), at(99.0), at(99.9), latencies.max().to_string()]);
    }
    text
}

/// Writes of a mebibyte from the start of the device to `end`, one at a time.
struct Fill {
    end: u64,
    next: u64,
    in_flight: bool,
}

impl Workload for Fill {
    fn next(&mut self, now: Instant) -> Arrival {
        if self.in_flight {
            Arrival::Waiting
        } else if self.next < self.end {
            Arrival::At(now)
        } else {
            Arrival::Done
        }
    }
    fn submit(&mut self, _: Instant) -> Request {
        let offset = self.next;
        let length = (self.end - offset).min(1 << 20);
        self.next += length;
        self.in_flight = true;
        Request { id: RequestId(offset), op: Op::Write, file: FileId::DEVICE, offset, length }
    }
    fn completed(&mut self, _: &Completion) {
        self.in_flight = false;
    }
}
