//! The block that was closed first: one list a pool.

use super::{NONE, Policy, Shape, ends};
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
    pub(super) fn new(pools: u32, blocks: u32) -> Self {
        Fifo {
            ends: vec![(NONE, NONE); pools as usize],
            links: vec![Link { previous: NONE, next: NONE }; blocks as usize],
        }
    }
}

impl Policy for Fifo {
    fn insert(&mut self, pool: u32, block: u32, _valid: u32, _now: u64) {
        let (eldest, youngest) = &mut self.ends[pool as usize];
        self.links[block as usize] = Link { previous: *youngest, next: NONE };
        if *youngest == NONE {
            *eldest = block;
        } else {
            self.links[*youngest as usize].next = block;
        }
        *youngest = block;
    }
    fn remove(&mut self, pool: u32, block: u32, _valid: u32) {
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
    #[inline]
    fn invalidated(&mut self, _pool: u32, _block: u32, _valid: u32) {}
    fn choose(&mut self, pool: u32, _now: u64) -> Option<u32> {
        let (eldest, _) = self.ends[pool as usize];
        (eldest != NONE).then_some(eldest)
    }
    fn is_sound(&self, shape: &Shape) -> bool {
        let Shape { pools, blocks, .. } = *shape;
        if self.ends.len() != pools as usize || self.links.len() != blocks as usize {
            return false;
        }
        (0..).zip(&self.ends).all(|(pool, (eldest, youngest))| {
            let next = |block: u32| self.links[block as usize].next;
            let pass = |previous: u32, block: u32| {
                let ends = next(block) == NONE;
                block % pools == pool
                    && self.links[block as usize].previous == previous
                    && (!ends || block == *youngest)
            };
            (*eldest == NONE) == (*youngest == NONE) && ends(*eldest, blocks, next, pass)
        })
    }
    fn each(&self, to: &mut dyn FnMut(u32, Option<u32>)) {
        for (eldest, _) in &self.ends {
            let mut block = *eldest;
            while block != NONE {
                to(block, None);
                block = self.links[block as usize].next;
            }
        }
    }
}
