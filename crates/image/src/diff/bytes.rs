//! The bytes of a state: of an image, or of an image with the changes that an overlay kept.

use flashlab_block::layer::Overlay;
use flashlab_sim::{Store, StoreError};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes compared at once.
const PIECE: u64 = 1 << 20;

/// A part of a device's bytes, which is only read.
#[derive(Clone)]
pub struct Bytes {
    store: Arc<dyn Store>,
    offset: u64,
    size: u64,
}

/// A file that is only read. It is not locked, since a server may have it open.
struct ReadOnly(File);

impl Bytes {
    /// Returns the bytes of an image.
    ///
    /// # Errors
    /// Returns an error if the size cannot be read.
    pub fn of_image(image: File) -> io::Result<Bytes> {
        let size = image.metadata()?.len();
        Ok(Bytes { store: Arc::new(ReadOnly(image)), offset: 0, size })
    }

    /// Returns these bytes with the changes that an overlay kept in the file `changes`, or `None` if the file does not
    /// have the size of such a file.
    ///
    /// # Errors
    /// Returns an error if the changes cannot be read.
    pub fn under_changes(&self, changes: File) -> io::Result<Option<Bytes>> {
        if changes.metadata()?.len() != Overlay::changes_size(self.size) {
            return Ok(None);
        }
        let overlay = Overlay::new(Box::new(self.store.clone()), self.size, Box::new(ReadOnly(changes)));
        let store = Arc::new(overlay.map_err(io::Error::other)?);
        Ok(Some(Bytes { store, offset: 0, size: self.size }))
    }

    /// Returns the size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns a range of the bytes, cut off at the end.
    pub(super) fn part(&self, offset: u64, size: u64) -> Bytes {
        let offset = offset.min(self.size);
        Bytes { store: self.store.clone(), offset: self.offset + offset, size: size.min(self.size - offset) }
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
        self.store.read(self.offset + offset, buffer).map_err(io::Error::other)
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
        self.0.read_exact_at(buffer, offset).map_err(|_| StoreError::Failed)
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
