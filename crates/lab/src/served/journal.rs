//! The journal beside a kept state: what its model was told since the state was written, a line each.
//!
//! A state is written whole, now and then; its journal has each request as it arrives, before it is answered. The model does the
//! same when it is told the same, so the state and its journal together are the device as it was when the server was killed.
//! When the machine dies, what the system had not written of the journal by itself is missing, up to the last state.
//!
//! The file is text, and each line ends in a checksum (XXH32) of what stands before it. A line that is damaged ends the journal where
//! none behind it is right, as a torn write leaves it; with a right one behind it, it is reported. `state ID PLACE AT` says of the state whose file ends in the checksum ID that it has all that stands before
//! the byte PLACE, and was settled at AT nanoseconds of the run. It is written before that state's file is replaced, so there
//! is always one for the state that is there; a journal without one belongs to another state, and means nothing.

use super::error::ServedError;
use super::keeper::replace;
use super::kept::KeptError;
use crate::device::{Device, State};
use flashlab_sim::{Duration, FileId, Geometry, Instant, Op, Request, RequestId};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use twox_hash::XxHash32;

const HEADER: &str = "flashlab journal 2\n";
/// Bytes at the end of a state's file that tell it from others: its checksum.
const ID: u64 = 32;
/// A journal of this size is worth a new state: it is read in a second or so.
pub(super) const LONG: u64 = 16 << 20;
/// Bytes of the largest journal that is read, and the longest time in it: a hundred years.
const BYTES_MAX: u64 = 8 << 30;
const AT_MAX: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// The journal of a state's file.
pub(super) fn of(state: &Path) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(".journal");
    name.into()
}

/// What tells a state's bytes from others.
pub(super) fn id(state: &[u8]) -> String {
    let checksum = &state[state.len().saturating_sub(ID as usize)..];
    checksum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    /// What went wrong first; from then on it notes nothing, until it is made anew.
    wrong: Option<io::Error>,
}

impl Journal {
    /// Of the state `id`, which was settled at the run's beginning, with nothing noted since.
    pub(super) fn create(state: &Path, id: &str) -> io::Result<Journal> {
        let path = of(state);
        let text = format!("{HEADER}{}", signed(&format!("state {id} 0 0")));
        fs::write(&path, &text)?;
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Journal { path, file, length: text.len() as u64, wrong: None })
    }

    /// Where it ends.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn line(&mut self, line: &str) {
        let line = signed(line);
        if self.wrong.is_none() {
            match self.file.write_all(line.as_bytes()) {
                Ok(()) => self.length += line.len() as u64,
                Err(error) => self.wrong = Some(error),
            }
        }
    }

    /// The state `id`, settled at `at`, has all that stands before `place`.
    pub(super) fn state(&mut self, id: &str, place: u64, at: Instant) {
        self.line(&format!("state {id} {place} {}", at.as_ns()));
    }

    /// Leaves out what the state `id` has; fails, too, where it could not be written since the last time.
    pub(super) fn shorten(&mut self, id: &str, place: u64, at: Instant) -> io::Result<()> {
        let mut rest = Vec::new();
        if self.wrong.is_none() {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(place))?;
            file.read_to_end(&mut rest)?;
        }
        let mut text = format!("{HEADER}{}", signed(&format!("state {id} 0 {}", at.as_ns()))).into_bytes();
        text.extend(rest);
        replace(&self.path, &text)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.length = text.len() as u64;
        self.wrong.take().map_or(Ok(()), Err)
    }

    /// The state has everything, and nothing more comes.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl flashlab_block::Journal for Journal {
    fn asked(&mut self, now: Instant, op: Op, offset: u64, length: u64) {
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

/// What a line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Asked(Op, u64, u64),
    Cut,
    Power,
}

/// `content` with its checksum, as a line.
fn signed(content: &str) -> String {
    format!("{content} {:08x}\n", XxHash32::oneshot(0, content.as_bytes()))
}

/// The content of a line whose checksum is right.
fn content(line: &[u8]) -> Option<&str> {
    let (content, sum) = std::str::from_utf8(line).ok()?.rsplit_once(' ')?;
    let right =
        sum.len() == 8 && u32::from_str_radix(sum, 16) == Ok(XxHash32::oneshot(0, content.as_bytes()));
    right.then_some(content)
}

/// The lines of a journal, each with its place; the error is the number of a line that is damaged although one behind it is not.
/// Damage at the end is a line that was being written.
fn lines(text: &[u8]) -> Result<Vec<(usize, &str)>, usize> {
    let Some(rest) = text.strip_prefix(HEADER.as_bytes()) else {
        // Half a header has nothing behind it.
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

/// The events behind a state, with their time since it was settled; `None` where the journal does not know the state.
fn events<'a>(
    lines: &'a [(usize, &'a str)],
    id: &str,
) -> Option<impl Iterator<Item = (Duration, Event)> + 'a> {
    let state = |(_, line): &(usize, &str)| -> Option<(usize, u64)> {
        let mut words = line.strip_prefix("state ")?.strip_prefix(id)?.split_ascii_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    // The first: what was left out before it counts no more in a line that was kept.
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

/// Brings a kept state to where its device was when its server was killed, where a journal says more than it; says whether.
pub(super) fn catch_up(device: &Device, path: &Path) -> Result<bool, ServedError> {
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
    let damaged = |line| KeptError::Journal { path: journal.clone(), line };
    let lines = lines(&text).map_err(damaged)?;
    let Some(events) = events(&lines, &id(&state)) else { return Ok(false) };
    let mut model = device.build_alone(0);
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
            // A state has power, although its device may have had none when it was written.
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
    let used = device.used() + now.since(Instant::ZERO);
    let state = State::keep(device, 0, used, &*model)?.with_bytes();
    replace(path, &state.to_bytes()).map_err(system(path))?;
    Ok(true)
}

/// Whether the model takes it; a served device has refused everything else before.
fn admits(geometry: &Geometry, request: &Request) -> bool {
    geometry.admits(request) && (request.length <= geometry.request_max || request.op == Op::Trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal of these lines.
    fn journal(lines: &[&str]) -> Vec<u8> {
        let text: String = lines.iter().map(|line| signed(line)).collect();
        format!("{HEADER}{text}").into_bytes()
    }

    fn read(text: &[u8], id: &str) -> Option<Vec<(Duration, Event)>> {
        let lines = lines(text).expect("no damage before the end");
        Some(events(&lines, id)?.collect())
    }

    #[test]
    fn what_follows_the_state_is_read_and_half_a_line_is_not() {
        let first = journal(&["state aa 0 0", "write 5 0 512"]);
        let place = format!("state bb {} 4", first.len());
        let rest = [place.as_str(), "read 7 512 512", "cut 9", "power 10", "flush 11 0 0", "write 12 0 512"];
        let rest = journal(&rest).split_off(HEADER.len());
        // Half of the last line.
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
    fn nonsense_ends_it_and_harms_nobody() {
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
    fn damage_is_told_by_its_line_and_at_the_end_taken_for_a_torn_write() {
        let text = journal(&["state aa 0 0", "write 5 0 512", "write 6 512 512", "flush 7 0 0"]);
        for at in HEADER.len()..text.len() {
            let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
            let mut damaged = text.clone();
            damaged[at] ^= 2;
            match lines(&damaged) {
                Err(told) => assert!(told == line && line < 5, "byte {at} of line {line}: {told}"),
                // Without the end of its line the last but one is no line either.
                Ok(kept) if text[at] == b'\n' && line == 4 => assert_eq!(kept.len(), 2),
                Ok(kept) => assert_eq!((kept.len(), line), (3, 5), "byte {at}"),
            }
        }
        // The machine may have lost the end of the file, which then reads as zeroes.
        let mut torn = text.clone();
        torn.extend([0; 5000]);
        assert_eq!(lines(&torn).map(|lines| lines.len()), Ok(4));
        assert_eq!(lines(b"flashlab journal 1\nstate aa 0 0\n"), Err(1), "another version");
    }
}
