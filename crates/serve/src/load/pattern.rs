//! Verifiable block contents, which reveal lost, misplaced, stale and torn blocks.
//!
//! A block begins with its own offset and its generation, which counts the writes to this offset. The remaining bytes
//! are pseudo-random and depend on the offset, the generation and the seed.

use flashlab_sim::mix;

/// Length of a block's header in bytes. A verifiable block is longer than its header.
pub(super) const HEADER: usize = 16;

/// Fills a block with the contents for `offset` and `generation`.
pub(super) fn fill(block: &mut [u8], seed: u64, offset: u64, generation: u64) {
    let (header, body) = block.split_at_mut(HEADER);
    header[..8].copy_from_slice(&offset.to_le_bytes());
    header[8..].copy_from_slice(&generation.to_le_bytes());
    for (word, value) in body.chunks_exact_mut(8).zip(words(seed, offset, generation)) {
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// Verifies a block that was read at `offset`. Returns its generation, which is 0 for a block of zeroes, or
/// the kind of corruption.
pub(super) fn check(block: &[u8], seed: u64, offset: u64) -> Result<u64, Mismatch> {
    let (header, body) = block.split_at(HEADER);
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let generation = number(8);
    if generation == 0 && block.iter().all(|byte| *byte == 0) {
        return Ok(0);
    }
    if number(0) != offset {
        return Err(Mismatch::OtherOffset(number(0)));
    }
    let mut parts = body.chunks_exact(8).zip(words(seed, offset, generation));
    match parts.position(|(word, value)| *word != value.to_le_bytes()) {
        Some(word) => Err(Mismatch::Byte((HEADER + word * 8) as u64)),
        None => Ok(generation),
    }
}

/// Kind of corruption of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mismatch {
    /// The header contains this other offset.
    OtherOffset(u64),
    /// The first word that differs begins at this byte.
    Byte(u64),
}

fn words(seed: u64, offset: u64, generation: u64) -> impl Iterator<Item = u64> {
    let mut state = mix(seed ^ mix(offset ^ mix(generation)));
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_reveals_its_generation_and_every_change() {
        let mut block = vec![0; 512];
        assert_eq!(check(&block, 1, 4096), Ok(0));
        fill(&mut block, 1, 4096, 7);
        assert_eq!(check(&block, 1, 4096), Ok(7));
        assert_eq!(check(&block, 1, 8192), Err(Mismatch::OtherOffset(4096)));
        assert!(check(&block, 2, 4096).is_err());
        for at in 0..block.len() {
            block[at] ^= 0x10;
            assert!(check(&block, 1, 4096).is_err(), "byte {at}");
            block[at] ^= 0x10;
        }
    }
}
