//! Import of traces of other programs. Each request becomes a step that starts at its recorded instant.
//!
//! These traces tell when requests arrived, but not why, so each step has one cause: its instant. The
//! exception is a write with a preceding flush, which block layers trace as one request. The import makes it
//! two steps: a flush, and a write that waits for the flush.

mod blktrace;
mod iolog;
mod text;

pub use text::TraceFormat;

use crate::{Action, Cause, Event, Flags, Step, TaskId};
use flashlab_sim::{Duration, Op};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, Read};

/// Number of requests that are held back to be sorted by their time stamps. Traces of several processors or of several
/// hosts are sorted only roughly.
const SORTED: usize = 65_536;
/// Maximum number of tasks that an import distinguishes. Their names fit into the header of a recording.
const TASKS_MAX: usize = 32_768;
/// Longest name of a task in bytes; Linux's own names have up to 15.
const TASK_NAME_MAX: usize = 24;

/// Position in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Line number, from 1.
    Line(u64),
    /// Offset in the file.
    Byte(u64),
}

/// A part of a trace that cannot be imported.
#[derive(Debug)]
pub struct ImportError {
    /// Index of the file, for traces of several files.
    pub file: usize,
    /// Position of the fault.
    pub place: Place,
    /// Fault.
    pub problem: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Line(line) => write!(f, "line {line}: {}", self.problem),
            Place::Byte(offset) => write!(f, "at byte {offset}: {}", self.problem),
        }
    }
}

impl std::error::Error for ImportError {}

/// A request of a trace.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Index of the file.
    file: usize,
    place: Place,
    /// Time stamp in nanoseconds.
    at: u64,
    task: TaskId,
    flush_before: bool,
    /// Operation, offset and length; `None` for a flush without data.
    range: Option<(Op, u64, u64)>,
    flags: Flags,
}

/// A source of rows in the order of the trace.
trait Rows: fmt::Debug {
    fn next_row(&mut self) -> Result<Option<Row>, ImportError>;
    fn tasks(&self) -> &[String];
}

/// Iterator over the steps of a trace. It ends after the first error.
///
/// Requests are sorted by time stamp, and the first of them starts at the start of the run. A request is
/// refused if a request with a later time stamp has already become a step. A request more than 65,536 places
/// earlier then has a later time stamp.
#[derive(Debug)]
pub struct Import<'a> {
    rows: Box<dyn Rows + 'a>,
    /// Rows by time stamp and by their order in the trace.
    sorted: BTreeMap<(u64, u64), Row>,
    read: u64,
    all_read: bool,
    /// Time stamps of the first and the last row that became steps.
    first: Option<u64>,
    last: u64,
    /// Second step of a row that becomes two steps.
    pending: Option<Step>,
    ended: bool,
}

impl<'a> Import<'a> {
    /// Creates the import of a trace in text. `device` chooses one device of a trace of several devices:
    /// `8,0` for `blkparse`, `usr.0` (host and disk) for MSR, or the number for Alibaba.
    pub fn new(
        from: impl BufRead + fmt::Debug + 'a,
        format: TraceFormat,
        device: Option<&str>,
    ) -> Import<'a> {
        Import::of(text::Text::new(from, format, device))
    }

    /// Creates the import of a binary trace of `blktrace`, from the files of all processors. `device` chooses one
    /// device, such as `8,0`.
    pub fn blktrace(files: Vec<impl Read + fmt::Debug + 'a>, device: Option<&str>) -> Import<'a> {
        Import::of(blktrace::Blktrace::new(files, device))
    }

    /// Creates the import of an iolog of fio, version 2 or 3. `file` chooses one of several files.
    pub fn iolog(from: impl BufRead + fmt::Debug + 'a, file: Option<&str>) -> Import<'a> {
        Import::of(iolog::Entries::new(from, file))
    }

    fn of(rows: impl Rows + 'a) -> Import<'a> {
        Import {
            rows: Box::new(rows),
            sorted: BTreeMap::new(),
            read: 0,
            all_read: false,
            first: None,
            last: 0,
            pending: None,
            ended: false,
        }
    }

    /// Returns the names of the tasks of all steps so far, by [`TaskId`].
    pub fn tasks(&self) -> &[String] {
        self.rows.tasks()
    }

    fn next_step(&mut self) -> Result<Option<Step>, ImportError> {
        if let Some(step) = self.pending.take() {
            return Ok(Some(step));
        }
        while !self.all_read && self.sorted.len() <= SORTED {
            match self.rows.next_row()? {
                Some(row) => self.sorted.insert((row.at, self.read), row),
                None => {
                    self.all_read = true;
                    break;
                }
            };
            self.read += 1;
        }
        let Some((_, row)) = self.sorted.pop_first() else { return Ok(None) };
        if row.at < self.last {
            let problem = format!(
                "its time stamp is {} before that of a request more than {SORTED} places earlier; sort the trace by \
                 time",
                Duration::from_ns(self.last - row.at)
            );
            return Err(ImportError { file: row.file, place: row.place, problem });
        }
        self.last = row.at;
        let after = Duration::from_ns(row.at - *self.first.get_or_insert(row.at));
        Ok(Some(self.step_of(&row, after)))
    }

    /// Returns the first step of `row`. Keeps the second step, if the row has one.
    fn step_of(&mut self, row: &Row, after: Duration) -> Step {
        let step = |action, cause| Step { task: row.task, at: after, action, causes: vec![cause] };
        let flush = Action::Request { op: Op::Flush, offset: 0, length: 0, flags: row.flags };
        let Some((op, offset, length)) = row.range else { return step(flush, Cause::Instant(after)) };
        let request = Action::Request { op, offset, length, flags: row.flags };
        if !row.flush_before {
            return step(request, Cause::Instant(after));
        }
        let behind = Cause::Step { back: 1, event: Event::Completed, think: Duration::ZERO };
        self.pending = Some(step(request, behind));
        step(flush, Cause::Instant(after))
    }
}

impl Iterator for Import<'_> {
    type Item = Result<Step, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let step = self.next_step().transpose();
        self.ended = !matches!(step, Some(Ok(_)));
        step
    }
}

fn several_devices(one: &str, other: &str) -> String {
    format!("the trace has several devices, {one} and {other}: choose one")
}

/// Tasks of a trace.
#[derive(Debug, Default)]
struct Tasks {
    known: BTreeMap<(u64, String), TaskId>,
    /// Latest name of each number, for traces that name tasks separately from their requests.
    latest: BTreeMap<u64, String>,
    names: Vec<String>,
}

impl Tasks {
    /// Returns the task of this number and name. Once there are too many tasks, all further tasks count as
    /// one.
    fn id(&mut self, number: u64, name: &str) -> TaskId {
        let mut key = (number, name[..name.floor_char_boundary(TASK_NAME_MAX)].to_owned());
        if self.names.len() + 1 >= TASKS_MAX && !self.known.contains_key(&key) {
            key = (0, "other tasks".into());
        }
        let names = &mut self.names;
        *self.known.entry(key).or_insert_with_key(|(_, name)| {
            names.push(name.clone());
            TaskId(names.len() as u32 - 1)
        })
    }

    /// Returns the task of this number under its latest name.
    fn of_number(&mut self, number: u64) -> TaskId {
        let name = self.latest.get(&number).cloned().unwrap_or_default();
        self.id(number, &name)
    }

    fn rename(&mut self, number: u64, name: &str) {
        if self.latest.len() < TASKS_MAX || self.latest.contains_key(&number) {
            self.latest.insert(number, name[..name.floor_char_boundary(TASK_NAME_MAX)].to_owned());
        }
    }

    fn names(&self) -> &[String] {
        &self.names
    }
}
