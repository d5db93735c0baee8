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
        let (mut at, end) = (range.start, range.end);
        let Ok(Answer::Extents(extents)) = self.execute(Io::Extents { offset: at, length: end - at }) else {
            return Ok(Some(range));
        };
        for extent in extents {
            if !extent.zero {
                return Ok(Some(at..end.min(at + extent.length)));
            }
            at += extent.length;
        }
        // A device may leave the end of the range undescribed. It may contain data.
        Ok((at < end).then_some(at..end))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.execute(Io::Flush).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_block::{Context, Extent, Features, Geometry, Started};

    /// A device of 64 KiB that describes its first 16 KiB as zeroes, and as much data after it as it is told.
    struct Described {
        data: u64,
    }

    impl BlockDevice for Described {
        fn geometry(&self) -> Geometry {
            Geometry { capacity: 64 << 10, block: 512, request_max: 64 << 10 }
        }
        fn features(&self) -> Features {
            Features {
                read_only: false,
                discard: false,
                write_zeroes: false,
                extents: true,
                cache: false,
                rotational: false,
                timed: false,
            }
        }
        fn start(&self, _: &Context, io: Io) -> Started {
            assert!(matches!(io, Io::Extents { .. }));
            let mut extents = vec![Extent { length: 16 << 10, hole: true, zero: true }];
            extents.extend((self.data > 0).then_some(Extent { length: self.data, hole: false, zero: false }));
            Started::Done(Ok(Answer::Extents(extents)))
        }
    }

    #[test]
    fn data_ends_with_the_range_and_what_a_device_leaves_undescribed_may_be_data() {
        let data = |data: u64| DeviceStore(Arc::new(Described { data })).data_in(0..32 << 10).unwrap();
        assert_eq!(data(8 << 10), Some(16 << 10..24 << 10));
        assert_eq!(data(1 << 20), Some(16 << 10..32 << 10), "the extent ends beyond the range");
        assert_eq!(data(0), Some(16 << 10..32 << 10), "the extents end before the range");
    }
}
