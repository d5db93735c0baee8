//! Writes, discards and zeroes.

use super::{Inner, State};
use crate::allocate::Stream;
use crate::encode::{Encoded, Identity, encode};
use crate::extent::{Extent, Pointer, Writer};
use crate::format::Record;
use crate::member;
use flashlab_block::{Answer, Context, IoError, Outcome, Payload};
use flashlab_sim::fault;
use futures_util::future::join_all;
use std::ops::Range;

/// A part of a write with its place, before its data is encoded.
struct Allocated {
    blocks: Range<u64>,
    write: u64,
    pointers: Vec<Pointer>,
}

impl Inner {
    /// Writes `data`, and commits it if it has to be durable.
    ///
    /// A power loss leaves all of a write or nothing, unless its data is larger than the free space: then the parts for
    /// which there is space go first, and the space of the data that they replace takes the next ones.
    pub(super) async fn write(&self, cx: &Context, offset: u64, data: Payload, durable: bool) -> Outcome {
        let mut extents = Vec::new();
        let mut rest = self.blocks(offset, data.len() as u64);
        while !rest.is_empty() {
            let allocated = self.allocate(rest.clone()).inspect_err(|_| self.drop_extents(&extents))?;
            match allocated {
                Some(allocated) => {
                    rest.start = allocated.blocks.end;
                    extents.push(self.encode(offset, &data, allocated));
                }
                None => match self.make_space(cx).await {
                    Ok(()) => {}
                    Err(IoError::NoSpace) if !extents.is_empty() => {
                        self.store(cx, std::mem::take(&mut extents)).await?;
                    }
                    Err(error) => {
                        self.drop_extents(&extents);
                        return Err(error);
                    }
                },
            }
        }
        if extents.is_empty() {
            return Ok(Answer::Done);
        }
        let position = self.store(cx, extents).await?;
        self.acknowledge(cx, position, durable).await
    }

    /// Writes the data of extents to the members and maps the extents as one change. Returns its position.
    async fn store(&self, cx: &Context, extents: Vec<(Extent, Payload)>) -> Result<u64, IoError> {
        let mut writes = extents.iter().map(|(extent, bytes)| self.write_copies(cx, extent, bytes));
        let written: Result<(), IoError> = match extents.len() {
            1 => writes.next().expect("one write").await,
            _ => join_all(writes).await.into_iter().collect(),
        };
        written.inspect_err(|_| self.drop_extents(&extents))?;
        self.lock().map_all(extents, self.layout.block)
    }

    /// Takes space for the first part of `blocks`. Returns `None` without free buckets.
    fn allocate(&self, blocks: Range<u64>) -> Result<Option<Allocated>, IoError> {
        let mut state = self.lock();
        if let Some(error) = state.failed {
            return Err(error);
        }
        // Extents end at multiples of the largest extent, so that sequential writes give extents of one size.
        let max = u64::from(self.layout.extent_max / self.layout.block);
        let wanted = (blocks.end - blocks.start).min(max - blocks.start % max) as u32;
        let State { allocator, pending, position, .. } = &mut *state;
        let copies = usize::from(self.layout.replicas);
        let opened = |opened| State::record_opened(pending, opened);
        let allocated =
            allocator.allocate(Stream::Foreground, (wanted, false), copies, &[], *position, opened);
        let Some((pointers, got)) = allocated else { return Ok(None) };
        let write = state.next_write;
        state.next_write += 1;
        let blocks = blocks.start..blocks.start + u64::from(got);
        Ok(Some(Allocated { blocks, write, pointers }))
    }

    /// Encodes a part of the data of a write that begins at `offset`.
    fn encode(&self, offset: u64, data: &Payload, allocated: Allocated) -> (Extent, Payload) {
        let Allocated { blocks, write, pointers } = allocated;
        let block = u64::from(self.layout.block);
        let (from, to) = (blocks.start * block - offset, blocks.end * block - offset);
        let identity = Identity {
            volume: self.layout.volume,
            address: blocks.start * block,
            length: (to - from) as u32,
            epoch: self.epoch,
            write,
        };
        let part = data.part(from as usize..to as usize);
        let Encoded { bytes, compression, check } = encode(part, &identity, &self.encoding);
        let whole = (blocks.end, (blocks.end - blocks.start) as u16);
        let (stored, writer) = (bytes.len() as u32, Writer { epoch: self.epoch, write });
        (Extent::new(whole, stored, compression, check, writer, &pointers), bytes)
    }

    /// Writes the copies of an extent.
    pub(super) async fn write_copies(
        &self,
        cx: &Context,
        extent: &Extent,
        bytes: &Payload,
    ) -> Result<(), IoError> {
        let write = |pointer: &Pointer| {
            let device = &*self.members[usize::from(pointer.member)].device;
            member::write(device, cx, self.layout.offset(pointer), bytes.clone())
        };
        match extent.pointers() {
            [pointer] => write(pointer).await,
            pointers => join_all(pointers.iter().map(write)).await.into_iter().collect(),
        }
    }

    /// Gives back the space of extents that were not written.
    fn drop_extents(&self, extents: &[(Extent, Payload)]) {
        let mut state = self.lock();
        let State { allocator, position, .. } = &mut *state;
        for (extent, _) in extents {
            super::replace(allocator, extent, &[], *position, self.layout.block);
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
            let position = state.change()?;
            let length = blocks.end - blocks.start;
            if !fault("volume-forgets-a-discard") {
                Record::Unmap { start: blocks.start, length }.encode(&mut state.pending.records);
            }
            let State { map, allocator, .. } = &mut *state;
            map.remove(blocks, |old, left| {
                super::replace(allocator, old, left, position, self.layout.block);
            });
            state.end_group();
            position
        };
        self.acknowledge(cx, position, durable).await
    }

    /// Commits a change if it has to be durable, or if many changes are pending.
    async fn acknowledge(&self, cx: &Context, position: u64, durable: bool) -> Outcome {
        let many = self.lock().pending.records.len() >= self.layout.records_max() / 2;
        if (durable && !fault("volume-ignores-fua")) || many {
            self.commit(cx, position).await?;
        }
        Ok(Answer::Done)
    }
}

impl State {
    /// Maps the extents of one write, as one change. Returns its position.
    fn map_all(&mut self, extents: Vec<(Extent, Payload)>, block: u32) -> Result<u64, IoError> {
        let position = self.change()?;
        for (extent, _) in extents {
            extent.pointers().iter().for_each(|pointer| self.touched |= 1 << pointer.member);
            self.map_extent(extent, position, block);
            if fault("volume-splits-a-write") {
                self.end_group();
            }
        }
        self.end_group();
        Ok(position)
    }
}
