//! `flashlab serve --usbredir` and `--usbip`: presents a card in the slot of a USB SD host controller, for Linux's own
//! driver, and presents any other device that stores bytes as a USB stick.

mod card;
mod stick;

use super::serve::{Options, Pidfile, cannot_listen, control, private_socket, tcp};
use crate::failure::{Failure, say};
use crate::status::{StatusLine, end_on_signals};
use crate::{file, logging};
use flashlab_catalogue::library::Library;
use flashlab_serve::{
    Address, ControlReply, DeviceTime, Listener, PrivateSocket, Speed, Stop, TaskQueue, UsbPort,
    run as run_beside,
};
use flashlab_served::CardOrigin;
use flashlab_sim::Instant;
use flashlab_usb::{Device, usbip, usbredir};
use std::path::Path;
use std::process::ExitCode;
use std::{io, thread};

/// Protocol between the server and the machine that uses the device.
#[derive(Clone, Copy)]
enum Protocol {
    Usbredir,
    Usbip,
}

/// Returns true if the options ask for USB.
pub(super) fn uses_usb(options: &Options) -> bool {
    options.usbredir.is_some() || options.usbip.is_some()
}

pub(super) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let [device] = options.devices.as_slice() else {
        return Err(Failure::usage(
            "--usbredir and --usbip take one device, for example sd/kingston or usb/usb3-1",
        ));
    };
    if CardOrigin::is_card(device, library) {
        let given = [
            ("--keep-every", options.keep_every.is_some()),
            ("--background-rate", options.background_rate.is_some()),
        ];
        if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::usage(format!(
                "a card behind USB cannot be used with '{option}': it has no background work, and its state is written \
                 at the end and by `flashlab ctl SOCKET keep`"
            )));
        }
        card::run(device, options, library)
    } else {
        stick::run(device, options, library)
    }
}

/// A USB device that is served, and the commands of `flashlab ctl` on it.
trait Gadget: Sync {
    type Device: Device + Send;
    /// Word for the device in messages.
    const NAME: &'static str;

    fn tasks(&self) -> &TaskQueue<Self::Device>;

    /// Returns the task that executes a command.
    fn command(
        &self,
        command: String,
    ) -> impl FnOnce(&mut Self::Device, Instant) -> ControlReply + Send + 'static;

    /// Runs beside the service until `stop` is thrown.
    fn accompany(&self, _time: DeviceTime, _stop: &Stop) {}

    /// Executes `line`, which contains an export name, a line feed and a command. Refuses an export name that
    /// is not empty, since there are no exports.
    fn answer(&self, line: &str) -> ControlReply {
        let (export, command) = line.split_once('\n').unwrap_or(("", line));
        if !export.is_empty() {
            return Err(format!("a {} behind USB has no exports: leave --export out", Self::NAME));
        }
        let told = self.tasks().send(self.command(command.to_owned()));
        told.unwrap_or_else(|| Err("the server is shutting down".to_owned()))
    }
}

/// Serves `device` until the server stops. Returns the device, and either the exit code of `--run` or the
/// error that ended the service or `--run`.
fn serve<G: Gadget>(
    options: &Options,
    gadget: &G,
    device: G::Device,
) -> Result<(G::Device, Result<ExitCode, Failure>), Failure> {
    let (address, private, protocol) = address(options)?;
    let stop = Stop::new().map_err(|error| Failure::system("events", &error))?;
    end_on_signals(&stop);
    logging::start(options.log, StatusLine::new());
    let listener = Listener::bind(&address).map_err(|error| cannot_listen(&address, &error))?;
    let control = options.control.as_deref().map(control).transpose()?;
    let bound = listener.address().map_err(|error| Failure::system("the listening socket", &error))?;
    let speed = if options.unpaced { Speed::Unpaced } else { options.speed };
    let port = UsbPort::new(listener, speed, stop.clone());
    let place = bound.to_string();
    let _pidfile = options.pidfile.as_deref().map(Pidfile::write).transpose()?;
    if options.print_uri {
        file::print(&format!("{place}\n"))?;
    } else if options.run.is_none() {
        say(recipe(&place, protocol, G::NAME));
    }
    let ((device, served), code) = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let served = match protocol {
                Protocol::Usbredir => port.serve::<usbredir::Session<G::Device>>(device, gadget.tasks()),
                Protocol::Usbip => port.serve::<usbip::Session<G::Device>>(device, gadget.tasks()),
            };
            stop.throw();
            served
        });
        scope.spawn(|| gadget.accompany(port.time(), &stop));
        if let Some(control) = &control {
            scope.spawn(|| control.serve(&stop, |line| gadget.answer(line)));
        }
        let code = match &options.run {
            Some(command) => {
                let socket = match &bound {
                    Address::Unix(path) => Some(path.as_path()),
                    _ => None,
                };
                let code = run_beside(command, &place, socket, &stop);
                stop.throw();
                code
            }
            None => Ok(0),
        };
        (serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), code)
    });
    drop(private);
    let code = match (served, code) {
        (Err(error), _) => Err(Failure::system("waiting for a peer", &error)),
        (_, Err(error)) => Err(Failure::system("--run", &error)),
        (_, Ok(code)) => Ok(ExitCode::from(code)),
    };
    Ok((device, code))
}

/// Returns the address to listen on, the private socket if there is one, and the protocol. Dropping the private socket
/// removes it.
fn address(options: &Options) -> Result<(Address, Option<PrivateSocket>, Protocol), Failure> {
    if let Some(port) = &options.usbip {
        let port = if port.is_empty() { usbip::PORT.to_string() } else { port.clone() };
        return Ok((Address::Tcp(tcp("--usbip", &port, usbip::PORT)?), None, Protocol::Usbip));
    }
    let path = options.usbredir.as_deref().unwrap_or(Path::new("-"));
    match path.as_os_str().as_encoded_bytes() {
        b"" => Err(Failure::usage("--usbredir: the path is empty")),
        b"-" => {
            let private = private_socket()?;
            Ok((private.address(), Some(private), Protocol::Usbredir))
        }
        _ => {
            let path = std::path::absolute(path).map_err(|error: io::Error| Failure::io(path, &error))?;
            Ok((Address::Unix(path), None, Protocol::Usbredir))
        }
    }
}

/// Formats the numbers of commands, errors, bytes read and bytes written of an adapter or a stick.
fn format_counters([commands, failed, read, written]: [u64; 4]) -> String {
    format!("{commands} commands, {failed} errors; {read} bytes read, {written} bytes written\n")
}

/// Returns instructions for attaching the device.
fn recipe(place: &str, protocol: Protocol, name: &str) -> String {
    match protocol {
        Protocol::Usbredir => format!(
            "attach it to a guest: qemu-system-x86_64 ... -chardev socket,path={place},id={name} \\\n  \
             -device qemu-xhci -device usb-redir,chardev={name}"
        ),
        Protocol::Usbip => format!(
            "attach it: modprobe vhci-hcd; usbip --tcp-port {} attach --remote {} --busid {}",
            place.rsplit(':').next().unwrap_or(place),
            place.rsplit_once(':').map_or(place, |(host, _)| host).trim_matches(['[', ']']),
            usbip::BUS_ID,
        ),
    }
}
