//! Runs of a checkpoint. Their records contain the salts of the mounts, the generations of the buckets and
//! the whole map in logical order.
//!
//! Each run contains the place of the next one, so a reader follows them from the place in the superblock.

use super::Fault;
use super::sealed::{self, SEAL_LEN, SealWith};
use super::wire::{self, Get, Put};
use crate::keys::{Keyring, Purpose};

const MAGIC: &[u8; 8] = b"FLVchkp1";

/// Offset of the number of the checkpoint in a run.
const CHECKPOINT: usize = 32;
/// Length of the header of a run in bytes.
pub const RUN_HEADER: usize = 56 + SEAL_LEN;

/// Place of a run on its member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of the bucket.
    pub bucket: u32,
    /// First block within the bucket.
    pub offset: u32,
}

impl Place {
    pub(super) fn encode(place: Option<Place>, to: &mut Vec<u8>) {
        let Place { bucket, offset } = place.unwrap_or(Place { bucket: u32::MAX, offset: u32::MAX });
        to.u32(bucket);
        to.u32(offset);
    }

    pub(super) fn decode(get: &mut Get<'_>) -> Result<Option<Place>, Fault> {
        let place = Place { bucket: get.u32()?, offset: get.u32()? };
        Ok((place.bucket != u32::MAX).then_some(place))
    }
}

/// A run of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// Number of the run within the checkpoint.
    pub index: u32,
    /// Place of the next run; `None` for the last one.
    pub next: Option<Place>,
    /// Encoded records.
    pub records: Vec<u8>,
}

impl Run {
    /// Encodes the run, padded with zeroes to blocks of `block` bytes. `seal` encrypts the records.
    pub fn encode(&self, volume: &[u8; 16], block: usize, seal: Option<SealWith<'_>>) -> Vec<u8> {
        let mut bytes = wire::begin(MAGIC);
        bytes.u32(self.records.len() as u32);
        bytes.extend_from_slice(volume);
        bytes.u64(self.checkpoint);
        bytes.u32(self.index);
        Place::encode(self.next, &mut bytes);
        bytes.resize(RUN_HEADER, 0);
        bytes.extend_from_slice(&self.records);
        sealed::seal(&mut bytes, RUN_HEADER, Purpose::Checkpoint, seal);
        wire::seal(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(block), 0);
        bytes
    }

    /// Returns the length of a run in bytes without padding, as its header states it. Nothing is verified except for the
    /// magic number and the identifier of the volume.
    ///
    /// # Errors
    /// Returns the fault if the bytes do not begin with the header of a run of this volume.
    pub(crate) fn peek(bytes: &[u8], volume: &[u8; 16]) -> Result<usize, Fault> {
        let mut get = wire::open(bytes, MAGIC)?;
        get.u32()?;
        let length = get.u32()? as usize;
        if get.array()? != *volume {
            return Err(Fault::Volume);
        }
        RUN_HEADER.checked_add(length).ok_or(Fault::Short)
    }

    /// Decodes the run at the start of `bytes`, which may be longer. An encrypted volume needs its `keyring`.
    ///
    /// # Errors
    /// Returns the fault if there is no valid run of this volume.
    pub fn decode(bytes: &[u8], volume: &[u8; 16], keyring: Option<&Keyring>) -> Result<Run, Fault> {
        let whole = bytes.get(..Run::peek(bytes, volume)?).ok_or(Fault::Short)?;
        wire::verify(whole)?;
        let mut get = Get(whole);
        get.bytes(CHECKPOINT)?;
        let (checkpoint, index) = (get.u64()?, get.u32()?);
        let next = Place::decode(&mut get)?;
        let records = sealed::open(whole, RUN_HEADER, Purpose::Checkpoint, keyring)?;
        Ok(Run { checkpoint, index, next, records })
    }
}
