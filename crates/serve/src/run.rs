//! A command that runs beside a server. The server stops when the command ends.

use crate::Stop;
use crate::link::wait_for;
use flashlab_sim::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

/// Time that a command has to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Runs `command` in a shell, with the environment variables `uri` and `unixsocket` (empty if there is none), and
/// returns its exit code as a shell would. When `stop` is thrown, the command receives SIGTERM, and SIGKILL after a
/// grace period.
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
        // The command may have exited in the meantime.
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

/// Returns the exit code, or 128 plus the signal's number if a signal ended the command.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
