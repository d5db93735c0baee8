//! Restores the number of members with the journal and the map.
//!
//! When a member that has them is lost, the next checkpoint gives the journal and the map to another member
//! with room. If no member has room at that moment, background work makes room.

use super::commit::Journal;
use super::consolidate::Collection;
use super::limiter::Limiter;
use super::{Inner, State, Volume};
use crate::layout::COLLECT_RESERVE;
use crate::member_set::MemberSet;
use flashlab_block::{Context, IoError};
use std::sync::atomic::Ordering;

impl Volume {
    /// Stores the journal and the map on further members if too few have them, after a collection that makes
    /// room there. `limiter` and `progress` apply to the collection.
    pub(super) async fn restore_metadata(
        &self,
        cx: &Context,
        limiter: &Limiter,
        progress: &mut (dyn FnMut(u64) -> bool + Send),
    ) -> Result<(), IoError> {
        let inner = self.gate.current();
        let members = inner.further_metadata();
        if members.is_empty() {
            return Ok(());
        }
        let buckets = inner.buckets_of_checkpoint().await;
        let has_free =
            |state: &State, buckets: u32| members.iter().any(|n| state.allocator.has_free(n, buckets));
        // A member that also has room for the next checkpoint still takes data afterwards.
        let enough = buckets + buckets.max(inner.layout.checkpoint_buckets) + COLLECT_RESERVE + 1;
        let is_enough = |state: &State| has_free(state, enough);
        if !is_enough(&inner.lock()) {
            self.gate.pass().await.evict_for_checkpoint(cx, buckets).await?;
        }
        let collection = Collection { members, limiter, is_enough: &is_enough, progress };
        self.consolidate(cx, collection).await?;
        if has_free(&inner.lock(), buckets + COLLECT_RESERVE) {
            drop(self.gate.pass().await.checkpoint(cx).await?);
        }
        Ok(())
    }
}

impl Inner {
    /// Notes the members with a current journal, at the end of a commit.
    pub(super) fn note_journals(&self, journal: &Journal) {
        let members = self.journal_members(journal);
        let state = self.lock();
        let is_sound = |n: &&u8| state.faults.iter().all(|fault| fault.member != usize::from(**n));
        let journals: MemberSet = members.iter().filter(is_sound).copied().collect();
        self.journals.store(journals.to_bits(), Ordering::Relaxed);
    }

    /// Returns the members with a current journal and a current checkpoint.
    pub(super) fn members_with_journal(&self) -> MemberSet {
        MemberSet::from_bits(self.journals.load(Ordering::Relaxed))
    }

    /// Returns the working members that lack a current journal, if fewer working members than copies have one.
    fn further_metadata(&self) -> MemberSet {
        let journals = self.members_with_journal();
        let state = self.lock();
        let works = |n: &usize| self.takes_data(&state.health[*n], *n) && !state.health[*n].is_failing();
        let working: MemberSet = (0..self.members.len()).filter(works).collect();
        let wanted = u32::from(self.layout.replicas).min(working.len());
        if (working & journals).len() < wanted { working - journals } else { MemberSet::EMPTY }
    }

    /// Evicts cached copies, so that each member has room for a checkpoint of `buckets` buckets as far as possible.
    async fn evict_for_checkpoint(&self, cx: &Context, buckets: u32) -> Result<(), IoError> {
        let position = {
            let mut state = self.lock();
            state.evict(buckets);
            state.changes.position()
        };
        self.commit(cx, position).await
    }
}
