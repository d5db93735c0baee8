//! The ioctl BLKDISCARD, which rustix does not wrap.

use rustix::ioctl::{Setter, ioctl, opcode};
use std::fs::File;
use std::io;

/// `BLKDISCARD`, `_IO(0x12, 119)` in linux/fs.h.
const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);

/// Discards a range of a block device.
#[allow(unsafe_code, reason = "an ioctl has no safe interface")]
pub(crate) fn discard(device: &File, offset: u64, length: u64) -> io::Result<()> {
    // SAFETY: BLKDISCARD reads two 64-bit numbers, the first byte and the length, from the pointer that it gets.
    // `Setter` passes a pointer to the array, which lives until the call returns.
    let result = unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new([offset, length])) };
    result.map_err(io::Error::from)
}
