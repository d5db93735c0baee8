//! One connection's bytes: a socket, or a pair of pipes. Every system call that moves bytes is made and counted here.

use flashlab_sim::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sockopt};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Bytes of a socket's send buffer that are asked for: a whole batch of replies is handed over in one call.
const SOCKET_BUFFER: usize = 2 << 20;

/// Slices that Linux takes in one call (UIO_MAXIOV).
const SLICES_MAX: usize = 1024;

/// The two directions of a connection; for a socket they are the same file.
#[derive(Debug)]
pub(crate) struct Link {
    input: Arc<File>,
    output: Arc<File>,
    socket: bool,
    /// System calls made for this connection.
    pub(crate) calls: u64,
}

/// What can be closed from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Hangup(Arc<File>);

impl Link {
    /// Over a connected socket.
    pub(crate) fn socket(socket: OwnedFd) -> Link {
        // Larger buffers only save system calls; the kernel may refuse or halve them.
        if sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER);
        }
        let file = Arc::new(File::from(socket));
        Link { input: file.clone(), output: file, socket: true, calls: 0 }
    }

    /// Over an inherited input and output, which may be the same socket, or two pipes.
    pub(crate) fn pair(input: OwnedFd, output: OwnedFd) -> Link {
        if rustix::net::getsockname(&input).is_ok() {
            return Link::socket(input);
        }
        Link { input: Arc::new(input.into()), output: Arc::new(output.into()), socket: false, calls: 0 }
    }

    /// Whether it is a socket, not pipes.
    pub(crate) fn is_socket(&self) -> bool {
        self.socket
    }

    /// What ends this connection from elsewhere; `None` where only its owner can.
    pub(crate) fn hangup(&self) -> Option<Hangup> {
        self.socket.then(|| Hangup(self.input.clone()))
    }

    /// Receives what is there, at most `into`, waiting for the first byte. Nothing means that the peer is gone.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.calls += 1;
            match (&*self.input).read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Sends all of `parts`, in one call where the socket takes it.
    pub(crate) fn send(&mut self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            self.calls += 1;
            match (&*self.output).write_vectored(parts) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends what can be sent of `bytes` without waiting, where that is known.
    pub(crate) fn send_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if !self.socket {
            return (&*self.output).write(bytes);
        }
        match rustix::net::send(&*self.output, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::INTR | Errno::AGAIN) => Ok(0),
            done => Ok(done?),
        }
    }

    /// Sends what a socket takes of `parts` now; nothing where it takes nothing.
    pub(crate) fn send_now(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.calls += 1;
        let parts = &parts[..parts.len().min(SLICES_MAX)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::sendmsg(&*self.output, parts, &mut SendAncillaryBuffer::default(), flags) {
            Err(Errno::INTR | Errno::AGAIN) => Ok(0),
            done => Ok(done?),
        }
    }

    /// Waits until there is something to receive, or `also` is readable, or `patience` is over. Says what it was.
    pub(crate) fn wait(
        &mut self,
        also: Option<BorrowedFd<'_>>,
        patience: Option<Duration>,
    ) -> io::Result<Woken> {
        self.calls += 1;
        let mut fds = vec![PollFd::new(&*self.input, PollFlags::IN)];
        fds.extend(also.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let n = wait_for(&mut fds, patience)?;
        Ok(Woken {
            input: !fds[0].revents().is_empty(),
            also: fds.get(1).is_some_and(|fd| !fd.revents().is_empty()),
            late: n == 0,
        })
    }

    /// The same; bytes to receive matter only where `input` is wanted.
    pub(crate) fn wait_until(
        &mut self,
        input: bool,
        also: Option<BorrowedFd<'_>>,
        patience: Option<Duration>,
    ) -> io::Result<Woken> {
        if input {
            return self.wait(also, patience);
        }
        self.calls += 1;
        let mut fds: Vec<_> =
            also.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).into_iter().collect();
        let n = wait_for(&mut fds, patience)?;
        Ok(Woken { input: false, also: n > 0, late: n == 0 })
    }

    /// Waits until something can be sent; says whether it can.
    pub(crate) fn wait_to_send(&mut self, patience: Duration) -> io::Result<bool> {
        self.calls += 1;
        Ok(wait_for(&mut [PollFd::new(&*self.output, PollFlags::OUT)], Some(patience))? > 0)
    }

    /// Says that nothing more is sent, and takes in what the peer still sends until it is gone too or `until` is
    /// reached: closing a socket with bytes unread could cost the peer the last replies.
    pub(crate) fn linger(&mut self, now: impl Fn() -> Instant, until: Instant) {
        if !self.socket || rustix::net::shutdown(&*self.output, Shutdown::Write).is_err() {
            return;
        }
        let mut sink = vec![0; 64 << 10];
        loop {
            let left = until.saturating_since(now());
            match self.wait(None, Some(left)) {
                Ok(woken) if woken.input => {}
                _ => return,
            }
            if !matches!(self.receive(&mut sink), Ok(1..)) {
                return;
            }
        }
    }
}

/// Why [`Link::wait`] came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    pub(crate) input: bool,
    pub(crate) also: bool,
    pub(crate) late: bool,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}

impl Hangup {
    /// The peer's bytes end here; what was received is still answered.
    pub(crate) fn no_more_requests(&self) {
        // It is gone already where this fails.
        let _ = rustix::net::shutdown(&*self.0, Shutdown::Read);
    }
    /// Ends the connection now.
    pub(crate) fn cut(&self) {
        let _ = rustix::net::shutdown(&*self.0, Shutdown::Both);
    }
}

/// Polls until something happens or `patience` is over, through interruptions.
pub(crate) fn wait_for(fds: &mut [PollFd<'_>], patience: Option<Duration>) -> io::Result<usize> {
    let clock = crate::Clock::start();
    loop {
        let left = patience.map(|patience| patience.saturating_sub(clock.now().since(Instant::ZERO)));
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
