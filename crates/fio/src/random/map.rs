//! fio's random map for blocks of several sizes: the set of blocks that were accessed in this pass.
//!
//! The map has a bit per block. Above these bits, a tree of bits marks the full words, so that the search for
//! the next free block takes at most two steps per level of the tree, or four if it wraps. 4 Mi blocks need
//! 520 KiB and four levels.

/// A set of blocks from `0..n`.
#[derive(Clone, Debug)]
pub struct BlockMap {
    n: u64,
    /// Level 0 has a bit per block. A bit of level `i + 1` is set if a word of level `i` is full.
    levels: Vec<Vec<u64>>,
}

impl BlockMap {
    /// Returns an empty set of blocks from `0..n`.
    pub fn new(n: u64) -> BlockMap {
        let mut levels = Vec::new();
        let mut bits = n;
        loop {
            let words = bits.div_ceil(64).max(1);
            let mut level = vec![0u64; usize::try_from(words).expect("a bit a block fits in memory")];
            // The bits beyond the end are set.
            let used = bits % 64;
            if used != 0 || bits == 0 {
                *level.last_mut().expect("a level has a word") = !0 << used;
            }
            levels.push(level);
            if words == 1 {
                return BlockMap { n, levels };
            }
            bits = words;
        }
    }

    /// Returns the number of blocks, in the set or not.
    #[allow(clippy::len_without_is_empty, reason = "no caller asks if the map has no blocks")]
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Removes all blocks.
    pub fn clear(&mut self) {
        *self = BlockMap::new(self.n);
    }

    /// Returns true if `block` is in the set. Blocks beyond the end count as members.
    pub fn contains(&self, block: u64) -> bool {
        block >= self.n || self.levels[0][(block / 64) as usize] & (1 << (block % 64)) != 0
    }

    /// Adds `block`, which is less than `n`.
    pub fn insert(&mut self, block: u64) {
        let mut at = block;
        for level in &mut self.levels {
            let word = &mut level[(at / 64) as usize];
            *word |= 1 << (at % 64);
            if *word != !0 {
                return;
            }
            at /= 64;
        }
    }

    /// Returns the first block at or after `from` that is not in the set. The search wraps at the end. Returns `None`
    /// if all blocks are in the set.
    pub fn next_free(&self, from: u64) -> Option<u64> {
        self.free_at_or_after(from.min(self.n)).or_else(|| self.free_at_or_after(0))
    }

    fn free_at_or_after(&self, from: u64) -> Option<u64> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get((at / 64) as usize)?;
            let free = !word & (!0 << (at % 64));
            if free != 0 {
                let mut block = at / 64 * 64 + u64::from(free.trailing_zeros());
                for below in self.levels[..height].iter().rev() {
                    let free = !below[block as usize];
                    block = block * 64 + u64::from(free.trailing_zeros());
                }
                return Some(block);
            }
            at = at / 64 + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_next_free_block_equals_that_of_a_plain_set(
            n in 1u64..9_000,
            asks in prop::collection::vec((any::<bool>(), any::<u64>()), 1..400),
            filled in 0u64..9_000,
        ) {
            let mut map = BlockMap::new(n);
            let mut free: BTreeSet<u64> = (0..n).collect();
            for block in 0..filled.min(n) {
                map.insert(block);
                free.remove(&block);
            }
            for (insert, at) in asks {
                let at = at % n;
                if insert {
                    map.insert(at);
                    free.remove(&at);
                }
                let expected = free.range(at..).next().or_else(|| free.first()).copied();
                prop_assert_eq!(map.next_free(at), expected);
                prop_assert_eq!(map.contains(at), !free.contains(&at));
            }
        }
    }
}
