//! Encodes the data of an extent anew and replaces the extent. The new encoding has the background
//! compression, or lacks the blocks that later writes replaced.

use super::Inner;
use super::codec::Work;
use super::rearrange::Rearranged;
use crate::allocate::{Stream, Want};
use crate::encode::{Compression, Compressor, Encoding, compress};
use crate::extent::{Extent, Pointer, members_of};
use crate::member_set::MemberSet;
use crate::reconcile::Reason;
use flashlab_block::{Context, IoError, Payload};
use flashlab_sim::fault;

impl Inner {
    /// Encodes the live range of an extent with the background compression. If this saves no block, the extent is marked, so
    /// that the attempt is not repeated. Also returns the number of bytes written.
    pub(super) async fn recompress(
        &self,
        cx: &Context,
        extent: &Extent,
    ) -> Result<(Result<(), Reason>, u64), IoError> {
        let buffer = vec![0; self.bytes(extent) as usize];
        let data = match self.read_extent(cx, extent, extent.live(), buffer).await {
            Ok(Some(reading)) => reading.bytes,
            Ok(None) => return Ok((Ok(()), 0)),
            Err(_) => return Ok((Err(Reason::Unreadable), 0)),
        };
        let compressor = self.layout.background_compression;
        let how = Encoding { compressor, ..(*self.encoding).clone() };
        self.spend(cx, Work::Encode { compressor, logical: data.len() as u64, stored: 0 }).await;
        let Some(compressed) = compress(&data, &how) else {
            self.swap_extent(extent, extent.incompressible(), (MemberSet::EMPTY, 0))?;
            return Ok((Ok(()), 0));
        };
        let prefer =
            if !self.layout.background.is_empty() { self.layout.background } else { self.layout.foreground };
        let compressed = (compressed.into(), compressor.compression());
        let (done, written) = self.store_anew(cx, extent, compressed, (prefer, None)).await?;
        Ok((done.done_or_reason(), written))
    }

    /// Stores the live range of an extent without the blocks around it that each copy still contains. `space`
    /// contains the fields `prefer` and `from` of the [`Want`] for the new copies. The copies stay as they
    /// are if there is no space. Also returns the number of bytes written.
    pub(super) async fn shed(
        &self,
        cx: &Context,
        extent: &Extent,
        space: (MemberSet, Option<u8>),
    ) -> Result<(Rearranged, u64), IoError> {
        let buffer = vec![0; self.bytes(extent) as usize];
        let is_narrowed = extent.compression() == Compression::None && self.encoding.keyring.is_none();
        // The units of a narrowed extent have other boundaries. Two bad units in different copies could merge
        // into one unit that is bad in all copies.
        let read = match is_narrowed {
            true => self.read_one_copy(cx, extent, extent.live(), buffer).await,
            false => self.read_extent(cx, extent, extent.live(), buffer).await,
        };
        let Ok(Some(reading)) = read else { return Ok((Rearranged::Unreadable, 0)) };
        let data = reading.bytes;
        if is_narrowed {
            self.narrow(extent, data)?;
            return Ok((Rearranged::Done, 0));
        }
        let known = [self.encoding.compressor, self.layout.background_compression];
        let same = known.into_iter().find(|compressor| compressor.compression() == extent.compression());
        let compressor = same.unwrap_or(Compressor::None);
        let how = Encoding { compressor, ..(*self.encoding).clone() };
        self.spend(cx, Work::Encode { compressor, logical: data.len() as u64, stored: 0 }).await;
        let encoded = match compress(&data, &how) {
            Some(compressed) => (compressed.into(), how.compressor.compression()),
            None => (data.into(), Compression::None),
        };
        self.store_anew(cx, extent, encoded, space).await
    }

    /// Replaces an extent, which is neither compressed nor encrypted, by an extent of its live range, whose
    /// bytes are `data`. The new copies are parts of the old copies under new checksums, so nothing is
    /// written to the members.
    fn narrow(&self, extent: &Extent, data: Vec<u8>) -> Result<(), IoError> {
        let skip = u32::from(extent.skip());
        let place = |pointer: &Pointer| Pointer { offset: pointer.offset + skip, ..*pointer };
        let places = extent.pointers().iter().map(place).collect();
        let (new, _) = self.seal(self.part(extent.live(), places, (data.into(), Compression::None)));
        self.swap_extent(extent, new.with_live(extent.length(), 0, extent.state()), (MemberSet::EMPTY, 0))
            .map(drop)
    }

    /// Stores the live range of an extent, encoded as `bytes`, in place of all of its copies, unless the
    /// extent changes meanwhile. The new copies are at least as durable as the old ones, up to the number of
    /// replicas. In a garbage collection, which sets `from`, the copies are only as durable as the members
    /// that take data permit, like new data. Otherwise, writes would find no space while a member is missing
    /// or fails. Also returns the number of bytes written.
    async fn store_anew(
        &self,
        cx: &Context,
        extent: &Extent,
        (bytes, compression): (Payload, Compression),
        (prefer, from): (MemberSet, Option<u8>),
    ) -> Result<(Rearranged, u64), IoError> {
        let blocks = (bytes.len() as u32).div_ceil(self.layout.block);
        let replicas = usize::from(self.layout.replicas);
        let copies_min = match from {
            None if !fault("volume-trades-copies-for-fewer") => {
                self.lock().allocator.durability(&extent.pointers()).min(replicas)
            }
            _ => 1,
        };
        let want = Want {
            stream: Stream::Collect,
            blocks,
            exact: true,
            copies: replicas,
            copies_min,
            taken: &[],
            prefer,
            only: false,
            within: if from.is_some() { extent.members() } else { MemberSet::EMPTY },
            from,
            durability: 0,
            evict: true,
        };
        let Some((places, _)) = self.take_space(cx, &want).await? else {
            return Ok((Rearranged::NoSpace, 0));
        };
        let (new, bytes) = self.seal(self.part(extent.live(), places, (bytes, compression)));
        let sealing = Work::Encode { compressor: Compressor::None, logical: 0, stored: new.stored().into() };
        self.spend(cx, sealing).await;
        let since = self.flush_failures();
        let failed = self.write_copies(cx, &new, &bytes).await;
        let is_swapped = match failed.is_empty() {
            true => self.swap_extent(extent, new, (members_of(&places), since)),
            false => Ok(false),
        };
        self.remove_references(&places, blocks);
        Ok(match is_swapped? {
            true => (Rearranged::Done, bytes.len() as u64 * places.len() as u64),
            false => (Rearranged::Failed, 0),
        })
    }

    /// Replaces an extent in the map by `new`, whose copies on the `written` members are new, unless the
    /// extent changed meanwhile. If a flush of one of these members failed after flush failure number
    /// `since`, returns false and changes nothing.
    fn swap_extent(
        &self,
        extent: &Extent,
        new: Extent,
        (written, since): (MemberSet, u64),
    ) -> Result<bool, IoError> {
        let mut state = self.lock();
        if !(state.unflushed.doubtful_since(since) & written).is_empty() {
            return Ok(false);
        }
        let is_current = state.map.overlapping(extent.live()).any(|other| other == extent);
        if is_current || fault("volume-recompression-revives-old-data") {
            let position = state.changes.begin()?;
            state.unflushed.add(&new, written);
            state.remap(new, position, self.layout.block);
            state.changes.end();
        }
        Ok(true)
    }
}
