//! The commands that change a session.

use serde::Deserialize;

/// A command, in JSON an object with the key `do`: `{"do": "speed", "factor": 60}`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Stops simulated time.
    Pause,
    /// Continues simulated time.
    Resume,
    /// Pauses, and completes this many requests.
    Step {
        /// Number of requests; 1 by default.
        #[serde(default)]
        requests: u32,
    },
    /// Sets the ratio of simulated to wall-clock time.
    Speed {
        /// The ratio.
        factor: f64,
    },
}
