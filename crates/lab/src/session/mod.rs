//! A session with one or two devices under an fio job: simulated time passes at a chosen speed, and commands change the
//! devices while the job runs.
//!
//! The session reads no clock. Its caller reports the wall-clock time that passes ([`Session::pass`]), lets the session
//! simulate ([`Session::work`]), and shows its state on the live page ([`Session::close_interval`],
//! [`Session::snapshot`]). Two devices run the same job up to the same simulated instant.

mod blocks;
mod command;
mod error;
mod execute;
mod interval;
mod job;
mod snapshot;
mod station;
mod text;
mod workload;

pub use blocks::{BlockPicture, Observed};
pub use command::{Command, Target};
pub use error::SessionError;
pub use interval::{Interval, LATENCY_BOUNDS_NS};
pub use snapshot::{DeviceSnapshot, Happening, Snapshot};

use flashlab_catalogue::library::Library;
use flashlab_sim::{Duration, Instant};
use station::Station;
use std::collections::VecDeque;

/// Largest number of devices in a session.
const DEVICES_MAX: usize = 2;
/// Maximum number of intervals in a snapshot's history.
pub const HISTORY: usize = 300;
/// Maximum number of events in a snapshot.
pub const EVENTS: usize = 60;
/// Commands that the controls of the page send.
const CONTROLS: &[&str] =
    &["pause", "step", "speed", "cut", "unplug", "plug", "fault", "discard", "set", "beside", "job"];
/// Bounds of the ratio of simulated to wall-clock time.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-6..=1e9;
/// End of simulated time, long before an [`Instant`] overflows.
const END: Instant = Instant::from_ns(100 * 365 * 86_400 * 1_000_000_000);
/// Largest number of events that one call of [`Session::work`] simulates.
const EVENTS_PER_CALL: u32 = 4_096;

/// Devices under a job, with the controls of the page.
pub struct Session {
    library: Library,
    seed: u64,
    job: String,
    stations: Vec<Station>,
    paused: bool,
    speed: f64,
    /// Instant up to which the devices are to be simulated.
    target: Instant,
    /// Instant at which the current interval began.
    begun: Instant,
    /// Wall-clock time since the current interval began.
    passed: Duration,
    tick: u64,
    happenings: VecDeque<Happening>,
    happened: u64,
}

impl Session {
    /// Returns a session with a new device for each of the first two arguments under `job`: options of fio, or the text
    /// of a job file.
    ///
    /// # Errors
    /// Returns an error if a device or the job cannot be used.
    pub fn new(library: &Library, devices: &[String], job: &str, seed: u64) -> Result<Session, SessionError> {
        let mut session = Session {
            library: library.clone(),
            seed,
            job: job.to_owned(),
            stations: Vec::new(),
            paused: false,
            speed: 1.0,
            target: Instant::ZERO,
            begun: Instant::ZERO,
            passed: Duration::ZERO,
            tick: 0,
            happenings: VecDeque::new(),
            happened: 0,
        };
        for device in devices.iter().take(DEVICES_MAX) {
            let station = Station::open(device, job, library, seed, Instant::ZERO)?;
            session.stations.push(station);
        }
        Ok(session)
    }

    /// Reports that `wall` of wall-clock time has passed, so that simulated time advances by `wall` times the speed. If
    /// the devices have not reached the previous target, the time is dropped, because the session cannot keep up with
    /// its speed.
    pub fn pass(&mut self, wall: Duration) {
        self.passed += wall;
        if !self.paused && self.stations.iter().all(|station| station.is_at(self.target)) {
            let ns = (wall.as_ns() as f64 * self.speed) as u64;
            self.target = self.target.saturating_add(Duration::from_ns(ns)).min(END);
        }
    }

    /// Simulates some events of the devices. Returns true if the devices have not reached their target yet.
    ///
    /// The next event is always one of the device that is furthest behind. So no device is ahead of another
    /// by more than one event. An interval covers the same span of time on all devices, however fast the
    /// processor simulates each of them.
    pub fn work(&mut self) -> bool {
        if let Some(index) = self.stations.iter().position(|station| !station.is_prepared()) {
            self.stations[index].prepare();
            self.report(index);
            return true;
        }
        let mut budget = EVENTS_PER_CALL;
        while budget > 0
            && let Some((index, others)) = self.furthest_behind()
        {
            budget = self.stations[index].advance(self.target, others, budget);
            self.report(index);
        }
        self.furthest_behind().is_some()
    }

    /// Returns the device that is furthest behind, and the instant that all other devices have reached.
    /// Returns `None` if this device has reached the target.
    fn furthest_behind(&self) -> Option<(usize, Instant)> {
        let behind = self.stations.iter().enumerate().min_by_key(|(_, station)| station.now());
        let (index, _) = behind.filter(|(_, station)| !station.is_at(self.target))?;
        let others = self.stations.iter().enumerate().filter(|(other, _)| *other != index);
        Some((index, others.map(|(_, station)| station.now()).min().unwrap_or(self.target)))
    }

    /// Moves the events of a device to the list of the session.
    fn report(&mut self, device: usize) {
        for (at, text) in self.stations[device].take_events() {
            self.happened += 1;
            self.happenings.push_back(Happening { number: self.happened, at_ns: at.as_ns(), device, text });
            if self.happenings.len() > EVENTS {
                self.happenings.pop_front();
            }
        }
    }

    /// Ends the current interval and begins the next. If no simulated time has passed, the interval
    /// continues, because the rates of its requests would be infinite.
    pub fn close_interval(&mut self) {
        let ends = self.stations.iter().map(|station| station.now().min(self.target)).min();
        let end = ends.unwrap_or(self.target).max(self.begun);
        let wall = std::mem::take(&mut self.passed);
        if end == self.begun {
            return;
        }
        let begin = std::mem::replace(&mut self.begun, end);
        self.tick += 1;
        self.stations.iter_mut().for_each(|station| station.close_interval(begin, end, wall));
        (0..self.stations.len()).for_each(|index| self.report(index));
    }

    /// Returns the state of the session, with the last interval alone or, if `history` is true, with all intervals of
    /// the history.
    pub fn snapshot(&self, history: bool) -> Snapshot<'_> {
        Snapshot {
            version: env!("CARGO_PKG_VERSION"),
            tick: self.tick,
            controls: CONTROLS,
            paused: self.paused,
            speed: self.speed,
            now_ns: self.begun.as_ns(),
            job: &self.job,
            latency_bounds_ns: &LATENCY_BOUNDS_NS,
            devices: self.stations.iter().map(|station| station.snapshot(history)).collect(),
            events: self.happenings.iter().collect(),
        }
    }
}
