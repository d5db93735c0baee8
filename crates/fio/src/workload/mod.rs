//! Jobs as workloads: the requests that fio sends to a device, and their times.
//!
//! [`Jobs`] runs a wave of jobs on a [`flashlab_sim::Model`] and reports the events to a [`Record`]. Each of
//! the private modules has one task:
//!
//! - `submitter` is the loop of a job in time.
//! - `stream` generates the requests of a job, `direction_mix` their directions, and `flushes` its flushes.
//!   `quota` counts what is left to do.
//! - `offsets` chooses the offsets in one file. `prefetch` draws random offsets in advance, and `series` groups
//!   requests that differ only in their offset.
//! - `region` is the part of a file that a job covers.
//! - `length` chooses the size of a request.
//! - `pace` limits the rate.
//! - `replay` is a stream of requests from an iolog.

mod direction_mix;
mod error;
mod flushes;
mod jobs;
mod length;
mod offsets;
mod pace;
mod prefetch;
mod quota;
mod record;
mod region;
mod replay;
mod series;
mod stream;
mod submitter;

pub use error::WorkloadError;
pub use jobs::{Jobs, Task};
pub use record::{Cause, Io, Record};
pub use region::{File, Region, Regions, file_bytes};
