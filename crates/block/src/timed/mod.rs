//! A model and a store joined: a device that holds bytes and answers when its model says.
//!
//! - A request goes to the model when it arrives and touches the bytes when the model completes it. So what a model calls
//!   done is done, and of what it has not done nothing can be seen.
//! - A flush covers what was answered before it was asked for, to whomever. FUA is the model's where it writes
//!   ([`Op::WriteFua`]); after what makes a hole it is a flush.
//! - A power cut leaves what the model names: of a range that is *old* the changes are taken back, of one that is *new*
//!   they are there, one that is *unreadable* is read as an error until it is written again or discarded. What was being
//!   done and is not named as new was not done. Outstanding requests end in [`IoError::ShuttingDown`].
//! - A write of zeroes that may leave a hole is a trim to the model, one that may not is a write: what a flash device
//!   makes of them. Holes take time like data, so nobody should look for them instead of reading.
//! - A request that is longer than the model's largest arrives there as several at once.
//!
//! Left out: of several changes to one block that nothing made durable, a cut takes back all or none, although the medium
//! may have kept one in the middle.

mod journal;
mod undo;

pub use journal::Journal;

use crate::promise::Promise;
use crate::ranges::Ranges;
use crate::{Abilities, Answer, BlockDevice, Context, Extent, Geometry, Io, IoError, Outcome, Started};
use flashlab_sim::{
    Duration, Fate, FileId, Instant, Model, Op, PowerCut, Request, RequestId, Status, Store, StoreError,
    fault,
};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use undo::Undo;

/// Bytes of zeroes that are written at once.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
/// Bytes of the largest read or write: it is cut up for a model that takes less.
const REQUEST_MAX: u64 = 64 << 20;

/// A timed device.
pub struct Timed {
    geometry: Geometry,
    /// What the model takes at once.
    piece: u64,
    state: Mutex<State>,
}

struct State {
    model: Box<dyn Model>,
    store: Box<dyn Store>,
    /// The model is not asked for anything before this.
    now: Instant,
    next: u64,
    /// By the first of their numbers; a request has as many as it has pieces.
    outstanding: BTreeMap<u64, Outstanding>,
    undo: Undo,
    unreadable: Ranges,
    powered: bool,
    power_losses: u64,
    journal: Option<Box<dyn Journal>>,
}

struct Outstanding {
    io: Io,
    /// Pieces that are not done.
    left: u64,
    status: Status,
    /// What a flush covers: changes up to this number.
    covers: u64,
    /// A flush has to follow.
    flush: bool,
    promise: Promise,
}

impl Timed {
    /// `model`, whose bytes lie in `store`, which holds as many as the model says or more.
    pub fn new(model: Box<dyn Model>, store: Box<dyn Store>) -> Timed {
        let of_model = model.geometry();
        let piece = (of_model.request_max / of_model.block).max(1) * of_model.block;
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
        };
        let geometry = Geometry { request_max: REQUEST_MAX, ..of_model };
        Timed { geometry, piece, state: Mutex::new(state) }
    }

    /// From now on `journal` notes what the model is told.
    pub fn note_in(&self, journal: Box<dyn Journal>) {
        lock(&self.state).journal = Some(journal);
    }

    /// Cuts the power at `now`: what was volatile is lost as the model says, and nothing is answered until
    /// [`Timed::power_up`]. Says what was not durable. Fails where the store does; a second cut cuts nothing.
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
        let left = state.leave(&cut, &outstanding);
        outstanding.into_values().for_each(|request| request.keep(Err(IoError::ShuttingDown)));
        left.map(|()| cut)
    }

    /// Gives power again; says when the device is ready. Requests may be asked at once; they wait.
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

    /// How many requests it was asked, in the model's pieces.
    pub fn asked(&self) -> u64 {
        lock(&self.state).next
    }

    /// Whether it has power.
    pub fn is_powered(&self) -> bool {
        lock(&self.state).powered
    }

    /// The model as it will be when all that is outstanding is done and, where it has none, power was given, and how long the
    /// device has been used by then. `then` is called when that is settled, before the model is told anything more.
    pub fn settled<R>(&self, then: impl FnOnce() -> R) -> (Box<dyn Model>, Duration, R) {
        let state = lock(&self.state);
        let (mut model, mut now, powered) = (state.model.clone(), state.now, state.powered);
        let said = then();
        drop(state);
        if !powered {
            now = model.power_up(now);
        }
        while let Some(completion) = model.complete(Instant::MAX) {
            now = completion.at;
        }
        (model, now.since(Instant::ZERO), said)
    }

    /// Looks at the model.
    pub fn with_model<R>(&self, look: impl FnOnce(&dyn Model) -> R) -> R {
        look(&*lock(&self.state).model)
    }

    /// Makes what the store holds survive what the store survives.
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
    /// Gives a request to the model, in pieces of at most `piece` bytes.
    fn submit(&mut self, op: Op, range: Range<u64>, piece: u64) -> (u64, u64) {
        let first = self.next;
        let mut at = range.start;
        loop {
            let length = piece.min(range.end - at);
            let id = RequestId(self.next);
            if let Some(journal) = &mut self.journal {
                journal.asked(self.now, op, at, length);
            }
            self.model.submit(self.now, Request { id, op, file: FileId::DEVICE, offset: at, length });
            self.next += 1;
            at += length;
            if at >= range.end {
                return (first, self.next - first);
            }
        }
    }

    /// Does what the model has done until `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(completion) = self.model.complete(now) {
            self.now = self.now.max(completion.at);
            let id = completion.id.0;
            let (first, request) =
                self.outstanding.range_mut(..=id).next_back().expect("the model completes what it was given");
            request.left -= 1;
            if completion.status != Status::Ok {
                request.status = completion.status;
            }
            if request.left > 0 {
                continue;
            }
            let first = *first;
            let mut request = self.outstanding.remove(&first).expect("it was found above");
            let outcome = self.finish(&mut request);
            if outcome.is_ok() && std::mem::take(&mut request.flush) {
                request.covers = self.undo.last();
                let (id, left) = self.submit(Op::Flush, 0..0, 0);
                self.outstanding.insert(id, Outstanding { io: Io::Flush, left, ..request });
            } else {
                request.keep(outcome);
            }
        }
        self.now = self.now.max(now);
    }

    /// Touches the bytes, as the model has now done.
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
                if self.unreadable.meets(&(offset..offset + buffer.len() as u64)) {
                    return Err(IoError::Medium);
                }
                self.store.read(offset, &mut buffer)?;
                return Ok(Answer::Read(buffer));
            }
            Io::Write { offset, data, durable } => {
                let range = offset..offset + data.len() as u64;
                self.change(range.clone(), |store| store.write(offset, &data))?;
                self.settle_if(durable, &range)?;
            }
            Io::WriteZeroes { offset, length, durable, allocate: true, .. } => {
                let range = offset..offset + length;
                self.change(range.clone(), |store| write_zeroes(store, offset, length))?;
                self.settle_if(durable, &range)?;
            }
            Io::Discard { offset, length, .. } | Io::WriteZeroes { offset, length, .. } => {
                self.change(offset..offset + length, |store| store.discard(offset, length))?;
            }
            Io::Flush => {
                self.undo.forget_to(request.covers);
                self.store.sync()?;
            }
            Io::Cache { .. } | Io::Extents { .. } => {}
        }
        Ok(Answer::Done)
    }

    fn change(
        &mut self,
        range: Range<u64>,
        how: impl FnOnce(&dyn Store) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.undo.remember(&range, &*self.store, &*self.model)?;
        how(&*self.store)?;
        if !fault("lost-block-stays-unreadable") {
            self.unreadable.remove(&range);
        }
        Ok(())
    }

    /// What was written with FUA stays, whatever is written over it later.
    fn settle_if(&mut self, durable: bool, range: &Range<u64>) -> Result<(), StoreError> {
        if durable {
            self.undo.settle(range);
            self.store.sync()?;
        }
        Ok(())
    }

    /// Brings the bytes to what a cut leaves of them.
    fn leave(&mut self, cut: &PowerCut, outstanding: &BTreeMap<u64, Outstanding>) -> Result<(), StoreError> {
        let of = |wanted: Fate| {
            cut.undecided.iter().filter(move |(_, fate)| *fate == wanted).map(|(range, _)| range)
        };
        let old: Vec<Range<u64>> = of(Fate::Old).cloned().collect();
        self.undo.take_back(&old, &*self.store)?;
        for request in outstanding.values() {
            let Some((offset, length)) = request.io.range() else { continue };
            for range in of(Fate::New) {
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
        of(Fate::Unreadable).for_each(|range| self.unreadable.add(range.clone()));
        Ok(())
    }
}

impl Outstanding {
    fn keep(self, outcome: Outcome) {
        self.promise.keep(outcome);
    }
}

impl BlockDevice for Timed {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn abilities(&self) -> Abilities {
        Abilities {
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
        // What is due by now was done before this arrived.
        state.advance(cx.now());
        // Nothing is moved by a trim: it stays whole.
        let piece = if op == Op::Trim { length } else { self.piece };
        let (first, left) = state.submit(op, offset..offset + length, piece);
        let covers = state.undo.last();
        let request = Outstanding { io, left, status: Status::Ok, covers, flush, promise: promise.clone() };
        state.outstanding.insert(first, request);
        // Some are done as soon as they are asked for.
        if state.model.next_due().is_some_and(|due| due <= state.now) {
            let now = state.now;
            state.advance(now);
        }
        drop(state);
        let done = promise.take();
        match done {
            Some(outcome) => Started::Done(outcome),
            None => Started::Later(Box::pin(promise)),
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

/// A panic while it was locked was one of the model's own checks; what it leaves is refused by the next.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}
