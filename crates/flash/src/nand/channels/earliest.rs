//! The earliest of some instants, each of which changes now and then: a tournament.

use super::NEVER;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Instants by place. The earliest is known at once; of equal ones, that of the lowest place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Earliest {
    /// The earliest instant.
    at: u64,
    /// The second half are the places' instants; before them, each is the earlier of the two from twice its index on.
    nodes: Vec<u64>,
}

impl Earliest {
    /// So many places, whose instants never come.
    pub(super) fn new(places: usize) -> Self {
        Earliest { at: NEVER, nodes: vec![NEVER; 2 * places.next_power_of_two()] }
    }

    /// The earliest instant.
    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The first place whose instant it is.
    #[inline]
    pub(super) fn place(&self) -> usize {
        let mut node = 1;
        // No branch: which of the two it is cannot be predicted.
        while let Some(&left) = self.nodes.get(2 * node) {
            node = 2 * node + usize::from(left != self.at);
        }
        node - self.nodes.len() / 2
    }

    /// The instant of `place` is `at`.
    #[inline]
    pub(super) fn set(&mut self, place: usize, mut at: u64) {
        let nodes = self.nodes.as_mut_slice();
        let mut node = nodes.len() / 2 + place;
        if nodes[node] == at {
            return;
        }
        nodes[node] = at;
        while node > 1 {
            at = at.min(nodes[node ^ 1]);
            node /= 2;
            nodes[node] = at;
        }
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::Rng;

    #[test]
    fn the_earliest_is_the_first_of_the_least_however_many_places_there_are() {
        for places in 1..=20 {
            let mut rng = Rng::new(places as u64);
            let mut instants = vec![NEVER; places];
            let mut earliest = Earliest::new(places);
            assert_eq!((earliest.at(), earliest.place()), (NEVER, 0));
            for _ in 0..1_000 {
                let place = rng.below(places as u64) as usize;
                instants[place] = if rng.below(4) == 0 { NEVER } else { rng.below(30) };
                earliest.set(place, instants[place]);
                let least = *instants.iter().min().unwrap();
                let first = instants.iter().position(|&at| at == least).unwrap();
                assert_eq!((earliest.at(), earliest.place()), (least, first));
            }
        }
    }
}
