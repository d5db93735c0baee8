//! Tables of iozone, in kB/s (KiB: iozone counts records of 1024 B).
//!
//! The columns are those of the tests that ran: `-i 0` (write, rewrite), `-i 1` (read, reread), `-i 2`
//! (random read, random write), and more. iozone leaves the columns of the other tests blank. The command
//! line in the output, or above the table, names the tests. Without a command line, the columns are taken
//! from the left, as with `-i 0 -i 1 -i 2`. With `-O`, the numbers are operations per second, and with `-N`
//! microseconds per operation.

use super::runs::{Ran, Runs};
use super::{CONTIGUOUS, ImportError, LineReader, Problem, positive, short_size};
use crate::observation::{Quantity, State};
use flashlab_fio::job::Direction;

/// Reader of the tables.
#[derive(Default)]
pub(super) struct Reader {
    /// Options of the last command line.
    options: Vec<String>,
    is_in_table: bool,
    unit: Unit,
}

/// Unit of the numbers of a table.
#[derive(Clone, Copy, Default)]
enum Unit {
    #[default]
    KibPerSecond,
    OperationsPerSecond,
    MicrosecondsPerOperation,
}

impl Unit {
    /// Returns the unit that the options of a command line select.
    fn selected(options: &[String]) -> Unit {
        let has = |flag: &str| options.iter().any(|option| option == flag);
        match (has("-O"), has("-N")) {
            (true, _) => Unit::OperationsPerSecond,
            (false, true) => Unit::MicrosecondsPerOperation,
            (false, false) => Unit::KibPerSecond,
        }
    }

    /// Returns the unit that a heading states.
    fn stated(line: &str) -> Option<Unit> {
        if line.contains("Output is in operations per second") {
            return Some(Unit::OperationsPerSecond);
        }
        line.contains("Microseconds/op").then_some(Unit::MicrosecondsPerOperation)
    }

    fn quantity(self, value: f64) -> (Quantity, f64) {
        match self {
            Unit::KibPerSecond => (Quantity::BytesPerSecond, value * 1024.0),
            Unit::OperationsPerSecond => (Quantity::Iops, value),
            Unit::MicrosecondsPerOperation => (Quantity::LatencyMean, value * 1e3),
        }
    }
}

/// A column: name, number of the test, `rw=`, state before the test.
type Column = (&'static str, u32, &'static str, State);

/// Value of `rw=` of a column, and the state before the test; `None` for a column without a model.
type Pattern = Option<(&'static str, State)>;

/// The columns in the order in which iozone prints them: name, number of the test, pattern.
const COLUMNS: [(&str, u32, Pattern); 13] = [
    ("write", 0, Some(("write", State::Unknown))),
    ("rewrite", 0, Some(("write", State::WrittenInSequence))),
    ("read", 1, Some(("read", State::WrittenInSequence))),
    ("reread", 1, Some(("read", State::WrittenInSequence))),
    ("random read", 2, Some(("randread", State::WrittenInSequence))),
    ("random write", 2, Some(("randwrite", State::WrittenInSequence))),
    ("bkwd read", 3, None),
    ("record rewrite", 4, None),
    ("stride read", 5, None),
    ("fwrite", 6, None),
    ("frewrite", 6, None),
    ("fread", 7, None),
    ("freread", 7, None),
];

/// Returns the options of a command line of iozone. A sentence that mentions `iozone` contains no option, so
/// it is not a command line.
fn command<'a>(words: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let at = words.iter().position(|word| *word == "iozone" || word.ends_with("/iozone"))?;
    let options = &words[at + 1..];
    options.iter().any(|word| word.starts_with('-')).then_some(options)
}

impl LineReader for Reader {
    fn read(&mut self, number: usize, line: &str, runs: &mut Runs) -> Result<bool, ImportError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(options) = command(&words) {
            self.options = options.iter().map(|word| (*word).to_owned()).collect();
            self.is_in_table = false;
            self.unit = Unit::selected(&self.options);
            return Ok(false);
        }
        self.unit = Unit::stated(line).unwrap_or(self.unit);
        if words.len() >= 3 && words[0].eq_ignore_ascii_case("kB") && words[1] == "reclen" {
            self.is_in_table = true;
            return Ok(false);
        }
        // The first two columns are the sizes of the file and of the record.
        let is_row = self.is_in_table && words.len() >= 3 && words[0].bytes().all(|b| b.is_ascii_digit());
        if !is_row {
            self.is_in_table &= words.is_empty();
            return Ok(false);
        }
        let file_kib = positive(number, words[0], "iozone's file size")? as u64;
        let record_kib = positive(number, words[1], "iozone's record size")? as u64;
        let (columns, is_assumed) = self.columns(number, words.len() - 2)?;
        for ((name, _, rw, before), text) in columns.iter().zip(&words[2..]) {
            let value = positive(number, text, &format!("iozone's {name}"))?;
            if *rw == "-" {
                continue;
            }
            let ran = self.ran(name, rw, *before, [file_kib, record_kib], is_assumed);
            let direction = if rw.ends_with("read") { Direction::Read } else { Direction::Write };
            runs.add(number, ran, direction, &[self.unit.quantity(value)])?;
        }
        Ok(true)
    }
}

impl Reader {
    /// Returns the columns that a row with `count` numbers has, and true if no command line states them.
    fn columns(&self, number: usize, count: usize) -> Result<(Vec<Column>, bool), ImportError> {
        let tests: Vec<u32> = self
            .options
            .iter()
            .enumerate()
            .filter_map(|(at, option)| match option.strip_prefix("-i")? {
                "" => self.options.get(at + 1)?.parse().ok(),
                test => test.parse().ok(),
            })
            .collect();
        let is_chosen = |test: u32| tests.is_empty() || tests.contains(&test);
        let all = COLUMNS.iter().filter(|(_, test, _)| is_chosen(*test));
        let columns: Vec<Column> = all
            .map(|(name, test, model)| {
                let (rw, before) = model.unwrap_or(("-", State::Unknown));
                (*name, *test, rw, before)
            })
            .collect();
        let is_assumed = tests.is_empty() && count < COLUMNS.len();
        if count > columns.len() || !is_assumed && count < columns.len() {
            let message = format!(
                "the row has {count} numbers, and the tests of the command line have {}",
                columns.len()
            );
            return Err(ImportError::at(number, Problem::Contradiction(message)));
        }
        Ok((columns, is_assumed))
    }

    fn ran(
        &self,
        name: &str,
        rw: &str,
        before: State,
        [file_kib, record_kib]: [u64; 2],
        is_assumed: bool,
    ) -> Ran<'static> {
        let has = |flag: &str| self.options.iter().any(|option| option == flag);
        let is_write = rw.ends_with("write");
        let mut assumptions = vec![CONTIGUOUS.to_owned()];
        if is_assumed && self.options.is_empty() {
            assumptions.push("iozone ran with -e -I, and its columns are those of -i 0 -i 1 -i 2".to_owned());
        }
        let is_direct = self.options.is_empty() || has("-I");
        let warning = (!is_direct).then(|| {
            "iozone ran without -I, so that the rate includes the page cache of the host".to_owned()
        });
        let flush = if is_write && (self.options.is_empty() || has("-e")) { " end_fsync=1" } else { "" };
        let options = format!("rw={rw} bs={record_kib}k size={file_kib}k{flush}");
        let name = format!("{name} {}", short_size(record_kib << 10));
        Ran { name, options, before, filesystem: None, assumptions, warning }
    }
}
