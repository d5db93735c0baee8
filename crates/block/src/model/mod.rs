//! Models that change the timing of a device: one for devices without timing, and one that slows another model down.

mod immediate;
mod slowed;

pub use immediate::Immediate;
pub use slowed::{Pace, Slowed};
