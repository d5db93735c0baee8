//! An undo log of the changes that a power cut may still revert, in the order of the changes.
//!
//! A change leaves the log when a flush covers it, or when the model reports that it is durable. A power cut undoes
//! changes from the newest to the oldest, so a range ends with the contents that it had before the oldest change in the
//! log. The undo stops at a change that was durable when it completed (FUA, or as the model reports).

use crate::ranges::Ranges;
use flashlab_sim::{Model, Store, StoreError, fault};
use std::collections::VecDeque;
use std::ops::Range;

/// Size of the log in bytes at which the log asks the model which changes have become durable.
const QUERY_FROM: u64 = 16 << 20;

#[derive(Debug)]
struct Change {
    number: u64,
    range: Range<u64>,
    before: Before,
}

#[derive(Debug)]
enum Before {
    /// Previous contents of the range except its holes: offset and bytes of each piece.
    Bytes(Vec<(u64, Vec<u8>)>),
    /// Marks the current contents of the range as durable.
    Durable,
}

/// The undo log.
#[derive(Debug, Default)]
pub(super) struct Undo {
    changes: VecDeque<Change>,
    /// Sequence number of the last change.
    number: u64,
    bytes: u64,
    query_at: u64,
}

impl Undo {
    /// Saves the contents of `range` before a change.
    pub(super) fn record(
        &mut self,
        range: &Range<u64>,
        store: &dyn Store,
        model: &dyn Model,
    ) -> Result<(), StoreError> {
        if model.is_durable(range) {
            // A later cut undoes no change before this one.
            self.mark_durable(range);
            return Ok(());
        }
        let mut before = Vec::new();
        let mut at = if fault("undo-forgets-a-block") { range.start + 512 } else { range.start };
        while let Some(data) = store.data_in(at..range.end)? {
            let mut bytes = vec![0; (data.end - data.start) as usize];
            store.read(data.start, &mut bytes)?;
            self.bytes += bytes.len() as u64;
            before.push((data.start, bytes));
            at = data.end;
        }
        self.push(range, Before::Bytes(before));
        if self.bytes >= self.query_at.max(QUERY_FROM) {
            self.remove_durable(model);
            // The next query comes when the log has doubled, so that the log queries each change about once on average.
            self.query_at = 2 * self.bytes;
        }
        Ok(())
    }

    /// Marks the current contents of `range` as durable.
    pub(super) fn mark_durable(&mut self, range: &Range<u64>) {
        if !self.changes.is_empty() && !fault("undo-goes-beyond-fua") {
            self.push(range, Before::Durable);
        }
    }

    fn push(&mut self, range: &Range<u64>, before: Before) {
        self.number += 1;
        self.changes.push_back(Change { number: self.number, range: range.clone(), before });
    }

    /// Removes the changes whose ranges have become durable. Where a remaining change overlaps such a range, marks the
    /// range as durable, so that the undo of that change preserves it.
    fn remove_durable(&mut self, model: &dyn Model) {
        let (durable, rest): (Vec<Change>, Vec<Change>) =
            self.changes.drain(..).partition(|change| model.is_durable(&change.range));
        let mut revertible = Ranges::default();
        for change in rest.iter().filter(|change| matches!(change.before, Before::Bytes(_))) {
            revertible.add(change.range.clone());
        }
        self.changes.extend(rest.into_iter().filter(|change| revertible.intersects(&change.range)));
        for change in durable.iter().filter(|change| revertible.intersects(&change.range)) {
            self.push(&change.range, Before::Durable);
        }
        self.recount();
    }

    /// Returns the sequence number of the last change. A flush that starts now covers the changes up to this
    /// number.
    pub(super) fn last(&self) -> u64 {
        self.number
    }

    /// Removes the changes up to this number, which are durable.
    pub(super) fn remove_to(&mut self, number: u64) {
        while self.changes.pop_front_if(|change| change.number <= number).is_some() {}
        self.recount();
    }

    /// Undoes the changes within `ranges`, which are in ascending order, and empties the log.
    pub(super) fn revert(&mut self, ranges: &[Range<u64>], store: &dyn Store) -> Result<(), StoreError> {
        let mut durable = Ranges::default();
        for change in self.changes.drain(..).rev() {
            let Before::Bytes(before) = change.before else {
                durable.add(change.range);
                continue;
            };
            let first = ranges.partition_point(|range| range.end <= change.range.start);
            for range in &ranges[first..] {
                let part = range.start.max(change.range.start)..range.end.min(change.range.end);
                for (part, _) in durable.split(part).filter(|(_, durable)| !durable) {
                    restore(store, &part, &before)?;
                }
                if range.end >= change.range.end {
                    break;
                }
            }
        }
        self.recount();
        Ok(())
    }

    fn recount(&mut self) {
        self.bytes = self.changes.iter().map(Change::bytes).sum();
        self.query_at = 0;
    }
}

impl Change {
    fn bytes(&self) -> u64 {
        match &self.before {
            Before::Bytes(before) => before.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
            Before::Durable => 0,
        }
    }
}

/// Restores the previous contents of `part`.
fn restore(store: &dyn Store, part: &Range<u64>, before: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
    store.discard(part.start, part.end - part.start)?;
    for (at, bytes) in before {
        let (from, to) = (part.start.max(*at), part.end.min(at + bytes.len() as u64));
        if from < to {
            store.write(from, &bytes[(from - at) as usize..(to - at) as usize])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, Pages};
    use flashlab_sim::{Completion, Geometry, Instant, PowerCut, Request};

    const MIB: u64 = 1 << 20;

    /// A model in which the given ranges are durable.
    #[derive(Clone)]
    struct Durable(Vec<Range<u64>>);

    impl Model for Durable {
        fn geometry(&self) -> Geometry {
            unreachable!("the log asks for durable ranges only")
        }
        fn submit(&mut self, _: Instant, _: Request) {}
        fn next_due(&self) -> Option<Instant> {
            None
        }
        fn complete(&mut self, _: Instant) -> Option<Completion> {
            None
        }
        fn power_cut(&mut self, _: Instant) -> PowerCut {
            PowerCut::default()
        }
        fn power_up(&mut self, now: Instant) -> Instant {
            now
        }
        fn is_durable(&self, range: &Range<u64>) -> bool {
            self.0.iter().any(|durable| durable.start <= range.start && range.end <= durable.end)
        }
    }

    #[test]
    fn a_full_log_preserves_durable_contents_within_an_older_change() {
        for forced in [false, true] {
            let store = Memory::new(64 * MIB, Pages::Small).unwrap();
            store.write(32 * MIB, &vec![9; 16 << 20]).unwrap();
            let (mut undo, volatile) = (Undo::default(), Durable(Vec::new()));
            let part = 0..512;
            let change = |undo: &mut Undo, range: &Range<u64>, byte: u8, model: &Durable| {
                undo.record(range, &store, model).unwrap();
                store.write(range.start, &vec![byte; (range.end - range.start) as usize]).unwrap();
            };
            change(&mut undo, &(0..1024), 1, &volatile);
            change(&mut undo, &part, 2, &volatile);
            if forced {
                undo.mark_durable(&part);
            }
            change(&mut undo, &(32 * MIB..48 * MIB), 3, &Durable(vec![part.clone()]));
            change(&mut undo, &part, 4, &volatile);
            undo.revert(std::slice::from_ref(&(0..1024)), &store).unwrap();
            let mut bytes = [0; 1024];
            store.read(0, &mut bytes).unwrap();
            assert_eq!((bytes[0], bytes[511], bytes[512], bytes[1023]), (2, 2, 0, 0), "forced: {forced}");
        }
    }
}
