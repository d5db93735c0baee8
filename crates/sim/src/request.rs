//! What is asked of a device, and what comes back.

use crate::{Duration, Instant};
use core::ops::{AddAssign, Index, IndexMut};
use serde::{Deserialize, Serialize};

/// Names a request between its submission and its completion. Chosen by who submits; unique among what is outstanding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// A file of a filesystem model; a bare device has only [`FileId::DEVICE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct FileId(pub u32);

impl FileId {
    /// The whole device, or the first file of a filesystem.
    pub const DEVICE: FileId = FileId(0);
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Op {
    /// Read the range.
    Read,
    /// Write the range; done when the device says so, which is not a promise of durability.
    Write,
    /// Write the range; done when it is durable (FUA, forced unit access), which says nothing of other writes. A trim that
    /// is to be durable is followed by a flush.
    WriteFua,
    /// Unmap the range.
    Trim,
    /// Make all that was written durable; the range is ignored.
    Flush,
    /// The same for data and what is needed to find it, as fdatasync asks; a time stamp may stay behind.
    FlushData,
}

impl Op {
    /// Whether it is one of the flushes, which have no range.
    pub const fn is_flush(self) -> bool {
        matches!(self, Op::Flush | Op::FlushData)
    }
    /// Whether it is one of the writes.
    #[inline]
    pub const fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::WriteFua)
    }
}

/// One request: an operation on `length` bytes at byte `offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Returned with the completion.
    pub id: RequestId,
    /// What to do.
    pub op: Op,
    /// Which file the offset counts in; devices ignore it.
    pub file: FileId,
    /// First byte; a multiple of the geometry's block.
    pub offset: u64,
    /// Bytes; a multiple of the geometry's block.
    pub length: u64,
}

impl Request {
    /// The byte after the last.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Status {
    /// Done.
    Ok,
    /// The range is beyond the capacity or not made of whole blocks; nothing was done.
    OutOfRange,
    /// The device knows no such operation; nothing was done.
    Unsupported,
    /// The device is worn out and takes no more writes; nothing was done.
    ReadOnly,
    /// Some of what was asked for cannot be read.
    Unreadable,
}

/// What a request's time was spent on: the columns of every explanation of a latency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub enum Mechanism {
    /// Clocks on the wires between host and device, where nothing else was slower.
    Bus,
    /// The host's own work: interrupts, copies, the filesystem.
    Host,
    /// The controller's processor: taking a command apart, deciding what it needs.
    Firmware,
    /// Programming what the request wrote.
    Program,
    /// Reading what the request asked for from the array.
    Read,
    /// Reading and rewriting a mapping unit because part of it was overwritten.
    ReadModifyWrite,
    /// Completing an open allocation unit that had to be closed.
    Merge,
    /// Loading or writing mapping information.
    Map,
    /// Waiting behind other requests.
    Queue,
}

impl Mechanism {
    /// All of them, in the order in which they are printed.
    pub const ALL: [Mechanism; 9] = [
        Mechanism::Bus,
        Mechanism::Host,
        Mechanism::Firmware,
        Mechanism::Program,
        Mechanism::Read,
        Mechanism::ReadModifyWrite,
        Mechanism::Merge,
        Mechanism::Map,
        Mechanism::Queue,
    ];

    /// The name used in results.
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
        }
    }
}

/// Where a request's time went. The parts sum to the latency exactly; every model keeps this.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Spent([Duration; Mechanism::ALL.len()]);

impl Spent {
    /// The sum of all parts: the latency.
    #[inline]
    pub fn total(&self) -> Duration {
        Duration::from_ns(self.0.iter().fold(0, |sum: u64, part| sum.wrapping_add(part.as_ns())))
    }
    /// Each mechanism with its time, in printing order.
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
    /// Unchecked, like [`Spent::total`], for speed: parts of a latency cannot overflow where the instant at which the
    /// request ends has not, and that is checked.
    #[inline]
    fn add_assign(&mut self, other: Spent) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = Duration::from_ns(mine.as_ns().wrapping_add(theirs.as_ns()));
        }
    }
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Completion {
    /// The request.
    pub id: RequestId,
    /// When it was done.
    pub at: Instant,
    /// How it ended.
    pub status: Status,
    /// Where the time since its submission went.
    pub spent: Spent,
}
