//! The journal of a device with a state file: the events that its model has received since the state was written, one
//! line each.
//!
//! The state file is written as a whole from time to time. The journal receives each request on arrival,
//! before it is answered. The model is deterministic, so the state and its journal together restore the
//! device as it was when the server was killed. If the machine crashes, the journal may lack lines that the
//! operating system had not yet written back. The last state limits the loss to the lines after it.
//!
//! The journal is text, and each line ends in a checksum (XXH32) of its content. If no valid line follows a
//! damaged line, the journal ends there, as after a torn write; if a valid line follows, the damage is
//! reported. The line `state ID PLACE AT` describes the state whose file ends in the checksum ID. This state
//! includes all lines before byte PLACE. It was taken at AT nanoseconds of the run, while no request was in
//! flight. The line is written before the state file is replaced, so the journal always has a line for the
//! current state. A journal without such a line belongs to another state and is ignored.

use crate::device_files::DeviceFilesError;
use crate::error::ServedError;
use flashlab_block::write_whole;
use flashlab_catalogue::device::{Device, State};
use flashlab_sim::{Duration, FileId, Geometry, Instant, Op, Request, RequestId};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use twox_hash::XxHash32;

const HEADER: &str = "flashlab journal 2\n";
/// Length in bytes of the checksum at the end of a state file, which identifies the state.
const ID: u64 = 32;
/// Size in bytes at which a journal makes a new state due. Reading a journal of this size takes about a second.
pub(super) const LONG: u64 = 16 << 20;
/// Maximum number of bytes of a journal that a replay reads.
const BYTES_MAX: u64 = 8 << 30;
/// Latest time in a journal in nanoseconds: a hundred years.
const AT_MAX: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// Returns the path of the journal of a state file.
pub(super) fn of(state: &Path) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(".journal");
    name.into()
}

/// Returns the checksum of a state in hexadecimal, which identifies the state.
pub(super) fn id(state: &[u8]) -> String {
    let checksum = &state[state.len().saturating_sub(ID as usize)..];
    checksum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A journal that is open for writing.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    /// The first write error. After an error, the journal records nothing until [`Journal::shorten`] rewrites
    /// the file.
    write_error: Option<io::Error>,
}

impl Journal {
    /// Creates an empty journal for the state `id`, which was taken at the beginning of the run.
    pub(super) fn create(state: &Path, id: &str) -> io::Result<Journal> {
        let path = of(state);
        let text = format!("{HEADER}{}", signed(&format!("state {id} 0 0")));
        write_whole(&path, text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Journal { path, file, length: text.len() as u64, write_error: None })
    }

    /// Returns the length of the journal in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn line(&mut self, line: &str) {
        let line = signed(line);
        if self.write_error.is_none() {
            match self.file.write_all(line.as_bytes()) {
                Ok(()) => self.length += line.len() as u64,
                Err(error) => self.write_error = Some(error),
            }
        }
    }

    /// Records that the state `id`, taken at `at`, includes all lines before byte `place`.
    pub(super) fn state(&mut self, id: &str, place: u64, at: Instant) {
        self.line(&format!("state {id} {place} {}", at.as_ns()));
    }

    /// Removes the lines that the state `id` includes. Also returns a write error that occurred since the last call.
    pub(super) fn shorten(&mut self, id: &str, place: u64, at: Instant) -> io::Result<()> {
        let mut rest = Vec::new();
        if self.write_error.is_none() {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(place))?;
            file.read_to_end(&mut rest)?;
        }
        let mut text = format!("{HEADER}{}", signed(&format!("state {id} 0 {}", at.as_ns()))).into_bytes();
        text.extend(rest);
        write_whole(&self.path, &text)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.length = text.len() as u64;
        self.write_error.take().map_or(Ok(()), Err)
    }

    /// Deletes the journal. The state must include all events, and no further events may follow.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl flashlab_block::Journal for Journal {
    fn submitted(&mut self, now: Instant, op: Op, offset: u64, length: u64) {
        self.line(&format!("{} {} {offset} {length}", word(op), now.as_ns()));
    }
    fn power_cut(&mut self, now: Instant) {
        self.line(&format!("cut {}", now.as_ns()));
    }
    fn power_up(&mut self, now: Instant) {
        self.line(&format!("power {}", now.as_ns()));
    }
}

const WORDS: [(&str, Op); 6] = [
    ("read", Op::Read),
    ("write", Op::Write),
    ("fua", Op::WriteFua),
    ("trim", Op::Trim),
    ("flush", Op::Flush),
    ("data", Op::FlushData),
];

fn word(op: Op) -> &'static str {
    WORDS.iter().find(|(_, known)| *known == op).map_or("flush", |(word, _)| word)
}

/// The event that a line records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Asked(Op, u64, u64),
    Cut,
    Power,
}

/// Returns `content` with its checksum, as a line.
fn signed(content: &str) -> String {
    format!("{content} {:08x}\n", XxHash32::oneshot(0, content.as_bytes()))
}

/// Returns the content of a line, or `None` if its checksum does not match.
fn content(line: &[u8]) -> Option<&str> {
    let (content, sum) = std::str::from_utf8(line).ok()?.rsplit_once(' ')?;
    let right =
        sum.len() == 8 && u32::from_str_radix(sum, 16) == Ok(XxHash32::oneshot(0, content.as_bytes()));
    right.then_some(content)
}

/// Returns the lines of a journal, each with its position in bytes. The error is the number of a damaged line that a
/// valid line follows. Damage at the end is an incomplete last write and is no error.
fn lines(text: &[u8]) -> Result<Vec<(usize, &str)>, usize> {
    let Some(rest) = text.strip_prefix(HEADER.as_bytes()) else {
        // A truncated header is an incomplete write, and no lines follow it.
        return if HEADER.as_bytes().starts_with(text) { Ok(Vec::new()) } else { Err(1) };
    };
    let (mut place, mut lines, mut damaged) = (HEADER.len(), Vec::new(), None);
    for (n, line) in rest.split_inclusive(|byte| *byte == b'\n').enumerate() {
        match line.strip_suffix(b"\n").and_then(content) {
            Some(_) if damaged.is_some() => return damaged.map_or(Ok(Vec::new()), Err),
            Some(content) => lines.push((place, content)),
            None => damaged = damaged.or(Some(n + 2)),
        }
        place += line.len();
    }
    Ok(lines)
}

/// Returns the events after a state, with the time since the state was taken. Returns `None` if the journal does not
/// mention the state.
fn events<'a>(
    lines: &'a [(usize, &'a str)],
    id: &str,
) -> Option<impl Iterator<Item = (Duration, Event)> + 'a> {
    let state = |(_, line): &(usize, &str)| -> Option<(usize, u64)> {
        let mut words = line.strip_prefix("state ")?.strip_prefix(id)?.split_ascii_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    // The first line about the state is the right one. A later line may be a copy from before the journal was
    // shortened, and such a copy counts its position from the old beginning.
    let (place, settled) = lines.iter().find_map(state)?;
    let behind = lines.iter().filter(move |(at, line)| *at >= place && !line.starts_with("state "));
    Some(
        behind
            .map_while(|(_, line)| event(line))
            .map(move |(at, event)| (Duration::from_ns(at.saturating_sub(settled)), event)),
    )
}

fn event(line: &str) -> Option<(u64, Event)> {
    let mut words = line.split(' ');
    let word = words.next()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let at = number().filter(|at| *at <= AT_MAX)?;
    let event = match word {
        "cut" => Event::Cut,
        "power" => Event::Power,
        _ => {
            let (_, op) = WORDS.iter().find(|(known, _)| *known == word)?;
            Event::Asked(*op, number()?, number()?)
        }
    };
    Some((at, event))
}

/// Replays the journal on the stored state of `device`, and replaces the state file with the state of the
/// device when its server was killed. Returns false and changes nothing if the journal has no events that the
/// state does not include.
pub(super) fn replay(device: &Device, path: &Path) -> Result<bool, ServedError> {
    let system = |path: &Path| {
        let path = path.to_owned();
        move |error| ServedError::System { path, error }
    };
    let journal = of(path);
    let mut text = Vec::new();
    match File::open(&journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => {
            opened.and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text)).map_err(system(&journal))?
        }
    };
    let state = fs::read(path).map_err(system(path))?;
    let damaged = |line| DeviceFilesError::Journal { path: journal.clone(), line };
    let lines = lines(&text).map_err(damaged)?;
    let Some(events) = events(&lines, &id(&state)) else { return Ok(false) };
    let mut model = device.build_without_host(0);
    let (geometry, mut now, mut any, mut powered) = (model.geometry(), Instant::ZERO, false, true);
    for (n, (at, event)) in events.enumerate() {
        now = now.max(Instant::ZERO + at);
        while let Some(completion) = model.complete(now) {
            now = now.max(completion.at);
        }
        match event {
            Event::Cut => {
                powered = false;
                model.power_cut(now);
            }
            // A restored device has power, although it may have been without power when the state was written.
            Event::Power if powered => {}
            Event::Power => {
                powered = true;
                now = now.max(model.power_up(now));
            }
            Event::Asked(op, offset, length) => {
                let request = Request { id: RequestId(n as u64), op, file: FileId::DEVICE, offset, length };
                if !admits(&geometry, &request) {
                    break;
                }
                model.submit(now, request);
            }
        }
        any = true;
    }
    if !any {
        return Ok(false);
    }
    if !powered {
        now = now.max(model.power_up(now));
    }
    while let Some(completion) = model.complete(Instant::MAX) {
        now = now.max(completion.at);
    }
    let used = device.used_time() + now.since(Instant::ZERO);
    let state = State::save(device, 0, used, &*model)?.with_bytes();
    write_whole(path, &state.to_bytes()).map_err(system(path))?;
    Ok(true)
}

/// Returns true if the model accepts the request. A served device rejects every other request before it reaches the
/// journal.
fn admits(geometry: &Geometry, request: &Request) -> bool {
    geometry.admits(request) && (request.length <= geometry.request_max || request.op == Op::Trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a journal of these lines.
    fn journal(lines: &[&str]) -> Vec<u8> {
        let text: String = lines.iter().map(|line| signed(line)).collect();
        format!("{HEADER}{text}").into_bytes()
    }

    fn read(text: &[u8], id: &str) -> Option<Vec<(Duration, Event)>> {
        let lines = lines(text).expect("no damage before the end");
        Some(events(&lines, id)?.collect())
    }

    #[test]
    fn lines_after_the_state_are_read_except_an_incomplete_line() {
        let first = journal(&["state aa 0 0", "write 5 0 512"]);
        let place = format!("state bb {} 4", first.len());
        let rest = [place.as_str(), "read 7 512 512", "cut 9", "power 10", "flush 11 0 0", "write 12 0 512"];
        let rest = journal(&rest).split_off(HEADER.len());
        // The last line is incomplete.
        let text = [&first[..], &rest[..rest.len() - 9]].concat();
        let ns = Duration::from_ns;
        let behind = |settled: u64| {
            vec![
                (ns(7 - settled), Event::Asked(Op::Read, 512, 512)),
                (ns(9 - settled), Event::Cut),
                (ns(10 - settled), Event::Power),
                (ns(11 - settled), Event::Asked(Op::Flush, 0, 0)),
            ]
        };
        assert_eq!(read(&text, "bb"), Some(behind(4)));
        let all = [vec![(ns(5), Event::Asked(Op::Write, 0, 512))], behind(0)].concat();
        assert_eq!(read(&text, "aa"), Some(all));
        assert_eq!(read(&text, "cc"), None);
    }

    #[test]
    fn invalid_lines_end_the_journal() {
        for rest in ["write 1 2", "write -1 0 0", "erase 1 0 0", "\u{fffd}", "write 99999999999999999999 0 0"]
        {
            let text = journal(&["state aa 0 0", rest]);
            assert_eq!(read(&text, "aa"), Some(Vec::new()), "{rest:?}");
        }
        assert_eq!(read(&journal(&["state aa 999 0"]), "aa"), Some(Vec::new()));
        assert_eq!(read(b"", "aa"), None);
        assert_eq!(read(b"flashlab jour", "aa"), None);
    }

    #[test]
    fn damage_is_reported_with_its_line_but_damage_at_the_end_is_a_torn_write() {
        let text = journal(&["state aa 0 0", "write 5 0 512", "write 6 512 512", "flush 7 0 0"]);
        for at in HEADER.len()..text.len() {
            let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
            let mut damaged = text.clone();
            damaged[at] ^= 2;
            match lines(&damaged) {
                Err(told) => assert!(told == line && line < 5, "byte {at} of line {line}: {told}"),
                // Without its line feed, the last line but one is invalid too.
                Ok(entries) if text[at] == b'\n' && line == 4 => assert_eq!(entries.len(), 2),
                Ok(entries) => assert_eq!((entries.len(), line), (3, 5), "byte {at}"),
            }
        }
        // After a crash of the machine, the end of the file may read as zeroes.
        let mut torn = text.clone();
        torn.extend([0; 5000]);
        assert_eq!(lines(&torn).map(|lines| lines.len()), Ok(4));
        assert_eq!(lines(b"flashlab journal 1\nstate aa 0 0\n"), Err(1), "another version");
    }
}
