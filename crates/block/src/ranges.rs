//! A set of byte offsets, stored as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges that do not touch each other, as a map from start to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Returns true if any byte of `range` is in the set.
    pub fn intersects(&self, range: &Range<u64>) -> bool {
        !range.is_empty() && self.0.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    /// Adds `range`.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.remove(&range);
        let (mut start, mut end) = (range.start, range.end);
        if let Some((first, _)) = self.0.range(..start).next_back().filter(|(_, last)| **last == start) {
            start = *first;
        }
        if let Some(last) = self.0.remove(&end) {
            end = last;
        }
        self.0.insert(start, end);
    }

    /// Removes `range`.
    pub fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((start, end)) =
            self.0.range(..range.end).next_back().filter(|(_, end)| **end > range.start)
        {
            let (start, end) = (*start, *end);
            self.0.remove(&start);
            if end > range.end {
                self.0.insert(range.end, end);
            }
            if start < range.start {
                self.0.insert(start, range.start);
            }
        }
    }

    /// Splits `part` into the ranges that are in the set (true) and those that are not, in order.
    pub fn split(&self, part: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> + '_ {
        let mut at = part.start;
        std::iter::from_fn(move || {
            if at >= part.end {
                return None;
            }
            let from = at;
            let contained = self.0.range(..=at).next_back().filter(|(_, end)| **end > at);
            at = match contained {
                Some((_, end)) => (*end).min(part.end),
                None => self.0.range(at..part.end).next().map_or(part.end, |(start, _)| *start),
            };
            Some((from..at, contained.is_some()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::Rng;

    #[test]
    fn ranges_agree_with_an_array_of_flags() {
        for seed in 0..200 {
            let (mut ranges, mut plain, mut rng) = (Ranges::default(), [false; 64], Rng::new(seed));
            for step in 0..60 {
                let start = rng.below(60);
                let range = start..start + rng.below(65 - start);
                let part = range.start as usize..range.end as usize;
                if rng.below(2) == 0 {
                    ranges.add(range);
                    plain[part].fill(true);
                } else {
                    ranges.remove(&range);
                    plain[part].fill(false);
                }
                let found: Vec<bool> =
                    ranges.split(0..64).flat_map(|(part, contained)| part.map(move |_| contained)).collect();
                assert_eq!(found, plain, "seed {seed}, step {step}");
                let touching = |pair: &[(u64, u64)]| pair[0].1 >= pair[1].0;
                let all: Vec<_> = ranges.0.iter().map(|(start, end)| (*start, *end)).collect();
                assert!(!all.windows(2).any(touching), "seed {seed}, step {step}: {all:?}");
                let start = rng.below(64);
                let any = start..start + rng.below(3).min(64 - start);
                let expected = plain[any.start as usize..any.end as usize].contains(&true);
                assert_eq!(ranges.intersects(&any), expected, "seed {seed}, step {step}: {any:?}");
            }
        }
    }
}
