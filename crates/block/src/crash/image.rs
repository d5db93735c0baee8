//! The bytes of a small disk. Clones share their pages until one of them writes.

use std::sync::Arc;

/// Size of a page in bytes.
const PAGE: usize = 4096;

/// The bytes of a disk, zero at first.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    size: u64,
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
}

impl Image {
    /// Creates an image of `size` zeroes.
    pub fn new(size: u64) -> Image {
        Image { size, pages: vec![None; (size as usize).div_ceil(PAGE)] }
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads bytes into `buffer`.
    ///
    /// # Panics
    /// Panics if the range extends beyond the end.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut rest = buffer;
        for (page, at, end) in parts(offset, rest.len(), self.size) {
            let part = rest.split_off_mut(..end - at).expect("parts are no longer than the whole");
            match &self.pages[page] {
                Some(bytes) => part.copy_from_slice(&bytes[at..end]),
                None => part.fill(0),
            }
        }
    }

    /// Writes `data`.
    ///
    /// # Panics
    /// Panics if the range extends beyond the end.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (page, at, end) in parts(offset, data.len(), self.size) {
            let part = rest.split_off(..end - at).expect("parts are no longer than the whole");
            match &mut self.pages[page] {
                Some(bytes) => Arc::make_mut(bytes)[at..end].copy_from_slice(part),
                none => {
                    let mut bytes = [0; PAGE];
                    bytes[at..end].copy_from_slice(part);
                    *none = Some(Arc::new(bytes));
                }
            }
        }
    }

    /// Writes zeroes.
    ///
    /// # Panics
    /// Panics if the range extends beyond the end.
    pub fn zero(&mut self, offset: u64, length: u64) {
        for (page, at, end) in parts(offset, length as usize, self.size) {
            match &mut self.pages[page] {
                whole if end - at == PAGE => *whole = None,
                Some(bytes) => Arc::make_mut(bytes)[at..end].fill(0),
                None => {}
            }
        }
    }

    /// Returns all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size as usize];
        self.read(0, &mut bytes);
        bytes
    }
}

impl From<&[u8]> for Image {
    fn from(bytes: &[u8]) -> Image {
        let mut image = Image::new(bytes.len() as u64);
        image.write(0, bytes);
        image
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pages = self.pages.iter().flatten().count();
        write!(f, "{pages} of {} pages", self.pages.len())
    }
}

/// Splits a range at page boundaries. Returns the index of each page, and the start and the end of the part within it.
fn parts(offset: u64, length: usize, size: u64) -> impl Iterator<Item = (usize, usize, usize)> {
    let end = offset.checked_add(length as u64).filter(|end| *end <= size).expect("a range within the image");
    let mut from = offset as usize;
    std::iter::from_fn(move || {
        let (page, at) = (from / PAGE, from % PAGE);
        let part = (PAGE - at).min(end as usize - from);
        from += part;
        (part > 0).then_some((page, at, at + part))
    })
}
