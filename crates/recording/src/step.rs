//! Steps of a recording, and the causes that decide when they start.

use flashlab_sim::{Duration, Op};

/// Facts about the recorded run that its requests do not show. A text is empty if the source does not state
/// the fact.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Capacity of the recorded device in bytes.
    pub capacity: u64,
    /// Logical block size in bytes.
    pub block: u32,
    /// True if the causes of each step are known. Otherwise each step has one cause: its recorded instant or,
    /// for a write with a preceding flush, that flush.
    pub has_dependencies: bool,
    /// Kernel release, such as `6.12.95`.
    pub kernel: String,
    /// Filesystem and its options, such as `ext4 -O ^has_journal`.
    pub filesystem: String,
    /// Workload, such as `sqlite-wal` or the text of a job file.
    pub workload: String,
    /// Limits of the host: largest request, discard limits, write cache, scheduler.
    pub host: String,
    /// Share of the written data that compresses away, in per cent, if the source states it.
    pub compressibility_percent: Option<u8>,
    /// Tool and format from which the recording was made, such as `blkparse text`.
    pub origin: String,
}

/// A task of the recorded kernel: a process or a kernel thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TaskId(pub u32);

/// Event of a step, for which later steps wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// The step starts: the host submits the request.
    Started,
    /// The step is over: the device completes the request. A mark starts and ends at the same instant.
    Completed,
}

/// A condition for the start of a step. A step starts when the last of its causes holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// An instant after the start of the run: a timer of the kernel, or the arrival in an open-loop trace.
    Instant(Duration),
    /// `think` after an event of the step `back` places earlier. `back` is at least 1 and at most
    /// [`Cause::FARTHEST`].
    Step {
        /// Distance to the earlier step.
        back: u32,
        /// Event of that step.
        event: Event,
        /// Time of the processor or of timers from the event to the start of this step.
        think: Duration,
    },
}

impl Cause {
    /// Longest distance between a step and a step it waits for. It bounds the memory of a replay.
    pub const FARTHEST: u32 = 65_535;
}

/// Flags of a request, as the kernel sets them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// The submitter waits for the request (`REQ_SYNC`).
    pub sync: bool,
    /// Metadata of a filesystem (`REQ_META`).
    pub meta: bool,
    /// Read-ahead (`REQ_RAHEAD`).
    pub read_ahead: bool,
    /// Write-back or other work that no task waits for (`REQ_BACKGROUND`).
    pub background: bool,
}

/// Meaning of a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkKind {
    /// An operation that the user waits for begins, such as `fdatasync`. Operations of one task do not overlap.
    OperationBegins,
    /// The operation of this task ends.
    OperationEnds,
    /// The measured part of the run begins. Without this mark it begins with the run.
    RunBegins,
    /// The measured part of the run ends. Without this mark it ends with the last completion.
    RunEnds,
}

/// Content of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A request to the device.
    Request {
        /// Operation.
        op: Op,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes; 0 for a flush.
        length: u64,
        /// Flags.
        flags: Flags,
    },
    /// An instant of the run without a request.
    Mark(MarkKind),
}

/// A step of the run: a request or a mark, with its causes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Task that started the step.
    pub task: TaskId,
    /// Recorded start of the step, counted from the start of the run; used when timestamps are replayed.
    pub at: Duration,
    /// Content.
    pub action: Action,
    /// Conditions for the start. A step without causes starts with the run.
    pub causes: Vec<Cause>,
}

impl Step {
    /// A placeholder into which a step is read.
    pub(crate) const EMPTY: Step = Step {
        task: TaskId(0),
        at: Duration::ZERO,
        action: Action::Mark(MarkKind::RunBegins),
        causes: Vec::new(),
    };
}

/// A source of steps in recorded order. It reads each step into a step of the caller and reuses the memory of
/// its causes, so that a replay allocates no memory per step.
pub trait ReadStep {
    /// Replaces `step` with the next one. Returns false at the end; `step` then has no meaning.
    fn read_step(&mut self, step: &mut Step) -> bool;
}

impl<S: ReadStep + ?Sized> ReadStep for &mut S {
    fn read_step(&mut self, step: &mut Step) -> bool {
        (**self).read_step(step)
    }
}

impl ReadStep for std::slice::Iter<'_, Step> {
    fn read_step(&mut self, step: &mut Step) -> bool {
        let Some(Step { task, at, action, causes }) = self.next() else { return false };
        (step.task, step.at, step.action) = (*task, *at, *action);
        step.causes.clone_from(causes);
        true
    }
}

impl ReadStep for std::vec::IntoIter<Step> {
    fn read_step(&mut self, step: &mut Step) -> bool {
        self.next().map(|next| *step = next).is_some()
    }
}

/// A recorded run in memory. Steps are in the order of their recorded start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// Facts about the run.
    pub header: Header,
    /// Names of tasks, by [`TaskId`].
    pub tasks: Vec<String>,
    /// Steps.
    pub steps: Vec<Step>,
}
