//! What an array is asked to do, and what became of it.

use super::Block;
use flashlab_sim::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// Array to register, then `bytes` over the channel.
    Read {
        /// Bytes that cross the channel, of one plane or of several.
        bytes: u32,
    },
    /// `bytes` over the channel, then register to array, all planes together.
    Program {
        /// Bytes that cross the channel.
        bytes: u32,
    },
    /// The array erases a block.
    Erase,
}

/// Who asked for an operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Cause {
    /// The host's data.
    Host,
    /// Map pages.
    Map,
    /// Collection of what is still valid in a block.
    Collection,
    /// Wear levelling.
    Levelling,
    /// Folding of SLC blocks into blocks of more bits.
    Fold,
}

/// One operation of the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// What is done.
    pub kind: Kind,
    /// Where.
    pub block: Block,
    /// The page in the block; ignored by an erase.
    pub page: u32,
    /// Whether the block is used with one bit a cell.
    pub slc: bool,
    /// Who asked.
    pub cause: Cause,
    /// The asker's own, returned unchanged.
    pub tag: u32,
}

/// An operation that is done. What `array` and `transfer` leave of `at - submitted` was waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// What was asked.
    pub operation: Operation,
    /// When.
    pub submitted: Instant,
    /// When it was done.
    pub at: Instant,
    /// How long the array worked on it.
    pub array: Duration,
    /// How long it held the channel.
    pub transfer: Duration,
}

/// What a power cut did to an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Cut {
    /// The array had not begun: the cells are as they were.
    Void,
    /// The array was working, or suspended: the cells may hold anything. (A read changes no cell: its data are lost.)
    Torn,
}

impl Operation {
    /// Whether a host waits for it: a read of its data or of the map.
    #[inline]
    pub fn urgent(&self) -> bool {
        matches!(self.kind, Kind::Read { .. }) && matches!(self.cause, Cause::Host | Cause::Map)
    }
}

impl Finished {
    /// How long it waited for its die and its channel.
    pub fn waited(&self) -> Duration {
        self.at.since(self.submitted) - self.array - self.transfer
    }
}
