//! The seam that says *when*: a device as a state machine over time.

use crate::{Completion, FileId, Instant, PowerCut, Request};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// What a device is, from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes that can be addressed.
    pub capacity: u64,
    /// Bytes of the smallest request; offsets and lengths are multiples of it.
    pub block: u64,
    /// Bytes of the largest request that is not split on its way down.
    pub request_max: u64,
}

impl Geometry {
    /// Whether `request` lies in the capacity and is made of whole blocks (a flush has no range).
    pub fn admits(&self, request: &Request) -> bool {
        let within = request.offset.checked_add(request.length).is_some_and(|end| end <= self.capacity);
        let whole = request.offset.is_multiple_of(self.block) && request.length.is_multiple_of(self.block);
        request.op.is_flush() || (within && whole && request.length > 0)
    }
}

/// Takes what a model counts. Names are `noun_verb_unit`, stable, and listed in the glossary.
pub trait Observer {
    /// One counter or gauge.
    fn count(&mut self, name: &'static str, value: u64);
    /// How worn each erase block is, where the device knows erase blocks.
    fn erase_blocks(&mut self, _blocks: &EraseBlocks<'_>) {}
}

/// The wear of each erase block of a device.
#[derive(Clone, Copy)]
pub struct EraseBlocks<'a> {
    /// Bytes of an erase block.
    pub bytes: u64,
    /// How often each was erased.
    pub erase_counts: &'a [u32],
    /// Those that are not used any more or never were, in ascending order.
    pub bad: &'a [u32],
    /// Erases that every block takes by its data sheet; `None`: wear has no end.
    pub rated_cycles: Option<u32>,
    /// Erases that a block really takes; `None`: no end.
    pub limit: &'a dyn Fn(u32) -> Option<u32>,
}

/// A device in simulated time: it says when each request is done, and moves no bytes.
///
/// - `now` of [`Model::submit`] never goes backwards, and is never earlier than the last returned completion.
/// - [`Model::complete`] commits nothing that starts after min(limit, the instant it returns); the instants that it
///   returns never decrease. `None` means that [`Model::next_due`] is above the limit, or nothing is outstanding.
/// - Between a request's submission and its completion pass exactly `completion.spent.total()` nanoseconds.
/// - The same calls give the same answers, on a clone too.
pub trait Model: CloneModel + Send {
    /// Capacity, block and largest request.
    fn geometry(&self) -> Geometry;
    /// Tells where in a file, or in the device, requests may soon begin; may prefetch memory, changes nothing.
    fn hint(&self, _file: FileId, _offsets: &[u64]) {}
    /// Accepts a request at `now`.
    fn submit(&mut self, now: Instant, request: Request);
    /// Nothing starts or completes before this instant, unless more is submitted.
    fn next_due(&self) -> Option<Instant>;
    /// The next completion that is not later than `limit`.
    fn complete(&mut self, limit: Instant) -> Option<Completion>;
    /// Cuts the power: nothing that is outstanding ever completes, what is volatile is lost. `now` is not earlier than
    /// anything submitted or returned; what would have started later never was.
    fn power_cut(&mut self, now: Instant) -> PowerCut;
    /// Gives power again; returns the instant at which the device takes requests, after its recovery.
    fn power_up(&mut self, now: Instant) -> Instant;
    /// Whether a power cut now would name no byte of the range: then nobody has to remember what was there before. May
    /// say no where that is not known; a completed flush is the promise that holds for every model.
    fn is_durable(&self, _range: &Range<u64>) -> bool {
        false
    }
    /// The whole state as bytes, for [`Model::restore`] of a model made from the same parameters; `None` where the model
    /// cannot be kept. Nothing is outstanding.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }
    /// Takes over a state that [`Model::save`] gave; on an error the model is as before.
    fn restore(&mut self, _state: &[u8]) -> Result<(), RestoreError> {
        Err(RestoreError::new("this model keeps no state"))
    }
    /// Reports counters.
    fn observe(&self, _to: &mut dyn Observer) {}
}

/// Why a state could not be taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreError {
    /// What is wrong with it.
    pub why: String,
}

impl RestoreError {
    /// It could not be, because of `why`.
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

/// Cloning behind `dyn Model`; implemented for every model that is `Clone`.
pub trait CloneModel {
    /// A copy with all of its state.
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
