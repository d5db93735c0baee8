//! Requests in flight, with the parts of their replies that have arrived.

use super::ClientError;
use crate::wire::{CommandFlags, CommandType, ErrorNumber};
use alloc::vec::Vec;
use core::ops::Range;

/// Index of a request in flight. A slot is reused once its request completes, so slots stay below the maximum
/// number of requests in flight and can index an array of that length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slot(pub(super) u32);

impl Slot {
    /// Returns the slot as an array index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) cookie: u64,
    pub(super) command: CommandType,
    pub(super) flags: CommandFlags,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The metadata contexts whose extents have not arrived: bit n stands for the n-th context of
    /// [`Client::contexts`](super::Client::contexts).
    pub(super) contexts: u64,
    pub(super) error: Option<ErrorNumber>,
    covered: CoveredRanges,
}

impl Pending {
    /// Records a piece of a read reply, whose data may still be arriving.
    #[inline]
    pub(super) fn cover(&mut self, offset: u64, length: u64) -> Result<(), ClientError> {
        let wrong = ClientError::InvalidRange { offset, length };
        let end = offset.checked_add(length).filter(|end| *end <= self.end());
        let (Some(end), true) = (end, offset >= self.offset && length > 0) else { return Err(wrong) };
        if self.flags.contains(CommandFlags::DF) && !self.covered.0.is_empty() {
            return Err(ClientError::TooManyFragments);
        }
        if !self.covered.add(offset..end) {
            return Err(wrong);
        }
        if self.covered.0.len() > PIECES_MAX { Err(ClientError::TooManyFragments) } else { Ok(()) }
    }

    /// Records an error that the server reports; `offset` is the position of the error in the export, if the server
    /// sent it. Only the first error of a request is kept.
    pub(super) fn record_error(
        &mut self,
        error: ErrorNumber,
        offset: Option<u64>,
    ) -> Result<(), ClientError> {
        if let Some(at) = offset
            && (at < self.offset || at - self.offset >= self.length.max(1))
        {
            return Err(ClientError::InvalidRange { offset: at, length: 0 });
        }
        self.error.get_or_insert(error);
        Ok(())
    }

    /// Returns the offset of the first byte after the request. Saturates, since without
    /// [`ClientConfig::validate_requests`](super::ClientConfig::validate_requests) the range may exceed 64 bits.
    #[inline]
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// Returns true if the recorded pieces cover the whole read.
    #[inline]
    pub(super) fn is_covered(&self) -> bool {
        match &self.covered.0[..] {
            [] => self.length == 0,
            [all] => *all == (self.offset..self.end()),
            _ => false,
        }
    }
}

/// Maximum number of disjoint pieces of one read reply that the client tracks.
const PIECES_MAX: usize = 1024;

/// Sorted ranges that neither overlap nor touch.
#[derive(Clone, Default, Debug)]
struct CoveredRanges(Vec<Range<u64>>);

impl CoveredRanges {
    /// Adds a range that is not empty. Returns false if a part of the range is covered already.
    fn add(&mut self, range: Range<u64>) -> bool {
        let next = self.0.partition_point(|other| other.start < range.start);
        let before = next.checked_sub(1);
        if before.is_some_and(|before| self.0[before].end > range.start)
            || self.0.get(next).is_some_and(|after| after.start < range.end)
        {
            return false;
        }
        let joins_before = before.filter(|before| self.0[*before].end == range.start);
        let joins_after = self.0.get(next).is_some_and(|after| after.start == range.end);
        match (joins_before, joins_after) {
            (Some(before), true) => self.0[before].end = self.0.remove(next).end,
            (Some(before), false) => self.0[before].end = range.end,
            (None, true) => self.0[next].start = range.start,
            (None, false) => self.0.insert(next, range),
        }
        true
    }
}

/// All requests in flight.
#[derive(Clone, Default, Debug)]
pub(super) struct InFlight {
    slots: Vec<Pending>,
    free: Vec<u32>,
}

/// A cookie that belongs to no request: the slot in its lower half does not exist.
const NO_COOKIE: u64 = u64::MAX;

impl InFlight {
    /// Returns the number of requests in flight.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Allocates a slot for a request. The lower half of the returned cookie is the slot, and the upper half
    /// counts the uses of the slot.
    #[inline]
    pub(super) fn insert(
        &mut self,
        command: CommandType,
        flags: CommandFlags,
        range: (u64, u64),
        contexts: u64,
    ) -> Option<(Slot, u64)> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).ok().filter(|slot| *slot < u32::MAX)?;
                self.slots.push(Pending {
                    cookie: NO_COOKIE,
                    command,
                    flags,
                    offset: 0,
                    length: 0,
                    contexts,
                    error: None,
                    covered: CoveredRanges::default(),
                });
                slot
            }
        };
        let pending = &mut self.slots[slot as usize];
        let used = (pending.cookie >> 32) as u32;
        pending.cookie = u64::from(used.wrapping_add(1)) << 32 | u64::from(slot);
        (pending.command, pending.flags, pending.contexts, pending.error) = (command, flags, contexts, None);
        (pending.offset, pending.length) = range;
        pending.covered.0.clear();
        Some((Slot(slot), pending.cookie))
    }

    /// Returns the request with this cookie.
    #[inline]
    pub(super) fn find(&mut self, cookie: u64) -> Result<(Slot, &mut Pending), ClientError> {
        let slot = cookie as u32;
        match self.slots.get_mut(slot as usize) {
            // A free slot's cookie has an invalid slot in its lower half.
            Some(pending) if pending.cookie == cookie => Ok((Slot(slot), pending)),
            _ => Err(ClientError::UnknownCookie(cookie)),
        }
    }

    /// Returns the request in a slot that is in use.
    #[inline]
    pub(super) fn get(&mut self, slot: Slot) -> &mut Pending {
        &mut self.slots[slot.index()]
    }

    /// Frees the slot of a completed request.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) {
        // The upper half keeps the use count. The lower half becomes invalid, so no cookie matches until the slot is
        // reused.
        self.slots[slot.index()].cookie |= 0xffff_ffff;
        self.free.push(slot.0);
    }
}
