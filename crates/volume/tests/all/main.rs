//! Integration tests of the volume, in one binary.

mod corruption;
mod crash;
mod device;
mod encode;
mod faulty;
mod golden;
mod pool;
