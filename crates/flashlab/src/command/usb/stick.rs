//! A device that stores bytes, presented as a USB stick, and the commands of `flashlab ctl` on the stick.

use super::super::control::{
    device_wear, fault as layer_fault, format_power_cut, format_stats, reason, verb_and_rest,
};
use super::super::serve::{Options, end_devices, work_in_background, write_states_periodically};
use super::{Gadget, format_counters, serve};
use crate::edge::sources;
use crate::failure::{Failure, and_then_end, say_notes};
use crate::words;
use flashlab_catalogue::library::Library;
use flashlab_lab::statistics::Counters;
use flashlab_sd::quirk::QuirkError;
use flashlab_serve::{BlockDisk, ControlReply, DeviceTime, Stop, TaskQueue};
use flashlab_served::Served;
use flashlab_sim::{Duration, Instant};
use flashlab_usb::{Identity, MassStorage, PlannedStickQuirk};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

/// Time for which a stick is off the bus after a power cut. A host notices the absence within a fraction of a
/// second.
const POWER_CUT: Duration = Duration::from_ms(500);

type Stick = MassStorage<BlockDisk>;

/// Serves the device of an argument.
pub(super) fn run(device: &str, options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let served = Served::open(device, options.seed, options.read_only, sources(library))?;
    say_notes();
    let disk = BlockDisk::new(served.device.clone(), served.timed.clone(), served.read_only);
    let mut stick = MassStorage::new(disk, identity(&served.description));
    for text in &options.quirks {
        let quirk: PlannedStickQuirk =
            text.parse().map_err(|error| Failure::usage(format_args!("--quirk {text}: {error}")))?;
        stick.add_quirk(Instant::ZERO, quirk);
    }
    let tasks = TaskQueue::new().map_err(|error| Failure::system("events", &error))?;
    let before = served.timed.as_ref().map(|timed| timed.with_model(Counters::of));
    let control = StickControl {
        tasks,
        served: Arc::new(served),
        before,
        keep_every: options.keep_every(),
        background_rate: options.background_rate.unwrap_or(0),
    };
    // The device is closed after the stick, even if the service failed.
    let code = serve(options, &control, stick).and_then(|(_, code)| code);
    and_then_end(code, end_devices(std::slice::from_ref(&*control.served)))
}

/// Returns the texts with which a stick identifies itself. The serial number is a hash of the device's name, so the same
/// device is recognised again.
fn identity(device: &str) -> Identity {
    let name = device.split([':', '+']).next().unwrap_or(device);
    let name = name.rsplit('/').next().unwrap_or(name);
    let serial = device.bytes().fold(0, |hash, byte| flashlab_sim::mix(hash ^ u64::from(byte)));
    Identity {
        vendor: "flashlab".to_owned(),
        product: name.to_owned(),
        revision: "1".to_owned(),
        serial: format!("{serial:016X}"),
    }
}

/// Access to the stick while it is served.
struct StickControl {
    tasks: TaskQueue<Stick>,
    served: Arc<Served>,
    /// Counters of the device when it was opened.
    before: Option<Counters>,
    /// Interval at which the state of a device with state=FILE is written.
    keep_every: Duration,
    /// Limit of the background work of a volume, in bytes per second; zero means no limit.
    background_rate: u64,
}

impl Gadget for StickControl {
    type Device = Stick;
    const NAME: &'static str = "stick";

    fn tasks(&self) -> &TaskQueue<Stick> {
        &self.tasks
    }

    fn command(&self, command: String) -> impl FnOnce(&mut Stick, Instant) -> ControlReply + Send + 'static {
        let (served, before) = (self.served.clone(), self.before.clone());
        move |stick, now| execute(stick, now, &command, &served, before.as_ref())
    }

    fn accompany(&self, time: DeviceTime, stop: &Stop) {
        thread::scope(|scope| {
            if let Some(closing) = self.served.closing.as_deref() {
                let device = &*self.served.device;
                scope.spawn(|| work_in_background(closing, device, self.background_rate, time, stop));
            }
            if self.served.may_have_states() {
                write_states_periodically(std::slice::from_ref(&*self.served), self.keep_every, stop);
            }
        });
    }
}

fn execute(
    stick: &mut Stick,
    now: Instant,
    command: &str,
    served: &Served,
    before: Option<&Counters>,
) -> ControlReply {
    let words = words::split(command)?;
    let (verb, rest) = verb_and_rest(&words);
    match (verb, rest.as_str()) {
        ("stats", "") => Ok(stats(stick) + &format_stats(served)),
        ("wear", "") => device_wear(served, before),
        ("cut", "") => {
            if !stick.drop_off(now, POWER_CUT) {
                return Err("the stick is not on the bus, so it has no power".to_owned());
            }
            Ok(format_power_cut(stick.disk().last_cut()))
        }
        ("unplug", "") if !stick.is_plugged() => Err("the port is empty".to_owned()),
        ("replug", "") if stick.is_plugged() => Err("the stick is in the port already".to_owned()),
        ("unplug", "") | ("replug", "") => {
            stick.set_plugged(now, verb == "replug");
            Ok(String::new())
        }
        ("fault", rule) => fault(stick, now, rule, served),
        ("keep", "") => {
            let writer = served.state_writer.as_ref();
            let without = || reason(served, "the stick has no file for its state: serve it with state=FILE");
            let writer = writer.ok_or_else(without)?;
            writer.write().map_err(|error| error.to_string())?;
            Ok(format!("the state is in {}\n", writer.path().display()))
        }
        _ => Err(format!(
            "{command:?} is not a command; the commands are stats, wear, cut, unplug, replug, fault and keep"
        )),
    }
}

fn stats(stick: &Stick) -> String {
    let counters = stick.counters();
    format_counters([counters.commands, counters.failed, counters.read_bytes, counters.written_bytes])
}

/// Adds a quirk to the stick, or a rule to the uppermost error layer of its device; or lists or removes all
/// quirks and rules.
fn fault(stick: &mut Stick, now: Instant, rule: &str, served: &Served) -> ControlReply {
    let has_layer = !served.faults.is_empty();
    match rule {
        "" => Err("the fault is missing; for example: fault disconnect=2s, fault write-protected".to_owned()),
        "list" => {
            let active = stick.active_quirks().iter().map(|quirk| format!("{quirk}\n"));
            let listed: String =
                active.chain(stick.planned_quirks().iter().map(|planned| format!("{planned}\n"))).collect();
            let rules = if has_layer { layer_fault(served, rule)? } else { String::new() };
            Ok(listed + &rules)
        }
        "clear" => {
            stick.clear_quirks();
            if has_layer { layer_fault(served, rule) } else { Ok(String::new()) }
        }
        _ => match rule.parse::<PlannedStickQuirk>() {
            Ok(quirk) => {
                stick.add_quirk(now, quirk);
                Ok(String::new())
            }
            Err(QuirkError::Unknown { .. }) if has_layer => layer_fault(served, rule),
            Err(error) => Err(error.to_string()),
        },
    }
}
