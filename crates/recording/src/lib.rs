//! Recorded runs: block requests of a real run with the dependencies between them.
//!
//! A run under a real kernel is recorded once. Its replay with dependencies on any virtual device tells how
//! long the same run would take there, because each request starts when its causes are over, not at the
//! recorded instant.
//!
//! - A [`Recording`] is a [`Header`] and a sequence of [`Step`]s, in the order in which they started.
//! - A [`Step`] is a request or a mark. Its [`Cause`]s decide when it starts.
//! - A [`Writer`] and a [`Reader`] store recordings in files.
//! - [`capture`] derives recordings from the trace of a guest's kernel, an [`Import`] reads traces of other
//!   programs, and an [`Export`] writes iologs of fio.
//! - A [`Replay`] is a recording as a workload, and a [`ReplayJob`] reports it like a job of fio.
//! - A [`Source`] is a stored recording that can be replayed several times.
//! - [`fill()`] prepares a new device for a replay.
#![forbid(unsafe_code)]

pub mod capture;
mod export;
mod fill;
mod format;
mod graph;
mod import;
mod in_order;
mod job;
mod replay;
mod source;
mod step;
mod summary;
mod waiters;

pub use export::Export;
pub use fill::fill;
pub use format::{ReadError, Reader, Writer};
pub use graph::ReplayError;
pub use import::{Import, ImportError, Place, TraceFormat};
pub use job::ReplayJob;
pub use replay::{Latencies, Mode, Outcome, Replay};
pub use source::{Source, Steps};
pub use step::{Action, Cause, Event, Flags, Header, MarkKind, ReadStep, Recording, Step, TaskId};
pub use summary::{Count, Summary};
