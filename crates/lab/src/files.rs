//! Files on a bare device: the meaning of `directory=` without a filesystem.
//!
//! Files follow one another without metadata. Each file starts at a multiple of [`ALIGNMENT`]. A file that
//! grows moves to the end, behind the last file. [`FileId::DEVICE`] still names the whole device.

use flashlab_sim::{Completion, FileId, Geometry, Instant, Model, Observer, PowerCut, Request, RestoreError};
use std::ops::Range;

/// Alignment in bytes of the start of every file, like that of a partition.
pub(crate) const ALIGNMENT: u64 = 1 << 20;

/// A device and the files on it.
#[derive(Clone)]
pub(crate) struct Files {
    device: Box<dyn Model>,
    /// The byte range of each file. File number n has the [`FileId`] n + 1.
    ranges: Vec<Range<u64>>,
    /// First byte after all files.
    end: u64,
}

impl Files {
    /// Wraps `device`, without any file.
    pub(crate) fn on(device: Box<dyn Model>) -> Files {
        Files { device, ranges: Vec::new(), end: 0 }
    }

    pub(crate) fn device(&self) -> &dyn Model {
        &*self.device
    }

    /// Returns the [`FileId`] of file `number`.
    pub(crate) fn id(number: usize) -> FileId {
        FileId(number as u32 + 1)
    }

    /// Returns the size of file `number` in bytes, or 0 if the file does not exist.
    pub(crate) fn size(&self, number: usize) -> u64 {
        self.ranges.get(number).map_or(0, |range| range.end - range.start)
    }

    /// Reserves `size` bytes for file `number`, behind all other files.
    ///
    /// # Errors
    /// Returns the number of free bytes if it is less than `size`.
    pub(crate) fn create(&mut self, number: usize, size: u64) -> Result<(), u64> {
        // The free space is rounded down to whole multiples of the alignment, because files are written in requests of
        // this size.
        let left = self.device.geometry().capacity.saturating_sub(self.end) / ALIGNMENT * ALIGNMENT;
        if size > left {
            return Err(left);
        }
        if self.ranges.len() <= number {
            self.ranges.resize(number + 1, 0..0);
        }
        self.ranges[number] = self.end..self.end + size;
        self.end = (self.end + size).next_multiple_of(ALIGNMENT);
        Ok(())
    }

    /// Returns the first byte of a file on the device.
    fn start(&self, file: FileId) -> u64 {
        let number = (file.0 as usize).checked_sub(1);
        number.and_then(|number| self.ranges.get(number)).map_or(0, |range| range.start)
    }
}

impl Model for Files {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn hint(&self, file: FileId, offsets: &[u64]) {
        let start = self.start(file);
        let offsets: Vec<u64> = offsets.iter().map(|offset| start + offset).collect();
        self.device.hint(FileId::DEVICE, &offsets);
    }
    fn submit(&mut self, now: Instant, request: Request) {
        let offset = self.start(request.file) + request.offset;
        self.device.submit(now, Request { file: FileId::DEVICE, offset, ..request });
    }
    fn next_due(&self) -> Option<Instant> {
        self.device.next_due()
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        self.device.complete(limit)
    }
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.device.power_cut(now)
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        self.device.power_up(now)
    }
    fn is_durable(&self, range: &Range<u64>) -> bool {
        self.device.is_durable(range)
    }
    fn save(&self) -> Option<Vec<u8>> {
        self.device.save()
    }
    fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        self.device.restore(state)
    }
    fn observe(&self, to: &mut dyn Observer) {
        self.device.observe(to);
    }
}
