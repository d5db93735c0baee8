//! `flashlab serve`: serves devices as real block devices over NBD, and cards and sticks over USB
//! ([`super::usb`]).

mod addresses;
mod background;
mod options;
mod page;
mod pidfile;
mod summary;

pub(super) use addresses::{private_socket, tcp};
pub(super) use background::run as work_in_background;
pub(crate) use options::Options;
pub(super) use pidfile::Pidfile;
pub(super) use summary::summary;

use super::control::ServerControl;
use super::metrics::MetricsOnly;
use super::usb;
use crate::edge::sources;
use crate::failure::{Failure, and_then_end, say, say_notes};
use crate::status::{StatusLine, end_on_signals};
use crate::{file, logging};
use addresses::addresses;
use flashlab_catalogue::library::Library;
use flashlab_serve::uri::PORT;
use flashlab_serve::{
    Address, Control, Export, Exports, LeastRate, Limits, Listener, PrivateSocket, Recorder, Server, Speed,
    Stop, run as run_beside,
};
use flashlab_served::Served;
use flashlab_sim::Duration;
use flashlab_web::Subject;
use page::ServedPage;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::{io, thread};
use summary::log_totals;

/// Port of --web if its argument is a host alone; error messages use it as an example.
const WEB_PORT: u16 = 8080;

/// Port of --metrics if its argument is a host alone; error messages use it as an example.
const METRICS_PORT: u16 = 9809;

pub(crate) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    check_outputs(options)?;
    if usb::uses_usb(options) {
        return usb::run(options, library);
    }
    if !options.quirks.is_empty() {
        return Err(Failure::usage(
            "--quirk: over NBD a card or a stick receives no commands of its own; use --usbredir or --usbip, or the \
             layer +error",
        ));
    }
    let served = open_devices(options, library)?;
    check_not_served(options, &served)?;
    say_notes();
    let exports = exports_of(&served)?;
    let tls = options.tls.open()?;
    let addresses = addresses(options)?;
    let recorder = options.record.as_deref().map(|path| record(path, &exports)).transpose()?;
    let stop = Stop::new().map_err(|error| Failure::system("events", &error))?;
    end_on_signals(&stop);
    let status = StatusLine::new();
    logging::start(options.log, status.clone());
    let mut server = new_server(options, &exports, &stop)?;
    if let Some(recorder) = &recorder {
        server = server.with_recorder(recorder.clone());
    }
    if let Some(tls) = tls {
        server = server.with_tls(tls);
    }
    let control = options.control.as_deref().map(control).transpose()?;
    let metrics = options.metrics.as_deref().map(metrics).transpose()?;
    // The live page also answers /metrics.
    if metrics.is_some() || options.web.is_some() {
        server = server.with_latencies();
    }
    let server_control = &ServerControl::new(&server, &served);
    let live_page =
        options.web.as_ref().map(|_| ServedPage::new(server_control, &served, status.clone())).transpose()?;
    let web = options.web.as_deref().map(|text| page::bind(tcp("--web", text, WEB_PORT)?)).transpose()?;
    let http_stop = flashlab_web::Stop::new();
    let code = thread::scope(|scope| {
        if let Some(control) = &control {
            let stop = &stop;
            scope.spawn(move || control.serve(stop, |line| server_control.answer(line)));
        }
        if let Some(metrics) = metrics {
            let stop = &http_stop;
            scope.spawn(move || serve_http(metrics, &mut MetricsOnly(server_control), stop));
        }
        if let Some((web, mut live_page)) = web.zip(live_page) {
            let stop = &http_stop;
            scope.spawn(move || serve_http(web, &mut live_page, stop));
        }
        for served in &served {
            let Some(closing) = served.closing.as_deref() else { continue };
            let (stop, rate, time) = (&stop, options.background_rate.unwrap_or(0), server.time());
            scope.spawn(move || work_in_background(closing, &*served.device, rate, time, stop));
        }
        if served.iter().any(Served::may_have_states) {
            let (stop, served) = (&stop, &served);
            scope.spawn(move || write_states_periodically(served, options.keep_every(), stop));
        }
        let code = serve_all(options, &server, addresses, &exports[0].name, &stop, &status);
        stop.throw();
        http_stop.throw();
        code
    });
    let code = and_then_end(code, end_devices(&served))?;
    log_totals(&server);
    if options.stats {
        say(summary(&server));
    }
    if let (Some(recorder), Some(path)) = (recorder, &options.record) {
        recorder.finish().map_err(|error| Failure::io(path, &error))?;
    }
    Ok(code)
}

/// Checks, before a device is opened, that the files of `--record` and `--pidfile` can be written, and that the
/// arguments name none of them.
fn check_outputs(options: &Options) -> Result<(), Failure> {
    for output in outputs(options) {
        file::check_not_stdout(output)?;
        file::check_output(output)?;
        file::check_not_read(output, options.devices.iter().map(String::as_str))?;
        file::check_not_input(output, &options.exports)?;
    }
    file::check_distinct(outputs(options))
}

/// Checks that no output replaces a file of an open device. The check follows the opening, because opening
/// creates new files, and because the devices of `--exports` are not known before.
fn check_not_served(options: &Options, served: &[Served]) -> Result<(), Failure> {
    let devices = || served.iter().map(|served| served.description.as_str());
    outputs(options).try_for_each(|output| file::check_not_read(output, devices()))
}

fn outputs(options: &Options) -> impl Iterator<Item = &Path> {
    options.record.iter().chain(&options.pidfile).map(PathBuf::as_path)
}

/// Opens the devices of the command line: those of the export files first.
fn open_devices(options: &Options, library: &Library) -> Result<Vec<Served>, Failure> {
    let mut served = Vec::new();
    for file in &options.exports {
        served.extend(Served::open_file(file, options.seed, options.read_only, sources(library))?);
    }
    for device in &options.devices {
        served.push(Served::open(device, options.seed, options.read_only, sources(library))?);
    }
    Ok(served)
}

/// Returns an export for each device, under the device's name.
fn exports_of(served: &[Served]) -> Result<Exports, Failure> {
    let export = |served: &Served| Export {
        name: served.name.clone(),
        description: served.description.clone(),
        device: served.device.clone(),
        read_only: served.read_only,
    };
    Exports::new(served.iter().map(export).collect()).map_err(Failure::usage)
}

/// Creates a server with the limits, the speed and the scheduling priority of the command line.
fn new_server(options: &Options, exports: &Exports, stop: &Stop) -> Result<Server, Failure> {
    let speed = if options.unpaced { Speed::Unpaced } else { options.speed };
    let server = Server::new(exports.clone(), limits(options), stop.clone()).with_speed(speed);
    if !options.realtime {
        return Ok(server);
    }
    server.with_realtime().map_err(|error| Failure::system("--realtime", &error))
}

/// Returns the server's limits.
fn limits(options: &Options) -> Limits {
    Limits {
        connections: options.connections,
        bytes_in_flight: options.bytes_in_flight,
        handshake: options.handshake_time,
        least_rate: LeastRate { bytes_per_second: options.min_rate, window: options.stall_time },
        idle: options.idle_time.0,
        idle_when_full: options.idle_time_when_full.0,
        grace: options.grace,
        structured_replies: !options.simple_replies,
    }
}

/// Writes the states of the devices for the last time, after their last requests, and closes every device,
/// even if another one fails. Returns the first error, and prints the others and the damage that requests
/// encountered.
pub(super) fn end_devices(served: &[Served]) -> Result<(), Failure> {
    let state_writers = served.iter().filter_map(|served| served.state_writer.as_ref());
    let states = state_writers.map(|writer| writer.close().map_err(|error| error.to_string()));
    let closing = served.iter().filter_map(|served| served.closing.as_ref());
    let errors: Vec<String> =
        states.chain(closing.map(|device| device.close())).filter_map(Result::err).collect();
    let writers = served.iter().flat_map(Served::state_writers);
    writers.filter_map(|writer| writer.damage()).for_each(say);
    let mut errors = errors.into_iter();
    let first = errors.next();
    errors.for_each(say);
    first.map_or(Ok(()), |error| Err(Failure::failed(error)))
}

/// Writes the states of the devices and of the members of volumes at the interval `every`; writes a state sooner if its
/// journal has become long. Logs damage of a device once.
pub(super) fn write_states_periodically(served: &[Served], every: Duration, stop: &Stop) {
    let (interval, mut since) = (every.min(Duration::from_secs(1)), Duration::ZERO);
    let mut logged = BTreeSet::new();
    while !stop.wait_up_to(interval) {
        since += interval;
        let is_due = since >= every;
        for writer in served.iter().flat_map(Served::state_writers) {
            if let Some(damage) = writer.damage()
                && logged.insert(writer.path().to_owned())
            {
                tracing::warn!("{damage}");
            }
            if (is_due || writer.is_due())
                && let Err(error) = writer.write_if_changed()
            {
                // The device continues, and the next interval tries again.
                tracing::warn!(%error, "the state cannot be written");
            }
        }
        if is_due {
            since = Duration::ZERO;
        }
    }
}

pub(super) fn control(path: &Path) -> Result<Control, Failure> {
    Control::bind(path).map_err(|error| cannot_listen(&Address::Unix(path.to_owned()), &error))
}

/// Serves `subject` over HTTP until `stop` is thrown. If HTTP fails, the devices are still served.
fn serve_http(server: flashlab_web::Server, subject: &mut dyn Subject, stop: &flashlab_web::Stop) {
    if let Err(error) = server.serve(subject, stop) {
        tracing::warn!(%error, "HTTP has ended");
    }
}

fn metrics(text: &str) -> Result<flashlab_web::Server, Failure> {
    let address = tcp("--metrics", text, METRICS_PORT)?;
    let metrics = flashlab_web::Server::bind(address, flashlab_web::Limits::default())
        .map_err(|error| Failure::system(&address.to_string(), &error))?;
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
        options.pidfile.as_deref().map(Pidfile::write_and_leave).transpose()?;
        serve_standard_input(server)?;
        return Ok(ExitCode::SUCCESS);
    }
    listen_and_serve(options, server, addresses, export, stop, status)
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

pub(super) fn cannot_listen(address: &Address, error: &io::Error) -> Failure {
    let reason = match address {
        Address::Unix(_)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename) =>
        {
            "the absolute path of a socket can have at most 107 bytes; choose a shorter one"
        }
        Address::Unix(_) if error.kind() == io::ErrorKind::NotFound => {
            "its folder does not exist; create it first"
        }
        _ if error.kind() != io::ErrorKind::AddrInUse => return Failure::system(&address.to_string(), error),
        Address::Unix(path) => {
            let socket = path.metadata().is_ok_and(|file| file.file_type().is_socket());
            if socket { "another process listens there" } else { "the file exists and is not a socket" }
        }
        Address::Tcp(_) => "another process listens there; choose another port, or 0 for a free one",
        _ => "another process listens there",
    };
    Failure::failed(format_args!("{address}: {reason}"))
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
        listeners.push(listener.map_err(|error| cannot_listen(address, &error))?);
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
