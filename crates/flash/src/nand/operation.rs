//! Operations of the array and their outcomes.

use super::EraseBlock;
use flashlab_sim::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// Reads from the array to the register, then transfers `bytes` over the channel.
    Read {
        /// Bytes that cross the channel, from one plane or several.
        bytes: u32,
    },
    /// Transfers `bytes` over the channel, then programs all planes together.
    Program {
        /// Bytes that cross the channel.
        bytes: u32,
    },
    /// Erases a block.
    Erase,
}

/// Origin of an operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Cause {
    /// Host data.
    Host,
    /// Map pages and trim records.
    Map,
    /// Garbage collection.
    GarbageCollection,
    /// Wear leveling.
    WearLeveling,
    /// Folding of SLC blocks into blocks with more bits per cell.
    Fold,
}

/// An operation of the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// Kind of the operation.
    pub kind: Kind,
    /// Erase block on which the operation works.
    pub block: EraseBlock,
    /// Page within the block; an erase ignores it.
    pub page: u32,
    /// True if the block is in SLC mode.
    pub slc: bool,
    /// Origin of the operation.
    pub cause: Cause,
    /// Tag of the submitter, returned unchanged.
    pub tag: u32,
}

/// A finished operation. The part of `at - submitted` beyond `array` and `transfer` was spent waiting or
/// suspended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The operation.
    pub operation: Operation,
    /// Instant of the submission.
    pub submitted: Instant,
    /// Instant of the end.
    pub at: Instant,
    /// Time in the array.
    pub array: Duration,
    /// Time on the channel.
    pub transfer: Duration,
}

/// Effect of a power cut on an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Cut {
    /// The array had not started; the cells are unchanged.
    Void,
    /// The array was working or suspended; the cells may hold anything. A torn read changes no cell but loses its data.
    Torn,
}

impl Operation {
    /// Returns true for reads of host data or of the map, for which a host waits.
    #[inline]
    pub fn urgent(&self) -> bool {
        matches!(self.kind, Kind::Read { .. }) && matches!(self.cause, Cause::Host | Cause::Map)
    }
}

impl Finished {
    /// Returns the time spent waiting for the die and the channel, including the time of suspensions.
    pub fn waited(&self) -> Duration {
        self.at.since(self.submitted) - self.array - self.transfer
    }
}
