//! Simulated time, and the traits that connect devices with workloads.
//!
//! All types are plain state machines that receive time, requests and randomness as arguments. The crate is `no_std`,
//! so no clock, thread or hash-map order can influence a result.
//!
//! - [`Instant`] and [`Duration`] count nanoseconds as integers.
//! - [`Model`] decides *when* a request completes. [`Workload`] decides which request comes next. [`run()`] connects
//!   the two, and [`EventLoop`] does so step by step.
//! - [`Store`] holds bytes, and has no notion of time. A live device combines a model with a store.
//! - [`Timeline`] is a resource that serves requests in order of arrival. [`Agenda`] is an event queue.
//! - [`Rng`] is a seeded random generator. [`Histogram`] collects latencies in fio's buckets.
//! - [`IndexLists`] are linked lists of indices, and [`Lru`] is a least-recently-used cache. Neither
//!   allocates memory after its creation.
//! - [`conformance`] contains the tests that every model must pass.
#![no_std]

extern crate alloc;

mod agenda;
pub mod conformance;
mod event_loop;
mod fault;
mod histogram;
mod lists;
mod lru;
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
pub use event_loop::{Event, EventLoop};
pub use fault::fault;
pub use histogram::Histogram;
pub use lists::IndexLists;
pub use lru::Lru;
pub use model::{
    BlockState, BlockUse, CloneModel, DataStream, EraseBlocks, Geometry, Model, Observer, RestoreError,
};
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
