//! Listening addresses of a server, and the NBD URIs of exports at these addresses.

use flashlab_nbd::uri::{Transport, Uri};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use vsock::{VMADDR_CID_ANY, VMADDR_CID_HOST};

/// An address on which a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A Unix socket in the filesystem.
    Unix(PathBuf),
    /// A Unix socket in Linux's abstract namespace. It has no file, and it disappears with the process.
    Abstract(Vec<u8>),
    /// A TCP address; port 0 selects a free port.
    Tcp(SocketAddr),
    /// A vsock port (vsock(7)), through which a virtual machine and its host communicate without a network.
    Vsock {
        /// Context identifier on which the server listens. `None` accepts connections to any identifier of this
        /// machine.
        cid: Option<u32>,
        /// The port.
        port: u32,
    },
}

impl Address {
    /// Returns the URI of `export` at this address.
    pub fn uri(&self, export: &str) -> Uri {
        let transport = match self {
            Address::Unix(path) => Transport::Unix { socket: path.as_os_str().as_encoded_bytes().to_vec() },
            Address::Abstract(name) => Transport::Unix { socket: [&[0], &name[..]].concat() },
            Address::Tcp(address) => {
                let ip = address.ip();
                // A server that listens on all interfaces is reachable from this machine as localhost.
                let host = match address {
                    _ if ip.is_unspecified() => "localhost".to_owned(),
                    // A link-local address needs the number of its interface.
                    SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{ip}%{}", v6.scope_id()),
                    _ => ip.to_string(),
                };
                Transport::Tcp { host, port: address.port() }
            }
            // Without an identifier, a guest uses its own identifier. A host uses the identifier by which its guests
            // reach it.
            Address::Vsock { cid, port } => {
                let own = || vsock::get_local_cid().ok().filter(|cid| *cid != VMADDR_CID_ANY);
                Transport::Vsock { cid: cid.or_else(own).unwrap_or(VMADDR_CID_HOST), port: *port }
            }
        };
        Uri {
            transport,
            tls: false,
            user: None,
            export: export.to_owned(),
            tls_type: None,
            tls_hostname: None,
            tls_verify_peer: None,
            tls_certificates: None,
            experimental: Vec::new(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => path.display().fmt(f),
            Address::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
            Address::Tcp(address) => address.fmt(f),
            Address::Vsock { cid: Some(cid), port } => write!(f, "vsock {cid}:{port}"),
            Address::Vsock { cid: None, port } => write!(f, "vsock port {port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_its_uri() {
        let unix = Address::Unix("/run/a dir?&%/s\u{fc}".into()).uri("n\u{e4}me #1");
        assert_eq!(Uri::parse(&unix.to_string()), Ok(unix));
        let named = Address::Abstract(b"card".to_vec()).uri("");
        assert_eq!(named.to_string(), "nbd+unix:///?socket=%00card");
        let tcp = |text: &str| Address::Tcp(text.parse().expect("an address")).uri("x").to_string();
        assert_eq!(tcp("0.0.0.0:10809"), "nbd://localhost/x");
        assert_eq!(tcp("[::1]:5"), "nbd://[::1]:5/x");
        assert_eq!(tcp("127.0.0.1:10809"), "nbd://127.0.0.1/x");
        let zone = Address::Tcp("[fe80::1%3]:5".parse().expect("an address")).uri("x");
        assert_eq!(zone.to_string(), "nbd://[fe80::1%253]:5/x");
        assert_eq!(Uri::parse(&zone.to_string()), Ok(zone));
        let vsock = Address::Vsock { cid: Some(3), port: 10809 }.uri("x");
        assert_eq!(Uri::parse(&vsock.to_string()), Ok(vsock));
    }
}
