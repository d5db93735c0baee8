//! The block that was closed first: one list a pool.

use super::valid_counts::ValidCounts;
use super::{NONE, Policy, ends};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Link {
    previous: u32,
    next: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fifo {
    /// The eldest and the youngest block of each pool.
    ends: Vec<(u32, u32)>,
    links: Vec<Link>,
}

impl Fifo {
    pub(super) fn new(counts: &ValidCounts) -> Self {
        Fifo {
            ends: vec![(NONE, NONE); counts.pool_count() as usize],
            links: vec![Link { previous: NONE, next: NONE }; counts.block_count() as usize],
        }
    }
}

impl Policy for Fifo {
    fn insert(&mut self, _counts: &ValidCounts, pool: u32, block: u32, _now: u64) {
        let (eldest, youngest) = &mut self.ends[pool as usize];
        self.links[block as usize] = Link { previous: *youngest, next: NONE };
        if *youngest == NONE {
            *eldest = block;
        } else {
            self.links[*youngest as usize].next = block;
        }
        *youngest = block;
    }
    fn remove(&mut self, _counts: &ValidCounts, pool: u32, block: u32) {
        let (eldest, youngest) = &mut self.ends[pool as usize];
        let Link { previous, next } = self.links[block as usize];
        match previous {
            NONE => *eldest = next,
            previous => self.links[previous as usize].next = next,
        }
        match next {
            NONE => *youngest = previous,
            next => self.links[next as usize].previous = previous,
        }
    }
    fn choose(&mut self, _counts: &ValidCounts, pool: u32, _now: u64) -> Option<u32> {
        let (eldest, _) = self.ends[pool as usize];
        (eldest != NONE).then_some(eldest)
    }
    fn is_sound(&self, counts: &ValidCounts, _now: u64) -> bool {
        let (pools, blocks) = (counts.pool_count(), counts.block_count());
        if self.ends.len() != pools as usize || self.links.len() != blocks as usize {
            return false;
        }
        let next = |block: u32| self.links[block as usize].next;
        let lists = (0..).zip(&self.ends).all(|(pool, (eldest, youngest))| {
            let pass = |previous: u32, block: u32| {
                let ends = next(block) == NONE;
                block % pools == pool
                    && self.links[block as usize].previous == previous
                    && (!ends || block == *youngest)
            };
            (*eldest == NONE) == (*youngest == NONE) && ends(*eldest, blocks, next, pass)
        });
        let listed = |(eldest, _): &(u32, u32)| {
            let some = |block: u32| (block != NONE).then_some(block);
            core::iter::successors(some(*eldest), move |block| some(next(*block)))
        };
        lists && counts.are_all_candidates(self.ends.iter().flat_map(listed))
    }
}
