//! What a server has done so far, counted by its connections and read by whoever shows it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What can be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Count {
    /// Connections that were accepted.
    Accepted,
    /// Connections that have ended.
    Ended,
    /// Reads answered.
    Reads,
    /// Bytes of them.
    ReadBytes,
    /// Writes answered.
    Writes,
    /// Bytes of them.
    WriteBytes,
    /// Other requests answered: flushes, discards, zeroes, caches, block status.
    Others,
    /// Requests answered with an error.
    Errors,
    /// Batches: what came in with one receive, or with several while a request was not complete.
    Batches,
    /// System calls that moved these bytes or waited for them.
    Calls,
}

const COUNTS: usize = 10;

/// Counts that several threads add to.
#[derive(Debug, Default)]
pub struct Counters([AtomicU64; COUNTS]);

/// Counts at one moment, or between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted([u64; COUNTS]);

impl Counters {
    /// What was counted until now.
    pub fn read(&self) -> Counted {
        Counted(std::array::from_fn(|n| self.0[n].load(Ordering::Relaxed)))
    }

    /// Adds what a thread has counted for itself, and begins that anew.
    pub(crate) fn add(&self, counted: &mut Counted) {
        for (total, n) in self.0.iter().zip(&mut counted.0) {
            if *n > 0 {
                total.fetch_add(std::mem::take(n), Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn count(&self, what: Count) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Counted {
    /// How many.
    pub fn get(&self, what: Count) -> u64 {
        self.0[what as usize]
    }
    /// Connections that are open.
    pub fn connections(&self) -> u64 {
        self.get(Count::Accepted).saturating_sub(self.get(Count::Ended))
    }
    /// Requests that were answered.
    pub fn requests(&self) -> u64 {
        self.get(Count::Reads) + self.get(Count::Writes) + self.get(Count::Others)
    }
    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Counted) -> Counted {
        Counted(std::array::from_fn(|n| self.0[n].saturating_sub(earlier.0[n])))
    }
    pub(crate) fn add(&mut self, what: Count, n: u64) {
        self.0[what as usize] += n;
    }
}
