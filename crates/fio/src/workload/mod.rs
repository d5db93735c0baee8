//! Jobs as workloads: what fio would ask of a device, and when.
//!
//! [`Jobs`] is a wave of jobs on a [`flashlab_sim::Model`]; it tells a [`Record`] what happens. Below it, one noun a
//! file: a *submitter* is a job's loop in time, a *stream* is what it asks, a *place* is where in one file, drawn *ahead*
//! where it is random (a *series* where nothing else differs), a *region* is what of the file, a *length* is how much at once, and a *pace* is how fast. A *replay*
//! is a stream out of an iolog.

mod ahead;
mod error;
mod jobs;
mod length;
mod mixture;
mod pace;
mod place;
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
