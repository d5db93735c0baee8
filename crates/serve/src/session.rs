//! One connection of a client: a socket, its session, and its buffers.

use crate::Clock;
use crate::link::{Link, NoWork, wait_for};
use crate::listener::connect;
use crate::load::LoadError;
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
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// An open connection.
pub(crate) struct Session {
    pub(crate) link: Link,
    client: Client,
    batch: Vec<u8>,
    processed: usize,
    filled: usize,
    /// Headers of the requests to send.
    heads: Vec<u8>,
    payloads: Vec<(usize, Slot)>,
}

/// Receiver of the replies to requests.
pub(crate) trait ReplyHandler {
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
    pub(crate) fn open(uri: &Uri, simple: bool) -> Result<Session, LoadError> {
        let mut tls = if uri.tls { Some(tls::client(uri)?) } else { None };
        let link = connect(&uri.transport).map_err(LoadError::Connect)?;
        let config = ClientConfig {
            tls: if uri.tls { Tls::Require } else { Tls::Off },
            ..ClientConfig::export(&uri.export)
        };
        let client = Client::new(if simple { config.simple() } else { config });
        let (batch, heads, payloads) = (vec![0; RECEIVE], Vec::new(), Vec::new());
        let mut session = Session { link, client, batch, processed: 0, filled: 0, heads, payloads };
        session.perform_handshake(&mut tls)?;
        Ok(session)
    }

    fn perform_handshake(&mut self, tls: &mut Option<Connection>) -> Result<(), LoadError> {
        loop {
            let bytes = &self.batch[self.processed..self.filled];
            let Received { consumed, event } = self.client.receive(bytes, &mut self.heads);
            self.processed += consumed;
            self.link.send(&mut [IoSlice::new(&self.heads)], &mut NoWork)?;
            self.heads.clear();
            match event {
                Event::Ready => return Ok(()),
                Event::Send => {}
                Event::Need(_) => {
                    if self.link.wait(None, Some(HANDSHAKE_TIMEOUT))?.timed_out {
                        return Err(LoadError::Late);
                    }
                    self.fill()?;
                }
                Event::StartTls => {
                    let tls = tls.take().expect("TLS is started once, and only if it was requested");
                    let clock = Clock::start();
                    let until = clock.now().saturating_add(HANDSHAKE_TIMEOUT);
                    self.link.start_tls(tls, || clock.now(), until)?;
                    self.processed = self.filled;
                    self.client.tls_started(&mut self.heads);
                }
                Event::Closed(why) => return Err(LoadError::Session(why)),
                _ => unreachable!("the handshake has no other events"),
            }
        }
    }

    /// Returns the server's description of the export.
    pub(crate) fn export(&self) -> &ExportInfo {
        self.client.export().expect("the client has opened an export")
    }

    /// Returns the number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.client.in_flight()
    }

    /// Queues a request for the next send.
    pub(crate) fn request(&mut self, request: Request, payload: bool) -> Result<Slot, LoadError> {
        let slot = self.client.request(request, &mut self.heads)?;
        if payload {
            self.payloads.push((self.heads.len(), slot));
        }
        Ok(slot)
    }

    /// Sends the queued requests. While the server accepts no more bytes, receives its replies, because the
    /// server may accept no bytes until the client has received some of the replies. Fails if the server
    /// neither accepts nor sends a byte for `timeout`; `None` waits indefinitely.
    pub(crate) fn send(
        &mut self,
        handler: &mut impl ReplyHandler,
        timeout: Option<Duration>,
    ) -> Result<(), LoadError> {
        let mut sent = 0;
        let all = self.heads.len()
            + self.payloads.iter().map(|(_, slot)| handler.payload(*slot).len()).sum::<usize>();
        while sent < all || self.link.wants_to_send() {
            let slices = slices(&self.heads, &self.payloads, sent, handler);
            match self.link.send_now(&slices)? {
                0 if sent == all && !self.link.wants_to_send() => {}
                0 => {
                    self.link.calls += 1;
                    let mut fds = [PollFd::new(&self.link, PollFlags::IN | PollFlags::OUT)];
                    if wait_for(&mut fds, timeout)? == 0 {
                        return Err(LoadError::Silent(timeout.unwrap_or_default()));
                    }
                    // A part of an encrypted record is no reply yet, so receiving could wait without a limit.
                    if fds[0].revents() != PollFlags::OUT && self.link.wait(None, Some(Duration::ZERO))?.input
                    {
                        self.receive(handler)?;
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
    pub(crate) fn receive(&mut self, handler: &mut impl ReplyHandler) -> Result<(), LoadError> {
        self.fill()?;
        handler.arrived();
        loop {
            let start = self.processed;
            let bytes = &self.batch[start..self.filled];
            // In the transmission phase the client appends no messages of its own.
            let Received { consumed, event } = self.client.receive(bytes, &mut Vec::new());
            self.processed += consumed;
            let in_batch = |range: Range<usize>| start + range.start..start + range.end;
            match event {
                Event::Need(_) => return Ok(()),
                Event::Data { slot, offset, range } => {
                    handler.data(slot, offset, &self.batch[in_batch(range)])
                }
                Event::Hole { slot, offset, length } => handler.hole(slot, offset, length.into()),
                Event::Error { .. } => {}
                Event::Done { slot, result } => handler.done(slot, result)?,
                Event::Closed(why) => return Err(LoadError::Session(why)),
                _ => unreachable!("the transmission has no other events"),
            }
        }
    }

    fn fill(&mut self) -> Result<(), LoadError> {
        self.batch.copy_within(self.processed..self.filled, 0);
        (self.processed, self.filled) = (0, self.filled - self.processed);
        match self.link.receive(&mut self.batch[self.filled..])? {
            0 => Err(LoadError::Gone),
            n => {
                self.filled += n;
                Ok(())
            }
        }
    }

    /// Disconnects. Errors no longer matter, and a server that accepts no bytes now does not delay the caller.
    pub(crate) fn close(mut self) {
        self.heads.clear();
        self.client.disconnect(&mut self.heads);
        let _ = self.link.send_now(&[IoSlice::new(&self.heads)]);
    }
}

/// Returns the bytes to send, without the first `skip` bytes.
fn slices<'b>(
    heads: &'b [u8],
    payloads: &[(usize, Slot)],
    mut skip: usize,
    handler: &'b impl ReplyHandler,
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
        add(handler.payload(*slot));
        from = *behind;
    }
    add(&heads[from..]);
    slices
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_nbd::wire::{Info, OptionReplyHeader, OptionReplyType, OptionType, TransmissionFlags};
    use std::io::Write;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    /// The handler of a client that only writes.
    struct Writes(Vec<u8>);

    impl ReplyHandler for Writes {
        fn data(&mut self, _: Slot, _: u64, _: &[u8]) {}
        fn hole(&mut self, _: Slot, _: u64, _: u64) {}
        fn done(&mut self, _: Slot, _: Result<(), flashlab_nbd::wire::ErrorNumber>) -> Result<(), LoadError> {
            Ok(())
        }
        fn payload(&self, _: Slot) -> &[u8] {
            &self.0
        }
        fn arrived(&mut self) {}
    }

    /// Returns the messages of an old server, which offers no structured replies and accepts the default
    /// export.
    fn handshake() -> Vec<u8> {
        let mut bytes = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
        let mut info = Vec::new();
        Info::Export { size: 1 << 30, flags: TransmissionFlags::HAS_FLAGS }.emit(&mut info);
        OptionReplyHeader::emit_with(OptionType::Go, OptionReplyType::Info, &info, &mut bytes);
        OptionReplyHeader::emit_with(OptionType::Go, OptionReplyType::Ack, &[], &mut bytes);
        bytes
    }

    #[test]
    fn a_server_that_stops_reading_blocks_neither_a_request_nor_the_disconnect() {
        let name = format!("flashlab-session-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let listener = UnixListener::bind_addr(&address).expect("the name is free");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client connects");
            stream.write_all(&handshake()).expect("the client reads");
            stream
        });
        let uri = crate::Address::Abstract(name.into_bytes()).uri("");
        let mut session = Session::open(&uri, true).expect("the handshake succeeds");
        let server = server.join().expect("no panic");
        let mut writes = Writes(vec![1; 16 << 20]);
        for offset in [0, 16 << 20] {
            session.request(Request::write(offset, 16 << 20), true).expect("it is valid");
        }
        let limit = Duration::from_ms(20);
        let error = session.send(&mut writes, Some(limit)).expect_err("the socket is full");
        assert!(matches!(error, LoadError::Silent(after) if after == limit), "{error}");
        session.close();
        drop(server);
    }
}
