//! Write protection of the whole card by the CSD (CMD27) and of groups (CMD28, CMD29, CMD30: section 4.3.6).
//! This module also erases the blocks that are not protected.

use super::Card;
use crate::command::{Response, Status};
use crate::register::Csd;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{Instant, Mechanism};
use serde::{Deserialize, Serialize};

/// The protected groups, which survive without power.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Protection {
    /// Size of a group in bytes; 0 if there are no groups.
    group: u64,
    groups: Vec<bool>,
}

impl Protection {
    pub(super) fn new(csd: &Csd, capacity: u64) -> Self {
        let group = csd.write_protect_group().unwrap_or(0);
        let count = if group == 0 { 0 } else { capacity.div_ceil(group) };
        Protection { group, groups: vec![false; count as usize] }
    }

    pub(super) fn has_groups(&self) -> bool {
        self.group > 0
    }
    pub(super) fn is_like(&self, other: &Protection) -> bool {
        self.group == other.group && self.groups.len() == other.groups.len()
    }
    pub(super) fn clear(&mut self) {
        self.groups.fill(false);
    }
    fn holds(&self, at: u64) -> bool {
        self.has_groups() && self.groups.get((at / self.group) as usize).copied().unwrap_or(false)
    }
}

impl Card {
    /// Returns true if the block at `at` is write-protected.
    #[inline]
    pub(super) fn is_protected(&self, at: u64) -> bool {
        self.csd.is_permanently_protected()
            || self.csd.is_temporarily_protected()
            || self.protection.has_groups() && self.protection.holds(at)
    }

    /// Executes CMD28 or CMD29 for the group that contains the address.
    pub(super) fn protect(&mut self, now: Instant, argument: u32, protected: bool) -> Option<Response> {
        let at = self.offset(argument);
        if at >= self.capacity {
            self.error(Status::OUT_OF_RANGE);
            return Some(self.r1());
        }
        let response = self.r1();
        let group = (at / self.protection.group) as usize;
        if let Some(held) = self.protection.groups.get_mut(group) {
            *held = protected;
        }
        let commit = self.array.flash.t_commit();
        self.spent[Mechanism::Map] += commit;
        self.be_busy(now, now.max(self.volatile.busy) + commit);
        Some(response)
    }

    /// Executes CMD30: sends the protection bits of 32 groups. The first group is the one that contains the
    /// address, and its bit is the lowest. Bits beyond the end of the card are zero.
    pub(super) fn send_protection(&mut self, argument: u32) -> Option<Response> {
        let at = self.offset(argument);
        if at >= self.capacity {
            self.error(Status::OUT_OF_RANGE);
            return Some(self.r1());
        }
        let first = (at / self.protection.group) as usize;
        let groups = self.protection.groups[first..].iter().take(32);
        let bits = (0..).zip(groups).fold(0u32, |bits, (n, held)| bits | u32::from(*held) << n);
        self.send(&bits.to_be_bytes())
    }

    /// Erases the blocks of `range` that are not write-protected. Returns false if all of them are protected.
    pub(super) fn erase_unprotected(&mut self, range: Range<u64>) -> bool {
        if self.csd.is_permanently_protected() || self.csd.is_temporarily_protected() {
            self.error(Status::WP_ERASE_SKIP);
            return false;
        }
        let mut at = range.start;
        let mut erased = false;
        while at < range.end {
            let held = self.protection.holds(at);
            let mut end = range.end;
            if self.protection.has_groups() {
                end = (at / self.protection.group + 1) * self.protection.group;
                while end < range.end && self.protection.holds(end) == held {
                    end += self.protection.group;
                }
            }
            let part = at..end.min(range.end);
            at = part.end;
            if held {
                self.error(Status::WP_ERASE_SKIP);
                continue;
            }
            erased = true;
            self.put_into_cache();
            self.cache.erase(&part);
            self.array.flash.trim(part.clone());
            self.mark_readable(part.clone());
            let failed = match &self.store {
                Some(store) => store.discard(part.start, part.end - part.start).is_err(),
                None => false,
            };
            if failed {
                self.error(Status::ERROR);
            }
        }
        erased
    }
}
