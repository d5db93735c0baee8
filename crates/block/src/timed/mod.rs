//! A timed device: joins a model with a store. The device holds bytes and answers when its model completes a request.
//!
//! - A request goes to the model when it arrives, and accesses the bytes when the model completes it. A completed
//!   request has therefore taken effect, and an outstanding one has no visible effect.
//! - A flush covers every request that was answered before the flush arrived, regardless of the client that sent it.
//!   The model handles FUA for writes ([`Op::WriteFua`]); for a request that makes a hole, the device emulates FUA with
//!   a subsequent flush.
//! - The model decides the contents after a power cut. The changes of an *old* range are undone. The changes
//!   of a *new* range are in place. Reads of an *unreadable* range fail until the range is rewritten or
//!   discarded. A request that was in flight takes effect in *new* ranges only. Outstanding requests end in
//!   [`IoError::ShuttingDown`].
//! - The model receives a write of zeroes as a trim if the range may become a hole, and otherwise as a write. Flash
//!   devices do the same. The model also decides how long a read of a hole takes, so a client that queries for holes
//!   and skips them bypasses the timing.
//! - A read or write that is longer than the model's limit goes to the model as several concurrent requests. A trim is
//!   never split.
//!
//! Not modelled: after several changes of one block, none of them durable, a medium may hold an intermediate
//! version. Here, a power cut undoes all of these changes or none.

mod journal;
mod monitor;
mod undo;

pub use journal::Journal;
pub use monitor::{Completed, Monitor};

use crate::layer::Kind;
use crate::promise::Promise;
use crate::ranges::Ranges;
use crate::{Answer, BlockDevice, Context, Extent, Features, Geometry, Io, IoError, Outcome, Started};
use flashlab_sim::{
    Duration, Fate, FileId, Instant, Model, Op, PowerCut, Request, RequestId, Status, Store, StoreError,
    fault,
};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use undo::Undo;

/// Source of the bytes for writes of zeroes. Its length is the maximum of one such write to the store.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
/// Largest read or write in bytes. For a model with a lower limit, the device splits the request.
const REQUEST_MAX: u64 = 64 << 20;

/// A timed device.
pub struct Timed {
    geometry: Geometry,
    /// Largest read or write that goes to the model, in bytes.
    piece: u64,
    state: Mutex<State>,
}

struct State {
    model: Box<dyn Model>,
    store: Box<dyn Store>,
    /// Instant of the latest call to the model; no later call passes an earlier instant.
    now: Instant,
    next: u64,
    /// Outstanding requests by the number of their first piece. A request has one number per piece.
    outstanding: BTreeMap<u64, Outstanding>,
    undo: Undo,
    unreadable: Ranges,
    powered: bool,
    power_losses: u64,
    journal: Option<Box<dyn Journal>>,
    monitor: Option<Box<dyn Monitor>>,
}

struct Outstanding {
    io: Io,
    /// Pieces that are not yet complete.
    left: u64,
    status: Status,
    /// Number of the last change that is durable when this request completes, if it is a flush.
    flush_covers_to: u64,
    /// True if a flush must follow the request.
    flush: bool,
    /// Kind and bytes of the client's request, for the monitor.
    kind: Kind,
    bytes: u64,
    promise: Promise,
}

impl Timed {
    /// Creates a device from `model` and `store`, which must be at least as large as the model's capacity.
    pub fn new(model: Box<dyn Model>, store: Box<dyn Store>) -> Timed {
        let limits = model.geometry();
        let piece = (limits.request_max / limits.block).max(1) * limits.block;
        let state = State {
            model,
            store,
            now: Instant::ZERO,
            next: 0,
            outstanding: BTreeMap::new(),
            undo: Undo::default(),
            unreadable: Ranges::default(),
            powered: true,
            power_losses: 0,
            journal: None,
            monitor: None,
        };
        let geometry = Geometry { request_max: REQUEST_MAX, ..limits };
        Timed { geometry, piece, state: Mutex::new(state) }
    }

    /// Records the calls to the model in `journal` from now on.
    pub fn set_journal(&self, journal: Box<dyn Journal>) {
        lock(&self.state).journal = Some(journal);
    }

    /// Reports each completed request of a client to `monitor` from now on.
    pub fn set_monitor(&self, monitor: Box<dyn Monitor>) {
        lock(&self.state).monitor = Some(monitor);
    }

    /// Cuts the power at `now`. The model decides which volatile data is lost. Outstanding requests, and
    /// those that arrive before [`Timed::power_up`], fail with [`IoError::ShuttingDown`]. Returns the ranges
    /// that were not durable, with their fates. Fails if the store fails; the power is off then, too. Has no
    /// effect if the power is off already.
    pub fn power_cut(&self, now: Instant) -> Result<PowerCut, StoreError> {
        let mut state = lock(&self.state);
        state.advance(now);
        if !std::mem::replace(&mut state.powered, false) {
            return Ok(PowerCut::default());
        }
        state.power_losses += 1;
        let now = state.now;
        let cut = state.model.power_cut(now);
        if let Some(journal) = &mut state.journal {
            journal.power_cut(now);
        }
        let outstanding = std::mem::take(&mut state.outstanding);
        let applied = state.apply_power_cut(&cut, &outstanding);
        outstanding.into_values().for_each(|request| request.complete(Err(IoError::ShuttingDown)));
        applied.map(|()| cut)
    }

    /// Restores power. Returns the instant at which the device is ready. Requests may be sent immediately; they wait
    /// until then.
    pub fn power_up(&self, now: Instant) -> Instant {
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut state.powered, true) {
            let now = state.now.max(now);
            if let Some(journal) = &mut state.journal {
                journal.power_up(now);
            }
            state.now = state.model.power_up(now);
        }
        state.now
    }

    /// Returns the number of requests sent to the model, counting each piece of a split request.
    pub fn submitted_count(&self) -> u64 {
        lock(&self.state).next
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> u64 {
        lock(&self.state).outstanding.len() as u64
    }

    /// Returns true if the device has power.
    pub fn is_powered(&self) -> bool {
        lock(&self.state).powered
    }

    /// Returns a copy of the model after all outstanding requests, the simulated time at which the last of
    /// these completes, and the result of `then`. If the device has no power, powers up the copy. Both the
    /// copy and the call of `then` happen under one lock, so that the model receives no call between them.
    pub fn model_when_idle<R>(&self, then: impl FnOnce() -> R) -> (Box<dyn Model>, Duration, R) {
        let state = lock(&self.state);
        let (mut model, mut now, powered) = (state.model.clone(), state.now, state.powered);
        let result = then();
        drop(state);
        if !powered {
            now = model.power_up(now);
        }
        while let Some(completion) = model.complete(Instant::MAX) {
            now = completion.at;
        }
        (model, now.since(Instant::ZERO), result)
    }

    /// Calls `look` with the model.
    pub fn with_model<R>(&self, look: impl FnOnce(&dyn Model) -> R) -> R {
        look(&*lock(&self.state).model)
    }

    /// Syncs the store.
    pub fn sync(&self) -> Result<(), StoreError> {
        lock(&self.state).store.sync()
    }

    fn extents(&self, offset: u64, length: u64) -> Outcome {
        let state = lock(&self.state);
        if !state.powered {
            return Err(IoError::ShuttingDown);
        }
        let (mut extents, mut at, end) = (Vec::new(), offset, offset + length);
        while at < end {
            let data = state.store.data_in(at..end)?.unwrap_or(end..end);
            for (to, hole) in [(data.start, true), (data.end, false)] {
                if to > at {
                    Extent { length: to - at, hole, zero: hole }.append(&mut extents);
                    at = to;
                }
            }
        }
        Ok(Answer::Extents(extents))
    }
}

impl State {
    /// Submits a request to the model in pieces of at most `piece` bytes. Returns the number of the first piece and the
    /// count of pieces.
    fn submit(&mut self, op: Op, range: Range<u64>, piece: u64) -> (u64, u64) {
        let first = self.next;
        let mut at = range.start;
        loop {
            let length = piece.min(range.end - at);
            let id = RequestId(self.next);
            if let Some(journal) = &mut self.journal {
                journal.submitted(self.now, op, at, length);
            }
            self.model.submit(self.now, Request { id, op, file: FileId::DEVICE, offset: at, length });
            self.next += 1;
            at += length;
            if at >= range.end {
                return (first, self.next - first);
            }
        }
    }

    /// Advances the model to `now`, and applies every request that it completes.
    fn advance(&mut self, now: Instant) {
        while let Some(completion) = self.model.complete(now) {
            self.now = self.now.max(completion.at);
            let id = completion.id.0;
            // The pieces of a request have consecutive numbers, and the first one is its key.
            let (first, request) = self
                .outstanding
                .range_mut(..=id)
                .next_back()
                .expect("the model completes submitted requests only");
            request.left -= 1;
            if completion.status != Status::Ok {
                request.status = completion.status;
            }
            if request.left > 0 {
                continue;
            }
            let first = *first;
            let mut request =
                self.outstanding.remove(&first).expect("the request of this completion is outstanding");
            let outcome = self.finish(&mut request);
            if outcome.is_ok() && std::mem::take(&mut request.flush) {
                // The request continues as a flush.
                request.flush_covers_to = self.undo.last();
                let (id, left) = self.submit(Op::Flush, 0..0, 0);
                self.outstanding.insert(id, Outstanding { io: Io::Flush, left, ..request });
            } else {
                if let Some(monitor) = &mut self.monitor {
                    let (kind, bytes) = (request.kind, request.bytes);
                    let (at, spent, is_ok) = (completion.at, completion.spent, outcome.is_ok());
                    monitor.completed(&Completed { kind, bytes, at, spent, is_ok });
                }
                request.complete(outcome);
            }
        }
        self.now = self.now.max(now);
    }

    /// Applies a completed request to the bytes.
    fn finish(&mut self, request: &mut Outstanding) -> Outcome {
        match request.status {
            Status::Ok => {}
            Status::OutOfRange => return Err(IoError::Invalid),
            Status::Unsupported => return Err(IoError::Unsupported),
            Status::ReadOnly => return Err(IoError::ReadOnly),
            Status::Unreadable => return Err(IoError::Medium),
        }
        match std::mem::replace(&mut request.io, Io::Flush) {
            Io::Read { offset, mut buffer } => {
                if self.unreadable.intersects(&(offset..offset + buffer.len() as u64)) {
                    return Err(IoError::Medium);
                }
                self.store.read(offset, &mut buffer)?;
                return Ok(Answer::Read(buffer));
            }
            Io::Write { offset, data, durable } => {
                let range = offset..offset + data.len() as u64;
                self.change(range.clone(), |store| store.write(offset, &data))?;
                self.mark_durable_if(durable, &range)?;
            }
            Io::WriteZeroes { offset, length, durable, allocate: true, .. } => {
                let range = offset..offset + length;
                self.change(range.clone(), |store| write_zeroes(store, offset, length))?;
                self.mark_durable_if(durable, &range)?;
            }
            Io::Discard { offset, length, .. } | Io::WriteZeroes { offset, length, .. } => {
                self.change(offset..offset + length, |store| store.discard(offset, length))?;
            }
            Io::Flush => {
                self.undo.remove_to(request.flush_covers_to);
                self.store.sync()?;
            }
            Io::Cache { .. } | Io::Extents { .. } => {}
        }
        Ok(Answer::Done)
    }

    fn change(
        &mut self,
        range: Range<u64>,
        operation: impl FnOnce(&dyn Store) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.undo.record(&range, &*self.store, &*self.model)?;
        operation(&*self.store)?;
        if !fault("lost-block-stays-unreadable") {
            self.unreadable.remove(&range);
        }
        Ok(())
    }

    /// Marks data written with FUA as durable. The data survives if a power cut undoes later changes.
    fn mark_durable_if(&mut self, durable: bool, range: &Range<u64>) -> Result<(), StoreError> {
        if durable {
            self.undo.mark_durable(range);
            self.store.sync()?;
        }
        Ok(())
    }

    /// Changes the bytes to the state after the power cut.
    fn apply_power_cut(
        &mut self,
        cut: &PowerCut,
        outstanding: &BTreeMap<u64, Outstanding>,
    ) -> Result<(), StoreError> {
        let with_fate = |selected: Fate| {
            cut.undecided.iter().filter(move |(_, fate)| *fate == selected).map(|(range, _)| range)
        };
        let old: Vec<Range<u64>> = with_fate(Fate::Old).cloned().collect();
        self.undo.revert(&old, &*self.store)?;
        for request in outstanding.values() {
            let Some((offset, length)) = request.io.range() else { continue };
            for range in with_fate(Fate::New) {
                let part = range.start.max(offset)..range.end.min(offset + length);
                if part.is_empty() {
                    continue;
                }
                match &request.io {
                    Io::Write { data, .. } => {
                        let bytes = (part.start - offset) as usize..(part.end - offset) as usize;
                        self.store.write(part.start, &data[bytes])?;
                    }
                    Io::Discard { .. } | Io::WriteZeroes { .. } => {
                        self.store.discard(part.start, part.end - part.start)?;
                    }
                    Io::Read { .. } | Io::Flush | Io::Cache { .. } | Io::Extents { .. } => continue,
                }
                self.unreadable.remove(&part);
            }
        }
        with_fate(Fate::Unreadable).for_each(|range| self.unreadable.add(range.clone()));
        Ok(())
    }
}

impl Outstanding {
    fn complete(self, outcome: Outcome) {
        self.promise.resolve(outcome);
    }
}

impl BlockDevice for Timed {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn features(&self) -> Features {
        Features {
            read_only: false,
            discard: true,
            write_zeroes: true,
            extents: true,
            cache: false,
            rotational: false,
            timed: true,
        }
    }

    fn start(&self, cx: &Context, io: Io) -> Started {
        if let Err(error) = io.check(&self.geometry) {
            return Started::Done(Err(error));
        }
        let (op, flush) = match io {
            Io::Cache { .. } => return Started::Done(Ok(Answer::Done)),
            Io::Extents { offset, length } => return Started::Done(self.extents(offset, length)),
            Io::Flush if fault("flush-is-not-passed-on") => (Op::Read, false),
            Io::Flush => (Op::Flush, false),
            Io::Read { .. } => (Op::Read, false),
            Io::WriteZeroes { allocate: true, fast: true, .. } => {
                return Started::Done(Err(IoError::Unsupported));
            }
            Io::Write { durable, .. } | Io::WriteZeroes { durable, allocate: true, .. } => {
                let forced = durable && !fault("fua-is-a-plain-write");
                (if forced { Op::WriteFua } else { Op::Write }, false)
            }
            Io::Discard { durable, .. } | Io::WriteZeroes { durable, .. } => (Op::Trim, durable),
        };
        let (offset, length) = io.range().unwrap_or_default();
        if length == 0 && op != Op::Flush {
            return Started::Done(Ok(match io {
                Io::Read { buffer, .. } => Answer::Read(buffer),
                _ => Answer::Done,
            }));
        }
        let promise = Promise::default();
        let mut state = lock(&self.state);
        if !state.powered {
            return Started::Done(Err(IoError::ShuttingDown));
        }
        // First completes the requests that were due before this one arrived.
        state.advance(cx.arrival());
        // A trim transfers no data, so it is not split.
        let piece = if op == Op::Trim { length } else { self.piece };
        let (first, left) = state.submit(op, offset..offset + length, piece);
        let flush_covers_to = state.undo.last();
        let request = Outstanding {
            kind: Kind::of(&io),
            bytes: length,
            io,
            left,
            status: Status::Ok,
            flush_covers_to,
            flush,
            promise: promise.clone(),
        };
        state.outstanding.insert(first, request);
        // The model may complete a request at the instant of its arrival.
        if state.model.next_due().is_some_and(|due| due <= state.now) {
            let now = state.now;
            state.advance(now);
        }
        drop(state);
        let done = promise.take();
        match done {
            Some(outcome) => Started::Done(outcome),
            None => Started::Pending(Box::pin(promise)),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        lock(&self.state).model.next_due()
    }

    fn advance(&self, now: Instant) {
        let mut state = lock(&self.state);
        if state.powered {
            state.advance(now);
        }
    }

    fn power_losses(&self) -> u64 {
        lock(&self.state).power_losses
    }
}

fn write_zeroes(store: &dyn Store, offset: u64, length: u64) -> Result<(), StoreError> {
    let (mut at, end) = (offset, offset + length);
    while at < end {
        let part = (end - at).min(ZEROES.len() as u64);
        store.write(at, &ZEROES[..part as usize])?;
        at += part;
    }
    Ok(())
}

/// Locks `mutex`, even if a panic has poisoned it: such a panic came from a check in the model, and the next call of
/// the model fails the same check.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}
