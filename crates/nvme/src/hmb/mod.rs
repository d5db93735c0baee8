//! The host memory buffer: memory of the host that the controller uses alone (NVM Express Base Specification 1.4,
//! clause 8.9).
//!
//! - [`SetFeatures`] and [`Descriptor`]: the command (Set Features, feature 0Dh, clause 5.21.1.13) and its list, as bytes.
//! - [`Buffer`]: the controller's side, which checks what it is lent, uses it, gives it up and takes it back.
//! - [`Driver`]: the host's side with Linux' rules: how much it lends, in which chunks, and when it takes it away.

mod buffer;
mod driver;
mod feature;

pub use buffer::{Buffer, Effect, HmbError, Limits};
pub use driver::{Driver, Grant, HostMemory, Plenty, Refusal};
pub use feature::{Descriptor, SetFeatures};

/// Bytes of a memory page, the unit in which host memory is lent (CC.MPS of 0).
pub const PAGE: u64 = 4096;
