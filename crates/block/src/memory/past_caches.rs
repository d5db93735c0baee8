//! Copies that bypass the processor's caches at the destination, on x86-64.
//!
//! An ordinary store first reads the cache line that it changes. If the device is larger than the caches, this read
//! causes as much memory traffic as the write itself, and the copy waits for it. A copy of 4 KiB to a random place
//! takes 0.45 to 0.6 us with ordinary stores, and 0.25 us with stores that bypass the caches (measured on an EPYC of
//! 2023). Reads have no such bypass.

#![allow(unsafe_code, reason = "non-temporal stores take a pointer; there is no safe form of them")]

/// Length in bytes of the shortest copy that benefits from these stores. Too many of the cache lines of a shorter copy
/// are written only in part.
const BYTES_MIN: usize = 1024;

/// Copies `from` to `to`.
///
/// # Panics
/// Panics if the lengths of the two slices differ.
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if to.len() >= BYTES_MIN {
        return stream(to, from);
    }
    to.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
fn stream(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORD: usize = size_of::<__m128i>();
    assert_eq!(to.len(), from.len(), "the slices have different lengths");
    let head = to.as_ptr().align_offset(WORD);
    let (to_head, to) = to.split_at_mut(head);
    let (from_head, from) = from.split_at(head);
    to_head.copy_from_slice(from_head);
    let (to_words, to_tail) = to.as_chunks_mut::<WORD>();
    let (from_words, from_tail) = from.as_chunks::<WORD>();
    for (to, from) in to_words.iter_mut().zip(from_words) {
        // SAFETY: both places have 16 bytes, and every bit pattern is valid in them. `to` is borrowed exclusively and,
        // since the head was split off, aligned to 16. SSE2 is a part of x86-64.
        unsafe { _mm_stream_si128(to.as_mut_ptr().cast(), _mm_loadu_si128(from.as_ptr().cast())) };
    }
    // Non-temporal stores are weakly ordered. The fence orders them before the release of the chunk's lock, so that the
    // next holder of the lock sees them.
    // SAFETY: the fence touches no memory, and SSE is a part of x86-64.
    unsafe { _mm_sfence() };
    to_tail.copy_from_slice(from_tail);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_short_and_long_slices_at_any_alignment_change_exactly_their_bytes() {
        let from: Vec<u8> = (0..2 * BYTES_MIN).map(|n| (n % 251) as u8).collect();
        for at in 0..65 {
            for length in [0, 1, 63, BYTES_MIN - 1, BYTES_MIN, BYTES_MIN + 1, BYTES_MIN + 15, BYTES_MIN + 77]
            {
                let mut to = vec![0xff; 2 * BYTES_MIN];
                copy(&mut to[at..at + length], &from[at / 2..at / 2 + length]);
                let mut expected = vec![0xff; 2 * BYTES_MIN];
                expected[at..at + length].copy_from_slice(&from[at / 2..at / 2 + length]);
                assert!(to == expected, "{length} bytes at {at}");
            }
        }
    }
}
