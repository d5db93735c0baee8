//! The active and planned quirks of one stick.

use super::{PlannedStickQuirk, StickQuirk, StickTrigger};
use alloc::vec::Vec;
use flashlab_sim::{Duration, Instant};

/// Unit of [`StickTrigger::Block`] in bytes.
const BLOCK: u64 = 512;

/// The active and planned quirks of a stick.
#[derive(Clone, Debug, Default)]
pub(crate) struct StickQuirks {
    /// Quirks whose trigger has not fired.
    planned: Vec<PlannedStickQuirk>,
    active: Vec<StickQuirk>,
    /// Duration of a disconnection whose trigger has fired.
    disconnection: Option<Duration>,
}

impl StickQuirks {
    /// Adds a quirk, which is active from its trigger on.
    pub(crate) fn add(&mut self, planned: PlannedStickQuirk) {
        match planned.trigger {
            StickTrigger::Always => self.activate(planned.quirk),
            _ => self.planned.push(planned),
        }
    }

    /// Removes all quirks.
    pub(crate) fn clear(&mut self) {
        *self = StickQuirks::default();
    }

    pub(crate) fn active(&self) -> &[StickQuirk] {
        &self.active
    }
    pub(crate) fn planned(&self) -> &[PlannedStickQuirk] {
        &self.planned
    }

    fn activate(&mut self, quirk: StickQuirk) {
        match quirk {
            StickQuirk::Disconnect(time) => self.disconnection = Some(time),
            quirk => self.active.push(quirk),
        }
    }

    /// Activates the quirks whose trigger has fired by `now`. `bytes` is the number of bytes that the host
    /// has read and written.
    pub(crate) fn reach(&mut self, now: Instant, bytes: u64) {
        let fires = |planned: &PlannedStickQuirk| match planned.trigger {
            StickTrigger::Always => true,
            StickTrigger::At(at) => at <= now,
            StickTrigger::Block(count) => bytes / BLOCK >= count,
        };
        let (fired, left) = core::mem::take(&mut self.planned).into_iter().partition(fires);
        self.planned = left;
        let fired: Vec<PlannedStickQuirk> = fired;
        fired.into_iter().for_each(|planned| self.activate(planned.quirk));
    }

    /// Returns the earliest instant at which a quirk becomes active.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let at = |planned: &PlannedStickQuirk| match planned.trigger {
            StickTrigger::At(at) => Some(at),
            _ => None,
        };
        self.planned.iter().filter_map(at).min()
    }

    /// Takes the duration of a disconnection whose trigger has fired.
    pub(crate) fn take_disconnection(&mut self) -> Option<Duration> {
        self.disconnection.take()
    }

    fn find<T>(&self, what: impl Fn(&StickQuirk) -> Option<T>) -> Option<T> {
        // A quirk that was added later replaces an earlier one of its kind.
        self.active.iter().rev().find_map(what)
    }

    /// Returns the least time from the last request to a reset that wakes the stick, or `None` if the stick
    /// needs no reset.
    pub(crate) fn needs_reset(&self) -> Option<Duration> {
        self.find(|quirk| if let StickQuirk::NeedsReset(time) = quirk { Some(*time) } else { None })
    }
    /// Returns the time between power-up and appearance on the bus.
    pub(crate) fn appears_after(&self) -> Duration {
        let time =
            self.find(|quirk| if let StickQuirk::AppearsAfter(time) = quirk { Some(*time) } else { None });
        time.unwrap_or(Duration::ZERO)
    }
    /// Returns the time between power-up and the readiness of the medium.
    pub(crate) fn ready_after(&self) -> Duration {
        let time =
            self.find(|quirk| if let StickQuirk::ReadyAfter(time) = quirk { Some(*time) } else { None });
        time.unwrap_or(Duration::ZERO)
    }
    /// Returns the capacity that the stick reports instead of its own, in bytes.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.find(|quirk| if let StickQuirk::Capacity(bytes) = quirk { Some(*bytes) } else { None })
    }
    /// Returns true if the stick refuses writes.
    pub(crate) fn is_write_protected(&self) -> bool {
        self.active.contains(&StickQuirk::WriteProtected)
    }
}
