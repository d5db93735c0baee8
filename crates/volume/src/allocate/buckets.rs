//! The table of a member's buckets.

use super::space::{Bucket, State};
use std::ops::{Index, IndexMut};

/// Number of buckets that get memory together.
const CHUNK: usize = 256;
const UNUSED: Bucket = Bucket { held: 0, cached: 0, generation: 0, state: State::Free };

/// The buckets of a member, by number. A chunk of buckets gets memory when one of the buckets is changed,
/// because the number of buckets of an absent member comes from a superblock that may be forged.
#[derive(Debug)]
pub(super) struct Buckets {
    count: u32,
    chunks: Vec<Option<Box<[Bucket; CHUNK]>>>,
}

impl Buckets {
    /// Creates the buckets of an empty member. The first `metadata` buckets hold the journal.
    pub(super) fn new(count: u32, metadata: u32) -> Buckets {
        let chunks = (count as usize).div_ceil(CHUNK);
        let mut buckets = Buckets { count, chunks: (0..chunks).map(|_| None).collect() };
        for number in 0..metadata.min(count) {
            buckets[number].state = State::Metadata;
        }
        buckets
    }

    pub(super) fn len(&self) -> u32 {
        self.count
    }

    pub(super) fn get(&self, number: u32) -> Option<&Bucket> {
        (number < self.count).then(|| &self[number])
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Bucket> {
        (number < self.count).then(|| &mut self[number])
    }

    /// Returns all buckets with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Bucket)> {
        (0..self.count).map(|number| (number, &self[number]))
    }

    /// Returns all changed buckets, and possibly some others, with their numbers.
    pub(super) fn changed(&self) -> impl Iterator<Item = (u32, &Bucket)> {
        let chunks = self.chunks.iter().zip((0..self.count).step_by(CHUNK));
        chunks
            .flat_map(|(chunk, first)| chunk.iter().flat_map(move |chunk| (first..).zip(chunk.iter())))
            .filter(|(number, _)| *number < self.count)
    }
}

impl Index<u32> for Buckets {
    type Output = Bucket;

    fn index(&self, number: u32) -> &Bucket {
        assert!(number < self.count, "the member has {} buckets", self.count);
        let chunk = &self.chunks[number as usize / CHUNK];
        chunk.as_ref().map_or(&UNUSED, |chunk| &chunk[number as usize % CHUNK])
    }
}

impl IndexMut<u32> for Buckets {
    fn index_mut(&mut self, number: u32) -> &mut Bucket {
        assert!(number < self.count, "the member has {} buckets", self.count);
        let chunk = &mut self.chunks[number as usize / CHUNK];
        &mut chunk.get_or_insert_with(|| Box::new([UNUSED; CHUNK]))[number as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chunks_with_changed_buckets_take_memory() {
        let mut buckets = Buckets::new(1 << 26, 2);
        for number in [1000, 1001, (1 << 26) - 1] {
            buckets[number].held = number;
        }
        assert_eq!(buckets.chunks.iter().flatten().count(), 3, "those of 0, 1000 and the last one");
        let held = buckets.changed().filter(|(_, bucket)| bucket.held > 0);
        let held: Vec<_> = held.map(|(number, bucket)| (number, bucket.held)).collect();
        assert_eq!(held, [1000, 1001, (1 << 26) - 1].map(|number| (number, number)));
        assert_eq!((buckets[1].state, buckets[2].state), (State::Metadata, State::Free));
        assert!(buckets.get((1 << 26) - 1).is_some() && buckets.get(1 << 26).is_none());
    }

    #[test]
    fn a_last_chunk_that_is_not_full_ends_with_the_last_bucket() {
        let mut buckets = Buckets::new(CHUNK as u32 + 3, 0);
        buckets[CHUNK as u32].held = 1;
        assert_eq!(buckets.iter().count(), CHUNK + 3);
        assert_eq!(buckets.changed().map(|(number, _)| number).max(), Some(CHUNK as u32 + 2));
    }
}
