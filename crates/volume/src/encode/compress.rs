//! Compression of extents: LZ4 blocks (`lz4_flex`) and Zstandard frames (`zstd`).

use super::DecodeError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use zstd::bulk;

/// Highest level of zstd that needs a moderate amount of memory. The levels above are for large inputs.
pub const LEVEL_MAX: u8 = 19;

/// Algorithm that compressed an extent. The number is the byte on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Compression {
    /// The extent is stored as it is.
    #[default]
    None = 0,
    /// A block of LZ4 without a header.
    Lz4 = 1,
    /// A frame of Zstandard (RFC 8878).
    Zstd = 2,
}

impl Compression {
    /// Returns the name of the algorithm, as options give it.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Returns the algorithm with this number, or `None` if the number is unknown.
    pub fn from_byte(byte: u8) -> Option<Compression> {
        match byte {
            0 => Some(Compression::None),
            1 => Some(Compression::Lz4),
            2 => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Decompresses an extent of `length` bytes. No input makes the function write more than `length` bytes.
    ///
    /// # Errors
    /// Returns [`DecodeError::Damaged`] if the bytes do not decompress to exactly this length.
    pub fn decompress(self, stored: Vec<u8>, length: usize) -> Result<Vec<u8>, DecodeError> {
        let plain = match self {
            Compression::None => stored,
            Compression::Lz4 => {
                let mut plain = vec![0; length];
                let written = lz4_flex::block::decompress_into(&stored, &mut plain);
                plain.truncate(written.map_err(|_| DecodeError::Damaged)?);
                plain
            }
            Compression::Zstd => {
                let mut plain = vec![0; length];
                let written = DECOMPRESSOR.with_borrow_mut(|zstd| {
                    let zstd =
                        zstd.get_or_insert_with(|| bulk::Decompressor::new().expect("memory for zstd"));
                    zstd.decompress_to_buffer(&stored, &mut plain[..])
                });
                plain.truncate(written.map_err(|_| DecodeError::Damaged)?);
                plain
            }
        };
        if plain.len() == length { Ok(plain) } else { Err(DecodeError::Damaged) }
    }
}

thread_local! {
    // A context of zstd holds up to a few megabytes, and its creation takes longer than the compression of an extent.
    // A volume uses up to two levels: one for new data, and one in the background.
    static COMPRESSORS: RefCell<BTreeMap<u8, bulk::Compressor<'static>>> = const { RefCell::new(BTreeMap::new()) };
    static DECOMPRESSOR: RefCell<Option<bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Compression to apply to new extents: `none`, `lz4`, `zstd` or `zstd:LEVEL`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compressor {
    /// Stores data as it is.
    #[default]
    None,
    /// LZ4, fast.
    Lz4,
    /// Zstandard at a level from 1 to [`LEVEL_MAX`].
    Zstd(u8),
}

impl Compressor {
    /// Level for `zstd` if none is given: the default of zstd itself.
    const LEVEL: u8 = 3;

    /// Returns the algorithm.
    pub fn compression(self) -> Compression {
        match self {
            Compressor::None => Compression::None,
            Compressor::Lz4 => Compression::Lz4,
            Compressor::Zstd(_) => Compression::Zstd,
        }
    }

    /// Compresses data. Returns `None` if the compression saves no block of `block` bytes.
    pub(super) fn compress(self, data: &[u8], block: usize) -> Option<Vec<u8>> {
        let limit = data.len().div_ceil(block).saturating_sub(1) * block;
        if limit == 0 {
            return None;
        }
        match self {
            Compressor::None => None,
            Compressor::Lz4 => Some(lz4_flex::block::compress(data)).filter(|bytes| bytes.len() <= limit),
            Compressor::Zstd(level) => COMPRESSORS.with_borrow_mut(|contexts| {
                let new = || bulk::Compressor::new(level.into()).expect("memory for zstd");
                let zstd = contexts.entry(level).or_insert_with(new);
                let mut bytes = vec![0; limit];
                // The only possible error is that the limit is too small.
                let written = zstd.compress_to_buffer(data, &mut bytes[..]).ok()?;
                bytes.truncate(written);
                Some(bytes)
            }),
        }
    }
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compressor::None => f.write_str("none"),
            Compressor::Lz4 => f.write_str("lz4"),
            Compressor::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compressor {
    type Err = String;

    fn from_str(text: &str) -> Result<Compressor, String> {
        let level = |level: &str| level.parse().ok().filter(|level| (1..=LEVEL_MAX).contains(level));
        match text.split_once(':') {
            None if text == "none" => Ok(Compressor::None),
            None if text == "lz4" => Ok(Compressor::Lz4),
            None if text == "zstd" => Ok(Compressor::Zstd(Compressor::LEVEL)),
            Some(("zstd", text)) if level(text).is_some() => {
                Ok(Compressor::Zstd(level(text).expect("parsed")))
            }
            _ => Err(format!(
                "'{text}': expected none, lz4, zstd or zstd:LEVEL with a level from 1 to {LEVEL_MAX}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Compressor; 4] =
        [Compressor::None, Compressor::Lz4, Compressor::Zstd(1), Compressor::Zstd(LEVEL_MAX)];

    #[test]
    fn text_and_compressor_convert_both_ways() {
        for compressor in ALL {
            assert_eq!(compressor.to_string().parse(), Ok(compressor));
            assert_eq!(
                Compression::from_byte(compressor.compression() as u8),
                Some(compressor.compression())
            );
        }
        assert_eq!("zstd".parse(), Ok(Compressor::Zstd(3)));
        for wrong in ["", "gzip", "zstd:0", "zstd:20", "zstd:", "lz4:1", "none:", "zstd:+3x"] {
            assert!(wrong.parse::<Compressor>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn data_that_saves_no_block_stays_uncompressed() {
        // Compressed, 4 KiB of a repeated byte fit into one block of 512 bytes. With blocks of 4 KiB, the
        // compression saves no block.
        for compressor in &ALL[1..] {
            let compressed = compressor.compress(&[5; 4096], 512).expect("saves seven blocks");
            assert!(compressed.len() <= 512);
            assert_eq!(compressor.compress(&[5; 4096], 4096), None);
            assert_eq!(compressor.compress(&[], 512), None);
        }
    }

    #[test]
    fn a_decompression_bomb_is_an_error_at_the_stated_length() {
        let bomb = vec![0; 16 << 20];
        let lz4 = lz4_flex::block::compress(&bomb);
        let zstd = zstd::bulk::compress(&bomb, 3).expect("memory");
        for (compression, bytes) in [(Compression::Lz4, lz4), (Compression::Zstd, zstd)] {
            assert_eq!(compression.decompress(bytes.clone(), 4096), Err(DecodeError::Damaged));
            assert_eq!(compression.decompress(bytes.clone(), bomb.len() + 1), Err(DecodeError::Damaged));
            assert_eq!(compression.decompress(bytes, bomb.len()).map(|plain| plain.len()), Ok(bomb.len()));
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_decompress_to_the_stated_length_or_not_at_all(
            bytes in prop::collection::vec(any::<u8>(), 0..600), length in 0usize..2000,
        ) {
            for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
                if let Ok(plain) = compression.decompress(bytes.clone(), length) {
                    prop_assert_eq!(plain.len(), length);
                }
            }
        }
    }
}
