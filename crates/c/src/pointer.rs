//! Pointers that C passes to an exported function.
//!
//! Each type here is a raw pointer in the ABI, and only C creates its values (tests also create null pointers
//! and pointers to values of their own). The header obliges the caller: a pointer is null, or valid for its
//! type, for the given length and for the duration of the call. An output does not overlap an input, except
//! where the header permits it. Under this obligation the methods are safe: they check what can be checked,
//! which is null, alignment and length.

#![allow(
    unsafe_code,
    reason = "pointers from C; each block names the part of the caller's obligation that it needs"
)]

use crate::code::Failure;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;

/// Largest length of an array in memory.
const LENGTH_MAX: usize = isize::MAX as usize;

/// A pointer to a value that the function reads: `const T *`.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Returns true if the caller passed no value.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Returns the value.
    pub(crate) fn get(&self, name: &str) -> Result<T, Failure> {
        check(self.0, name)?;
        // SAFETY: the pointer is aligned and not null, and the caller guarantees that it points to a `T`.
        // Every bit pattern of the types in use is valid, because these types consist of integers, pointers
        // and nullable function pointers.
        Ok(unsafe { self.0.read() })
    }
}

/// A pointer to memory to which the function writes a value: `T *`.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// Checked memory for a value.
pub(crate) struct Place<'a, T>(*mut T, PhantomData<&'a ()>);

impl<T> Out<T> {
    /// Checks the pointer before the function takes effect.
    pub(crate) fn place(&self, name: &str) -> Result<Place<'_, T>, Failure> {
        check(self.0, name)?;
        Ok(Place(self.0, PhantomData))
    }

    /// Writes the value unless the pointer is null or misaligned.
    pub(crate) fn put_if_given(&self, value: T) {
        if let Ok(place) = self.place("") {
            place.put(value);
        }
    }
}

impl<T> Place<'_, T> {
    /// Writes the value, without dropping what was there.
    pub(crate) fn put(mut self, value: T) {
        self.set(value);
    }

    /// Writes the value and keeps the place, so that a later value can replace it.
    pub(crate) fn set(&mut self, value: T) {
        // SAFETY: the pointer is aligned and not null. The caller guarantees that the memory of a `T` is
        // writable for the duration of the call, and the place does not outlive the call. The memory need not
        // be initialised.
        unsafe { self.0.write(value) };
    }
}

/// A null-terminated text: `const char *`.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Returns the text, which must be UTF-8.
    pub(crate) fn get(&self, name: &str) -> Result<&str, Failure> {
        check(self.0, name)?;
        // SAFETY: the pointer is not null, and the caller guarantees that a null byte ends the text.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|error| Failure::argument(format_args!("{name} is not UTF-8: {error}")))
    }
}

/// Bytes that the function reads: `const void *`.
#[repr(transparent)]
pub(crate) struct BytesIn(*const c_void);

impl BytesIn {
    /// Wraps a pointer from a structure that C passed.
    pub(crate) fn of(pointer: *const c_void) -> BytesIn {
        BytesIn(pointer)
    }

    /// Returns the bytes. The pointer may be null if there are none.
    pub(crate) fn get(&self, name: &str, length: usize) -> Result<&[u8], Failure> {
        if length == 0 {
            return Ok(&[]);
        }
        check(self.0.cast::<u8>(), name)?;
        check_length(length, name)?;
        // SAFETY: the pointer is not null, the length does not exceed the address space, and the caller guarantees that
        // this many bytes are readable and do not change during the call.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), length) })
    }

    /// Returns the pointer for [`exchange`]; `None` if it is null.
    pub(crate) fn bytes(&self) -> Option<*const u8> {
        (!self.0.is_null()).then_some(self.0.cast())
    }
}

/// Memory for bytes that the function writes: `void *`.
#[repr(transparent)]
pub(crate) struct BytesOut(*mut c_void);

impl BytesOut {
    /// Fills the memory with zeroes and returns it. The pointer may be null if the length is 0.
    pub(crate) fn zeroed(&mut self, name: &str, length: usize) -> Result<&mut [u8], Failure> {
        if length == 0 {
            return Ok(&mut []);
        }
        check(self.0.cast::<u8>(), name)?;
        check_length(length, name)?;
        // SAFETY: the pointer is not null, the length does not exceed the address space, and the caller guarantees that
        // this many bytes are writable. After `write_bytes` they are initialised.
        Ok(unsafe {
            std::ptr::write_bytes(self.0.cast::<u8>(), 0, length);
            std::slice::from_raw_parts_mut(self.0.cast(), length)
        })
    }
}

/// Exchanges `length` bytes: passes each byte of `sent` to `exchange` and writes its answer to `received`, which may be
/// the same memory. Sends 0xff if `sent` is null; discards the answers if `received` is null.
pub(crate) fn exchange(
    sent: &BytesIn,
    received: &BytesOut,
    length: usize,
    mut exchange: impl FnMut(u8) -> u8,
) -> Result<(), Failure> {
    check_length(length, "length")?;
    let sent = sent.bytes();
    let received = (!received.0.is_null()).then_some(received.0.cast::<u8>());
    for n in 0..length {
        // SAFETY: the caller guarantees that `length` bytes are readable at `sent` and writable at `received`. No
        // reference to either exists, so they may be the same memory.
        unsafe {
            let answer = exchange(sent.map_or(0xff, |sent| sent.add(n).read()));
            if let Some(received) = received {
                received.add(n).write(answer);
            }
        }
    }
    Ok(())
}

/// An array to which the function writes: `T *`, with the number of its elements in another argument.
#[repr(transparent)]
pub(crate) struct ArrayOut<T>(*mut T);

impl<T: Copy> ArrayOut<T> {
    /// Writes as many of `values` as the array has room for. The pointer may be null if the capacity is 0.
    pub(crate) fn fill(&self, name: &str, capacity: usize, values: &[T]) -> Result<(), Failure> {
        if capacity == 0 {
            return Ok(());
        }
        check(self.0, name)?;
        let count = capacity.min(values.len());
        // SAFETY: the pointer is aligned and not null, and the caller guarantees room for `capacity` elements, which do
        // not overlap `values`, since the library owns `values`.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.0, count) };
        Ok(())
    }
}

/// A pointer to constant memory of the library: `const T *`.
#[repr(transparent)]
pub(crate) struct Constant<T>(*const T);

impl Constant<c_char> {
    pub(crate) fn text(text: &'static CStr) -> Constant<c_char> {
        Constant(text.as_ptr())
    }
}

impl<T> Default for Constant<T> {
    fn default() -> Self {
        Constant(std::ptr::null())
    }
}

fn check<T>(pointer: *const T, name: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::null(name));
    }
    if !pointer.is_aligned() {
        let align = align_of::<T>();
        return Err(Failure::argument(format_args!("{name} is not aligned to {align} bytes")));
    }
    Ok(())
}

fn check_length(length: usize, name: &str) -> Result<(), Failure> {
    if length > LENGTH_MAX {
        return Err(Failure::argument(format_args!(
            "the length of {name} is {length}, which exceeds the address space; is it a negative number?"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
