//! The commands that change a session.

use serde::Deserialize;

/// A command, in JSON an object with the key `do`: `{"do": "speed", "factor": 60}`.
///
/// Every variant has braces or a structure, because `serde` does not reject unknown fields of a unit variant.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Stops simulated time.
    Pause {},
    /// Continues simulated time.
    Resume {},
    /// Pauses, and simulates until the first device has completed this many further requests.
    Step {
        /// Number of requests; 1 by default.
        #[serde(default = "one")]
        requests: u32,
    },
    /// Sets the ratio of simulated to wall-clock time.
    Speed {
        /// The ratio.
        factor: f64,
    },
    /// Cuts the power and restores it at once. The job starts again when the device has recovered.
    Cut(Target),
    /// Cuts the power.
    Unplug(Target),
    /// Restores the power. The job starts again when the device has recovered.
    Plug(Target),
    /// Makes the next requests of the job fail with an I/O error, which ends the job as in fio.
    Fault {
        /// Index of the device; all devices by default.
        device: Option<usize>,
        /// Number of requests.
        requests: u32,
    },
    /// Discards a range.
    Discard {
        /// Index of the device; all devices by default.
        device: Option<usize>,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Changes a number of a device's profile. A card or an eMMC device whose power is on keeps its state if
    /// the number belongs to the host (`host.`). After any other change, the device starts as new.
    Set {
        /// Index of the device; all devices by default.
        device: Option<usize>,
        /// Path of the number: `flash.t_prog`.
        key: String,
        /// The value with its unit: `300us`.
        value: String,
    },
    /// Replaces the job: options of fio, or the text of a job file. The devices stay as they are.
    Job {
        /// The job.
        text: String,
    },
    /// Shows a second device beside the first. Both devices start as new.
    Beside {
        /// Name of the device with its settings.
        device: String,
    },
    /// Removes the second device.
    Alone {},
    /// Starts again with new devices.
    Restart {},
}

fn one() -> u32 {
    1
}

/// The device that a command addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Index of the device; all devices by default.
    pub device: Option<usize>,
}
