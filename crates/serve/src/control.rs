//! A socket on which a server is told what to do: one line in, an answer out, one caller at a time.

use crate::link::wait_for;
use crate::{Address, Listener, Stop};
use flashlab_sim::Duration;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes of the longest line.
const LINE_MAX: u64 = 4096;
/// Bytes of the longest answer.
const ANSWER_MAX: u64 = 64 << 20;
/// How long a caller may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was asked for was done, with what there is to say; or why not.
pub type Told = Result<String, String>;

/// Listens.
#[derive(Debug)]
pub struct Control(Listener);

impl Control {
    /// On a Unix socket in the filesystem.
    pub fn bind(path: &Path) -> io::Result<Control> {
        Listener::bind(&Address::Unix(path.to_owned())).map(Control)
    }

    /// Does what it is told until `stop` is thrown.
    pub fn serve(&self, stop: &Stop, answer: impl Fn(&str) -> Told) -> io::Result<()> {
        loop {
            let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(&self.0, PollFlags::IN)];
            wait_for(&mut fds, None)?;
            if stop.is_thrown() {
                return Ok(());
            }
            match self.0.accept_unix() {
                // A caller that goes away, or says nothing, is nothing special.
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

/// Tells the server at `path` something; what it answers.
pub fn tell(path: &Path, line: &str) -> io::Result<Told> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(line.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    match answer.split_once('\n') {
        Some(("ok", text)) => Ok(Ok(text.to_owned())),
        Some(("no", text)) => Ok(Err(text.to_owned())),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "no control socket answers there")),
    }
}
