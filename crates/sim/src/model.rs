//! The [`Model`] trait: a device as a state machine over simulated time.

use crate::{Completion, FileId, Instant, PowerCut, Request};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// Sizes that a host must respect in its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Capacity in bytes.
    pub capacity: u64,
    /// Logical block size in bytes. Offsets and lengths of requests are multiples of it.
    pub block: u64,
    /// Size in bytes of the largest request that reaches the device unsplit.
    pub request_max: u64,
}

impl Geometry {
    /// Returns the number of whole blocks in `bytes`. The block size is mostly a power of two, so that a
    /// shift replaces the division.
    #[inline]
    pub fn blocks(&self, bytes: u64) -> u64 {
        if self.block.is_power_of_two() { bytes >> self.block.trailing_zeros() } else { bytes / self.block }
    }

    /// Returns true if `request` lies within the capacity and covers whole blocks, or is a flush, which has no range.
    pub fn admits(&self, request: &Request) -> bool {
        let within = request.offset.checked_add(request.length).is_some_and(|end| end <= self.capacity);
        let whole = if self.block.is_power_of_two() {
            (request.offset | request.length) & (self.block - 1) == 0
        } else {
            request.offset.is_multiple_of(self.block) && request.length.is_multiple_of(self.block)
        };
        request.op.is_flush() || (within && whole && request.length > 0)
    }
}

/// Receives the counters of a model. The names of counters are stable and unique in a model; most have the
/// form `noun_verb_unit`. The glossary explains the names that reports use.
pub trait Observer {
    /// Receives one counter or gauge.
    fn count(&mut self, name: &'static str, value: u64);
    /// Receives the wear of the erase blocks, if the device models them.
    fn erase_blocks(&mut self, _blocks: &EraseBlocks<'_>) {}
    /// Receives the contents of the erase blocks, if the translation layer knows them. `use_of` returns the
    /// use of a block below `count`, in time proportional to the number of units in the block.
    fn block_uses(&mut self, _count: u32, _use_of: &dyn Fn(u32) -> BlockUse) {}
    /// Receives the fill level of a cache or buffer: `used` of `capacity` bytes.
    fn level(&mut self, _name: &'static str, _used: u64, _capacity: u64) {}
}

/// State and content of an erase block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockUse {
    /// State of the block.
    pub state: BlockState,
    /// Kind of the data in the block; `None` if the block is free or bad.
    pub stream: Option<DataStream>,
    /// Valid share of the block's capacity, in ppm.
    pub valid_ppm: u32,
}

impl BlockUse {
    /// A free block.
    pub const FREE: BlockUse = BlockUse { state: BlockState::Free, stream: None, valid_ppm: 0 };
    /// A bad block.
    pub const BAD: BlockUse = BlockUse { state: BlockState::Bad, stream: None, valid_ppm: 0 };
}

/// State of an erase block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BlockState {
    /// The block holds no data.
    Free,
    /// Pages of the block are still to be programmed.
    Open,
    /// The block is full.
    Closed,
    /// Valid data of the block waits to be moved or is being moved, or the block waits for its erase.
    Victim,
    /// The block is not used any more.
    Bad,
}

/// Kind of the data in an erase block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DataStream {
    /// Data as the host writes it.
    Host,
    /// Sequential host data that the layer keeps apart from random writes.
    Sequential,
    /// Data that garbage collection moved.
    Collected,
    /// Data that wear leveling moved.
    Leveled,
    /// Map pages and records of the layer itself.
    Map,
    /// New data of a rewrite unit, in blocks apart from its data block.
    Log,
    /// Data in SLC blocks, whose cells store one bit each.
    Slc,
}

/// The wear of each erase block of a device.
#[derive(Clone, Copy)]
pub struct EraseBlocks<'a> {
    /// Erase block size in bytes.
    pub bytes: u64,
    /// Erase count of each block.
    pub erase_counts: &'a [u32],
    /// Indices of the bad blocks, from the factory or retired since, in ascending order.
    pub bad: &'a [u32],
    /// Rated program/erase cycles from the data sheet; `None` if blocks never wear out.
    pub rated_cycles: Option<u32>,
    /// Maximum number of erases of a given block; `None` if the block never wears out.
    pub limit: &'a dyn Fn(u32) -> Option<u32>,
}

/// A device in simulated time. A model decides when each request completes; it moves no bytes.
///
/// - `now` in [`Model::submit`] never decreases and is never earlier than the last completion.
/// - [`Model::complete`] applies no state change that starts after the completion that it returns, or after
///   `limit` if it returns `None`. Returned instants never decrease. `None` means that [`Model::next_due`]
///   lies after `limit`, or that no request is in flight.
/// - The latency of a request is exactly `completion.spent.total()`.
/// - The same calls give the same results, also on a clone.
pub trait Model: CloneModel + Send {
    /// Returns the capacity, the logical block size and the largest request.
    fn geometry(&self) -> Geometry;
    /// Announces offsets at which requests may soon start. A model may prefetch memory for these requests,
    /// but its results must not change.
    fn hint(&self, _file: FileId, _offsets: &[u64]) {}
    /// Submits a request at `now`.
    fn submit(&mut self, now: Instant, request: Request);
    /// Returns the instant of the next event. Nothing starts or completes earlier unless another request is submitted.
    fn next_due(&self) -> Option<Instant>;
    /// Returns the next completion that is due at or before `limit`.
    fn complete(&mut self, limit: Instant) -> Option<Completion>;
    /// Cuts the power at `now`, which is not earlier than any submission or completion.
    ///
    /// Requests in flight never complete, volatile state is lost, and operations that would have started after `now`
    /// never happen.
    fn power_cut(&mut self, now: Instant) -> PowerCut;
    /// Restores the power and returns the instant at which recovery is finished and the device accepts requests.
    fn power_up(&mut self, now: Instant) -> Instant;
    /// Returns true if a power cut at this instant would leave every byte of `range` intact, so that a caller need not
    /// keep the previous content. A model that cannot tell returns false. A completed flush makes data durable on every
    /// model.
    fn is_durable(&self, _range: &Range<u64>) -> bool {
        false
    }
    /// Serializes the whole state for [`Model::restore`] on a model with the same parameters, or returns `None` if the
    /// model has no serialized form. Must be called while no request is in flight.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }
    /// Replaces the state with one from [`Model::save`]. After an error, the model is unchanged.
    fn restore(&mut self, _state: &[u8]) -> Result<(), RestoreError> {
        Err(RestoreError::new("this model keeps no state"))
    }
    /// Reports counters and wear.
    fn observe(&self, _to: &mut dyn Observer) {}
}

/// The reason why a saved state was rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreError {
    /// Description of the fault.
    pub why: String,
}

impl RestoreError {
    /// Returns an error with the description `why`.
    pub fn new(why: impl Into<String>) -> Self {
        RestoreError { why: why.into() }
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl core::error::Error for RestoreError {}

/// Clones a `dyn Model`. Every model that is `Clone` implements this trait.
pub trait CloneModel {
    /// Returns a copy of the model with all its state.
    fn clone_box(&self) -> Box<dyn Model>;
}

impl<M: Model + Clone + 'static> CloneModel for M {
    fn clone_box(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Model> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

impl Model for Box<dyn Model> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }
    fn hint(&self, file: FileId, offsets: &[u64]) {
        (**self).hint(file, offsets);
    }
    fn submit(&mut self, now: Instant, request: Request) {
        (**self).submit(now, request);
    }
    fn next_due(&self) -> Option<Instant> {
        (**self).next_due()
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        (**self).complete(limit)
    }
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        (**self).power_cut(now)
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        (**self).power_up(now)
    }
    fn is_durable(&self, range: &Range<u64>) -> bool {
        (**self).is_durable(range)
    }
    fn save(&self) -> Option<Vec<u8>> {
        (**self).save()
    }
    fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        (**self).restore(state)
    }
    fn observe(&self, to: &mut dyn Observer) {
        (**self).observe(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, RequestId};

    #[test]
    fn a_geometry_admits_whole_blocks_of_any_size() {
        // Drives with protection information beside each block have blocks of 520 B.
        for block in [512, 520, 4096] {
            let geometry = Geometry { capacity: 100 * block, block, request_max: 100 * block };
            let admits = |offset, length| {
                geometry.admits(&Request {
                    id: RequestId(0),
                    op: Op::Read,
                    file: FileId::DEVICE,
                    offset,
                    length,
                })
            };
            assert!(admits(0, block) && admits(3 * block, 97 * block), "blocks of {block} B");
            for (offset, length) in
                [(8, block), (0, block + 8), (block / 2, block / 2), (0, 0), (4 * block, 97 * block)]
            {
                assert!(!admits(offset, length), "{offset} and {length} in blocks of {block} B");
            }
            assert_eq!([block - 1, block, 7 * block + 8].map(|bytes| geometry.blocks(bytes)), [0, 1, 7]);
        }
    }
}
