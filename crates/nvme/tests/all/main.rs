//! Tests of NVMe drives, one module per subject.

mod ahead;
mod closed_forms;
mod common;
mod contract;
mod host_memory;
mod power_cut;
mod read_modify_write;
mod state_files;
mod worn_out;
