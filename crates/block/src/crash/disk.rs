//! A disk with a volatile cache.

use super::states::{Change, Content, DiskPoint};
use super::{Image, Point};
use crate::{Answer, BlockDevice, Context, Extent, Features, Geometry, Io, Outcome, Started};
use flashlab_sim::{Duration, Store, StoreError};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest request in bytes.
const REQUEST_MAX: u64 = 1 << 20;

/// A small disk with a volatile cache, for tests. Clones share one disk.
///
/// - A write is visible from its start, and may reach the medium from then on. It is durable once the disk has answered
///   a flush that started after the write was answered.
/// - A write with FUA is durable when it is answered, and so are the earlier writes that overlap it.
/// - On an executor, a read, a change or a flush takes a random time up to the latency that
///   [`Disk::with_latency`] sets, so that concurrent requests complete in any order. Without an executor, or
///   without a latency, the disk answers immediately.
#[derive(Clone, Debug)]
pub struct Disk {
    state: Arc<Mutex<State>>,
    block: u64,
    sector: u64,
    latency: Duration,
    flushes_lie: bool,
}

#[derive(Debug)]
struct State {
    visible: Image,
    durable: Image,
    unflushed: Vec<Unflushed>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Unflushed {
    number: u64,
    answered: bool,
    change: Change,
}

impl Disk {
    /// Creates a disk with the bytes of `image`. The medium writes `sector` bytes atomically, and requests consist of
    /// blocks of the same size.
    pub fn new(image: Image, sector: u64) -> Disk {
        let state = State { visible: image.clone(), durable: image, unflushed: Vec::new(), next: 0 };
        let state = Arc::new(Mutex::new(state));
        Disk { state, block: sector, sector, latency: Duration::ZERO, flushes_lie: false }
    }

    /// Sets the maximum latency of a request.
    #[must_use]
    pub fn with_latency(self, latency: Duration) -> Disk {
        Disk { latency, ..self }
    }

    /// Makes flushes have no effect, as on a disk that ignores them.
    #[must_use]
    pub fn with_lying_flushes(self) -> Disk {
        Disk { flushes_lie: true, ..self }
    }

    /// Returns the state of several disks at this instant, at which all of them may lose power.
    pub fn point<'a>(disks: impl IntoIterator<Item = &'a Disk>) -> Point {
        let point = |disk: &Disk| {
            let state = disk.lock();
            let unflushed = state.unflushed.iter().map(|write| write.change.clone()).collect();
            DiskPoint { durable: state.durable.clone(), sector: disk.sector, unflushed }
        };
        Point { disks: disks.into_iter().map(point).collect() }
    }

    /// Returns the contents of the disk as reads see them, including unflushed writes.
    pub fn image(&self) -> Image {
        self.lock().visible.clone()
    }

    /// Inverts bits of a byte, on the medium and in the cache.
    pub fn flip(&self, offset: u64, bits: u8) {
        let mut state = self.lock();
        let State { visible, durable, .. } = &mut *state;
        for image in [visible, durable] {
            let mut byte = [0];
            image.read(offset, &mut byte);
            image.write(offset, &[byte[0] ^ bits]);
        }
    }

    /// Starts a change. Returns its number.
    fn begin(&self, offset: u64, content: Content) -> u64 {
        let mut state = self.lock();
        let change = Change { offset, content };
        change.apply(&mut state.visible);
        let number = state.next;
        state.next += 1;
        state.unflushed.push(Unflushed { number, answered: false, change });
        number
    }

    /// Ends a change.
    fn end(&self, number: u64, durable: bool) {
        let mut state = self.lock();
        let Some(at) = state.unflushed.iter().position(|write| write.number == number) else { return };
        state.unflushed[at].answered = true;
        if durable {
            // An older write must not reach the medium after a newer write to the same range. Earlier writes
            // that overlap a durable write therefore become durable, too.
            let mut covered = vec![at];
            for earlier in (0..at).rev() {
                let overlaps = |n: &usize| state.unflushed[*n].overlaps(&state.unflushed[earlier]);
                if covered.iter().any(overlaps) {
                    covered.push(earlier);
                }
            }
            let covered: Vec<u64> = covered.into_iter().map(|n| state.unflushed[n].number).collect();
            state.persist(&covered);
        }
    }

    /// Returns the numbers of the changes that a flush makes durable if it starts now.
    fn flush_covers(&self) -> Vec<u64> {
        let state = self.lock();
        state.unflushed.iter().filter(|write| write.answered).map(|write| write.number).collect()
    }

    fn flushed(&self, covers: &[u64]) {
        if !self.flushes_lie {
            self.lock().persist(covers);
        }
    }

    /// Locks the state. Only a range check of the image panics under the lock, before any change.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers immediately, or after a random time on an executor.
    fn answer(&self, cx: &Context, then: impl FnOnce(&Disk) -> Outcome + Send + 'static) -> Started {
        if !cx.has_executor() || self.latency == Duration::ZERO {
            return Started::Done(then(self));
        }
        let (cx, disk) = (cx.clone(), self.clone());
        Started::Pending(Box::pin(async move {
            let latency = Duration::from_ns(1 + cx.random() % disk.latency.as_ns());
            cx.sleep_until(cx.now() + latency).await;
            then(&disk)
        }))
    }

    fn change(&self, cx: &Context, offset: u64, content: Content, durable: bool) -> Started {
        let number = self.begin(offset, content);
        self.answer(cx, move |disk| {
            disk.end(number, durable);
            Ok(Answer::Done)
        })
    }
}

impl State {
    /// Makes the writes with these numbers durable, in the order of the writes.
    fn persist(&mut self, numbers: &[u64]) {
        for write in self.unflushed.extract_if(.., |write| numbers.contains(&write.number)) {
            write.change.apply(&mut self.durable);
        }
    }
}

impl Unflushed {
    fn overlaps(&self, other: &Unflushed) -> bool {
        let [a, b] =
            [self, other].map(|write| write.change.offset..write.change.offset + write.change.length());
        a.start < b.end && b.start < a.end
    }
}

impl BlockDevice for Disk {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.lock().visible.size(), block: self.block, request_max: REQUEST_MAX }
    }
    fn features(&self) -> Features {
        Features {
            read_only: false,
            discard: true,
            write_zeroes: true,
            extents: false,
            cache: false,
            rotational: false,
            timed: false,
        }
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        if let Err(error) = io.check(&self.geometry()) {
            return Started::Done(Err(error));
        }
        match io {
            Io::Read { offset, mut buffer } => self.answer(cx, move |disk| {
                disk.lock().visible.read(offset, &mut buffer);
                Ok(Answer::Read(buffer))
            }),
            Io::Write { offset, data, durable } => self.change(cx, offset, Content::Bytes(data), durable),
            Io::Discard { offset, length, durable } | Io::WriteZeroes { offset, length, durable, .. } => {
                self.change(cx, offset, Content::Zeroes(length), durable)
            }
            Io::Flush => {
                let covers = self.flush_covers();
                self.answer(cx, move |disk| {
                    disk.flushed(&covers);
                    Ok(Answer::Done)
                })
            }
            Io::Cache { .. } => Started::Done(Ok(Answer::Done)),
            Io::Extents { length, .. } => {
                Started::Done(Ok(Answer::Extents(vec![Extent { length, hole: false, zero: false }])))
            }
        }
    }
}

impl Store for Disk {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.lock().visible.read(offset, buffer);
        Ok(())
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let number = self.begin(offset, Content::Bytes(bytes.to_vec().into()));
        self.end(number, false);
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        let number = self.begin(offset, Content::Zeroes(length));
        self.end(number, false);
        Ok(())
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        Ok((!range.is_empty()).then_some(range))
    }
    fn sync(&self) -> Result<(), StoreError> {
        let covers = self.flush_covers();
        self.flushed(&covers);
        Ok(())
    }
}
