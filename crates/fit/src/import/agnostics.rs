//! Imports the output of the SD card test in Raspberry Pi's `agnostics`: `rand-4k-write;0;0;2204;551`.
//!
//! The test runs the jobs of its `sd_bench.fio` and prints the name, read KiB/s, read IOPS, write KiB/s and
//! write IOPS of each job.

use super::runs::{Ran, Runs};
use super::{CONTIGUOUS, ImportError, LineReader, positive};
use crate::observation::{Quantity, State};
use flashlab_fio::job::Direction;

/// Reader of the test's output.
pub(super) struct Reader;

/// Name and options of each job of `sd_bench.fio`, its direction, and the state of the card before it.
const JOBS: [(&str, &str, Direction, State); 4] = [
    ("prepare-file", "rw=write bs=512k", Direction::Write, State::Unknown),
    ("seq-write", "rw=write bs=512k", Direction::Write, State::WrittenInSequence),
    ("rand-4k-write", "rw=randwrite bs=4k runtime=10", Direction::Write, State::WrittenInSequence),
    ("rand-4k-read", "rw=randread bs=4k runtime=10", Direction::Read, State::WrittenInSequence),
];

impl LineReader for Reader {
    fn read(&mut self, number: usize, line: &str, runs: &mut Runs) -> Result<bool, ImportError> {
        let fields: Vec<&str> = line.trim().split(';').collect();
        let [name, read_kib, read_iops, write_kib, write_iops] = fields[..] else { return Ok(false) };
        let Some((name, options, direction, before)) = JOBS.iter().find(|job| job.0 == name) else {
            return Ok(false);
        };
        let (kib, iops) = match direction {
            Direction::Read => (read_kib, read_iops),
            _ => (write_kib, write_iops),
        };
        // The test rounds IOPS to whole numbers, so for large requests KiB/s is more precise.
        positive(number, iops, &format!("{name}'s IOPS"))?;
        let rate = positive(number, kib, &format!("{name}'s KiB/s"))? * 1024.0;
        let ran = Ran {
            name: (*name).to_owned(),
            options: format!("{options} ioengine=libaio iodepth=4 size=64m end_fsync=1"),
            before: *before,
            filesystem: None,
            assumptions: vec![CONTIGUOUS.to_owned()],
            warning: None,
        };
        runs.add(number, ran, *direction, &[(Quantity::BytesPerSecond, rate)])?;
        Ok(true)
    }
}
