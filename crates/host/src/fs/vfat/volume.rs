//! A mounted volume: files, their requests, and the writes of metadata that follow.
//!
//! Invariants: the pieces of a request go to the device one after the other, while different requests run concurrently.
//! Every nanosecond of a request is the filesystem's own work (host), a wait for the processor (queue), or the time of
//! a piece.

use super::{Extent, Layout, VfatParameters, clusters::Clusters, layout::SECTOR};
use crate::fs::{Allocate, Filesystem, NoRoom};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{
    Completion, Duration, FileId, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request,
    RequestId, Spent, Status, Timeline,
};

/// Size in bytes of a write-back request of the page cache (Linux's usual max_sectors_kb of 512 or more, as recorded).
const WRITE_BACK_REQUEST: u64 = 512 << 10;
/// Largest file in bytes; FAT32 stores the size in 32 bits.
const FILE_SIZE_MAX: u64 = (1 << 32) - 1;

#[derive(Clone, Debug, Default)]
struct File {
    extents: Vec<Extent>,
    size: u64,
    /// True if the directory entry has changed since it was written.
    entry_dirty: bool,
    /// True if the size in the entry has changed too. New data cannot be found until the size is written.
    size_dirty: bool,
}

/// The directory entries that a write-back includes. Every write-back also includes the changed parts of the
/// FATs and FSINFO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entries {
    /// All entries that have changed.
    All,
    /// The entry of one file.
    Of(usize),
    /// The entry of one file, if its size has changed.
    SizeOf(usize),
}

/// A request in flight, of the workload or of the filesystem itself.
#[derive(Clone, Debug)]
struct Work {
    parent: Option<RequestId>,
    spent: Spent,
    /// The current piece, at the device or about to be sent. `rest` holds the following pieces, last first.
    piece: Request,
    rest: Vec<Request>,
}

/// A FAT32 volume on a device. The volume is itself a device of files: a request names a [`FileId`] and an offset in
/// that file.
#[derive(Clone)]
pub struct Vfat {
    parameters: VfatParameters,
    layout: Layout,
    device: Box<dyn Model>,
    clusters: Clusters,
    files: Vec<Option<File>>,
    /// True for each sector of the FAT that the kernel has read.
    fat_cached: Vec<bool>,
    /// Byte ranges of the FATs and FSINFO that have changed.
    dirty: Vec<Range<u64>>,
    dirty_since: Option<Instant>,
    processor: Timeline,
    /// Requests that have not reached the device yet, with the instant at which the filesystem's own work ends.
    starting: VecDeque<(Instant, usize)>,
    /// Requests in flight, indexed by the number that identifies them at the device.
    works: Vec<Option<Work>>,
    idle_works: Vec<usize>,
    finished: VecDeque<Completion>,
    /// Status of the first failed request of the filesystem itself. The next flush returns it.
    failure: Option<Status>,
    metadata_requests: u64,
}

impl Vfat {
    /// Formats `device`: writes the reserved sectors, both FATs and the root directory. Returns the mounted volume and
    /// the instant of completion, or `None` if no FAT32 filesystem fits.
    pub fn format(
        parameters: VfatParameters,
        device: Box<dyn Model>,
        now: Instant,
    ) -> Option<(Vfat, Instant)> {
        let layout = Layout::new(&parameters, device.geometry().capacity)?;
        let mut volume = Vfat {
            clusters: Clusters::new(layout.clusters()),
            files: Vec::new(),
            fat_cached: vec![false; (layout.fat_bytes() / SECTOR) as usize],
            dirty: Vec::new(),
            dirty_since: None,
            processor: Timeline::default(),
            starting: VecDeque::new(),
            works: Vec::new(),
            idle_works: Vec::new(),
            finished: VecDeque::new(),
            failure: None,
            metadata_requests: 0,
            parameters,
            layout,
            device,
        };
        let root = volume.clusters.allocate(1)?;
        let metadata = layout.reserved().start..layout.reserved().end + 2 * layout.fat_bytes();
        let mut now = volume.write_through(now, metadata);
        for extent in root {
            now = volume.write_through(now, volume.bytes_of(&extent));
        }
        Some((volume, now))
    }

    /// Writes all dirty metadata.
    ///
    /// # Panics
    /// Panics if requests of a workload are in flight.
    pub fn sync(&mut self, now: Instant) -> Instant {
        let writes = self.take_dirty(Entries::All);
        self.do_all(now, writes)
    }

    /// Returns the extents of `file`.
    pub fn extents(&self, file: FileId) -> &[Extent] {
        self.files.get(file.0 as usize).and_then(Option::as_ref).map_or(&[], |f| &f.extents)
    }

    fn file_mut(&mut self, index: usize) -> &mut File {
        self.files[index].as_mut().expect("the caller has checked that the file exists")
    }

    fn bytes_of(&self, extent: &Extent) -> Range<u64> {
        let start = self.layout.cluster_start(extent.first);
        start..start + extent.count * self.layout.cluster()
    }

    /// Allocates clusters until file `index` has room for `bytes`. Enough clusters must be free. Returns the reads of
    /// FAT sectors that are not cached, one read per sector, as the kernel walks the FAT.
    fn take_clusters(&mut self, index: usize, bytes: u64) -> Vec<Request> {
        let held: u64 = self.file_mut(index).extents.iter().map(|e| e.count).sum();
        let wanted = bytes.div_ceil(self.layout.cluster()).saturating_sub(held);
        let extents = self.clusters.allocate(wanted).expect("the caller has checked that there is room");
        let mut reads = Vec::new();
        for extent in extents {
            let sectors = self.layout.fat(0, &extent.range());
            for at in sectors.step_by(SECTOR as usize) {
                let n = ((at - self.layout.reserved().end) / SECTOR) as usize;
                if !core::mem::replace(&mut self.fat_cached[n], true) {
                    reads.push(device_request(Op::Read, at..at + SECTOR));
                }
            }
            self.fat_changed(&extent);
            let held = &mut self.file_mut(index).extents;
            match held.last_mut() {
                Some(last) if last.range().end == extent.first => last.count += extent.count,
                _ => held.push(extent),
            }
        }
        self.file_mut(index).entry_dirty = true;
        reads
    }

    fn fat_changed(&mut self, extent: &Extent) {
        for range in
            [self.layout.fat(0, &extent.range()), self.layout.fat(1, &extent.range()), self.layout.fsinfo()]
        {
            match self.dirty.iter_mut().find(|d| d.start <= range.end && range.start <= d.end) {
                Some(d) => *d = d.start.min(range.start)..d.end.max(range.end),
                None => self.dirty.push(range),
            }
        }
    }

    /// Returns the writes of the dirty metadata, including the directory entries in `entries`, and marks it clean.
    fn take_dirty(&mut self, entries: Entries) -> Vec<Request> {
        let mut ranges = core::mem::take(&mut self.dirty);
        let mut left = false;
        for (index, file) in self.files.iter_mut().enumerate() {
            let Some(file) = file.as_mut().filter(|file| file.entry_dirty) else { continue };
            let covered = match entries {
                Entries::All => true,
                Entries::Of(one) => one == index,
                Entries::SizeOf(one) => one == index && file.size_dirty,
            };
            if covered {
                ranges.push(self.layout.directory_entry(index as u32));
                (file.entry_dirty, file.size_dirty) = (false, false);
            }
            left |= !covered;
        }
        if !left {
            self.dirty_since = None;
        }
        ranges.sort_unstable_by_key(|r| r.start);
        ranges.dedup();
        let writes: Vec<Request> =
            ranges.into_iter().flat_map(|r| cut(Op::Write, r, WRITE_BACK_REQUEST)).collect();
        self.metadata_requests += writes.len() as u64;
        writes
    }

    /// Returns the device requests for `range` of a file, each at most `longest` bytes.
    fn pieces(&self, index: usize, range: Range<u64>, op: Op, longest: u64) -> Vec<Request> {
        let file = self.files[index].as_ref().expect("the caller has checked that the file exists");
        let mut pieces = Vec::new();
        let mut extent_start = 0;
        for extent in &file.extents {
            let bytes = self.bytes_of(extent);
            let extent_end = extent_start + (bytes.end - bytes.start);
            let (from, to) = (range.start.max(extent_start), range.end.min(extent_end));
            if from < to {
                let from_device = bytes.start + (from - extent_start);
                pieces.extend(cut(op, from_device..from_device + (to - from), longest));
            }
            extent_start = extent_end;
        }
        pieces
    }

    fn write_through(&mut self, now: Instant, range: Range<u64>) -> Instant {
        self.do_all(now, cut(Op::Write, range, WRITE_BACK_REQUEST).collect())
    }

    /// Executes `requests` one after the other, after any write-back in flight. Notes failures for the next flush.
    fn do_all(&mut self, now: Instant, requests: Vec<Request>) -> Instant {
        let mut now = now;
        while self.idle_works.len() < self.works.len() {
            let done = self.device.complete(Instant::MAX).expect("a request in flight completes");
            let of_a_workload = self.piece_done(&done);
            assert_eq!(of_a_workload, None, "files change only while no request is in flight");
            now = now.max(done.at);
        }
        requests.into_iter().fold(now, |now, request| {
            self.device.submit(now, request);
            let done = self.device.complete(Instant::MAX).expect("a submitted request completes");
            self.note_failure(done.status);
            done.at
        })
    }

    /// Returns the only piece of a read or write inside a file of one extent. This is the fast path for the
    /// usual case.
    #[inline]
    fn piece_of_direct_io(&self, request: &Request) -> Option<Request> {
        let file = self.files.get(request.file.0 as usize)?.as_ref()?;
        let [extent] = file.extents[..] else { return None };
        let aligned = (request.offset | request.length).is_multiple_of(SECTOR) && request.length > 0;
        let inside = request.offset.checked_add(request.length)? <= file.size;
        let moves_data = matches!(request.op, Op::Read | Op::Write);
        let offset = self.layout.cluster_start(extent.first) + request.offset;
        (aligned && inside && moves_data).then_some(Request { offset, file: FileId::DEVICE, ..*request })
    }

    /// Translates the request into device requests in order. Returns at least one.
    fn translate(&mut self, request: &Request) -> Result<Vec<Request>, Status> {
        let index = request.file.0 as usize;
        let Some(file) = self.files.get(index).and_then(Option::as_ref) else {
            return Err(Status::OutOfRange);
        };
        let longest = self.device.geometry().capacity;
        match request.op {
            // vfat makes data durable by a flush, together with the file's metadata.
            Op::Trim | Op::WriteFua => Err(Status::Unsupported),
            Op::Flush | Op::FlushData => {
                let data_only = request.op == Op::FlushData;
                let entries = if data_only { Entries::SizeOf(index) } else { Entries::Of(index) };
                let mut pieces = self.take_dirty(entries);
                pieces.push(device_request(Op::Flush, 0..0));
                Ok(pieces)
            }
            _ if !request.offset.is_multiple_of(SECTOR)
                || !request.length.is_multiple_of(SECTOR)
                || request.length == 0 =>
            {
                Err(Status::OutOfRange)
            }
            Op::Read if request.offset.checked_add(request.length).is_none_or(|end| end > file.size) => {
                Err(Status::OutOfRange)
            }
            Op::Read => Ok(self.pieces(index, request.offset..request.end(), Op::Read, longest)),
            Op::Write => {
                let end = request.offset.checked_add(request.length).ok_or(Status::OutOfRange)?;
                let old_size = file.size;
                let mut pieces = Vec::new();
                if end > old_size {
                    let held: u64 = file.extents.iter().map(|e| e.count).sum();
                    let room = (held + self.clusters.free()) * self.layout.cluster();
                    if end > room.min(FILE_SIZE_MAX) {
                        return Err(Status::OutOfRange);
                    }
                    pieces = self.take_clusters(index, end);
                    // vfat has no holes, so the range between the old end and the new data is filled with zeroes first.
                    pieces.extend(self.pieces(
                        index,
                        old_size..request.offset.max(old_size),
                        Op::Write,
                        WRITE_BACK_REQUEST,
                    ));
                    let file = self.file_mut(index);
                    (file.size, file.size_dirty) = (end, true);
                }
                pieces.extend(self.pieces(index, request.offset..end, Op::Write, longest));
                Ok(pieces)
            }
        }
    }

    /// Assigns the number that identifies `work` at the device.
    fn number(&mut self, work: Work) -> usize {
        let slot = self.idle_works.pop().unwrap_or(self.works.len());
        if slot == self.works.len() {
            self.works.push(None);
        }
        self.works[slot] = Some(work);
        slot
    }

    fn send(&mut self, at: Instant, slot: usize) {
        let piece = self.works[slot].as_ref().expect("the slot holds a request").piece;
        self.device.submit(at, Request { id: RequestId(slot as u64), ..piece });
    }

    /// Returns the next completion of a workload's request up to `limit`, and executes everything that comes before it.
    fn advance(&mut self, limit: Instant) -> Option<Completion> {
        loop {
            let start = self.starting.front().map_or(Instant::MAX, |(at, _)| *at);
            let expiry = self.write_back_due().unwrap_or(Instant::MAX);
            let own = start.min(expiry);
            if let Some(done) = self.device.complete(limit.min(own)) {
                if let Some(completion) = self.piece_done(&done) {
                    return Some(completion);
                }
            } else if own > limit || own == Instant::MAX {
                return None;
            } else if start <= expiry {
                let (at, slot) = self.starting.pop_front().expect("it has a front");
                self.send(at, slot);
            } else {
                self.write_back(expiry);
            }
        }
    }

    fn piece_done(&mut self, done: &Completion) -> Option<Completion> {
        let slot = done.id.0 as usize;
        let work = self.works[slot].as_mut().expect("the device completes submitted requests only");
        work.spent += done.spent;
        if done.status == Status::Ok
            && let Some(next) = work.rest.pop()
        {
            work.piece = next;
            self.send(done.at, slot);
            return None;
        }
        let work = self.works[slot].take().expect("the slot of a completed piece has work");
        self.idle_works.push(slot);
        let Some(id) = work.parent else {
            self.note_failure(done.status);
            return None;
        };
        let mut status = done.status;
        if work.piece.op == Op::Flush && status == Status::Ok {
            // As in Linux, a flush reports the failure of an earlier write-back once.
            status = self.failure.take().unwrap_or(Status::Ok);
        }
        Some(Completion { id, status, spent: work.spent, ..*done })
    }

    fn note_failure(&mut self, status: Status) {
        if status != Status::Ok {
            self.failure.get_or_insert(status);
        }
    }

    fn write_back_due(&self) -> Option<Instant> {
        self.dirty_since.map(|since| since + self.parameters.write_back)
    }

    fn write_back(&mut self, now: Instant) {
        let mut writes = self.take_dirty(Entries::All);
        writes.reverse();
        if let Some(piece) = writes.pop() {
            let slot = self.number(Work { parent: None, spent: Spent::default(), piece, rest: writes });
            self.send(now, slot);
        }
    }
}

fn device_request(op: Op, range: Range<u64>) -> Request {
    Request {
        id: RequestId(0),
        op,
        file: FileId::DEVICE,
        offset: range.start,
        length: range.end - range.start,
    }
}

/// Splits `range` into requests of at most `longest` bytes.
fn cut(op: Op, range: Range<u64>, longest: u64) -> impl Iterator<Item = Request> {
    let end = range.end;
    range.step_by(longest as usize).map(move |at| device_request(op, at..end.min(at + longest)))
}

impl Filesystem for Vfat {
    fn name(&self) -> &'static str {
        super::MODEL.name
    }

    fn create(
        &mut self,
        now: Instant,
        file: FileId,
        bytes: u64,
        allocate: Allocate,
    ) -> Result<Instant, NoRoom> {
        let mut now = self.remove(now, file);
        let index = file.0 as usize;
        if self.files.len() <= index {
            self.files.resize(index + 1, None);
        }
        self.files[index] = Some(File { entry_dirty: true, ..File::default() });
        if allocate != Allocate::Nothing {
            let most = (self.clusters.free() * self.layout.cluster()).min(FILE_SIZE_MAX);
            if bytes > most {
                return Err(NoRoom { filesystem: self.name(), wanted: bytes, most });
            }
            let reads = self.take_clusters(index, bytes);
            now = self.do_all(now, reads);
        }
        // vfat has neither unwritten extents nor holes.
        if allocate == Allocate::Zeroed {
            let zeros = self.pieces(index, 0..bytes, Op::Write, WRITE_BACK_REQUEST);
            now = self.do_all(now, zeros);
            self.file_mut(index).size = bytes;
        }
        Ok(self.sync(now))
    }

    fn remove(&mut self, now: Instant, file: FileId) -> Instant {
        let Some(removed) = self.files.get_mut(file.0 as usize).and_then(Option::take) else { return now };
        for extent in &removed.extents {
            self.clusters.release(extent);
            self.fat_changed(extent);
        }
        let entry = self.layout.directory_entry(file.0);
        let now = self.write_through(now, entry);
        self.sync(now)
    }

    fn size(&self, file: FileId) -> Option<u64> {
        Some(self.files.get(file.0 as usize)?.as_ref()?.size)
    }

    fn device(&self) -> &dyn Model {
        &*self.device
    }
}

impl Model for Vfat {
    /// Returns the size of the first file as the capacity; the volume itself cannot be addressed.
    fn geometry(&self) -> Geometry {
        let capacity = self.size(FileId::DEVICE).unwrap_or(0);
        Geometry { capacity, block: SECTOR, request_max: self.device.geometry().request_max }
    }

    fn hint(&self, file: FileId, offsets: &[u64]) {
        if let Some(first) = self.extents(file).first() {
            let start = self.layout.cluster_start(first.first);
            offsets.iter().for_each(|offset| self.device.hint(FileId::DEVICE, &[start + offset]));
        }
    }

    fn submit(&mut self, now: Instant, request: Request) {
        // Collects the requests that were due by `now`.
        while let Some(completion) = self.advance(now) {
            self.finished.push_back(completion);
        }
        let pieces = match self.piece_of_direct_io(&request) {
            Some(piece) => Ok((piece, Vec::new())),
            None => self.translate(&request).map(|mut pieces| {
                pieces.reverse();
                (pieces.pop().expect("every admitted request has a piece"), pieces)
            }),
        };
        let mut own = Duration::ZERO;
        if pieces.is_ok() && request.op == Op::Write {
            self.file_mut(request.file.0 as usize).entry_dirty = true;
            self.dirty_since.get_or_insert(now);
            let cluster = self.layout.cluster();
            own =
                self.parameters.t_unexplained * (request.end().div_ceil(cluster) - request.offset / cluster);
        }
        let mut spent = Spent::default();
        match pieces {
            Ok((piece, rest)) if own > Duration::ZERO => {
                let start = self.processor.reserve(now, own);
                spent[Mechanism::Host] = own;
                spent[Mechanism::Queue] = start.since(now) - own;
                let slot = self.number(Work { parent: Some(request.id), spent, piece, rest });
                self.starting.push_back((start, slot));
            }
            Ok((piece, rest)) => {
                let slot = self.number(Work { parent: Some(request.id), spent, piece, rest });
                self.send(now, slot);
            }
            Err(status) => self.finished.push_back(Completion { id: request.id, at: now, status, spent }),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let own = self.starting.front().map(|(at, _)| *at);
        let finished = self.finished.front().map(|c| c.at);
        [own, finished, self.device.next_due(), self.write_back_due()].into_iter().flatten().min()
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        if self.finished.front().is_some_and(|c| c.at <= limit) {
            return self.finished.pop_front();
        }
        // No request of the workload is in flight; background work waits for the next submit.
        if self.idle_works.len() == self.works.len() {
            return None;
        }
        self.advance(limit)
    }

    /// Drops the requests in flight and the metadata that is due. The files keep the state that the driver had in
    /// memory: the effect of a power cut on files is not modelled.
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.starting.clear();
        self.finished.clear();
        self.works.clear();
        self.idle_works.clear();
        self.dirty_since = None;
        self.device.power_cut(now)
    }

    fn power_up(&mut self, now: Instant) -> Instant {
        self.device.power_up(now)
    }

    fn observe(&self, to: &mut dyn Observer) {
        to.count("metadata_request_count", self.metadata_requests);
        self.device.observe(to);
    }
}
