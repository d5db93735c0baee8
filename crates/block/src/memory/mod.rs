//! `memory`: a device in the memory of the process. Ranges that were never written, or were discarded, take
//! no memory outside of huge pages in use.
//!
//! The device is divided into chunks of 2 MiB. Each chunk has its own lock, so requests contend only if they touch the
//! same chunk; readers share the lock. A request within one chunk is atomic; a larger one proceeds chunk by chunk. The
//! contents do not outlive the process, so flush and FUA complete immediately.
//!
//! The device requests huge pages and uses them if the system grants them. Huge pages make random access about a
//! fifth faster, but a single written byte then takes up to 2 MiB of memory. [`Pages::Small`] is meant for large,
//! sparsely written devices.

mod chunk;
mod past_caches;

use crate::{Answer, BlockDevice, Context, Extent, Features, Geometry, Io, IoError, Outcome, Started};
use chunk::{CHUNK, Chunk};
use flashlab_sim::{Store, StoreError};
use std::fmt;
use std::ops::Range;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Number of chunks in a group of 1 GiB. The first write to a group creates the locks of all its chunks.
const GROUP: usize = 512;
/// Size of the largest device in bytes: an eighth of a process's address space.
const SIZE_MAX: u64 = 16 << 40;
/// Largest read or write in bytes: twice that of nbd-server, the reference implementation of NBD.
const REQUEST_MAX: u64 = 64 << 20;
/// Smallest device, in bytes, that does not fit into a processor's caches. Writes to such a device bypass the
/// caches, unless they are short (see `past_caches.rs`).
const LARGE: u64 = 64 << 20;
/// Number of bytes that one step of the search for data covers.
const WINDOW: u64 = 64 << 20;

/// Page size of the memory that holds the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// Huge pages if the system grants them: faster.
    #[default]
    Huge,
    /// Pages of 4 KiB: a sparsely written device takes less memory.
    Small,
}

/// A sparse device in memory.
pub struct Memory {
    size: u64,
    pages: Pages,
    groups: Box<[OnceLock<Group>]>,
}

/// Adjacent chunks.
type Group = Box<[RwLock<Chunk>]>;

/// The reason why a device cannot be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryError {
    /// The size is above 16 TiB.
    TooLarge,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::TooLarge => f.write_str("a memory device holds at most 16384GiB"),
        }
    }
}

impl std::error::Error for MemoryError {}

impl Memory {
    /// Creates a device of `size` bytes, all of them zero.
    pub fn new(size: u64, pages: Pages) -> Result<Memory, MemoryError> {
        if size > SIZE_MAX {
            return Err(MemoryError::TooLarge);
        }
        let groups = size.div_ceil((GROUP * CHUNK) as u64);
        Ok(Memory { size, pages, groups: (0..groups).map(|_| OnceLock::new()).collect() })
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut rest = buffer;
        for (chunk, at, end) in parts(offset, rest.len() as u64) {
            let part = rest.split_off_mut(..end - at).expect("parts are no longer than the whole");
            match self.existing_chunk(chunk) {
                Some(lock) => read_lock(lock).read(at, part),
                None => part.fill(0),
            }
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        let mut rest = data;
        for (chunk, at, end) in parts(offset, data.len() as u64) {
            let part = rest.split_off(..end - at).expect("parts are no longer than the whole");
            let mut chunk = write_lock(self.lock(chunk));
            chunk.write(at, part, self.pages, self.size >= LARGE).map_err(|_| IoError::NoSpace)?;
        }
        Ok(())
    }

    fn free(&self, offset: u64, length: u64) {
        for (group, part) in self.split_at_groups(offset, length) {
            let Some(group) = group else { continue };
            for (chunk, at, end) in parts(part.start, part.end - part.start) {
                write_lock(&group[chunk % GROUP]).free(at, end);
            }
        }
    }

    fn allocate_zeroes(&self, offset: u64, length: u64) -> Result<(), IoError> {
        for (chunk, at, end) in parts(offset, length) {
            let mut chunk = write_lock(self.lock(chunk));
            chunk.allocate_zeroes(at, end, self.pages).map_err(|_| IoError::NoSpace)?;
        }
        Ok(())
    }

    fn extents(&self, offset: u64, length: u64) -> Vec<Extent> {
        let mut extents = Vec::new();
        for (group, part) in self.split_at_groups(offset, length) {
            let hole = |length| Extent { length, hole: true, zero: true };
            let Some(group) = group else {
                hole(part.end - part.start).append(&mut extents);
                continue;
            };
            for (chunk, at, end) in parts(part.start, part.end - part.start) {
                read_lock(&group[chunk % GROUP]).extents(at, end, &mut extents);
            }
        }
        extents
    }

    /// Splits the range at group boundaries. Each part comes with its group, or `None` if no chunk of the
    /// group was ever allocated.
    fn split_at_groups(
        &self,
        offset: u64,
        length: u64,
    ) -> impl Iterator<Item = (Option<&Group>, Range<u64>)> {
        const BYTES: u64 = (GROUP * CHUNK) as u64;
        let end = offset + length;
        (offset / BYTES..end.div_ceil(BYTES)).map(move |n| {
            let part = offset.max(n * BYTES)..end.min((n + 1) * BYTES);
            (self.groups[n as usize].get(), part)
        })
    }

    /// Returns the chunk, or `None` if no chunk of its group was ever allocated.
    fn existing_chunk(&self, chunk: usize) -> Option<&RwLock<Chunk>> {
        self.groups[chunk / GROUP].get().map(|group| &group[chunk % GROUP])
    }

    fn lock(&self, chunk: usize) -> &RwLock<Chunk> {
        let group =
            self.groups[chunk / GROUP].get_or_init(|| (0..GROUP).map(|_| RwLock::default()).collect());
        &group[chunk % GROUP]
    }

    fn execute(&self, io: Io) -> Outcome {
        io.check(&self.geometry())?;
        match io {
            Io::Read { offset, mut buffer } => {
                self.read(offset, &mut buffer);
                return Ok(Answer::Read(buffer));
            }
            Io::Write { offset, data, .. } => self.write(offset, &data)?,
            Io::WriteZeroes { offset, length, allocate: true, .. } => self.allocate_zeroes(offset, length)?,
            Io::Discard { offset, length, .. } | Io::WriteZeroes { offset, length, .. } => {
                self.free(offset, length)
            }
            Io::Extents { offset, length } => return Ok(Answer::Extents(self.extents(offset, length))),
            Io::Flush | Io::Cache { .. } => {}
        }
        Ok(Answer::Done)
    }
}

impl BlockDevice for Memory {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.size, block: 1, request_max: REQUEST_MAX }
    }
    fn features(&self) -> Features {
        Features {
            read_only: false,
            discard: true,
            write_zeroes: true,
            extents: true,
            cache: false,
            rotational: false,
            timed: false,
        }
    }
    fn start(&self, _cx: &Context, io: Io) -> Started {
        Started::Done(self.execute(io))
    }
}

impl Store for Memory {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        Memory::read(self, offset, buffer);
        Ok(())
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        Memory::write(self, offset, bytes).map_err(|_| StoreError::NoSpace)
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        self.free(offset, length);
        Ok(())
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        let mut at = range.start;
        // The search covers one window at a time, so that it ends soon after the first data.
        while at < range.end {
            for extent in self.extents(at, WINDOW.min(range.end - at)) {
                if !extent.zero {
                    return Ok(Some(at..at + extent.length));
                }
                at += extent.length;
            }
        }
        Ok(None)
    }
    /// The contents do not outlive the process, so there is nothing to make durable.
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("size", &self.size).field("pages", &self.pages).finish_non_exhaustive()
    }
}

/// Splits a range at chunk boundaries. Returns the index of each chunk, and the start and the end of the part within
/// it.
fn parts(offset: u64, length: u64) -> impl Iterator<Item = (usize, usize, usize)> {
    let (mut from, end) = (offset, offset + length);
    std::iter::from_fn(move || {
        let chunk = from / CHUNK as u64;
        let at = from - chunk * CHUNK as u64;
        let part = (CHUNK as u64 - at).min(end - from);
        from += part;
        (part > 0).then_some((chunk as usize, at as usize, (at + part) as usize))
    })
}

/// Locks a chunk for reading. A panic that poisoned the lock came from a range check, which precedes any change of the
/// chunk.
fn read_lock(lock: &RwLock<Chunk>) -> RwLockReadGuard<'_, Chunk> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write_lock(lock: &RwLock<Chunk>) -> RwLockWriteGuard<'_, Chunk> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
