//! How long the next request is: `bs`, `bsrange` and `bssplit` of one direction.

use crate::job::BlockSize;
use flashlab_sim::Rng;

/// Lengths of one direction.
#[derive(Clone, Debug)]
pub(crate) enum Lengths {
    Fixed(u64),
    /// Multiples of `min`, `steps` of them.
    Range {
        min: u64,
        steps: u64,
    },
    /// (bytes, share), the smallest first.
    Split(Vec<(u64, u64)>),
}

impl Lengths {
    pub(crate) fn of(size: &BlockSize) -> Lengths {
        match size {
            BlockSize::Fixed(bytes) => Lengths::Fixed(*bytes),
            BlockSize::Range { min, max } if min >= max => Lengths::Fixed(*min),
            BlockSize::Range { min, max } => Lengths::Range { min: *min, steps: max / min },
            BlockSize::Split(shares) => {
                let mut sizes: Vec<(u64, u64)> = shares
                    .iter()
                    .filter(|share| share.percent > 0 || shares.len() == 1)
                    .map(|share| (share.bytes, u64::from(share.percent.max(1))))
                    .collect();
                sizes.sort_unstable();
                match sizes[..] {
                    [(bytes, _)] => Lengths::Fixed(bytes),
                    _ => Lengths::Split(sizes),
                }
            }
        }
    }

    /// A length of at most `room` bytes, `None` if not even the smallest fits. fio draws again until one fits; so the
    /// shares of those that fit keep their proportions.
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
            Lengths::Range { min, steps } => {
                let fitting = (room / min).min(*steps);
                (fitting > 0).then(|| min * (1 + rng.below(fitting)))
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

    #[test]
    fn a_split_takes_its_shares_and_never_more_than_the_room() {
        let share = |bytes, percent| SizeShare { bytes, percent };
        let lengths =
            Lengths::of(&BlockSize::Split(vec![share(16384, 30), share(4096, 60), share(65536, 10)]));
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
        // Five binomial deviations of 155, 145 and 95.
        assert!(counts[0].abs_diff(60_000) < 775 && counts[1].abs_diff(30_000) < 725, "{counts:?}");
        assert!((0..1_000).all(|_| lengths.draw(16384, &mut rng).is_some_and(|l| l <= 16384)));
        assert_eq!(lengths.draw(4095, &mut rng), None);
    }

    #[test]
    fn a_range_gives_multiples_of_its_least() {
        let lengths = Lengths::of(&BlockSize::Range { min: 4096, max: 16384 });
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
}
