//! Requests in the drive, and those that wait on the host's side because the drive holds its maximum number of
//! commands.
//!
//! # Invariant
//! A request waits only while the drive is full, and requests enter the drive in the order of submission.

use alloc::collections::VecDeque;

/// The requests in the drive and those that wait, by slot.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    /// Maximum number of commands in the drive.
    depth: u32,
    in_drive: u32,
    waiting: VecDeque<u32>,
}

impl Admission {
    /// Creates an empty drive that holds up to `depth` commands.
    pub(super) fn new(depth: u32) -> Self {
        Admission { depth, in_drive: 0, waiting: VecDeque::new() }
    }
    /// Adds a request. Returns true if it enters the drive now.
    #[inline]
    pub(super) fn enter(&mut self, slot: u32) -> bool {
        let has_room = self.in_drive < self.depth;
        if has_room {
            self.in_drive += 1;
        } else {
            self.waiting.push_back(slot);
        }
        has_room
    }
    /// Removes a request from the drive. Returns the waiting request that enters the drive in its place.
    #[inline]
    pub(super) fn leave(&mut self) -> Option<u32> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.in_drive -= 1;
        }
        next
    }
    /// Drops all requests.
    pub(super) fn clear(&mut self) {
        self.in_drive = 0;
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_while_the_drive_is_full_and_enter_in_order() {
        let mut admission = Admission::new(2);
        assert_eq!([10, 11, 12, 13].map(|slot| admission.enter(slot)), [true, true, false, false]);
        assert_eq!([admission.leave(), admission.leave(), admission.leave()], [Some(12), Some(13), None]);
        assert!(admission.enter(14), "only one command remains, so there is room");
        assert!(!admission.enter(15));
        admission.clear();
        assert_eq!([16, 17, 18].map(|slot| admission.enter(slot)), [true, true, false]);
    }
}
