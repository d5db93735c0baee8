//! Reads of several extents.
//!
//! Parts that are stored as they are go straight to their places in the buffer of the request, where they are verified
//! and decrypted. All other parts, and those that fail, are read into buffers of their own.

use super::{Fetch, Fetched, Inner, Opening, stored};
use crate::encode::{Compression, Encoding, open_units};
use crate::extent::{Extent, Pointer};
use flashlab_block::{Context, IoError};
use futures_util::future::{join_all, poll_immediate};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum length in bytes of a request for several extents.
const RUN_BYTES_MAX: usize = 1 << 20;

/// The part of an extent that a read needs.
struct Wanted<'a> {
    extent: &'a Extent,
    /// Logical blocks.
    blocks: Range<u64>,
    /// The place of the part in the buffer of the request.
    place: Range<usize>,
    /// The copy to read first and the place of its bytes, if there is a copy.
    fetch: Option<(Pointer, Fetch)>,
}

/// A part whose stored bytes are at its place in the buffer of the request.
struct InPlace {
    place: Range<usize>,
    how: Opening,
    /// True if the stored bytes are those of the whole extent, which is to get a cached copy.
    is_kept: bool,
}

impl InPlace {
    /// Verifies and decrypts the part. Returns the stored bytes if they are kept, and `None` if they are bad.
    fn open(&self, buffer: &mut [u8], encoding: &Encoding) -> Option<Option<Vec<u8>>> {
        let bytes = &mut buffer[self.place.clone()];
        let stored = self.is_kept.then(|| bytes.to_vec());
        let is_good = match &self.how {
            Opening::Sum(sum) => crc32c::crc32c(bytes) == *sum,
            Opening::Checks { first, check, identity } => {
                open_units(bytes, *first, check, identity, encoding).is_ok()
            }
        };
        is_good.then_some(stored)
    }
}

/// Divides extents into runs whose stored bytes lie side by side on a member. A run keeps the order of the extents.
fn runs(wanted: &[Wanted<'_>]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::with_capacity(wanted.len());
    // The number and the bytes of the run that ends at a place of a member.
    let mut ending: BTreeMap<(u8, u64), (usize, usize)> = BTreeMap::new();
    for (at, wanted) in wanted.iter().enumerate() {
        let Some((pointer, fetch)) = &wanted.fetch else {
            runs.push(vec![at]);
            continue;
        };
        let run = ending.remove(&(pointer.member, fetch.offset));
        let run = run.filter(|(_, bytes)| bytes + fetch.length <= RUN_BYTES_MAX);
        match run {
            Some((run, _)) => runs[run].push(at),
            None => runs.push(vec![at]),
        }
        let (run, bytes) = run.unwrap_or((runs.len() - 1, 0));
        ending.insert((pointer.member, fetch.offset + fetch.length as u64), (run, bytes + fetch.length));
    }
    runs
}

/// Returns the copies that the parts of a run are read from.
fn fetches<'a>(wanted: &'a [Wanted<'_>], run: &'a [usize]) -> impl Iterator<Item = &'a (Pointer, Fetch)> {
    run.iter().filter_map(|at| wanted[*at].fetch.as_ref())
}

/// Returns the number of stored bytes of a run.
fn run_length(wanted: &[Wanted<'_>], run: &[usize]) -> usize {
    fetches(wanted, run).map(|(_, fetch)| fetch.length).sum()
}

/// Fills the bytes of the buffer that belong to no part with zeroes.
fn zero_holes(buffer: &mut [u8], wanted: &[Wanted<'_>]) {
    let mut at = 0;
    for Wanted { place, .. } in wanted {
        buffer[at..place.start].fill(0);
        at = place.end;
    }
    buffer[at..].fill(0);
}

impl Inner {
    /// Reads several extents, with zeroes between them. Returns `None` if an extent was moved meanwhile.
    pub(super) async fn read_parts(
        &self,
        cx: &Context,
        extents: &[Extent],
        blocks: Range<u64>,
        mut buffer: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, IoError> {
        // One random number serves all parts, so that neighbours are read from the same member.
        let has_choice = extents.iter().any(|extent| extent.pointers().len() > 1);
        let random = if has_choice { cx.random() } else { 0 };
        let wanted: Vec<Wanted<'_>> =
            extents.iter().map(|extent| self.wanted(cx, random, extent, &blocks)).collect();
        zero_holes(&mut buffer, &wanted);
        let is_whole = |run: &Vec<usize>| run.iter().all(|at| self.is_whole(&wanted[*at]));
        let (whole, mut left): (Vec<_>, Vec<_>) = runs(&wanted).into_iter().partition(is_whole);
        let (mut buffer, failed) = self.read_in_place(cx, &wanted, whole, buffer).await;
        left.extend(failed.into_iter().map(|at| vec![at]));
        let reads = join_all(left.iter().map(|run| self.read_run(cx, &wanted, run))).await;
        for (at, read) in left.iter().flatten().zip(reads.into_iter().flatten()) {
            let Some(bytes) = read? else { return Ok(None) };
            buffer[wanted[*at].place.clone()].copy_from_slice(&bytes);
        }
        Ok(Some(buffer))
    }

    /// Returns true if the part is stored as it is, and consists of whole units.
    fn is_whole(&self, wanted: &Wanted<'_>) -> bool {
        // Codecs that take simulated time take it for each extent.
        self.decrypts_for_free()
            && wanted.extent.compression() == Compression::None
            && wanted.fetch.as_ref().is_some_and(|(_, fetch)| fetch.length == wanted.place.len())
    }

    /// Reads runs of whole parts to their places in the buffer, and verifies and decrypts them there. Returns the buffer,
    /// and the parts that failed: the member could not be read, the bytes are bad, or the bucket was reused meanwhile.
    async fn read_in_place(
        &self,
        cx: &Context,
        wanted: &[Wanted<'_>],
        runs: Vec<Vec<usize>>,
        buffer: Vec<u8>,
    ) -> (Vec<u8>, Vec<usize>) {
        let (mut buffer, fetched) = self.fetch_to_places(cx, wanted, &runs, buffer).await;
        let parts: Vec<InPlace> = fetched.iter().filter_map(|at| self.in_place(&wanted[*at])).collect();
        let length = parts.iter().map(|part| part.place.len()).sum();
        let open = move |how: &Encoding| {
            let opened: Vec<_> = parts.iter().map(|part| part.open(&mut buffer, how)).collect();
            (buffer, opened)
        };
        let (buffer, opened) = self.compute(self.cipher_ns(length), open).await;
        let mut is_good = vec![false; wanted.len()];
        {
            let state = self.lock();
            for (at, opened) in fetched.iter().zip(&opened) {
                let pointer = wanted[*at].fetch.as_ref().map(|(pointer, _)| pointer);
                is_good[*at] = opened.is_some() && pointer.is_some_and(|at| state.allocator.is_current(at));
            }
        }
        for (at, stored) in fetched.into_iter().zip(opened).filter(|(at, _)| is_good[*at]) {
            let Wanted { extent, fetch, .. } = &wanted[at];
            if let Some((pointer, _)) = fetch {
                self.note_read(extent, pointer, stored.flatten());
            }
        }
        (buffer, runs.into_iter().flatten().filter(|at| !is_good[*at]).collect())
    }

    /// Reads runs of whole parts to their places in the buffer. Returns the buffer, and the parts that were read.
    async fn fetch_to_places(
        &self,
        cx: &Context,
        wanted: &[Wanted<'_>],
        runs: &[Vec<usize>],
        mut buffer: Vec<u8>,
    ) -> (Vec<u8>, Vec<usize>) {
        let length = buffer.len();
        if let [run] = runs
            && run_length(wanted, run) == length
        {
            return match self.read_side_by_side(cx, wanted, run, buffer).await {
                Ok(buffer) => (buffer, run.clone()),
                Err(_) => (vec![0; length], Vec::new()),
            };
        }
        let mut fetched = Vec::with_capacity(wanted.len());
        let mut scatter = |run: &[usize], mut bytes: &[u8]| {
            for at in run {
                let place = &wanted[*at].place;
                let (part, rest) = bytes.split_at(place.len());
                buffer[place.clone()].copy_from_slice(part);
                bytes = rest;
                fetched.push(*at);
            }
        };
        // Requests that are answered at once share a buffer. The others wait for their members together.
        let (mut shared, mut waiting) = (Vec::new(), Vec::new());
        for run in runs {
            let mut bytes = std::mem::take(&mut shared);
            bytes.resize(run_length(wanted, run), 0);
            let mut read = Box::pin(self.read_side_by_side(cx, wanted, run, bytes));
            match poll_immediate(&mut read).await {
                Some(Ok(bytes)) => {
                    scatter(run, &bytes);
                    shared = bytes;
                }
                Some(Err(_)) => {}
                None => waiting.push(async move { (run, read.await) }),
            }
        }
        for (run, read) in join_all(waiting).await {
            if let Ok(bytes) = read {
                scatter(run, &bytes);
            }
        }
        (buffer, fetched)
    }

    /// Returns what the verification of a part in its place needs, or `None` if the part has no copy.
    fn in_place(&self, wanted: &Wanted<'_>) -> Option<InPlace> {
        let Wanted { extent, place, fetch, .. } = wanted;
        let (_, fetch) = fetch.as_ref()?;
        let how = self.opening(extent, fetch);
        Some(InPlace { place: place.clone(), how, is_kept: self.is_kept(extent, fetch) })
    }

    /// Returns the part of an extent that a read needs, with the place of the copy that is drawn first.
    fn wanted<'a>(&self, cx: &Context, random: u64, extent: &'a Extent, request: &Range<u64>) -> Wanted<'a> {
        let blocks = extent.start().max(request.start)..extent.end().min(request.end);
        let byte = |at: u64| ((at - request.start) * u64::from(self.layout.block)) as usize;
        let place = byte(blocks.start)..byte(blocks.end);
        let pointer = match &*extent.pointers() {
            [pointer] => Some(*pointer),
            _ => self.in_reading_order(cx, random, extent).first().copied(),
        };
        let fetch = pointer.map(|pointer| (pointer, self.fetch(extent, &pointer, stored(extent, &blocks))));
        Wanted { extent, blocks, place, fetch }
    }

    /// Reads extents whose stored bytes lie side by side on a member with one request. An extent that cannot be read or
    /// verified this way is read on its own, from any of its copies.
    async fn read_run(
        &self,
        cx: &Context,
        wanted: &[Wanted<'_>],
        run: &[usize],
    ) -> Vec<Result<Option<Vec<u8>>, IoError>> {
        let mut bytes = match run {
            [_] => Vec::new(),
            _ => self.read_parted(cx, wanted, run).await,
        };
        let prepared = run.iter().map(|at| {
            let Wanted { extent, fetch, .. } = &wanted[*at];
            let (pointer, fetch) = fetch.as_ref()?;
            self.prepare(extent, pointer, fetch, bytes.pop()?).ok()
        });
        let prepared: Vec<Option<Fetched>> = prepared.collect();
        let ns = |fetched: &Option<Fetched>| fetched.as_ref().map_or(0, |fetched| self.open_ns(fetched));
        let open = |fetched: Option<Fetched>, how: &Encoding| fetched.map(|fetched| fetched.open(how));
        let opened = self.compute_all(prepared, ns, open).await;
        let mut reads = Vec::with_capacity(run.len());
        for (at, opened) in run.iter().zip(opened) {
            let Wanted { extent, blocks, place, fetch } = &wanted[*at];
            if let Some((fetch, opened)) = fetch.as_ref().zip(opened)
                && let Ok(part) = self.finish(cx, extent, fetch, stored(extent, blocks), opened).await
            {
                reads.push(Ok(Some(self.noted(extent, part))));
                continue;
            }
            let read = self.read_extent(cx, extent, blocks.clone(), vec![0; place.len()]).await;
            reads.push(read.map(|read| read.map(|reading| self.noted(extent, reading))));
        }
        reads
    }

    /// Returns the stored bytes of the extents of a run in reverse order; nothing if the read fails.
    async fn read_parted(&self, cx: &Context, wanted: &[Wanted<'_>], run: &[usize]) -> Vec<Vec<u8>> {
        let buffer = vec![0; run_length(wanted, run)];
        let Ok(bytes) = self.read_side_by_side(cx, wanted, run, buffer).await else { return Vec::new() };
        let mut rest = &bytes[..];
        let mut parts: Vec<Vec<u8>> = Vec::with_capacity(run.len());
        for (_, fetch) in fetches(wanted, run) {
            let (part, after) = rest.split_at(fetch.length);
            parts.push(part.to_vec());
            rest = after;
        }
        parts.reverse();
        parts
    }

    /// Reads the stored bytes of the extents of a run into a buffer of their length.
    async fn read_side_by_side(
        &self,
        cx: &Context,
        wanted: &[Wanted<'_>],
        run: &[usize],
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, IoError> {
        let (pointer, first) = fetches(wanted, run).next().ok_or(IoError::Medium)?;
        self.read_from(cx, pointer.member, first.offset, buffer).await
    }
}
