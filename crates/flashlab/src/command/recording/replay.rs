//! `flashlab recording replay`: replays a recording on a virtual device, in simulated time.

use super::outcome::Replayed;
use crate::command::stored;
use crate::failure::{Failure, and_then_end, say};
use crate::recorded::{self, fault};
use crate::width::columns;
use crate::{file, progress};
use clap::{Args, ValueEnum};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_lab::statistics::{Counters, Wear, statistics};
use flashlab_recording::{Header, Mode, Replay, Source, fill};
use flashlab_served::StoreModel;
use flashlab_sim::{Duration, Instant, Model, run as run_workload};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Options {
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
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Moves bytes as a served device does, with recognisable data in each write and a check of each read. Memory,
    /// files and devices with layers always do so.
    #[arg(long)]
    bytes: bool,
    /// Share of zeros in the data written to a device that moves bytes, in per cent; by default the recording's own.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    compressibility: Option<u8>,
    /// The device: `sd/kingston`, `nvme/p32a80:hmb=0`, or a device of `serve` without an export name: `memory:size=1G`.
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

/// The device on which a recording is replayed.
struct Target {
    model: Box<dyn Model>,
    /// Name of the device for its counters.
    label: String,
    /// Time for which the device had been used before the replay.
    used: Duration,
    /// The same device as `model`, if it moves bytes.
    stored: Option<StoreModel>,
}

impl Target {
    fn open(options: &Options, header: &Header, library: &Library) -> Result<Target, Failure> {
        let argument = &options.device;
        if !stored::moves_bytes(argument, options.bytes) {
            if options.compressibility.is_some() {
                return Err(stored::no_data_to_compress(argument));
            }
            let device = Device::open(argument, library)?;
            let label = device.argument.clone();
            return Ok(Target {
                model: device.build(options.seed),
                label,
                used: device.used_time(),
                stored: None,
            });
        }
        let percent = options.compressibility.or(header.compressibility_percent).unwrap_or(0);
        let stored = stored::open(argument, options.seed, library)?.with_compressibility(percent);
        let (model, label) = (Box::new(stored.clone()), argument.clone());
        Ok(Target { model, label, used: Duration::ZERO, stored: Some(stored) })
    }

    fn check(&self, options: &Options, recording: &Source) -> Result<(), Failure> {
        let (summary, capacity) = (recording.summary(), self.model.geometry().capacity);
        if summary.end <= capacity {
            return Ok(());
        }
        Err(fault(
            &options.recording,
            format_args!(
                "step {} reaches byte {}, but {} has {capacity} bytes; choose a larger device",
                summary.highest_step, summary.end, options.device
            ),
        ))
    }
}

pub(super) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let path = &options.recording;
    let recording = recorded::open(path)?;
    let mode = mode_of(options, recording.header())?;
    let target = Target::open(options, recording.header(), library)?;
    target.check(options, &recording)?;
    let stored = target.stored.clone();
    let code = replay(options, &recording, mode, target);
    let closed = stored.map_or(Ok(()), |device| device.close().map_err(Failure::failed));
    and_then_end(code, closed)
}

/// Replays `recording` on `target` and prints the results. Returns the exit code.
fn replay(
    options: &Options,
    recording: &Source,
    mode: Mode,
    mut target: Target,
) -> Result<ExitCode, Failure> {
    let path = &options.recording;
    let stays_as_it_is = options.unwritten || target.stored.is_some() || target.used > Duration::ZERO;
    let prepared = if stays_as_it_is { 0 } else { recording.summary().reads_end };
    let used = Instant::ZERO + target.used;
    let model = &mut *target.model;
    let start = progress::show_elapsed(format!("writing {}", options.device), || fill(model, prepared, used));
    let before = Counters::of(model);
    let outcome = progress::show_elapsed(format!("replaying {}", path.display()), || {
        let mut steps = recording.steps().map_err(|error| fault(path, error))?;
        let mut replay = Replay::new(&mut steps, mode, start);
        run_workload(model, &mut replay, start);
        let outcome = replay.finish().map_err(|error| fault(path, error))?;
        steps.error().map_or(Ok(outcome), |error| Err(fault(path, error)))
    })?;
    let mut counted = statistics(&before, &Counters::of(model), Wear::of(model).as_ref());
    counted.column = target.label;
    let replayed = Replayed {
        recording,
        mode,
        seed: options.seed,
        prepared,
        outcome: &outcome,
        counted: &counted,
        verification: target.stored.map(|device| device.verification()),
    };
    file::print(&if options.json { file::pretty(&replayed.json()) } else { replayed.text(columns()) })?;
    if prepared > 0 {
        say(format_args!(
            "the new device was written up to byte {prepared}, the end of the reads, before the replay; --unwritten \
             replays on it as it is"
        ));
    }
    replayed.verification.iter().for_each(say);
    if outcome.failed > 0 {
        say(format_args!("the device refused {} requests", outcome.failed));
    }
    let is_wrong = replayed.verification.is_some_and(|verification| verification.wrong > 0);
    Ok(if outcome.failed > 0 || is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the mode of a replay. An option of another mode is refused, because it would have no effect.
fn mode_of(options: &Options, header: &Header) -> Result<Mode, Failure> {
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
