//! The journal beside a kept state: what its model was told since the state was written, a line each.
//!
//! A state is written whole, now and then; its journal has each request as it arrives, before it is answered. The model does the
//! same when it is told the same, so the state and its journal together are the device as it was when the server was killed.
//! When the machine dies, what the system had not written of the journal by itself is missing, up to the last state.
//!
//! The file is text. `state ID PLACE AT` says of the state whose file ends in the checksum ID that it has all that stands before
//! the byte PLACE, and was settled at AT nanoseconds of the run. It is written before that state's file is replaced, so there
//! is always one for the state that is there; a journal without one belongs to another state, and means nothing.

use super::error::ServedError;
use super::keeper::replace;
use crate::device::{Device, State};
use flashlab_sim::{Duration, FileId, Geometry, Instant, Op, Request, RequestId};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const HEADER: &str = "flashlab journal 1\n";
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
        let text = format!("{HEADER}state {id} 0 0\n");
        fs::write(&path, &text)?;
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Journal { path, file, length: text.len() as u64, wrong: None })
    }

    /// Where it ends.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn line(&mut self, line: &str) {
        if self.wrong.is_none() {
            match self.file.write_all(line.as_bytes()) {
                Ok(()) => self.length += line.len() as u64,
                Err(error) => self.wrong = Some(error),
            }
        }
    }

    /// The state `id`, settled at `at`, has all that stands before `place`.
    pub(super) fn state(&mut self, id: &str, place: u64, at: Instant) {
        self.line(&format!("state {id} {place} {}\n", at.as_ns()));
    }

    /// Leaves out what the state `id` has; fails, too, where it could not be written since the last time.
    pub(super) fn shorten(&mut self, id: &str, place: u64, at: Instant) -> io::Result<()> {
        let mut rest = Vec::new();
        if self.wrong.is_none() {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(place))?;
            file.read_to_end(&mut rest)?;
        }
        let mut text = format!("{HEADER}state {id} 0 {}\n", at.as_ns()).into_bytes();
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
        self.line(&format!("{} {} {offset} {length}\n", word(op), now.as_ns()));
    }
    fn power_cut(&mut self, now: Instant) {
        self.line(&format!("cut {}\n", now.as_ns()));
    }
    fn power_up(&mut self, now: Instant) {
        self.line(&format!("power {}\n", now.as_ns()));
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

/// The events behind a state, with their time since it was settled. What is no line ends it: it was being written.
fn events<'a>(text: &'a str, id: &str) -> Option<impl Iterator<Item = (Duration, Event)> + 'a> {
    let state = |line: &str| -> Option<(usize, u64)> {
        let mut words = line.strip_prefix("state ")?.strip_prefix(id)?.split_ascii_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    // The first: what was left out before it counts no more in a line that was kept.
    let (place, settled) = text.strip_prefix(HEADER)?.lines().find_map(state)?;
    let rest = text.get(place.max(HEADER.len())..)?;
    let whole = &rest[..rest.rfind('\n').map_or(0, |end| end + 1)];
    let events = whole.lines().filter(|line| !line.starts_with("state ")).map(event);
    Some(
        events
            .map_while(|event| event)
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
    let text = String::from_utf8_lossy(&text);
    let Some(events) = events(&text, &id(&state)) else { return Ok(false) };
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
    let state = State::keep(device, 0, used, &*model)?;
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

    #[test]
    fn what_follows_the_state_is_read_and_half_a_line_is_not() {
        let text = format!(
            "{HEADER}state aa 0 0\nwrite 5 0 512\nstate bb 46 4\nread 7 512 512\ncut 9\npower 10\nflush 11 0 0\nwrite 12 0"
        );
        assert_eq!(&text[46..50], "stat");
        let read = |id: &str| Some(events(&text, id)?.collect::<Vec<_>>());
        let ns = Duration::from_ns;
        let behind = |settled: u64| {
            vec![
                (ns(7 - settled), Event::Asked(Op::Read, 512, 512)),
                (ns(9 - settled), Event::Cut),
                (ns(10 - settled), Event::Power),
                (ns(11 - settled), Event::Asked(Op::Flush, 0, 0)),
            ]
        };
        assert_eq!(read("bb"), Some(behind(4)));
        let first = [vec![(ns(5), Event::Asked(Op::Write, 0, 512))], behind(0)].concat();
        assert_eq!(read("aa"), Some(first));
        assert_eq!(read("cc"), None);
    }

    #[test]
    fn nonsense_ends_it_and_harms_nobody() {
        for rest in
            ["write 1 2", "write -1 0 0\n", "erase 1 0 0\n", "\u{fffd}\n", "write 99999999999999999999 0 0\n"]
        {
            let text = format!("{HEADER}state aa 0 0\n{rest}");
            assert_eq!(events(&text, "aa").expect("the state is there").count(), 0, "{rest:?}");
        }
        assert!(events(&format!("{HEADER}state aa 999 0\n"), "aa").is_none());
        assert!(events("", "aa").is_none());
    }
}
