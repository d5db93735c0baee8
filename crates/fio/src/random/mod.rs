//! Where random jobs go: seeds, the order of a pass, and the distributions of `random_distribution=`.
//!
//! What decides a result is kept as fio has it: each block once a pass with the random map, the same offsets in every
//! run and for reads and writes alike, other ones under another seed or in another clone, and distributions equal to
//! fio's. The offsets themselves are not fio's.

mod distribution;
mod map;
mod permutation;
mod seed;

pub use distribution::Sampler;
pub use map::BlockMap;
pub use permutation::Permutation;
pub use seed::{Purpose, Seed};
