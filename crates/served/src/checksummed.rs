//! The bytes of a device with checksums: `FILE.bytes`, and `FILE.sums` with one checksum per block of 4 KiB.
//!
//! # Format
//! `FILE.sums` begins with a header of 4 KiB. Its first line names the format. Its second line contains the
//! boot ID of the machine from the first change of the bytes until they are closed, and `closed` otherwise.
//! One little-endian word per block follows:
//! - 0: the block contains only zeroes. A hole in `FILE.sums` reads as 0, so a hole in `FILE.bytes` needs no checksums.
//! - 1: a write or a discard of the block was in progress.
//! - Any other value: the block's XXH32, plus 2 if the XXH32 is 0 or 1.
//!
//! # Guarantees
//! - A read fails if the bytes of a block differ from those written, and [`ChecksummedStore::damage`] reports
//!   the block. A write of part of such a block fails too, because it would hide the damage.
//! - A killed process leaves nothing that looks like damage: the word of a block is 1 before its bytes change.
//! - A crash of the machine leaves nothing that looks like damage either, although the page cache may have
//!   lost the bytes or the words of unflushed writes. If the header names another boot, the words of all
//!   blocks with data or with a checksum become 1.
//!
//! The next read of a block whose word is 1 accepts its content. Unless the machine has crashed, opening
//! reads only the header, whatever the size of the device.

use crate::device_files::DeviceFilesError;
use crate::error::ServedError;
use flashlab_block::{Access, BlockDevice, File, Geometry};
use flashlab_sim::{Store, StoreError};
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twox_hash::XxHash32;

/// Bytes per checksum.
const BLOCK: u64 = 4096;
/// Size of a checksum in bytes.
const WORD: u64 = 4;
/// Bytes before the first checksum.
const HEADER: u64 = 4096;
const FORM: &str = "flashlab sums 1\n";
const CLOSED: &str = "closed\n";
/// Word of a block whose write was in progress.
const IN_DOUBT: u32 = 1;
/// Number of bytes to discard at a time. The words of their blocks are marked first.
const PIECE: u64 = 64 << 20;

/// A store that verifies each read. Clones share one store.
#[derive(Clone, Debug)]
pub(super) struct ChecksummedStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bytes: File,
    sums: File,
    path: PathBuf,
    capacity: u64,
    state: Mutex<Session>,
}

/// State since the store was opened.
#[derive(Debug)]
struct Session {
    /// True from the first change by this process until the store is closed; the header then names this boot.
    open: bool,
    damage: Damage,
}

/// Failed requests to blocks whose contents differ from the data written to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Damage {
    /// Number of reads and writes that failed because of damage.
    requests: u64,
    /// Offset in bytes of the damaged block that the first of these requests encountered.
    first: u64,
}

impl ChecksummedStore {
    /// Returns the store in `bytes` and `sums`, whose sizes must be right. `path` names the bytes in messages.
    pub(super) fn new(bytes: File, sums: File, path: &Path, capacity: u64) -> ChecksummedStore {
        let state = Mutex::new(Session { open: false, damage: Damage::default() });
        ChecksummedStore(Arc::new(Inner { bytes, sums, path: path.to_owned(), capacity, state }))
    }

    /// Returns the size in bytes of the file of checksums for `capacity` bytes.
    pub(super) fn sums_size(capacity: u64) -> u64 {
        HEADER + capacity.div_ceil(BLOCK) * WORD
    }

    /// Opens the file of checksums at `path`. With `new`, creates it.
    pub(super) fn open_sums(path: &Path, capacity: u64, new: bool) -> Result<File, ServedError> {
        let size = ChecksummedStore::sums_size(capacity);
        let found = fs::metadata(path).map_or(0, |there| there.len());
        if !new && found != size {
            return Err(DeviceFilesError::Size { path: path.to_owned(), found, expected: size }.into());
        }
        Ok(File::open(path, Some(size), Access::Cached, false)?)
    }

    /// Reads the header. If the machine crashed while the bytes were open for writing, marks every block that
    /// holds data or has a checksum.
    pub(super) fn resume(&self, sums: &Path) -> Result<(), ServedError> {
        let failed =
            |error| ServedError::System { path: sums.to_owned(), error: std::io::Error::other(error) };
        let mut header = vec![0; HEADER as usize];
        self.0.sums.read(0, &mut header).map_err(failed)?;
        let text = String::from_utf8_lossy(&header);
        let session = text.strip_prefix(FORM).and_then(|rest| rest.split_inclusive('\n').next());
        match session {
            Some(CLOSED) => Ok(()),
            Some(boot) if boot.ends_with('\n') && boot.trim_end() == this_boot() => Ok(()),
            Some(boot) if boot.ends_with('\n') => {
                self.mark_all().and_then(|()| self.0.header(CLOSED)).map_err(failed)
            }
            _ => Err(DeviceFilesError::NoSums { path: sums.to_owned() }.into()),
        }
    }

    /// Returns the geometry of the file of bytes.
    pub(super) fn geometry(&self) -> Geometry {
        self.0.bytes.geometry()
    }

    /// Syncs the bytes and the checksums to disk, and marks the header as closed.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        let mut session = self.lock();
        self.0.bytes.sync()?;
        self.0.sums.sync()?;
        self.0.header(CLOSED)?;
        session.open = false;
        Ok(())
    }

    /// Returns a message about the damage, or `None` if no request has encountered any.
    pub(super) fn damage(&self) -> Option<String> {
        let damage = self.lock().damage;
        (damage.requests > 0).then(|| DamageOf(&self.0.path, damage).to_string())
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        // No code panics while it holds the lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks all blocks that hold data or have a checksum.
    fn mark_all(&self) -> Result<(), StoreError> {
        let inner = &*self.0;
        let blocks = inner.capacity.div_ceil(BLOCK);
        let words_to_blocks = |range: Range<u64>| {
            (range.start - HEADER) / WORD..((range.end - HEADER).div_ceil(WORD)).min(blocks)
        };
        let mut at = 0;
        while let Some(data) = inner.bytes.data_in(at..inner.capacity)? {
            inner.mark(data.start / BLOCK..data.end.div_ceil(BLOCK))?;
            at = data.end;
        }
        let (mut at, end) = (HEADER, ChecksummedStore::sums_size(inner.capacity));
        while let Some(data) = inner.sums.data_in(at..end)? {
            inner.mark(words_to_blocks(data.clone()))?;
            at = data.end;
        }
        inner.sums.sync()
    }
}

struct DamageOf<'a>(&'a Path, Damage);

impl fmt::Display for DamageOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { requests, first } = self.1;
        let failed =
            if requests == 1 { "1 request failed".to_owned() } else { format!("{requests} requests failed") };
        write!(
            f,
            "{}: damaged at byte {first}: the checksum of the block does not match; {failed}. Rewrite the \
             whole block, or restore a copy of the file together with its .sums",
            self.0.display()
        )
    }
}

impl Inner {
    /// Writes the header with the line `session`.
    fn header(&self, session: &str) -> Result<(), StoreError> {
        let mut header = format!("{FORM}{session}").into_bytes();
        header.resize(HEADER as usize, 0);
        self.sums.write(0, &header)?;
        self.sums.sync()
    }

    /// Writes the ID of this boot to the header before the first change.
    fn begin(&self, session: &mut Session) -> Result<(), StoreError> {
        if !session.open {
            self.header(&format!("{}\n", this_boot()))?;
            session.open = true;
        }
        Ok(())
    }

    fn words(&self, blocks: &Range<u64>) -> Result<Vec<u32>, StoreError> {
        let mut bytes = vec![0; ((blocks.end - blocks.start) * WORD) as usize];
        self.sums.read(HEADER + blocks.start * WORD, &mut bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    fn set_words(&self, first: u64, words: &[u32]) -> Result<(), StoreError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.sums.write(HEADER + first * WORD, &bytes)
    }

    /// Marks blocks as having a write in progress.
    fn mark(&self, blocks: Range<u64>) -> Result<(), StoreError> {
        const AT_ONCE: u64 = 1 << 16;
        let mut at = blocks.start;
        while at < blocks.end {
            let count = AT_ONCE.min(blocks.end - at);
            self.set_words(at, &vec![IN_DOUBT; count as usize])?;
            at += count;
        }
        Ok(())
    }

    /// Returns the byte range of blocks. The last block of the device may be shorter.
    fn span(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start * BLOCK..(blocks.end * BLOCK).min(self.capacity)
    }

    /// Verifies `content`, the bytes of whole blocks from block `first` on.
    fn check(&self, session: &mut Session, first: u64, content: &[u8]) -> Result<(), StoreError> {
        let blocks = first..first + (content.len() as u64).div_ceil(BLOCK);
        let words = self.words(&blocks)?;
        for ((block, held), word) in blocks.zip(content.chunks(BLOCK as usize)).zip(words) {
            match word {
                IN_DOUBT => self.set_words(block, &[sum(held)])?,
                0 if held.iter().all(|byte| *byte == 0) => {}
                word if word == sum(held) => {}
                _ => {
                    let damage = &mut session.damage;
                    if damage.requests == 0 {
                        damage.first = block * BLOCK;
                    }
                    damage.requests += 1;
                    return Err(StoreError::Failed);
                }
            }
        }
        Ok(())
    }

    /// Reads and verifies whole blocks.
    fn whole(&self, session: &mut Session, blocks: &Range<u64>) -> Result<Vec<u8>, StoreError> {
        let span = self.span(blocks);
        let mut content = vec![0; (span.end - span.start) as usize];
        self.bytes.read(span.start, &mut content)?;
        self.check(session, blocks.start, &content)?;
        Ok(content)
    }

    /// Returns the blocks that a range touches.
    fn touched(&self, offset: u64, length: u64) -> Range<u64> {
        offset / BLOCK..(offset + length).div_ceil(BLOCK)
    }

    /// Writes `bytes`. First verifies the blocks that `bytes` covers only in part.
    fn write(&self, session: &mut Session, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let blocks = self.touched(offset, bytes.len() as u64);
        let (span, end) = (self.span(&blocks), offset + bytes.len() as u64);
        // The parts of the first and of the last block that the write leaves unchanged.
        let (mut before, mut after) = (Vec::new(), Vec::new());
        if span.start < offset {
            before = self.whole(session, &(blocks.start..blocks.start + 1))?;
            if blocks.end - blocks.start == 1 {
                after = before.split_off(((end - span.start) as usize).min(before.len()));
            }
            before.truncate((offset - span.start) as usize);
        }
        if end < span.end && after.is_empty() {
            let last = blocks.end - 1;
            after = self.whole(session, &(last..blocks.end))?.split_off((end - last * BLOCK) as usize);
        }
        self.begin(session)?;
        self.mark(blocks.clone())?;
        self.bytes.write(offset, bytes)?;
        let words: Vec<u32> = if before.is_empty() && after.is_empty() {
            bytes.chunks(BLOCK as usize).map(sum).collect()
        } else {
            [&before[..], bytes, &after[..]].concat().chunks(BLOCK as usize).map(sum).collect()
        };
        self.set_words(blocks.start, &words)
    }

    /// Discards whole blocks. Leaves holes unchanged.
    fn discard_blocks(&self, session: &mut Session, blocks: Range<u64>) -> Result<(), StoreError> {
        let (mut at, end) = (blocks.start * BLOCK, self.span(&blocks).end);
        while at < end {
            let piece = at..(at + PIECE).min(end);
            let words = HEADER + at / BLOCK * WORD..HEADER + piece.end.div_ceil(BLOCK) * WORD;
            let is_hole =
                self.bytes.data_in(piece.clone())?.is_none() && self.sums.data_in(words.clone())?.is_none();
            if !is_hole {
                self.begin(session)?;
                self.mark(at / BLOCK..piece.end.div_ceil(BLOCK))?;
                self.bytes.discard(at, piece.end - at)?;
                self.sums.discard(words.start, words.end - words.start)?;
            }
            at = piece.end;
        }
        Ok(())
    }
}

impl Store for ChecksummedStore {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        if buffer.is_empty() {
            return Ok(());
        }
        let (inner, session) = (&*self.0, &mut *self.lock());
        let blocks = inner.touched(offset, buffer.len() as u64);
        let span = inner.span(&blocks);
        if span == (offset..offset + buffer.len() as u64) {
            inner.bytes.read(offset, buffer)?;
            return inner.check(session, blocks.start, buffer);
        }
        let whole = inner.whole(session, &blocks)?;
        buffer.copy_from_slice(&whole[(offset - span.start) as usize..][..buffer.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        if bytes.is_empty() { Ok(()) } else { self.0.write(&mut self.lock(), offset, bytes) }
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        let (inner, session) = (&*self.0, &mut *self.lock());
        let end = offset + length;
        let last = if end == inner.capacity { end.div_ceil(BLOCK) } else { end / BLOCK };
        let whole = offset.div_ceil(BLOCK)..last;
        if whole.start >= whole.end {
            // The range covers no whole block, so zeroes are written.
            return if length > 0 { inner.write(session, offset, &vec![0; length as usize]) } else { Ok(()) };
        }
        let (first, behind) = (whole.start * BLOCK, inner.span(&whole).end);
        if offset < first {
            inner.write(session, offset, &vec![0; (first - offset) as usize])?;
        }
        inner.discard_blocks(session, whole)?;
        if behind < end { inner.write(session, behind, &vec![0; (end - behind) as usize]) } else { Ok(()) }
    }

    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        self.0.bytes.data_in(range)
    }

    /// Makes the bytes durable. The checksums need no sync: a crash that loses them also changes the boot ID, so all
    /// blocks are marked.
    fn sync(&self) -> Result<(), StoreError> {
        self.0.bytes.sync()
    }
}

/// Returns the checksum of a block.
fn sum(block: &[u8]) -> u32 {
    if block.iter().all(|byte| *byte == 0) {
        return 0;
    }
    match XxHash32::oneshot(0, block) {
        // The words 0 and 1 are reserved.
        word @ 0..=IN_DOUBT => word + 2,
        word => word,
    }
}

/// Returns the boot ID of this machine from Linux.
fn this_boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("boot {}", id.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::Rng;

    const CAPACITY: u64 = 40 * BLOCK + 1536;

    /// Returns a store in a separate temporary folder.
    fn store(name: &str, new: bool) -> (ChecksummedStore, PathBuf) {
        let folder = std::env::temp_dir().join(format!("flashlab-summed-{name}-{}", std::process::id()));
        if new {
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
        }
        let (bytes, sums) = (folder.join("bytes"), folder.join("sums"));
        let held = File::open(&bytes, Some(CAPACITY), Access::Cached, false).unwrap();
        let store = ChecksummedStore::new(
            held,
            ChecksummedStore::open_sums(&sums, CAPACITY, new).unwrap(),
            &bytes,
            CAPACITY,
        );
        if !new {
            store.resume(&sums).unwrap();
        }
        (store, folder)
    }

    /// Changes a byte of a file without the store.
    fn damage(path: &Path, at: u64) {
        use std::os::unix::fs::FileExt;
        let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }

    #[test]
    fn reads_return_what_was_written_or_discarded_and_the_checksums_match() {
        let (mut checksummed, folder) = store("model", true);
        let (mut model, mut rng) = (vec![0u8; CAPACITY as usize], Rng::new(1));
        for step in 0..3_000 {
            let offset = rng.below(CAPACITY);
            let length = 1 + rng.below((CAPACITY - offset).min(5 * BLOCK));
            let range = offset as usize..(offset + length) as usize;
            match rng.below(4) {
                0 => {
                    checksummed.discard(offset, length).unwrap();
                    model[range].fill(0);
                }
                1 => {
                    let mut read = vec![0xee; length as usize];
                    checksummed
                        .read(offset, &mut read)
                        .unwrap_or_else(|error| panic!("step {step}: {error}"));
                    assert!(read == model[range], "step {step}: {offset}+{length}");
                }
                _ => {
                    let byte = rng.next_u64() as u8;
                    checksummed.write(offset, &vec![byte; length as usize]).unwrap();
                    model[range].fill(byte);
                }
            }
            if step % 500 == 0 {
                if step % 1000 == 0 {
                    checksummed.close().unwrap();
                }
                drop(checksummed);
                checksummed = store("model", false).0;
            }
        }
        assert_eq!(checksummed.damage(), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn damage_of_bytes_or_checksums_is_reported_until_the_whole_block_is_rewritten() {
        let (checksummed, folder) = store("damage", true);
        checksummed.write(0, &[7; 4 * BLOCK as usize]).unwrap();
        drop(checksummed);
        damage(&folder.join("bytes"), BLOCK + 100);
        damage(&folder.join("bytes"), 30 * BLOCK);
        damage(&folder.join("sums"), HEADER + 3 * WORD + 2);
        let (checksummed, _) = store("damage", false);
        let mut read = [0; 512];
        for block in [1, 3, 30] {
            assert_eq!(checksummed.read(block * BLOCK, &mut read), Err(StoreError::Failed), "block {block}");
            assert_eq!(
                checksummed.write(block * BLOCK, &read),
                Err(StoreError::Failed),
                "a part of block {block}"
            );
        }
        for block in [0, 2, 4] {
            checksummed.read(block * BLOCK, &mut read).unwrap();
        }
        assert!(
            checksummed.damage().unwrap().contains("bytes: damaged at byte 4096"),
            "{:?}",
            checksummed.damage()
        );
        checksummed.write(BLOCK, &[8; BLOCK as usize]).unwrap();
        checksummed.read(BLOCK, &mut read).unwrap();
        assert_eq!(read, [8; 512]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn writes_in_progress_at_a_crash_are_not_damage() {
        let (checksummed, folder) = store("torn", true);
        checksummed.write(0, &[7; 4 * BLOCK as usize]).unwrap();
        // The process dies between writing the bytes and writing their checksum.
        checksummed.0.mark(1..2).unwrap();
        drop(checksummed);
        damage(&folder.join("bytes"), BLOCK + 100);
        let (checksummed, _) = store("torn", false);
        checksummed.read(0, &mut [0; 4 * BLOCK as usize]).unwrap();
        drop(checksummed);
        damage(&folder.join("bytes"), BLOCK + 100);
        let (checksummed, _) = store("torn", false);
        assert!(checksummed.read(BLOCK, &mut [0; 512]).is_err(), "the block is verified from then on");
        checksummed.write(BLOCK, &[7; BLOCK as usize]).unwrap();
        // The machine crashes: the header names another boot, and either file may have lost writes.
        checksummed.0.header("boot before\n").unwrap();
        drop(checksummed);
        damage(&folder.join("bytes"), 2 * BLOCK);
        damage(&folder.join("bytes"), 20 * BLOCK);
        damage(&folder.join("sums"), HEADER + 30 * WORD + 1);
        let (checksummed, _) = store("torn", false);
        checksummed.read(0, &mut [0; CAPACITY as usize]).unwrap();
        assert_eq!(checksummed.damage(), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
