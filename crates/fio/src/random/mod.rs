//! Random offsets of jobs: seeds, the order of a pass, and the distributions of `random_distribution=`.
//!
//! The properties that influence results equal those of fio. With the random map, each block occurs once per
//! pass. The offsets are the same in every run, unless the job requests others, and the same for reads and
//! writes. Another seed or another clone has other offsets. The distributions are fio's. The offsets
//! themselves differ from fio's.

mod distribution;
mod map;
mod permutation;
mod seed;

pub use distribution::Sampler;
pub use map::BlockMap;
pub use permutation::Permutation;
pub use seed::{Purpose, Seed};
