//! The map of a volume in memory: extents in logical order, without overlaps.
//!
//! The map is a B-tree of leaves, found by the logical end of their last extent. An insertion divides a leaf of more
//! than [`LEAF_MAX`] extents. A clone shares the leaves; a leaf is copied when one of its owners changes it. So a
//! checkpoint and a garbage collection read a frozen copy while writes continue.

use crate::extent::{Extent, ExtentState};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Number of extents above which an insertion divides a leaf.
const LEAF_MAX: usize = 64;
/// Growth of a leaf in extents. Small steps keep the memory close to the number of extents.
const GROWTH: usize = 4;
/// Memory of a leaf in bytes without its extents: its header, and its place in the tree.
const LEAF_BYTES: usize = 96;
/// Memory in bytes that the allocator of glibc adds to a block on the heap.
const BLOCK_BYTES: usize = 8;
/// Unit in which this allocator divides the heap, in bytes. The smallest block takes two units.
const HEAP_UNIT: usize = 16;
/// Maximum number of steps of an interpolation search before a binary search.
const INTERPOLATIONS: usize = 3;

/// Extents that are next to each other in the map.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    extents: Vec<Extent>,
    /// A block before which no extent begins. A search uses it instead of the first extent, which is often not in the
    /// processor's cache.
    base: u64,
}

/// The map of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    leaves: BTreeMap<u64, Arc<Leaf>>,
    len: usize,
    block: u32,
    unit: u32,
}

impl Map {
    /// Creates an empty map of a volume with this block size and these bytes per checksum.
    pub(crate) fn new(block: u32, unit: u32) -> Map {
        Map { leaves: BTreeMap::new(), len: 0, block, unit }
    }

    /// Returns the number of extents.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory of the map in bytes.
    pub(crate) fn memory(&self) -> usize {
        let heap = |extent: &Extent| match extent.heap() {
            0 => 0,
            bytes => (bytes + BLOCK_BYTES).next_multiple_of(HEAP_UNIT).max(2 * HEAP_UNIT),
        };
        let leaf = |leaf: &Arc<Leaf>| {
            let extents = &leaf.extents;
            extents.capacity() * size_of::<Extent>() + LEAF_BYTES + extents.iter().map(heap).sum::<usize>()
        };
        self.leaves.values().map(leaf).sum()
    }

    /// Returns the first block after the last extent.
    pub(crate) fn end(&self) -> u64 {
        self.leaves.keys().next_back().copied().unwrap_or(0)
    }

    /// Returns all extents in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.leaves.values().flat_map(|leaf| leaf.extents.iter())
    }

    /// Returns all extents in order, by leaves. Each leaf is freed when the next one is taken, unless another map
    /// shares it.
    pub(crate) fn into_leaves(self) -> impl Iterator<Item = Arc<Leaf>> {
        self.leaves.into_values()
    }

    /// Returns the extents that overlap `range`, in order.
    pub(crate) fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &Extent> {
        let Range { start, end } = range;
        self.leaves
            .range(start + 1..)
            .flat_map(move |(end, leaf)| &leaf.extents[leaf.ended(*end, start)..])
            .take_while(move |extent| extent.start() < end)
    }

    /// Maps the live range of `extent`, and replaces what the range held. Calls `changed` with each extent that
    /// disappears and the parts of it that remain.
    pub(crate) fn insert(&mut self, extent: Extent, mut changed: impl FnMut(&Extent, &[Extent])) {
        if let Some(old) = self.with_range(extent.live()) {
            changed(old, &[]);
            *old = extent;
            return;
        }
        self.remove(extent.live(), changed);
        let at = self.leaves.range(extent.end()..).next().map(|(end, _)| *end);
        // An extent after all others goes to the last leaf.
        let key = at.or_else(|| self.leaves.keys().next_back().copied());
        self.len += 1;
        let Some(key) = key else {
            self.leaves.insert(extent.end(), Arc::new(Leaf::new(vec![extent])));
            return;
        };
        let upper = Arc::make_mut(self.leaves.get_mut(&key).expect("a key of the map")).insert(key, extent);
        self.rekey(key);
        if let Some((end, upper)) = upper {
            self.leaves.insert(end, Arc::new(upper));
        }
    }

    /// Returns the extent whose live range is exactly `range`.
    fn with_range(&mut self, range: Range<u64>) -> Option<&mut Extent> {
        let (&key, leaf) = self.leaves.range_mut(range.start + 1..).next()?;
        let at = leaf.ended(key, range.start);
        let is_same = leaf.extents.get(at).is_some_and(|extent| extent.live() == range);
        is_same.then(|| &mut Arc::make_mut(leaf).extents[at])
    }

    /// Unmaps `range`. Calls `changed` with each extent that disappears and the parts of it that remain.
    pub(crate) fn remove(&mut self, range: Range<u64>, mut changed: impl FnMut(&Extent, &[Extent])) {
        let (block, unit) = (self.block, self.unit);
        let mut from = range.start;
        while let Some((&key, leaf)) = self.leaves.range_mut(from + 1..).next() {
            let i = leaf.ended(key, range.start);
            let j = i + leaf.extents[i..].iter().take_while(|extent| extent.start() < range.end).count();
            if i == j {
                return;
            }
            let leaf = &mut Arc::make_mut(leaf).extents;
            let mut remaining = Vec::new();
            for extent in &leaf[i..j] {
                let parts = [extent.start()..range.start, range.end..extent.end()];
                let before = remaining.len();
                let parts = parts.into_iter().filter(|part| part.start < part.end);
                remaining.extend(parts.map(|part| extent.cut(part, block, unit)));
                changed(extent, &remaining[before..]);
            }
            self.len = self.len + remaining.len() - (j - i);
            let reached = leaf[j - 1].end() >= range.end || j < leaf.len();
            leaf.splice(i..j, remaining);
            from = key;
            self.rekey(key);
            if reached {
                return;
            }
        }
    }

    /// Removes the marks of extents that background compression did not shrink.
    pub(crate) fn forget_incompressible(&mut self) {
        let is_marked = |extent: &Extent| extent.state() == ExtentState::Incompressible;
        for leaf in self.leaves.values_mut().filter(|leaf| leaf.extents.iter().any(is_marked)) {
            for extent in Arc::make_mut(leaf).extents.iter_mut().filter(|extent| is_marked(extent)) {
                *extent = extent.clone().with_live(extent.length(), extent.skip(), ExtentState::Normal);
            }
        }
    }

    /// Moves a leaf to its new key after a change of its last extent, or removes the leaf if it is empty.
    fn rekey(&mut self, key: u64) {
        match self.leaves[&key].extents.last().map(|last| last.end()) {
            Some(end) if end == key => {}
            Some(end) => {
                let leaf = self.leaves.remove(&key).expect("a key of the map");
                self.leaves.insert(end, leaf);
            }
            None => {
                self.leaves.remove(&key);
            }
        }
    }
}

impl Leaf {
    fn new(extents: Vec<Extent>) -> Leaf {
        let base = extents.first().map_or(0, Extent::start);
        Leaf { extents, base }
    }

    /// Returns the extents in order.
    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Inserts an extent; `leaf_end` is the end of the last one. If there are too many extents then, divides the leaf, and
    /// returns the end of the upper leaf with it.
    fn insert(&mut self, leaf_end: u64, extent: Extent) -> Option<(u64, Leaf)> {
        let index = self.ended(leaf_end, extent.start());
        self.base = self.base.min(extent.start());
        let extents = &mut self.extents;
        if extents.len() == extents.capacity() {
            extents.reserve_exact(GROWTH);
        }
        extents.insert(index, extent);
        if extents.len() <= LEAF_MAX {
            return None;
        }
        // Appended extents leave full leaves behind.
        let at = if index + 1 == extents.len() { index } else { extents.len() / 2 };
        let upper = extents[at..].to_vec();
        extents.truncate(at);
        extents.shrink_to_fit();
        let end = upper.last().expect("a division leaves extents on both sides").end();
        Some((end, Leaf::new(upper)))
    }

    /// Returns the number of extents that end at or before `block`; `leaf_end` is the end of the last one.
    ///
    /// Most maps consist mainly of extents of one size. These are found at the first guess. A binary search would
    /// touch six cache lines.
    fn ended(&self, leaf_end: u64, block: u64) -> usize {
        let extents = &self.extents;
        // The extents before `low` end at or before `block`, and those from `high` on end after it.
        let (mut low, mut high) = (0, extents.len());
        let (mut low_block, mut high_block) = (self.base, leaf_end);
        for _ in 0..INTERPOLATIONS {
            if low == high || block <= low_block {
                return low;
            }
            if block >= high_block {
                break;
            }
            let guess = low + ((block - low_block) * (high - low) as u64 / (high_block - low_block)) as usize;
            let (start, end) = (extents[guess].start(), extents[guess].end());
            if end <= block {
                (low, low_block) = (guess + 1, end);
            } else if start <= block {
                return guess;
            } else {
                (high, high_block) = (guess, start);
            }
        }
        low + extents[low..high].partition_point(|extent| extent.end() <= block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Check, Compression};
    use crate::extent::{Pointer, Writer};
    use proptest::prelude::*;

    const BLOCK: u32 = 512;

    fn extent(start: u64, length: u16, place: u32) -> Extent {
        let sums = (0..length).map(|n| place << 8 | u32::from(n)).collect();
        let pointer = Pointer { member: 0, cached: false, bucket: place, offset: 0, generation: 1 };
        let stored = u32::from(length) * BLOCK;
        let end = start + u64::from(length);
        let check = Check::Crc32c(sums);
        Extent::new((end, length), stored, Compression::None, &check, Writer::default(), &[pointer])
    }

    proptest! {
        #[test]
        fn interpolation_finds_the_same_extent_as_a_binary_search(
            (sizes, block) in (prop::collection::vec((0u64..20, 1u16..40), 1..64), 0u64..4000),
        ) {
            let mut end = 0;
            let mut next = |(gap, length): (u64, u16)| {
                let start = end + gap;
                end = start + u64::from(length);
                extent(start, length, 1)
            };
            let extents: Vec<Extent> = sizes.into_iter().map(&mut next).collect();
            let found = extents.partition_point(|extent| extent.end() <= block);
            let first = extents[0].start();
            // The base need not be the start of the first extent.
            for base in [first, first.saturating_sub(7), 0] {
                let leaf = Leaf { extents: extents.clone(), base };
                prop_assert_eq!(leaf.ended(end, block), found);
            }
        }

        #[test]
        fn the_map_agrees_with_an_array_of_blocks(
            ops in prop::collection::vec(
                (0u64..400, 1u16..40, prop::bool::weighted(0.8), prop::bool::weighted(0.3)),
                1..300,
            ),
        ) {
            let mut map = Map::new(BLOCK, BLOCK);
            let mut array = vec![None; 512];
            let mut live = std::collections::BTreeMap::<u32, i64>::new();
            for (n, (start, length, insert, aligned)) in (1..).zip(ops) {
                // Aligned extents often replace whole ones.
                let (start, length) = if aligned { (start / 32 * 32, 32) } else { (start, length) };
                let range = start..start + u64::from(length);
                let mut changed = |old: &Extent, left: &[Extent]| {
                    let blocks = |extent: &Extent| i64::from(extent.stored_blocks(BLOCK));
                    *live.entry(old.pointers()[0].bucket).or_default() -= blocks(old);
                    for part in left {
                        *live.entry(part.pointers()[0].bucket).or_default() += blocks(part);
                    }
                };
                if insert {
                    map.insert(extent(start, length, n), &mut changed);
                    *live.entry(n).or_default() += i64::from(length);
                } else {
                    map.remove(range.clone(), &mut changed);
                }
                for block in range {
                    array[block as usize] = insert.then_some((n, (block - start) as u32));
                }
            }
            let mut found = vec![None; 512];
            let mut last = 0;
            for extent in map.iter() {
                prop_assert!(extent.start() >= last, "overlap");
                last = extent.end();
                for block in extent.live() {
                    let unit = u32::from(extent.skip()) + (block - extent.start()) as u32;
                    let pointer = extent.pointers()[0];
                    let Check::Crc32c(sums) = &extent.check() else { unreachable!("only sums were inserted") };
                    prop_assert_eq!(sums[unit as usize], pointer.bucket << 8 | (pointer.offset + unit));
                    found[block as usize] = Some((pointer.bucket, pointer.offset + unit));
                }
            }
            prop_assert_eq!(&found, &array);
            prop_assert_eq!(map.iter().count(), map.len());
            for (bucket, blocks) in live {
                let used = array.iter().flatten().filter(|(place, _)| *place == bucket).count();
                prop_assert_eq!(blocks, used as i64);
            }
            for start in [0, 77, 300] {
                let seen: Vec<_> = map.overlapping(start..start + 50).cloned().collect();
                let expected: Vec<_> =
                    map.iter().filter(|e| e.start() < start + 50 && e.end() > start).cloned().collect();
                prop_assert_eq!(seen, expected);
            }
        }
    }

    #[test]
    fn an_extent_with_two_copies_and_a_tag_takes_90_bytes_at_most() {
        let mut map = Map::new(BLOCK, BLOCK);
        let pointer = |member| Pointer { member, cached: false, bucket: 1, offset: 0, generation: 1 };
        for n in 1..20_000 {
            let (check, writer) = (Check::Tags(vec![[7; 16]]), Writer { epoch: 1, write: n });
            let pointers = [pointer(0), pointer(1)];
            map.insert(Extent::new((n, 1), BLOCK, Compression::None, &check, writer, &pointers), |_, _| {});
        }
        let per_extent = map.memory() as f64 / map.len() as f64;
        assert!(per_extent < 90.0, "{per_extent}");
    }

    #[test]
    fn an_extent_takes_64_bytes_at_most_with_its_part_of_the_leaves() {
        let (mut appended, mut random) = (Map::new(BLOCK, BLOCK), Map::new(BLOCK, BLOCK));
        for n in 0..20_000 {
            appended.insert(extent(2 * n, 1, 0), |_, _| {});
            random.insert(extent(n * 7_919 % 20_000 * 2, 1, 0), |_, _| {});
        }
        assert_eq!((appended.len(), random.len()), (20_000, 20_000));
        let per_extent = |map: &Map| map.memory() as f64 / map.len() as f64;
        assert!(per_extent(&appended) < 58.0, "{}", per_extent(&appended));
        assert!(per_extent(&random) < 64.0, "{}", per_extent(&random));
    }
}
