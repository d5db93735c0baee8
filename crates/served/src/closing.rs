//! The work of a device that belongs to no request: background work, commands, metrics and the work at its end.

use crate::StateWriter;
use flashlab_block::Context;
use flashlab_sim::Observer;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Background work of a device.
pub type Background<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A number for metrics.
#[derive(Clone, PartialEq, Debug)]
pub struct Gauge {
    /// Name, with its unit last.
    pub name: &'static str,
    /// Meaning, as a sentence.
    pub help: &'static str,
    /// Labels with their values.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// Services of the server for a command of a device.
pub struct Caller<'a> {
    /// Advances timed devices to the present time while the command waits.
    pub advance: &'a dyn Fn(),
    /// Returns the reason why a device must not be overwritten, such as a mounted filesystem; `None` if there is none.
    /// The device is named as for `flashlab serve`. A command calls this function before it opens the device.
    pub find_use: &'a dyn Fn(&str) -> Option<String>,
}

/// A device that has work to do before the process ends.
pub trait Closing: Send + Sync {
    /// Makes the device ready for the end of the process, after its last request.
    ///
    /// # Errors
    /// Returns the reason, as a sentence for the user.
    fn close(&self) -> Result<(), String>;

    /// Returns the writers of the state files of the devices below. The number of writers can grow.
    fn state_writers(&self) -> Vec<Arc<StateWriter>> {
        Vec::new()
    }

    /// Returns the background work of the device, on a context with an executor; `None` if the device has no
    /// such work. The work ends soon after `is_stopped` returns true. `rate` is the maximum number of bytes
    /// per second that the work moves, and that a scrub reads; zero means no limit.
    fn background<'a>(
        &'a self,
        _cx: &'a Context,
        _rate: u64,
        _is_stopped: &'a (dyn Fn() -> bool + Sync),
    ) -> Option<Background<'a>> {
        None
    }

    /// Executes a command of `flashlab ctl`. Returns `None` if the device has no such command.
    fn command(&self, _words: &[&str], _caller: &Caller<'_>) -> Option<Result<String, String>> {
        None
    }

    /// Describes the background work that is under way, with its progress and the time left. Returns `None` if there is
    /// no such work.
    fn describe_work(&self) -> Option<String> {
        None
    }

    /// Returns true if requests wait for simulated time beside the events of the device, so that their contexts need an
    /// executor.
    fn spends_simulated_time(&self) -> bool {
        false
    }

    /// Returns remarks on the simulated times, for readers of results.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Passes on the counters of the devices below.
    fn observe(&self, _to: &mut dyn Observer) {}

    /// Returns numbers for metrics. Numbers with the same name are adjacent.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}
