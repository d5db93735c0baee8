//! `flashlab serve --web`: the live page of the devices of a server.

use super::super::control::ServerControl;
use super::super::metrics;
use crate::failure::{Failure, say};
use crate::status::StatusLine;
use crate::words;
use flashlab_block::layer::Kind;
use flashlab_block::{BlockDevice, Completed, Monitor, Timed};
use flashlab_fio::job::Direction;
use flashlab_lab::session::{
    DeviceSnapshot, EVENTS, HISTORY, Happening, Interval, LATENCY_BOUNDS_NS, Observed, SessionError,
};
use flashlab_served::Served;
use flashlab_sim::{Duration, Instant};
use flashlab_web::{Limits, Refused, Server, Subject};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of consecutive intervals without requests after which further empty intervals are left out. The
/// page shows rates over the same number of intervals, so the rates are zero by then.
const QUIET_MAX: u64 = 10;

/// The controls that apply to a served device.
const CONTROLS: &[&str] = &["cut", "unplug", "plug", "fault"];

/// Listens for the page and prints its address.
pub(super) fn bind(address: SocketAddr) -> Result<Server, Failure> {
    let server = Server::bind(address, Limits::default())
        .map_err(|error| Failure::system(&address.to_string(), &error))?;
    let url = server.url().map_err(|error| Failure::system("--web", &error))?;
    say(format_args!("the page is {url}"));
    if !address.ip().is_loopback() {
        say("--web: any machine that can reach the address can watch; changes need the token");
    }
    Ok(server)
}

/// The page of those devices of a server that answer at the times of a model.
pub(super) struct ServedPage<'a> {
    control: &'a ServerControl<'a>,
    status: StatusLine,
    devices: Vec<Watched<'a>>,
    /// Start of the current interval.
    begun: Instant,
    /// Instant that the page shows. Without requests it changes once a second, so that an idle server sends little.
    shown: Instant,
    wall: Duration,
    /// Number of intervals since the last one with requests.
    quiet: u64,
    tick: u64,
    events: VecDeque<Happening>,
    happened: u64,
}

/// A device, with the figures of its requests.
struct Watched<'a> {
    export: &'a str,
    device: String,
    title: &'a str,
    timed: &'a Timed,
    requests: Requests,
    observed: Observed,
    history: VecDeque<Interval>,
}

/// The requests of the current interval.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Interval>>);

impl Requests {
    fn take(&self) -> Interval {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Monitor for Requests {
    fn completed(&mut self, request: &Completed) {
        let mut interval = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !request.is_ok {
            interval.failed += 1;
            return;
        }
        let direction = match request.kind {
            Kind::Read => Direction::Read,
            Kind::Write | Kind::WriteZeroes => Direction::Write,
            Kind::Discard => Direction::Trim,
            Kind::Flush | Kind::Cache | Kind::Extents => return,
        };
        interval.count(direction, request.bytes, request.at, &request.spent);
    }
}

/// A command of the page.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Change {
    Cut { device: Option<usize> },
    Unplug { device: Option<usize> },
    Plug { device: Option<usize> },
    Fault { device: Option<usize>, requests: u64 },
}

/// The state, as the page receives it.
#[derive(Serialize)]
struct State<'a> {
    version: &'static str,
    tick: u64,
    now_ns: u64,
    latency_bounds_ns: &'static [u64],
    controls: &'static [&'static str],
    devices: Vec<DeviceSnapshot<'a>>,
    /// Instructions for a first request; `None` once a client has made a request.
    hint: Option<String>,
    events: Vec<&'a Happening>,
}

impl<'a> ServedPage<'a> {
    /// Returns the page of the devices among `served` that answer at the times of a model.
    pub(super) fn new(
        control: &'a ServerControl<'a>,
        served: &'a [Served],
        status: StatusLine,
    ) -> Result<ServedPage<'a>, Failure> {
        let watched = |served: &'a Served| {
            let timed = served.timed.as_deref()?;
            let requests = Requests::default();
            timed.set_monitor(Box::new(requests.clone()));
            let device = if served.name.is_empty() { "the default export" } else { &served.name };
            Some(Watched {
                export: &served.name,
                device: device.to_owned(),
                title: &served.description,
                timed,
                requests,
                observed: timed.with_model(Observed::of),
                history: VecDeque::new(),
            })
        };
        let devices: Vec<Watched<'_>> = served.iter().filter_map(watched).collect();
        if devices.is_empty() {
            return Err(Failure::usage(
                "--web shows simulated devices, and none is served: serve one (sd/kingston, nvme/p32a80, \
                 memory:size=1G+delay:read=1ms), or use --metrics",
            ));
        }
        Ok(ServedPage {
            control,
            status,
            devices,
            begun: Instant::ZERO,
            shown: Instant::ZERO,
            wall: Duration::ZERO,
            quiet: QUIET_MAX,
            tick: 0,
            events: VecDeque::new(),
            happened: 0,
        })
    }

    fn json(&self, with_history: bool) -> String {
        let state = State {
            version: env!("CARGO_PKG_VERSION"),
            tick: self.tick,
            now_ns: self.shown.as_ns(),
            latency_bounds_ns: &LATENCY_BOUNDS_NS,
            controls: CONTROLS,
            devices: self.devices.iter().map(|watched| watched.snapshot(with_history)).collect(),
            hint: self.hint(),
            events: self.events.iter().collect(),
        };
        serde_json::to_string(&state).expect("a state serialises to memory")
    }

    /// Returns instructions for a first request; `None` once a client has made a request.
    fn hint(&self) -> Option<String> {
        if self.devices.iter().any(|watched| !watched.history.is_empty()) {
            return None;
        }
        let uri = self.status.uri()?;
        let load = words::join(&["flashlab", "load", uri, "--rw=randread", "--bs=4k", "--runtime=10"]);
        Some(format!(
            "No client has made a request yet. Clients connect to the address in this example:\n{load}"
        ))
    }

    fn report(&mut self, device: usize, text: String) {
        self.happened += 1;
        self.shown = self.control.now();
        let at_ns = self.shown.as_ns();
        self.events.push_back(Happening { number: self.happened, at_ns, device, text });
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
    }

    /// Sends a command of `flashlab ctl` to the devices that `device` selects, or to all.
    fn send(&mut self, device: Option<usize>, command: &str, done: &str) -> Result<(), Refused> {
        if let Some(device) = device.filter(|device| *device >= self.devices.len()) {
            return Err(Refused(SessionError::NoDevice { device }.to_string()));
        }
        let (mut refused, mut is_accepted) = (Ok(()), false);
        for index in 0..self.devices.len() {
            if device.is_none_or(|device| device == index) {
                let line = format!("{}\n{command}", self.devices[index].export);
                let answer = self.control.answer(&line);
                is_accepted |= answer.is_ok();
                match answer {
                    Ok(reply) if reply.trim_end().is_empty() => self.report(index, done.to_owned()),
                    Ok(reply) => {
                        let reply = reply.trim_end().replace('\n', "; ");
                        self.report(index, format!("{done}: {reply}"));
                    }
                    // The command still goes to the other devices.
                    Err(why) => {
                        if device.is_none() {
                            self.report(index, format!("refused: {why}"));
                        }
                        refused = refused.and(Err(Refused(why)));
                    }
                }
            }
        }
        // A command for all devices, such as plug, may apply to some of them only.
        if is_accepted { Ok(()) } else { refused }
    }
}

impl Watched<'_> {
    fn snapshot(&self, with_history: bool) -> DeviceSnapshot<'_> {
        let skip = if with_history { 0 } else { self.history.len().saturating_sub(1) };
        let in_flight = self.timed.in_flight();
        DeviceSnapshot {
            device: &self.device,
            title: self.title,
            capacity: self.timed.geometry().capacity,
            phase: match (self.timed.is_powered(), in_flight) {
                (false, _) => "unplugged",
                (true, 0) => "idle",
                (true, _) => "running",
            },
            in_flight,
            history: self.history.len(),
            intervals: self.history.iter().skip(skip).collect(),
            counters: self.observed.counters.clone(),
            levels: self.observed.levels.clone(),
            blocks: self.observed.blocks.clone(),
        }
    }
}

impl Subject for ServedPage<'_> {
    fn pass(&mut self, wall: std::time::Duration) {
        self.wall += Duration::from_ns(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX));
    }

    fn tick(&mut self) -> Option<String> {
        let now = self.control.now();
        let closed: Vec<Interval> = self
            .devices
            .iter()
            .map(|watched| watched.requests.take().closed(self.begun, now, self.wall))
            .collect();
        let is_quiet = closed.iter().all(Interval::is_empty);
        self.quiet = if is_quiet { self.quiet.saturating_add(1) } else { 0 };
        if self.quiet <= QUIET_MAX || self.quiet.is_multiple_of(10) {
            self.shown = now;
        }
        if self.quiet <= QUIET_MAX {
            self.tick += 1;
            for (watched, interval) in self.devices.iter_mut().zip(closed) {
                watched.observed = watched.timed.with_model(Observed::of);
                watched.history.push_back(interval);
                if watched.history.len() > HISTORY {
                    watched.history.pop_front();
                }
            }
        }
        (self.begun, self.wall) = (now, Duration::ZERO);
        Some(self.json(false))
    }

    fn state(&mut self) -> String {
        self.json(true)
    }

    fn execute(&mut self, command: &serde_json::Value) -> Result<(), Refused> {
        let change = serde_json::from_value(command.clone())
            .map_err(|error| Refused(format!("the command is not valid: {error}")))?;
        match change {
            Change::Cut { device } => self.send(device, "cut", "power cut"),
            Change::Unplug { device } => self.send(device, "unplug", "unplugged"),
            Change::Plug { device } => self.send(device, "replug", "plugged in"),
            Change::Fault { requests: 0, .. } => Err(Refused(SessionError::NoRequests.to_string())),
            Change::Fault { device, requests } => self.send(
                device,
                &format!("fault times={requests}"),
                &match requests {
                    1 => "the next request fails".to_owned(),
                    _ => format!("the next {requests} requests fail"),
                },
            ),
        }
    }

    fn metrics(&mut self) -> Option<String> {
        Some(metrics::page(self.control).into())
    }
}
