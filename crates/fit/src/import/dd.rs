//! Lines of dd: GNU (`419430400 bytes (419 MB, 400 MiB) copied, 21.7 s, 19.3 MB/s`), busybox
//! (`419430400 bytes (400.0MB) copied, 21.7 seconds, 18.4MB/s`, where MB are MiB), and BSD
//! (`419430400 bytes transferred in 21.7 secs (19328000 bytes/sec)`).
//!
//! The lines do not tell reads from writes. The reader takes the direction and the options from the last command
//! `dd if=... of=...` before the line, or from a heading `WRITE` or `READ`. In a pipe, `dd of=...` writes and
//! `dd if=...` reads. A line that `status=progress` printed is not a result; the counts of records follow it.

use super::runs::{Ran, Runs};
use super::{CONTIGUOUS, ImportError, LineReader, Problem, positive, size};
use crate::observation::{Quantity, State};
use flashlab_fio::job::Direction;

/// The command before a result.
#[derive(Clone)]
struct Command {
    direction: Direction,
    block: u64,
    is_direct: bool,
    is_synchronous: bool,
    is_flushed: bool,
    is_heading: bool,
    is_device: bool,
    /// True if dd copies between the device and a file, such as an image, or another program.
    copies: bool,
}

/// The last line before a result that could be its command.
enum Last {
    /// No line of the log.
    None,
    /// A command or a heading that tells reads from writes.
    Command(Command),
    /// A command in this line that does not tell reads from writes, or several commands.
    Unclear { line: usize },
}

/// Reader of the lines.
pub(super) struct Reader {
    last: Last,
    /// Numbers of the lines that `status=progress` printed.
    progress: Vec<usize>,
}

impl Reader {
    /// Returns a reader of the lines of `text`.
    pub(super) fn new(text: &str) -> Reader {
        let lines: Vec<&str> = text.lines().collect();
        let precedes_records = |at: usize| lines.get(at + 1).is_some_and(|next| next.contains(" records in"));
        let is_progress = |at: &usize| lines[*at].contains(" copied, ") && precedes_records(*at);
        let progress = (0..lines.len()).filter(is_progress).map(|at| at + 1).collect();
        Reader { last: Last::None, progress }
    }
}

impl LineReader for Reader {
    fn read(&mut self, number: usize, line: &str, runs: &mut Runs) -> Result<bool, ImportError> {
        if let Some(last) = command(number, line)? {
            self.last = last;
        } else if let Some(direction) = heading(line) {
            self.last = Last::Command(Command {
                direction,
                block: 1 << 20,
                is_direct: false,
                is_synchronous: false,
                is_flushed: direction == Direction::Write,
                is_heading: true,
                is_device: false,
                copies: false,
            });
        }
        if self.progress.contains(&number) {
            return Ok(true);
        }
        let Some(result) = result(number, line)? else { return Ok(false) };
        let missing =
            |of, what: &str| ImportError::at(number, Problem::Missing { of, what: what.to_owned() });
        let command = match &self.last {
            Last::Command(command) => command,
            Last::None => {
                return Err(missing(
                    "a result of dd without its command".to_owned(),
                    "add the line `dd if=... of=... bs=...` before it, because the result does not tell whether dd \
                     read or wrote",
                ));
            }
            Last::Unclear { line } => {
                return Err(missing(
                    format!("a result of the dd in line {line}"),
                    "remove it, because this command does not tell whether dd read from the card or wrote to it",
                ));
            }
        };
        runs.add(
            number,
            ran(command, result.0),
            command.direction,
            &[(Quantity::BytesPerSecond, result.0 as f64 / result.1)],
        )?;
        Ok(true)
    }
}

/// Returns the job of a command that moved `bytes`.
fn ran(command: &Command, bytes: u64) -> Ran<'static> {
    let mut assumptions = Vec::new();
    if command.copies {
        assumptions.push("the other end of the copy did not limit dd".to_owned());
    }
    if command.is_heading {
        assumptions.push("dd ran with bs=1M; writes ended with conv=fsync".to_owned());
    }
    let size = bytes.next_multiple_of(4096);
    let block = command.block;
    let is_write = command.direction == Direction::Write;
    let mut warning = None;
    let options = if command.is_direct {
        let sync = if command.is_synchronous { " sync=dsync" } else { "" };
        format!("rw={} bs={block} size={}{sync}", command.direction.name(), bytes.next_multiple_of(block))
    } else if is_write && command.is_synchronous {
        format!("rw=write bs={block} size={} sync=dsync", bytes.next_multiple_of(block))
    } else if is_write {
        assumptions
            .push("the page cache combines the writes into requests of 512 KiB, two at a time".to_owned());
        if !command.is_flushed {
            warning =
                Some("dd ended without a flush, so that the rate includes data in the page cache".to_owned());
        }
        let flush = if command.is_flushed { " end_fsync=1" } else { "" };
        format!("rw=write bs=512k ioengine=libaio iodepth=2 size={size}{flush}")
    } else {
        let read_ahead = "the page cache was empty and reads ahead with requests of 128 KiB, two at a time";
        assumptions.push(read_ahead.to_owned());
        format!("rw=read bs=128k ioengine=libaio iodepth=2 size={size}")
    };
    if !command.is_device {
        assumptions.push(CONTIGUOUS.to_owned());
    }
    let (name, before) = match is_write {
        true => ("dd write", State::Unknown),
        false => ("dd read", State::WrittenInSequence),
    };
    Ran { name: name.to_owned(), options, before, filesystem: None, assumptions, warning }
}

/// Parses a command line of dd, at a prompt or in a script. Returns `None` for any other line, and for a dd
/// without `if`, `of`, `bs` and `count`.
fn command(number: usize, line: &str) -> Result<Option<Last>, ImportError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_dd = |word: &&str| {
        let program = word.trim_start_matches(['|', '(', '{', '$', '`', '"', '\'']);
        program == "dd" || program.ends_with("/dd")
    };
    let Some(at) = words.iter().position(is_dd) else { return Ok(None) };
    let value = |key: &str| {
        let values = words[at..].iter().filter_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        values.map(|value| value.trim_end_matches([';', '&', '"', '\'', '`', ')'])).next_back()
    };
    if ["if", "of", "bs", "count"].into_iter().all(|key| value(key).is_none()) {
        return Ok(None);
    }
    let has_pipe = words[at..].iter().any(|word| word.starts_with('|'));
    let unclear = Ok(Some(Last::Unclear { line: number }));
    // Two commands in one line have two results.
    if words.iter().filter(|word| is_dd(word)).count() > 1 {
        return unclear;
    }
    let is_source = |path: &str| matches!(path, "/dev/zero" | "/dev/urandom" | "/dev/random");
    let is_device = |path: &str| path.starts_with("/dev/") && !is_source(path) && path != "/dev/null";
    let (direction, path, copies) = match (value("if"), value("of")) {
        (Some(input), Some(output)) => {
            // An image is written to a card, or a card is saved in an image.
            let copies = is_device(input) != is_device(output) && !is_source(input) && output != "/dev/null";
            let (writes, reads) =
                (is_source(input) || is_device(output), output == "/dev/null" || is_device(input));
            match (writes, reads) {
                (true, false) => (Direction::Write, output, copies),
                (false, true) => (Direction::Read, input, copies),
                _ => return unclear,
            }
        }
        // The other end is a program.
        (None, Some(output)) if output != "/dev/null" => (Direction::Write, output, true),
        (Some(input), None) if has_pipe && !is_source(input) => (Direction::Read, input, true),
        _ => return unclear,
    };
    let text = value("bs").or_else(|| value("obs")).unwrap_or("512");
    let block = size(text).filter(|bytes| *bytes > 0 && bytes.is_multiple_of(512)).ok_or_else(|| {
        ImportError::at(
            number,
            Problem::Value { what: "dd's bs, in blocks of 512 B".into(), text: text.into() },
        )
    })?;
    let has = |key: &str, flag: &str| value(key).is_some_and(|list| list.split(',').any(|word| word == flag));
    // `conv=sync` pads short blocks; `oflag=sync` opens the file with O_SYNC.
    let flags = if direction == Direction::Write { "oflag" } else { "iflag" };
    Ok(Some(Last::Command(Command {
        direction,
        block,
        is_direct: has(flags, "direct"),
        is_synchronous: has(flags, "dsync") || has(flags, "sync"),
        is_flushed: has("conv", "fsync") || has("conv", "fdatasync"),
        is_heading: false,
        is_device: path.starts_with("/dev/"),
        copies,
    })))
}

fn heading(line: &str) -> Option<Direction> {
    let word = line.split(|c: char| !c.is_ascii_alphabetic()).find(|word| !word.is_empty())?;
    match word {
        "WRITE" => Some(Direction::Write),
        "READ" => Some(Direction::Read),
        _ => None,
    }
}

/// Largest number of bytes of a result, which no device reaches.
const BYTES_MAX: f64 = (1_u64 << 60) as f64;

/// Parses a result. Returns bytes and seconds.
fn result(number: usize, line: &str) -> Result<Option<(u64, f64)>, ImportError> {
    let Some((bytes, rest)) = line.split_once(" bytes ") else { return Ok(None) };
    let bytes = bytes.rsplit(|c: char| !c.is_ascii_digit() && c != '-').next().unwrap_or_default();
    let is_bsd = rest.starts_with("transferred in ");
    let Some((_, timing)) = rest.split_once(if is_bsd { "transferred in " } else { "copied, " }) else {
        return Ok(None);
    };
    let bytes = number_of_bytes(number, bytes)?;
    let end = timing.find(" s").ok_or_else(|| {
        let (of, what) = ("dd".to_owned(), "expected a time in seconds".to_owned());
        ImportError::at(number, Problem::Missing { of, what })
    })?;
    // Some locales print a comma.
    let seconds = positive(number, &timing[..end].replace(',', "."), "dd's time")?;
    let stated = timing[end..].rsplit(", ").next().unwrap_or_default();
    let stated = stated.rsplit('(').next().unwrap_or_default();
    if let Some((rate, unit)) = rate(&stated.replace(',', ".")) {
        let found = bytes / seconds;
        // The printed rate has two to three digits, and its MB are MiB in busybox.
        let agrees = |unit: f64| (rate * unit / found - 1.0).abs() < 0.06;
        if !unit.iter().any(|unit| agrees(*unit)) {
            let message = format!(
                "{bytes} bytes in {seconds} s are {:.2} MB/s, not `{}`",
                found / 1e6,
                stated.trim().trim_end_matches(')')
            );
            return Err(ImportError::at(number, Problem::Contradiction(message)));
        }
    }
    Ok(Some((bytes as u64, seconds)))
}

fn number_of_bytes(number: usize, text: &str) -> Result<f64, ImportError> {
    let bytes = positive(number, text, "dd's number of bytes")?;
    if bytes > BYTES_MAX {
        let what = "dd's number of bytes, at most 1 EiB,".to_owned();
        return Err(ImportError::at(number, Problem::Value { what, text: text.to_owned() }));
    }
    Ok(bytes)
}

/// Parses a rate: the number, and the two sizes in bytes that its unit may stand for.
fn rate(text: &str) -> Option<(f64, [f64; 2])> {
    let text = text.trim().trim_end_matches(')');
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = match text[digits..].trim().chars().next()? {
        'k' | 'K' => [1e3, 1024.0],
        'M' => [1e6, 1_048_576.0],
        'G' => [1e9, 1_073_741_824.0],
        'B' | 'b' => [1.0, 1.0],
        _ => return None,
    };
    Some((text[..digits].parse().ok()?, unit))
}
