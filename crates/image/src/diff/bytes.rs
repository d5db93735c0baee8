//! The bytes of one state of a device: an image, with or without the changes that an overlay kept.

use flashlab_block::layer::Overlay;
use flashlab_sim::{Store, StoreError};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes compared at once.
const PIECE: u64 = 1 << 20;

/// A part of a device's bytes, which is only read.
#[derive(Clone)]
pub struct Bytes {
    store: Arc<dyn Store>,
    offset: u64,
    size: u64,
    failure: Failure,
}

/// The operating system's error that caused a [`StoreError`]. The `StoreError` itself does not contain its
/// cause.
type Failure = Arc<Mutex<Option<io::Error>>>;

/// A file that is only read. The file is not locked, because a server may have it open.
struct ReadOnly {
    file: File,
    failure: Failure,
}

impl Bytes {
    /// Returns the bytes of an image.
    ///
    /// # Errors
    /// Returns an error if the size cannot be read.
    pub fn of_image(image: File) -> io::Result<Bytes> {
        let size = image.metadata()?.len();
        let failure = Failure::default();
        let store = Arc::new(ReadOnly { file: image, failure: failure.clone() });
        Ok(Bytes { store, offset: 0, size, failure })
    }

    /// Returns these bytes with the changes that an overlay kept in the file `changes`, or `None` if the size
    /// of the file shows that no overlay wrote it.
    ///
    /// # Errors
    /// Returns an error if the changes cannot be read.
    pub fn under_changes(&self, changes: File) -> io::Result<Option<Bytes>> {
        if changes.metadata()?.len() != Overlay::changes_size(self.size) {
            return Ok(None);
        }
        let changes = ReadOnly { file: changes, failure: self.failure.clone() };
        let overlay = Overlay::new(Box::new(self.store.clone()), self.size, Box::new(changes));
        let store = Arc::new(overlay.map_err(|error| self.failure(error))?);
        Ok(Some(Bytes { store, ..self.clone() }))
    }

    /// Returns the size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns a range of the bytes, cut off at the end.
    pub(super) fn part(&self, offset: u64, size: u64) -> Bytes {
        let offset = offset.min(self.size);
        Bytes { offset: self.offset + offset, size: size.min(self.size - offset), ..self.clone() }
    }

    /// Reads a range, which must lie within these bytes.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.size);
        if end.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "a read beyond the end of the filesystem",
            ));
        }
        self.store.read(self.offset + offset, buffer).map_err(|error| self.failure(error))
    }

    /// Returns the operating system's error that caused an error of the store, or else the error of the store
    /// itself.
    fn failure(&self, error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.unwrap_or_else(|| io::Error::other(error))
    }

    /// Returns up to `length` bytes at an offset, fewer at the end.
    pub(super) fn up_to(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; length.min(self.size.saturating_sub(offset)) as usize];
        self.read(offset.min(self.size), &mut buffer)?;
        Ok(buffer)
    }

    /// Returns the offset of the first byte that differs.
    pub(super) fn first_difference(&self, other: &Bytes) -> io::Result<Option<u64>> {
        let mut at = 0;
        while at < self.size.max(other.size) {
            let (a, b) = (self.up_to(at, PIECE)?, other.up_to(at, PIECE)?);
            if a != b {
                let equal = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
                return Ok(Some(at + equal as u64));
            }
            at += PIECE;
        }
        Ok(None)
    }
}

impl Store for ReadOnly {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.file.read_exact_at(buffer, offset).map_err(|error| {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            StoreError::Failed
        })
    }
    fn write(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::Failed)
    }
    fn discard(&self, _: u64, _: u64) -> Result<(), StoreError> {
        Err(StoreError::Failed)
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        Ok(Some(range))
    }
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
