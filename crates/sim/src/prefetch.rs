//! The one unsafe line of the pure crates: a hint to the processor's cache.

/// Asks the processor to load the cache line of `slice[index]`; does nothing where the index is out of range or the
/// processor has no such instruction. It changes no state that a program can see.
#[inline]
#[allow(unsafe_code, reason = "a prefetch instruction has no safe form; it cannot fault and changes nothing")]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(index) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer comes from a live reference, and PREFETCHT0 never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(element).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
