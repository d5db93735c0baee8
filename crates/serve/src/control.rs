//! A control socket for commands to a running server: one command in, one reply out, one caller at a time.

use crate::link::wait_for;
use crate::{Clock, Listener, Stop};
use flashlab_sim::{Duration, Instant};
use rustix::event::{PollFd, PollFlags};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Maximum length of a command line in bytes.
const LINE_MAX: u64 = 4096;
/// Maximum number of bytes that a server reads and discards after the start of a command that is too long.
const UNREAD_MAX: u64 = 1 << 20;
/// Maximum length of a reply in bytes.
const REPLY_MAX: u64 = 64 << 20;
/// Time that a caller has to send its command.
const CALLER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that a caller has to receive the reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a command: its output, or a message that explains why it failed.
pub type ControlReply = Result<String, String>;

/// A control socket.
#[derive(Debug)]
pub struct Control(Listener);

impl Control {
    /// Listens on a Unix socket in the filesystem. Only its owner may connect, because commands can open and overwrite
    /// devices.
    pub fn bind(path: &Path) -> io::Result<Control> {
        Ok(Control(Listener::bind_private(path)?))
    }

    /// Executes commands with `execute` until `stop` is thrown.
    pub fn serve(&self, stop: &Stop, execute: impl Fn(&str) -> ControlReply) -> io::Result<()> {
        loop {
            let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(&self.0, PollFlags::IN)];
            wait_for(&mut fds, None)?;
            if stop.is_thrown() {
                return Ok(());
            }
            match self.0.accept_unix() {
                // A caller that disconnects or sends nothing is a normal event.
                Ok(stream) => drop(stream.map(|stream| serve_one(stream, &execute))),
                Err(error) => Listener::pause(&error, stop),
            }
        }
    }
}

fn serve_one(stream: UnixStream, execute: impl Fn(&str) -> ControlReply) -> io::Result<()> {
    let mut stream = Limited::new(&stream, CALLER_TIMEOUT);
    let mut line = Vec::new();
    Read::by_ref(&mut stream).take(LINE_MAX + 1).read_to_end(&mut line)?;
    let reply = match line.len() as u64 > LINE_MAX {
        // A truncated line would be a different command. If the server left bytes unread, the caller could lose the
        // reply.
        true => {
            io::copy(&mut Read::by_ref(&mut stream).take(UNREAD_MAX), &mut io::sink())?;
            Err(format!("the command is longer than {LINE_MAX} bytes"))
        }
        false => execute(String::from_utf8_lossy(&line).trim()),
    };
    let (word, text) = match reply {
        Ok(text) => ("ok", text),
        Err(text) => ("no", text),
    };
    Limited::new(stream.stream, REPLY_TIMEOUT).write_all(format!("{word}\n{text}").as_bytes())
}

/// A stream with one time limit for all its reads and writes together. With this limit, a caller that sends
/// byte by byte delays neither other callers nor the shutdown of the server.
struct Limited<'a> {
    stream: &'a UnixStream,
    clock: Clock,
    limit: Duration,
}

impl Limited<'_> {
    fn new(stream: &UnixStream, limit: Duration) -> Limited<'_> {
        Limited { stream, clock: Clock::start(), limit }
    }

    /// Returns the time that is left.
    fn left(&self) -> io::Result<Option<std::time::Duration>> {
        let waited = self.clock.now().since(Instant::ZERO);
        match self.limit.as_ns().saturating_sub(waited.as_ns()) {
            0 => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(std::time::Duration::from_nanos(left))),
        }
    }
}

impl Read for Limited<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(into)
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends a command to the server at `path`, and returns its reply.
pub fn send_command(path: &Path, line: &str) -> io::Result<ControlReply> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(line.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut reply = String::new();
    stream.take(REPLY_MAX).read_to_string(&mut reply)?;
    match reply.split_once('\n') {
        Some(("ok", text)) => Ok(Ok(text.to_owned())),
        Some(("no", text)) => Ok(Err(text.to_owned())),
        None if reply.is_empty() => {
            let ended = "the server ended before it answered, or the socket is not a control socket";
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, ended))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the socket is not a control socket")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_sends_byte_by_byte_runs_out_of_time() {
        let (caller, server) = UnixStream::pair().expect("a pair of sockets");
        let limit = Duration::from_ms(50);
        let reading = std::thread::spawn(move || Limited::new(&server, limit).read_to_end(&mut Vec::new()));
        // The server closes its end when the time is up, although the caller never pauses for long.
        while (&caller).write_all(b"a").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let error = reading.join().expect("no panic").expect_err("the time is over");
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
    }

    #[test]
    fn a_command_that_is_too_long_is_refused_and_not_cut() {
        for (length, is_executed) in [(LINE_MAX, true), (LINE_MAX + 1, false), (8 * LINE_MAX, false)] {
            let (mut caller, server) = UnixStream::pair().expect("a pair of sockets");
            caller.write_all(&vec![b'a'; length as usize]).expect("room in the socket");
            caller.shutdown(std::net::Shutdown::Write).expect("an open socket");
            serve_one(server, |line| Ok(line.len().to_string())).expect("a caller that waits");
            let mut reply = String::new();
            caller.read_to_string(&mut reply).expect("a reply");
            assert_eq!(reply.starts_with("ok"), is_executed, "{reply}");
        }
    }
}
