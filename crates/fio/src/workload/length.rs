//! Lengths of requests: `bs`, `bsrange` and `bssplit` of one direction.

use crate::job::BlockSize;
use flashlab_sim::Rng;

/// The lengths of the requests of one direction.
#[derive(Clone, Debug)]
pub(crate) enum Lengths {
    Fixed(u64),
    /// Multiples of `min`, and `max`.
    Range {
        min: u64,
        max: u64,
    },
    /// (bytes, share) pairs, the smallest size first.
    Split(Vec<(u64, u64)>),
}

impl Lengths {
    pub(crate) fn from_block_size(size: &BlockSize) -> Lengths {
        match size {
            BlockSize::Fixed(bytes) => Lengths::Fixed(*bytes),
            BlockSize::Range { min, max } if min >= max => Lengths::Fixed(*min),
            BlockSize::Range { min, max } => Lengths::Range { min: *min, max: *max },
            BlockSize::Split(shares) => {
                // fio rounds sizes down to multiples of the smallest one, even if the smallest has no share.
                let least = shares.iter().map(|share| share.bytes).min().unwrap_or(1).max(1);
                let mut sizes: Vec<(u64, u64)> = shares
                    .iter()
                    .filter(|share| share.percent > 0 || shares.len() == 1)
                    .map(|share| (share.bytes - share.bytes % least, u64::from(share.percent.max(1))))
                    .collect();
                sizes.sort_unstable();
                match sizes[..] {
                    [(bytes, _)] => Lengths::Fixed(bytes),
                    _ => Lengths::Split(sizes),
                }
            }
        }
    }

    /// Draws a length of at most `room` bytes. Returns `None` if not even the smallest length fits. fio draws
    /// until a length fits, so the lengths that fit preserve the ratio of their shares.
    #[inline]
    pub(crate) fn draw(&self, room: u64, rng: &mut Rng) -> Option<u64> {
        match self {
            Lengths::Fixed(bytes) => (*bytes <= room).then_some(*bytes),
            _ => self.draw_one_of_several(room, rng),
        }
    }

    fn draw_one_of_several(&self, room: u64, rng: &mut Rng) -> Option<u64> {
        match self {
            Lengths::Fixed(bytes) => Some(*bytes),
            Lengths::Range { min, max } => {
                // fio draws from `min..min + max` and rounds down to a multiple of `min`. If `max` is not a multiple,
                // its share is the remainder, `max % min` of `max` draws.
                let fitting = if room >= *max { *max } else { room - room % min };
                (fitting > 0).then(|| (min * (1 + rng.below(fitting) / min)).min(*max))
            }
            Lengths::Split(sizes) => {
                let fitting = sizes.partition_point(|&(bytes, _)| bytes <= room);
                let total: u64 = sizes[..fitting].iter().map(|&(_, share)| share).sum();
                if total == 0 {
                    return None;
                }
                let mut left = rng.below(total);
                for &(bytes, share) in &sizes[..fitting] {
                    if left < share {
                        return Some(bytes);
                    }
                    left -= share;
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::SizeShare;
    use std::collections::BTreeSet;

    #[test]
    fn a_split_draws_its_shares_and_never_exceeds_the_room() {
        let share = |bytes, percent| SizeShare { bytes, percent };
        let lengths = Lengths::from_block_size(&BlockSize::Split(vec![
            share(16384, 30),
            share(4096, 60),
            share(65536, 10),
        ]));
        let mut rng = Rng::new(1);
        let mut counts = [0u32; 3];
        for _ in 0..100_000 {
            match lengths.draw(1 << 20, &mut rng) {
                Some(4096) => counts[0] += 1,
                Some(16384) => counts[1] += 1,
                Some(65536) => counts[2] += 1,
                other => panic!("{other:?}"),
            }
        }
        // The limits are five binomial deviations of 155, 145 and 95.
        assert!(counts[0].abs_diff(60_000) < 775 && counts[1].abs_diff(30_000) < 725, "{counts:?}");
        assert!((0..1_000).all(|_| lengths.draw(16384, &mut rng).is_some_and(|l| l <= 16384)));
        assert_eq!(lengths.draw(4095, &mut rng), None);
    }

    #[test]
    fn sizes_of_a_split_are_rounded_down_to_multiples_of_the_minimum() {
        // fio 3.33 sends 3072 and 6144 with bssplit=3k/50:8k/50, and only 4096 with 4k/0:6k/100.
        let share = |bytes, percent| SizeShare { bytes, percent };
        let lengths = Lengths::from_block_size(&BlockSize::Split(vec![share(3072, 50), share(8192, 50)]));
        let mut rng = Rng::new(4);
        let drawn: BTreeSet<u64> = (0..100).filter_map(|_| lengths.draw(1 << 20, &mut rng)).collect();
        assert_eq!(drawn, BTreeSet::from([3072, 6144]));
        let lengths = Lengths::from_block_size(&BlockSize::Split(vec![share(4096, 0), share(6144, 100)]));
        assert_eq!(lengths.draw(1 << 20, &mut rng), Some(4096));
    }

    #[test]
    fn a_range_gives_multiples_of_its_minimum() {
        let lengths = Lengths::from_block_size(&BlockSize::Range { min: 4096, max: 16384 });
        let mut rng = Rng::new(2);
        let mut counts = [0u32; 4];
        for _ in 0..40_000 {
            let length = lengths.draw(u64::MAX, &mut rng).expect("there is room");
            assert!(length.is_multiple_of(4096));
            counts[(length / 4096 - 1) as usize] += 1;
        }
        // Binomial: mean 10,000, deviation 87.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 435), "{counts:?}");
        assert_eq!(lengths.draw(8000, &mut rng), Some(4096));
    }

    #[test]
    fn a_maximum_that_is_not_a_multiple_of_the_minimum_has_its_share() {
        // fio 3.33 with bsrange=3k-8k: 0.387, 0.363, 0.250 of 3,836 requests.
        let lengths = Lengths::from_block_size(&BlockSize::Range { min: 3072, max: 8192 });
        let mut rng = Rng::new(3);
        let mut counts = [0u32; 3];
        for _ in 0..80_000 {
            let length = lengths.draw(u64::MAX, &mut rng).expect("there is room");
            counts[[3072, 6144, 8192]
                .iter()
                .position(|l| *l == length)
                .expect("the length is a multiple of the unit")] += 1;
        }
        // The limits are five binomial deviations of 137, 137 and 122.
        let expected = [30_000, 30_000, 20_000];
        assert!(counts.iter().zip(expected).all(|(c, e)| c.abs_diff(e) < 700), "{counts:?}");
        assert!((0..1_000).all(|_| lengths.draw(8191, &mut rng).is_some_and(|l| l <= 6144)));
    }
}
