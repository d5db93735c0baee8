//! A cache prefetch: the only unsafe code in the pure crates.

/// Prefetches the cache line of `slice[index]`.
///
/// Does nothing if the index is out of range or the target is not x86-64. The program's visible state never
/// changes.
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
