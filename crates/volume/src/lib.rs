//! A copy-on-write volume over several block devices.
//!
//! A volume presents devices of different sizes and speeds as one device. It stores a checksum or an authentication tag
//! for every extent, compresses and encrypts, keeps replicas, and moves data between the devices according to targets.
//!
//! - [`encode`] turns the bytes of an extent into the bytes that a member stores, and back.
//! - [`keys`] derives the keys of an encrypted volume from its passphrase.
//! - [`Options`] are the choices of a user at format time.
//! - [`mod@format`] contains the structures on the medium, as bytes.
//! - [`Volume`] is the engine: [`Volume::format`] creates a volume, and [`Volume::open`] returns a block device.
//! - [`examine`] reads the journal and the checkpoint of one member, damaged or not.
//!
//! The crate has no clock and starts no threads: background work is a task of the context's executor, so the same code
//! runs live, in simulated time and under crash tests. A server lends a volume its threads for codecs ([`Threads`]).
#![forbid(unsafe_code)]

mod allocate;
pub mod encode;
mod error;
pub mod examine;
mod extent;
pub mod format;
mod journals;
pub mod keys;
mod layout;
mod limits;
mod map;
mod member;
mod member_set;
mod membership;
mod options;
mod reconcile;
mod recover;
mod target;
mod volume;

pub use allocate::BucketUsage;
pub use error::{MissingMember, Remedies, SmallerSize, VolumeError};
pub use extent::{Extent, ExtentState, Pointer, Pointers, Writer};
pub use format::{ErrorCounts, MemberState};
pub use options::{Encryption, NewMember, Options};
pub use reconcile::{Reason, Work};
pub use target::Targets;
pub use volume::{
    Amount, Backlog, Change, CodecCosts, CodecTimes, Degraded, Growth, Leftover, MemberHealth, MemberUsage,
    OpenOptions, Reconciled, Report, Requests, Rounds, Scrub, Scrubbed, Threads, Usage, Volume,
};
