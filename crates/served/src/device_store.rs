//! A device as the store of bytes below a model or an overlay: each request waits for its answer.

use crate::wait::execute;
use flashlab_block::{Answer, BlockDevice, Io, IoError};
use flashlab_sim::{Store, StoreError};
use std::ops::Range;
use std::sync::Arc;

/// A device as a store. The caller aligns requests to the blocks of the device.
pub(crate) struct DeviceStore(pub(crate) Arc<dyn BlockDevice>);

impl DeviceStore {
    fn execute(&self, io: Io) -> Result<Answer, StoreError> {
        let outcome = execute(&*self.0, io);
        outcome.map_err(|error| match error {
            IoError::NoSpace => StoreError::NoSpace,
            _ => StoreError::Failed,
        })
    }

    /// Divides a range into requests that the device accepts.
    fn requests(&self, offset: u64, length: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let (end, max) = (offset + length, self.0.geometry().request_max);
        (offset..end).step_by(max as usize).map(move |start| start..end.min(start + max))
    }
}

impl Store for DeviceStore {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        for range in self.requests(offset, buffer.len() as u64) {
            let read = Io::Read { offset: range.start, buffer: vec![0; (range.end - range.start) as usize] };
            let Answer::Read(bytes) = self.execute(read)? else { return Err(StoreError::Failed) };
            buffer[(range.start - offset) as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        for range in self.requests(offset, bytes.len() as u64) {
            let part = bytes[(range.start - offset) as usize..(range.end - offset) as usize].to_vec();
            self.execute(Io::Write { offset: range.start, data: part.into(), durable: false })?;
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        // A discard may leave the contents unchanged.
        let zeroes = Io::WriteZeroes { offset, length, durable: false, allocate: false, fast: false };
        self.execute(zeroes).map(drop)
    }

    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        let (mut at, length) = (range.start, range.end - range.start);
        let Ok(Answer::Extents(extents)) = self.execute(Io::Extents { offset: at, length }) else {
            return Ok(Some(range));
        };
        for extent in extents {
            if !extent.zero {
                return Ok(Some(at..at + extent.length));
            }
            at += extent.length;
        }
        Ok(None)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.execute(Io::Flush).map(drop)
    }
}
