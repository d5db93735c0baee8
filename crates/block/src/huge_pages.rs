//! A global allocator that passes every call to the system's allocator and requests huge pages for large allocations.
//!
//! A random look-up in a map of hundreds of megabytes usually misses the TLB and walks the page tables. Pages of 2 MiB
//! avoid these walks, and the system zeroes them in fewer steps. Linux uses huge pages by default only if
//! `/sys/kernel/mm/transparent_hugepage/enabled` says `always`; with `madvise` a program must request them. On other
//! systems, and where the system denies the request, allocations use ordinary pages. A program selects the allocator:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: flashlab_block::HugePages = flashlab_block::HugePages;
//! ```
#![allow(unsafe_code, reason = "GlobalAlloc is an unsafe trait; the system allocator does all of the work")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;

/// Size of a huge page of x86-64, and of ARM with pages of 4 KiB, in bytes.
const HUGE_PAGE: usize = 2 << 20;
/// Smallest allocation, in bytes, that is worth a call of madvise.
const LARGE: usize = 2 * HUGE_PAGE;

/// An allocator for programs that hold large maps.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePages;

/// Hook that receives the size of an allocation that the system denies.
static ON_FAILURE: OnceLock<fn(usize)> = OnceLock::new();

impl HugePages {
    /// Installs `hook`, which is called with the size in bytes whenever the system denies an allocation, before the
    /// caller receives the null pointer. The hook must not allocate. Only the first hook is installed.
    pub fn on_failure(hook: fn(usize)) {
        // A second hook is ignored.
        let _ = ON_FAILURE.set(hook);
    }
}

/// Returns `at`, and calls the hook if the pointer is null.
#[inline]
fn checked(at: *mut u8, size: usize) -> *mut u8 {
    if at.is_null() {
        failed(size);
    }
    at
}

#[cold]
fn failed(size: usize) {
    if let Some(hook) = ON_FAILURE.get() {
        hook(size);
    }
}

// SAFETY: all memory comes from `System` and returns to it, with the layouts that the callers give.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the same contract that `System` requires.
        advise(checked(unsafe { System.alloc(layout) }, layout.size()), layout.size())
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        advise(checked(unsafe { System.alloc_zeroed(layout) }, layout.size()), layout.size())
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size < LARGE || size <= layout.size() {
            // SAFETY: as above.
            return checked(unsafe { System.realloc(at, layout, size) }, size);
        }
        // `System.realloc` would move the existing small pages, and these would stay small.
        // SAFETY: the caller vouches for the layout and the size. The copied bytes lie in both allocations,
        // and the old allocation is not used again.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                at.copy_to_nonoverlapping(moved, layout.size());
                self.dealloc(at, layout);
            }
            moved
        }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Requests huge pages for the part of an allocation that consists of whole huge pages.
#[inline]
fn advise(at: *mut u8, size: usize) -> *mut u8 {
    #[cfg(target_os = "linux")]
    if size >= LARGE && !at.is_null() {
        use rustix::mm::{Advice, madvise};
        let before = at.align_offset(HUGE_PAGE);
        let length = (size - before) / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range lies in an allocation that no other code knows yet, and the advice changes no
        // byte of it. If the system denies the advice, nothing changes.
        let _refused = unsafe { madvise(at.add(before).cast(), length, Advice::LinuxHugepage) };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_allocations_are_zeroed_keep_their_bytes_and_grow() {
        let layout = Layout::from_size_align(LARGE + 4096, 8).unwrap();
        // SAFETY: the layout has a size above 0, the accesses lie within it, and the last pointer is freed with its own
        // layout.
        unsafe {
            let at = HugePages.alloc_zeroed(layout);
            assert!(!at.is_null());
            assert_eq!((at.read(), at.add(LARGE).read()), (0, 0));
            at.write(1);
            at.add(LARGE).write(2);
            let at = HugePages.realloc(at, layout, 3 * LARGE);
            assert_eq!((at.read(), at.add(LARGE).read()), (1, 2));
            HugePages.dealloc(at, Layout::from_size_align(3 * LARGE, 8).unwrap());
        }
    }
}
