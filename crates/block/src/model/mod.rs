//! What changes *when*: models for byte-carrying devices that have none of their own, or over one.

mod immediate;
mod slowed;

pub use immediate::Immediate;
pub use slowed::{Pace, Slowed};
