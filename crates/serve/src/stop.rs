//! The switch that stops a running server.

use crate::link::wait_for;
use flashlab_sim::Duration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A switch that is thrown once, for example by a signal handler, by the end of a command or by a test. Clones share
/// the switch.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    thrown: AtomicBool,
    /// Stays readable once the switch is thrown, for threads that wait for several events.
    event: OwnedFd,
}

impl Stop {
    /// Creates a switch that is not thrown.
    pub fn new() -> io::Result<Stop> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stop(Arc::new(Inner { thrown: AtomicBool::new(false), event })))
    }

    /// Throws the switch. Throwing it again has no effect.
    pub fn throw(&self) {
        self.0.thrown.store(true, Ordering::SeqCst);
        // The write fails only if the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    /// Returns true if the switch was thrown.
    pub fn is_thrown(&self) -> bool {
        self.0.thrown.load(Ordering::SeqCst)
    }

    /// Blocks until the switch is thrown.
    pub fn wait(&self) {
        while !self.is_thrown() {
            // After an interruption, the loop checks the switch again.
            let _ = poll(&mut [PollFd::new(&self.0.event, PollFlags::IN)], None);
        }
    }

    /// Blocks until the switch is thrown or `timeout` has passed. Returns true if it was thrown.
    pub fn wait_up_to(&self, timeout: Duration) -> bool {
        // An interruption needs no handling: the return value is the state of the switch.
        let _ = wait_for(&mut [PollFd::new(&self.0.event, PollFlags::IN)], Some(timeout));
        self.is_thrown()
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
