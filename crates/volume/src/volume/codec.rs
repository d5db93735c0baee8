//! Time that ciphers and compression take on a slower machine, for simulations.
//!
//! The engine runs in zero simulated time. With [`CodecCosts`], each extent occupies a core for a time that depends on
//! its length, and waits if all cores are busy. Live volumes have no costs: their codecs take real time.

use super::Inner;
use crate::encode::Compression;
use flashlab_block::Context;
use flashlab_sim::{Duration, Instant};
use std::sync::{Mutex, PoisonError};

/// Number of cores, and costs of codecs in picoseconds for each byte of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodecCosts {
    /// Number of cores that encode and decode.
    pub cores: u32,
    /// Encryption or decryption, with the authentication tag, of a stored byte.
    pub cipher_ps: u64,
    /// Compression of a logical byte.
    pub compress_ps: u64,
    /// Decompression of a logical byte.
    pub decompress_ps: u64,
}

/// The cores of a simulated machine.
#[derive(Debug)]
pub(super) struct Codec {
    costs: CodecCosts,
    state: Mutex<Cores>,
}

#[derive(Debug)]
struct Cores {
    /// Instant at which each core is free.
    free: Vec<Instant>,
    spent: Duration,
}

impl Codec {
    pub(super) fn new(costs: CodecCosts) -> Codec {
        let free = vec![Instant::ZERO; costs.cores.max(1) as usize];
        Codec { costs, state: Mutex::new(Cores { free, spent: Duration::ZERO }) }
    }

    /// Occupies the core that becomes free first. Returns the end of the work.
    fn reserve(&self, now: Instant, time: Duration) -> Instant {
        let mut cores = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        cores.spent += time;
        let core = cores.free.iter_mut().min().expect("there is at least one core");
        *core = now.max(*core) + time;
        *core
    }

    pub(super) fn spent(&self) -> Duration {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).spent
    }
}

impl Inner {
    /// Spends the time of encoding or decoding `logical` bytes that are stored as `stored` bytes.
    pub(super) async fn spend(
        &self,
        cx: &Context,
        (logical, stored): (u32, u32),
        compression: Compression,
        is_encoding: bool,
    ) {
        let Some(codec) = &self.codec else { return };
        let CodecCosts { cipher_ps, compress_ps, decompress_ps, .. } = codec.costs;
        let cipher = if self.layout.is_encrypted { u64::from(stored) * cipher_ps } else { 0 };
        let compression = match (is_encoding, compression) {
            // Compression was tried even on data that does not shrink.
            (true, _) if self.layout.compression.compression() != Compression::None => compress_ps,
            (false, Compression::Lz4 | Compression::Zstd) => decompress_ps,
            _ => 0,
        };
        let time = Duration::from_ns((cipher + u64::from(logical) * compression) / 1000);
        if time > Duration::ZERO {
            cx.sleep_until(codec.reserve(cx.now(), time)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_the_core_that_is_free_first() {
        let codec = Codec::new(CodecCosts { cores: 2, cipher_ps: 1, compress_ps: 0, decompress_ps: 0 });
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let ends = [(0, 10), (0, 30), (0, 5), (20, 5)]
            .map(|(now, time)| codec.reserve(at(now), Duration::from_us(time)));
        assert_eq!(ends, [at(10), at(30), at(15), at(25)]);
        assert_eq!(codec.spent(), Duration::from_us(50));
    }
}
