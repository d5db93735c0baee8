//! A command that runs beside a server. The server stops when the command ends.

use crate::link::wait_for;
use crate::{Clock, Stop};
use flashlab_sim::{Duration, Instant};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, test_kill_process_group,
};
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

/// Time that a command has to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Interval at which [`run`] checks whether processes have exited.
const POLL: std::time::Duration = std::time::Duration::from_millis(5);

/// Runs `command` in a shell, with the environment variables `uri` and `unixsocket` (empty if there is none), and
/// returns its exit code as a shell would. When `stop` is thrown, the command and the processes that it has started
/// receive SIGTERM, and SIGKILL after a grace period.
///
/// If standard input is a terminal, the command stays in the process group of the server, because a command
/// in another group could not read from the terminal. Only the shell then receives these signals. Ctrl-C
/// reaches all processes of the group.
pub fn run(command: &str, uri: &str, unixsocket: Option<&Path>, stop: &Stop) -> io::Result<u8> {
    run_in_group(command, uri, unixsocket, stop, !io::stdin().is_terminal())
}

/// Runs `command`, in a process group of its own if `own_group` is set.
fn run_in_group(
    command: &str,
    uri: &str,
    unixsocket: Option<&Path>,
    stop: &Stop,
    own_group: bool,
) -> io::Result<u8> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).env("uri", uri);
    shell.env("unixsocket", unixsocket.unwrap_or(Path::new("")));
    if own_group {
        shell.process_group(0);
    }
    let mut child = shell.spawn()?;
    let pid = Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    wait_for(&mut [PollFd::new(&ended, PollFlags::IN), PollFd::new(stop, PollFlags::IN)], None)?;
    if stop.is_thrown() && !has_ended(&mut child)? {
        terminate(&mut child, pid, own_group)?;
    }
    Ok(code(child.wait()?))
}

/// Ends the command `pid`, or its process group.
fn terminate(child: &mut Child, pid: Pid, own_group: bool) -> io::Result<()> {
    let signal = if own_group { kill_process_group } else { kill_process };
    // All processes may have exited in the meantime.
    let _ = signal(pid, Signal::TERM);
    let clock = Clock::start();
    while !has_ended(child)? || (own_group && test_kill_process_group(pid).is_ok()) {
        if clock.now() >= Instant::ZERO + GRACE {
            let _ = signal(pid, Signal::KILL);
            break;
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn has_ended(child: &mut Child) -> io::Result<bool> {
    Ok(child.try_wait()?.is_some())
}

/// Returns the exit code, or 128 plus the signal's number if a signal ended the command.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, fcntl_setfl, mkfifoat};
    use std::fs::{self, File};
    use std::io::Read;

    #[test]
    fn the_processes_that_a_command_has_started_end_with_it() {
        let fifo = std::env::temp_dir().join(format!("flashlab-run-{}", std::process::id()));
        mkfifoat(CWD, &fifo, Mode::RWXU).expect("the name is free");
        let stop = Stop::new().expect("there are descriptors");
        let command = format!("sleep 600 >'{}' & wait", fifo.display());
        let code = std::thread::scope(|scope| {
            let running = scope.spawn(|| run_in_group(&command, "", None, &stop, true));
            let mut reader = File::open(&fifo).expect("the command opens the other end");
            stop.throw();
            let code = running.join().expect("no panic").expect("it runs");
            fcntl_setfl(&reader, OFlags::NONBLOCK).expect("an open file");
            assert_eq!(reader.read(&mut [0]).expect("no process has the other end"), 0);
            code
        });
        assert_eq!(code, 128 + 15);
        fs::remove_file(&fifo).expect("it exists");
    }
}
