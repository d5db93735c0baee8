//! Lines of `hdparm -t`: `Timing buffered disk reads:  66 MB in  3.05 seconds =  21.66 MB/sec`.
//!
//! hdparm's MB are MiB: `time_device` in hdparm 9.65 counts buffers of 2 MiB. With `--direct` the line reads
//! `Timing O_DIRECT disk reads`.

use super::runs::{Ran, Runs};
use super::{ImportError, LineReader, Problem, positive};
use crate::observation::{Quantity, State};
use flashlab_fio::job::Direction;

/// Reader of the lines.
pub(super) struct Reader;

const MIB: f64 = 1_048_576.0;

impl LineReader for Reader {
    fn read(&mut self, number: usize, line: &str, runs: &mut Runs) -> Result<bool, ImportError> {
        let Some((kind, rest)) = line.split_once(" disk reads:") else { return Ok(false) };
        let is_direct = kind.trim_end().ends_with("O_DIRECT");
        if !is_direct && !kind.trim_end().ends_with("buffered") {
            return Ok(false);
        }
        let missing = || {
            let of = "hdparm".to_owned();
            let what = "expected `... MB in ... seconds = ... MB/sec`; did the run fail?".to_owned();
            ImportError::at(number, Problem::Missing { of, what })
        };
        let (amount, rest) = rest.split_once(" in ").ok_or_else(missing)?;
        let (seconds, rate) = rest.split_once("seconds").ok_or_else(missing)?;
        let (amount, unit) = amount.trim().split_once(' ').ok_or_else(missing)?;
        if unit.trim() != "MB" {
            return Err(missing());
        }
        let mib = positive(number, amount, "hdparm's amount")?;
        let seconds = positive(number, seconds, "hdparm's time")?;
        let (rate, unit) = rate.trim_start_matches([' ', '=']).trim().split_once(' ').ok_or_else(missing)?;
        let rate =
            positive(number, rate, "hdparm's rate")? / if unit.starts_with("kB") { 1024.0 } else { 1.0 };
        // The printed time has two decimals.
        if (mib / seconds / rate - 1.0).abs() > 0.01 + 0.01 / seconds {
            let message = format!("{mib} MB in {seconds} s are {:.2} MB/s, not {rate}", mib / seconds);
            return Err(ImportError::at(number, Problem::Contradiction(message)));
        }
        let options = match is_direct {
            true => "rw=read bs=2m runtime=3",
            false => "rw=read bs=128k ioengine=libaio iodepth=2 runtime=3",
        };
        let read_ahead =
            "the page cache reads ahead with requests of 128 KiB, Linux's default, two at a time";
        let mut assumptions = vec!["the beginning of the device was written in sequence".to_owned()];
        if !is_direct {
            assumptions.push(read_ahead.to_owned());
        }
        let ran = Ran {
            name: if is_direct { "hdparm -t --direct" } else { "hdparm -t" }.to_owned(),
            options: options.to_owned(),
            before: State::WrittenInSequence,
            filesystem: None,
            assumptions,
            warning: None,
        };
        runs.add(number, ran, Direction::Read, &[(Quantity::BytesPerSecond, rate * MIB)])?;
        Ok(true)
    }
}
