//! Hosts with NVMe drives.

use super::{Definition, Parts, Role, codec, page_cache};
use crate::profile::parameter::*;
use flashlab_nvme::SsdParameters;

/// A machine with a slot for an SSD. The limit of the host memory that the machine lends is a field of the
/// drive's parameters.
pub(super) static KIND: Definition = Definition {
    name: "pc",
    noun: "a pc",
    subject: "host",
    folder: "host/",
    sections: &["pc", "cache", "codec"],
    tables: || &[TABLE, page_cache::TABLE, codec::TABLE],
    role: Role::Host,
    blank,
    check: page_cache::check,
};

fn blank(parts: &mut Parts) {
    page_cache::blank(parts);
    codec::blank(parts);
    super::ssd::blank(parts);
}

const TABLE: &[Parameter] = &[mandatory!("pc.hmb", Size SsdParameters.lend_max, (0, 64 * GIB),
        "Maximum host memory in bytes that the driver lends to a drive; Linux: nvme.max_host_mem_size_mb.")];
