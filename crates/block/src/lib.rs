//! Block devices that hold bytes. [`BlockDevice`] is their interface; [`Memory`] and [`File`] are sparse devices;
//! [`Timed`] joins a model with a store of bytes.
//!
//! - [`BlockDevice`] determines the *bytes* that a device holds. A model determines *when* a request completes.
//! - [`Io`] is a request with its own buffer, and [`Outcome`] its result. [`IoError`] expresses errno values in terms
//!   of the device.
//! - [`Payload`] shares the bytes of writes that arrived together, so that no bytes are copied on the way to the
//!   device.
//! - [`layer`] contains layers that change or record the requests to any device, and [`model`] contains
//!   models that change the timing of a device.
//! - [`Executor`] runs tasks on one thread in simulated time, in an order drawn from a seed. [`Context`] gives a device
//!   the time, timers, tasks and random numbers of its executor.
//! - [`crash`] contains disks with a volatile cache, the states in which a power loss may leave them, and an oracle
//!   that judges these states.
//! - [`conformance`] contains the tests that every device must pass.
//!
//! Unsafe code is denied except for the allocator [`HugePages`] and two places in the memory device: `memory/chunk.rs`
//! returns pages to the system, and `memory/past_caches.rs` uses non-temporal stores.
#![deny(unsafe_code)]

mod buffered;
pub mod conformance;
mod context;
pub mod crash;
mod device;
mod error;
mod executor;
mod file;
mod huge_pages;
mod io;
pub mod layer;
mod loop_device;
mod memory;
pub mod model;
mod payload;
mod promise;
mod ranges;
mod temporary;
mod thread_pool;
mod timed;
mod whole;
mod workers;

pub use buffered::Buffered;
pub use context::{Clock, Context, Runtime, Task};
pub use device::{BlockDevice, Features, Started};
pub use error::IoError;
pub use executor::Executor;
pub use file::{Access, File, FileError};
pub use flashlab_sim::Geometry;
pub use huge_pages::HugePages;
pub use io::{Answer, Extent, Io, Outcome};
pub use memory::{Memory, MemoryError, Pages};
pub use payload::Payload;
pub use promise::Promise;
pub use ranges::Ranges;
pub use temporary::{NewFile, NoTemporary, TemporaryFolder, remove_temporary, try_remove_temporary};
pub use thread_pool::{Job, ThreadPool};
pub use timed::{Completed, Journal, Monitor, Timed};
pub use whole::{check_folder_of, read_whole, read_whole_text, replace_whole, sync_folder_of, write_whole};
pub use workers::Workers;
