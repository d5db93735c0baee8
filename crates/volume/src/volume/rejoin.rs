//! The return of a member while the volume is open: one that was missing when the volume was opened, or one that failed
//! since.
//!
//! The rules are those of an opening ([`membership`]). A member in an older state than the others recorded,
//! or one that was changed without them, is refused. If the others went on without its journal, they mark the
//! member as absent until a checkpoint gives it another journal, or removes the old one. Its data is current,
//! because none of its buckets was reused. A flush of the old device precedes the return. If the flush fails,
//! the map loses the copies that the member may have lost.

use super::commit::Journal;
use super::{Inner, Volume};
use crate::VolumeError;
use crate::format::{MemberState, SUPERBLOCK_SIZE, Seen, Superblock, copy_offsets};
use crate::layout::Layout;
use crate::member::{self, Member};
use crate::member_set::MemberSet;
use crate::membership;
use flashlab_block::{BlockDevice, Context, IoError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Volume {
    /// Takes a member back whose device was missing or failed, and that returned as `device`, while the volume answers
    /// requests. Returns the number of the member. Errors name the device as member 0.
    ///
    /// # Errors
    /// Returns [`VolumeError`] if the device cannot be read, is no member of this volume, is stale or diverged, or
    /// belongs to a member that works.
    pub async fn rejoin(&self, cx: &Context, device: Arc<dyn BlockDevice>) -> Result<u8, VolumeError> {
        // A device that does not answer must not hold the requests of clients up.
        let (own, _) = member::read_superblock(&*device, cx, 0).await?;
        let failed = |error| VolumeError::Member { member: 0, error };
        member::flush(&*device, cx).await.map_err(failed)?;
        let mut closed = self.gate.close().await;
        let inner = Arc::clone(&closed);
        if inner.read_only {
            return Err(VolumeError::Unchangeable(IoError::ReadOnly));
        }
        let unchangeable = VolumeError::Unchangeable;
        let mut journal = inner.journal.lock().await;
        inner.check_return(&own, &*device, &journal)?;
        // If the old device does not flush its new data, other members get it.
        inner.commit_batch(cx, &mut journal, false).await.map_err(unchangeable)?;
        journal.welcome(&own);
        closed.replace(inner.with_device(own.member, device));
        let inner = Arc::clone(&closed);
        inner.update_writable(&mut inner.lock(), None);
        let present: Vec<u8> = inner.present().iter().collect();
        journal.tick(&present);
        let results = inner.write_superblocks(cx, &mut journal, &present).await;
        journal.lose(&present, &results).map_err(unchangeable)?;
        if results.iter().any(Result::is_err) {
            inner.record_members(cx, &mut journal).await.map_err(unchangeable)?;
        }
        {
            // A change without records: background work looks at the extents again.
            let mut state = inner.lock();
            state.changes.begin().map_err(unchangeable)?;
            state.changes.end();
        }
        inner.commit_batch(cx, &mut journal, true).await.map_err(unchangeable)?;
        Ok(own.member)
    }
}

impl Inner {
    /// Checks that a device is a member that may return.
    fn check_return(
        &self,
        own: &Superblock,
        device: &dyn BlockDevice,
        journal: &Journal,
    ) -> Result<(), VolumeError> {
        let foreign = || VolumeError::NoMember("the device belongs to another volume".into());
        if own.volume != self.layout.volume || !self.layout.has_same_format(&Layout::of(own)) {
            return Err(foreign());
        }
        if self.encoding.keyring.as_ref().is_some_and(|keyring| !own.is_authentic(keyring)) {
            return Err(VolumeError::NotAuthentic { member: 0 });
        }
        let (n, number) = (usize::from(own.member), own.member);
        let entry = self.members.get(n).map(|member| &member.entry).filter(|entry| {
            let id = own.members.get(n).map(|own| own.id);
            entry.state != MemberState::Removed && id == Some(entry.id)
        });
        let entry = entry.ok_or(VolumeError::Removed { member: 0, number })?;
        let end = self.layout.bucket_offset(entry.buckets);
        let [.., last_copy] = copy_offsets(device.geometry().capacity);
        if last_copy < end {
            return Err(VolumeError::TooSmall { member: 0, needed: end + SUPERBLOCK_SIZE as u64 });
        }
        if self.members[n].present && self.works(n) {
            return Err(VolumeError::NoMember(format!("member {number} is present, and works")));
        }
        let seen = self.seen(journal);
        let others = self.present() - MemberSet::of(number);
        let known = |n: u8| Superblock { seen: seen.clone(), ..journal.superblocks[usize::from(n)].clone() };
        let others: Vec<Superblock> = others.iter().map(known).collect();
        let all: Vec<&Superblock> = others.iter().chain([own]).collect();
        let standing = membership::judge(&all).map_err(|_| {
            VolumeError::NoMember(format!("member {number} was changed without the others; it cannot return"))
        })?;
        if standing.stale.is_empty() { Ok(()) } else { Err(VolumeError::Stale { member: 0 }) }
    }

    /// Returns true if the last requests to a member succeeded.
    fn works(&self, member: usize) -> bool {
        let state = self.lock();
        let health = &state.health[member];
        !health.is_failing() && !health.is_silent() && !self.statistics[member].reads_fail()
    }

    /// Returns the volume with another device in the place of a member. No request is in flight.
    fn with_device(&self, member: u8, device: Arc<dyn BlockDevice>) -> Inner {
        let n = usize::from(member);
        let (mut members, mut statistics) = (self.members.clone(), self.statistics.clone());
        members[n] = Member { device, entry: members[n].entry.clone(), present: true };
        statistics[n] = Arc::default();
        {
            let mut state = self.lock();
            state.health[n].forget_failures();
            if !self.members[n].present {
                state.allocator.find_free(|other| other == n);
            }
        }
        self.failing.fetch_and(!MemberSet::of(member).to_bits(), Ordering::Relaxed);
        let (encoding, core) = (self.encoding.clone(), self.core.clone());
        Inner { layout: self.layout, members, encoding, statistics, core }
    }
}

impl Journal {
    /// Continues with the superblock of a member that returned.
    fn welcome(&mut self, own: &Superblock) {
        let n = usize::from(own.member);
        let Superblock { sequence, clock, root, .. } = *own;
        self.superblocks[n] = Superblock { sequence, clock, root, ..self.superblocks[n].clone() };
        let Seen { clock: known, shared, .. } = self.seen[n];
        self.seen[n] = Seen { clock: known.max(clock), shared: shared.max(clock), absent: false };
    }
}
