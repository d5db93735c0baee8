//! The data that members have and that is not flushed, and the flushes of members that failed.
//!
//! A failed flush leaves all data in doubt that its member got before it and that no flush covered: the data of the
//! batch, that of answered requests, and that of writes in flight. A write in flight knows the number of the last failure
//! before it began.

use crate::extent::Extent;
use crate::format::MEMBERS_MAX;
use crate::member_set::MemberSet;
use flashlab_sim::fault;
use std::ops::Range;

/// Data that is not flushed.
#[derive(Default)]
pub(super) struct Unflushed {
    /// Ranges of blocks with new copies, each with their members.
    ranges: Vec<(MemberSet, Range<u64>)>,
    /// Members with a failed flush since the last commit began.
    doubt: MemberSet,
    /// For each member, the number of its last failed flush, counted over all members; zero if none failed.
    last_failures: [u64; MEMBERS_MAX],
}

impl Unflushed {
    /// Notes that the copies of an extent on some members are new.
    pub(super) fn add(&mut self, extent: &Extent, members: MemberSet) {
        if !members.is_empty() {
            self.ranges.push((members, extent.live()));
        }
    }

    /// Takes the ranges for a commit.
    pub(super) fn take_ranges(&mut self) -> Vec<(MemberSet, Range<u64>)> {
        std::mem::take(&mut self.ranges)
    }

    /// Notes a failed flush of a member, which is number `count` of all failed flushes.
    pub(super) fn flush_failed(&mut self, member: u8, count: u64) {
        self.doubt.insert(member);
        self.last_failures[usize::from(member)] = count;
    }

    /// Takes the members of which a flush failed since the last call. Each commit calls this function when it
    /// begins.
    pub(super) fn take_doubt(&mut self) -> MemberSet {
        let doubt = std::mem::take(&mut self.doubt);
        if fault("volume-trusts-answered-writes") { MemberSet::EMPTY } else { doubt }
    }

    /// Returns the members with a flush failure later than number `since`. Data that was written before such
    /// a flush may be lost.
    pub(super) fn doubtful_since(&self, since: u64) -> MemberSet {
        let failed = self.last_failures.iter().zip(0u8..).filter(|(last, _)| **last > since);
        let members = failed.map(|(_, n)| n).collect();
        if fault("volume-trusts-writes-in-flight") { MemberSet::EMPTY } else { members }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_flush_is_in_doubt_for_one_commit_and_for_all_writes_before_it() {
        let mut unflushed = Unflushed::default();
        unflushed.flush_failed(3, 1);
        unflushed.flush_failed(5, 2);
        assert_eq!(unflushed.take_doubt(), [3u8, 5].into_iter().collect());
        assert!(unflushed.take_doubt().is_empty());
        // Writes that began before the first failure, between the failures, and after them.
        let doubtful = [0, 1, 2].map(|since| unflushed.doubtful_since(since).iter().collect::<Vec<u8>>());
        assert_eq!(doubtful, [vec![3, 5], vec![5], vec![]]);
        unflushed.flush_failed(3, 3);
        assert_eq!(unflushed.doubtful_since(2), MemberSet::of(3u8));
    }
}
