//! Output of `sdbench` of NuttX and `sd_bench` of PX4: runs of sequential writes and reads of small blocks.
//!
//! The two formats have KB of 1024 B (sd_bench.cpp divides by 1024). Every write passes through the filesystem to the
//! driver. With `sync`, a flush follows each write.

use super::runs::{Ran, Runs};
use super::{ImportError, LineReader, positive};
use crate::observation::{Quantity, State};
use flashlab_fio::job::Direction;

/// Reader of the output.
#[derive(Default)]
pub(super) struct Reader {
    block: Option<(u64, bool)>,
    direction: Option<Direction>,
}

impl LineReader for Reader {
    fn read(&mut self, number: usize, line: &str, runs: &mut Runs) -> Result<bool, ImportError> {
        if let Some((_, rest)) = line.split_once("Using block size = ") {
            let block = rest.split_whitespace().next().unwrap_or_default();
            let block = positive(number, block, "sdbench's block")? as u64;
            let is_synchronous = rest.contains("sync=1") || rest.contains("sync = true");
            self.block = Some((block, is_synchronous));
            self.direction = None;
            return Ok(false);
        }
        if line.contains("Testing Sequential Write Speed...") {
            self.direction = Some(Direction::Write);
        } else if line.contains("Testing Sequential Read Speed") {
            self.direction = Some(Direction::Read);
        }
        let (Some((block, is_synchronous)), Some(direction)) = (self.block, self.direction) else {
            return Ok(false);
        };
        let Some((run, rest)) = line.split_once(':') else { return Ok(false) };
        if !run.contains("Run ") {
            return Ok(false);
        }
        let rate = rest.split_once("KB/s").map_or(rest, |(rate, _)| rate);
        let rate = positive(number, rate, "sdbench's rate")? * 1024.0;
        let is_write = direction == Direction::Write;
        let sync = if is_write && is_synchronous { " fsync=1" } else { "" };
        let ran = Ran {
            name: if is_write { "sdbench write" } else { "sdbench read" }.to_owned(),
            options: format!("rw={} bs={block} runtime=2{sync}", direction.name()),
            before: if is_write { State::Unknown } else { State::WrittenInSequence },
            filesystem: None,
            assumptions: vec!["each request reaches the card as one command".to_owned()],
            warning: None,
        };
        runs.add(number, ran, direction, &[(Quantity::BytesPerSecond, rate)])?;
        Ok(true)
    }
}
