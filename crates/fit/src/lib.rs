//! Tools for a card of your own: measurement plans, observations and their file formats, the probe that finds
//! the structure of a device, and the estimation of a profile's numbers.
//!
//! The crate reads no clock and opens no device. Callers run the jobs of a plan on a virtual or a real device and return
//! the observations. The estimation receives the simulator as a closure.
#![forbid(unsafe_code)]

pub mod estimate;
pub mod import;
pub mod observation;
pub mod plan;
pub mod probe;
