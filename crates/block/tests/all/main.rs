//! Tests of the block devices, one module per subject.

mod crash;
mod executor;
mod file;
mod layers;
mod memory;
mod timed;
