//! `flashlab serve`: devices as real block devices, over NBD; cards as cards, over USB ([`super::usb`]).

use super::control::Controlled;
use super::metrics::page as metrics_page;
use super::tls::TlsOptions;
use super::usb;
use crate::failure::{Failure, say};
use crate::status::{StatusLine, end_on_signals};
use crate::{file, logging};
use clap::Args;
use flashlab_lab::library::Library;
use flashlab_lab::served::Served;
use flashlab_lab::units::Dimension;
use flashlab_sd::quirk::Planned;
use flashlab_serve::uri::PORT;
use flashlab_serve::{
    Address, Control, Count, Export, Exports, Limits, Listener, Metrics, PrivateSocket, Recorder, Server,
    Speed, Stop, run as run_beside,
};
use flashlab_sim::Duration;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::{io, thread};

const EXAMPLES: &str = "\
Examples:
  flashlab serve memory:size=1G                             on nbd://localhost
  flashlab serve memory:size=1G --unix disk.sock
  flashlab serve memory:size=1G scratch=memory:size=64M     two exports: the default one, and scratch
  flashlab serve memory:size=1G --run 'nbdinfo $uri'        a private socket, as long as the command runs
  flashlab serve sd/kingston --unix card.sock               a card: its bytes, its speed, its stalls
  flashlab serve sd/kingston:state=card.state               the same card again next time: bytes and wear
  flashlab serve sd/kingston --usbredir card.sock           the card itself, for the SD driver of a kernel in QEMU
  flashlab serve file:base.img+overlay+error:rate=0.001     layers: changes thrown away, and now and then an error

Without an address it listens on localhost; with --run, on a private socket; under a service manager, on the sockets that
it hands over (LISTEN_FDS). SIGTERM and Ctrl-C answer what was received, then end.";

/// Options that say nothing where there is no NBD.
const NBD_ONLY: [&str; 18] = [
    "unix",
    "abstract_",
    "tcp",
    "vsock",
    "stdin",
    "tls",
    "tls_certificates",
    "record",
    "exports",
    "keep_every",
    "metrics",
    "realtime",
    "stats",
    "simple_replies",
    "connections",
    "bytes_in_flight",
    "handshake_time",
    "grace",
];

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Listens on a Unix socket; `-` makes a private one.
    #[arg(long, short = 'U', value_name = "PATH")]
    unix: Vec<PathBuf>,
    /// Listens on a Unix socket with a name of Linux' own, without a file.
    #[arg(long = "abstract", value_name = "NAME")]
    abstract_: Vec<String>,
    /// Listens on a TCP port: `10809`, `0.0.0.0:10809`, `[::1]:0`; port 0 takes a free one, without a host it is localhost.
    #[arg(long, value_name = "[HOST:]PORT")]
    tcp: Vec<String>,
    /// Listens on a vsock port, for a virtual machine's guests, or its host: `10809`, `3:10809` as machine 3 only.
    #[arg(long, value_name = "[CID:]PORT")]
    vsock: Vec<String>,
    #[command(flatten)]
    tls: TlsOptions,
    /// Serves one client on standard input and output.
    #[arg(long, short = 's', conflicts_with_all = ["unix", "abstract_", "tcp", "vsock", "run", "print_uri"])]
    stdin: bool,
    /// Runs a shell's command with $uri and $unixsocket, serves as long as it runs, and exits with its status.
    #[arg(long, value_name = "COMMAND")]
    pub(super) run: Option<String>,
    /// Prints the URI on standard output, once clients can connect.
    #[arg(long)]
    pub(super) print_uri: bool,
    /// Writes the process id to FILE, once clients can connect.
    #[arg(long, short = 'P', value_name = "FILE")]
    pub(super) pidfile: Option<PathBuf>,
    /// Clients may not write.
    #[arg(long, short = 'r')]
    pub(super) read_only: bool,
    /// Records what arrives as a fio iolog, which `read_iolog=` of a job repeats.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Serves the devices of a TOML file: `[[export]]` with name, device, layers, read-only.
    #[arg(long, value_name = "FILE")]
    exports: Vec<PathBuf>,
    /// Listens on a Unix socket for `flashlab ctl`.
    #[arg(long, value_name = "PATH")]
    pub(super) control: Option<PathBuf>,
    /// How often the wear of devices with state=FILE is written, where they were used: what a kill can lose of it.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = interval)]
    keep_every: Duration,
    /// Tells what it counts to Prometheus, at http://HOST:PORT/metrics; without a host it is localhost.
    #[arg(long, value_name = "[HOST:]PORT")]
    metrics: Option<String>,
    /// Poses as a USB SD host controller with the card in its slot, for QEMU's usb-redir on this Unix socket; `-` makes a
    /// private one for --run.
    #[arg(long, value_name = "PATH", conflicts_with_all = NBD_ONLY)]
    pub(super) usbredir: Option<PathBuf>,
    /// The same over USB/IP, for Linux' vhci-hcd: `3240`, `0.0.0.0:3240`; without a host it is localhost.
    #[arg(long, value_name = "[HOST:]PORT", conflicts_with = "usbredir", conflicts_with_all = NBD_ONLY)]
    pub(super) usbip: Option<String>,
    /// What the card behind --usbredir or --usbip does wrong: `busy=400ms`, `stuck-busy@CMD25#3`, `power-cut@2s`; see
    /// docs/cards.md for all of them.
    #[arg(long = "quirk", value_name = "QUIRK[=VALUE][@WHEN]")]
    pub(super) quirks: Vec<Planned>,
    /// How fast a device's time passes: 10 is ten times as fast as the clock on the wall.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed, conflicts_with = "unpaced")]
    pub(super) speed: Speed,
    /// Has threads that wait for a device run before all others (SCHED_RR, which root may), so that a busy machine does not make
    /// them late.
    #[arg(long)]
    realtime: bool,
    /// Answers as fast as it can: no device is waited for.
    #[arg(long)]
    pub(super) unpaced: bool,
    /// Tells in the end what it did, and how much later than a device said it answered.
    #[arg(long)]
    stats: bool,
    /// Seeds the media of simulated devices: no two erase blocks are alike.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) seed: u64,
    /// Does not offer structured replies: fewer system calls for clients of libnbd, but no holes and no block status.
    #[arg(long)]
    simple_replies: bool,
    /// Connections at a time; more of them wait.
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections, value_parser = at_least_one)]
    connections: usize,
    /// Bytes of requests above 1MiB at a time; more of them wait.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    bytes_in_flight: u64,
    /// How long a client may take to agree on an export.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    handshake_time: Duration,
    /// How long connections have to finish once the server is to end.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    grace: Duration,
    /// What is told on standard error: error, warn, info, debug or off.
    #[arg(long, value_name = "LEVEL", default_value = "warn", value_parser = logging::level)]
    pub(super) log: logging::Level,
    /// `[NAME=]DEVICE[+LAYER]...`: `memory:size=1G`, `scratch=memory:size=64M,pages=small`, `file:disk.img`, `sd/kingston`.
    /// Without a name it is the
    /// default export.
    #[arg(required_unless_present = "exports", value_name = "DEVICE")]
    pub(super) devices: Vec<String>,
}

fn size(text: &str) -> Result<u64, String> {
    Dimension::Size.parse_argument(text).map_err(|error| error.to_string())
}

fn time(text: &str) -> Result<Duration, String> {
    Dimension::Time.parse_argument(text).map(Duration::from_ns).map_err(|error| error.to_string())
}

fn interval(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("expected more than no time".to_owned()),
        time => Ok(time),
    }
}

/// Millionths, so that nothing is rounded from run to run.
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

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    if usb::is_asked_for(options) {
        return usb::run(options, library);
    }
    if !options.quirks.is_empty() {
        return Err(Failure::usage(
            "--quirk: over NBD no card is told commands; use --usbredir or --usbip, or the layer +error",
        ));
    }
    let mut served = Vec::new();
    for file in &options.exports {
        served.extend(Served::open_file(file, options.seed, options.read_only, library)?);
    }
    for device in &options.devices {
        served.push(Served::open(device, options.seed, options.read_only, library)?);
    }
    let export = |served: &Served| Export {
        name: served.name.clone(),
        description: served.description.clone(),
        device: served.device.clone(),
        read_only: served.read_only,
    };
    let exports = Exports::new(served.iter().map(export).collect()).map_err(Failure::usage)?;
    let limits = Limits {
        connections: options.connections,
        bytes_in_flight: options.bytes_in_flight,
        handshake: options.handshake_time,
        grace: options.grace,
        structured_replies: !options.simple_replies,
    };
    let tls = options.tls.open()?;
    let addresses = addresses(options)?;
    let recorder = options.record.as_deref().map(|path| record(path, &exports)).transpose()?;
    let stop = Stop::new().map_err(|error| Failure::system("events", &error))?;
    end_on_signals(&stop);
    let status = StatusLine::new();
    logging::start(options.log, status.clone());
    let speed = if options.unpaced { Speed::Unpaced } else { options.speed };
    let mut server = Server::new(exports.clone(), limits, stop.clone()).with_speed(speed);
    if let Some(recorder) = &recorder {
        server = server.with_recorder(recorder.clone());
    }
    if let Some(tls) = tls {
        server = server.with_tls(tls);
    }
    if options.realtime {
        server = server.with_realtime().map_err(|error| Failure::system("--realtime", &error))?;
    }
    let control = options.control.as_deref().map(control).transpose()?;
    let metrics = options.metrics.as_deref().map(metrics).transpose()?;
    if metrics.is_some() {
        server = server.with_latencies();
    }
    let controlled = &Controlled::new(&server, &served);
    let code = thread::scope(|scope| {
        if let Some(control) = &control {
            let stop = &stop;
            scope.spawn(move || control.serve(stop, |line| controlled.answer(line)));
        }
        if let Some(metrics) = &metrics {
            let stop = &stop;
            scope.spawn(move || metrics.serve(stop, || metrics_page(controlled)));
        }
        if served.iter().any(|served| served.keeper.is_some()) {
            let (stop, served) = (&stop, &served);
            scope.spawn(move || keep_on(served, options.keep_every, stop));
        }
        let code = serve_all(options, &server, addresses, &exports[0].name, &stop, &status);
        stop.throw();
        code
    })?;
    for keeper in served.iter().filter_map(|served| served.keeper.as_ref()) {
        keeper.keep().map_err(Failure::failed)?;
    }
    account(&server);
    if options.stats {
        say(summary(&server));
    }
    if let (Some(recorder), Some(path)) = (recorder, &options.record) {
        recorder.finish().map_err(|error| Failure::io(path, &error))?;
    }
    Ok(code)
}

/// Writes the wear of the devices from time to time.
fn keep_on(served: &[Served], every: Duration, stop: &Stop) {
    while !stop.wait_up_to(every) {
        for keeper in served.iter().filter_map(|served| served.keeper.as_ref()) {
            if let Err(error) = keeper.keep_if_used() {
                // The device serves on, and its state is tried again.
                tracing::warn!(%error, "the state cannot be kept");
            }
        }
    }
}

pub(super) fn control(path: &Path) -> Result<Control, Failure> {
    Control::bind(path).map_err(|error| Failure::io(path, &error))
}

fn metrics(text: &str) -> Result<Metrics, Failure> {
    let address = tcp("--metrics", text, PORT)?;
    let metrics = Metrics::bind(address).map_err(|error| Failure::system(&address.to_string(), &error))?;
    let address = metrics.address().map_err(|error| Failure::system("--metrics", &error))?;
    tracing::info!(at = %format_args!("http://{address}/metrics"), "metrics");
    Ok(metrics)
}

fn serve_all(
    options: &Options,
    server: &Server,
    addresses: (Vec<Address>, Option<PrivateSocket>),
    export: &str,
    stop: &Stop,
    status: &StatusLine,
) -> Result<ExitCode, Failure> {
    if options.stdin {
        let _pidfile = options.pidfile.as_deref().map(Pidfile::write).transpose()?;
        serve_standard_input(server)?;
        return Ok(ExitCode::SUCCESS);
    }
    listen_and_serve(options, server, addresses, export, stop, status)
}

/// Where to listen. A private socket is there as long as what is returned.
fn addresses(options: &Options) -> Result<(Vec<Address>, Option<PrivateSocket>), Failure> {
    let mut addresses = Vec::new();
    let mut private = None;
    for path in &options.unix {
        match path.as_os_str().as_encoded_bytes() {
            b"-" if private.is_some() => {
                return Err(Failure::usage("--unix -: one private socket is enough"));
            }
            b"-" => addresses.push(private.insert(private_socket()?).address()),
            b"" => return Err(Failure::usage("--unix: the path is empty")),
            _ => addresses.push(Address::Unix(std::path::absolute(path).map_err(|e| Failure::io(path, &e))?)),
        }
    }
    for name in &options.abstract_ {
        if name.is_empty() {
            return Err(Failure::usage("--abstract: the name is empty"));
        }
        addresses.push(Address::Abstract(name.clone().into_bytes()));
    }
    for text in &options.tcp {
        addresses.push(Address::Tcp(tcp("--tcp", text, PORT)?));
    }
    for text in &options.vsock {
        addresses.push(vsock(text)?);
    }
    if addresses.is_empty() && options.run.is_some() {
        addresses.push(private.insert(private_socket()?).address());
    }
    Ok((addresses, private))
}

pub(super) fn private_socket() -> Result<PrivateSocket, Failure> {
    PrivateSocket::new().map_err(|error| Failure::io(&std::env::temp_dir(), &error))
}

/// `port`, `:port`, `host:port`, `[address]:port`, and a host alone for the protocol's own port.
pub(super) fn tcp(option: &str, text: &str, port: u16) -> Result<SocketAddr, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "{option} {text}: {why}; expected PORT or HOST:PORT, for example 127.0.0.1:{port}"
        ))
    };
    let with_host = match text.strip_prefix(':').unwrap_or(text) {
        port if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("localhost:{port}"),
        host if host.ends_with(']') || !host.contains(':') => format!("{host}:{port}"),
        whole => whole.to_owned(),
    };
    let mut found = with_host.to_socket_addrs().map_err(|error| wrong(&error))?;
    // Of localhost's two addresses the older one: a client that asks for the other tries both.
    let all: Vec<SocketAddr> = found.by_ref().collect();
    let first = all.iter().find(|address| address.is_ipv4()).or(all.first());
    first.copied().ok_or_else(|| wrong(&"no such host"))
}

/// `port`, and `cid:port`.
fn vsock(text: &str) -> Result<Address, Failure> {
    let (cid, port) = text.split_once(':').map_or((None, text), |(cid, port)| (Some(cid), port));
    match (cid.map(str::parse).transpose(), port.parse()) {
        (Ok(cid), Ok(port)) => Ok(Address::Vsock { cid, port }),
        _ => Err(Failure::usage(format!("--vsock {text}: expected PORT or CID:PORT, for example 10809"))),
    }
}

fn record(path: &Path, exports: &Exports) -> Result<Arc<Recorder>, Failure> {
    let names = exports.iter().map(|export| export.name.clone());
    Recorder::create(path, names).map(Arc::new).map_err(|error| Failure::io(path, &error))
}

fn serve_standard_input(server: &Server) -> Result<(), Failure> {
    let owned = io::stdin().as_fd().try_clone_to_owned();
    let pair = owned.and_then(|input| Ok((input, io::stdout().as_fd().try_clone_to_owned()?)));
    let (input, output) = pair.map_err(|error| Failure::system("standard input", &error))?;
    server.serve_pair(input, output);
    Ok(())
}

fn listen_and_serve(
    options: &Options,
    server: &Server,
    (mut addresses, private): (Vec<Address>, Option<PrivateSocket>),
    export: &str,
    stop: &Stop,
    status: &StatusLine,
) -> Result<ExitCode, Failure> {
    let mut listeners = Listener::inherited().map_err(|error| Failure::system("LISTEN_FDS", &error))?;
    if listeners.is_empty() && addresses.is_empty() {
        addresses.push(Address::Tcp(tcp("--tcp", &PORT.to_string(), PORT)?));
    }
    for address in &addresses {
        let listener = Listener::bind(address);
        listeners.push(listener.map_err(|error| Failure::system(&address.to_string(), &error))?);
    }
    let first = listeners[0].address().map_err(|error| Failure::system("the listening socket", &error))?;
    let uri = options.tls.uri(first.uri(export))?.to_string();
    let _pidfile = options.pidfile.as_deref().map(Pidfile::write).transpose()?;
    if options.print_uri {
        file::print(&format!("{uri}\n"))?;
    }
    status.serving(&uri, server.counters(), options.run.is_none());
    let code = thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(listeners));
        let code = match &options.run {
            Some(command) => {
                let socket = match &first {
                    Address::Unix(path) => Some(path.as_path()),
                    _ => None,
                };
                let code = run_beside(command, &uri, socket, stop);
                stop.throw();
                code.map_err(|error| Failure::system("--run", &error))
            }
            None => Ok(0),
        };
        let served = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        served.map_err(|error| Failure::system("waiting for clients", &error))?;
        code
    });
    status.finish();
    drop(private);
    code.map(ExitCode::from)
}

/// What it did, and what that took.
fn account(server: &Server) {
    let counted = server.counters().read();
    tracing::info!(
        connections = counted.get(Count::Accepted),
        requests = counted.requests(),
        errors = counted.get(Count::Errors),
        batches = counted.get(Count::Batches),
        system_calls = counted.get(Count::Calls),
        "served"
    );
}

/// The same for people.
pub(super) fn summary(server: &Server) -> String {
    let counted = server.counters().read();
    let late = server.counters().lateness();
    let mut text = format!(
        "{} requests, {} errors, {} connections; {} system calls in {} batches",
        counted.requests(),
        counted.get(Count::Errors),
        counted.get(Count::Accepted),
        counted.get(Count::Calls),
        counted.get(Count::Batches),
    );
    if late.moments().count() > 0 {
        let us = |ns: f64| ns / 1e3;
        text.push_str(&format!(
            "\nanswered later than the device said, {} times: mean {:.1} us, median {:.1}, 99% {:.1}, most {:.1}",
            late.moments().count(),
            us(late.moments().mean_ns()),
            us(late.percentile(50.0).as_ns() as f64),
            us(late.percentile(99.0).as_ns() as f64),
            us(late.moments().max_ns() as f64),
        ));
    }
    text
}

/// A file with the process id that goes with the process.
pub(super) struct Pidfile(PathBuf);

impl Pidfile {
    pub(super) fn write(path: &Path) -> Result<Pidfile, Failure> {
        file::write(path, format!("{}\n", std::process::id()).as_bytes())?;
        Ok(Pidfile(path.to_owned()))
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}
