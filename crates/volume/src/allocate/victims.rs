//! Selection of the buckets that a garbage collection empties.

use super::space::{Bucket, State};
use super::{Allocator, Stream};
use crate::member_set::MemberSet;

/// Largest number of buckets that a garbage collection is to free at once.
const COLLECT_MAX: usize = 64;

impl Allocator {
    /// Returns the number of buckets that a garbage collection is to free at once: a 64th of the buckets of
    /// the smallest member that takes data, but at most [`COLLECT_MAX`]. Several buckets share the cost of a
    /// pass over the map.
    pub(crate) fn collect_at_once(&self) -> usize {
        let members = self.members.iter().filter(|member| member.writable && member.durability > 0);
        members.map(|member| member.buckets.len() as usize / 64).min().unwrap_or(0).min(COLLECT_MAX)
    }

    /// Returns up to `count` full buckets from which garbage collection has to move the fewest blocks.
    /// Buckets of members without free buckets for new data come first. Each bucket has uncached copies, and
    /// also unreferenced blocks or cached copies. Buckets for which `except` returns true are left out.
    /// Cached copies do not move, so a bucket that is left with nothing else can be evicted afterwards.
    pub(crate) fn victims(&self, count: usize, except: &dyn Fn(u8, u32) -> bool) -> Vec<(u8, u32)> {
        let mut victims: Vec<(u32, u32, u8, u32)> = Vec::new();
        for (member, number) in self.members.iter().zip(0u8..).filter(|(member, _)| member.writable) {
            let free = member.free.len().saturating_sub(member.leaves(Stream::Foreground));
            let full = member.buckets.changed().filter(|(n, bucket)| {
                bucket.state == State::Full
                    && (1..self.layout.bucket_blocks()).contains(&bucket.held)
                    && !except(number, *n)
            });
            victims.extend(full.map(|(n, bucket)| (u32::from(free > 0), bucket.held, number, n)));
        }
        victims.sort_unstable();
        victims.truncate(count);
        victims.into_iter().map(|(_, _, member, bucket)| (member, bucket)).collect()
    }

    /// Returns up to `count` full buckets of these members with copies that are not cached. Buckets with the
    /// fewest blocks of such copies come first. Buckets for which `except` returns true are left out.
    pub(crate) fn occupied(
        &self,
        count: usize,
        members: MemberSet,
        except: &dyn Fn(u8, u32) -> bool,
    ) -> Vec<(u8, u32)> {
        let mut occupied: Vec<(u32, u8, u32)> = Vec::new();
        for member in members.iter() {
            let buckets = self.members[usize::from(member)].buckets.changed();
            let full = buckets
                .filter(|(n, bucket)| bucket.state == State::Full && bucket.held > 0 && !except(member, *n));
            occupied.extend(full.map(|(n, bucket)| (bucket.held, member, n)));
        }
        occupied.sort_unstable();
        occupied.truncate(count);
        occupied.into_iter().map(|(_, member, bucket)| (member, bucket)).collect()
    }

    /// Returns the full buckets of these members from which garbage collection has to move fewer than `below`
    /// blocks, each with the number of these blocks. Buckets with the fewest blocks come first.
    pub(crate) fn sparse(&self, members: MemberSet, below: u32) -> Vec<(u32, (u8, u32))> {
        let is_sparse = |bucket: &Bucket| bucket.state == State::Full && (1..below).contains(&bucket.held);
        let mut sparse: Vec<(u32, (u8, u32))> = Vec::new();
        for (member, number) in self.members.iter().zip(0u8..).filter(|(_, n)| members.contains(*n)) {
            let buckets = member.buckets.changed().filter(|(_, bucket)| is_sparse(bucket));
            sparse.extend(buckets.map(|(n, bucket)| (bucket.held, (number, n))));
        }
        sparse.sort_unstable();
        sparse
    }
}
