//! Integration tests of the volume, in one binary.

mod cached;
mod changes;
mod consolidate;
mod corruption;
mod crash;
mod device;
mod encode;
mod encrypted;
mod fairness;
mod faulty;
mod full;
mod golden;
mod hostile;
mod journal;
mod members;
mod nonces;
mod pool;
mod reads;
mod reconcile;
mod redundancy;
mod rekey;
mod reserve;
mod room;
mod threads;
mod tiers;
mod units;
