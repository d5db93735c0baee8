//! The time of a server's devices, for work that belongs to no connection.

use crate::pace::Pace;
use flashlab_block::BlockDevice;
use flashlab_sim::{Duration, Instant};
use std::sync::Arc;

/// The time that all devices and connections of a server share.
#[derive(Clone, Debug)]
pub struct DeviceTime(Arc<Pace>);

impl DeviceTime {
    pub(crate) fn new(pace: Arc<Pace>) -> DeviceTime {
        DeviceTime(pace)
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// Advances a device to the current time. Unpaced time first advances to the device's next event, so the
    /// caller must have nothing else to do than wait for the device. Returns the wall-clock time until the
    /// next event of the device; `None` if the device has no next event.
    pub fn advance(&self, device: &dyn BlockDevice) -> Option<Duration> {
        self.0.reach(device.next_due()?);
        device.advance(self.0.now());
        device.next_due().map(|due| self.0.left(due))
    }

    /// Returns the wall-clock time until `at`. Unpaced time stands still until [`DeviceTime::pass`] advances
    /// it.
    pub fn left(&self, at: Instant) -> Duration {
        if self.0.is_paced() { self.0.left(at) } else { at.saturating_since(self.0.now()) }
    }

    /// Advances unpaced time by `time`, for which the caller has waited on a timer. Paced time advances by
    /// itself.
    pub fn pass(&self, time: Duration) {
        self.0.reach(self.0.now().saturating_add(time));
    }
}
