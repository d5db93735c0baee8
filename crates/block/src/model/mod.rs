//! Models that change the timing of a device: one for devices without timing, and one that slows another model down.

mod throttled;
mod untimed;

pub use throttled::{Throttle, Throttled};
pub use untimed::Untimed;
