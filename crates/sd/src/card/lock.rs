//! Password lock: CMD42, section 4.3.7. A card with a password is locked after power-up.

use super::Card;
use crate::command::Status;
use alloc::vec::Vec;
use flashlab_sim::Instant;
use serde::{Deserialize, Serialize};

/// Maximum password length in bytes.
const PASSWORD_MAX: usize = 16;

const SET: u8 = 1;
const CLEAR: u8 = 1 << 1;
const LOCK: u8 = 1 << 2;
const ERASE: u8 = 1 << 3;

/// The password, which survives without power.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(super) struct Lock {
    password: Vec<u8>,
}

impl Lock {
    pub(super) fn is_set(&self) -> bool {
        !self.password.is_empty()
    }
}

impl Card {
    /// Executes the data block of a CMD42: mode, length, and the bytes of the passwords.
    pub(super) fn execute_lock(&mut self, now: Instant, block: &[u8]) {
        if self.change_lock(now, block).is_none() {
            self.error(Status::LOCK_UNLOCK_FAILED);
        }
    }

    fn change_lock(&mut self, now: Instant, block: &[u8]) -> Option<()> {
        let (mode, rest) = block.split_first()?;
        if mode & ERASE != 0 {
            return self.force_erase(now, *mode);
        }
        let (length, rest) = rest.split_first()?;
        let given = rest.get(..usize::from(*length))?;
        let (set, clear, lock) = (mode & SET != 0, mode & CLEAR != 0, mode & LOCK != 0);
        if clear && (set || lock) {
            return None;
        }
        if set {
            // The old password, if there is one, precedes the new one.
            let new = given.strip_prefix(self.lock.password.as_slice())?;
            if new.is_empty() || new.len() > PASSWORD_MAX {
                return None;
            }
            self.lock.password = new.to_vec();
            self.volatile.locked = lock;
            return Some(());
        }
        if !self.lock.is_set() || given != self.lock.password || !clear && lock == self.volatile.locked {
            return None;
        }
        if clear {
            self.lock.password.clear();
        }
        self.volatile.locked = lock;
        Some(())
    }

    /// Erases all data, the password and the write protection of a locked card.
    fn force_erase(&mut self, now: Instant, mode: u8) -> Option<()> {
        if mode != ERASE || !self.volatile.locked || self.csd.is_permanently_protected() {
            return None;
        }
        self.lock.password.clear();
        self.volatile.locked = false;
        self.csd.set_protected(false, false);
        self.protection.clear();
        self.erase_unprotected(0..self.capacity);
        let commit = self.array.flash.t_commit();
        self.be_busy(now, now + commit);
        Some(())
    }
}
