//! A control socket for commands to a running server: one line in, one reply out, one caller at a time.

use crate::link::wait_for;
use crate::{Address, Listener, Stop};
use flashlab_sim::Duration;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Maximum length of a command line in bytes.
const LINE_MAX: u64 = 4096;
/// Maximum length of a reply in bytes.
const ANSWER_MAX: u64 = 64 << 20;
/// Time that a caller has to send its command and to receive the reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// Result of a command: its output, or a message that explains why it failed.
pub type Told = Result<String, String>;

/// A control socket.
#[derive(Debug)]
pub struct Control(Listener);

impl Control {
    /// Listens on a Unix socket in the filesystem.
    pub fn bind(path: &Path) -> io::Result<Control> {
        Listener::bind(&Address::Unix(path.to_owned())).map(Control)
    }

    /// Executes commands with `answer` until `stop` is thrown.
    pub fn serve(&self, stop: &Stop, answer: impl Fn(&str) -> Told) -> io::Result<()> {
        loop {
            let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(&self.0, PollFlags::IN)];
            wait_for(&mut fds, None)?;
            if stop.is_thrown() {
                return Ok(());
            }
            match self.0.accept_unix() {
                // A caller that disconnects or sends nothing is a normal event.
                Ok(stream) => drop(stream.map(|stream| serve_one(stream, &answer))),
                Err(error) => Listener::pause(&error, stop),
            }
        }
    }
}

fn serve_one(mut stream: UnixStream, answer: impl Fn(&str) -> Told) -> io::Result<()> {
    let patience = std::time::Duration::from_nanos(PATIENCE.as_ns());
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut line = Vec::new();
    Read::by_ref(&mut stream).take(LINE_MAX).read_to_end(&mut line)?;
    let (word, text) = match answer(String::from_utf8_lossy(&line).trim()) {
        Ok(text) => ("ok", text),
        Err(text) => ("no", text),
    };
    stream.write_all(format!("{word}\n{text}").as_bytes())
}

/// Sends a command to the server at `path`, and returns its reply.
pub fn tell(path: &Path, line: &str) -> io::Result<Told> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(line.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    match answer.split_once('\n') {
        Some(("ok", text)) => Ok(Ok(text.to_owned())),
        Some(("no", text)) => Ok(Err(text.to_owned())),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the socket is not a control socket")),
    }
}
