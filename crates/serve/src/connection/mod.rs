//! One client: a thread that owns its socket, takes in what is there, answers every complete request of it, and sends
//! all replies at once. Two system calls a batch.

mod payload;

use crate::answer::Answerer;
use crate::counters::Count;
use crate::limits::SMALL;
use crate::link::Link;
use crate::rate::{Direction, Progress, TooSlow};
use crate::realtime::{Awake, before_all_others_and_awake, without_slack};
use crate::server::Server;
use flashlab_nbd::server::{Closed, Command, Event, Received, Request, Session};
use flashlab_sim::{Duration, Instant};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use tracing::{debug, info, warn};

/// Bytes received at once: whole batches of what clients keep in flight, and more than any request that is not received
/// into a buffer of its own.
const RECEIVE: usize = 512 << 10;
/// How long a peer has to take its last replies once nothing more is answered.
const LINGER: Duration = Duration::from_secs(1);

/// A client and what belongs to it.
pub(crate) struct Connection<'a> {
    server: &'a Server,
    link: Link,
    number: u64,
    from: String,
    /// What was received; `taken..filled` is not dealt with yet.
    batch: Arc<Vec<u8>>,
    taken: usize,
    filled: usize,
    /// Time without a byte from the client, since its last request.
    idle: Duration,
    /// Set while a request has begun to arrive and is not whole.
    progress: Option<Progress>,
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The session is over.
    Closed(Closed),
    /// The client is gone, or the server ends.
    Eof,
    /// The client took too long to agree on an export.
    Late,
    /// The client sends or receives below the least rate.
    Slow(TooSlow),
    /// The client asked for nothing for so long; true if another client waits.
    Idle(Duration, bool),
    /// Reading or writing failed.
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
    /// Of `server`, number `number`.
    pub(crate) fn new(server: &'a Server, link: Link, number: u64, from: String) -> Connection<'a> {
        let batch = Arc::new(vec![0; RECEIVE]);
        let (idle, progress) = (Duration::ZERO, None);
        Connection { server, link, number, from, batch, taken: 0, filled: 0, idle, progress }
    }

    /// Serves the client to its end.
    pub(crate) fn run(mut self) {
        let (number, from) = (self.number, self.from.clone());
        debug!(connection = number, %from, "accepted");
        match self.serve() {
            // A client that is killed is nothing special.
            Err(End::Eof | End::Closed(Closed::Disconnect | Closed::Abort)) => {
                debug!(connection = number, "ended")
            }
            Err(End::Closed(why)) => info!(connection = number, %why, "refused"),
            Err(End::Late) => info!(connection = number, "no export chosen in time"),
            Err(End::Slow(why)) => warn!(connection = number, %from, "closed: {why}"),
            Err(End::Idle(idle, wanted)) => {
                let why = if wanted { ", and another client waits" } else { "" };
                warn!(connection = number, %from, "closed: no request for {} s{why}", idle.as_ns() / 1_000_000_000);
            }
            Err(End::Failed(error)) => info!(connection = number, %error, "lost"),
            Ok(never) => match never {},
        }
    }

    fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        let mut greeting = Vec::new();
        let mut session = Session::new(self.server.policy, self.server.offered.clone(), &mut greeting);
        self.shake_hands(&mut session, greeting)?;
        let export = session.export().expect("it is open");
        let Some(export) = self.server.exports.iter().position(|one| one.name == export.name) else {
            unreachable!("the session offers nothing else");
        };
        info!(connection = self.number, from = %self.from, export = %self.server.exports[export].name, "opened");
        let replies = session.replies().expect("it is open");
        let mut answerer = Answerer::new(self.server, export, replies);
        let _awake = self.keep_exact_time(export);
        self.link.limit(self.server.limits.least_rate, self.server.limits.patience())?;
        let ended = self.transmit(&mut session, &mut answerer);
        if let (Err(End::Slow(_)), Some(hangup)) = (&ended, self.link.hangup()) {
            // The rest of its replies would wait as long again.
            hangup.cut();
        }
        // Requests that arrived completely are answered, however the session ended.
        let finished = answerer.finish(&mut self.link);
        self.count(&mut session, &mut answerer);
        if let (Err(End::Eof | End::Closed(_)), Ok(())) = (&ended, finished) {
            let clock = self.server.clock;
            self.link.linger(|| clock.now(), clock.now().saturating_add(LINGER));
        }
        ended
    }

    /// Agrees on an export, in bounded time.
    fn shake_hands(&mut self, session: &mut Session, mut replies: Vec<u8>) -> Result<(), End> {
        let until = self.server.clock.now().saturating_add(self.server.limits.handshake);
        loop {
            self.send_by(&replies, until)?;
            replies.clear();
            loop {
                let Received { consumed, event } =
                    session.receive(&self.batch[self.taken..self.filled], &mut replies);
                self.taken += consumed;
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
                        let tls = self.server.tls.as_ref().expect("only who has it offers it");
                        let clock = self.server.clock;
                        self.link.start_tls(tls.accept(), || clock.now(), until)?;
                        debug!(connection = self.number, "under TLS");
                        session.tls_started();
                    }
                    Event::Request(_) => unreachable!("nothing is open"),
                }
            }
        }
    }

    /// Takes requests and answers them until the session ends.
    fn transmit(
        &mut self,
        session: &mut Session,
        answerer: &mut Answerer<'a>,
    ) -> Result<std::convert::Infallible, End> {
        loop {
            let mut asked = false;
            loop {
                let start = self.taken;
                let Received { consumed, event } =
                    session.receive(&self.batch[start..self.filled], &mut answerer.outbox.heads);
                self.taken += consumed;
                match event {
                    Event::Request(request) => {
                        asked = true;
                        self.request(request, start, answerer)?;
                    }
                    Event::Need(_) => break,
                    Event::Closed(why) => return Err(End::Closed(why)),
                    Event::Send | Event::Opened | Event::StartTls => unreachable!("the handshake is over"),
                }
            }
            answerer.answered();
            answerer.send(&mut self.link)?;
            answerer.counted.add(Count::Batches, asked.into());
            self.count(session, answerer);
            if answerer.is_waiting() && !answerer.wait(&mut self.link, true)? {
                continue;
            }
            let begun = self.taken < self.filled || session.is_draining();
            if asked || !begun {
                self.progress = None;
            }
            self.receive(begun)?;
            answerer.arrived_now();
        }
    }

    /// Starts one request; `start` is where the bytes began that the session was given.
    fn request(&mut self, request: Request, start: usize, answerer: &mut Answerer<'a>) -> Result<(), End> {
        let Request { token, offset, length, command } = request;
        answerer.make_room(&mut self.link)?;
        match command {
            Command::Write { here, fua } => {
                let here = start + here.start..start + here.end;
                self.write((token, offset, length), here, fua, answerer)
            }
            Command::Read { unfragmented } if length > SMALL as u64 => {
                match answerer.take_memory(length, &mut self.link)? {
                    Some(taken) => answerer.start(token, offset, length, &command, Some(taken)),
                    None => {
                        answerer.read_in_pieces(token, (offset, length), unfragmented, &mut self.link)?;
                    }
                }
                Ok(())
            }
            _ => {
                answerer.start(token, offset, length, &command, None);
                Ok(())
            }
        }
    }

    /// Receives once, behind what is not dealt with yet; `begun` says that a request is on its way.
    fn receive(&mut self, begun: bool) -> Result<(), End> {
        self.wait_unless_socket()?;
        let rest = self.taken..self.filled;
        let batch = match Arc::get_mut(&mut self.batch) {
            Some(batch) => {
                batch.copy_within(rest.clone(), 0);
                batch
            }
            // A device still holds what was received: it keeps that buffer.
            None => {
                let mut fresh = vec![0; RECEIVE];
                fresh[..rest.len()].copy_from_slice(&self.batch[rest.clone()]);
                self.batch = Arc::new(fresh);
                Arc::get_mut(&mut self.batch).expect("it is new")
            }
        };
        (self.taken, self.filled) = (0, rest.len());
        if begun {
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
                        self.idle += self.server.limits.patience();
                        self.server.may_idle(self.idle)?;
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

    /// A socket is shut down by the server when it ends; pipes have to be watched.
    fn wait_unless_socket(&mut self) -> Result<(), End> {
        if self.link.is_socket() {
            return Ok(());
        }
        let woken = self.link.wait(Some(self.server.stop.as_fd()), None)?;
        // Whoever goes on asking must not keep the server from ending.
        if woken.also { Err(End::Eof) } else { Ok(()) }
    }

    fn wait_by(&mut self, until: Instant) -> Result<(), End> {
        let left = until.saturating_since(self.server.clock.now());
        let stop = (!self.link.is_socket()).then(|| self.server.stop.as_fd());
        let woken = self.link.wait(stop, Some(left))?;
        match woken.late {
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

    /// This thread may have to answer at an instant.
    fn keep_exact_time(&self, export: usize) -> Option<Awake> {
        without_slack();
        let timed = self.server.exports[export].device.abilities().timed;
        (timed && self.server.realtime).then(|| before_all_others_and_awake(self.number)).flatten()
    }

    fn count(&mut self, session: &mut Session, answerer: &mut Answerer<'a>) {
        answerer.counted.add(Count::Errors, session.take_refused());
        answerer.counted.add(Count::Calls, std::mem::take(&mut self.link.calls));
        self.server.counters.add(&mut answerer.counted);
    }
}
