//! Bytes in the caller's memory: [`Callbacks`] are `flashlab_store`, and [`CallerStore`] presents them as a store.

#![allow(
    unsafe_code,
    reason = "calls of functions in C; each block names the caller's obligation that it needs"
)]

use crate::code::{Code, Failure, of_callback};
use crate::export::layout;
use flashlab_device::{Store, StoreError};
use std::ffi::c_void;
use std::ops::Range;

/// Reads bytes from the caller's memory.
pub(crate) type ReadFn = unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> Code;
/// Writes bytes to the caller's memory.
pub(crate) type WriteFn = unsafe extern "C" fn(*mut c_void, u64, *const c_void, usize) -> Code;
/// Makes a range of the caller's memory read as zeroes.
pub(crate) type DiscardFn = unsafe extern "C" fn(*mut c_void, u64, u64) -> Code;
/// Makes the caller's memory durable.
pub(crate) type SyncFn = unsafe extern "C" fn(*mut c_void) -> Code;

/// Functions of the caller that hold the bytes of a device, as C passes them.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Callbacks {
    context: *mut c_void,
    read: Option<ReadFn>,
    write: Option<WriteFn>,
    discard: Option<DiscardFn>,
    sync: Option<SyncFn>,
}

layout! { Callbacks as flashlab_store {
    context: *mut c_void,
    read: Option<ReadFn>,
    write: Option<WriteFn>,
    discard: Option<DiscardFn>,
    sync: Option<SyncFn>,
} }

/// A store whose bytes the caller holds.
#[derive(Clone, Copy)]
pub(crate) struct CallerStore {
    context: *mut c_void,
    read: ReadFn,
    write: WriteFn,
    discard: Option<DiscardFn>,
    sync: Option<SyncFn>,
}

// SAFETY: the header obliges the caller to pass functions that can be called on every thread that uses the handle. A
// handle is in use by one thread at a time, and a device with this store starts no threads.
unsafe impl Send for CallerStore {}
// SAFETY: as above.
unsafe impl Sync for CallerStore {}

impl CallerStore {
    pub(crate) fn new(callbacks: &Callbacks) -> Result<CallerStore, Failure> {
        let Callbacks { context, read, write, discard, sync } = *callbacks;
        Ok(CallerStore {
            context,
            read: read.ok_or_else(|| Failure::null("store->read"))?,
            write: write.ok_or_else(|| Failure::null("store->write"))?,
            discard,
            sync,
        })
    }
}

impl Store for CallerStore {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        // SAFETY: the caller guarantees that the function accepts its context and writes within the buffer, which is
        // writable memory of this length.
        of_callback(unsafe { (self.read)(self.context, offset, buffer.as_mut_ptr().cast(), buffer.len()) })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        // SAFETY: the caller guarantees that the function accepts its context and only reads the bytes, which are
        // readable memory of this length.
        of_callback(unsafe { (self.write)(self.context, offset, bytes.as_ptr().cast(), bytes.len()) })
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        let Some(discard) = self.discard else { return self.write_zeroes(offset, length) };
        // SAFETY: the caller guarantees that the function accepts its context.
        of_callback(unsafe { discard(self.context, offset, length) })
    }

    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        // Any part of the range may contain data: only the caller knows.
        Ok((!range.is_empty()).then_some(range))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let Some(sync) = self.sync else { return Ok(()) };
        // SAFETY: the caller guarantees that the function accepts its context.
        of_callback(unsafe { sync(self.context) })
    }
}

impl CallerStore {
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        const ZEROES: [u8; 4096] = [0; 4096];
        let end = offset.saturating_add(length);
        let mut at = offset;
        while at < end {
            let part = (end - at).min(ZEROES.len() as u64);
            self.write(at, &ZEROES[..part as usize])?;
            at += part;
        }
        Ok(())
    }
}
