//! Tables of flashbench: `--align` (`align 4194304 pre 741µs on 1.08ms post 788µs diff 317µs`) and `--open-au`
//! (`512KiB  6.39M/s` for each size of a write).
//!
//! flashbench's source (flashbench.c, vm.c) defines the accesses. `--align` reads a block before, across and
//! after each multiple of a power of two, at intervals of the largest power, and keeps the shortest of
//! several times. `--open-au` writes N allocation units in turn, block by block. The first unit begins at 16
//! MiB, and the units are 12 units apart. In its rates, M stands for 10^6.

use super::runs::{Ran, Runs};
use super::{ImportError, LineReader, Problem, positive, short_size, size};
use crate::observation::{Quantity, State};
use flashlab_fio::job::Direction;

/// Reader of the tables.
pub(super) struct Reader {
    /// Largest alignment of each `--align` table of the text; the table at the front is the current one.
    intervals: Vec<u64>,
    /// Alignment on the previous line of `--align`; 0 before the first one.
    above: u64,
    command: Command,
}

/// The options of the last command line.
#[derive(Default)]
struct Command {
    is_known: bool,
    block: Option<u64>,
    erase_size: Option<u64>,
    open_units: Option<u64>,
    is_random: bool,
}

impl Reader {
    /// Returns a reader for a text, whose `--align` tables determine the intervals of the reads.
    pub(super) fn new(text: &str) -> Self {
        let mut intervals = Vec::new();
        let mut above = 0;
        for align in text.lines().filter_map(|line| Some(alignment(line)?.0)) {
            if align >= above {
                intervals.push(align);
            }
            above = align;
        }
        intervals.reverse();
        Reader { intervals, above: 0, command: Command::default() }
    }
}

impl LineReader for Reader {
    fn read(&mut self, number: usize, line: &str, runs: &mut Runs) -> Result<bool, ImportError> {
        if let Some(command) = command(line, &self.command) {
            self.command = command;
            return Ok(false);
        }
        if let Some((align, rest)) = alignment(line) {
            self.align(number, align, rest, runs)?;
            return Ok(true);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [block, rate] = words[..] else { return Ok(false) };
        let (Some(block), Some(rate)) =
            (size(block).filter(|_| block.ends_with('B')), rate.strip_suffix("/s"))
        else {
            return Ok(false);
        };
        self.open_units(number, block, rate, runs)?;
        Ok(true)
    }
}

impl Reader {
    fn align(&mut self, number: usize, align: u64, times: &str, runs: &mut Runs) -> Result<(), ImportError> {
        if align >= self.above && self.above > 0 {
            self.intervals.pop();
        }
        self.above = align;
        let interval = self.intervals.last().copied().unwrap_or(align);
        let block = self.command.block.unwrap_or(16 << 10);
        if align < block {
            let message = format!("an alignment of {align} is below the block of {block} bytes");
            return Err(ImportError::at(number, Problem::Contradiction(message)));
        }
        let words: Vec<&str> = times.split_whitespace().collect();
        for (name, offset) in [("pre", align - block), ("on", align - block / 2), ("post", align)] {
            let time = words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
            let time = time.ok_or_else(|| missing(number, &format!("the time of `{name}`")))?;
            let nanoseconds = nanoseconds(number, time)?;
            let skip = interval - block;
            let stride = if skip == 0 { "rw=read".to_owned() } else { format!("rw=read:{skip}") };
            let mut assumptions = vec![
                "the device was written".to_owned(),
                "flashbench states the shortest of several times; the job repeats without delays".to_owned(),
            ];
            if self.command.block.is_none() {
                assumptions.push("flashbench ran with its default, --blocksize=16384".to_owned());
            }
            let ran = Ran {
                name: format!("align {} {name}", short_size(align)),
                // Three intervals fit into every device, because the largest interval is below 2/7 of the
                // device.
                options: format!("{stride} bs={block} offset={offset} number_ios=3"),
                before: State::WrittenInSequence,
                filesystem: None,
                assumptions,
                warning: None,
            };
            runs.add(number, ran, Direction::Read, &[(Quantity::LatencyMean, nanoseconds)])?;
        }
        Ok(())
    }

    fn open_units(
        &mut self,
        number: usize,
        block: u64,
        rate: &str,
        runs: &mut Runs,
    ) -> Result<(), ImportError> {
        if !self.command.is_known {
            let what = "add the line `flashbench --open-au --open-au-nr=N --erasesize=...` before the table, because \
                        the table does not state the number of units";
            return Err(missing(number, what));
        }
        let digits = rate.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &rate[digits.len()..] {
            "B" | "" => 1.0,
            "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            _ => return Err(missing(number, "a rate in B/s, K/s, M/s or G/s")),
        };
        let rate = positive(number, digits, "flashbench's rate")? * unit;
        let erase_size = self.command.erase_size.unwrap_or(4 << 20);
        let count = self.command.open_units.unwrap_or(2);
        if block == 0 || block > erase_size || count == 0 || count > 1024 {
            let message = format!("{count} units of {erase_size} bytes have no blocks of {block} bytes");
            return Err(ImportError::at(number, Problem::Contradiction(message)));
        }
        let rw = if self.command.is_random { "randwrite" } else { "write" };
        let mut assumptions = vec![
            "the units were written before".to_owned(),
            "one job per unit, so that the units are written in turn".to_owned(),
        ];
        if self.command.erase_size.is_none() {
            assumptions.push("flashbench ran with its default, --erasesize=4194304".to_owned());
        }
        let order = if self.command.is_random { ", random" } else { "" };
        let first = (16_u64 << 20).checked_next_multiple_of(erase_size);
        let distance = 12_u64.checked_mul(erase_size);
        let (Some(first), Some(distance)) = (first, distance) else {
            return Err(missing(number, "a smaller erasesize"));
        };
        let ran = Ran {
            name: format!("{count} open units, {}{order}", short_size(block)),
            options: format!(
                "rw={rw} bs={block} offset={first} offset_increment={distance} size={erase_size} numjobs={count} \
                 group_reporting"
            ),
            before: State::WrittenInSequence,
            filesystem: None,
            assumptions,
            warning: None,
        };
        runs.add(number, ran, Direction::Write, &[(Quantity::BytesPerSecond, rate)])?;
        Ok(())
    }
}

fn missing(number: usize, what: &str) -> ImportError {
    ImportError::at(number, Problem::Missing { of: "flashbench".to_owned(), what: what.to_owned() })
}

/// Splits a line of `--align` into the alignment and the times.
fn alignment(line: &str) -> Option<(u64, &str)> {
    let (align, times) = line.trim().strip_prefix("align ")?.trim_start().split_once(char::is_whitespace)?;
    Some((align.parse().ok().filter(|align| *align > 0)?, times))
}

/// Parses a time such as `1.08ms`. Logs contain the Greek letter mu, the micro sign, or `u`.
fn nanoseconds(number: usize, text: &str) -> Result<f64, ImportError> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    let unit = match &text[digits..] {
        "ns" => 1.0,
        "µs" | "μs" | "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(missing(number, &format!("a time such as 741µs instead of `{text}`"))),
    };
    Ok(positive(number, &text[..digits], "flashbench's time")? * unit)
}

/// Parses a command line. A line that begins with `--` continues the last command and adds to it.
fn command(line: &str, last: &Command) -> Option<Command> {
    let is_start = line.contains("flashbench");
    let is_continued = last.is_known && line.trim_start().starts_with("--");
    if !is_start && !is_continued {
        return None;
    }
    let mut command = match is_start {
        true => Command { is_known: true, ..Command::default() },
        false => Command { is_known: true, ..*last },
    };
    // A product in shell brackets, such as `$[4 * 1024]`, contains spaces.
    let line = line.replace(" * ", "*");
    let words: Vec<&str> = line.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        let value = |long: &str, short: &str| {
            let long = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
            let next = if *word == short { words.get(at + 1).copied() } else { None };
            long.or(next).and_then(size)
        };
        command.block = value("--blocksize", "-b").or(command.block);
        command.erase_size = value("--erasesize", "-e").or(command.erase_size);
        command.open_units = value("--open-au-nr", "-0").or(command.open_units);
        command.is_random |= *word == "--random" || *word == "-R";
    }
    Some(command)
}
