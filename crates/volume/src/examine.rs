//! Reads the journal and the checkpoint of one member for a person who examines a damaged volume.
//!
//! Nothing is recovered. Entries after a damaged journal entry are still read. Runs after a damaged run of a
//! checkpoint are not read, because each run contains the place of the next one.

use crate::VolumeError;
use crate::format::{Entries, Entry, Fault, Place, Run, Superblock};
use crate::keys::{KeyError, Keyring, Passphrase};
use crate::layout::Layout;
use crate::member;
use flashlab_block::{BlockDevice, Context};
use std::fmt;

/// A member whose structures are examined.
pub struct Examination<'a> {
    device: &'a dyn BlockDevice,
    superblock: &'a Superblock,
    layout: Layout,
    keyring: Option<Keyring>,
}

/// The reason why a structure cannot be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The device cannot read the bytes of the structure.
    Unreadable,
    /// The bytes of the structure are not valid.
    Invalid(Fault),
    /// The place of the run lies outside of the member, or is missing.
    NoPlace,
    /// The place of the run holds a run of another checkpoint, or another run of this checkpoint.
    OtherRun,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Unreadable => f.write_str("cannot be read"),
            Damage::Invalid(fault) => write!(f, "invalid: {fault}"),
            Damage::NoPlace => f.write_str("its place is missing or outside of the member"),
            Damage::OtherRun => f.write_str("its place holds another run"),
        }
    }
}

impl<'a> Examination<'a> {
    /// Prepares to examine the member that this superblock describes. An encrypted volume needs its passphrase.
    ///
    /// # Errors
    /// Returns [`VolumeError::Key`] if the volume is encrypted and the passphrase is missing or wrong.
    pub fn new(
        device: &'a dyn BlockDevice,
        superblock: &'a Superblock,
        passphrase: Option<&Passphrase>,
    ) -> Result<Examination<'a>, VolumeError> {
        let keyring = match &superblock.key {
            None => None,
            Some(key) => {
                let passphrase = passphrase.ok_or(VolumeError::Key(KeyError::NotAvailable))?;
                let master = key.unwrap(&superblock.volume, passphrase).map_err(VolumeError::Key)?;
                Some(Keyring::new(master, key.cipher()))
            }
        };
        Ok(Examination { device, superblock, layout: Layout::of(superblock), keyring })
    }

    /// Passes every entry of the journal's ring to `each` with its offset in the ring, in the order of the offsets. Entries
    /// that the checkpoint contains remain until newer ones overwrite them. If the device ends within the
    /// ring, the missing part counts as one unreadable block.
    pub async fn journal(&self, cx: &Context, mut each: impl FnMut(u64, Result<Entry, Damage>)) {
        let Layout { block, volume, .. } = &self.layout;
        let (start, ring) = (self.layout.bucket_offset(0), self.layout.journal_len());
        let present =
            self.device.geometry().capacity.saturating_sub(start) / u64::from(*block) * u64::from(*block);
        let place = (start, ring.min(present));
        let (bytes, unreadable) = member::read_blocks(self.device, cx, place, u64::from(*block)).await;
        for (at, decoded) in Entries::new(&bytes, *block, volume, self.keyring.as_ref()) {
            match decoded {
                Ok(entry) => each(at as u64, Ok(entry)),
                Err(_) if unreadable.contains(&(at as u64)) => each(at as u64, Err(Damage::Unreadable)),
                // Without the header of an entry, the block is unused or the rest of an overwritten entry. An entry
                // with a damaged magic number looks the same.
                Err(fault) if Entry::peek(&bytes[at..], volume).is_ok() => {
                    each(at as u64, Err(Damage::Invalid(fault)));
                }
                Err(_) => {}
            }
        }
        if present < ring {
            each(present, Err(Damage::Unreadable));
        }
    }

    /// Passes every run of the checkpoint to `each` with its number, up to and including the first damaged one, since
    /// each run contains the place of the next.
    pub async fn checkpoint(&self, cx: &Context, mut each: impl FnMut(u32, Result<Run, Damage>)) {
        let root = &self.superblock.root;
        let mut next = root.first;
        for index in 0..root.runs {
            let run = self.run(cx, next).await.and_then(|run| {
                let is_next = (run.checkpoint, run.index) == (root.checkpoint, index);
                if is_next { Ok(run) } else { Err(Damage::OtherRun) }
            });
            let follows = run.as_ref().ok().map(|run| run.next);
            each(index, run);
            let Some(place) = follows else { return };
            next = place;
        }
    }

    async fn run(&self, cx: &Context, place: Option<Place>) -> Result<Run, Damage> {
        let Superblock { member, members, .. } = self.superblock;
        let buckets = members.get(usize::from(*member)).map_or(0, |entry| entry.buckets);
        let at = place.and_then(|place| self.layout.run_offset(place, buckets)).ok_or(Damage::NoPlace)?;
        let bytes = member::read_run(self.device, cx, at, &self.layout).await;
        let bytes = bytes.map_err(|_| Damage::Unreadable)?;
        Run::decode(&bytes, &self.layout.volume, self.keyring.as_ref()).map_err(Damage::Invalid)
    }
}
