//! One connection of a load: a socket, its session, and its buffers.

use super::LoadError;
use crate::Clock;
use crate::link::{Link, wait_for};
use crate::listener::connect;
use crate::tls::{self, Connection};
use flashlab_nbd::client::{Client, ClientConfig, Event, ExportInfo, Received, Request, Slot, Tls};
use flashlab_nbd::uri::Uri;
use flashlab_sim::Duration;
use rustix::event::{PollFd, PollFlags};
use std::io::IoSlice;
use std::ops::Range;

/// Size of the receive buffer in bytes.
const RECEIVE: usize = 1 << 20;
/// Maximum time that the handshake waits for each reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// An open connection.
pub(super) struct Session {
    pub(super) link: Link,
    client: Client,
    batch: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Requests to send.
    heads: Vec<u8>,
    payloads: Vec<(usize, Slot)>,
}

/// Receiver of the replies to requests.
pub(super) trait Answers {
    /// Takes data of a read.
    fn data(&mut self, slot: Slot, offset: u64, bytes: &[u8]);
    /// Takes a range of zeroes of a read.
    fn hole(&mut self, slot: Slot, offset: u64, length: u64);
    /// Takes the result of a completed request.
    fn done(
        &mut self,
        slot: Slot,
        result: Result<(), flashlab_nbd::wire::ErrorNumber>,
    ) -> Result<(), LoadError>;
    /// Returns the payload of a write.
    fn payload(&self, slot: Slot) -> &[u8];
    /// Announces that bytes have arrived: the replies that follow arrived at this moment.
    fn arrived(&mut self);
}

impl Session {
    /// Connects and performs the handshake.
    pub(super) fn open(uri: &Uri, simple: bool) -> Result<Session, LoadError> {
        let mut tls = if uri.tls { Some(tls::client(uri)?) } else { None };
        let link = connect(&uri.transport).map_err(LoadError::Connect)?;
        let config = ClientConfig {
            tls: if uri.tls { Tls::Require } else { Tls::Off },
            ..ClientConfig::export(&uri.export)
        };
        let client = Client::new(if simple { config.simple() } else { config });
        let (batch, heads, payloads) = (vec![0; RECEIVE], Vec::new(), Vec::new());
        let mut session = Session { link, client, batch, taken: 0, filled: 0, heads, payloads };
        session.shake_hands(&mut tls)?;
        Ok(session)
    }

    fn shake_hands(&mut self, tls: &mut Option<Connection>) -> Result<(), LoadError> {
        loop {
            let bytes = &self.batch[self.taken..self.filled];
            let Received { consumed, event } = self.client.receive(bytes, &mut self.heads);
            self.taken += consumed;
            self.link.send(&mut [IoSlice::new(&self.heads)])?;
            self.heads.clear();
            match event {
                Event::Ready => return Ok(()),
                Event::Send => {}
                Event::Need(_) => {
                    if self.link.wait(None, Some(PATIENCE))?.late {
                        return Err(LoadError::Late);
                    }
                    self.fill()?;
                }
                Event::StartTls => {
                    let tls = tls.take().expect("it is started once, where it was wished for");
                    let clock = Clock::start();
                    let until = clock.now().saturating_add(PATIENCE);
                    self.link.start_tls(tls, || clock.now(), until)?;
                    self.taken = self.filled;
                    self.client.tls_started(&mut self.heads);
                }
                Event::Closed(why) => return Err(LoadError::Session(why)),
                _ => unreachable!("nothing else was wished for"),
            }
        }
    }

    /// Returns the server's description of the export.
    pub(super) fn export(&self) -> &ExportInfo {
        self.client.export().expect("it is open")
    }

    /// Returns the number of requests in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.client.in_flight()
    }

    /// Queues a request for the next send.
    pub(super) fn request(&mut self, request: Request, payload: bool) -> Result<Slot, LoadError> {
        let slot = self.client.request(request, &mut self.heads)?;
        if payload {
            self.payloads.push((self.heads.len(), slot));
        }
        Ok(slot)
    }

    /// Sends the queued requests. While the server accepts no more bytes, receives its replies: the server may be
    /// waiting for that.
    pub(super) fn send(&mut self, answers: &mut impl Answers) -> Result<(), LoadError> {
        let mut sent = 0;
        let all = self.heads.len()
            + self.payloads.iter().map(|(_, slot)| answers.payload(*slot).len()).sum::<usize>();
        while sent < all || self.link.wants_to_send() {
            let slices = slices(&self.heads, &self.payloads, sent, answers);
            match self.link.send_now(&slices)? {
                0 if sent == all && !self.link.wants_to_send() => {}
                0 => {
                    self.link.calls += 1;
                    let mut fds = [PollFd::new(&self.link, PollFlags::IN | PollFlags::OUT)];
                    wait_for(&mut fds, None)?;
                    if fds[0].revents() != PollFlags::OUT {
                        self.receive(answers)?;
                    }
                }
                n => sent += n,
            }
        }
        self.heads.clear();
        self.payloads.clear();
        Ok(())
    }

    /// Waits for replies, and processes the available ones.
    pub(super) fn receive(&mut self, answers: &mut impl Answers) -> Result<(), LoadError> {
        self.fill()?;
        answers.arrived();
        loop {
            let start = self.taken;
            let bytes = &self.batch[start..self.filled];
            // In the transmission phase the client appends no messages of its own.
            let Received { consumed, event } = self.client.receive(bytes, &mut Vec::new());
            self.taken += consumed;
            let in_batch = |range: Range<usize>| start + range.start..start + range.end;
            match event {
                Event::Need(_) => return Ok(()),
                Event::Data { slot, offset, range } => {
                    answers.data(slot, offset, &self.batch[in_batch(range)])
                }
                Event::Hole { slot, offset, length } => answers.hole(slot, offset, length.into()),
                Event::Error { .. } => {}
                Event::Done { slot, result } => answers.done(slot, result)?,
                Event::Closed(why) => return Err(LoadError::Session(why)),
                _ => unreachable!("nothing else was asked for"),
            }
        }
    }

    fn fill(&mut self) -> Result<(), LoadError> {
        self.batch.copy_within(self.taken..self.filled, 0);
        (self.taken, self.filled) = (0, self.filled - self.taken);
        match self.link.receive(&mut self.batch[self.filled..])? {
            0 => Err(LoadError::Gone),
            n => {
                self.filled += n;
                Ok(())
            }
        }
    }

    /// Disconnects. Errors no longer matter.
    pub(super) fn close(mut self) {
        self.heads.clear();
        self.client.disconnect(&mut self.heads);
        let _ = self.link.send(&mut [IoSlice::new(&self.heads)]);
    }
}

/// Returns the bytes to send, without the first `skip` bytes.
fn slices<'b>(
    heads: &'b [u8],
    payloads: &[(usize, Slot)],
    mut skip: usize,
    answers: &'b impl Answers,
) -> Vec<IoSlice<'b>> {
    let mut slices = Vec::with_capacity(2 * payloads.len() + 1);
    let mut add = |bytes: &'b [u8]| {
        let skipped = skip.min(bytes.len());
        skip -= skipped;
        if skipped < bytes.len() {
            slices.push(IoSlice::new(&bytes[skipped..]));
        }
    };
    let mut from = 0;
    for (behind, slot) in payloads {
        add(&heads[from..*behind]);
        add(answers.payload(*slot));
        from = *behind;
    }
    add(&heads[from..]);
    slices
}
