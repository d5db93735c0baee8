//! How a running server is told to end.

use crate::link::wait_for;
use flashlab_sim::Duration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A switch that is thrown once: by a signal's handler, by the end of a command, by a test. Clones are the same switch.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    thrown: AtomicBool,
    /// Readable for ever once the switch is thrown, for those who wait for several things.
    event: OwnedFd,
}

impl Stop {
    /// Not thrown.
    pub fn new() -> io::Result<Stop> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stop(Arc::new(Inner { thrown: AtomicBool::new(false), event })))
    }

    /// Throws it. Throwing it again changes nothing.
    pub fn throw(&self) {
        self.0.thrown.store(true, Ordering::SeqCst);
        // It fails only where the counter is full: then it is readable already.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    /// Whether it was thrown.
    pub fn is_thrown(&self) -> bool {
        self.0.thrown.load(Ordering::SeqCst)
    }

    /// Blocks until it is thrown.
    pub fn wait(&self) {
        while !self.is_thrown() {
            // Interrupted or not, the switch says how it is.
            let _ = poll(&mut [PollFd::new(&self.0.event, PollFlags::IN)], None);
        }
    }

    /// Blocks until it is thrown, or for so long; whether it is thrown.
    pub fn wait_up_to(&self, patience: Duration) -> bool {
        // Interrupted or not, the switch says how it is.
        let _ = wait_for(&mut [PollFd::new(&self.0.event, PollFlags::IN)], Some(patience));
        self.is_thrown()
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
