//! A command that runs beside a server, and whose end is the server's.

use crate::Stop;
use crate::link::wait_for;
use flashlab_sim::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

/// How long a command has to end once it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// Runs `command` in a shell, with the variables `uri` and `unixsocket` (empty where there is none), and gives its exit
/// code as a shell would. When `stop` is thrown the command is asked to end, and later made to.
pub fn run(command: &str, uri: &str, unixsocket: Option<&Path>, stop: &Stop) -> io::Result<u8> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).env("uri", uri);
    shell.env("unixsocket", unixsocket.unwrap_or(Path::new("")));
    let mut child = shell.spawn()?;
    let pid = Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let ended = || PollFd::new(&ended, PollFlags::IN);
    wait_for(&mut [ended(), PollFd::new(stop, PollFlags::IN)], None)?;
    if stop.is_thrown() && !has_ended(&mut child)? {
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::TERM);
        if wait_for(&mut [ended()], Some(GRACE))? == 0 {
            child.kill()?;
        }
    }
    Ok(code(child.wait()?))
}

fn has_ended(child: &mut Child) -> io::Result<bool> {
    Ok(child.try_wait()?.is_some())
}

/// 128 and the signal's number where a signal ended it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
