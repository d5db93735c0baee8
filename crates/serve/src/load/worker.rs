//! The thread of one connection. It keeps as many requests in flight as the job's queue depth, measures their
//! latencies, and verifies the data.

use super::plan::{Ask, Next, Plan};
use super::session::{Answers, Session};
use super::{Job, LoadError, pattern};
use crate::{Clock, Stop};
use flashlab_nbd::client::{Request, Slot};
use flashlab_nbd::wire::ErrorNumber;
use flashlab_sim::{Histogram, Instant, Rng};

/// Results of one connection.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// Latencies of reads.
    pub(super) reads: Histogram,
    pub(super) writes: Histogram,
    /// Number of system calls that moved or waited for bytes.
    pub(super) calls: u64,
    /// Arrival time of the last reply.
    pub(super) ended: Instant,
    /// Number of verified blocks.
    pub(super) verified: u64,
}

/// The requests in flight, and the state of the load.
struct Desk<'a> {
    job: &'a Job,
    clock: Clock,
    now: Instant,
    plan: Plan,
    slots: Vec<Place>,
    /// True during the final verification, which is not measured.
    verifying: bool,
    done: Done,
}

#[derive(Clone)]
struct Place {
    ask: Ask,
    asked: Instant,
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
    (stop, tell): (&Stop, &(dyn Fn(f64) + Sync)),
) -> Result<Done, LoadError> {
    let nothing =
        Place { ask: Ask { write: false, block: 0, generation: 0 }, asked: start, buffer: Vec::new() };
    let empty = Histogram::new();
    let done = Done { reads: empty.clone(), writes: empty, calls: 0, ended: start, verified: 0 };
    let mut desk = Desk {
        job,
        clock,
        now: start,
        plan: Plan::new(job, size, number, start),
        slots: vec![nothing; job.depth as usize],
        verifying: false,
        done,
    };
    if !job.mix.reads_only() {
        desk.fill_buffers(number);
    }
    session.link.calls = 0;
    loop {
        let next = desk.ask_all(session, stop)?;
        session.send(&mut desk)?;
        match next {
            Next::Done if session.in_flight() == 0 => break,
            Next::At(due) => {
                let patience = due.saturating_since(clock.now());
                if session.link.wait(None, Some(patience))?.input {
                    session.receive(&mut desk)?;
                }
                desk.now = clock.now();
            }
            _ => session.receive(&mut desk)?,
        }
        if number == 0 {
            tell(desk.plan.share_done(desk.now));
        }
    }
    desk.done.calls = session.link.calls;
    desk.done.ended = desk.now;
    if job.verify && !stop.is_thrown() {
        desk.read_back(session)?;
    }
    Ok(desk.done)
}

impl Desk<'_> {
    /// Fills the payloads of writes with random bytes, which stay the same if blocks are not verified.
    fn fill_buffers(&mut self, number: u32) {
        let mut rng = Rng::for_purpose(self.job.seed, !u64::from(number));
        for slot in &mut self.slots {
            slot.buffer.resize_with(self.job.block as usize, || rng.next_u64() as u8);
        }
    }

    fn ask_all(&mut self, session: &mut Session, stop: &Stop) -> Result<Next, LoadError> {
        while session.in_flight() < self.slots.len() {
            match if stop.is_thrown() { Next::Done } else { self.plan.next(self.now) } {
                Next::Ask(ask) => self.ask(session, ask)?,
                other => return Ok(other),
            }
        }
        Ok(Next::Blocked)
    }

    fn ask(&mut self, session: &mut Session, ask: Ask) -> Result<(), LoadError> {
        let (offset, length) = (self.plan.place(ask.block), self.job.block);
        let request = match ask.write {
            true => Request::write(offset, length.into()),
            false => Request::read(offset, length.into()),
        };
        let slot = session.request(request, ask.write)?;
        let place = &mut self.slots[slot.index()];
        (place.ask, place.asked) = (ask, self.now);
        if self.job.verify {
            place.buffer.resize(length as usize, 0);
            if ask.write {
                pattern::fill(&mut place.buffer, self.job.seed, offset, ask.generation.into());
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
                let Some(ask) = left.next() else { break };
                self.ask(session, ask)?;
            }
            session.send(self)?;
            if session.in_flight() == 0 {
                return Ok(());
            }
            session.receive(self)?;
        }
    }

    fn check(&mut self, slot: usize) -> Result<(), LoadError> {
        let Place { ask, buffer, .. } = &self.slots[slot];
        let offset = self.plan.place(ask.block);
        self.done.verified += 1;
        let found = match pattern::check(buffer, self.job.seed, offset) {
            // Contents older than this load are not verified until this load has written the block.
            _ if ask.generation == 0 && !self.job.mix.reads_only() => return Ok(()),
            Ok(generation) if ask.generation == 0 || generation == u64::from(ask.generation) => return Ok(()),
            Ok(generation) => {
                format!("it contains write {generation}, but write {} was completed", ask.generation)
            }
            Err(pattern::Wrong::Elsewhere(place)) => format!("its header contains the offset {place}"),
            Err(pattern::Wrong::Byte(byte)) => format!("it differs from byte {byte} on"),
        };
        Err(LoadError::Verify { offset, found })
    }

    fn part(&mut self, slot: Slot, offset: u64, length: usize) -> Option<&mut [u8]> {
        if !self.job.verify {
            return None;
        }
        let place = &mut self.slots[slot.index()];
        let at = (offset - self.plan.place(place.ask.block)) as usize;
        Some(&mut place.buffer[at..at + length])
    }
}

impl Answers for Desk<'_> {
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
        let (ask, asked) = (self.slots[slot.index()].ask, self.slots[slot.index()].asked);
        if let Err(error) = result {
            let offset = self.plan.place(ask.block);
            return Err(LoadError::Request { write: ask.write, offset, length: self.job.block, error });
        }
        if !self.verifying {
            let latency = self.now.saturating_since(asked);
            let histogram = if ask.write { &mut self.done.writes } else { &mut self.done.reads };
            histogram.record(latency);
        }
        self.plan.answered(&ask);
        if self.job.verify && !ask.write { self.check(slot.index()) } else { Ok(()) }
    }

    fn payload(&self, slot: Slot) -> &[u8] {
        &self.slots[slot.index()].buffer
    }

    fn arrived(&mut self) {
        self.now = self.clock.now();
    }
}
