//! The seed of a job, and its independent streams of random numbers.

use crate::job::Job;
use flashlab_sim::{Rng, mix};

/// The purpose of a stream of random numbers. The streams are independent, so the offsets of a job do not
/// depend on whether it reads, writes or mixes both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Offsets.
    Offset = 1,
    /// Choice between read and write.
    Direction = 2,
    /// Block sizes of `bsrange` and `bssplit`.
    Length = 3,
    /// Choice between random and sequential under `percentage_random`.
    Sequence = 4,
    /// Rotation of a distribution over the range, drawn once per file.
    Rotation = 5,
}

/// The seed of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Seed of jobs that set none (the fractional part of the golden ratio, an arbitrary constant).
    const DEFAULT: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Returns the seed of the job at position `number` in its job file. `entropy` is a number specific to
    /// this run, used under `randrepeat=0` without `randseed` and `allrandrepeat`.
    ///
    /// As in fio, jobs at different positions of a file have different offsets, clones included (in tests of fio 3.33,
    /// this holds under `allrandrepeat=1`, too). Jobs at the same position have the same offsets, regardless of their
    /// other options. `randseed` always has an effect here; in tests, fio 3.33 ignores it without `randrepeat=0`.
    pub fn for_job(job: &Job, number: u32, entropy: u64) -> Seed {
        let base = match job.rand_seed {
            Some(seed) => mix(seed),
            None if job.rand_repeat || job.all_rand_repeat => Self::DEFAULT,
            None => mix(entropy ^ 0x6a09_e667_f3bc_c908),
        };
        Seed(mix(base.wrapping_add(mix(u64::from(number)))))
    }

    /// Returns the generator for one purpose in one file of the job.
    pub fn rng(self, purpose: Purpose, file: usize) -> Rng {
        Rng::for_purpose(self.0, self.key(purpose, file, 0))
    }

    /// Returns a key for one purpose, file and pass.
    pub fn key(self, purpose: Purpose, file: usize, pass: u64) -> u64 {
        mix(self.0 ^ mix(purpose as u64 ^ mix(file as u64 ^ mix(pass))))
    }
}
