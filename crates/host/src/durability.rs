//! The requests with which a host makes data on its card durable, as the block layer of Linux sends them.

use flashlab_sim::{Op, fault};

/// Commands that a host sends for a flush and for a write with force unit access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The card has no volatile cache. A flush sends no command.
    #[default]
    Immediate,
    /// An SD card with a cache. SD has no force unit access, so the host flushes the cache after a write with
    /// FUA.
    Flush,
    /// eMMC with a cache. A write with force unit access is a reliable write (JESD84-B51, section 6.6.8.1).
    FlushOrReliableWrite,
}

impl Durability {
    /// Returns true if the host sends a command for `op` to the card.
    pub(crate) fn sends(self, op: Op) -> bool {
        !op.is_flush() || self != Durability::Immediate
    }

    /// Returns true if the host flushes the cache after the data of `op`.
    pub(crate) fn flushes_after(self, op: Op) -> bool {
        self == Durability::Flush && op == Op::WriteFua && !fault("forced-write-is-not-flushed")
    }

    /// Returns the operation of the commands that transfer the data of `op`.
    pub(crate) fn command(self, op: Op) -> Op {
        if self == Durability::Flush && op == Op::WriteFua { Op::Write } else { op }
    }
}
