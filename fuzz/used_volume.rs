//! Small volumes that were really used, with their contents after each entry of the journal.

use crate::ram::Ram;
use flashlab_block::{Answer, BlockDevice, Context, Executor, Io, IoError};
use flashlab_sim::Rng;
use flashlab_volume::encode::{Checksum, Compressor};
use flashlab_volume::format::{
    ENTRY_HEADER, Entry, RUN_HEADER, Record, Run, SUPERBLOCK_SIZE, Superblock, copy_offsets,
};
use flashlab_volume::keys::{Cipher, Kdf, Keyring, MasterKey, Passphrase};
use flashlab_volume::{Encryption, Extent, NewMember, OpenOptions, Options, Volume};
use std::ops::Range;
use std::sync::Arc;

/// Logical size of the volumes in bytes.
pub(crate) const SIZE: usize = 64 << 10;
/// Size of a block of the volumes in bytes. The journal has room for few blocks, so an opening takes little time.
pub(crate) const BLOCK: usize = 2048;
const VOLUME: [u8; 16] = [1; 16];
const BUCKET: usize = 16 << 10;
const BUCKETS: usize = 24;
const JOURNAL: usize = 64 << 10;
/// Size of a member in bytes: two superblocks in the first bucket, the buckets, and a superblock.
const MEMBER: usize = BUCKET + BUCKETS * BUCKET + SUPERBLOCK_SIZE;
/// Place of the journal on each member.
pub(crate) const RING: Range<usize> = BUCKET..BUCKET + JOURNAL;

/// A kind of structure to damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Superblock,
    Journal,
    Checkpoint,
    Map,
    Data,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] =
        [Kind::Superblock, Kind::Journal, Kind::Checkpoint, Kind::Map, Kind::Data];
}

/// The contents of a volume at each instant of its life.
#[derive(Default)]
pub(crate) struct History {
    states: Vec<Vec<u8>>,
    /// Number of the last journal entry of each state.
    entries: Vec<u64>,
}

impl History {
    fn add(&mut self, entry: u64, state: &[u8]) {
        self.entries.push(entry);
        self.states.push(state.to_vec());
    }

    /// Returns the contents that the volume may have after this entry. There are two if the entry is one of several
    /// of the same request.
    pub(crate) fn after(&self, entry: u64) -> impl Iterator<Item = &[u8]> {
        let known = self.entries.partition_point(|last| *last <= entry).saturating_sub(1);
        let is_between = self.entries[known] < entry && known + 1 < self.entries.len();
        self.states[known..=known + usize::from(is_between)].iter().map(Vec::as_slice)
    }

    /// Returns the number of the last entry.
    pub(crate) fn last(&self) -> u64 {
        *self.entries.last().expect("a volume was used")
    }
}

/// A volume that was used.
pub(crate) struct Used {
    pub(crate) members: Vec<Ram>,
    /// Earlier bytes of each member, from before the last checkpoint and from after it.
    pub(crate) older: [Vec<Vec<u8>>; 2],
    pub(crate) history: History,
    pub(crate) superblocks: Vec<Superblock>,
    pub(crate) keyring: Option<Keyring>,
    /// Number of the last entry in the journal of each member.
    pub(crate) last_entries: Vec<u64>,
    /// True if the last checkpoint contains all entries.
    pub(crate) is_closed: bool,
    /// Places of the structures of each kind on each member.
    places: Vec<[Vec<Range<usize>>; 5]>,
}

fn passphrase() -> Passphrase {
    Passphrase::new(b"right").expect("a passphrase")
}

fn master() -> MasterKey {
    MasterKey::from_random(&mut [3; 32])
}

/// Runs a future on an executor of its own.
pub(crate) fn run<T, F>(future: impl FnOnce(Context) -> F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut executor = Executor::new(1);
    let cx = executor.context();
    executor.block_on(future(cx))
}

/// Carries out a request.
pub(crate) async fn execute(volume: &Volume, cx: &Context, io: Io) -> Result<Answer, IoError> {
    volume.start(cx, io).outcome().await
}

impl Used {
    /// Returns plain and encrypted volumes with one and with two members, each stopped uncleanly and closed.
    pub(crate) fn all() -> Vec<Used> {
        (0..8).map(|n| Used::new(1 + (n & 1), n & 2 != 0, n & 4 != 0)).collect()
    }

    fn new(members: usize, is_encrypted: bool, is_closed: bool) -> Used {
        let members: Vec<Ram> = (0..members).map(|_| Ram::new(MEMBER)).collect();
        let keyring = is_encrypted.then(|| Keyring::new(master(), Cipher::ChaCha20Poly1305));
        let mut used = Used {
            members,
            older: [Vec::new(), Vec::new()],
            history: History::default(),
            superblocks: Vec::new(),
            keyring,
            last_entries: Vec::new(),
            is_closed,
            places: Vec::new(),
        };
        used.format();
        let (mut state, mut rng) = (vec![0; SIZE], Rng::new(7));
        for (salt, changes) in [(1, 40), (2, 40), (3, 12)] {
            let volume = used.open([salt; 16], false);
            used.note(&state);
            used.work(&volume, &mut state, &mut rng, changes);
            match salt {
                1 => {
                    used.close(&volume, &state);
                    used.older[0] = used.images();
                }
                2 => used.close(&volume, &state),
                _ => {
                    used.older[1] = used.images();
                    used.work(&volume, &mut state, &mut rng, 12);
                    if is_closed {
                        used.close(&volume, &state);
                    }
                }
            }
        }
        used.finish();
        used
    }

    fn format(&self) {
        let options = Options {
            block: BLOCK as u32,
            bucket: BUCKET as u32,
            checksum_block: 4096,
            extent_max: 4096,
            journal: JOURNAL as u64,
            replicas: self.members.len() as u8,
            checksum: if self.members.len() == 1 { Checksum::Crc32c } else { Checksum::Xxh3 },
            compression: Compressor::Lz4,
            size: SIZE as u64,
            encryption: self.keyring.is_some().then(|| Encryption {
                cipher: Cipher::ChaCha20Poly1305,
                kdf: Kdf::Scrypt { log_n: 1, r: 1, p: 1 },
                passphrase: passphrase(),
                master: master(),
                salt: [4; 32],
            }),
            ..Options::new(VOLUME)
        };
        let members: Vec<NewMember> = self.devices().into_iter().map(NewMember::new).collect();
        run(|cx| async move { Volume::format(&cx, &members, &options).await })
            .expect("members of a good size");
    }

    pub(crate) fn devices(&self) -> Vec<Arc<dyn BlockDevice>> {
        self.members.iter().map(|member| Arc::new(member.clone()) as Arc<dyn BlockDevice>).collect()
    }

    /// Returns options with the passphrase of the volume.
    pub(crate) fn options(&self, salt: [u8; 16], read_only: bool) -> OpenOptions {
        let passphrase = self.keyring.as_ref().map(|_| passphrase());
        OpenOptions { salt, read_only, passphrase, ..OpenOptions::default() }
    }

    fn open(&self, salt: [u8; 16], read_only: bool) -> Volume {
        let (devices, options) = (self.devices(), self.options(salt, read_only));
        run(|cx| async move { Volume::open(&cx, &devices, options).await }).expect("a sound volume")
    }

    fn images(&self) -> Vec<Vec<u8>> {
        self.members.iter().map(Ram::to_vec).collect()
    }

    /// Carries out random requests, each with a flush.
    fn work(&mut self, volume: &Volume, state: &mut [u8], rng: &mut Rng, changes: usize) {
        for _ in 0..changes {
            let length = (1 + rng.below(6) as usize) * BLOCK;
            let offset = rng.below(((SIZE - length) / BLOCK) as u64 + 1) as usize * BLOCK;
            let (range, what) = (offset..offset + length, rng.below(8));
            let (offset, length) = (offset as u64, length as u64);
            state[range.clone()].fill(rng.next_u64() as u8 | 1);
            if what % 2 == 0 {
                state[range.clone()].fill_with(|| rng.next_u64() as u8);
            }
            let io = match what {
                0 => Io::Discard { offset, length, durable: false },
                1 => Io::WriteZeroes { offset, length, durable: false, allocate: false, fast: false },
                _ => Io::Write { offset, data: state[range.clone()].to_vec().into(), durable: false },
            };
            if what < 2 {
                state[range].fill(0);
            }
            let volume = volume.clone();
            run(|cx| async move {
                execute(&volume, &cx, io).await.expect("sound members");
                execute(&volume, &cx, Io::Flush).await.expect("sound members");
            });
            self.note(state);
        }
    }

    fn close(&mut self, volume: &Volume, state: &[u8]) {
        let volume = volume.clone();
        run(|cx| async move { volume.close(&cx).await }).expect("sound members");
        self.note(state);
    }

    /// Records the contents after the last entry of the journal.
    fn note(&mut self, state: &[u8]) {
        let last = self.last_entry(0).expect("a journal with entries");
        self.history.add(last, state);
    }

    /// Returns the number of the last valid entry in the journal of a member, as if unreadable sectors could be read.
    pub(crate) fn last_entry(&self, member: usize) -> Option<u64> {
        self.members[member].look(RING, |ring, _| self.last_of(ring))
    }

    /// Returns the number of the last valid entry in the journal of a member that can be read.
    pub(crate) fn last_readable_entry(&self, member: usize) -> Option<u64> {
        self.last_of(&self.members[member].read(RING))
    }

    fn last_of(&self, ring: &[u8]) -> Option<u64> {
        let blocks = (0..ring.len()).step_by(BLOCK);
        let entries = blocks.filter_map(|at| Entry::decode(&ring[at..], &VOLUME, self.keyring.as_ref()).ok());
        entries.map(|entry| entry.sequence).max()
    }

    /// Finds the structures, and makes the present state the one to restore.
    fn finish(&mut self) {
        for n in 0..self.members.len() {
            let bytes = self.members[n].to_vec();
            self.superblocks.push(Superblock::decode(&bytes).expect("a sound superblock"));
            self.last_entries.push(self.last_entry(n).expect("a journal with entries"));
            let places = self.find(n, &bytes);
            self.places.push(places);
        }
        let last = self.history.last();
        assert!(self.last_entries.iter().all(|entry| *entry == last), "a sound journal on each member");
        self.members.iter().for_each(Ram::keep);
    }

    /// Finds the structures of a member: copies of the superblock; entries; runs; records; and live copies.
    fn find(&self, member: usize, bytes: &[u8]) -> [Vec<Range<usize>>; 5] {
        let root = self.superblocks[member].root;
        let mut places: [Vec<Range<usize>>; 5] = Default::default();
        let copies = copy_offsets(MEMBER as u64);
        places[Kind::Superblock as usize] =
            copies.map(|at| at as usize..at as usize + SUPERBLOCK_SIZE).to_vec();
        let mut extents = Vec::new();
        let mut note = |records: &[u8]| {
            let decoded = Record::decode_all(records, |record| {
                extents.extend(if let Record::Map(extent) = record { Some(extent) } else { None });
                Ok(())
            });
            decoded.expect("sound records");
        };
        for at in (BUCKET..MEMBER - SUPERBLOCK_SIZE).step_by(BLOCK) {
            let (keyring, is_journal) = (self.keyring.as_ref(), RING.contains(&at));
            if let Ok(entry) = Entry::decode(&bytes[at..RING.end.max(at)], &VOLUME, keyring)
                && is_journal
            {
                let end = at + ENTRY_HEADER + entry.records.len();
                places[Kind::Journal as usize].push(at..end);
                if entry.sequence > root.sequence {
                    note(&entry.records);
                    places[Kind::Map as usize].push(at + ENTRY_HEADER..end);
                }
            }
            if let Ok(run) = Run::decode(&bytes[at..], &VOLUME, keyring)
                && run.checkpoint == root.checkpoint
            {
                note(&run.records);
                let end = at + RUN_HEADER + run.records.len();
                places[Kind::Checkpoint as usize].push(at..end);
                places[Kind::Map as usize].push(at + RUN_HEADER..end);
            }
        }
        places[Kind::Data as usize] = extents.iter().flat_map(|extent| copies_on(member, extent)).collect();
        assert!(places.iter().all(|places| !places.is_empty()), "structures of every kind");
        places
    }

    /// Returns the places of the structures of a kind on a member.
    pub(crate) fn places(&self, member: usize, kind: Kind) -> &[Range<usize>] {
        &self.places[member][kind as usize]
    }

    /// Returns the start of the structure that contains a place of this kind.
    pub(crate) fn structure(&self, member: usize, place: &Range<usize>) -> Option<Range<usize>> {
        let kinds = [Kind::Superblock, Kind::Journal, Kind::Checkpoint];
        let mut structures = kinds.into_iter().flat_map(|kind| self.places(member, kind));
        structures.find(|structure| structure.contains(&place.start)).cloned()
    }
}

/// Returns the places of the copies of an extent on a member.
fn copies_on(member: usize, extent: &Extent) -> Vec<Range<usize>> {
    let pointers = extent.pointers();
    let own = pointers.iter().filter(|pointer| usize::from(pointer.member) == member);
    let place = |at: usize| at..at + extent.stored() as usize;
    own.map(|pointer| place(BUCKET + pointer.bucket as usize * BUCKET + pointer.offset as usize * BLOCK))
        .collect()
}
