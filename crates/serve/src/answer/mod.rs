//! From requests to replies: starts the requests of a session on the device, and sends the device's results to the
//! client.

mod holes;
mod in_flight;
mod pieces;

pub(crate) use pieces::WriteInPieces;

use crate::alarm::Alarm;
use crate::counters::{Count, CounterValues, RequestType};
use crate::limits::{Reservation, Share};
use crate::link::{Link, Meanwhile};
use crate::outbox::Outbox;
use crate::pace::Pace;
use crate::pending::{AnswerFuture, Pending};
use crate::record;
use crate::server::Server;
use flashlab_block::{Answer, BlockDevice, Context, Io, IoError, Outcome, Payload, Started};
use flashlab_fio::iolog::Action;
use flashlab_nbd::server::{Command, Replies, Token};
use flashlab_nbd::wire::{BlockDescriptor, ErrorNumber};
use flashlab_sim::{Duration, Instant};
use in_flight::{InFlight, RequestKind};
use std::io;
use std::os::fd::BorrowedFd;
use std::task::{self, Poll, Waker};
use std::thread;

/// Minimum length in bytes of a read for which the server first queries the holes of the range. The server
/// queries holes only if the client accepts a reply in parts and the device describes its extents and has no
/// timing. The server sends no data for holes.
const HOLES_FROM: u64 = 64 << 10;
/// Number of requests of one connection in flight, and number of bytes that they occupy, from which the
/// connection starts no further request.
const PENDING_MAX: usize = 1024;
const PENDING_BYTES_MAX: u64 = 64 << 20;
/// Polling interval for a request without an event descriptor that announces its completion.
const UNATTENDED: std::time::Duration = std::time::Duration::from_millis(1);

/// The requests in flight, which make progress while the client accepts no replies.
struct InFlightMeanwhile<'a, 'b> {
    pending: &'b mut Pending<InFlight<'a>>,
    device: &'b dyn BlockDevice,
    pace: &'b Pace,
}

impl Meanwhile for InFlightMeanwhile<'_, '_> {
    fn event(&self) -> Option<BorrowedFd<'_>> {
        self.pending.event()
    }
    fn due(&self) -> Option<Duration> {
        let due = self.device.next_due().filter(|_| self.pending.event().is_some());
        due.map(|due| self.pace.left(due))
    }
    fn go_on(&mut self) {
        self.pending.clear_event();
        if let Some(due) = self.device.next_due().filter(|_| self.pending.event().is_some()) {
            if self.pace.left(due) == Duration::ZERO {
                self.pace.reach(due);
            }
            self.device.advance(self.pace.now());
        }
        while self.pending.has_queued() {
            self.pending.poll_woken();
        }
    }
}

/// Executes the requests of one connection and replies to them.
pub(crate) struct RequestHandler<'a> {
    server: &'a Server,
    export: usize,
    device: &'a dyn BlockDevice,
    context: Context,
    /// Wall-clock time at which the current batch of requests arrived.
    arrived_at: Instant,
    /// Completed requests whose latency ends when their replies are sent; empty if the server does not measure
    /// latencies.
    unsent_latencies: Vec<(RequestType, Instant)>,
    /// Number of the device's power losses when this connection began.
    power_losses: u64,
    /// This connection's share of the memory for large requests.
    share: Share<'a>,
    reports_holes: bool,
    replies: Replies,
    pending: Pending<InFlight<'a>>,
    pending_bytes: u64,
    arrived: Vec<(Action, u64, u64)>,
    pub(crate) outbox: Outbox<'a>,
    pub(crate) counts: CounterValues,
    /// The last due instant of the device for which this thread waited.
    due: Option<Instant>,
    alarm: Alarm,
}

impl<'a> RequestHandler<'a> {
    /// Creates a handler for requests to the export with index `export`, with the reply style of `replies`.
    pub(crate) fn new(server: &'a Server, export: usize, replies: Replies) -> RequestHandler<'a> {
        let device = &*server.exports[export].device;
        let features = device.features();
        RequestHandler {
            server,
            export,
            device,
            context: Context::with_clock(server.pace.clone()),
            arrived_at: server.clock.now(),
            unsent_latencies: Vec::new(),
            power_losses: device.power_losses(),
            share: server.budget.share(),
            reports_holes: replies.can_fragment() && features.extents && !features.timed,
            replies,
            pending: Pending::new(),
            pending_bytes: 0,
            arrived: Vec::new(),
            outbox: Outbox::default(),
            counts: CounterValues::default(),
            due: None,
            alarm: Alarm::new(),
        }
    }

    /// Records the current time as the arrival time of the received requests.
    pub(crate) fn set_arrival_time(&mut self) {
        self.context.set_arrival(self.server.pace.now());
        if self.server.latencies {
            self.arrived_at = self.server.clock.now();
        }
    }

    /// Sends the queued replies if they have become large, and waits for the device while this connection has
    /// too many requests in flight.
    pub(crate) fn make_room(&mut self, link: &mut Link) -> io::Result<()> {
        while self.pending.len() >= PENDING_MAX || self.pending_bytes >= PENDING_BYTES_MAX {
            self.wait_for_device(link)?;
        }
        if self.outbox.is_full() { self.send(link) } else { Ok(()) }
    }

    /// Reserves memory for `bytes` of a large request. If the budget has no room, waits for this connection's
    /// other requests, which may occupy the memory. Returns `None` if no other requests are left; the caller
    /// then serves the request in pieces.
    pub(crate) fn reserve_memory(
        &mut self,
        bytes: u64,
        link: &mut Link,
    ) -> io::Result<Option<Reservation<'a>>> {
        loop {
            let reservation = self.share.try_reserve(bytes);
            if reservation.is_some() || (!self.is_waiting() && self.outbox.is_empty()) {
                return Ok(reservation);
            }
            self.wait_for_device(link)?;
        }
    }

    fn wait_for_device(&mut self, link: &mut Link) -> io::Result<()> {
        if self.is_waiting() {
            self.wait(link, false)?;
            self.collect_completed();
        }
        self.send(link)
    }

    /// Waits until the device has results or, if `input` is set, until the peer has sent bytes. Returns true if bytes
    /// have arrived.
    pub(crate) fn wait(&mut self, link: &mut Link, input: bool) -> io::Result<bool> {
        // Requests that this thread itself has completed do not make the event descriptor readable.
        if self.pending.is_woken() {
            return Ok(false);
        }
        let due = self.device.next_due();
        let pace = &self.server.pace;
        let timeout = due.map(|due| self.alarm.sleep_time(pace.left(due)));
        let result = link.wait_until(input, self.pending.event(), timeout)?;
        if result.other {
            self.pending.clear_event();
        }
        if let Some(due) = due.filter(|_| result.timed_out) {
            self.alarm.finish_sleep(|| pace.left(due), pace.late(due));
            pace.reach(due);
            self.due = Some(due);
        }
        Ok(result.input)
    }

    /// Starts a request other than a write.
    pub(crate) fn start(
        &mut self,
        token: Token,
        offset: u64,
        length: u64,
        command: &Command,
        reservation: Option<Reservation<'a>>,
    ) {
        let arrived_at = self.arrived_at;
        let request = |kind| InFlight { token, bytes: length, kind, reservation, arrived_at };
        match *command {
            Command::Read { unfragmented } if !unfragmented && self.reports_holes && length >= HOLES_FROM => {
                self.record(Action::Read, offset, length);
                self.submit(request(RequestKind::Holes { offset }), Io::Extents { offset, length });
            }
            Command::Read { .. } => {
                self.record(Action::Read, offset, length);
                let buffer = self.outbox.buffer(length as usize);
                self.submit(request(RequestKind::Read), Io::Read { offset, buffer });
            }
            Command::Flush => self.record_and_submit(request(RequestKind::Flush), Io::Flush),
            Command::Trim { fua } => {
                self.record_and_submit(
                    request(RequestKind::Other),
                    Io::Discard { offset, length, durable: fua },
                );
            }
            Command::Cache => self.submit(request(RequestKind::Other), Io::Cache { offset, length }),
            Command::WriteZeroes { fua, no_hole, fast } => {
                let io = Io::WriteZeroes { offset, length, durable: fua, allocate: no_hole, fast };
                self.record_and_submit(request(RequestKind::Other), io);
            }
            Command::BlockStatus { one, contexts } => {
                self.submit(request(RequestKind::Status { one, contexts }), Io::Extents { offset, length });
            }
            Command::Write { .. } => unreachable!("`write` starts writes"),
        }
    }

    /// Starts a write.
    pub(crate) fn write(
        &mut self,
        token: Token,
        offset: u64,
        data: Payload,
        fua: bool,
        reservation: Option<Reservation<'a>>,
    ) {
        let bytes = data.len() as u64;
        let io = Io::Write { offset, data, durable: fua };
        let arrived_at = self.arrived_at;
        self.record_and_submit(
            InFlight { token, bytes, kind: RequestKind::Write, reservation, arrived_at },
            io,
        );
    }

    fn record(&mut self, action: Action, offset: u64, length: u64) {
        if self.server.recorder.is_some() {
            self.arrived.push((action, offset, length));
        }
    }

    fn record_and_submit(&mut self, request: InFlight<'a>, io: Io) {
        if self.server.recorder.is_some() {
            self.arrived.extend(record::action(&io));
        }
        self.submit(request, io);
    }

    fn submit(&mut self, request: InFlight<'a>, io: Io) {
        match self.device.start(&self.context, io) {
            Started::Done(outcome) => self.reply(request, outcome),
            Started::Pending(future) => {
                let bytes = request.memory_bytes();
                self.pending_bytes += bytes;
                if let Err((request, future, error)) = self.pending.add(request, future) {
                    tracing::warn!(%error, "cannot wait for a device and the client at once");
                    let outcome = self.complete(future);
                    self.pending_bytes -= bytes;
                    self.reply(request, outcome);
                }
            }
        }
    }

    /// Waits for a request without an event descriptor. Does not cancel the request, because a device may fail if a
    /// request is cancelled.
    fn complete(&self, mut future: AnswerFuture) -> Outcome {
        let mut task = task::Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(outcome) = future.as_mut().poll(&mut task) {
                return outcome;
            }
            if self.device.next_due().is_some() {
                self.device.advance(self.server.pace.now());
            }
            thread::sleep(UNATTENDED);
        }
    }

    /// Collects the results that the device has produced, and advances the device to the current time.
    pub(crate) fn collect_completed(&mut self) {
        if self.pending.len() > 0 && self.device.next_due().is_some() {
            self.device.advance(self.server.pace.now());
        }
        let before = self.pending.len();
        // A result may start further requests: a read whose holes are now known starts its parts.
        while self.pending.is_woken() {
            for (request, outcome) in self.pending.poll_completed() {
                self.pending_bytes -= request.memory_bytes();
                self.reply(request, outcome);
            }
        }
        if self.pending.len() == before {
            self.due = None;
        }
    }

    /// Returns true if the device has requests in flight.
    pub(crate) fn is_waiting(&self) -> bool {
        self.pending.len() > 0
    }

    /// Sends all queued replies, and passes the received requests that a recording contains to the recorder.
    pub(crate) fn send(&mut self, link: &mut Link) -> io::Result<()> {
        if let Some(recorder) = &self.server.recorder
            && !self.arrived.is_empty()
        {
            recorder.record(self.export, &self.arrived);
            self.arrived.clear();
        }
        let RequestHandler { outbox, pending, device, server, .. } = self;
        let sent = outbox.send(link, &mut InFlightMeanwhile { pending, device: *device, pace: &server.pace });
        if !self.unsent_latencies.is_empty() {
            let now = self.server.clock.now();
            for (request_type, arrived_at) in self.unsent_latencies.drain(..) {
                self.server.counters.record_latency(request_type, now.saturating_since(arrived_at));
            }
        }
        if let Some(late) = self.due.take().and_then(|due| self.server.pace.late(due)) {
            self.server.counters.record_lateness(late);
        }
        sent
    }

    /// Waits for all requests in flight, and sends their replies for as long as the client accepts them.
    pub(crate) fn finish(&mut self, link: &mut Link) -> io::Result<()> {
        let mut sent = self.send(link);
        while self.pending.len() > 0 {
            let waited = self.wait_for_device(link);
            sent = sent.and(waited);
        }
        sent
    }

    fn reply(&mut self, request: InFlight<'a>, outcome: Outcome) {
        let InFlight { token, bytes, kind, reservation, arrived_at } = request;
        match kind {
            RequestKind::Read => self.queue_latency(RequestType::Read, arrived_at),
            RequestKind::Write => self.queue_latency(RequestType::Write, arrived_at),
            RequestKind::Flush => self.queue_latency(RequestType::Flush, arrived_at),
            RequestKind::Other | RequestKind::Status { .. } => {
                self.queue_latency(RequestType::Other, arrived_at)
            }
            // The latency of such a request ends with its last part.
            RequestKind::Holes { .. } | RequestKind::Part { .. } | RequestKind::Piece(_) => {}
        }
        let heads = &mut self.outbox.heads;
        match (kind, outcome) {
            (RequestKind::Read, Ok(Answer::Read(buffer))) if buffer.len() as u64 == bytes => {
                self.replies.read(token, bytes as u32, heads);
                self.outbox.payload(buffer, reservation);
                self.count_io(Count::Reads, Count::ReadBytes, bytes);
            }
            (RequestKind::Holes { offset }, Ok(Answer::Extents(extents))) => {
                self.read_around_holes((token, arrived_at), (offset, bytes), extents, reservation);
            }
            (RequestKind::Part { offset, read }, Ok(Answer::Read(buffer)))
                if buffer.len() as u64 == bytes =>
            {
                self.replies.data(token, offset, bytes as u32, false, heads);
                self.outbox.payload(buffer, reservation);
                self.counts.add(Count::ReadBytes, bytes);
                self.end_part(token, &read);
            }
            (RequestKind::Part { read, .. }, outcome) => {
                read.failed.set(Some(outcome.err().unwrap_or(IoError::Medium)));
                self.end_part(token, &read);
            }
            (RequestKind::Piece(to), outcome) => to.set(Some(outcome)),
            (RequestKind::Write, Ok(_)) => {
                self.replies.done(token, heads);
                self.count_io(Count::Writes, Count::WriteBytes, bytes);
            }
            // Writes that this connection acknowledged before the power loss may be lost.
            (RequestKind::Flush, Ok(_)) if self.device.power_losses() != self.power_losses => {
                self.fail(token, IoError::Medium);
            }
            (RequestKind::Flush | RequestKind::Other, Ok(_)) => {
                self.replies.done(token, heads);
                self.counts.add(Count::Others, 1);
            }
            (RequestKind::Status { one, contexts }, Ok(Answer::Extents(extents))) => {
                for (n, context) in contexts.iter().enumerate() {
                    let descriptors = extents.iter().map(|extent| BlockDescriptor {
                        length: extent.length,
                        status: u64::from(extent.hole) | u64::from(extent.zero) << 1,
                    });
                    let last = n + 1 == contexts.len();
                    self.replies.block_status(token, bytes, one, context, descriptors, last, heads);
                }
                self.counts.add(Count::Others, 1);
            }
            // A result of the wrong type means that the device is broken; the client receives an error.
            (RequestKind::Read | RequestKind::Holes { .. } | RequestKind::Status { .. }, Ok(_)) => {
                self.fail(token, IoError::Medium)
            }
            (_, Err(error)) => self.fail(token, error),
        }
    }

    fn queue_latency(&mut self, request_type: RequestType, arrived_at: Instant) {
        if self.server.latencies {
            self.unsent_latencies.push((request_type, arrived_at));
        }
    }

    fn count_io(&mut self, requests: Count, bytes: Count, length: u64) {
        self.counts.add(requests, 1);
        self.counts.add(bytes, length);
    }

    fn fail(&mut self, token: Token, error: IoError) {
        self.replies.error(token, error_number(error), &error.to_string(), &mut self.outbox.heads);
        self.counts.add(Count::Errors, 1);
    }
}

/// Returns the protocol's number of an error.
pub(crate) fn error_number(error: IoError) -> ErrorNumber {
    match error {
        IoError::ReadOnly => ErrorNumber::Permission,
        IoError::Medium => ErrorNumber::Io,
        IoError::NoMemory => ErrorNumber::NoMemory,
        IoError::NoSpace => ErrorNumber::NoSpace,
        // The protocol allows EOVERFLOW in reply to reads only.
        IoError::Invalid | IoError::TooLarge => ErrorNumber::Invalid,
        IoError::Unsupported => ErrorNumber::NotSupported,
        IoError::ShuttingDown => ErrorNumber::Shutdown,
    }
}
