//! TCP addresses on which a server listens.

use crate::failure::Failure;
use std::net::{SocketAddr, ToSocketAddrs};

/// Parses `port`, `:port`, `host:port` or `[address]:port`. A host without a port gets `port`, the protocol's default.
pub(crate) fn tcp(option: &str, text: &str, port: u16) -> Result<SocketAddr, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "{option} {text}: {why}; expected PORT or HOST:PORT, for example 127.0.0.1:{port}"
        ))
    };
    let with_host = match text.strip_prefix(':').unwrap_or(text) {
        port if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("localhost:{port}"),
        host if host.ends_with(']') || !host.contains(':') => format!("{host}:{port}"),
        whole => whole.to_owned(),
    };
    let mut found = with_host.to_socket_addrs().map_err(|error| wrong(&error))?;
    // Prefers an IPv4 address, such as that of localhost: a client that tries IPv6 first falls back to IPv4.
    let all: Vec<SocketAddr> = found.by_ref().collect();
    let first = all.iter().find(|address| address.is_ipv4()).or(all.first());
    first.copied().ok_or_else(|| wrong(&"no such host"))
}
