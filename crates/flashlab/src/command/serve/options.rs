//! Options of `flashlab serve`.

use super::super::argument::size;
use super::super::tls::TlsOptions;
use crate::logging;
use clap::Args;
use flashlab_catalogue::units::Dimension;
use flashlab_serve::{Limits, Speed};
use flashlab_sim::Duration;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  flashlab serve memory:size=1G                             on nbd://localhost
  flashlab serve memory:size=1G --unix disk.sock
  flashlab serve memory:size=1G scratch=memory:size=64M     two exports: the default one, and scratch
  flashlab serve memory:size=1G --run 'nbdinfo $uri'        a private socket, while the command runs
  flashlab serve sd/kingston --unix card.sock               a card with its speed and its stalls
  flashlab serve sd/kingston:state=card.state               a card with persistent bytes and wear
  flashlab serve sd/kingston --usbredir card.sock           the card itself, for a kernel's SD driver in QEMU
  flashlab serve usb/usb3-1 --usbredir stick.sock           a USB stick, for a guest in QEMU
  flashlab serve volume:a.img:b.img                         one device of several (flashlab volume --help)
  flashlab serve file:base.img+overlay+error:rate=0.001     layers: discarded changes, and random errors

Without an address, the server listens on localhost; with --run, on a private socket; under a service manager, on the
sockets that it passes (LISTEN_FDS). On SIGTERM and Ctrl-C, the server completes the received requests and then ends.";

/// Options that have no meaning without NBD.
const NBD_ONLY: [&str; 22] = [
    "unix",
    "abstract_",
    "tcp",
    "vsock",
    "stdin",
    "tls",
    "tls_certificates",
    "record",
    "exports",
    "metrics",
    "web",
    "realtime",
    "stats",
    "simple_replies",
    "connections",
    "bytes_in_flight",
    "handshake_time",
    "min_rate",
    "stall_time",
    "idle_time",
    "idle_time_when_full",
    "grace",
];

/// Default of `--keep-every`.
const KEEP_EVERY: Duration = Duration::from_secs(60);

impl Options {
    /// Returns the interval at which the states of devices are written.
    pub(in crate::command) fn keep_every(&self) -> Duration {
        self.keep_every.unwrap_or(KEEP_EVERY)
    }
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Listens on a Unix socket; `-` makes a private one.
    #[arg(long, short = 'U', value_name = "PATH")]
    pub(in crate::command) unix: Vec<PathBuf>,
    /// Listens on an abstract Unix socket, which is a Linux name without a file.
    #[arg(long = "abstract", value_name = "NAME")]
    pub(in crate::command) abstract_: Vec<String>,
    /// Listens on a TCP port: `10809`, `0.0.0.0:10809`, `[::1]:0`. Port 0 selects a free port; the default host is
    /// localhost.
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(in crate::command) tcp: Vec<String>,
    /// Listens on a vsock port, for guests of a hypervisor or for the host of a guest: `10809`, or `3:10809` as CID 3
    /// only.
    #[arg(long, value_name = "[CID:]PORT")]
    pub(in crate::command) vsock: Vec<String>,
    #[command(flatten)]
    pub(in crate::command) tls: TlsOptions,
    /// Serves one client on standard input and output.
    #[arg(long, short = 's', conflicts_with_all = ["unix", "abstract_", "tcp", "vsock", "run", "print_uri"])]
    pub(in crate::command) stdin: bool,
    /// Runs a shell command with $uri and $unixsocket set, serves while the command runs, and exits with its status.
    #[arg(long, value_name = "COMMAND")]
    pub(in crate::command) run: Option<String>,
    /// Prints the URI to standard output once clients can connect.
    #[arg(long)]
    pub(in crate::command) print_uri: bool,
    /// Writes the process id to FILE once clients can connect. The server removes the file when it ends, except with
    /// -s.
    #[arg(long, short = 'P', value_name = "FILE")]
    pub(in crate::command) pidfile: Option<PathBuf>,
    /// Refuses writes.
    #[arg(long, short = 'r')]
    pub(in crate::command) read_only: bool,
    /// Records the requests as an fio iolog, which a job replays with `read_iolog=`.
    #[arg(long, value_name = "FILE")]
    pub(in crate::command) record: Option<PathBuf>,
    /// Serves the devices of a TOML file: `[[export]]` with name, device, layers, read-only.
    #[arg(long, value_name = "FILE")]
    pub(in crate::command) exports: Vec<PathBuf>,
    /// Listens on a Unix socket for `flashlab ctl`.
    #[arg(long, value_name = "PATH")]
    pub(in crate::command) control: Option<PathBuf>,
    /// Interval at which a device in use with state=FILE writes its whole state; 60s by default. Between these writes, a
    /// journal records the requests.
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(in crate::command) keep_every: Option<Duration>,
    /// Limits the background work of volumes, and scrubs without a rate of their own, to this many bytes per second, for
    /// example 20MiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(in crate::command) background_rate: Option<u64>,
    /// Serves the counters to Prometheus at http://HOST:PORT/metrics: `9809`, `0.0.0.0:9809`. The default host is
    /// localhost; a host alone gets port 9809.
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(in crate::command) metrics: Option<String>,
    /// Shows the simulated devices on a live page, and serves the metrics beside it; the default host is localhost.
    /// Port 0 selects a free port. The printed address contains a token, without which the page only watches.
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(in crate::command) web: Option<String>,
    /// Emulates a USB device for QEMU's usb-redir on this Unix socket; `-` makes a private socket for --run. A card is in
    /// the slot of a USB SD host controller; any other device is a USB stick.
    #[arg(long, value_name = "PATH", conflicts_with_all = NBD_ONLY)]
    pub(in crate::command) usbredir: Option<PathBuf>,
    /// Emulates the same device over USB/IP, for Linux's vhci-hcd: `3240`, `0.0.0.0:3240`; the default host is
    /// localhost.
    #[arg(long, value_name = "[HOST:]PORT", conflicts_with = "usbredir", conflicts_with_all = NBD_ONLY)]
    pub(in crate::command) usbip: Option<String>,
    /// Faulty behaviour of the card or stick behind --usbredir or --usbip: `busy=400ms`, `stuck-busy@CMD25#3`,
    /// `power-cut@2s` of a card, `needs-reset`, `disconnect@block5000` of a stick; docs/cards.md and docs/sticks.md list
    /// all quirks.
    #[arg(long = "quirk", value_name = "QUIRK[=VALUE][@WHEN]")]
    pub(in crate::command) quirks: Vec<String>,
    /// Speed of a device's time: 10 is ten times as fast as the wall clock.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed, conflicts_with = "unpaced")]
    pub(in crate::command) speed: Speed,
    /// Reduces the lateness of replies: runs the threads that wait for a device at real-time priority (SCHED_RR, which
    /// needs root), and keeps processors out of deep sleep states while a client is connected.
    #[arg(long)]
    pub(in crate::command) realtime: bool,
    /// Replies as fast as possible, without the devices' timing.
    #[arg(long)]
    pub(in crate::command) unpaced: bool,
    /// Prints totals at the end: requests, errors, and by how much replies were later than the device's model demanded.
    #[arg(long)]
    pub(in crate::command) stats: bool,
    /// Seed of the simulated devices' media, which draws a factor for each erase block.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(in crate::command) seed: u64,
    /// Offers no structured replies: libnbd's clients need fewer system calls, but get no holes and no block status.
    #[arg(long)]
    pub(in crate::command) simple_replies: bool,
    /// Largest number of connections at a time; further clients wait.
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections, value_parser = at_least_one)]
    pub(in crate::command) connections: usize,
    /// Memory for requests above 1MiB, of which a connection uses at most an eighth. If it is used up, a request is
    /// served in pieces of 1MiB.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub(in crate::command) bytes_in_flight: u64,
    /// Limit of the time in which a client selects an export.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval)]
    pub(in crate::command) handshake_time: Duration,
    /// Least rate at which a client sends a request that it has begun, or receives its replies; the connection of a
    /// slower client is closed.
    #[arg(long, value_name = "RATE", default_value = "16KiB/s", value_parser = rate)]
    pub(in crate::command) min_rate: u64,
    /// Time over which --min-rate is measured: the connection of a client that stalls for this time is closed.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    pub(in crate::command) stall_time: Duration,
    /// Time without a request after which a connection is closed, or `never`.
    #[arg(long, value_name = "TIME", default_value = "never", value_parser = interval_or_never)]
    pub(in crate::command) idle_time: IdleLimit,
    /// Replaces --idle-time while all --connections are in use and another client waits.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = interval_or_never)]
    pub(in crate::command) idle_time_when_full: IdleLimit,
    /// Time for connections to finish once the server shuts down.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(in crate::command) grace: Duration,
    /// Level of the log on standard error: error, warn, info, debug or off.
    #[arg(long, value_name = "LEVEL", default_value = "warn", value_parser = logging::level)]
    pub(in crate::command) log: logging::Level,
    /// `[NAME=]DEVICE[+LAYER]...`: `memory:size=1G`, `scratch=memory:size=64M,pages=small`, `file:disk.img`,
    /// `sd/kingston`. A device without a name is the default export.
    #[arg(required_unless_present = "exports", value_name = "DEVICE")]
    pub(in crate::command) devices: Vec<String>,
}

fn time(text: &str) -> Result<Duration, String> {
    Dimension::Time.parse_argument(text).map(Duration::from_ns).map_err(|error| error.to_string())
}

fn interval(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("expected a time above zero".to_owned()),
        time => Ok(time),
    }
}

/// Time limit; `None` is no limit.
#[derive(Clone, Copy)]
pub(crate) struct IdleLimit(pub(super) Option<Duration>);

fn interval_or_never(text: &str) -> Result<IdleLimit, String> {
    match text {
        "never" => Ok(IdleLimit(None)),
        time => interval(time).map(Some).map(IdleLimit).map_err(|error| format!("{error}, or never")),
    }
}

fn rate(text: &str) -> Result<u64, String> {
    Dimension::Rate.parse_argument(text).map_err(|error| error.to_string())
}

/// Parses a factor into whole millionths, so that it is the same on every machine.
fn speed(text: &str) -> Result<Speed, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || "expected a number of up to 1000, such as 10 or 0.5".to_owned();
    if !digits(whole) || !digits(part) || part.len() > 6 || text == "." {
        return Err(wrong());
    }
    match format!("{whole}{part:0<6}").parse() {
        Ok(millionths @ 1..=1_000_000_000) => Ok(Speed::Millionths(millionths)),
        _ => Err(wrong()),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number of at least 1".to_owned()),
        Ok(n) => Ok(n),
    }
}
