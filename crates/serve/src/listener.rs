//! Listening sockets, and connecting to servers.

use crate::link::Link;
use crate::{Address, Stop};
use flashlab_nbd::uri::Transport;
use flashlab_sim::Duration;
use listenfd::ListenFd;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, sockopt,
};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time;
use tracing::warn;
use vsock::{VMADDR_CID_ANY, VsockListener, VsockStream};

/// Pause after accepting failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_ms(100);

/// Maximum number of clients that wait to be accepted, as in the standard library.
const BACKLOG: i32 = 128;

/// By default, Linux notices a vanished peer after 2 h 11 min of idleness or 15 min of retransmissions. With
/// these settings, Linux notices it after two minutes.
const IDLE_BEFORE_PROBES: time::Duration = time::Duration::from_secs(60);
const BETWEEN_PROBES: time::Duration = time::Duration::from_secs(10);
const PROBES: u32 = 6;
const UNACKNOWLEDGED_MAX: time::Duration = time::Duration::from_secs(120);

/// A listening socket. Dropping it removes its socket file, if it has one.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    /// Socket file to remove on drop.
    file: Option<PathBuf>,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
    Vsock(VsockListener),
}

impl Listener {
    /// Listens on an address. Replaces a socket file on which no process listens any more.
    pub fn bind(address: &Address) -> io::Result<Listener> {
        let (socket, file) = match address {
            Address::Unix(path) => {
                remove_stale(path)?;
                (Socket::Unix(UnixListener::bind(path)?), Some(path.clone()))
            }
            Address::Abstract(name) => {
                (Socket::Unix(UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?), None)
            }
            Address::Tcp(address) => (Socket::Tcp(TcpListener::bind(address)?), None),
            Address::Vsock { cid, port } => {
                let cid = cid.unwrap_or(VMADDR_CID_ANY);
                (Socket::Vsock(VsockListener::bind_with_cid_port(cid, *port)?), None)
            }
        };
        Listener { socket, file }.into_nonblocking()
    }

    /// Listens on a Unix socket in the filesystem to which only its owner may connect.
    pub(crate) fn bind_private(path: &Path) -> io::Result<Listener> {
        remove_stale(path)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let listener = Listener { socket: Socket::Unix(socket.into()), file: Some(path.to_owned()) };
        // Nobody can connect before the socket listens, so the mode that `bind` gives the file has no effect.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listen(&listener, BACKLOG)?;
        listener.into_nonblocking()
    }

    /// Returns the sockets that a service manager passed to this process (systemd's LISTEN_PID and LISTEN_FDS,
    /// sd_listen_fds(3)); an empty list without a service manager. Must be called once, before threads are started.
    pub fn inherited() -> io::Result<Vec<Listener>> {
        let mut fds = ListenFd::from_env();
        let all = 0..fds.len();
        let take = |index| {
            let unix = fds.take_unix_listener(index).map(|socket| socket.map(Socket::Unix));
            let socket =
                unix.or_else(|_| fds.take_tcp_listener(index).map(|socket| socket.map(Socket::Tcp)))?;
            let socket = socket.expect("each inherited socket is taken once");
            Listener { socket, file: None }.into_nonblocking()
        };
        all.map(take).collect()
    }

    /// Makes the socket non-blocking, because a client may disconnect before it is accepted.
    fn into_nonblocking(self) -> io::Result<Listener> {
        match &self.socket {
            Socket::Unix(socket) => socket.set_nonblocking(true)?,
            Socket::Tcp(socket) => socket.set_nonblocking(true)?,
            Socket::Vsock(socket) => socket.set_nonblocking(true)?,
        }
        Ok(self)
    }

    /// Returns the address on which the socket listens. Port 0 is replaced by the allocated port.
    pub fn address(&self) -> io::Result<Address> {
        match &self.socket {
            Socket::Tcp(socket) => Ok(Address::Tcp(socket.local_addr()?)),
            Socket::Vsock(socket) => {
                let address = socket.local_addr()?;
                let cid = Some(address.cid()).filter(|cid| *cid != VMADDR_CID_ANY);
                Ok(Address::Vsock { cid, port: address.port() })
            }
            Socket::Unix(socket) => {
                let address = socket.local_addr()?;
                let named = address.as_pathname().map(|path| Address::Unix(path.to_owned()));
                let named = named.or_else(|| Some(Address::Abstract(address.as_abstract_name()?.to_vec())));
                named.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "the socket has no name"))
            }
        }
    }

    /// Returns true if accepting failed only because the client has gone.
    pub(crate) fn is_client_gone(error: &io::Error) -> bool {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        matches!(error.kind(), WouldBlock | ConnectionAborted | Interrupted)
    }

    /// Logs that accepting failed for lack of descriptors or memory, and waits before the next attempt.
    pub(crate) fn pause(error: &io::Error, stop: &Stop) {
        warn!(%error, "cannot accept");
        stop.wait_up_to(ACCEPT_PAUSE);
    }

    /// Accepts the next connection to a Unix socket. The returned stream blocks.
    pub(crate) fn accept_unix(&self) -> io::Result<Option<UnixStream>> {
        let Socket::Unix(socket) = &self.socket else { return Ok(None) };
        match socket.accept() {
            Ok((stream, _)) => stream.set_nonblocking(false).map(|()| Some(stream)),
            Err(error) if Listener::is_client_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Accepts the next client and returns its address; `None` if no client waits any more.
    pub(crate) fn accept(&self) -> io::Result<Option<(Link, String)>> {
        Ok(self.accept_socket()?.map(|(socket, from)| (Link::socket(socket), from)))
    }

    /// Like [`Listener::accept`], but returns the bare socket.
    pub(crate) fn accept_socket(&self) -> io::Result<Option<(OwnedFd, String)>> {
        let accepted = match &self.socket {
            Socket::Unix(socket) => {
                socket.accept().map(|(stream, _)| (OwnedFd::from(stream), "unix".to_owned()))
            }
            Socket::Tcp(socket) => socket.accept().map(|(stream, from)| {
                // With Nagle's algorithm, a small reply could wait for the acknowledgement of the previous one.
                let _ = stream.set_nodelay(true);
                detect_dead_peer(&stream);
                (OwnedFd::from(stream), from.to_string())
            }),
            Socket::Vsock(socket) => socket.accept().and_then(|(stream, from)| {
                stream.set_nonblocking(false)?;
                Ok((stream.as_fd().try_clone_to_owned()?, format!("vsock {}:{}", from.cid(), from.port())))
            }),
        };
        match accepted {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if Listener::is_client_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Vsock(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            // Another process may have removed the file already.
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes the kernel end a TCP connection whose peer has vanished: after [`PROBES`] unanswered probes of an idle
/// connection, or after [`UNACKNOWLEDGED_MAX`] with unacknowledged bytes.
pub(crate) fn detect_dead_peer(socket: &impl AsFd) {
    // A system that does not support an option keeps its default.
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, IDLE_BEFORE_PROBES);
    let _ = sockopt::set_tcp_keepintvl(socket, BETWEEN_PROBES);
    let _ = sockopt::set_tcp_keepcnt(socket, PROBES);
    let _ = sockopt::set_tcp_user_timeout(socket, UNACKNOWLEDGED_MAX.as_millis() as u32);
}

/// Removes a socket file on which no process listens any more, for example because its server was killed. Files of
/// another type and the socket of a running server remain.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(is_refused) {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Connects to a server.
pub(crate) fn connect(transport: &Transport) -> io::Result<Link> {
    let socket: OwnedFd = match transport {
        Transport::Unix { socket } => match socket.strip_prefix(&[0]) {
            Some(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?.into(),
            None => UnixStream::connect(OsStr::from_bytes(socket))?.into(),
        },
        Transport::Tcp { host, port } => {
            let host = if host.is_empty() { "localhost" } else { host.as_str() };
            let stream = TcpStream::connect((host, *port))?;
            stream.set_nodelay(true)?;
            detect_dead_peer(&stream);
            stream.into()
        }
        Transport::Vsock { cid, port } => {
            VsockStream::connect_with_cid_port(*cid, *port)?.as_fd().try_clone_to_owned()?
        }
    };
    Ok(Link::socket(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_socket_belongs_to_its_owner_alone() {
        let path = std::env::temp_dir().join(format!("flashlab-listener-{}", std::process::id()));
        let listener = Listener::bind_private(&path).expect("the path is free");
        let mode = fs::metadata(&path).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let _client = UnixStream::connect(&path).expect("it listens");
        assert!(listener.accept_unix().expect("it accepts").is_some());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn keepalive_detects_a_vanished_tcp_peer() {
        let address = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
        let listener = Listener::bind(&address).expect("there is a free port");
        let Ok(Address::Tcp(address)) = listener.address() else { panic!("it has an address") };
        let client = TcpStream::connect(address).expect("the address listens");
        let (server, _) =
            listener.accept_socket().expect("the listener accepts").expect("a client has connected");
        assert_eq!(sockopt::socket_keepalive(&server), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&server), Ok(IDLE_BEFORE_PROBES));
        assert_eq!(sockopt::tcp_keepintvl(&server), Ok(BETWEEN_PROBES));
        assert_eq!(sockopt::tcp_keepcnt(&server), Ok(PROBES));
        assert_eq!(sockopt::tcp_user_timeout(&server), Ok(120_000));
        drop(client);
    }
}
