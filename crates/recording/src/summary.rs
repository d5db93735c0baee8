//! Counts over a whole recording.

use crate::{Action, Step};
use flashlab_sim::{Duration, Op};

/// Number and bytes of the requests of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of all requests.
    pub bytes: u64,
}

/// Counts over the steps of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Reads.
    pub reads: Count,
    /// Writes, with and without force unit access.
    pub writes: Count,
    /// Trims.
    pub trims: Count,
    /// Flushes.
    pub flushes: Count,
    /// Number of marks.
    pub marks: u64,
    /// Latest recorded start.
    pub span: Duration,
    /// End of the highest range.
    pub end: u64,
    /// Number of the step with the highest range, from 0.
    pub highest_step: u64,
    /// End of the highest read.
    pub reads_end: u64,
    steps: u64,
}

impl Summary {
    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        [self.reads, self.writes, self.trims, self.flushes].iter().map(|count| count.requests).sum()
    }

    /// Adds the next step.
    pub fn add(&mut self, step: &Step) {
        self.span = self.span.max(step.at);
        match step.action {
            Action::Mark(_) => self.marks += 1,
            Action::Request { op, offset, length, .. } => {
                let count = match op {
                    Op::Read => &mut self.reads,
                    Op::Write | Op::WriteFua => &mut self.writes,
                    Op::Trim => &mut self.trims,
                    Op::Flush | Op::FlushData => &mut self.flushes,
                };
                count.requests += 1;
                count.bytes = count.bytes.saturating_add(length);
                let end = offset.saturating_add(length);
                if end > self.end {
                    (self.end, self.highest_step) = (end, self.steps);
                }
                if op == Op::Read {
                    self.reads_end = self.reads_end.max(end);
                }
            }
        }
        self.steps += 1;
    }
}
