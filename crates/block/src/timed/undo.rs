//! What was there before: the changes that a power cut may still take back, in the order in which they were made.
//!
//! A change leaves the log when a flush has covered it, or when the model says that it is durable. Taking back goes from
//! the newest change to the oldest, so that a range ends as it was before the oldest change that is still in the log; but
//! not beyond a write that was made durable by itself (FUA).

use crate::ranges::Ranges;
use flashlab_sim::{Model, Store, StoreError, fault};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes in the log from which on the model is asked what has become durable meanwhile.
const ASK_FROM: u64 = 16 << 20;

#[derive(Debug)]
struct Change {
    number: u64,
    range: Range<u64>,
    before: Before,
}

#[derive(Debug)]
enum Before {
    /// What was no zeroes of the range.
    Bytes(Vec<(u64, Vec<u8>)>),
    /// What the range holds now is durable.
    Settled,
}

/// The log.
#[derive(Debug, Default)]
pub(super) struct Undo {
    changes: VecDeque<Change>,
    /// The number of the last change.
    number: u64,
    bytes: u64,
    ask_at: u64,
}

impl Undo {
    /// Remembers what `range` holds, which is about to change.
    pub(super) fn remember(
        &mut self,
        range: &Range<u64>,
        store: &dyn Store,
        model: &dyn Model,
    ) -> Result<(), StoreError> {
        if model.is_durable(range) {
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
        if self.bytes >= self.ask_at.max(ASK_FROM) {
            self.changes.retain(|change| !model.is_durable(&change.range));
            self.count();
            // Asked again when there is twice as much: in the mean, once a change.
            self.ask_at = 2 * self.bytes;
        }
        Ok(())
    }

    /// What `range` holds now is durable.
    pub(super) fn settle(&mut self, range: &Range<u64>) {
        if !self.changes.is_empty() && !fault("undo-goes-beyond-fua") {
            self.push(range, Before::Settled);
        }
    }

    fn push(&mut self, range: &Range<u64>, before: Before) {
        self.number += 1;
        self.changes.push_back(Change { number: self.number, range: range.clone(), before });
    }

    /// The number of the last change: what a flush that begins now will cover.
    pub(super) fn last(&self) -> u64 {
        self.number
    }

    /// Changes up to this number are durable.
    pub(super) fn forget_to(&mut self, number: u64) {
        while self.changes.pop_front_if(|change| change.number <= number).is_some() {}
        self.count();
    }

    /// Takes back what lies in `ranges`, which are in ascending order; then all is decided.
    pub(super) fn take_back(&mut self, ranges: &[Range<u64>], store: &dyn Store) -> Result<(), StoreError> {
        let mut settled = Ranges::default();
        for change in self.changes.drain(..).rev() {
            let Before::Bytes(before) = change.before else {
                settled.add(change.range);
                continue;
            };
            let first = ranges.partition_point(|range| range.end <= change.range.start);
            for range in &ranges[first..] {
                let part = range.start.max(change.range.start)..range.end.min(change.range.end);
                for (part, _) in settled.cut(part).filter(|(_, settled)| !settled) {
                    restore(store, &part, &before)?;
                }
                if range.end >= change.range.end {
                    break;
                }
            }
        }
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        self.bytes = self.changes.iter().map(Change::bytes).sum();
        self.ask_at = 0;
    }
}

impl Change {
    fn bytes(&self) -> u64 {
        match &self.before {
            Before::Bytes(before) => before.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
            Before::Settled => 0,
        }
    }
}

/// Makes `part` what it was before.
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
