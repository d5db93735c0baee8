//! The system's allocator, which asks for huge pages where much is allocated at once.
//!
//! A map of hundreds of megabytes that is read at random costs a walk through the page tables at nearly every look-up;
//! with pages of 2 MiB it costs none, and is zeroed by the system in fewer steps. Linux gives them by itself only where
//! `/sys/kernel/mm/transparent_hugepage/enabled` says `always`; with `madvise` it has to be asked. Elsewhere, and where the
//! system refuses, memory is as it was. A program chooses it:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: flashlab_block::HugePages = flashlab_block::HugePages;
//! ```
#![allow(unsafe_code, reason = "an allocator is unsafe; all of its work is the system allocator's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;

/// Bytes of a huge page of x86-64, and of ARM with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;
/// Allocations of so many bytes and more are worth the call.
const LARGE: usize = 2 * HUGE_PAGE;

/// An allocator for programs that hold large maps.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePages;

/// Called with the size of an allocation that the system denies.
static ON_FAILURE: OnceLock<fn(usize)> = OnceLock::new();

impl HugePages {
    /// Calls `hook` with the number of bytes whenever the system denies an allocation, before the caller learns of it. The hook must
    /// not allocate. Only the first hook counts.
    pub fn on_failure(hook: fn(usize)) {
        // A second hook is ignored.
        let _ = ON_FAILURE.set(hook);
    }
}

/// Passes `at` on, and tells of an allocation of `size` bytes that failed.
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

// SAFETY: every call goes to `System` with the arguments that came, and what it returns is passed on.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that `System` asks for.
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
        // The system would move the small pages that are there, and they would stay small.
        // SAFETY: the caller promises a layout of that size; what is copied lies in both, and the old one is not used again.
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

/// Asks for huge pages for what lies in whole ones.
#[inline]
fn advise(at: *mut u8, size: usize) -> *mut u8 {
    #[cfg(target_os = "linux")]
    if size >= LARGE && !at.is_null() {
        use rustix::mm::{Advice, madvise};
        let before = at.align_offset(HUGE_PAGE);
        let length = (size - before) / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range lies in an allocation that nobody else knows of yet, and the advice changes no byte of it.
        // Where the system does not take it, nothing is different.
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
        // SAFETY: the layout has a size, the accesses lie in it, and the last pointer is given back with its layout.
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
