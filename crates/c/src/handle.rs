//! Opaque handles: memory that the library owns and C names by a pointer.
//!
//! A handle is lent to one call at a time. A second call, from a callback or from another thread, is an error and not a
//! data race. A call that panics leaves the handle unusable, because the value may be inconsistent; the caller can
//! still close it.

#![allow(
    unsafe_code,
    reason = "handles are pointers from C; each block names the caller's obligation that it needs"
)]

use crate::code::{Code, Failure};
use crate::pointer::Place;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};

const FREE: u8 = 0;
const IN_USE: u8 = 1;
const BROKEN: u8 = 2;

/// A value and its state: free, in use by a call, or broken by a panic.
pub(crate) struct Handle<T> {
    state: AtomicU8,
    value: UnsafeCell<T>,
}

/// A handle as C passes it: null, or a pointer that [`Place::put_handle`] passed to C and that has not been closed
/// since.
#[repr(transparent)]
pub(crate) struct HandleRef<T>(*mut Handle<T>);

impl<T> Place<'_, HandleRef<T>> {
    /// Moves the value to the heap and passes its handle to C, which may use the handle on any thread.
    pub(crate) fn put_handle(self, value: T)
    where
        T: Send,
    {
        let handle = Handle { state: AtomicU8::new(FREE), value: UnsafeCell::new(value) };
        self.put(HandleRef(Box::into_raw(Box::new(handle))));
    }

    /// Writes null to the place, so that C can close the handle even if the function fails, and returns the place.
    pub(crate) fn cleared(mut self) -> Self {
        self.set(HandleRef(std::ptr::null_mut()));
        self
    }
}

impl<T> HandleRef<T> {
    /// Returns true if the caller passed no handle.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Marks the handle as in use until the result is dropped.
    pub(crate) fn lend(&self, name: &str) -> Result<Lent<'_, T>, Failure> {
        if self.0.is_null() {
            return Err(Failure::null(name));
        }
        if !self.0.is_aligned() {
            return Err(Failure::argument(format_args!("{name} is not a handle of this library")));
        }
        // SAFETY: the caller guarantees that the handle comes from this library and is not closed. Every access to its
        // value goes through the state.
        let handle = unsafe { &*self.0 };
        match handle.state.compare_exchange(FREE, IN_USE, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Lent(handle)),
            Err(BROKEN) => Err(Failure::new(
                Code::ERROR_PANIC,
                format_args!("an earlier call for this {name} failed inside the library; close it"),
            )),
            Err(_) => Err(Failure::new(
                Code::ERROR_IN_USE,
                format_args!("{name} is in use by another call, in a callback or in another thread"),
            )),
        }
    }

    /// Destroys the handle. Null has no effect. A handle in use is not destroyed, because the call
    /// that uses it would access freed memory.
    pub(crate) fn close(self) {
        if self.0.is_null() || !self.0.is_aligned() {
            return;
        }
        // SAFETY: as in `lend`.
        let state = unsafe { &(*self.0).state };
        if state.swap(IN_USE, Ordering::Acquire) != IN_USE {
            // SAFETY: `put_handle` allocated the handle with `Box`, no call uses it, and the caller does not use the
            // pointer again.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

/// The value of a handle in use.
pub(crate) struct Lent<'a, T>(&'a Handle<T>);

impl<T> Deref for Lent<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the state is `IN_USE`, so this is the only access until `drop`.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Lent<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the state is `IN_USE`, so this is the only access until `drop`.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        let state = if std::thread::panicking() { BROKEN } else { FREE };
        self.0.state.store(state, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
