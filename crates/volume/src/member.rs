//! Requests to the members of a volume.

use crate::VolumeError;
use crate::format::{MemberEntry, Run, SUPERBLOCK_SIZE, Superblock, copy_offsets};
use crate::keys::Keyring;
use crate::layout::Layout;
use flashlab_block::{Answer, BlockDevice, Context, Features, Geometry, Io, IoError, Payload, Started};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A member: a device and its entry in the table of members.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) entry: MemberEntry,
    /// True if the device is present.
    pub(crate) present: bool,
}

impl Member {
    /// Creates a member with an absent device, on which every request fails.
    pub(crate) fn absent(entry: MemberEntry) -> Member {
        Member { device: Arc::new(Absent), entry, present: false }
    }
}

/// The device of an absent member.
struct Absent;

impl BlockDevice for Absent {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: 0, block: 512, request_max: 1 << 20 }
    }
    fn features(&self) -> Features {
        Features {
            read_only: true,
            discard: false,
            write_zeroes: false,
            extents: false,
            cache: false,
            rotational: false,
            timed: false,
        }
    }
    fn start(&self, _: &Context, _: Io) -> Started {
        Started::Done(Err(IoError::Medium))
    }
}

/// Returns the length of the largest request of a device.
fn request_max(device: &dyn BlockDevice) -> usize {
    let Geometry { block, request_max, .. } = device.geometry();
    (request_max / block * block).max(block) as usize
}

/// Reads `buffer.len()` bytes, in several requests if the device supports no request of this length.
pub(crate) async fn read(
    device: &dyn BlockDevice,
    cx: &Context,
    offset: u64,
    mut buffer: Vec<u8>,
) -> Result<Vec<u8>, IoError> {
    let most = request_max(device);
    if buffer.len() <= most {
        return read_once(device, cx, offset, buffer).await;
    }
    for (n, part) in buffer.chunks_mut(most).enumerate() {
        let at = offset + (n * most) as u64;
        part.copy_from_slice(&read_once(device, cx, at, vec![0; part.len()]).await?);
    }
    Ok(buffer)
}

async fn read_once(
    device: &dyn BlockDevice,
    cx: &Context,
    offset: u64,
    buffer: Vec<u8>,
) -> Result<Vec<u8>, IoError> {
    let length = buffer.len();
    match device.start(cx, Io::Read { offset, buffer }).outcome().await? {
        Answer::Read(buffer) if buffer.len() == length => Ok(buffer),
        _ => Err(IoError::Medium),
    }
}

/// Reads the place of a run at `offset`. If a block there is unreadable, reads only the blocks of the run, because
/// the rest of the place was not written with it.
pub(crate) async fn read_run(
    device: &dyn BlockDevice,
    cx: &Context,
    offset: u64,
    layout: &Layout,
) -> Result<Vec<u8>, IoError> {
    let (place, block) = (layout.run_len() as usize, layout.block as usize);
    match read(device, cx, offset, vec![0; place]).await {
        Ok(bytes) => Ok(bytes),
        Err(error) => {
            let header = read(device, cx, offset, vec![0; block]).await?;
            let length = Run::peek(&header, &layout.volume).ok().filter(|length| *length < place);
            read(device, cx, offset, vec![0; length.ok_or(error)?.next_multiple_of(block)]).await
        }
    }
}

/// Reads `length` bytes from `offset` on. Returns the bytes, with zeroes for unreadable blocks, and the
/// offsets of the unreadable blocks within the bytes.
pub(crate) async fn read_blocks(
    device: &dyn BlockDevice,
    cx: &Context,
    (offset, length): (u64, u64),
    block: u64,
) -> (Vec<u8>, BTreeSet<u64>) {
    let part = request_max(device).min(1 << 20) as u64;
    let (mut bytes, mut unreadable) = (Vec::with_capacity(length as usize), BTreeSet::new());
    while (bytes.len() as u64) < length {
        let at = bytes.len() as u64;
        let end = at + part.min(length - at);
        if let Ok(read) = read(device, cx, offset + at, vec![0; (end - at) as usize]).await {
            bytes.extend(read);
            continue;
        }
        for at in (at..end).step_by(block as usize) {
            let one = read(device, cx, offset + at, vec![0; block as usize]).await;
            bytes.extend(one.unwrap_or_else(|_| {
                unreadable.insert(at);
                vec![0; block as usize]
            }));
        }
    }
    (bytes, unreadable)
}

/// Writes bytes, in several requests if the device supports no request of this length.
pub(crate) async fn write(
    device: &dyn BlockDevice,
    cx: &Context,
    offset: u64,
    data: Payload,
) -> Result<(), IoError> {
    let most = request_max(device);
    if data.len() <= most {
        return write_once(device, cx, offset, data).await;
    }
    for start in (0..data.len()).step_by(most) {
        let part = data.part(start..data.len().min(start + most));
        write_once(device, cx, offset + start as u64, part).await?;
    }
    Ok(())
}

async fn write_once(
    device: &dyn BlockDevice,
    cx: &Context,
    offset: u64,
    data: Payload,
) -> Result<(), IoError> {
    device.start(cx, Io::Write { offset, data, durable: false }).outcome().await.map(drop)
}

/// Flushes a device.
pub(crate) async fn flush(device: &dyn BlockDevice, cx: &Context) -> Result<(), IoError> {
    device.start(cx, Io::Flush).outcome().await.map(drop)
}

/// Writes the copies of a superblock in turn, with the authentication code of an encrypted volume. Each copy is durable
/// before the next one is written, so a power loss damages one copy at most.
pub(crate) async fn write_superblock(
    device: &dyn BlockDevice,
    cx: &Context,
    superblock: &Superblock,
    keyring: Option<&Keyring>,
) -> Result<(), IoError> {
    let bytes = Payload::from(superblock.signed(keyring).encode());
    for offset in copy_offsets(device.geometry().capacity) {
        write(device, cx, offset, bytes.clone()).await?;
        flush(device, cx).await?;
    }
    Ok(())
}

/// Overwrites all copies of a superblock with zeroes. Tries every copy, and returns the first error.
pub(crate) async fn erase_superblocks(device: &dyn BlockDevice, cx: &Context) -> Result<(), IoError> {
    let zeroes = Payload::from(vec![0; SUPERBLOCK_SIZE]);
    let mut erased = Ok(());
    for offset in copy_offsets(device.geometry().capacity) {
        erased = erased.and(write(device, cx, offset, zeroes.clone()).await);
    }
    erased.and(flush(device, cx).await)
}

/// Agreement of the three copies of a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Copies {
    /// All copies are valid and equal.
    Equal,
    /// A write of the copies in turn was interrupted: the copies after some point are exactly one write older. One of
    /// the copies may be torn.
    Interrupted,
    /// The first or the last copy is invalid, and the others are equal. An interrupted write of the copies
    /// leaves this state, and so does damage.
    InvalidAtEnd,
    /// No interrupted write leaves this state.
    Damaged,
}

impl Copies {
    /// Compares the copies in the order in which they are written; `None` is a copy that was read but is invalid.
    fn compare(copies: &[Option<Superblock>; 3]) -> Copies {
        let valid: Vec<&Superblock> = copies.iter().flatten().collect();
        let is_one = |a: &Superblock, b: &Superblock| (a.volume, a.member) == (b.volume, b.member);
        let is_next = |a: &Superblock, b: &Superblock| is_one(a, b) && a.sequence == b.sequence + 1;
        let equal = valid.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let older = valid.windows(2).filter(|pair| is_next(pair[0], pair[1])).count();
        match (valid.len(), equal, older) {
            (3, 2, 0) => Copies::Equal,
            (3, 1, 1) | (2, 0, 1) => Copies::Interrupted,
            (2, 1, 0) if copies[1].is_some() => Copies::InvalidAtEnd,
            _ => Copies::Damaged,
        }
    }
}

/// Reads the newest valid copy of a superblock, and compares the copies.
pub(crate) async fn read_superblock(
    device: &dyn BlockDevice,
    cx: &Context,
    member: usize,
) -> Result<(Superblock, Copies), VolumeError> {
    let (mut fault, mut copies, mut is_unreadable) = (String::new(), [const { None }; 3], false);
    let geometry = device.geometry();
    if geometry.capacity < 4 * SUPERBLOCK_SIZE as u64 {
        return Err(VolumeError::NoSuperblock { member, fault: "the device is too small".into() });
    }
    if !SUPERBLOCK_SIZE.is_multiple_of(geometry.block as usize) {
        let block = geometry.block;
        let fault =
            format!("the device has blocks of {block} bytes, which do not divide {SUPERBLOCK_SIZE} bytes");
        return Err(VolumeError::NoSuperblock { member, fault });
    }
    for (offset, copy) in copy_offsets(geometry.capacity).into_iter().zip(&mut copies) {
        let found = match read(device, cx, offset, vec![0; SUPERBLOCK_SIZE]).await {
            Ok(bytes) => Superblock::decode(&bytes).map_err(|fault| fault.to_string()),
            Err(error) => {
                is_unreadable = true;
                Err(error.to_string())
            }
        };
        match found {
            Ok(found) => *copy = Some(found),
            Err(why) if fault.is_empty() => fault = why,
            Err(_) => {}
        }
    }
    let agreement = if is_unreadable { Copies::Damaged } else { Copies::compare(&copies) };
    let best = copies.into_iter().flatten().max_by_key(|copy| copy.sequence);
    Ok((best.ok_or(VolumeError::NoSuperblock { member, fault })?, agreement))
}
