//! Where a server listens, and the URIs that lead there (the NBD URI specification, `doc/uri.md`).

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A Unix socket in the filesystem.
    Unix(PathBuf),
    /// A Unix socket with a name of Linux' own, without a file: it goes with the process.
    Abstract(Vec<u8>),
    /// A TCP port; port 0 takes a free one.
    Tcp(SocketAddr),
}

/// The port that is NBD's.
pub const PORT: u16 = 10809;

impl Address {
    /// The URI of `export` there.
    pub fn uri(&self, export: &str) -> String {
        let export = escape(export.as_bytes());
        match self {
            Address::Unix(path) => {
                let path = escape(path.as_os_str().as_encoded_bytes());
                format!("nbd+unix:///{export}?socket={path}")
            }
            Address::Abstract(name) => format!("nbd+unix:///{export}?socket=%00{}", escape(name)),
            Address::Tcp(address) => {
                let host = match address.ip() {
                    ip if !ip.is_unspecified() => SocketAddr::new(ip, address.port()).to_string(),
                    _ => format!("localhost:{}", address.port()),
                };
                let host = host.strip_suffix(&format!(":{PORT}")).unwrap_or(&host);
                format!("nbd://{host}/{export}")
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => path.display().fmt(f),
            Address::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

/// Percent-encodes what a URI cannot have; slashes stay.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(char::from(byte))
            }
            _ => write!(text, "%{byte:02X}").expect("a string takes all"),
        }
    }
    text
}

/// Where a URI leads: a server, and which of its exports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uri {
    /// The server.
    pub server: Peer,
    /// The export's name; empty for the default one.
    pub export: String,
}

/// A server as a client names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A Unix socket in the filesystem.
    Unix(PathBuf),
    /// A Unix socket with a name of Linux' own.
    Abstract(Vec<u8>),
    /// A host, by name or number, and a port.
    Tcp(String, u16),
}

/// Why a text is no URI that can be followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UriError {
    uri: String,
    problem: UriProblem,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum UriProblem {
    Scheme(String),
    Tls,
    NoSocket,
    SocketTwice,
    Host,
    Port(String),
    Escape(String),
    Name,
    Parameter(String),
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = &self.uri;
        match &self.problem {
            UriProblem::Scheme(scheme) => write!(
                f,
                "{uri}: {scheme:?} is no NBD scheme; expected nbd://HOST[:PORT]/EXPORT or \
                 nbd+unix:///EXPORT?socket=PATH"
            ),
            UriProblem::Tls => write!(f, "{uri}: TLS is not spoken here; expected nbd:// or nbd+unix://"),
            UriProblem::NoSocket => write!(f, "{uri}: no socket; write nbd+unix:///EXPORT?socket=PATH"),
            UriProblem::SocketTwice => write!(f, "{uri}: more than one socket"),
            UriProblem::Host => {
                write!(f, "{uri}: the host is missing or malformed; write nbd://HOST[:PORT]/EXPORT")
            }
            UriProblem::Port(port) => write!(f, "{uri}: {port:?} is no port; expected 1 to 65535"),
            UriProblem::Escape(at) => {
                write!(f, "{uri}: {at:?} is not two hexadecimal digits after a percent sign")
            }
            UriProblem::Name => write!(f, "{uri}: the export's name is not UTF-8"),
            UriProblem::Parameter(name) => {
                write!(f, "{uri}: the parameter {name:?} is not understood; expected socket")
            }
        }
    }
}

impl std::error::Error for UriError {}

impl std::str::FromStr for Uri {
    type Err = UriError;
    fn from_str(text: &str) -> Result<Uri, UriError> {
        parse(text).map_err(|problem| {
            let mut uri: String = text.chars().take(100).collect();
            uri.retain(|c| !c.is_control());
            UriError { uri, problem }
        })
    }
}

fn parse(text: &str) -> Result<Uri, UriProblem> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| UriProblem::Scheme(first(text, ':')))?;
    let unix = match scheme.to_ascii_lowercase().as_str() {
        "nbd" => false,
        "nbd+unix" => true,
        "nbds" | "nbds+unix" => return Err(UriProblem::Tls),
        other => return Err(UriProblem::Scheme(other.to_owned())),
    };
    let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
    let (hierarchy, query) = rest.split_once('?').unwrap_or((rest, ""));
    // With a question mark straight behind the authority there is no slash: nbd+unix://?socket=...
    let (authority, path) = hierarchy.split_once('/').unwrap_or((hierarchy, ""));
    let mut socket = None;
    for (name, value) in
        query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, "")))
    {
        match name {
            "socket" if socket.is_some() => return Err(UriProblem::SocketTwice),
            "socket" => socket = Some(unescape(value)?),
            // Of libnbd's own parameters these ask for nothing that is not done here.
            "tls-verify-peer" | "tls-hostname" => {}
            other => return Err(UriProblem::Parameter(first(other, '='))),
        }
    }
    let export = String::from_utf8(unescape(path)?).map_err(|_| UriProblem::Name)?;
    let server = match (unix, socket) {
        (true, Some(socket)) => match socket.split_first() {
            Some((0, name)) if !name.is_empty() => Peer::Abstract(name.to_vec()),
            Some((1.., _)) => {
                use std::os::unix::ffi::OsStringExt;
                Peer::Unix(std::ffi::OsString::from_vec(socket).into())
            }
            _ => return Err(UriProblem::NoSocket),
        },
        (true, None) => return Err(UriProblem::NoSocket),
        (false, _) => host(authority)?,
    };
    Ok(Uri { server, export })
}

/// `host`, `host:port`, `[::1]:port`, with a user before an at sign, which means nothing without TLS.
fn host(authority: &str) -> Result<Peer, UriProblem> {
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']').ok_or(UriProblem::Host)?;
            (name, rest.strip_prefix(':').or(rest.is_empty().then_some("")).ok_or(UriProblem::Host)?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let name = String::from_utf8(unescape(name)?).map_err(|_| UriProblem::Host)?;
    if name.is_empty() {
        return Err(UriProblem::Host);
    }
    let port = match port {
        "" => PORT,
        port => {
            port.parse().ok().filter(|port| *port > 0).ok_or_else(|| UriProblem::Port(first(port, '/')))?
        }
    };
    Ok(Peer::Tcp(name, port))
}

/// What a message quotes of a text that may be long.
fn first(text: &str, until: char) -> String {
    text.split(until).next().unwrap_or_default().chars().take(40).collect()
}

fn unescape(text: &str) -> Result<Vec<u8>, UriProblem> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let wrong = || UriProblem::Escape(String::from_utf8_lossy(&after[..after.len().min(2)]).into_owned());
        let digit = |at: usize| after.get(at).and_then(|b| char::from(*b).to_digit(16)).ok_or_else(wrong);
        bytes.push((digit(0)? * 16 + digit(1)?) as u8);
        rest = &after[2..];
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn uris_as_the_specification_shows_them_lead_where_it_says() {
        let tcp = |host: &str, port, export: &str| Uri {
            server: Peer::Tcp(host.into(), port),
            export: export.into(),
        };
        assert_eq!(uri("nbd://localhost"), tcp("localhost", 10809, ""));
        assert_eq!(uri("nbd://example.com/export"), tcp("example.com", 10809, "export"));
        assert_eq!(uri("nbd://[::1]:1234/a%20b/c"), tcp("::1", 1234, "a b/c"));
        assert_eq!(uri("NBD://user@host:1/"), tcp("host", 1, ""));
        let unix = |path: &str, export: &str| Uri { server: Peer::Unix(path.into()), export: export.into() };
        assert_eq!(uri("nbd+unix:///name?socket=/run/nbd.sock"), unix("/run/nbd.sock", "name"));
        assert_eq!(uri("nbd+unix://?socket=/run/a%25b"), unix("/run/a%b", ""));
        assert_eq!(uri("nbd+unix:///?socket=relative"), unix("relative", ""));
        assert_eq!(uri("nbd+unix:///?socket=%00name").server, Peer::Abstract(b"name".to_vec()));
    }

    #[test]
    fn what_is_no_uri_is_said_why() {
        let refused = |text: &str| text.parse::<Uri>().expect_err(text).to_string();
        for (text, why) in [
            ("", "is no NBD scheme"),
            ("localhost:10809", "is no NBD scheme"),
            ("http://host/", "is no NBD scheme"),
            ("nbds://host/", "TLS"),
            ("nbd+unix:///name", "no socket"),
            ("nbd+unix:///?socket=", "no socket"),
            ("nbd+unix:///?socket=%00", "no socket"),
            ("nbd+unix:///?socket=a&socket=b", "more than one"),
            ("nbd:///name", "host"),
            ("nbd://[::1/name", "host"),
            ("nbd://host:0/", "no port"),
            ("nbd://host:99999/", "no port"),
            ("nbd://host/%2", "hexadecimal"),
            ("nbd://host/%\u{e9}9", "hexadecimal"),
            ("nbd://host/%ff", "UTF-8"),
            ("nbd://host/?sock=a", "not understood"),
        ] {
            assert!(refused(text).contains(why), "{}", refused(text));
        }
    }

    #[test]
    fn the_uri_of_an_address_leads_back_to_it() {
        let address = Address::Unix("/tmp/a dir?&%/s\u{fc}".into());
        let back = uri(&address.uri("n\u{e4}me #1"));
        assert_eq!(
            back,
            Uri { server: Peer::Unix("/tmp/a dir?&%/s\u{fc}".into()), export: "n\u{e4}me #1".into() }
        );
        let back = uri(&Address::Abstract(b"a\0b".to_vec()).uri(""));
        assert_eq!(back.server, Peer::Abstract(b"a\0b".to_vec()));
        let tcp = |text: &str| Address::Tcp(text.parse().expect("an address")).uri("x");
        assert_eq!(tcp("0.0.0.0:10809"), "nbd://localhost/x");
        assert_eq!(tcp("[::1]:5"), "nbd://[::1]:5/x");
        assert_eq!(tcp("127.0.0.1:10809"), "nbd://127.0.0.1/x");
    }
}
