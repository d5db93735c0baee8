//! The state of a session, as the page receives it.

use super::blocks::BlockPicture;
use super::interval::Interval;
use serde::Serialize;

/// State of a session.
#[derive(Debug, Serialize)]
pub struct Snapshot<'a> {
    /// Version of flashlab.
    pub version: &'static str,
    /// Number of the last interval. A reader that sees a gap in the numbers has missed an interval.
    pub tick: u64,
    /// Commands that apply here; the page shows their controls.
    pub controls: &'static [&'static str],
    /// True while simulated time stands still.
    pub paused: bool,
    /// Ratio of simulated to wall-clock time that the user chose.
    pub speed: f64,
    /// Simulated time at the end of the last interval.
    pub now_ns: u64,
    /// The job, as the user wrote it.
    pub job: &'a str,
    /// Upper bounds of the rows of the latency heat map.
    pub latency_bounds_ns: &'static [u64],
    /// The devices.
    pub devices: Vec<DeviceSnapshot<'a>>,
    /// The latest events, oldest first.
    pub events: Vec<&'a Happening>,
}

/// State of one device.
#[derive(Debug, Serialize)]
pub struct DeviceSnapshot<'a> {
    /// The argument that selected the device.
    pub device: &'a str,
    /// Full name of the product.
    pub title: &'a str,
    /// Addressable bytes.
    pub capacity: u64,
    /// `preparing`, `running`, `finished` or `unplugged`.
    pub phase: &'static str,
    /// Requests in flight.
    pub in_flight: u64,
    /// Number of intervals of this device, and of the devices that it replaced because a number was changed;
    /// at most [`HISTORY`](super::HISTORY). Older intervals that a reader holds belong to another device.
    pub history: usize,
    /// Figures of the last intervals, oldest first.
    pub intervals: Vec<&'a Interval>,
    /// Counters since the device was new.
    pub counters: Vec<(&'static str, u64)>,
    /// Fill levels of caches and buffers: name, used bytes, capacity.
    pub levels: Vec<(&'static str, u64, u64)>,
    /// The erase blocks; absent if the device models none.
    pub blocks: Option<BlockPicture>,
}

/// An event in a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Happening {
    /// Number of the event, from 1.
    pub number: u64,
    /// Instant in simulated time.
    pub at_ns: u64,
    /// Index of the device.
    pub device: usize,
    /// Description.
    pub text: String,
}
