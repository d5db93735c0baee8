//! Integration tests of the volume, in one binary.

mod corruption;
mod crash;
mod device;
mod encode;
mod golden;
mod pool;
