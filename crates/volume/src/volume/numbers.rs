//! The numbers that a mount gives to extents, journal entries and runs of checkpoints.
//!
//! The numbers are parts of nonces, so a mount gives no number twice. Two mounts have different keys. No pair
//! of key and nonce therefore repeats: invariant 3 in docs/volume.md.

use crate::extent::Writer;
use flashlab_sim::fault;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of a mount.
pub(super) struct Numbers {
    /// Number of the mount.
    mount: u32,
    /// Number of the next write.
    next_write: AtomicU64,
    /// Number of the next journal entry or run of a checkpoint.
    next_seal: AtomicU64,
}

impl Numbers {
    pub(super) fn new(mount: u32) -> Numbers {
        Numbers { mount, next_write: AtomicU64::new(0), next_seal: AtomicU64::new(0) }
    }

    /// Returns the number of the mount.
    pub(super) fn mount(&self) -> u32 {
        self.mount
    }

    /// Returns the writer of the next extent.
    pub(super) fn next_writer(&self) -> Writer {
        let step = u64::from(!fault("volume-repeats-write-numbers"));
        Writer { epoch: self.mount, write: self.next_write.fetch_add(step, Ordering::Relaxed) }
    }

    /// Returns the number for the next structure of the journal or a checkpoint.
    pub(super) fn next_seal(&self) -> u64 {
        let step = u64::from(!fault("volume-repeats-a-number-of-the-journal"));
        self.next_seal.fetch_add(step, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_mount_gives_no_number_twice() {
        let numbers = Numbers::new(7);
        let writes: BTreeSet<u64> = (0..100).map(|_| numbers.next_writer().write).collect();
        let seals: BTreeSet<u64> = (0..100).map(|_| numbers.next_seal()).collect();
        assert_eq!((writes.len(), seals.len(), numbers.next_writer().epoch), (100, 100, 7));
    }
}
