//! TLS between a [`Link`](crate::link::Link) and its socket: what is received is opened, what is sent is sealed.
//!
//! Bytes cross the socket in large pieces, as they do without TLS; rustls itself moves none. An end without a farewell is an
//! end: whatever was received whole is authentic, and requests and replies say how long they are.

use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};

/// Bytes received at once: sixteen of TLS' largest records.
const RECEIVE: usize = 256 << 10;
/// Bytes that are sealed before they are sent.
const SEAL: usize = 1 << 20;

/// One end of a connection under TLS.
pub(crate) struct Secure {
    connection: Connection,
    /// What was received and not opened: `taken..filled`.
    sealed: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Secure {
    pub(crate) fn new(mut connection: Connection) -> Secure {
        connection.set_buffer_limit(Some(SEAL));
        Secure { connection, sealed: vec![0; RECEIVE], taken: 0, filled: 0 }
    }

    /// Whether the two sides have not agreed yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether sealed bytes wait to be sent.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.connection.wants_write()
    }

    /// Opens what was received into `into`; says how much that was. Nothing: more has to be received first. `None`: the peer
    /// said that nothing will come.
    pub(crate) fn open(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let mut opened = 0;
        loop {
            match self.connection.reader().read(&mut into[opened..]) {
                Ok(0) if opened < into.len() => return Ok((opened > 0).then_some(opened)),
                Ok(n) => opened += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if opened == into.len() || self.taken == self.filled {
                return Ok(Some(opened));
            }
            self.take_in()?;
        }
    }

    /// Receives sealed bytes through `receive`, which says how many it got; whether there were any.
    pub(crate) fn receive(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        debug_assert_eq!(self.taken, self.filled, "all of it is opened before more is received");
        (self.taken, self.filled) = (0, receive(&mut self.sealed)?);
        Ok(self.filled > 0)
    }

    /// Whether something was received that [`Secure::open`] may open.
    pub(crate) fn has_more(&mut self) -> io::Result<bool> {
        while self.taken < self.filled {
            if self.connection.process_new_packets().map_err(invalid)?.plaintext_bytes_to_read() > 0 {
                return Ok(true);
            }
            self.take_in()?;
        }
        Ok(self.connection.process_new_packets().map_err(invalid)?.plaintext_bytes_to_read() > 0)
    }

    /// Hands received bytes to TLS.
    pub(crate) fn take_in(&mut self) -> io::Result<()> {
        let mut rest = &self.sealed[self.taken..self.filled];
        match self.connection.read_tls(&mut rest)? {
            // What follows a farewell is not looked at.
            0 => self.taken = self.filled,
            taken => self.taken += taken,
        }
        self.connection.process_new_packets().map(drop).map_err(invalid)
    }

    /// Whether received bytes wait to be handed to TLS.
    pub(crate) fn has_sealed(&self) -> bool {
        self.taken < self.filled
    }

    /// Seals as much of `parts` as is sealed at once; says how much that was.
    pub(crate) fn seal(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.connection.writer().write_vectored(parts)
    }

    /// Sends sealed bytes once.
    pub(crate) fn send(&mut self, to: &mut dyn Write) -> io::Result<usize> {
        self.connection.write_tls(to)
    }

    /// Says that nothing more will come.
    pub(crate) fn farewell(&mut self) {
        self.connection.send_close_notify();
    }
}

impl std::fmt::Debug for Secure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secure").field("version", &self.connection.protocol_version()).finish_non_exhaustive()
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
