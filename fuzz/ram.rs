//! A member of a volume in memory, which a target damages and restores.

use flashlab_block::{Answer, BlockDevice, Context, Features, Geometry, Io, IoError, Outcome, Started};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Size of a sector of the device in bytes.
pub(crate) const SECTOR: usize = 512;
/// Unit in which changes are restored, in bytes.
const PAGE: usize = 4096;

/// A device in memory. Clones share the bytes.
#[derive(Clone)]
pub(crate) struct Ram(Arc<Mutex<Contents>>);

struct Contents {
    bytes: Vec<u8>,
    original: Vec<u8>,
    changed: BTreeSet<usize>,
    unreadable: BTreeSet<usize>,
}

impl Ram {
    /// Creates a device of `size` zeroes.
    pub(crate) fn new(size: usize) -> Ram {
        let contents = Contents {
            bytes: vec![0; size],
            original: vec![0; size],
            changed: BTreeSet::new(),
            unreadable: BTreeSet::new(),
        };
        Ram(Arc::new(Mutex::new(contents)))
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().expect("one thread")
    }

    /// Returns all bytes.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    /// Makes the present bytes those that [`Ram::restore`] restores.
    pub(crate) fn keep(&self) {
        let mut contents = self.lock();
        contents.original = contents.bytes.clone();
        contents.changed.clear();
    }

    /// Undoes all changes and damage since [`Ram::keep`].
    pub(crate) fn restore(&self) {
        let contents = &mut *self.lock();
        for page in std::mem::take(&mut contents.changed) {
            let range = page * PAGE..((page + 1) * PAGE).min(contents.bytes.len());
            contents.bytes[range.clone()].copy_from_slice(&contents.original[range]);
        }
        contents.unreadable.clear();
    }

    /// Calls `with` with the bytes of a range, which may change.
    pub(crate) fn change(&self, range: Range<usize>, with: impl FnOnce(&mut [u8])) {
        let mut contents = self.lock();
        contents.changed.extend(range.start / PAGE..range.end.div_ceil(PAGE));
        with(&mut contents.bytes[range]);
    }

    /// Makes the sector with this byte unreadable until it is written.
    pub(crate) fn spoil(&self, at: usize) {
        self.lock().unreadable.insert(at / SECTOR);
    }

    /// Calls `with` with the bytes of a range, and true if all of them can be read.
    pub(crate) fn look<T>(&self, range: Range<usize>, with: impl FnOnce(&[u8], bool) -> T) -> T {
        let contents = self.lock();
        with(&contents.bytes[range.clone()], contents.can_read(range))
    }

    /// Returns the bytes of a range, with zeroes for unreadable sectors.
    pub(crate) fn read(&self, range: Range<usize>) -> Vec<u8> {
        let contents = self.lock();
        let mut bytes = contents.bytes[range.clone()].to_vec();
        for sector in contents.unreadable.range(range.start / SECTOR..range.end / SECTOR) {
            let at = sector * SECTOR - range.start;
            bytes[at..at + SECTOR].fill(0);
        }
        bytes
    }

    /// Returns true if nothing in the range has changed, and all of it can be read.
    pub(crate) fn is_sound(&self, range: Range<usize>) -> bool {
        let contents = self.lock();
        let is_changed =
            contents.changed.range(range.start / PAGE..range.end.div_ceil(PAGE)).next().is_some();
        contents.can_read(range.clone())
            && (!is_changed || contents.bytes[range.clone()] == contents.original[range])
    }
}

impl Contents {
    fn can_read(&self, range: Range<usize>) -> bool {
        self.unreadable.range(range.start / SECTOR..range.end.div_ceil(SECTOR)).next().is_none()
    }

    fn execute(&mut self, io: Io) -> Outcome {
        let range = io.range().map(|(offset, length)| offset as usize..(offset + length) as usize);
        let range = range.unwrap_or(0..0);
        if range.end > self.bytes.len() {
            return Err(IoError::Invalid);
        }
        let written = range.clone();
        match io {
            Io::Read { .. } if !self.can_read(range.clone()) => return Err(IoError::Medium),
            Io::Read { mut buffer, .. } => {
                buffer.copy_from_slice(&self.bytes[range]);
                return Ok(Answer::Read(buffer));
            }
            Io::Write { data, .. } => self.bytes[range].copy_from_slice(&data),
            Io::Discard { .. } | Io::WriteZeroes { .. } => self.bytes[range].fill(0),
            Io::Flush => return Ok(Answer::Done),
            _ => return Err(IoError::Unsupported),
        }
        self.changed.extend(written.start / PAGE..written.end.div_ceil(PAGE));
        for sector in written.start / SECTOR..written.end / SECTOR {
            self.unreadable.remove(&sector);
        }
        Ok(Answer::Done)
    }
}

impl BlockDevice for Ram {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.lock().bytes.len() as u64, block: SECTOR as u64, request_max: 1 << 20 }
    }
    fn features(&self) -> Features {
        Features {
            read_only: false,
            discard: true,
            write_zeroes: true,
            extents: false,
            cache: false,
            rotational: false,
            timed: false,
        }
    }
    fn start(&self, _: &Context, io: Io) -> Started {
        Started::Done(self.lock().execute(io))
    }
}
