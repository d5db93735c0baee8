//! Sweeps: one job at many points of a space of device numbers and job options.
//!
//! - A [`Plan`] is a device, a job, and the [`Point`]s at which they run: a grid, a random sample or a list.
//! - A [`Sweep`] is a plan whose points have been checked. Each point has a [`Key`], the hash of all inputs of its run.
//! - [`Sweep::run`] runs a point and returns its [`Row`].
//! - A [`Store`] keeps rows in Parquet files by their keys, so that a sweep that was interrupted, extended or repeated
//!   runs only the points that are missing.
//! - [`run_locally`] runs the missing points on the threads of this machine.
#![forbid(unsafe_code)]

mod column;
mod error;
mod local;
mod parquet_file;
mod plan;
mod point;
mod quantity;
mod row;
mod sample;
mod store;
mod sweep;

pub use column::{Column, columns};
pub use error::SweepError;
pub use local::run_locally;
pub use plan::{JobText, Plan};
pub use point::{Point, Value};
pub use row::{Cell, Row};
pub use sample::Sample;
pub use store::{RESULTS_FILE, Store};
pub use sweep::{Key, Sweep};
