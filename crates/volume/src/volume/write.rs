//! Writes, discards and zeroes.

use super::codec::Work;
use super::threads::compress_ns;
use super::{Inner, State};
use crate::allocate::{NoRoom, Stream, Want};
use crate::encode::{Compression, Compressor, Encoded, Encoding, Identity, compress, seal};
use crate::extent::{Extent, Pointer, Pointers, Writer};
use crate::format::Record;
use crate::layout::Layout;
use crate::member_set::MemberSet;
use flashlab_block::{Answer, Context, IoError, Outcome, Payload};
use flashlab_sim::fault;
use futures_util::future::join_all;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::ops::Range;

/// A part of the data of a write that becomes an extent, with its places on members.
pub(super) struct Part {
    blocks: Range<u64>,
    identity: Identity,
    places: Pointers,
    /// The bytes, compressed with `compression`.
    bytes: Payload,
    compression: Compression,
}

impl Inner {
    /// Writes `data`, and commits it if it has to be durable.
    ///
    /// A power loss leaves all of the write or nothing, unless its data is larger than the free space. In that case,
    /// the parts for which there is space are stored first, and the following parts use the space of the data that the
    /// first ones replaced.
    pub(super) async fn write(&self, cx: &Context, offset: u64, data: Payload, durable: bool) -> Outcome {
        let (mut parts, mut compressed, mut stored) = (Vec::new(), BTreeMap::new(), None);
        let mut rest = self.blocks(offset, data.len() as u64);
        while !rest.is_empty() {
            self.compress_parts(offset, &data, rest.clone(), &mut compressed).await;
            let next = self.next_part(cx, offset, &data, rest.clone(), &mut compressed);
            match next.inspect_err(|_| self.drop_parts(&parts))? {
                Ok(next) => add_part(next, &mut parts, &mut rest),
                Err(NoRoom::Cached) => {
                    self.evict(cx).await.inspect_err(|_| self.drop_parts(&parts))?;
                }
                Err(NoRoom::Full) => {
                    let mut taken = None;
                    let take = || {
                        taken = self.next_part(cx, offset, &data, rest.clone(), &mut compressed)?.ok();
                        Ok(taken.is_some())
                    };
                    let holding = (!parts.is_empty()).then(|| self.writes.hold());
                    let made = self.make_space(cx, take).await;
                    drop(holding);
                    taken.into_iter().for_each(|next| add_part(next, &mut parts, &mut rest));
                    match made {
                        Ok(()) => {}
                        Err(IoError::NoSpace) if !parts.is_empty() => {
                            stored = Some(self.store(cx, std::mem::take(&mut parts)).await?);
                        }
                        // Another write holds space. When it stores its parts, the space of the data that
                        // they replace becomes free.
                        Err(IoError::NoSpace) if self.writes.are_holding() => {}
                        Err(error) => {
                            self.drop_parts(&parts);
                            return Err(error);
                        }
                    }
                }
            }
        }
        if !parts.is_empty() {
            stored = Some(self.store(cx, parts).await?);
        }
        match stored {
            Some(position) => self.acknowledge(cx, position, durable).await,
            None => Ok(Answer::Done),
        }
    }

    /// Seals the parts of a write, writes their data to the members, and maps their extents as one change.
    /// Returns the position of the change.
    async fn store(&self, cx: &Context, parts: Vec<Part>) -> Result<u64, IoError> {
        let _storing = self.writes.store();
        let layout = self.layout;
        let ns = |part: &Part| self.cipher_ns(part.bytes.len());
        let seal = move |part, how: &Encoding| seal_part(part, &layout, how);
        let mut extents = self.compute_all(parts, ns, seal).await;
        let mut since = self.flush_failures();
        let mut writes = extents.iter().map(async |(extent, bytes)| {
            let logical = u64::from(extent.whole()) * u64::from(self.layout.block);
            // Compression was tried even on data that does not shrink.
            let compressor = self.encoding.compressor;
            self.spend(cx, Work::Encode { compressor, logical, stored: extent.stored().into() }).await;
            self.write_copies(cx, extent, bytes).await
        });
        let mut failed: SmallVec<[MemberSet; 1]> = match extents.len() {
            1 => smallvec![writes.next().expect("one write").await],
            _ => join_all(writes).await.into(),
        };
        loop {
            let again = self.flush_failures();
            for n in (0..extents.len()).filter(|n| !failed[*n].is_empty()) {
                let (extent, bytes) = &extents[n];
                match self.replace_failed(cx, extent.clone(), bytes, failed[n]).await {
                    Ok(replaced) => extents[n].0 = replaced,
                    Err((rest, error)) => {
                        extents[n].0 = rest;
                        self.drop_extents(&extents);
                        return Err(error);
                    }
                }
            }
            let mut state = self.lock();
            let doubtful = state.unflushed.doubtful_since(since);
            failed.clear();
            failed.extend(extents.iter().map(|(extent, _)| extent.members() & doubtful));
            if failed.iter().all(|failed| failed.is_empty()) {
                return state.map_all(extents, self.layout.block);
            }
            // A member whose flush failed in the meantime may have lost the data. The replacement copies are newer than
            // this failure, so only later failures affect them.
            since = again;
        }
    }

    /// Writes further copies of a new extent in place of those on the `failed` members, as long as writable members are
    /// left. Fails, with the extent that remains, if no copy was written.
    async fn replace_failed(
        &self,
        cx: &Context,
        mut extent: Extent,
        bytes: &Payload,
        mut failed: MemberSet,
    ) -> Result<Extent, (Extent, IoError)> {
        let blocks = extent.stored_blocks(self.layout.block);
        let mut tried = failed;
        loop {
            let is_bad = |pointer: &Pointer| failed.contains(pointer.member);
            let (bad, good): (Vec<Pointer>, Vec<Pointer>) =
                extent.pointers().iter().partition(|pointer| is_bad(pointer));
            self.remove_references(&bad, blocks);
            let taken: Vec<u8> = (0..self.members.len() as u8)
                .filter(|n| tried.contains(*n) || good.iter().any(|pointer| pointer.member == *n))
                .collect();
            let have = self.lock().allocator.durability(&good);
            let missing = usize::from(self.layout.replicas).saturating_sub(have);
            let want = Want { taken: &taken, copies: missing, ..self.want(blocks, true) };
            let allocated = match missing {
                0 => None,
                _ => self.take_space(cx, &want).await.unwrap_or(None),
            };
            let Some((places, _)) = allocated else {
                return match good.is_empty() {
                    true => Err((extent.with_pointers(&good), IoError::Medium)),
                    false => Ok(extent.with_pointers(&good)),
                };
            };
            failed = self.write_copies(cx, &extent.with_pointers(&places), bytes).await;
            tried |= failed;
            extent = extent.with_pointers(&[&good[..], &places].concat());
            if failed.is_empty() {
                return Ok(extent);
            }
        }
    }

    /// Describes the space that new data needs.
    fn want(&self, blocks: u32, exact: bool) -> Want<'static> {
        Want {
            stream: Stream::Foreground,
            blocks,
            exact,
            copies: usize::from(self.layout.replicas),
            copies_min: 1,
            taken: &[],
            prefer: self.layout.foreground,
            only: false,
            within: MemberSet::EMPTY,
            from: None,
            durability: 0,
            evict: true,
        }
    }

    /// Returns the first part of `blocks` that becomes one extent. Extents end at multiples of the largest extent size,
    /// so that sequential writes give extents of equal size.
    fn first_part(&self, blocks: &Range<u64>) -> Range<u64> {
        let max = u64::from(self.layout.extent_max / self.layout.block);
        blocks.start..blocks.end.min(blocks.start + max - blocks.start % max)
    }

    /// Returns the bytes of blocks of a write that begins at `offset`.
    fn bytes_of(&self, offset: u64, data: &Payload, blocks: &Range<u64>) -> Payload {
        let at = |n: u64| (n * u64::from(self.layout.block) - offset) as usize;
        data.part(at(blocks.start)..at(blocks.end))
    }

    /// Compresses the parts of `rest` that are not in `compressed` yet; the key of a part is its first block.
    /// Parts that found no space in an earlier attempt are already in `compressed`.
    async fn compress_parts(
        &self,
        offset: u64,
        data: &Payload,
        mut rest: Range<u64>,
        compressed: &mut BTreeMap<u64, Option<Vec<u8>>>,
    ) {
        let compressor = self.encoding.compressor;
        if compressor == Compressor::None || compressed.contains_key(&rest.start) {
            return;
        }
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let part = self.first_part(&rest);
            rest.start = part.end;
            if !compressed.contains_key(&part.start) {
                parts.push((part.start, self.bytes_of(offset, data, &part)));
            }
        }
        let ns = |(_, bytes): &(u64, Payload)| compress_ns(compressor, bytes.len() as u64);
        let compress = |(start, bytes): (u64, Payload), how: &Encoding| (start, compress(&bytes, how));
        compressed.extend(self.compute_all(parts, ns, compress).await);
    }

    /// Allocates space for the first part of `blocks`, a range of the data of a write that begins at `offset`. Fails if
    /// no bucket is free.
    fn next_part(
        &self,
        cx: &Context,
        offset: u64,
        data: &Payload,
        blocks: Range<u64>,
        compressed: &mut BTreeMap<u64, Option<Vec<u8>>>,
    ) -> Result<Result<Part, NoRoom>, IoError> {
        let blocks = self.first_part(&blocks);
        let bytes = compressed.get(&blocks.start).and_then(Option::as_ref);
        if let Some(length) = bytes.map(|bytes| bytes.len() as u32) {
            let wanted = length.div_ceil(self.layout.block);
            let (places, _) = match self.allocate(cx, (wanted, true))? {
                Ok(space) => space,
                Err(why) => return Ok(Err(why)),
            };
            let bytes = compressed.remove(&blocks.start).flatten().expect("looked up above").into();
            let compression = self.encoding.compressor.compression();
            return Ok(Ok(self.part(blocks, places, (bytes, compression))));
        }
        let wanted = (blocks.end - blocks.start) as u32;
        let (places, got) = match self.allocate(cx, (wanted, false))? {
            Ok(space) => space,
            Err(why) => return Ok(Err(why)),
        };
        let blocks = blocks.start..blocks.start + u64::from(got);
        let bytes = self.bytes_of(offset, data, &blocks);
        Ok(Ok(self.part(blocks, places, (bytes, Compression::None))))
    }

    /// Allocates space for the copies of up to `blocks` blocks. Fails if no bucket is free.
    fn allocate(
        &self,
        cx: &Context,
        (blocks, exact): (u32, bool),
    ) -> Result<Result<(Pointers, u32), NoRoom>, IoError> {
        let mut state = self.lock();
        state.changes.check()?;
        self.attempt_failing(cx, &mut state);
        let State { allocator, changes, .. } = &mut *state;
        if allocator.reachable(1, &[]) == 0 {
            return Err(IoError::Medium);
        }
        let position = changes.position();
        let opened = |opened| changes.record_opened(opened);
        Ok(allocator.allocate(&self.want(blocks, exact), position, opened))
    }

    /// Encrypts the bytes of an extent, or computes their checksums. Returns the extent, and its bytes padded to whole
    /// blocks.
    pub(super) fn seal(&self, part: Part) -> (Extent, Payload) {
        seal_part(part, &self.layout, &self.encoding)
    }

    /// Returns a part with the identity of a new extent. Its number is unique within a mount, because it is a part of the
    /// nonce.
    pub(super) fn part(
        &self,
        blocks: Range<u64>,
        places: Pointers,
        (bytes, compression): (Payload, Compression),
    ) -> Part {
        let Writer { epoch, write } = self.numbers.next_writer();
        let block = u64::from(self.layout.block);
        let identity = Identity {
            volume: self.layout.volume,
            address: blocks.start * block,
            length: ((blocks.end - blocks.start) * block) as u32,
            epoch,
            write,
        };
        Part { blocks, identity, places, bytes, compression }
    }

    /// Writes the copies of an extent. Returns the members that failed.
    pub(super) async fn write_copies(&self, cx: &Context, extent: &Extent, bytes: &Payload) -> MemberSet {
        let write = async |pointer: &Pointer| {
            let written = self.write_to(cx, pointer.member, self.layout.offset(pointer), bytes.clone()).await;
            written.is_err().then_some(pointer.member)
        };
        match &*extent.pointers() {
            [pointer] => write(pointer).await.into_iter().collect(),
            pointers => join_all(pointers.iter().map(write)).await.into_iter().flatten().collect(),
        }
    }

    /// Releases the space of extents that were not written.
    fn drop_extents(&self, extents: &[(Extent, Payload)]) {
        let mut state = self.lock();
        let State { allocator, changes, .. } = &mut *state;
        for (extent, _) in extents {
            super::replace(allocator, extent, &[], changes.position(), self.layout.block);
        }
    }

    /// Releases the space of parts that were not sealed.
    fn drop_parts(&self, parts: &[Part]) {
        for part in parts {
            self.remove_references(&part.places, (part.bytes.len() as u32).div_ceil(self.layout.block));
        }
    }

    /// Unmaps a range, which then reads as zeroes.
    pub(super) async fn unmap(&self, cx: &Context, offset: u64, length: u64, durable: bool) -> Outcome {
        let blocks = self.blocks(offset, length);
        if blocks.is_empty() {
            return Ok(Answer::Done);
        }
        let position = {
            let mut state = self.lock();
            let position = state.changes.begin()?;
            let length = blocks.end - blocks.start;
            if !fault("volume-forgets-a-discard") {
                state.changes.record(&Record::Unmap { start: blocks.start, length });
            }
            let State { map, allocator, .. } = &mut *state;
            map.remove(blocks, |old, left| {
                super::replace(allocator, old, left, position, self.layout.block);
            });
            state.changes.end();
            position
        };
        self.acknowledge(cx, position, durable).await
    }

    /// Commits a change if it has to be durable, or if many changes are pending.
    async fn acknowledge(&self, cx: &Context, position: u64, durable: bool) -> Outcome {
        let many = self.lock().changes.pending_bytes() >= self.layout.records_max() / 2;
        if (durable && !fault("volume-ignores-fua")) || many {
            self.commit(cx, position).await?;
        }
        Ok(Answer::Done)
    }
}

/// Appends the next part of a write to `parts`, and removes it from `rest`.
fn add_part(next: Part, parts: &mut Vec<Part>, rest: &mut Range<u64>) {
    rest.start = next.blocks.end;
    parts.push(next);
}

/// Encrypts the bytes of a part, or computes their checksums. Returns its extent, and its bytes padded to whole blocks.
fn seal_part(part: Part, layout: &Layout, how: &Encoding) -> (Extent, Payload) {
    let Part { blocks, identity, places, bytes, compression } = part;
    let Encoded { mut bytes, check, .. } = seal(bytes, compression, &identity, how);
    let whole = (blocks.end, (blocks.end - blocks.start) as u16);
    let (stored, writer) = (bytes.len() as u32, Writer { epoch: identity.epoch, write: identity.write });
    let padded = bytes.len().next_multiple_of(layout.block as usize);
    if padded > bytes.len() {
        let mut copy = Vec::with_capacity(padded);
        copy.extend_from_slice(&bytes);
        copy.resize(padded, 0);
        bytes = copy.into();
    }
    (Extent::new(whole, stored, compression, &check, writer, &places), bytes)
}

impl State {
    /// Maps the extents of one write as one change. Returns the position of the change.
    fn map_all(&mut self, extents: Vec<(Extent, Payload)>, block: u32) -> Result<u64, IoError> {
        let position = self.changes.begin()?;
        for (extent, _) in extents {
            self.unflushed.add(&extent, extent.members());
            self.map_extent(extent, position, block);
            if fault("volume-splits-a-write") {
                self.changes.end();
            }
        }
        self.changes.end();
        Ok(position)
    }
}
