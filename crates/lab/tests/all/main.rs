//! Tests of experiments and devices of the library, one module per subject.

mod buffered;
mod conformance;
mod experiments;
mod follows;
mod library;
mod mmc_logs;
mod own_experiments;
mod queue;
mod session;
mod stacks;
mod state;
mod trace;
mod vfat;
