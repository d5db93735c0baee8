//! Knowledge that the members have of each other: which of them took part in the last changes.
//!
//! Each superblock has a vector clock: the clock of its own member, and the last value that it knows of the clock of
//! every other member. The clock of a member counts the events in which the member took part: openings of the
//! volume, and losses and changes of state of members. When such a change begins, all members that take part
//! learn its clocks (*shared*). A clock is known to be durable once the superblock that contains it has been
//! written. The superblock also marks the members without which the volume went on. The superblocks of the
//! present members show the following:
//!
//! - A member whose clock is smaller than the value that another member recorded for it has returned to an
//!   older state (*stale*). Such a member is never used.
//! - A member without which another one went on is *behind*: its journal and checkpoint are not current. Its
//!   data is current, because no bucket of an absent member is reused, and the map on the other members
//!   records which data was replaced.
//! - Two members that went on without each other *diverged* (split brain): no order of their changes exists.

use crate::format::{Seen, Superblock};
use crate::member_set::MemberSet;
use flashlab_sim::fault;

/// Result of a comparison of superblocks: the stale members, and the members that are behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) stale: MemberSet,
    pub(crate) behind: MemberSet,
}

/// Compares the superblocks of the present members.
///
/// # Errors
/// Returns the numbers of two members that diverged.
pub(crate) fn judge(present: &[&Superblock]) -> Result<Standing, (u8, u8)> {
    let mut standing = Standing::default();
    for one in present {
        for other in present.iter().filter(|other| other.member != one.member) {
            if other.clock < seen(one, other.member).clock && !fault("volume-accepts-a-stale-member") {
                standing.stale.insert(other.member);
            }
            if went_on_without(one, other) && !fault("volume-reads-a-journal-that-is-behind") {
                standing.behind.insert(other.member);
                if went_on_without(other, one) && !fault("volume-accepts-diverged-members") {
                    return Err((one.member.min(other.member), one.member.max(other.member)));
                }
            }
        }
    }
    Ok(standing)
}

/// Returns the combined knowledge of all present members, without marks of absence.
pub(crate) fn merge(present: &[&Superblock], members: usize) -> Vec<Seen> {
    let merged = |n: usize| {
        let own = present.iter().filter(|one| usize::from(one.member) == n).map(|one| one.clock);
        let known = || present.iter().map(|one| seen(one, n as u8));
        let clock = known().map(|seen| seen.clock).chain(own.clone()).max().unwrap_or(0);
        let shared = known().map(|seen| seen.shared).chain(own).max().unwrap_or(0);
        Seen { clock, shared, absent: false }
    };
    (0..members).map(merged).collect()
}

fn seen(superblock: &Superblock, member: u8) -> Seen {
    superblock.seen.get(usize::from(member)).copied().unwrap_or_default()
}

/// Returns true if `one` marked `other` as absent, and `other` does not know of that change.
fn went_on_without(one: &Superblock, other: &Superblock) -> bool {
    seen(one, other.member).absent && one.clock > seen(other, one.member).shared
}
