//! The host memory buffer (HMB): host memory for the exclusive use of the controller (NVM Express Base Specification
//! 1.4, clause 8.9).
//!
//! - [`SetFeatures`] and [`Descriptor`]: the command (Set Features, feature 0Dh, clause 5.21.1.13) and its list, as
//!   bytes.
//! - [`Buffer`]: the controller's side, which validates grants and records which memory the controller may
//!   use.
//! - [`HostDriver`]: the host's side, a function that decides the size and the pieces of a grant.

mod buffer;
mod feature;

pub use buffer::{Buffer, Effect, HmbError, Limits};
pub use feature::{Descriptor, SetFeatures};

use crate::identify::Identify;
use alloc::vec::Vec;

/// Size of a memory page in bytes, the unit of a grant (CC.MPS of 0).
pub const PAGE: u64 = 4096;

/// Driver of a host: a function that decides at the start of a controller how much memory the controller
/// gets. The function returns the command and the list of descriptors, which add up to at most `limit` bytes,
/// or `None` if the driver grants nothing.
pub type HostDriver = fn(identify: &Identify, limit: u64) -> Option<(SetFeatures, Vec<Descriptor>)>;
