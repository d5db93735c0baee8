//! The thread of one connection. It keeps as many requests in flight as the job's queue depth, measures their
//! latencies, and verifies the data.

use super::plan::{Next, Plan, PlannedRequest};
use super::{Job, LoadError, pattern};
use crate::session::{ReplyHandler, Session};
use crate::{Clock, Stop};
use flashlab_nbd::client::{Request, Slot};
use flashlab_nbd::wire::ErrorNumber;
use flashlab_sim::{Histogram, Instant, Rng};

/// Size in bytes of the parts of a payload. Each part ends with the job's percentage of zeroes, so that the
/// data is compressible.
const COMPRESS_CHUNK: usize = 512;

/// Results of one connection.
#[derive(Clone, Debug)]
pub(super) struct WorkerResult {
    /// Latencies of reads.
    pub(super) reads: Histogram,
    pub(super) writes: Histogram,
    /// Number of system calls that moved or waited for bytes, without the final verification.
    pub(super) calls: u64,
    /// End of the load, without the final verification.
    pub(super) ended: Instant,
    /// Number of block reads that were verified.
    pub(super) verified: u64,
}

/// The requests in flight, and the state of the load.
struct LoadState<'a> {
    job: &'a Job,
    clock: Clock,
    now: Instant,
    plan: Plan,
    slots: Vec<SlotState>,
    /// True during the final verification, which is not measured.
    verifying: bool,
    done: WorkerResult,
}

#[derive(Clone)]
struct SlotState {
    planned: PlannedRequest,
    sent_at: Instant,
    /// Payload of a write, or the data of a read that is verified.
    buffer: Vec<u8>,
}

/// Runs one connection's part of a job to its end.
pub(super) fn run(
    session: &mut Session,
    job: &Job,
    number: u32,
    size: u64,
    (clock, start): (Clock, Instant),
    (stop, progress): (&Stop, &(dyn Fn(f64) + Sync)),
) -> Result<WorkerResult, LoadError> {
    let unused = SlotState {
        planned: PlannedRequest { write: false, block: 0, generation: 0 },
        sent_at: start,
        buffer: Vec::new(),
    };
    let empty = Histogram::new();
    let done = WorkerResult { reads: empty.clone(), writes: empty, calls: 0, ended: start, verified: 0 };
    let mut state = LoadState {
        job,
        clock,
        now: start,
        plan: Plan::new(job, size, number, start),
        slots: vec![unused; job.depth as usize],
        verifying: false,
        done,
    };
    if !job.mix.reads_only() {
        state.fill_buffers(number);
    }
    session.link.calls = 0;
    loop {
        let next = state.fill_queue(session, stop)?;
        session.send(&mut state, None)?;
        match next {
            Next::Done if session.in_flight() == 0 => break,
            Next::At(due) => {
                let timeout = due.saturating_since(clock.now());
                if session.link.wait(None, Some(timeout))?.input {
                    session.receive(&mut state)?;
                }
                state.now = clock.now();
            }
            _ => session.receive(&mut state)?,
        }
        if number == 0 {
            progress(state.plan.fraction_done(state.now));
        }
    }
    state.done.calls = session.link.calls;
    state.done.ended = state.now;
    if job.verify && !stop.is_thrown() {
        state.read_back(session)?;
    }
    Ok(state.done)
}

impl LoadState<'_> {
    /// Fills the payloads of writes with random bytes. If blocks are not verified, these bytes stay the same.
    /// Each [`COMPRESS_CHUNK`] ends with the requested percentage of zeroes.
    fn fill_buffers(&mut self, number: u32) {
        let mut rng = Rng::for_purpose(self.job.seed, !u64::from(number));
        let random = COMPRESS_CHUNK * (100 - usize::from(self.job.buffer_compress_percentage).min(100)) / 100;
        for slot in &mut self.slots {
            slot.buffer.resize_with(self.job.block as usize, || rng.next_u64() as u8);
            for chunk in slot.buffer.chunks_mut(COMPRESS_CHUNK) {
                let random = random.min(chunk.len());
                chunk[random..].fill(0);
            }
        }
    }

    fn fill_queue(&mut self, session: &mut Session, stop: &Stop) -> Result<Next, LoadError> {
        while session.in_flight() < self.slots.len() {
            match if stop.is_thrown() { Next::Done } else { self.plan.next(self.now) } {
                Next::Send(planned) => self.send(session, planned)?,
                other => return Ok(other),
            }
        }
        Ok(Next::Blocked)
    }

    fn send(&mut self, session: &mut Session, planned: PlannedRequest) -> Result<(), LoadError> {
        let (offset, length) = (self.plan.offset_of(planned.block), self.job.block);
        let request = match planned.write {
            true => Request::write(offset, length.into()),
            false => Request::read(offset, length.into()),
        };
        let slot = session.request(request, planned.write)?;
        let slot = &mut self.slots[slot.index()];
        (slot.planned, slot.sent_at) = (planned, self.now);
        if self.job.verify {
            slot.buffer.resize(length as usize, 0);
            if planned.write {
                pattern::fill(&mut slot.buffer, self.job.seed, offset, planned.generation.into());
            }
        }
        Ok(())
    }

    /// Reads and verifies every written block.
    fn read_back(&mut self, session: &mut Session) -> Result<(), LoadError> {
        self.verifying = true;
        let mut left = self.plan.written().into_iter();
        loop {
            while session.in_flight() < self.slots.len() {
                let Some(planned) = left.next() else { break };
                self.send(session, planned)?;
            }
            session.send(self, None)?;
            if session.in_flight() == 0 {
                return Ok(());
            }
            session.receive(self)?;
        }
    }

    fn check(&mut self, slot: usize) -> Result<(), LoadError> {
        let SlotState { planned, buffer, .. } = &self.slots[slot];
        // Contents older than this load are not verified until this load has written the block.
        if planned.generation == 0 && !self.job.mix.reads_only() {
            return Ok(());
        }
        let offset = self.plan.offset_of(planned.block);
        self.done.verified += 1;
        let found = match pattern::check(buffer, self.job.seed, offset) {
            Ok(generation) if planned.generation == 0 || generation == u64::from(planned.generation) => {
                return Ok(());
            }
            Ok(generation) => {
                format!("it contains write {generation}, but write {} was completed", planned.generation)
            }
            Err(pattern::Mismatch::OtherOffset(other)) => format!("its header contains the offset {other}"),
            Err(pattern::Mismatch::Byte(byte)) => format!("it differs from byte {byte} on"),
        };
        Err(LoadError::Verify { offset, found })
    }

    fn part(&mut self, slot: Slot, offset: u64, length: usize) -> Option<&mut [u8]> {
        if !self.job.verify {
            return None;
        }
        let slot = &mut self.slots[slot.index()];
        let at = (offset - self.plan.offset_of(slot.planned.block)) as usize;
        Some(&mut slot.buffer[at..at + length])
    }
}

impl ReplyHandler for LoadState<'_> {
    fn data(&mut self, slot: Slot, offset: u64, bytes: &[u8]) {
        if let Some(part) = self.part(slot, offset, bytes.len()) {
            part.copy_from_slice(bytes);
        }
    }

    fn hole(&mut self, slot: Slot, offset: u64, length: u64) {
        if let Some(part) = self.part(slot, offset, length as usize) {
            part.fill(0);
        }
    }

    fn done(&mut self, slot: Slot, result: Result<(), ErrorNumber>) -> Result<(), LoadError> {
        let (planned, sent_at) = (self.slots[slot.index()].planned, self.slots[slot.index()].sent_at);
        if let Err(error) = result {
            let offset = self.plan.offset_of(planned.block);
            return Err(LoadError::Request { write: planned.write, offset, length: self.job.block, error });
        }
        if !self.verifying {
            let latency = self.now.saturating_since(sent_at);
            let histogram = if planned.write { &mut self.done.writes } else { &mut self.done.reads };
            histogram.record(latency);
        }
        self.plan.completed(&planned);
        if self.job.verify && !planned.write { self.check(slot.index()) } else { Ok(()) }
    }

    fn payload(&self, slot: Slot) -> &[u8] {
        &self.slots[slot.index()].buffer
    }

    fn arrived(&mut self) {
        self.now = self.clock.now();
    }
}
