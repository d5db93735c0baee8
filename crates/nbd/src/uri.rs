//! NBD URIs (uri.md of the specification's repository; RFC 3986 for the syntax).
//!
//! The schemes are `nbd`, `nbds`, `nbd+unix`, `nbds+unix`, `nbd+vsock` and `nbds+vsock`. The authority may be omitted
//! where it has to be empty: `nbd+unix:///disk?socket=s`, `nbd+unix://?socket=s` and `nbd+unix:?socket=s` are all
//! valid Unix socket URIs. Unknown parameters are errors, except for those that begin with `x-`, which are stored.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::fmt::Write as _;

/// The port that IANA has assigned to NBD.
pub const PORT: u16 = 10809;

/// A decoded NBD URI.
///
/// ```
/// use flashlab_nbd::uri::{Transport, Uri};
/// let uri = Uri::parse("nbd+unix:///hello%20world?socket=/run/card.sock").unwrap();
/// assert_eq!(uri.export, "hello world");
/// assert_eq!(uri.transport, Transport::Unix { socket: b"/run/card.sock".to_vec() });
/// assert_eq!(uri.to_string(), "nbd+unix:///hello%20world?socket=/run/card.sock");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uri {
    /// Address of the server.
    pub transport: Transport,
    /// True if the scheme requires TLS (`nbds`). If false, client and server negotiate encryption.
    pub tls: bool,
    /// User name, for some kinds of TLS authentication.
    pub user: Option<String>,
    /// Name of the export; empty for the default export.
    pub export: String,
    /// `tls-type`: `anon`, `x509` or `psk`.
    pub tls_type: Option<String>,
    /// `tls-hostname`: the expected name in the server's certificate.
    pub tls_hostname: Option<String>,
    /// `tls-verify-peer`: true if the client has to verify the server's certificate.
    pub tls_verify_peer: Option<bool>,
    /// `tls-certificates`: the directory of the certificates.
    pub tls_certificates: Option<String>,
    /// Parameters that begin with `x-`, with their values.
    pub experimental: Vec<(String, String)>,
}

/// Address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// Host name or address, without brackets. Empty if the URI has none, which means the local machine.
        host: String,
        /// The TCP port.
        port: u16,
    },
    /// A Unix socket.
    Unix {
        /// Path of the socket. A NUL as the first byte marks a name in the abstract namespace.
        socket: Vec<u8>,
    },
    /// A socket between a virtual machine and its host (vsock).
    Vsock {
        /// Context identifier; 2 is the host.
        cid: u32,
        /// The vsock port.
        port: u32,
    },
}

/// An error in a URI, with its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UriError {
    /// Number of characters of the text before the error.
    pub at: usize,
    /// The error.
    pub kind: UriErrorKind,
}

/// Kind of error in a URI.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UriErrorKind {
    /// The text does not begin with a scheme and a colon.
    NoScheme,
    /// The scheme is not an NBD scheme.
    Scheme(String),
    /// A percent sign without two hexadecimal digits after it.
    Percent,
    /// A character that has to be percent-encoded.
    Character(char),
    /// A percent-encoded text that is not UTF-8, or that contains a NUL.
    NotText,
    /// A port that is not a number, or that is above 65535 (TCP) or 2^32 - 1 (vsock).
    Port(String),
    /// A vsock context identifier that is not a number.
    Cid(String),
    /// An address with an opening bracket but no closing bracket.
    Bracket,
    /// A Unix socket URI without the parameter `socket`.
    NoSocket,
    /// The parameter `socket` in a URI of another transport.
    SocketParameter,
    /// A host in a Unix socket URI.
    Host,
    /// An unknown parameter.
    Parameter(String),
    /// A parameter that appears twice.
    Duplicate(String),
    /// An invalid value of a parameter.
    Value {
        /// The parameter.
        parameter: &'static str,
        /// The valid values.
        expected: &'static str,
    },
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: ", self.at + 1)?;
        match &self.kind {
            UriErrorKind::NoScheme => {
                f.write_str("an NBD URI begins with nbd://, nbds://, nbd+unix:// or the like")
            }
            UriErrorKind::Scheme(scheme) => {
                write!(f, "{scheme:?} is not one of nbd, nbds, nbd+unix, nbds+unix, nbd+vsock and nbds+vsock")
            }
            UriErrorKind::Percent => f.write_str("two hexadecimal digits have to follow a percent sign"),
            UriErrorKind::Character(character) => write!(f, "{character:?} has to be percent-encoded"),
            UriErrorKind::NotText => f.write_str("the text is not UTF-8, or contains a NUL"),
            UriErrorKind::Port(port) => write!(f, "{port:?} is not a port"),
            UriErrorKind::Cid(cid) => write!(f, "{cid:?} is not a vsock context identifier"),
            UriErrorKind::Bracket => f.write_str("the closing bracket of the address is missing"),
            UriErrorKind::NoSocket => f.write_str("the URI of a Unix socket needs ?socket=PATH"),
            UriErrorKind::SocketParameter => f.write_str("socket= is for nbd+unix and nbds+unix"),
            UriErrorKind::Host => {
                f.write_str("a Unix socket has no host; write nbd+unix:///EXPORT?socket=PATH")
            }
            UriErrorKind::Parameter(name) => write!(f, "the parameter {name:?} is unknown"),
            UriErrorKind::Duplicate(name) => write!(f, "the parameter {name:?} appears twice"),
            UriErrorKind::Value { parameter, expected } => write!(f, "{parameter} must be {expected}"),
        }
    }
}

impl core::error::Error for UriError {}

/// A part of the text, with its byte offset.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Part<'a> {
    fn error<T>(self, kind: UriErrorKind) -> Result<T, UriError> {
        Err(UriError { at: self.at, kind })
    }
    /// Splits at the first separator. The second part is `None` if the separator is absent.
    fn split(self, separator: char) -> (Part<'a>, Option<Part<'a>>) {
        match self.text.split_once(separator) {
            Some((before, behind)) => {
                let at = self.at + before.len() + separator.len_utf8();
                (Part { text: before, ..self }, Some(Part { text: behind, at }))
            }
            None => (self, None),
        }
    }
    fn skip(self, count: usize) -> Part<'a> {
        Part { text: &self.text[count..], at: self.at + count }
    }
    /// Returns the percent-decoded bytes.
    fn decode(self) -> Result<Vec<u8>, UriError> {
        let mut bytes = Vec::with_capacity(self.text.len());
        let mut characters = self.text.char_indices();
        while let Some((index, character)) = characters.next() {
            let rest = self.skip(index);
            match character {
                '%' => {
                    let digits = rest.text.get(1..3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                    let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                    let Some(byte) = byte else { return rest.error(UriErrorKind::Percent) };
                    bytes.push(byte);
                    characters.nth(1);
                }
                ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' | '\0'..='\x1f' | '\x7f' | '#' => {
                    return rest.error(UriErrorKind::Character(character));
                }
                _ => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Ok(bytes)
    }
    /// Returns the percent-decoded text.
    fn text(self) -> Result<String, UriError> {
        match String::from_utf8(self.decode()?) {
            Ok(text) if !text.contains('\0') => Ok(text),
            _ => self.error(UriErrorKind::NotText),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tcp,
    Unix,
    Vsock,
}

impl Uri {
    /// Parses a URI.
    pub fn parse(text: &str) -> Result<Uri, UriError> {
        Uri::parse_bytes(text).map_err(|UriError { at, kind }| {
            let at = text.char_indices().take_while(|(index, _)| *index < at).count();
            UriError { at, kind }
        })
    }

    /// Parses a URI. The position in an error is a byte offset.
    fn parse_bytes(text: &str) -> Result<Uri, UriError> {
        let whole = Part { text, at: 0 };
        let (scheme, Some(rest)) = whole.split(':') else { return whole.error(UriErrorKind::NoScheme) };
        // "Schemes are case-insensitive" (RFC 3986, 3.1).
        let (kind, tls) = match &scheme.text.to_ascii_lowercase()[..] {
            "nbd" => (Kind::Tcp, false),
            "nbds" => (Kind::Tcp, true),
            "nbd+unix" => (Kind::Unix, false),
            "nbds+unix" => (Kind::Unix, true),
            "nbd+vsock" => (Kind::Vsock, false),
            "nbds+vsock" => (Kind::Vsock, true),
            _ => return scheme.error(UriErrorKind::Scheme(scheme.text.to_owned())),
        };
        let (before, query) = rest.split('?');
        let (authority, path) = if before.text.starts_with("//") {
            let behind = before.skip(2);
            let end = behind.text.find('/').unwrap_or(behind.text.len());
            (Part { text: &behind.text[..end], ..behind }, behind.skip(end))
        } else {
            (Part { text: "", ..before }, before)
        };
        // "The path part of the URI except for the leading / character".
        let path = if path.text.starts_with('/') { path.skip(1) } else { path };
        let (user, address) = match authority.text.rfind('@') {
            Some(end) => (Some(Part { text: &authority.text[..end], ..authority }), authority.skip(end + 1)),
            None => (None, authority),
        };
        let transport = match kind {
            Kind::Tcp => tcp(address)?,
            Kind::Unix if !address.text.is_empty() => return address.error(UriErrorKind::Host),
            Kind::Unix => Transport::Unix { socket: Vec::new() },
            Kind::Vsock => vsock(address)?,
        };
        let mut uri = Uri {
            transport,
            tls,
            user: user.map(Part::text).transpose()?,
            export: path.text()?,
            tls_type: None,
            tls_hostname: None,
            tls_verify_peer: None,
            tls_certificates: None,
            experimental: Vec::new(),
        };
        let mut next = query.filter(|query| !query.text.is_empty());
        while let Some(query) = next {
            let (parameter, more) = query.split('&');
            uri.parameter(parameter)?;
            next = more;
        }
        if let Transport::Unix { socket } = &uri.transport
            && socket.is_empty()
        {
            return Err(UriError { at: text.len(), kind: UriErrorKind::NoSocket });
        }
        Ok(uri)
    }

    fn parameter(&mut self, parameter: Part<'_>) -> Result<(), UriError> {
        let (name, value) = parameter.split('=');
        let value = value.unwrap_or(Part { text: "", at: parameter.at + parameter.text.len() });
        let duplicate = || parameter.error(UriErrorKind::Duplicate(name.text.to_owned()));
        let set = |field: &mut Option<String>| {
            if field.is_some() {
                return duplicate();
            }
            *field = Some(value.text()?);
            Ok(())
        };
        match name.text {
            "socket" => match &mut self.transport {
                Transport::Unix { socket } if !socket.is_empty() => return duplicate(),
                Transport::Unix { socket } => *socket = value.decode()?,
                _ => return name.error(UriErrorKind::SocketParameter),
            },
            "tls-type" => {
                set(&mut self.tls_type)?;
                if !["anon", "x509", "psk"].contains(&self.tls_type.as_deref().unwrap_or_default()) {
                    return value
                        .error(UriErrorKind::Value { parameter: "tls-type", expected: "anon, x509 or psk" });
                }
            }
            "tls-hostname" => set(&mut self.tls_hostname)?,
            "tls-certificates" => set(&mut self.tls_certificates)?,
            "tls-verify-peer" if self.tls_verify_peer.is_some() => return duplicate(),
            "tls-verify-peer" => {
                self.tls_verify_peer = Some(match value.text {
                    "0" => false,
                    "1" => true,
                    _ => {
                        return value
                            .error(UriErrorKind::Value { parameter: "tls-verify-peer", expected: "0 or 1" });
                    }
                });
            }
            experimental if experimental.starts_with("x-") => {
                self.experimental.push((name.text()?, value.text()?));
            }
            unknown => return name.error(UriErrorKind::Parameter(unknown.to_owned())),
        }
        Ok(())
    }
}

/// Parses a host and an optional port, whose default is [`PORT`].
fn tcp(address: Part<'_>) -> Result<Transport, UriError> {
    let (host, port) = if address.text.starts_with('[') {
        let Some(end) = address.text.find(']') else { return address.error(UriErrorKind::Bracket) };
        let behind = address.skip(end + 1);
        let host = Part { text: &address.text[1..end], at: address.at + 1 };
        match behind.text.strip_prefix(':') {
            Some(_) => (host, Some(behind.skip(1))),
            None if behind.text.is_empty() => (host, None),
            None => return behind.error(UriErrorKind::Port(behind.text.to_owned())),
        }
    } else {
        address.split(':')
    };
    let port = match port.filter(|port| !port.text.is_empty()) {
        None => PORT,
        Some(port) => match number(port.text).and_then(|number| u16::try_from(number).ok()) {
            Some(number) => number,
            None => return port.error(UriErrorKind::Port(port.text.to_owned())),
        },
    };
    Ok(Transport::Tcp { host: host.text()?, port })
}

/// Parses a context identifier, whose default is the host, and an optional port.
fn vsock(address: Part<'_>) -> Result<Transport, UriError> {
    let (machine, port) = address.split(':');
    let cid = match machine.text {
        "" => Some(2),
        text => number(text),
    };
    let Some(cid) = cid else { return machine.error(UriErrorKind::Cid(machine.text.to_owned())) };
    let port = match port.filter(|port| !port.text.is_empty()) {
        None => PORT.into(),
        Some(port) => match number(port.text) {
            Some(number) => number,
            None => return port.error(UriErrorKind::Port(port.text.to_owned())),
        },
    };
    Ok(Transport::Vsock { cid, port })
}

/// Parses a decimal number. Unlike `str::parse`, rejects a plus sign.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "nbds" } else { "nbd" })?;
        f.write_str(match self.transport {
            Transport::Tcp { .. } => "://",
            Transport::Unix { .. } => "+unix://",
            Transport::Vsock { .. } => "+vsock://",
        })?;
        if let Some(user) = &self.user {
            encode(f, user.as_bytes(), "")?;
            f.write_char('@')?;
        }
        match &self.transport {
            Transport::Tcp { host, port } => {
                if host.contains(':') {
                    // The percent sign before the zone of an address is encoded as well (RFC 6874).
                    f.write_char('[')?;
                    encode(f, host.as_bytes(), ":")?;
                    f.write_char(']')?;
                } else {
                    encode(f, host.as_bytes(), "")?;
                }
                if *port != PORT {
                    write!(f, ":{port}")?;
                }
            }
            Transport::Unix { .. } => {}
            Transport::Vsock { cid, port } => write!(f, "{cid}:{port}")?,
        }
        f.write_char('/')?;
        encode(f, self.export.as_bytes(), "/:")?;
        let mut separator = '?';
        let mut parameter = |f: &mut fmt::Formatter<'_>, name: &str, value: &[u8]| {
            f.write_char(core::mem::replace(&mut separator, '&'))?;
            encode(f, name.as_bytes(), "")?;
            f.write_char('=')?;
            encode(f, value, "/:")
        };
        if let Transport::Unix { socket } = &self.transport {
            parameter(f, "socket", socket)?;
        }
        let known = [
            ("tls-type", &self.tls_type),
            ("tls-hostname", &self.tls_hostname),
            ("tls-certificates", &self.tls_certificates),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                parameter(f, name, value.as_bytes())?;
            }
        }
        if let Some(verify) = self.tls_verify_peer {
            parameter(f, "tls-verify-peer", if verify { b"1" } else { b"0" })?;
        }
        for (name, value) in &self.experimental {
            parameter(f, name, value.as_bytes())?;
        }
        Ok(())
    }
}

/// Writes percent-encoded bytes. "Unreserved" bytes (RFC 3986, 2.3) and the bytes in `also` are written unchanged.
fn encode(f: &mut fmt::Formatter<'_>, bytes: &[u8], also: &str) -> fmt::Result {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || also.as_bytes().contains(byte) {
            f.write_char((*byte).into())?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}
