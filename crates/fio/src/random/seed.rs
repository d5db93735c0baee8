//! One seed a job, and an independent stream of numbers for each thing that it decides.

use crate::job::Job;
use flashlab_sim::{Rng, mix};

/// What a stream of random numbers is for. Streams are independent, so a job's offsets do not depend on whether it
/// reads, writes, mixes or splits its sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Offsets.
    Offset = 1,
    /// Read or write.
    Direction = 2,
    /// Block sizes of `bsrange` and `bssplit`.
    Length = 3,
    /// Random or sequential under `percentage_random`.
    Sequence = 4,
    /// The rotation of a distribution over the range, drawn once a file.
    Rotation = 5,
}

/// The seed of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(u64);

impl Seed {
    /// The seed where the job sets none (the golden ratio's fraction, an arbitrary constant).
    const DEFAULT: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Of the job at place `number` of its job file; `entropy` is this run's own number, used under `randrepeat=0`
    /// where no `randseed` is given.
    ///
    /// As in fio, jobs at different places of a file have different offsets, clones included (fio 3.33 was seen to
    /// keep that under `allrandrepeat=1`), and the same place has the same ones whatever the job does. `randseed` counts
    /// always; fio 3.33 was seen to ignore it unless `randrepeat=0` is given too.
    pub fn of(job: &Job, number: u32, entropy: u64) -> Seed {
        let base = match job.rand_seed {
            Some(seed) => mix(seed),
            None if job.rand_repeat || job.all_rand_repeat => Self::DEFAULT,
            None => mix(entropy ^ 0x6a09_e667_f3bc_c908),
        };
        Seed(mix(base.wrapping_add(mix(u64::from(number)))))
    }

    /// The generator for one purpose in one file of the job.
    pub fn rng(self, purpose: Purpose, file: usize) -> Rng {
        Rng::for_purpose(self.0, self.key(purpose, file, 0))
    }

    /// A key for one purpose, file and pass.
    pub fn key(self, purpose: Purpose, file: usize, pass: u64) -> u64 {
        mix(self.0 ^ mix(purpose as u64 ^ mix(file as u64 ^ mix(pass))))
    }
}
