//! Scrub: it reads every copy, replaces bad copies by good ones, and poisons extents without a good copy.

use super::Volume;
use flashlab_block::{Context, IoError};

/// Result of a scrub.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scrubbed {
    /// Number of copies that were read.
    pub copies: u64,
    /// Number of bad copies that were replaced from a good one.
    pub repaired: u64,
    /// Number of extents without a good copy. Reads of them fail until they are overwritten.
    pub poisoned: u64,
    /// Number of bad copies that remain, because there is no space for another one.
    pub pending: u64,
}

impl Volume {
    /// Reads and verifies every copy of every extent, and repairs what can be repaired. Requests may go on meanwhile.
    ///
    /// # Errors
    /// Returns the error of a member that cannot be written, or [`IoError::ReadOnly`].
    pub async fn scrub(&self, cx: &Context) -> Result<Scrubbed, IoError> {
        if self.inner.read_only {
            return Err(IoError::ReadOnly);
        }
        let mut scrubbed = Scrubbed::default();
        let map = self.inner.lock().map.clone();
        for extent in map.iter() {
            let mut bad = Vec::new();
            for pointer in extent.pointers() {
                scrubbed.copies += 1;
                if self.inner.read_stored_copy(cx, extent, pointer).await.is_none() {
                    bad.push(*pointer);
                }
            }
            let is_current = self.inner.lock().map.overlapping(extent.live()).any(|other| other == extent);
            if bad.is_empty() || !is_current {
                continue;
            }
            let lost = bad.len() == extent.pointers().len();
            scrubbed.poisoned += u64::from(lost);
            // One call poisons an extent with all of its copies.
            bad.truncate(if lost { 1 } else { bad.len() });
            for pointer in bad {
                let moved = self.inner.move_extent(cx, extent, (pointer.member, pointer.bucket)).await?;
                scrubbed.repaired += u64::from(moved && !lost);
                scrubbed.pending += u64::from(!moved);
            }
        }
        let position = self.inner.lock().position;
        self.inner.commit(cx, position).await?;
        Ok(scrubbed)
    }
}
