//! Simulated time and the seams on it.
//!
//! Everything here is a plain state machine: time, requests and randomness come in as arguments. The crate is
//! `no_std`, so that neither a clock nor a thread nor a hash map's order can reach a result.
//!
//! - [`Instant`] and [`Duration`]: integer nanoseconds.
//! - [`Model`]: *when* a request is done. [`Workload`]: what is asked next. [`run()`] joins the two, and is the only
//!   place where time moves. [`Store`]: bytes without time, which a model is joined with to be a device that carries data.
//! - [`Timeline`]: a resource that serves in order of arrival. [`Agenda`]: events in the order in which they are due.
//!   [`Rng`]: seeded randomness. [`Histogram`]: fio's
//!   latency buckets.
//! - [`conformance`]: what every model must hold, as functions that a test calls.
#![no_std]

extern crate alloc;

mod agenda;
pub mod conformance;
mod histogram;
mod model;
mod moments;
mod power;
mod prefetch;
mod request;
mod rng;
mod run;
mod store;
mod time;
mod timeline;
mod workload;

pub use agenda::Agenda;
pub use histogram::Histogram;
pub use model::{CloneModel, EraseBlocks, Geometry, Model, Observer, RestoreError};
pub use moments::Moments;
pub use power::{Fate, PowerCut};
pub use prefetch::prefetch;
pub use request::{Completion, FileId, Mechanism, Op, Request, RequestId, Spent, Status};
pub use rng::{Rng, mix};
pub use run::run;
pub use store::{Store, StoreError};
pub use time::{Duration, Instant};
pub use timeline::Timeline;
pub use workload::{Arrival, Workload};
