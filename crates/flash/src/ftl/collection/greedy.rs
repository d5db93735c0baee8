//! The block with the fewest valid units, in constant time: lists by valid count and a falling minimum.
//!
//! For each pool and valid count there is a list of blocks. A unit that becomes invalid moves its block one list down;
//! the minimum falls with it, and a search for a victim raises it past empty lists. Among equals the one that got its
//! count last is chosen.

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
pub(crate) struct Greedy {
    /// Valid counts a block can have.
    counts: u32,
    /// The first block of each list: `counts` lists a pool.
    heads: Vec<u32>,
    links: Vec<Link>,
    /// Lists below this are empty, in each pool.
    least: Vec<u32>,
}

impl Greedy {
    pub(super) fn new(pools: u32, blocks: u32, units: u32) -> Self {
        let counts = units + 1;
        Greedy {
            counts,
            heads: vec![NONE; (pools * counts) as usize],
            links: vec![Link { previous: NONE, next: NONE }; blocks as usize],
            least: vec![counts; pools as usize],
        }
    }

    #[inline]
    fn link(&mut self, pool: u32, block: u32, valid: u32) {
        let head = &mut self.heads[(pool * self.counts + valid) as usize];
        let next = core::mem::replace(head, block);
        self.links[block as usize] = Link { previous: NONE, next };
        if next != NONE {
            self.links[next as usize].previous = block;
        }
        let least = &mut self.least[pool as usize];
        *least = (*least).min(valid);
    }

    #[inline]
    fn unlink(&mut self, pool: u32, block: u32, valid: u32) {
        let Link { previous, next } = self.links[block as usize];
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
        if previous == NONE {
            self.heads[(pool * self.counts + valid) as usize] = next;
        } else {
            self.links[previous as usize].next = next;
        }
    }
}

impl Policy for Greedy {
    fn insert(&mut self, pool: u32, block: u32, valid: u32, _now: u64) {
        self.link(pool, block, valid);
    }
    fn remove(&mut self, pool: u32, block: u32, valid: u32) {
        self.unlink(pool, block, valid);
    }
    #[inline]
    fn invalidated(&mut self, pool: u32, block: u32, valid: u32) {
        self.unlink(pool, block, valid + 1);
        self.link(pool, block, valid);
    }
    fn choose(&mut self, pool: u32, _now: u64) -> Option<u32> {
        let least = &mut self.least[pool as usize];
        while *least < self.counts {
            let head = self.heads[(pool * self.counts + *least) as usize];
            if head != NONE {
                return Some(head);
            }
            *least += 1;
        }
        None
    }
    #[inline]
    fn prefetch(&self, block: u32) {
        flashlab_sim::prefetch(&self.links, block as usize);
    }
    fn is_sound(&self, shape: &Shape) -> bool {
        let Shape { pools, blocks, units, .. } = *shape;
        let sizes = (self.counts, self.heads.len(), self.links.len(), self.least.len());
        let lists = pools as usize * (units as usize + 1);
        if sizes != (units + 1, lists, blocks as usize, pools as usize) {
            return false;
        }
        (0..).zip(&self.heads).all(|(list, head): (u32, &u32)| {
            let (pool, valid) = (list / self.counts, list % self.counts);
            let pass = |previous: u32, block: u32| {
                block % pools == pool && self.links[block as usize].previous == previous
            };
            (*head == NONE || self.least[pool as usize] <= valid)
                && ends(*head, blocks, |block| self.links[block as usize].next, pass)
        })
    }
    fn each(&self, to: &mut dyn FnMut(u32, Option<u32>)) {
        for (list, head) in (0..).zip(&self.heads) {
            let mut block = *head;
            while block != NONE {
                to(block, Some(list % self.counts));
                block = self.links[block as usize].next;
            }
        }
    }
}
