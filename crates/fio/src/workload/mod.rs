//! Jobs as workloads: what fio would ask of a device, and when.

mod record;

pub use record::{Io, Record};
