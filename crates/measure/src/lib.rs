//! Measurements of real devices: fio's jobs on block devices and files, in real time.
//!
//! - [`Engine`] runs jobs on a [`Target`] with direct I/O. Several requests in flight have a thread each.
//! - [`ProbedTarget`] carries out the actions of a probe on a [`Target`].
//! - [`find_capacity`] detects devices that store less than they claim.
//! - [`disk`] opens block devices and files; [`directory`] creates a file of its own in a directory.
//! - [`in_use`] detects block devices that are mounted or otherwise in use.
//!
//! The requests come from the same workloads as in a simulation ([`flashlab_fio::workload::Jobs`]), and the
//! statistics are the same. A real and a simulated run of a job therefore differ only in the device.

pub mod directory;
mod discard;
pub mod disk;
mod engine;
pub mod in_use;
mod probed;
mod target;

pub use engine::{Engine, EngineError, FirstError};
pub use probed::{ProbeError, ProbedTarget, find_capacity};
pub use target::{Access, Channel, Target};
