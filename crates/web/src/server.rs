//! The listening socket, and the two threads of the server: one for all connections, and one for the subject.

use crate::access::Token;
use crate::body::Slot;
use crate::routes::Shared;
use crate::stalling::Stalling;
use crate::{Limits, Stop, Subject, owner};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::net::TcpStream;

/// Maximum length in bytes of the head of a request.
const HEAD_MAX: usize = 16 << 10;
/// Maximum number of header fields of a request.
const HEADERS_MAX: usize = 64;
/// Pause after an error of the listening socket, such as a lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listening HTTP server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    token: Token,
    limits: Limits,
}

impl Server {
    /// Listens on a TCP address; port 0 selects a free port.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used, or if the system has no random numbers for a token.
    pub fn bind(address: SocketAddr, limits: Limits) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener, token: Token::random()?, limits })
    }

    /// Returns the address on which the server listens.
    ///
    /// # Errors
    /// Returns an error if the system does not know the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the token that commands need.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Returns the URL of the page, with the token.
    ///
    /// # Errors
    /// Returns an error if the system does not know the address.
    pub fn url(&self) -> io::Result<String> {
        let mut address = self.address()?;
        // A browser cannot connect to the address for all interfaces.
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        Ok(format!("http://{address}/#token={}", self.token.as_str()))
    }

    /// Serves `subject` until `stop` is thrown. The calling thread owns the subject.
    ///
    /// # Errors
    /// Returns an error if the runtime or the thread of the connections cannot start, or if the thread cannot use the
    /// listening socket.
    pub fn serve(self, subject: &mut dyn Subject, stop: &Stop) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (calls, owner) = owner::channels(self.limits.tick);
        let shared = Arc::new(Shared {
            calls,
            token: self.token,
            limits: self.limits,
            has_page: subject.has_page(),
            streams: Arc::new(AtomicUsize::new(0)),
        });
        let listener = self.listener;
        std::thread::scope(|scope| {
            let connections = std::thread::Builder::new()
                .name("http".to_owned())
                .spawn_scoped(scope, || runtime.block_on(accept_until(listener, shared, stop)))?;
            // If the thread of the connections ends early, the owner ends too, and the error is returned at once.
            owner.run(subject, stop);
            connections.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

async fn accept_until(listener: TcpListener, shared: Arc<Shared>, stop: &Stop) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match stop.unless_thrown(listener.accept()).await {
            None => return Ok(()),
            Some(Ok((stream, _))) => {
                // Without a free place, dropping the stream closes the connection.
                if let Some(slot) = Slot::take(&open, shared.limits.connections) {
                    tokio::spawn(serve_connection(stream, shared.clone(), slot));
                }
            }
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>, slot: Slot) {
    // Small events should not wait for each other.
    let _ = stream.set_nodelay(true);
    let limits = shared.limits;
    let io = TokioIo::new(Stalling::new(stream, limits.stall));
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    // A client that disconnects, sends nonsense or stalls is a normal event.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(HEAD_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(io, service)
        .await;
    drop(slot);
}
