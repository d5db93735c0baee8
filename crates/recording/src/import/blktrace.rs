//! Binary traces of `blktrace`: one file per processor, in the layout of `linux/blktrace_api.h`.
//!
//! A file is a sequence of `struct blk_io_trace` in the byte order of the recording machine, each followed by `pdu_len`
//! bytes. The events that queue a request become the requests. Notifications give the names of processes. The files are
//! merged by time stamp.

use super::{ImportError, Place, Row, Rows, Tasks, several_devices};
use crate::Flags;
use flashlab_sim::Op;
use std::fmt;
use std::io::{self, Read};

/// `BLK_IO_TRACE_MAGIC`, in the upper 24 bits of the first word.
const MAGIC: u32 = 0x6561_7400;
/// `BLK_IO_TRACE_VERSION`.
const VERSION: u32 = 7;
/// Bytes of `struct blk_io_trace`.
const EVENT_BYTES: usize = 48;
const SECTOR: u64 = 512;

/// `__BLK_TA_QUEUE`.
const QUEUE: u32 = 1;
/// `__BLK_TN_PROCESS`.
const PROCESS: u32 = 0;
/// `__BLK_TA_CGROUP`: the additional bytes begin with the number of a control group.
const CGROUP: u32 = 1 << 8;

/// Categories (`enum blktrace_cat`), in the upper half of the action.
mod category {
    const SHIFT: u32 = 16;
    pub(super) const WRITE: u32 = 1 << (SHIFT + 1);
    pub(super) const FLUSH: u32 = 1 << (SHIFT + 2);
    pub(super) const SYNC: u32 = 1 << (SHIFT + 3);
    pub(super) const NOTIFY: u32 = 1 << (SHIFT + 10);
    pub(super) const AHEAD: u32 = 1 << (SHIFT + 11);
    pub(super) const META: u32 = 1 << (SHIFT + 12);
    pub(super) const DISCARD: u32 = 1 << (SHIFT + 13);
    pub(super) const FUA: u32 = 1 << (SHIFT + 15);
}

/// The files of a trace.
#[derive(Debug)]
pub(super) struct Blktrace<R> {
    files: Vec<File<R>>,
    /// The next event of each file.
    heads: Vec<Option<Event>>,
    started: bool,
    /// Device to import: the chosen one, or else the first one in the trace.
    device: Option<String>,
    /// True if the user chose the device. Otherwise a trace of several devices is refused.
    chosen: bool,
    tasks: Tasks,
}

#[derive(Debug)]
struct File<R> {
    from: R,
    number: usize,
    offset: u64,
}

/// An event that the import uses.
#[derive(Debug)]
struct Event {
    /// Offset in its file.
    offset: u64,
    at: u64,
    pid: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Name of the process.
    Process(String),
    Queued {
        action: u32,
        device: u32,
        sector: u64,
        bytes: u32,
    },
}

impl<R: Read> File<R> {
    fn fault(&self, offset: u64, problem: String) -> ImportError {
        ImportError { file: self.number, place: Place::Byte(offset), problem }
    }

    /// Returns the next event that the import uses, or `None` at the end of the file.
    fn next_event(&mut self) -> Result<Option<Event>, ImportError> {
        loop {
            let at = self.offset;
            let mut bytes = [0; EVENT_BYTES];
            if !self.fill(&mut bytes)? {
                return Ok(None);
            }
            let words = self.words(&bytes, at)?;
            let mut additional = vec![0; usize::from(words.pdu_len)];
            if !additional.is_empty() && !self.fill(&mut additional)? {
                return Err(self.fault(self.offset, TRUNCATED.into()));
            }
            if let Some(content) = words.content(&additional) {
                return Ok(Some(Event { offset: at, at: words.time, pid: words.pid, content }));
            }
        }
    }

    /// Fills `bytes`. Returns false if the file ends before the first byte.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, ImportError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.from.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(self.fault(self.offset, TRUNCATED.into())),
                Ok(read) => {
                    filled += read;
                    self.offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fault(self.offset, error.to_string())),
            }
        }
        Ok(true)
    }

    fn words(&self, bytes: &[u8; EVENT_BYTES], at: u64) -> Result<Words, ImportError> {
        let magic = |word: u32| word & !0xff == MAGIC;
        let first = [bytes[0], bytes[1], bytes[2], bytes[3]];
        let is_big = match (magic(u32::from_le_bytes(first)), magic(u32::from_be_bytes(first))) {
            (true, _) => false,
            (_, true) => true,
            _ if at == 0 => return Err(self.fault(at, "this is not a file of blktrace".into())),
            _ => return Err(self.fault(at, "no event of blktrace begins here".into())),
        };
        let version = u32::from(if is_big { first[3] } else { first[0] });
        if version != VERSION {
            let problem =
                format!("version {version} of blktrace's format: this program reads version {VERSION}");
            return Err(self.fault(at, problem));
        }
        let number = |from: usize, length: usize| {
            let place = |n: usize| if is_big { from + n } else { from + length - 1 - n };
            (0..length).fold(0, |value: u64, n| value << 8 | u64::from(bytes[place(n)]))
        };
        let word = |from| number(from, 4) as u32;
        Ok(Words {
            time: number(8, 8),
            sector: number(16, 8),
            bytes: word(24),
            action: word(28),
            pid: word(32),
            device: word(36),
            pdu_len: number(46, 2) as u16,
        })
    }
}

const TRUNCATED: &str = "the file ends within an event";

/// The fields of an event that the import uses.
struct Words {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    pdu_len: u16,
}

impl Words {
    fn content(&self, additional: &[u8]) -> Option<Content> {
        let Words { action, device, sector, bytes, .. } = *self;
        let kind = action & 0xffff & !CGROUP;
        if action & category::NOTIFY == 0 {
            return (kind == QUEUE).then_some(Content::Queued { action, device, sector, bytes });
        }
        let name = match action & CGROUP {
            0 => additional,
            _ => additional.get(8..)?,
        };
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        (kind == PROCESS).then(|| Content::Process(String::from_utf8_lossy(&name[..end]).into_owned()))
    }
}

impl<R: Read> Blktrace<R> {
    pub(super) fn new(files: Vec<R>, device: Option<&str>) -> Blktrace<R> {
        let files: Vec<_> = files.into_iter().enumerate().collect();
        Blktrace {
            heads: files.iter().map(|_| None).collect(),
            files: files.into_iter().map(|(number, from)| File { from, number, offset: 0 }).collect(),
            started: false,
            device: device.map(str::to_owned),
            chosen: device.is_some(),
            tasks: Tasks::default(),
        }
    }

    /// Returns the earliest of the next events of all files, with the number of its file.
    fn next_event(&mut self) -> Result<Option<(usize, Event)>, ImportError> {
        if !self.started {
            self.started = true;
            for (file, head) in self.files.iter_mut().zip(&mut self.heads) {
                *head = file.next_event()?;
            }
        }
        let times = self.heads.iter().enumerate().filter_map(|(n, head)| Some((head.as_ref()?.at, n)));
        let Some((_, number)) = times.min() else { return Ok(None) };
        let next = self.files[number].next_event()?;
        let event = std::mem::replace(&mut self.heads[number], next);
        Ok(event.map(|event| (number, event)))
    }

    /// Returns true if requests of the device are imported.
    fn is_wanted(&mut self, device: u32) -> Result<bool, String> {
        // The kernel's own dev_t: 12 bits for the major and 20 bits for the minor number.
        let name = format!("{},{}", device >> 20, device & 0xf_ffff);
        match &self.device {
            Some(wanted) if *wanted == name => Ok(true),
            Some(_) if self.chosen => Ok(false),
            Some(first) => Err(several_devices(first, &name)),
            None => {
                self.device = Some(name);
                Ok(true)
            }
        }
    }
}

impl<R: Read + fmt::Debug> Rows for Blktrace<R> {
    fn next_row(&mut self) -> Result<Option<Row>, ImportError> {
        while let Some((file, event)) = self.next_event()? {
            let place = Place::Byte(event.offset);
            let fault = |problem| ImportError { file, place, problem };
            let (action, device, sector, bytes) = match event.content {
                Content::Process(name) => {
                    self.tasks.rename(event.pid.into(), &name);
                    continue;
                }
                Content::Queued { action, device, sector, bytes } => (action, device, sector, bytes),
            };
            if !self.is_wanted(device).map_err(fault)? {
                continue;
            }
            let has = |bit: u32| action & bit != 0;
            let flush_before = has(category::FLUSH);
            let op = match () {
                () if has(category::DISCARD) => Op::Trim,
                () if has(category::WRITE) && has(category::FUA) => Op::WriteFua,
                () if has(category::WRITE) => Op::Write,
                () => Op::Read,
            };
            if bytes == 0 && !flush_before {
                continue;
            }
            let offset = sector.checked_mul(SECTOR).filter(|at| at.checked_add(bytes.into()).is_some());
            let range = match (bytes, offset) {
                (0, _) => None,
                (_, Some(offset)) => Some((op, offset, bytes.into())),
                (_, None) => return Err(fault(format!("sector {sector} is beyond 16 EiB"))),
            };
            let flags = Flags {
                sync: has(category::SYNC),
                meta: has(category::META),
                read_ahead: has(category::AHEAD),
                background: false,
            };
            let task = self.tasks.of_number(event.pid.into());
            return Ok(Some(Row { file, place, at: event.at, task, flush_before, range, flags }));
        }
        Ok(None)
    }

    fn tasks(&self) -> &[String] {
        self.tasks.names()
    }
}
