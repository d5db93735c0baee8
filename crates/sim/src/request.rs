//! Requests to a device, and their completions.

use crate::{Duration, Instant};
use core::ops::{AddAssign, Index, IndexMut};
use serde::{Deserialize, Serialize};

/// Identifier of a request in flight. The submitter chooses it so that it is unique among the submitter's requests in
/// flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// A file of a filesystem model. A raw device has only [`FileId::DEVICE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct FileId(pub u32);

impl FileId {
    /// The whole device, or the first file of a filesystem.
    pub const DEVICE: FileId = FileId(0);
}

/// Operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Op {
    /// Reads the range.
    Read,
    /// Writes the range. Completion does not imply durability.
    Write,
    /// Writes the range and completes when this data is durable (force unit access, FUA). Other writes are
    /// not affected. Trims have no FUA form; a later flush makes them durable.
    WriteFua,
    /// Unmaps the range.
    Trim,
    /// Makes all completed writes and trims durable. The range is ignored.
    Flush,
    /// Like [`Op::Flush`], but limited to data and the metadata that is needed to find it, as `fdatasync` specifies.
    /// Time stamps, for example, need not become durable.
    FlushData,
}

impl Op {
    /// Returns true for [`Op::Flush`] and [`Op::FlushData`], which have no range.
    pub const fn is_flush(self) -> bool {
        matches!(self, Op::Flush | Op::FlushData)
    }
    /// Returns true for [`Op::Write`] and [`Op::WriteFua`].
    #[inline]
    pub const fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::WriteFua)
    }
    /// Returns true for reads and writes, which move data between host and device.
    #[inline]
    pub const fn moves_data(self) -> bool {
        matches!(self, Op::Read | Op::Write | Op::WriteFua)
    }
}

/// An operation on `length` bytes at byte `offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Identifier, which the completion repeats.
    pub id: RequestId,
    /// Operation.
    pub op: Op,
    /// File to which the offset refers. Devices ignore it.
    pub file: FileId,
    /// Offset in bytes, a multiple of the logical block size.
    pub offset: u64,
    /// Length in bytes, a multiple of the logical block size.
    pub length: u64,
}

impl Request {
    /// Returns the request that drops the cached pages of a file: a trim of no bytes. A page cache takes a length of 0
    /// to mean the whole file, as `posix_fadvise` does. Devices have no use for this request.
    pub fn drop_pages(id: RequestId, file: FileId) -> Request {
        Request { id, op: Op::Trim, file, offset: 0, length: 0 }
    }
    /// Returns true if this request comes from [`Request::drop_pages`].
    pub fn drops_pages(&self) -> bool {
        self.op == Op::Trim && self.length == 0
    }
    /// Returns the offset of the first byte after the range.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// Outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Status {
    /// Success.
    Ok,
    /// The range exceeds the capacity or does not consist of whole blocks. Nothing was done.
    OutOfRange,
    /// The device does not support the operation. Nothing was done.
    Unsupported,
    /// The device is worn out and accepts no more writes. Nothing was done.
    ReadOnly,
    /// Part of the requested data cannot be read.
    Unreadable,
}

/// A cause of latency: one column in every breakdown of a latency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub enum Mechanism {
    /// Transfer on the bus between host and device, without the part that overlaps with a slower mechanism.
    Bus,
    /// Work of the host: interrupts, copies, the filesystem.
    Host,
    /// The controller's processor: decoding a command and planning its execution.
    Firmware,
    /// Programming the data of the request.
    Program,
    /// Reading the requested data from the flash array.
    Read,
    /// Reading and rewriting the rest of a unit that the request overwrote in part.
    ReadModifyWrite,
    /// Merging rewrite units that had to be closed; also a card's garbage collection, wear leveling, and time
    /// to switch to another rewrite unit.
    Merge,
    /// Loading or writing map pages, and the commit that makes a write durable.
    Map,
    /// Waiting for other requests.
    Queue,
    /// Busy time that a card adds to a write command.
    Busy,
    /// Moving data out of the area for small writes, to make room in it.
    Fold,
    /// Periodic work of the controller that no single request causes.
    Housekeeping,
    /// Waiting for a volatile cache: for free space, for the drain before a flush, or for the page that the
    /// cache is programming. The page cache of the host also counts as a volatile cache: a writer waits until
    /// there is room for more dirty pages.
    Cache,
    /// Encryption, decryption and authentication of a volume's data by the host's processors.
    Cipher,
    /// Compression of a volume's data by the host's processors.
    Compression,
    /// Decompression of a volume's data by the host's processors.
    Decompression,
}

impl Mechanism {
    /// All mechanisms, in printing order.
    pub const ALL: [Mechanism; 16] = [
        Mechanism::Bus,
        Mechanism::Host,
        Mechanism::Firmware,
        Mechanism::Program,
        Mechanism::Read,
        Mechanism::ReadModifyWrite,
        Mechanism::Merge,
        Mechanism::Map,
        Mechanism::Queue,
        Mechanism::Busy,
        Mechanism::Fold,
        Mechanism::Housekeeping,
        Mechanism::Cache,
        Mechanism::Cipher,
        Mechanism::Compression,
        Mechanism::Decompression,
    ];

    /// Returns the name that results use.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Bus => "bus",
            Mechanism::Host => "host",
            Mechanism::Firmware => "firmware",
            Mechanism::Program => "program",
            Mechanism::Read => "read",
            Mechanism::ReadModifyWrite => "read-modify-write",
            Mechanism::Merge => "merge",
            Mechanism::Map => "map",
            Mechanism::Queue => "queue",
            Mechanism::Busy => "busy",
            Mechanism::Fold => "fold",
            Mechanism::Housekeeping => "housekeeping",
            Mechanism::Cache => "cache",
            Mechanism::Cipher => "cipher",
            Mechanism::Compression => "compression",
            Mechanism::Decompression => "decompression",
        }
    }

    /// Returns the mechanism with this name.
    pub fn from_name(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

/// Breakdown of a latency by mechanism. The parts sum exactly to the latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Spent([Duration; Mechanism::ALL.len()]);

impl Spent {
    /// Returns the sum of all parts, which is the latency.
    #[inline]
    pub fn total(&self) -> Duration {
        Duration::from_ns(self.0.iter().fold(0, |sum: u64, part| sum.wrapping_add(part.as_ns())))
    }
    /// Iterates over the mechanisms with their times, in printing order.
    pub fn iter(&self) -> impl Iterator<Item = (Mechanism, Duration)> + '_ {
        Mechanism::ALL.into_iter().map(|m| (m, self[m]))
    }
}

impl Index<Mechanism> for Spent {
    type Output = Duration;
    fn index(&self, m: Mechanism) -> &Duration {
        &self.0[m as usize]
    }
}
impl IndexMut<Mechanism> for Spent {
    fn index_mut(&mut self, m: Mechanism) -> &mut Duration {
        &mut self.0[m as usize]
    }
}
impl AddAssign for Spent {
    /// Adds without overflow checks, like [`Spent::total`], for speed. The parts cannot overflow: their sum
    /// is the latency, and the arithmetic of the instant of completion is checked.
    #[inline]
    fn add_assign(&mut self, other: Spent) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = Duration::from_ns(mine.as_ns().wrapping_add(theirs.as_ns()));
        }
    }
}

/// Completion of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Completion {
    /// Identifier of the request.
    pub id: RequestId,
    /// Instant of the completion.
    pub at: Instant,
    /// Outcome.
    pub status: Status,
    /// Breakdown of the latency.
    pub spent: Spent,
}
