//! `flashlab load`: generates load on any NBD server, and counts and times the requests.

use crate::failure::{Failure, INTERRUPTED};
use crate::status::end_on_signals;
use crate::{file, progress};
use clap::{Args, ValueEnum};
use flashlab_fio::number::{KbBase, LARGEST, TimeUnit, bounded, time};
use flashlab_serve::Stop;
use flashlab_serve::load::{Job, LoadError, Mix, load_with_progress};
use flashlab_serve::uri::Uri;
use flashlab_sim::Duration;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  flashlab load nbd://localhost --rw=randread --bs=4k --iodepth=32 --runtime=10
  flashlab load 'nbd+unix:///?socket=disk.sock' --rw=randwrite --connections=4 --size=512m --verify

Numbers have fio's format: 4k is 4096 bytes, --runtime=10 ten seconds. Without --runtime, the load ends when it has moved as
many bytes as the area contains.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Pattern of the requests: read, write, rw, randread, randwrite or randrw.
    #[arg(long, value_name = "PATTERN", default_value = "read", value_parser = pattern)]
    rw: String,
    /// Percentage of reads in rw and randrw.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    rwmixread: u8,
    /// Size of a request.
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = block)]
    bs: u32,
    /// Requests in flight on each connection.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    iodepth: u32,
    /// Connections, each with a thread of its own.
    #[arg(long, visible_alias = "numjobs", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    connections: u32,
    /// Duration of the load, in seconds or with a unit.
    #[arg(long, value_name = "TIME", value_parser = runtime)]
    runtime: Option<Duration>,
    /// Size of the area; by default, it extends to the end of the export.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    size: Option<u64>,
    /// First byte of the area.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = bytes)]
    offset: u64,
    /// Maximum number of requests per second on each connection.
    #[arg(long = "rate_iops", visible_alias = "rate-iops", value_name = "N", value_parser = rate)]
    rate_iops: Option<u64>,
    /// Writes recognisable blocks; verifies each read of a block that this load has written (each read, if the load
    /// only reads), and at the end every written block.
    #[arg(long)]
    verify: bool,
    /// Seed of the addresses and contents.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Percentage of zeroes in each 512 bytes of written data.
    #[arg(long = "buffer_compress_percentage", visible_alias = "buffer-compress-percentage", value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100), conflicts_with = "verify")]
    buffer_compress_percentage: u8,
    /// Requests simple replies, as Linux's own client does.
    #[arg(long)]
    simple_replies: bool,
    /// Format of the result.
    #[arg(long, value_name = "FORMAT", default_value = "normal")]
    output_format: Format,
    /// `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`.
    uri: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Normal,
    Json,
}

fn pattern(text: &str) -> Result<String, String> {
    let known = "expected read, write, rw, randread, randwrite or randrw";
    Mix::parse(text, 50).map(|_| text.to_owned()).ok_or(known.to_owned())
}

fn block(text: &str) -> Result<u32, String> {
    // Most servers refuse requests above 64 MiB.
    let bytes = bounded(text, KbBase::default(), 1, 64 << 20).map_err(|error| error.fault.to_string())?;
    u32::try_from(bytes).map_err(|error| error.to_string())
}

fn bytes(text: &str) -> Result<u64, String> {
    bounded(text, KbBase::default(), 0, LARGEST).map_err(|error| error.fault.to_string())
}

fn rate(text: &str) -> Result<u64, String> {
    bounded(text, KbBase::default(), 1, 1_000_000_000).map_err(|error| error.fault.to_string())
}

fn runtime(text: &str) -> Result<Duration, String> {
    match time(text, TimeUnit::Seconds).map_err(|error| error.fault.to_string())? {
        Duration::ZERO => Err("expected a time above zero".to_owned()),
        time => Ok(time),
    }
}

/// Number of parts into which the progress display divides a load.
const PARTS: u64 = 1_000_000;

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let uri =
        Uri::parse(&options.uri).map_err(|error| Failure::usage(format_args!("{}: {error}", options.uri)))?;
    let job = Job {
        mix: Mix::parse(&options.rw, options.rwmixread).expect("clap has checked it"),
        block: options.bs,
        depth: options.iodepth,
        connections: options.connections,
        runtime: options.runtime,
        offset: options.offset,
        size: options.size,
        rate_iops: options.rate_iops,
        verify: options.verify,
        simple_replies: options.simple_replies,
        seed: options.seed,
        buffer_compress_percentage: options.buffer_compress_percentage,
    };
    let stop = Stop::new().map_err(|error| Failure::system("events", &error))?;
    end_on_signals(&stop);
    let loaded = {
        let progress = progress::ProgressDisplay::new(format!("load {}", options.rw));
        progress.plan(PARTS);
        load_with_progress(&uri, &job, &stop, &|share| progress.reach((share * PARTS as f64) as u64))
            .map_err(|error| match error {
                LoadError::Connect(_) => Failure::failed(format_args!("{}: {error}", options.uri)),
                error => error.into(),
            })?
    };
    let text = match options.output_format {
        Format::Normal => loaded.text(),
        Format::Json => loaded.json(),
    };
    file::print(&text)?;
    // A load that was stopped early prints its results so far, and its exit code reports the stop.
    Ok(if stop.is_thrown() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}
