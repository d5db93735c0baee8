//! The byte stream of one connection: a socket or a pair of pipes, in the clear or under TLS. This module makes and
//! counts all system calls that move bytes.

use crate::Clock;
use crate::listener::detect_dead_peer;
use crate::rate::{Direction, LeastRate, Progress};
use crate::tls::{Connection, Secure};
use flashlab_sim::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Requested size of a socket's send buffer in bytes, so that the kernel accepts a whole batch of replies in one
/// call.
const SOCKET_BUFFER: usize = 2 << 20;

/// Maximum number of slices per call (Linux's UIO_MAXIOV).
const SLICES_MAX: usize = 1024;

/// Maximum time until the next attempt to send. Linux reports a Unix socket as writable only when most of its buffer is
/// empty, although the socket accepts bytes earlier.
const RETRY: Duration = Duration::from_ms(500);

/// Work that continues while a socket is full. A request in flight may hold a lock for which other connections wait.
pub(crate) trait Meanwhile {
    /// Returns a descriptor that is readable when there is work.
    fn event(&self) -> Option<BorrowedFd<'_>>;
    /// Returns the time until work is due even if the descriptor is not readable.
    fn due(&self) -> Option<Duration>;
    /// Does the work that is due.
    fn go_on(&mut self);
}

/// No work.
pub(crate) struct NoWork;

impl Meanwhile for NoWork {
    fn event(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn due(&self) -> Option<Duration> {
        None
    }
    fn go_on(&mut self) {}
}

/// The two directions of a connection. A socket uses the same file for both.
#[derive(Debug)]
pub(crate) struct Link {
    input: Arc<File>,
    output: Arc<File>,
    socket: bool,
    tls: Option<Box<Secure>>,
    least_rate: Option<LeastRate>,
    /// Time that [`Link::receive`] waits for bytes; `None` waits indefinitely.
    timeout: Option<Duration>,
    /// Number of system calls that moved or waited for bytes.
    pub(crate) calls: u64,
}

/// A handle that closes a connection from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Hangup(Arc<File>);

impl Link {
    /// Creates a link over a connected socket.
    pub(crate) fn socket(socket: OwnedFd) -> Link {
        // Larger buffers only save system calls. The kernel may reject or halve the size.
        if sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER);
        }
        let file = Arc::new(File::from(socket));
        Link::new(file.clone(), file, true)
    }

    /// Creates a link over an inherited input and output, which may be the same socket or two pipes.
    pub(crate) fn pair(input: OwnedFd, output: OwnedFd) -> Link {
        if rustix::net::getsockname(&input).is_ok() {
            detect_dead_peer(&input);
            return Link::socket(input);
        }
        Link::new(Arc::new(input.into()), Arc::new(output.into()), false)
    }

    fn new(input: Arc<File>, output: Arc<File>, socket: bool) -> Link {
        Link { input, output, socket, tls: None, least_rate: None, timeout: None, calls: 0 }
    }

    /// Makes [`Link::send`] fail if the peer receives bytes more slowly than `least`, and makes
    /// [`Link::receive`] return [`WouldBlock`](io::ErrorKind::WouldBlock) if no data has arrived for
    /// `timeout`. Pipes are not limited: they have a single client, and the server waits for it indefinitely.
    pub(crate) fn limit(&mut self, least: LeastRate, timeout: Duration) -> io::Result<()> {
        if self.socket {
            // The kernel enforces the time-out, so the number of system calls that receive bytes stays the
            // same.
            let time = |duration: Duration| Some(std::time::Duration::from_nanos(duration.as_ns()));
            sockopt::set_socket_timeout(&*self.input, Timeout::Recv, time(timeout))?;
            (self.least_rate, self.timeout) = (Some(least), Some(timeout));
        }
        Ok(())
    }

    /// Returns true if the link is a socket rather than a pair of pipes.
    pub(crate) fn is_socket(&self) -> bool {
        self.socket
    }

    /// Returns a handle on which another thread can wait for bytes.
    pub(crate) fn input(&self) -> Arc<File> {
        self.input.clone()
    }

    /// Returns a handle that ends the connection from another thread; `None` for pipes.
    pub(crate) fn hangup(&self) -> Option<Hangup> {
        self.socket.then(|| Hangup(self.input.clone()))
    }

    /// Performs the TLS handshake, and encrypts all further bytes. Fails if the handshake is not complete at `until`.
    pub(crate) fn start_tls(
        &mut self,
        connection: Connection,
        now: impl Fn() -> Instant,
        until: Instant,
    ) -> io::Result<()> {
        let mut tls = Secure::new(connection);
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long");
        loop {
            while tls.wants_to_send() {
                if !self.wait_to_send(until.saturating_since(now()))? {
                    return Err(late());
                }
                self.calls += 1;
                ignore_full(tls.send(&mut NonBlocking(&self.output, self.socket)))?;
            }
            if !tls.is_handshaking() {
                self.tls = Some(Box::new(tls));
                return Ok(());
            }
            if !tls.has_received() {
                if self.wait(None, Some(until.saturating_since(now())))?.timed_out {
                    return Err(late());
                }
                if !tls.receive(|into| self.receive_plain(into))? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            if let Err(error) = tls.process() {
                // The alert tells the peer the reason, if it still reads.
                let _ = tls.send(&mut NonBlocking(&self.output, self.socket));
                return Err(error);
            }
        }
    }

    /// Waits for the first byte, and receives the available bytes, up to the length of `into`. Zero means that the
    /// peer has closed the connection.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(mut tls) = self.tls.take() else { return self.receive_plain(into) };
        let received = self.receive_tls(&mut tls, into);
        self.tls = Some(tls);
        received
    }

    fn receive_tls(&mut self, tls: &mut Secure, into: &mut [u8]) -> io::Result<usize> {
        let mut clock = None;
        loop {
            match tls.decrypt(into)? {
                Some(0) => {}
                received => return Ok(received.unwrap_or(0)),
            }
            // A peer that sends a TLS record byte by byte has delivered no data yet.
            let waited = clock.get_or_insert_with(Clock::start).now().since(Instant::ZERO);
            if self.timeout.is_some_and(|timeout| waited >= timeout) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if !tls.receive(|into| self.receive_plain(into))? {
                return Ok(0);
            }
        }
    }

    fn receive_plain(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.calls += 1;
            match (&*self.input).read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Sends all of `parts`, in one call if the socket accepts them. While a socket with a minimum rate is full,
    /// `meanwhile` does its work.
    pub(crate) fn send(
        &mut self,
        mut parts: &mut [IoSlice<'_>],
        meanwhile: &mut dyn Meanwhile,
    ) -> io::Result<()> {
        IoSlice::advance_slices(&mut parts, 0);
        let mut progress: Option<Progress> = None;
        while !parts.is_empty() || self.wants_to_send() {
            let (count, moved) = self.send_once(parts)?;
            IoSlice::advance_slices(&mut parts, count);
            let Some(least) = self.least_rate else { continue };
            // A batch that is sent in one call needs no clock.
            if parts.is_empty() && !self.wants_to_send() {
                break;
            }
            let progress = progress.get_or_insert_with(|| Progress::new(least, Direction::Sending));
            progress.moved(moved)?;
            if moved == 0 {
                self.wait_for_room(meanwhile)?;
            }
        }
        Ok(())
    }

    /// Waits until the socket accepts bytes, for [`RETRY`] at most, and lets `meanwhile` do its work.
    fn wait_for_room(&mut self, meanwhile: &mut dyn Meanwhile) -> io::Result<()> {
        let timeout = meanwhile.due().map_or(RETRY, |left| left.min(RETRY));
        let room = PollFd::new(&*self.output, PollFlags::OUT);
        self.calls += 1;
        match meanwhile.event() {
            Some(event) => {
                wait_for(&mut [room, PollFd::from_borrowed_fd(event, PollFlags::IN)], Some(timeout))?
            }
            None => wait_for(&mut [room], Some(timeout))?,
        };
        meanwhile.go_on();
        Ok(())
    }

    /// Sends once. Waits for room only on pipes and on sockets without a minimum rate. Returns the number of bytes
    /// taken from `parts`, and the number of bytes that the socket accepted.
    fn send_once(&mut self, parts: &[IoSlice<'_>]) -> io::Result<(usize, u64)> {
        let Link { output, tls, calls, least_rate, socket, .. } = self;
        let mut now = NonBlocking(output, *socket);
        let mut output = &**output;
        let encrypted = match tls {
            Some(tls) if !parts.is_empty() && !tls.wants_to_send() => tls.encrypt(parts)?,
            _ => 0,
        };
        loop {
            *calls += 1;
            let sent = match tls {
                Some(tls) if least_rate.is_some() => tls.send(&mut now),
                Some(tls) => tls.send(&mut output),
                None if least_rate.is_some() => now.write_vectored(parts),
                None => output.write_vectored(parts),
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => return Ok((if tls.is_some() { encrypted } else { sent }, sent as u64)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((encrypted, 0)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends as much of `parts` as the socket accepts without waiting; writes to pipes may wait. Returns the number
    /// of bytes taken from `parts`. Under TLS some of these bytes may still [wait to be sent](Link::wants_to_send).
    pub(crate) fn send_now(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut now = NonBlocking(&self.output, self.socket);
        let Some(tls) = &mut self.tls else {
            self.calls += 1;
            return ignore_full(now.write_vectored(parts));
        };
        let count = if tls.wants_to_send() { 0 } else { tls.encrypt(parts)? };
        while tls.wants_to_send() {
            self.calls += 1;
            if ignore_full(tls.send(&mut now))? == 0 {
                break;
            }
        }
        Ok(count)
    }

    /// Returns true if bytes that [`Link::send`] or [`Link::send_now`] has taken are not sent yet, which
    /// happens only under TLS.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_to_send())
    }

    /// Waits until bytes can be received, `other` is readable, or `timeout` has passed, and returns which of these
    /// happened. Under TLS an incomplete record does not count.
    pub(crate) fn wait(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<WaitResult> {
        let clock = crate::Clock::start();
        loop {
            let has_buffered = self.tls.as_mut().map_or(Ok(false), |tls| tls.has_more())?;
            // Bytes that were received but not decrypted yet need no waiting.
            let timeout = if has_buffered { Some(Duration::ZERO) } else { timeout };
            let left = timeout.map(|timeout| timeout.saturating_sub(clock.now().since(Instant::ZERO)));
            self.calls += 1;
            let mut fds = vec![PollFd::new(&*self.input, PollFlags::IN)];
            fds.extend(other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let n = wait_for(&mut fds, left)?;
            let input = !fds[0].revents().is_empty();
            let other = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
            let result =
                WaitResult { input: has_buffered || input, other, timed_out: n == 0 && !has_buffered };
            let Some(mut tls) = self.tls.take_if(|_| input && !has_buffered) else { return Ok(result) };
            let received = tls.receive(|into| self.receive_plain(into));
            let input = received.and_then(|any| Ok(!any || tls.has_more()?));
            self.tls = Some(tls);
            match input? {
                false if !other => {}
                input => return Ok(WaitResult { input, ..result }),
            }
        }
    }

    /// Like [`Link::wait`], but waits for bytes to receive only if `input` is set.
    pub(crate) fn wait_until(
        &mut self,
        input: bool,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<WaitResult> {
        if input {
            return self.wait(other, timeout);
        }
        self.calls += 1;
        let mut fds: Vec<_> =
            other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).into_iter().collect();
        let n = wait_for(&mut fds, timeout)?;
        Ok(WaitResult { input: false, other: n > 0, timed_out: n == 0 })
    }

    /// Waits until bytes can be sent. Returns false if `timeout` has passed first.
    pub(crate) fn wait_to_send(&mut self, timeout: Duration) -> io::Result<bool> {
        self.calls += 1;
        Ok(wait_for(&mut [PollFd::new(&*self.output, PollFlags::OUT)], Some(timeout))? > 0)
    }

    /// Ends the sending direction, and discards the peer's bytes until the peer closes the connection or `until` is
    /// reached. Closing a socket with unread bytes could make the peer lose the last replies.
    pub(crate) fn linger(&mut self, now: impl Fn() -> Instant, until: Instant) {
        if let Some(tls) = &mut self.tls {
            tls.close_notify();
            // If this fails, the peer sees the connection end without a TLS close alert, but it has received all
            // replies.
            let _ = tls.send(&mut NonBlocking(&self.output, self.socket));
        }
        if !self.socket || rustix::net::shutdown(&*self.output, Shutdown::Write).is_err() {
            return;
        }
        let mut sink = vec![0; 64 << 10];
        loop {
            let left = until.saturating_since(now());
            match self.wait(None, Some(left)) {
                Ok(result) if result.input => {}
                _ => return,
            }
            if !matches!(self.receive(&mut sink), Ok(1..)) {
                return;
            }
        }
    }
}

/// A writer that does not wait for a socket. Writes to a pipe may wait.
struct NonBlocking<'a>(&'a File, bool);

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let NonBlocking(mut file, socket) = *self;
        let parts = &parts[..parts.len().min(SLICES_MAX)];
        if !socket {
            return file.write_vectored(parts);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::sendmsg(file, parts, &mut SendAncillaryBuffer::default(), flags)?)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns zero bytes if the socket accepts no bytes now.
fn ignore_full(sent: io::Result<usize>) -> io::Result<usize> {
    match sent {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        sent => sent,
    }
}

/// Reason why [`Link::wait`] returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitResult {
    pub(crate) input: bool,
    pub(crate) other: bool,
    pub(crate) timed_out: bool,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}

impl Hangup {
    /// Shuts down the receiving direction. Requests received before still get a reply.
    pub(crate) fn shut_down_receiving(&self) {
        // An error means that the connection has ended already.
        let _ = rustix::net::shutdown(&*self.0, Shutdown::Read);
    }
    /// Ends the connection at once.
    pub(crate) fn close(&self) {
        let _ = rustix::net::shutdown(&*self.0, Shutdown::Both);
    }
}

/// Polls until a descriptor is ready or `timeout` has passed. Resumes after signals.
pub(crate) fn wait_for(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    let clock = crate::Clock::start();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(clock.now().since(Instant::ZERO)));
        let timeout = left.map(|left| Timespec {
            tv_sec: (left.as_ns() / 1_000_000_000) as i64,
            tv_nsec: (left.as_ns() % 1_000_000_000) as i64,
        });
        match poll(fds, timeout.as_ref()) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}
