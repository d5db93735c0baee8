//! TLS between a [`Link`](crate::link::Link) and its socket: decrypts received bytes and encrypts sent bytes.
//!
//! Bytes cross the socket in large pieces, as they do without TLS; rustls itself performs no I/O. A connection that
//! ends without a close alert is not an error: every complete record is authentic, and requests and replies contain
//! their lengths.

use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};

/// Size of the receive buffer in bytes: sixteen TLS records of maximum length.
const RECEIVE: usize = 256 << 10;
/// Maximum number of bytes to encrypt before they are sent.
const SEAL: usize = 1 << 20;

/// One end of a TLS connection.
pub(crate) struct Secure {
    connection: Connection,
    /// Received bytes; `taken..filled` is not passed to rustls yet.
    sealed: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Secure {
    pub(crate) fn new(mut connection: Connection) -> Secure {
        connection.set_buffer_limit(Some(SEAL));
        Secure { connection, sealed: vec![0; RECEIVE], taken: 0, filled: 0 }
    }

    /// Returns true if the TLS handshake is not complete.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns true if encrypted bytes wait to be sent.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.connection.wants_write()
    }

    /// Decrypts received bytes into `into`, and returns the number of bytes. Zero means that more bytes have to be
    /// received first. `None` means that the peer has sent a close alert.
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

    /// Receives encrypted bytes with `receive`, which returns their number. Returns false if there were none.
    pub(crate) fn receive(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        debug_assert_eq!(self.taken, self.filled, "all of it is opened before more is received");
        (self.taken, self.filled) = (0, receive(&mut self.sealed)?);
        Ok(self.filled > 0)
    }

    /// Returns true if received bytes are available for [`Secure::open`].
    pub(crate) fn has_more(&mut self) -> io::Result<bool> {
        while self.taken < self.filled {
            if self.connection.process_new_packets().map_err(invalid)?.plaintext_bytes_to_read() > 0 {
                return Ok(true);
            }
            self.take_in()?;
        }
        Ok(self.connection.process_new_packets().map_err(invalid)?.plaintext_bytes_to_read() > 0)
    }

    /// Passes received bytes to rustls.
    pub(crate) fn take_in(&mut self) -> io::Result<()> {
        let mut rest = &self.sealed[self.taken..self.filled];
        match self.connection.read_tls(&mut rest)? {
            // Bytes behind a close alert are ignored.
            0 => self.taken = self.filled,
            taken => self.taken += taken,
        }
        self.connection.process_new_packets().map(drop).map_err(invalid)
    }

    /// Returns true if received bytes wait to be passed to rustls.
    pub(crate) fn has_sealed(&self) -> bool {
        self.taken < self.filled
    }

    /// Encrypts bytes of `parts`, up to the limit of the send buffer. Returns the number of bytes taken.
    pub(crate) fn seal(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.connection.writer().write_vectored(parts)
    }

    /// Sends encrypted bytes once.
    pub(crate) fn send(&mut self, to: &mut dyn Write) -> io::Result<usize> {
        self.connection.write_tls(to)
    }

    /// Queues a close alert.
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
