//! Processor times of a host for the codecs of a volume: ciphers and compression.

use flashlab_sim::Duration;

/// Time that one core takes for 1 KiB of data. `None` means that the time is unknown; the codec then takes no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodecParameters {
    /// Encryption or decryption with ChaCha20-Poly1305, with the tag.
    pub chacha20_poly1305: Option<Duration>,
    /// Encryption or decryption with AES-256-GCM, with the tag.
    pub aes_256_gcm: Option<Duration>,
    /// Compression with LZ4, of uncompressed bytes.
    pub lz4_compress: Option<Duration>,
    /// Decompression with LZ4, of uncompressed bytes.
    pub lz4_decompress: Option<Duration>,
    /// Compression with Zstandard at level 1, of uncompressed bytes.
    pub zstd_compress: Option<Duration>,
    /// Decompression with Zstandard, of uncompressed bytes.
    pub zstd_decompress: Option<Duration>,
}
