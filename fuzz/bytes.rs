//! Bytes in memory that a target can inspect while a card uses them.

use flashlab_sim::{Store, StoreError};
use std::ops::Range;
use std::sync::{Arc, Mutex};

#[derive(Clone)]
pub(crate) struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    pub(crate) fn new(capacity: u64) -> Self {
        Bytes(Arc::new(Mutex::new(vec![0; capacity as usize])))
    }
    pub(crate) fn range<T>(&self, offset: u64, length: u64, with: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut bytes = self.0.lock().expect("one thread");
        with(&mut bytes[offset as usize..(offset + length) as usize])
    }
}

impl Store for Bytes {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.range(offset, buffer.len() as u64, |bytes| buffer.copy_from_slice(bytes));
        Ok(())
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.range(offset, bytes.len() as u64, |held| held.copy_from_slice(bytes));
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        self.range(offset, length, |bytes| bytes.fill(0));
        Ok(())
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        let any = self.range(range.start, range.end - range.start, |bytes| bytes.iter().any(|b| *b != 0));
        Ok(any.then_some(range))
    }
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
