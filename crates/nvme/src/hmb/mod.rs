//! The host memory buffer (HMB): host memory for the exclusive use of the controller (NVM Express Base Specification
//! 1.4, clause 8.9).
//!
//! - [`SetFeatures`] and [`Descriptor`]: the command (Set Features, feature 0Dh, clause 5.21.1.13) and its list, as
//!   bytes.
//! - [`Buffer`]: the controller's side, which validates a grant, uses it and releases it.
//! - [`Driver`]: the host's side, which decides size, chunks and withdrawal as Linux does.

mod buffer;
mod driver;
mod feature;

pub use buffer::{Buffer, Effect, HmbError, Limits};
pub use driver::{Driver, Grant, HostMemory, Refusal, UnlimitedMemory};
pub use feature::{Descriptor, SetFeatures};

/// Size of a memory page in bytes, the unit of a grant (CC.MPS of 0).
pub const PAGE: u64 = 4096;
