//! The extents that requests read and that wait for a cached copy in the promote target.
//!
//! A read that has the stored bytes of a whole extent passes them on, so that the copy costs no second read. The stored
//! bytes of all extents that wait are limited, also if they have to be read again: a read that finds no room leaves no
//! cached copy.

use super::{Inner, Volume};
use crate::allocate::{Stream, Want};
use crate::extent::{Extent, POINTERS_MAX, Pointer};
use crate::member_set::MemberSet;
use flashlab_block::{Context, IoError};
use flashlab_sim::Instant;
use futures_util::future::{Either, select};
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;

/// Largest sum of the stored bytes of the extents that wait, and so of the memory for them: as much as four of the
/// largest requests.
const BYTES_MAX: usize = 16 << 20;

/// Extents that wait, the oldest one first.
#[derive(Default)]
pub(super) struct Promotions {
    /// The extents by their ends, with their stored bytes if a read passed them on.
    waiting: BTreeMap<u64, (Extent, Option<Vec<u8>>)>,
    /// Ends of the extents, in the order in which they were read.
    order: VecDeque<u64>,
    /// Sum of the stored bytes of the extents.
    bytes: usize,
}

impl Promotions {
    /// Returns true if an extent can be added: it does not wait yet, and there is room for its stored bytes.
    pub(super) fn takes(&self, extent: &Extent) -> bool {
        let other = self.waiting.get(&extent.end()).map(|(other, _)| other);
        let rest = self.bytes - other.map_or(0, |other| other.stored() as usize);
        other != Some(extent) && rest + extent.stored() as usize <= BYTES_MAX
    }

    /// Adds an extent if [`Promotions::takes`] it. The extent takes the place of another one with the same
    /// end, which is no longer in the map.
    pub(super) fn add(&mut self, extent: Extent, stored: Option<Vec<u8>>) {
        if !self.takes(&extent) {
            return;
        }
        let end = extent.end();
        self.bytes += extent.stored() as usize;
        match self.waiting.insert(end, (extent, stored)) {
            Some((old, _)) => self.bytes -= old.stored() as usize,
            None => self.order.push_back(end),
        }
    }

    /// Removes the extent that has waited longest. Also returns its stored bytes if a read passed them on.
    pub(super) fn next(&mut self) -> Option<(Extent, Option<Vec<u8>>)> {
        let next = self.waiting.remove(&self.order.pop_front()?)?;
        self.bytes -= next.0.stored() as usize;
        Some(next)
    }

    /// Returns the number of extents that wait.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if half of the room is used.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes >= BYTES_MAX / 2
    }
}

impl Volume {
    /// Stores a cached copy of each extent that waits for one and still is in the map, if the promote target
    /// has room.
    ///
    /// # Errors
    /// Returns the error of a volume that failed.
    pub async fn promote(&self, cx: &Context) -> Result<(), IoError> {
        // Reads may add extents as fast as this loop removes them.
        let count = self.gate.current().lock().promotions.len();
        for _ in 0..count {
            let inner = self.gate.pass().await;
            let Some((extent, stored)) = inner.lock().promotions.next() else { break };
            inner.promote(cx, &extent, stored).await?;
        }
        Ok(())
    }

    /// Waits until `until`, and promotes meanwhile whenever many extents wait for it. The context needs an executor.
    ///
    /// # Errors
    /// Returns the error of a volume that failed.
    pub async fn pause(&self, cx: &Context, until: Instant) -> Result<(), IoError> {
        let inner = self.gate.current();
        loop {
            let (pause, promotable) = (pin!(cx.sleep_until(until)), pin!(inner.promotable.notified()));
            match select(pause, promotable).await {
                Either::Left(_) => return Ok(()),
                Either::Right(_) => self.promote(cx).await?,
            }
        }
    }
}

impl Inner {
    /// Returns true if a read is to leave a cached copy of an extent: the promote target has no copy of the
    /// extent, and the extent can wait for one.
    pub(super) fn is_promoted(&self, extent: &Extent) -> bool {
        let promote = self.layout.promote;
        if promote.is_empty() || self.read_only {
            return false;
        }
        let state = self.lock();
        let is_there = |pointer: &Pointer| {
            promote.contains(pointer.member) && (!pointer.cached || state.allocator.is_current(pointer))
        };
        !extent.pointers().iter().any(is_there) && state.promotions.takes(extent)
    }

    /// Queues an extent that was read for promotion, with its stored bytes if the read has them.
    pub(super) fn note_promotion(&self, extent: &Extent, stored: Option<Vec<u8>>) {
        if !self.is_promoted(extent) {
            return;
        }
        let mut state = self.lock();
        state.promotions.add(extent.clone(), stored);
        if state.promotions.is_half_full() {
            self.promotable.notify_one();
        }
    }

    /// Adds a cached copy to an extent. Does nothing if there is no room. Reads the extent unless its stored bytes are
    /// known.
    async fn promote(&self, cx: &Context, extent: &Extent, stored: Option<Vec<u8>>) -> Result<(), IoError> {
        let keep: Vec<Pointer> = {
            let state = self.lock();
            if self.layout.promote.is_empty()
                || !state.map.overlapping(extent.live()).any(|other| other == extent)
            {
                return Ok(());
            }
            let is_kept = |pointer: &&Pointer| state.allocator.is_current(pointer);
            extent.pointers().iter().filter(is_kept).copied().collect()
        };
        if keep.len() >= POINTERS_MAX {
            return Ok(());
        }
        let blocks = extent.stored_blocks(self.layout.block);
        let stored = match stored {
            Some(mut stored) => {
                stored.resize((blocks * self.layout.block) as usize, 0);
                stored
            }
            None => match self.read_stored(cx, extent, true).await {
                Ok(stored) => stored,
                Err(_) => return Ok(()),
            },
        };
        let taken: Vec<u8> = keep.iter().map(|pointer| pointer.member).collect();
        let want = Want {
            stream: Stream::Cached,
            blocks,
            exact: true,
            copies: 1,
            copies_min: 1,
            taken: &taken,
            prefer: self.layout.promote,
            only: true,
            within: MemberSet::EMPTY,
            from: None,
            durability: 0,
            evict: true,
        };
        let Some((places, _)) = self.take_space(cx, &want).await? else { return Ok(()) };
        self.copy_to(cx, extent, (&keep, want.copies), (&places, stored)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Check, Compression};
    use crate::extent::Writer;

    /// Returns an extent of 16 blocks and 64 KiB that ends at a block.
    fn extent(end: u64, bucket: u32) -> Extent {
        let place = Pointer { member: 0, cached: false, bucket, offset: 0, generation: 1 };
        Extent::new(
            (end, 16),
            64 << 10,
            Compression::None,
            &Check::Crc32c(vec![7]),
            Writer::default(),
            &[place],
        )
    }

    #[test]
    fn extents_wait_in_the_order_of_the_reads_up_to_a_limit_of_bytes() {
        let mut promotions = Promotions::default();
        let most = (BYTES_MAX / (64 << 10)) as u64;
        for n in (1..=most).rev() {
            promotions.add(extent(16 * n, 0), (n == 3).then(|| vec![3; 64 << 10]));
            assert_eq!(promotions.is_half_full(), n <= most / 2 + 1, "{n}");
        }
        assert!(!promotions.takes(&extent(16 * (most + 1), 0)));
        promotions.add(extent(16 * (most + 1), 0), None);
        assert_eq!(promotions.len() as u64, most);
        for n in (1..=most).rev() {
            let (next, stored) = promotions.next().expect("an extent that waits");
            assert_eq!((next, stored.is_some()), (extent(16 * n, 0), n == 3));
        }
        assert!(promotions.next().is_none() && promotions.bytes == 0);
    }

    #[test]
    fn an_extent_waits_once_and_a_newer_one_takes_its_place() {
        let mut promotions = Promotions::default();
        promotions.add(extent(16, 0), None);
        assert!(!promotions.takes(&extent(16, 0)));
        promotions.add(extent(16, 0), Some(vec![1]));
        assert!(promotions.takes(&extent(16, 9)));
        promotions.add(extent(16, 9), Some(vec![2]));
        assert_eq!((promotions.len(), promotions.bytes), (1, 64 << 10));
        assert_eq!(promotions.next(), Some((extent(16, 9), Some(vec![2]))));
    }
}
