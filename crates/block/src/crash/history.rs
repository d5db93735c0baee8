//! The oracle: a record of writes and flushes that judges the contents of a device after a power loss.
//!
//! Each write has distinct data, so that the contents of a block identify the write that they come from.
//! Requests that write zeroes cannot be told apart. Writes may run concurrently. One write *precedes* another
//! if it was answered before the other started; the order of concurrent writes is undefined.

use flashlab_sim::mix;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The guarantee that a device gives for its contents after a power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contract {
    /// Each block holds its durable contents or the contents of a later or concurrent write, independently of
    /// other blocks. A disk with a volatile cache gives this guarantee.
    Block,
    /// The contents result from some of the writes, applied in an order that agrees with *precedes*. Each write is
    /// present as a whole or not at all, and only together with all writes that precede it.
    Prefix,
}

/// Number of a write in its history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OpId(usize);

/// The writes and flushes of a run.
#[derive(Clone, Debug)]
pub struct History {
    block: usize,
    blocks: u64,
    /// Logical time, which advances at each start of a request and at each answer of a write.
    clock: u64,
    ops: Vec<Op>,
    /// Latest start of a flush that was answered.
    flushed: u64,
}

#[derive(Clone, Debug)]
struct Op {
    blocks: Range<u64>,
    zeroes: bool,
    durable: bool,
    started: u64,
    /// Value of the clock at the answer; `None` if the write is in flight or failed. Such a write may have
    /// had an effect.
    answered: Option<u64>,
}

/// A breach of the contract.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// A block holds bytes that no write put there.
    Garbage(u64),
    /// A block cannot be read.
    Unreadable(u64),
    /// A block lacks a write that must be there, because it is durable or because a later write is visible.
    Lost {
        /// The block.
        block: u64,
        /// The missing write.
        missing: OpId,
        /// The write that the block holds; `None` for its initial contents or zeroes.
        found: Option<OpId>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Garbage(block) => write!(f, "block {block} holds bytes that no write put there"),
            Violation::Unreadable(block) => write!(f, "block {block} cannot be read"),
            Violation::Lost { block, missing, found } => {
                let found = found.map_or("older contents".to_owned(), |op| format!("write {}", op.0));
                write!(f, "block {block} lacks write {}, and holds {found}", missing.0)
            }
        }
    }
}

impl std::error::Error for Violation {}

impl History {
    /// Creates the history of a device that holds only zeroes.
    pub fn new(block: usize, blocks: u64) -> History {
        History { block, blocks, clock: 1, ops: Vec::new(), flushed: 0 }
    }

    /// Returns the number of writes so far, including those of zeroes.
    pub fn op_count(&self) -> usize {
        self.ops.len()
    }

    /// Records the start of a write of `blocks`; `durable` means FUA.
    pub fn write(&mut self, blocks: Range<u64>, durable: bool) -> OpId {
        self.begin(blocks, false, durable)
    }

    /// Records the start of a request that makes `blocks` read as zeroes.
    pub fn zero(&mut self, blocks: Range<u64>, durable: bool) -> OpId {
        self.begin(blocks, true, durable)
    }

    fn begin(&mut self, blocks: Range<u64>, zeroes: bool, durable: bool) -> OpId {
        let started = self.tick();
        self.ops.push(Op { blocks, zeroes, durable, started, answered: None });
        OpId(self.ops.len() - 1)
    }

    /// Records the answer of a write. A write that failed is not recorded as answered.
    pub fn answered(&mut self, op: OpId) {
        self.ops[op.0].answered = Some(self.tick());
    }

    /// Records the start of a flush. Returns the value of the clock to pass to [`History::flushed`].
    pub fn flush(&mut self) -> u64 {
        self.tick()
    }

    /// Records the answer of the flush that started at `started`.
    pub fn flushed(&mut self, started: u64) {
        self.flushed = self.flushed.max(started);
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Returns the data of a write.
    pub fn data(&self, op: OpId) -> Vec<u8> {
        let blocks = self.ops[op.0].blocks.clone();
        let mut data = vec![0; (blocks.end - blocks.start) as usize * self.block];
        for (block, bytes) in blocks.zip(data.chunks_mut(self.block)) {
            fill(op.0, block, bytes);
        }
        data
    }

    /// Returns the contents of a block after all writes, in the order of their starts.
    pub fn newest(&self, block: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.block];
        let newest = self.ops.iter().enumerate().rfind(|(_, op)| op.blocks.contains(&block));
        if let Some((n, _)) = newest.filter(|(_, op)| !op.zeroes) {
            fill(n, block, &mut bytes);
        }
        bytes
    }

    /// Checks the contents of a device after a power loss. `read` returns the bytes of a block, or `None` if the block
    /// cannot be read.
    ///
    /// # Errors
    /// Returns the first violation of the contract.
    pub fn check(
        &self,
        contract: Contract,
        mut read: impl FnMut(u64) -> Option<Vec<u8>>,
    ) -> Result<(), Violation> {
        let mut visible = BTreeMap::new();
        for block in 0..self.blocks {
            let bytes = read(block).ok_or(Violation::Unreadable(block))?;
            visible.insert(block, self.identify(block, &bytes)?);
        }
        let mut required: Vec<bool> = self.ops.iter().map(|op| self.is_durable(op)).collect();
        if contract == Contract::Prefix {
            visible.values().flatten().for_each(|op| required[op.0] = true);
            // A write that was answered before the latest start of a required write is required, too.
            let required_ops = || self.ops.iter().zip(&required).filter(|(_, required)| **required);
            let latest = required_ops().map(|(op, _)| op.started).max().unwrap_or(0);
            for (op, required) in self.ops.iter().zip(&mut required) {
                *required |= op.answered.is_some_and(|answered| answered < latest);
            }
        }
        for (block, found) in visible {
            self.check_block(block, found, &required)?;
        }
        Ok(())
    }

    /// Returns true if an answer promised that the write survives.
    fn is_durable(&self, op: &Op) -> bool {
        op.answered.is_some_and(|answered| op.durable || answered < self.flushed)
    }

    /// Returns the write that the bytes of a block come from; `None` for zeroes.
    fn identify(&self, block: u64, bytes: &[u8]) -> Result<Option<OpId>, Violation> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let number = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first) as usize);
        let op =
            number.checked_sub(1).filter(|n| self.ops.get(*n).is_some_and(|op| op.blocks.contains(&block)));
        let op = op.ok_or(Violation::Garbage(block))?;
        let mut expected = vec![0; self.block];
        fill(op, block, &mut expected);
        if bytes == expected { Ok(Some(OpId(op))) } else { Err(Violation::Garbage(block)) }
    }

    /// Checks that the block does not show contents that a required write replaced. Zeroes may be the initial
    /// contents of the block, or come from any request that wrote zeroes.
    fn check_block(&self, block: u64, found: Option<OpId>, required: &[bool]) -> Result<(), Violation> {
        let of_block = || self.ops.iter().enumerate().filter(|(_, op)| op.blocks.contains(&block));
        let overwritten_by = |shown: Option<&Op>| {
            // The initial contents precede every write.
            let answered = shown.map_or(Some(0), |op| op.answered);
            let later = |op: &Op| answered.is_some_and(|answered| answered < op.started);
            of_block().find(|(n, op)| required[*n] && later(op)).map(|(n, _)| OpId(n))
        };
        let missing = match found {
            Some(op) => overwritten_by(Some(&self.ops[op.0])),
            None => {
                let zeroes = of_block().filter(|(_, op)| op.zeroes).map(|(_, op)| Some(op));
                let mut overwriters = std::iter::once(None).chain(zeroes).map(overwritten_by);
                let first = overwriters.next().flatten();
                if first.is_none() || overwriters.any(|by| by.is_none()) { None } else { first }
            }
        };
        missing.map_or(Ok(()), |missing| Err(Violation::Lost { block, missing, found }))
    }
}

/// Fills a block with the data of a write: the number of the write, then words that depend on the write and the block.
/// Every second write repeats one word, which compresses well.
fn fill(op: usize, block: u64, bytes: &mut [u8]) {
    let mut word = mix(op as u64 ^ mix(block));
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        if !op.is_multiple_of(2) {
            word = (word ^ word >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    if let Some(first) = bytes.first_chunk_mut() {
        *first = (op as u64 + 1).to_le_bytes();
    }
}
