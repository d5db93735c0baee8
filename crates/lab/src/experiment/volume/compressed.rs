//! The space that a sample takes after its compression on write, and after its recompression in the background.

use super::simulate::{create, in_memory};
use super::{CompressionSettings, sample};
use flashlab_block::{Answer, BlockDevice, Executor, Io};
use flashlab_volume::encode::Compressor;
use flashlab_volume::{NewMember, Options};

const MIB: u64 = 1 << 20;

/// Returns the stored bytes in percent of the sample: after the writes with LZ4, and after Zstandard in the background.
pub(super) fn measure(settings: CompressionSettings, seed: u64) -> [f64; 2] {
    let CompressionSettings { sample_mib, zstd_level } = settings;
    let text = sample::sources((sample_mib * MIB) as usize, seed);
    let options = Options {
        compression: Compressor::Lz4,
        background_compression: Compressor::Zstd(zstd_level),
        ..Options::new([7; 16])
    };
    let mut executor = Executor::new(seed);
    let cx = executor.context();
    executor.block_on(async move {
        let members = vec![NewMember::new(in_memory(sample_mib + 64))];
        let volume = create(cx.clone(), members, options, None).await;
        let stored = || 100.0 * volume.usage().stored as f64 / text.len() as f64;
        for (n, part) in (0..).zip(text.chunks(MIB as usize)) {
            let write = Io::Write { offset: n * MIB, data: part.to_vec().into(), durable: false };
            volume.start(&cx, write).outcome().await.expect("a device that works");
        }
        let at_once = stored();
        volume.reconcile(&cx, 0, |_| true).await.expect("a device that works");
        let read = Io::Read { offset: 0, buffer: vec![0; MIB as usize] };
        let answer = volume.start(&cx, read).outcome().await.expect("a device that works");
        let Answer::Read(bytes) = answer else { unreachable!("a read has bytes") };
        assert!(bytes[..] == text[..MIB as usize], "recompression keeps the contents");
        [at_once, stored()]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text is not random, so both codecs compress it, Zstandard better than LZ4.
    #[test]
    fn background_compression_replaces_the_result_of_lz4() {
        let [at_once, after] = measure(CompressionSettings { sample_mib: 1, zstd_level: 3 }, 1);
        assert!(at_once < 60.0 && after < 0.8 * at_once, "{at_once} and {after}");
    }
}
