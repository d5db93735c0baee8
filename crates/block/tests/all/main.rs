//! Tests of the block devices, one module per subject.

mod file;
mod layers;
mod memory;
mod timed;
