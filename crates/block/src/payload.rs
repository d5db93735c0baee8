//! The data of a write: a part of a buffer that many writes may share.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes to write. The bytes are shared, not copied: a server passes on parts of its receive buffer, and can
/// reuse the buffer when all parts are dropped.
#[derive(Clone)]
pub struct Payload {
    batch: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Payload {
    /// Creates the part `range` of `batch`.
    ///
    /// # Panics
    /// Panics if `range` is not within `batch`.
    pub fn new(batch: &Arc<Vec<u8>>, range: Range<usize>) -> Payload {
        assert!(range.start <= range.end && range.end <= batch.len(), "{range:?} of {}", batch.len());
        Payload { batch: batch.clone(), range }
    }

    /// Returns a part of these bytes, which shares their buffer.
    ///
    /// # Panics
    /// Panics if `part` is not within these bytes.
    #[must_use]
    pub fn part(&self, part: Range<usize>) -> Payload {
        let start = self.range.start;
        assert!(part.start <= part.end && part.end <= self.len(), "{part:?} of {}", self.len());
        Payload { batch: self.batch.clone(), range: start + part.start..start + part.end }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        let range = 0..bytes.len();
        Payload { batch: Arc::new(bytes), range }
    }
}

impl Deref for Payload {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.batch[self.range.clone()]
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_comes_back_when_every_part_is_dropped() {
        let mut batch = Arc::new(vec![1, 2, 3, 4]);
        let parts = [Payload::new(&batch, 0..1), Payload::new(&batch, 1..4)];
        assert_eq!((&*parts[0], &*parts[1]), (&[1][..], &[2, 3, 4][..]));
        assert_eq!(&*parts[1].part(1..2), &[3]);
        assert!(Arc::get_mut(&mut batch).is_none());
        drop(parts);
        assert!(Arc::get_mut(&mut batch).is_some());
    }
}
