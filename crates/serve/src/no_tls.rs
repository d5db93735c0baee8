//! The interface of TLS in a build without the feature `tls`.
//!
//! [`Tls::new`] and `client` return an error that says how to get TLS. No other code is reachable, because the types of
//! servers and connections have no values.

use flashlab_nbd::server;
use flashlab_nbd::uri::Uri;
use std::fmt;
use std::io::{self, IoSlice, Write};
use std::path::Path;

/// Use of TLS by clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// Clients may use TLS.
    On,
    /// Clients must use TLS.
    Require,
}

/// Certificate and key of a server. This build has no TLS, so no value exists.
#[derive(Clone, Debug)]
pub enum Tls {}

/// Error of a build without TLS.
#[derive(Debug)]
pub struct TlsError;

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this build has no TLS; build with --features tls, or --features full")
    }
}

impl std::error::Error for TlsError {}

impl Tls {
    /// Returns the error of a build without TLS.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn new(_folder: &Path, _mode: TlsMode, _verify_peer: bool) -> Result<Tls, TlsError> {
        Err(TlsError)
    }

    /// Returns the mode: optional or required.
    pub fn mode(&self) -> TlsMode {
        match *self {}
    }

    pub(crate) fn policy(&self) -> server::Tls {
        match *self {}
    }

    pub(crate) fn accept(&self) -> Connection {
        match *self {}
    }
}

pub(crate) fn client(_uri: &Uri) -> Result<Connection, TlsError> {
    Err(TlsError)
}

/// One end of a TLS connection before it moves bytes.
pub(crate) enum Connection {}

/// One end of a connection under TLS.
#[derive(Debug)]
pub(crate) enum Secure {}

impl Secure {
    pub(crate) fn new(connection: Connection) -> Secure {
        match connection {}
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        match *self {}
    }

    pub(crate) fn decrypt(&mut self, _into: &mut [u8]) -> io::Result<Option<usize>> {
        match *self {}
    }

    pub(crate) fn receive(&mut self, _: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn has_more(&mut self) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn process(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn has_received(&self) -> bool {
        match *self {}
    }

    pub(crate) fn encrypt(&mut self, _parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn send(&mut self, _to: &mut dyn Write) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn close_notify(&mut self) {
        match *self {}
    }
}
