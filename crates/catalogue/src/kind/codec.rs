//! The codecs of a volume on a host: a section that every kind of host has.

use super::Parts;
use crate::profile::parameter::*;
use flashlab_host::CodecParameters;

pub(super) fn blank(parts: &mut Parts) {
    parts.insert(CodecParameters::default());
}

pub(super) const TABLE: &[Parameter] = &[
    optional!("codec.t_chacha20_poly1305", TimeOrNone CodecParameters.chacha20_poly1305, TEN_SECONDS,
    "Time in which one core encrypts or decrypts 1 KiB of a volume with ChaCha20-Poly1305, with the tag.",
    "unknown: the codec takes no time, and results say so"),
    optional!("codec.t_aes_256_gcm", TimeOrNone CodecParameters.aes_256_gcm, TEN_SECONDS,
    "Time in which one core encrypts or decrypts 1 KiB of a volume with AES-256-GCM, with the tag.",
    "unknown: the codec takes no time, and results say so"),
    optional!("codec.t_lz4_compress", TimeOrNone CodecParameters.lz4_compress, TEN_SECONDS,
    "Time in which one core compresses 1 KiB with LZ4.",
    "unknown: the codec takes no time, and results say so"),
    optional!("codec.t_lz4_decompress", TimeOrNone CodecParameters.lz4_decompress, TEN_SECONDS,
    "Time in which one core decompresses 1 KiB (its length after decompression) with LZ4.",
    "unknown: the codec takes no time, and results say so"),
    optional!("codec.t_zstd_compress", TimeOrNone CodecParameters.zstd_compress, TEN_SECONDS,
    "Time in which one core compresses 1 KiB with Zstandard at level 1; other levels take a multiple (docs/volume.md).",
    "unknown: the codec takes no time, and results say so"),
    optional!("codec.t_zstd_decompress", TimeOrNone CodecParameters.zstd_decompress, TEN_SECONDS,
    "Time in which one core decompresses 1 KiB (its length after decompression) with Zstandard.",
    "unknown: the codec takes no time, and results say so"),
];
