//! The changes of the map in the order of their acknowledgement, the records that no journal entry contains yet, and the
//! changes that are durable.
//!
//! - A change has a number, and ends before the next one begins. An entry has the records of whole changes, so that a power
//!   loss leaves all of a change or nothing.
//! - All changes up to the durable one are durable.
//! - No change begins after a failure, which is final.

use crate::allocate::Opened;
use crate::extent::Extent;
use crate::format::Record;
use flashlab_block::IoError;

/// The changes since the volume was opened.
#[derive(Default)]
pub(super) struct Changes {
    /// Number of changes so far. A write or a discard is one change, and so is each step of background work
    /// and each eviction of cached copies.
    position: u64,
    /// Number of the last durable change.
    durable: u64,
    /// Records that no journal entry contains yet.
    records: Vec<u8>,
    /// Ends of the changes within `records`.
    ends: Vec<usize>,
    /// Error after which no change begins.
    failed: Option<IoError>,
}

impl Changes {
    /// Begins a change, and returns its number. Fails if the volume has failed.
    pub(super) fn begin(&mut self) -> Result<u64, IoError> {
        self.check()?;
        Ok(self.count())
    }

    /// Counts a change whose records were added already.
    pub(super) fn count(&mut self) -> u64 {
        self.position += 1;
        self.position
    }

    /// Ends a change.
    pub(super) fn end(&mut self) {
        self.ends.push(self.records.len());
    }

    /// Adds a record.
    pub(super) fn record(&mut self, record: &Record) {
        record.encode(&mut self.records);
    }

    /// Adds a record of an extent.
    pub(super) fn record_map(&mut self, extent: &Extent) {
        Record::encode_map(extent, &mut self.records);
    }

    /// Adds a record of the new generation of a bucket, which a stream began or which was evicted.
    pub(super) fn record_opened(&mut self, Opened { member, bucket, generation }: Opened) {
        self.record(&Record::Open { member, bucket, generation });
    }

    /// Returns the number of the last change.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of the last durable change.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns the bytes of the records that no journal entry contains yet.
    pub(super) fn pending_bytes(&self) -> usize {
        self.records.len()
    }

    /// Notes that all changes up to a number are durable.
    pub(super) fn made_durable(&mut self, position: u64) {
        self.durable = position;
    }

    /// Fails if the volume has failed.
    pub(super) fn check(&self) -> Result<(), IoError> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Returns the error after which no change begins.
    pub(super) fn failure(&self) -> Option<IoError> {
        self.failed
    }

    /// Lets all further changes fail with an error, unless the volume has failed before.
    pub(super) fn fail(&mut self, error: IoError) {
        self.failed.get_or_insert(error);
    }

    /// Takes the records, as entries of at most `max` bytes that do not split a change. A change that is larger has an
    /// entry of its own.
    pub(super) fn take_entries(&mut self, max: usize) -> Vec<Vec<u8>> {
        let (records, ends) = (std::mem::take(&mut self.records), std::mem::take(&mut self.ends));
        let end = ends.last().copied().unwrap_or(0);
        // The records after the last change belong to buckets that were opened for writes in flight.
        let all = ends.into_iter().filter(|at| *at < end).chain([records.len()]);
        let (mut entries, mut start, mut last) = (Vec::new(), 0, 0);
        if records.is_empty() {
            return entries;
        }
        for at in all {
            if at - start > max && last > start {
                entries.push(records[start..last].to_vec());
                start = last;
            }
            last = at;
        }
        entries.push(records[start..].to_vec());
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a change with a number of records.
    fn change(changes: &mut Changes, records: u64) -> u64 {
        let position = changes.begin().expect("no failure");
        (0..records).for_each(|start| changes.record(&Record::Unmap { start, length: 1 }));
        changes.end();
        position
    }

    #[test]
    fn entries_have_whole_changes_and_all_records() {
        let one = {
            let mut changes = Changes::default();
            change(&mut changes, 1);
            changes.pending_bytes()
        };
        let mut changes = Changes::default();
        assert_eq!([2, 1, 5, 1, 1].map(|records| change(&mut changes, records)), [1, 2, 3, 4, 5]);
        // A bucket that was opened for a write in flight.
        changes.record_opened(Opened { member: 0, bucket: 1, generation: 2 });
        let rest = changes.pending_bytes() - 10 * one;
        let lengths: Vec<usize> = changes.take_entries(3 * one).iter().map(Vec::len).collect();
        assert_eq!(lengths, [3 * one, 5 * one, 2 * one + rest]);
        assert_eq!((changes.pending_bytes(), changes.take_entries(one).len()), (0, 0));
        assert_eq!((change(&mut changes, 0), changes.take_entries(one).len()), (6, 0));
    }

    #[test]
    fn the_first_failure_is_final() {
        let mut changes = Changes::default();
        change(&mut changes, 1);
        changes.made_durable(1);
        changes.fail(IoError::Medium);
        changes.fail(IoError::ShuttingDown);
        assert_eq!((changes.begin(), changes.check()), (Err(IoError::Medium), Err(IoError::Medium)));
        assert_eq!((changes.failure(), changes.position(), changes.durable()), (Some(IoError::Medium), 1, 1));
    }
}
