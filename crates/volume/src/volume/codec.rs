//! Time that ciphers and compression take on a host, for simulations.
//!
//! The engine runs in zero simulated time. With [`CodecCosts`], each extent occupies a core for a time that depends on
//! its length, and waits if all cores are busy. The request that waits is told how long, by mechanism
//! ([`Context::charge`]). Live volumes have no costs: their codecs take real time.
//!
//! Checksums, and the encryption of journal and map, take no time.

use super::{Inner, Volume};
use crate::encode::{Compression, Compressor};
use crate::keys::Cipher;
use flashlab_block::Context;
use flashlab_sim::{Duration, Instant, Mechanism};
use std::sync::{Mutex, PoisonError};

/// Time of Zstandard at levels 1, 2, 3 and so on, in per cent of its time at level 1. Measured on an AMD EPYC as the
/// processor time of zstd 1.5.4 for files of 64 KiB, parts of programs, texts and sources.
const ZSTD_LEVELS_PERCENT: [u64; 19] =
    [100, 76, 160, 140, 380, 390, 490, 560, 600, 800, 1800, 2200, 2900, 4000, 4800, 7500, 8200, 9500, 16_000];

/// Number of cores, and costs of codecs in picoseconds for each byte of data. A cost of zero takes no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodecCosts {
    /// Number of cores that encode and decode; at least one is used.
    pub cores: u32,
    /// Encryption or decryption of a stored byte with ChaCha20-Poly1305, with the tag.
    pub chacha20_poly1305_ps: u64,
    /// Encryption or decryption of a stored byte with AES-256-GCM, with the tag.
    pub aes_256_gcm_ps: u64,
    /// Compression of a logical byte with LZ4.
    pub lz4_compress_ps: u64,
    /// Decompression of a logical byte with LZ4.
    pub lz4_decompress_ps: u64,
    /// Compression of a logical byte with Zstandard at level 1. Other levels take a multiple of this time.
    pub zstd_compress_ps: u64,
    /// Decompression of a logical byte with Zstandard.
    pub zstd_decompress_ps: u64,
}

impl CodecCosts {
    /// Returns the cost of encryption or decryption for a stored byte.
    pub fn cipher_ps(&self, cipher: Cipher) -> u64 {
        match cipher {
            Cipher::ChaCha20Poly1305 => self.chacha20_poly1305_ps,
            Cipher::Aes256Gcm => self.aes_256_gcm_ps,
        }
    }

    /// Returns the cost of compression for a logical byte.
    pub fn compress_ps(&self, compressor: Compressor) -> u64 {
        match compressor {
            Compressor::None => 0,
            Compressor::Lz4 => self.lz4_compress_ps,
            Compressor::Zstd(level) => {
                let last = ZSTD_LEVELS_PERCENT.len();
                self.zstd_compress_ps * ZSTD_LEVELS_PERCENT[usize::from(level).clamp(1, last) - 1] / 100
            }
        }
    }

    /// Returns the cost of decompression for a logical byte.
    pub fn decompress_ps(&self, compression: Compression) -> u64 {
        match compression {
            Compression::None => 0,
            Compression::Lz4 => self.lz4_decompress_ps,
            Compression::Zstd => self.zstd_decompress_ps,
        }
    }
}

/// Processor time of the codecs of a simulated volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodecTimes {
    /// Time of encryption and decryption.
    pub cipher: Duration,
    /// Time of compression.
    pub compression: Duration,
    /// Time of decompression.
    pub decompression: Duration,
}

impl CodecTimes {
    /// Returns the time of all codecs.
    pub fn total(&self) -> Duration {
        self.cipher + self.compression + self.decompression
    }
}

/// Work on one extent. Lengths are in bytes: `logical` before compression, `stored` as on the member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// Compression, which may have been tried in vain, and encryption.
    Encode { compressor: Compressor, logical: u64, stored: u64 },
    /// Decryption and decompression.
    Decode { compression: Compression, logical: u64, stored: u64 },
}

/// The cores of a simulated host.
#[derive(Debug)]
pub(super) struct Codec {
    costs: CodecCosts,
    state: Mutex<Cores>,
}

#[derive(Debug)]
struct Cores {
    /// Instant at which each core is free.
    free: Vec<Instant>,
    spent: CodecTimes,
}

impl Codec {
    pub(super) fn new(costs: CodecCosts) -> Codec {
        let free = vec![Instant::ZERO; costs.cores.max(1) as usize];
        Codec { costs, state: Mutex::new(Cores { free, spent: CodecTimes::default() }) }
    }

    /// Returns the steps of a work in their order, with their mechanisms and times. `cipher` is `None` for a volume without
    /// encryption.
    fn steps(&self, work: Work, cipher: Option<Cipher>) -> [(Mechanism, Duration); 2] {
        let time = |bytes: u64, ps: u64| Duration::from_ns(bytes * ps / 1000);
        let cipher = |stored| {
            let ps = cipher.map_or(0, |cipher| self.costs.cipher_ps(cipher));
            (Mechanism::Cipher, time(stored, ps))
        };
        match work {
            Work::Encode { compressor, logical, stored } => {
                let compression = time(logical, self.costs.compress_ps(compressor));
                [(Mechanism::Compression, compression), cipher(stored)]
            }
            Work::Decode { compression, logical, stored } => {
                let decompression = time(logical, self.costs.decompress_ps(compression));
                [cipher(stored), (Mechanism::Decompression, decompression)]
            }
        }
    }

    /// Occupies the core that becomes free first. Returns the start and the end of the work.
    fn reserve(&self, now: Instant, steps: &[(Mechanism, Duration)]) -> (Instant, Instant) {
        let mut cores = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (mechanism, time) in steps {
            match mechanism {
                Mechanism::Compression => cores.spent.compression += *time,
                Mechanism::Decompression => cores.spent.decompression += *time,
                _ => cores.spent.cipher += *time,
            }
        }
        let core = cores.free.iter_mut().min().expect("there is at least one core");
        let begin = now.max(*core);
        *core = steps.iter().fold(begin, |at, (_, time)| at + *time);
        (begin, *core)
    }

    pub(super) fn spent(&self) -> CodecTimes {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).spent
    }
}

impl Volume {
    /// Returns the processor time that codecs spent in a simulation; zero without
    /// [`OpenOptions::codec`](super::OpenOptions::codec).
    pub fn codec_times(&self) -> CodecTimes {
        self.gate.current().codec.as_ref().map_or(CodecTimes::default(), Codec::spent)
    }

    /// Returns the cipher of an encrypted volume.
    pub fn cipher(&self) -> Option<Cipher> {
        self.gate.current().cipher()
    }
}

impl Inner {
    fn cipher(&self) -> Option<Cipher> {
        self.encoding.keyring.as_ref().map(|keyring| keyring.cipher())
    }

    /// Returns true if the decryption of stored bytes takes no simulated time.
    pub(super) fn decrypts_for_free(&self) -> bool {
        let ps = |codec: &Codec| self.cipher().map_or(0, |cipher| codec.costs.cipher_ps(cipher));
        self.codec.as_ref().map_or(0, ps) == 0
    }

    /// Spends the simulated time of a work, and charges it to the request. Without an executor, no time passes.
    pub(super) async fn spend(&self, cx: &Context, work: Work) {
        let Some(codec) = self.codec.as_ref().filter(|_| cx.has_executor()) else { return };
        let steps = codec.steps(work, self.cipher());
        if steps.iter().all(|(_, time)| *time == Duration::ZERO) {
            return;
        }
        let now = cx.now();
        let (begin, end) = codec.reserve(now, &steps);
        cx.charge(Mechanism::Queue, now, begin);
        let mut at = begin;
        for (mechanism, time) in steps {
            cx.charge(mechanism, at, at + time);
            at += time;
        }
        cx.sleep_until(end).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_the_core_that_is_free_first() {
        let codec = Codec::new(CodecCosts { cores: 2, ..CodecCosts::default() });
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let spans = [(0, 10), (0, 30), (0, 5), (20, 5)]
            .map(|(now, time)| codec.reserve(at(now), &[(Mechanism::Cipher, Duration::from_us(time))]));
        assert_eq!(
            spans,
            [(at(0), at(10)), (at(0), at(30)), (at(10), at(15)), (at(20), at(25))],
            "two cores work at a time"
        );
        assert_eq!(codec.spent().total(), Duration::from_us(50));
    }

    #[test]
    fn each_codec_has_a_cost_of_its_own_and_compression_precedes_encryption() {
        let costs = CodecCosts {
            cores: 1,
            chacha20_poly1305_ps: 8_000,
            aes_256_gcm_ps: 40_000,
            lz4_compress_ps: 6_000,
            lz4_decompress_ps: 1_000,
            zstd_compress_ps: 9_000,
            zstd_decompress_ps: 3_000,
        };
        let codec = Codec::new(costs);
        let ns = |steps: [(Mechanism, Duration); 2]| steps.map(|(mechanism, time)| (mechanism, time.as_ns()));
        let encode = |compressor| Work::Encode { compressor, logical: 1000, stored: 500 };
        let decode = |compression| Work::Decode { compression, logical: 1000, stored: 500 };
        let lz4 = codec.steps(encode(Compressor::Lz4), Some(Cipher::ChaCha20Poly1305));
        assert_eq!(ns(lz4), [(Mechanism::Compression, 6_000), (Mechanism::Cipher, 4_000)]);
        let zstd = codec.steps(encode(Compressor::Zstd(1)), None);
        assert_eq!(ns(zstd), [(Mechanism::Compression, 9_000), (Mechanism::Cipher, 0)]);
        let read = codec.steps(decode(Compression::Zstd), Some(Cipher::Aes256Gcm));
        assert_eq!(ns(read), [(Mechanism::Cipher, 20_000), (Mechanism::Decompression, 3_000)]);
        let read = codec.steps(decode(Compression::Lz4), None);
        assert_eq!(ns(read), [(Mechanism::Cipher, 0), (Mechanism::Decompression, 1_000)]);
        let levels: Vec<u64> = (1..=19).map(|level| costs.compress_ps(Compressor::Zstd(level))).collect();
        assert!(levels[3..].is_sorted() && levels[14] > 40 * levels[0], "levels take longer: {levels:?}");
    }
}
