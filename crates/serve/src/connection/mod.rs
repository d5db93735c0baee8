//! One client connection. Its thread owns the socket, receives the available bytes, starts all complete
//! requests among them, and sends all available replies at once. If the device answers at once, a batch needs
//! two system calls.

mod payload;

use crate::answer::RequestHandler;
use crate::counters::Count;
use crate::limits::SMALL;
use crate::link::Link;
use crate::rate::{Direction, Progress, TooSlow};
use crate::realtime::{CpuLatencyLimit, clear_timer_slack, request_low_latency};
use crate::server::Server;
use flashlab_nbd::server::{Closed, Command, Event, Received, Request, Session};
use flashlab_sim::{Duration, Instant};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use tracing::{debug, info, warn};

/// Size of the receive buffer in bytes. It holds whole batches of the requests that clients keep in flight, and every
/// request that is not received into its own buffer.
const RECEIVE: usize = 512 << 10;
/// Time that a client has to receive its last replies after the session has ended.
const LINGER: Duration = Duration::from_secs(1);

/// A client connection.
pub(crate) struct Connection<'a> {
    server: &'a Server,
    link: Link,
    number: u64,
    from: String,
    /// The receive buffer; `processed..filled` is not processed yet.
    batch: Arc<Vec<u8>>,
    used: UsedBatches,
    processed: usize,
    filled: usize,
    /// Time since the client sent its last byte, counted while no request is incomplete.
    idle: Duration,
    /// Receive rate of a request that has arrived partly; `None` if no request is incomplete.
    progress: Option<Progress>,
}

/// Receive buffers whose data a device uses. The connection reuses a buffer once the device has released it.
/// Zeroing a new buffer for each write of a slow device would cost more than serving the write.
#[derive(Default)]
struct UsedBatches(Vec<Arc<Vec<u8>>>);

impl UsedBatches {
    /// Largest number of buffers: 16 MiB for each connection.
    const MAX: usize = 32;

    fn released(&mut self) -> Option<usize> {
        self.0.iter_mut().position(|batch| Arc::get_mut(batch).is_some())
    }

    /// Returns a buffer that no device uses: a released one, or a new one.
    fn take_released(&mut self) -> Arc<Vec<u8>> {
        self.released().map_or_else(|| Arc::new(vec![0; RECEIVE]), |batch| self.0.swap_remove(batch))
    }

    fn add(&mut self, batch: Arc<Vec<u8>>) {
        self.0.push(batch);
        debug_assert!(self.0.len() <= Self::MAX, "a connection copies payloads while the set is full");
    }

    /// Returns true if the connection has its maximum number of buffers and devices use all of them. Payloads
    /// must then be copied.
    fn is_full(&mut self) -> bool {
        self.0.len() == Self::MAX && self.released().is_none()
    }

    /// Frees one released buffer. The connection calls this when it needs no buffer, so that it returns the
    /// memory once its device has become faster.
    fn forget_one(&mut self) {
        if let Some(batch) = self.released() {
            self.0.swap_remove(batch);
        }
    }
}

/// Reason why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The session has ended.
    Closed(Closed),
    /// The client has closed the connection, or the server shuts down.
    Eof,
    /// The client did not select an export in time.
    Late,
    /// The client sends or receives below the minimum rate.
    Slow(TooSlow),
    /// The client sent no request for this time. The flag is true if the server closes the connection to make
    /// room for a waiting client.
    Idle(Duration, bool),
    /// Receiving or sending failed.
    Failed(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(slow) => End::Slow(*slow),
            None => End::Failed(error),
        }
    }
}

impl<'a> Connection<'a> {
    /// Creates the connection with this number.
    pub(crate) fn new(server: &'a Server, link: Link, number: u64, from: String) -> Connection<'a> {
        let batch = Arc::new(vec![0; RECEIVE]);
        let (used, idle, progress) = (UsedBatches::default(), Duration::ZERO, None);
        Connection { server, link, number, from, batch, used, processed: 0, filled: 0, idle, progress }
    }

    /// Serves the client until the connection ends.
    pub(crate) fn run(mut self) {
        let (number, from) = (self.number, self.from.clone());
        debug!(connection = number, %from, "accepted");
        match self.serve() {
            // A client that is killed is a normal event.
            Err(End::Eof | End::Closed(Closed::Disconnect | Closed::Abort)) => {
                debug!(connection = number, "ended")
            }
            Err(End::Closed(why)) => info!(connection = number, %why, "refused"),
            Err(End::Late) => info!(connection = number, "no export selected in time"),
            Err(End::Slow(why)) => warn!(connection = number, %from, "closed: {why}"),
            Err(End::Idle(idle, client_waiting)) => {
                let why = if client_waiting { ", and another client waits" } else { "" };
                warn!(connection = number, %from, "closed: no request for {} s{why}", idle.as_ns() / 1_000_000_000);
            }
            Err(End::Failed(error)) => info!(connection = number, %error, "lost"),
            Ok(never) => match never {},
        }
    }

    fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        let mut greeting = Vec::new();
        let mut session =
            Session::new(self.server.policy, Arc::new(self.server.exports.offered()), &mut greeting);
        self.perform_handshake(&mut session, greeting)?;
        let export = session.export().expect("the handshake has opened an export");
        let Some(export) = self.server.exports.iter().position(|one| one.name == export.name) else {
            unreachable!("the session offers nothing else");
        };
        info!(connection = self.number, from = %self.from, export = %self.server.exports[export].name, "opened");
        let replies = session.replies().expect("the handshake has opened an export");
        let mut handler = RequestHandler::new(self.server, export, replies);
        let _latency_limit = self.prepare_exact_timing(export);
        self.link.limit(self.server.limits.least_rate, self.server.limits.check_interval())?;
        let ended = self.transmit(&mut session, &mut handler);
        if let (Err(End::Slow(_)), Some(hangup)) = (&ended, self.link.hangup()) {
            // Sending the remaining replies to the slow client would take as long again.
            hangup.close();
        }
        // Requests that have arrived completely are completed, whatever the reason for the end.
        let finished = handler.finish(&mut self.link);
        self.count(&mut session, &mut handler);
        if let (Err(End::Eof | End::Closed(_)), Ok(())) = (&ended, finished) {
            let clock = self.server.clock;
            self.link.linger(|| clock.now(), clock.now().saturating_add(LINGER));
        }
        ended
    }

    /// Performs the handshake in bounded time.
    fn perform_handshake(&mut self, session: &mut Session, mut replies: Vec<u8>) -> Result<(), End> {
        let until = self.server.clock.now().saturating_add(self.server.limits.handshake);
        loop {
            self.send_by(&replies, until)?;
            replies.clear();
            loop {
                let Received { consumed, event } =
                    session.receive(&self.batch[self.processed..self.filled], &mut replies);
                self.processed += consumed;
                match event {
                    Event::Need(_) => {
                        self.send_by(&replies, until)?;
                        replies.clear();
                        self.wait_by(until)?;
                        self.receive(false)?;
                    }
                    Event::Send => break,
                    Event::Opened => return self.send_by(&replies, until),
                    Event::Closed(why) => {
                        self.send_by(&replies, until)?;
                        return Err(End::Closed(why));
                    }
                    Event::StartTls => {
                        self.send_by(&replies, until)?;
                        replies.clear();
                        let tls = self.server.tls.as_ref().expect("only a server with TLS offers it");
                        let clock = self.server.clock;
                        self.link.start_tls(tls.accept(), || clock.now(), until)?;
                        debug!(connection = self.number, "under TLS");
                        session.tls_started();
                    }
                    Event::Request(_) => unreachable!("requests follow the handshake"),
                }
            }
        }
    }

    /// Executes requests and replies to them until the session ends.
    fn transmit(
        &mut self,
        session: &mut Session,
        handler: &mut RequestHandler<'a>,
    ) -> Result<std::convert::Infallible, End> {
        loop {
            let mut has_requests = false;
            loop {
                let start = self.processed;
                let Received { consumed, event } =
                    session.receive(&self.batch[start..self.filled], &mut handler.outbox.heads);
                self.processed += consumed;
                match event {
                    Event::Request(request) => {
                        has_requests = true;
                        self.request(request, start, handler)?;
                    }
                    Event::Need(_) => break,
                    Event::Closed(why) => return Err(End::Closed(why)),
                    Event::Send | Event::Opened | Event::StartTls => unreachable!("the handshake is over"),
                }
            }
            handler.collect_completed();
            handler.send(&mut self.link)?;
            handler.counts.add(Count::Batches, has_requests.into());
            self.count(session, handler);
            if handler.is_waiting() && !handler.wait(&mut self.link, true)? {
                continue;
            }
            let incomplete = self.processed < self.filled || session.is_draining();
            if has_requests || !incomplete {
                self.progress = None;
            }
            self.receive(incomplete)?;
            handler.set_arrival_time();
        }
    }

    /// Starts one request; `start` is the position in the batch of the bytes that were passed to the session.
    fn request(
        &mut self,
        request: Request,
        start: usize,
        handler: &mut RequestHandler<'a>,
    ) -> Result<(), End> {
        let Request { token, offset, length, command } = request;
        handler.make_room(&mut self.link)?;
        match command {
            Command::Write { range, fua } => {
                let range = start + range.start..start + range.end;
                self.write((token, offset, length), range, fua, handler)
            }
            Command::Read { unfragmented } if length > SMALL as u64 => {
                match handler.reserve_memory(length, &mut self.link)? {
                    Some(reservation) => handler.start(token, offset, length, &command, Some(reservation)),
                    None => {
                        handler.read_in_pieces(token, (offset, length), unfragmented, &mut self.link)?;
                    }
                }
                Ok(())
            }
            _ => {
                handler.start(token, offset, length, &command, None);
                Ok(())
            }
        }
    }

    /// Receives once, and appends the bytes to the unprocessed ones. `incomplete` is true if a request has arrived
    /// partly.
    fn receive(&mut self, incomplete: bool) -> Result<(), End> {
        self.wait_unless_socket()?;
        let rest = self.processed..self.filled;
        let batch = match Arc::get_mut(&mut self.batch) {
            Some(batch) => {
                batch.copy_within(rest.clone(), 0);
                self.used.forget_one();
                batch
            }
            // A device still uses the received data, so it keeps the old buffer.
            None => {
                let used = std::mem::replace(&mut self.batch, self.used.take_released());
                let batch = Arc::get_mut(&mut self.batch).expect("a released batch has one owner");
                batch[..rest.len()].copy_from_slice(&used[rest.clone()]);
                self.used.add(used);
                batch
            }
        };
        (self.processed, self.filled) = (0, rest.len());
        if incomplete {
            let least = self.server.limits.least_rate;
            self.progress.get_or_insert_with(|| Progress::new(least, Direction::Receiving)).resume();
        }
        let received = loop {
            match self.link.receive(&mut batch[rest.len()..]) {
                Ok(0) => return Err(End::Eof),
                Ok(received) => break received,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) => match &mut self.progress {
                    Some(progress) => progress.moved(0)?,
                    None => {
                        self.idle += self.server.limits.check_interval();
                        self.server.check_idle(self.idle)?;
                    }
                },
            }
        };
        self.filled += received;
        self.idle = Duration::ZERO;
        if let Some(progress) = &mut self.progress {
            progress.moved(received as u64)?;
        }
        Ok(())
    }

    /// Waits for input from pipes or for the server's shutdown. Sockets need no waiting: the server shuts them down
    /// when it ends.
    fn wait_unless_socket(&mut self) -> Result<(), End> {
        if self.link.is_socket() {
            return Ok(());
        }
        let result = self.link.wait(Some(self.server.stop.as_fd()), None)?;
        // A client that continues to send requests must not prevent the shutdown.
        if result.other { Err(End::Eof) } else { Ok(()) }
    }

    fn wait_by(&mut self, until: Instant) -> Result<(), End> {
        let left = until.saturating_since(self.server.clock.now());
        let stop = (!self.link.is_socket()).then(|| self.server.stop.as_fd());
        let result = self.link.wait(stop, Some(left))?;
        match result.timed_out {
            true => Err(End::Late),
            false => Ok(()),
        }
    }

    fn send_by(&mut self, bytes: &[u8], until: Instant) -> Result<(), End> {
        let mut rest = bytes;
        while !rest.is_empty() || self.link.wants_to_send() {
            let left = until.saturating_since(self.server.clock.now());
            if !self.link.wait_to_send(left)? {
                return Err(End::Late);
            }
            let sent = self.link.send_now(&[io::IoSlice::new(rest)])?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    /// Prepares this thread to reply at exact instants. Returns a guard if the device is timed,
    /// [`Server::with_realtime`] was called, and the system grants the CPU latency limit.
    fn prepare_exact_timing(&self, export: usize) -> Option<CpuLatencyLimit> {
        clear_timer_slack();
        let timed = self.server.exports[export].device.features().timed;
        (timed && self.server.realtime).then(|| request_low_latency(self.number)).flatten()
    }

    fn count(&mut self, session: &mut Session, handler: &mut RequestHandler<'a>) {
        handler.counts.add(Count::Errors, session.take_rejected_count());
        handler.counts.add(Count::Calls, std::mem::take(&mut self.link.calls));
        self.server.counters.add(&mut handler.counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_buffers_are_reused_and_limited() {
        let mut used = UsedBatches::default();
        let in_device: Vec<_> = (0..UsedBatches::MAX)
            .map(|_| {
                assert!(!used.is_full());
                let batch = used.take_released();
                let payload = batch.clone();
                used.add(batch);
                payload
            })
            .collect();
        assert!(used.is_full());
        used.forget_one();
        assert!(used.is_full(), "the device still uses all of them");
        let [first, second, ..] = &in_device[..] else { unreachable!("the set has 32 buffers") };
        let released = [Arc::as_ptr(first), Arc::as_ptr(second)];
        drop(in_device);
        assert!(!used.is_full());
        assert!(released.contains(&Arc::as_ptr(&used.take_released())), "the first of them is reused");
        for _ in 0..UsedBatches::MAX {
            used.forget_one();
        }
        assert!(used.0.is_empty());
    }
}
