//! Integration tests of the volume, in one binary.

mod changes;
mod corruption;
mod crash;
mod device;
mod encode;
mod encrypted;
mod faulty;
mod golden;
mod members;
mod nonces;
mod pool;
mod reconcile;
mod rekey;
mod threads;
