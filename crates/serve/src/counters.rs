//! What a server has done so far, counted by its connections and read by whoever shows it.

use flashlab_sim::{Duration, Histogram};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

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
pub struct Counters {
    counts: [AtomicU64; COUNTS],
    late: Mutex<Histogram>,
}

/// Counts at one moment, or between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted([u64; COUNTS]);

impl Counters {
    /// What was counted until now.
    pub fn read(&self) -> Counted {
        Counted(std::array::from_fn(|n| self.counts[n].load(Ordering::Relaxed)))
    }

    /// Adds what a thread has counted for itself, and begins that anew.
    pub(crate) fn add(&self, counted: &mut Counted) {
        for (total, n) in self.counts.iter().zip(&mut counted.0) {
            if *n > 0 {
                total.fetch_add(std::mem::take(n), Ordering::Relaxed);
            }
        }
    }

    /// How much later than a device said replies were sent, on the wall: one entry for all that were due together.
    pub fn lateness(&self) -> Histogram {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn late(&self, by: Duration) {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).record(by);
    }

    pub(crate) fn count(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
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
