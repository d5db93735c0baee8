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
const ENCRYPT_MAX: usize = 1 << 20;

/// One end of a TLS connection.
pub(crate) struct Secure {
    connection: Connection,
    /// Received bytes; `processed..filled` is not passed to rustls yet.
    received: Vec<u8>,
    processed: usize,
    filled: usize,
}

impl Secure {
    pub(crate) fn new(mut connection: Connection) -> Secure {
        connection.set_buffer_limit(Some(ENCRYPT_MAX));
        Secure { connection, received: vec![0; RECEIVE], processed: 0, filled: 0 }
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
    pub(crate) fn decrypt(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let mut decrypted = 0;
        loop {
            match self.connection.reader().read(&mut into[decrypted..]) {
                Ok(0) if decrypted < into.len() => return Ok((decrypted > 0).then_some(decrypted)),
                Ok(n) => decrypted += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if decrypted == into.len() || self.processed == self.filled {
                return Ok(Some(decrypted));
            }
            self.process()?;
        }
    }

    /// Receives encrypted bytes with `receive`, which returns their number. Returns false if there were none.
    pub(crate) fn receive(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        debug_assert_eq!(self.processed, self.filled, "all of it is decrypted before more is received");
        (self.processed, self.filled) = (0, receive(&mut self.received)?);
        Ok(self.filled > 0)
    }

    /// Returns true if received bytes are available for [`Secure::decrypt`].
    pub(crate) fn has_more(&mut self) -> io::Result<bool> {
        while self.processed < self.filled {
            if self.connection.process_new_packets().map_err(invalid)?.plaintext_bytes_to_read() > 0 {
                return Ok(true);
            }
            self.process()?;
        }
        Ok(self.connection.process_new_packets().map_err(invalid)?.plaintext_bytes_to_read() > 0)
    }

    /// Passes received bytes to rustls.
    pub(crate) fn process(&mut self) -> io::Result<()> {
        let mut rest = &self.received[self.processed..self.filled];
        match self.connection.read_tls(&mut rest)? {
            // Bytes after a close alert are ignored.
            0 => self.processed = self.filled,
            count => self.processed += count,
        }
        self.connection.process_new_packets().map(drop).map_err(invalid)
    }

    /// Returns true if received bytes wait to be passed to rustls.
    pub(crate) fn has_received(&self) -> bool {
        self.processed < self.filled
    }

    /// Encrypts bytes of `parts`, up to the limit of the send buffer. Returns the number of bytes taken.
    pub(crate) fn encrypt(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.connection.writer().write_vectored(parts)
    }

    /// Sends encrypted bytes once.
    pub(crate) fn send(&mut self, to: &mut dyn Write) -> io::Result<usize> {
        self.connection.write_tls(to)
    }

    /// Queues a close alert.
    pub(crate) fn close_notify(&mut self) {
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
