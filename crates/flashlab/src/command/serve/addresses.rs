//! Parsing of the addresses on which a server listens.

use super::Options;
use crate::failure::Failure;
pub(in crate::command) use crate::tcp::tcp;
use flashlab_serve::uri::PORT;
use flashlab_serve::{Address, PrivateSocket};

/// Returns the addresses to listen on, and the private socket if there is one. Dropping the private socket removes it.
pub(super) fn addresses(options: &Options) -> Result<(Vec<Address>, Option<PrivateSocket>), Failure> {
    let mut addresses = Vec::new();
    let mut private = None;
    for path in &options.unix {
        match path.as_os_str().as_encoded_bytes() {
            b"-" if private.is_some() => {
                return Err(Failure::usage("--unix - is given twice; one private socket is enough"));
            }
            b"-" => addresses.push(private.insert(private_socket()?).address()),
            b"" => return Err(Failure::usage("--unix: the path is empty")),
            _ => addresses.push(Address::Unix(std::path::absolute(path).map_err(|e| Failure::io(path, &e))?)),
        }
    }
    for name in &options.abstract_ {
        if name.is_empty() {
            return Err(Failure::usage("--abstract: the name is empty"));
        }
        addresses.push(Address::Abstract(name.clone().into_bytes()));
    }
    for text in &options.tcp {
        addresses.push(Address::Tcp(tcp("--tcp", text, PORT)?));
    }
    for text in &options.vsock {
        addresses.push(vsock(text)?);
    }
    if addresses.is_empty() && options.run.is_some() {
        addresses.push(private.insert(private_socket()?).address());
    }
    Ok((addresses, private))
}

pub(in crate::command) fn private_socket() -> Result<PrivateSocket, Failure> {
    PrivateSocket::new().map_err(|error| Failure::io(&std::env::temp_dir(), &error))
}

/// Parses `port` or `cid:port`.
fn vsock(text: &str) -> Result<Address, Failure> {
    let (cid, port) = text.split_once(':').map_or((None, text), |(cid, port)| (Some(cid), port));
    match (cid.map(str::parse).transpose(), port.parse()) {
        (Ok(cid), Ok(port)) => Ok(Address::Vsock { cid, port }),
        _ => Err(Failure::usage(format!("--vsock {text}: expected PORT or CID:PORT, for example 10809"))),
    }
}
