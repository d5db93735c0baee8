//! Lines of the card test of Raspberry Pi's agnostics: `rand-4k-write;0;0;2204;551`.
//!
//! The test runs the jobs of its `sd_bench.fio` and prints name, read KiB/s, read IOPS, write KiB/s, write IOPS.

use super::runs::{Ran, Runs};
use super::{ImportError, LineReader, positive};
use crate::observation::{Quantity, State};
use flashlab_fio::job::Direction;

/// Reader of the lines.
pub(super) struct Reader;

/// Options of each job of `sd_bench.fio`, with the state before it.
const JOBS: [(&str, &str, State); 4] = [
    ("prepare-file", "rw=write bs=512k", State::Unknown),
    ("seq-write", "rw=write bs=512k", State::WrittenInSequence),
    ("rand-4k-write", "rw=randwrite bs=4k runtime=10", State::WrittenInSequence),
    ("rand-4k-read", "rw=randread bs=4k runtime=10", State::WrittenInSequence),
];

impl LineReader for Reader {
    fn read(&mut self, number: usize, line: &str, runs: &mut Runs) -> Result<bool, ImportError> {
        let fields: Vec<&str> = line.trim().split(';').collect();
        let [name, read_kib, read_iops, write_kib, write_iops] = fields[..] else { return Ok(false) };
        let Some((name, options, before)) = JOBS.iter().find(|job| job.0 == name) else { return Ok(false) };
        let (direction, kib, iops) = match options.contains("read") {
            true => (Direction::Read, read_kib, read_iops),
            false => (Direction::Write, write_kib, write_iops),
        };
        // IOPS are whole numbers, so that those of large requests are less exact than KiB/s.
        positive(number, iops, &format!("{name}'s IOPS"))?;
        let rate = positive(number, kib, &format!("{name}'s KiB/s"))? * 1024.0;
        let ran = Ran {
            name: (*name).to_owned(),
            options: format!("{options} ioengine=libaio iodepth=4 size=64m end_fsync=1"),
            before: *before,
            filesystem: None,
            assumptions: vec![
                "the file lies in one piece, and the filesystem's metadata cost nothing".to_owned(),
            ],
            warning: None,
        };
        runs.add(number, ran, direction, &[(Quantity::BytesPerSecond, rate)])?;
        Ok(true)
    }
}
