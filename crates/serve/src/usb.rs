//! Serves a USB device over a socket, to one peer at a time: provides the socket and the wall clock for a
//! [`flashlab_usb::Carrier`].
//!
//! A single thread receives the available bytes, passes them to the session, sends the session's output, and waits
//! for further bytes or for the completion of a transfer. If a peer does not read the session's output, the thread
//! receives nothing from the peer until the peer reads again.

use crate::link::wait_for;
use crate::pace::Pace;
use crate::{Clock, DeviceTime, Listener, Speed, Stop, TaskQueue};
use flashlab_sim::Instant;
use flashlab_usb::Carrier;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tracing::{info, warn};

/// Size of the receive buffer in bytes.
const INPUT: usize = 256 << 10;
/// Number of unsent bytes from which the thread receives nothing from the peer.
const OUTPUT_MAX: usize = 4 << 20;

/// A port to which peers attach a device.
#[derive(Debug)]
pub struct UsbPort {
    listener: Listener,
    pace: Arc<Pace>,
    stop: Stop,
}

impl UsbPort {
    /// Creates a port that serves the peers of `listener` until `stop` is thrown.
    pub fn new(listener: Listener, speed: Speed, stop: Stop) -> UsbPort {
        UsbPort { listener, pace: Arc::new(Pace::new(Clock::start(), speed)), stop }
    }

    /// Returns the device's time, for work that belongs to no peer.
    pub fn time(&self) -> DeviceTime {
        DeviceTime::new(self.pace.clone())
    }

    fn now(&self) -> Instant {
        self.pace.now()
    }

    /// Attaches the device to one peer after another. Runs `tasks` whether a peer is connected or not. Returns the
    /// device at the end, and the error if waiting for a peer failed.
    pub fn serve<C: Carrier>(
        &self,
        mut device: C::Device,
        tasks: &TaskQueue<C::Device>,
    ) -> (C::Device, io::Result<()>) {
        let mut result = Ok(());
        while result.is_ok() && !self.stop.is_thrown() {
            (device, result) = self.serve_next::<C>(device, tasks);
        }
        tasks.close();
        (device, result)
    }

    /// Waits for a peer, a task or the stop, and serves the peer.
    fn serve_next<C: Carrier>(
        &self,
        mut device: C::Device,
        tasks: &TaskQueue<C::Device>,
    ) -> (C::Device, io::Result<()>) {
        let mut fds = [
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::new(tasks, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        if let Err(error) = wait_for(&mut fds, None) {
            return (device, Err(error));
        }
        tasks.run(&mut device, self.now());
        let (socket, from) = match self.listener.accept_socket() {
            Ok(Some(accepted)) => accepted,
            Ok(None) => return (device, Ok(())),
            Err(error) => {
                Listener::pause(&error, &self.stop);
                return (device, Ok(()));
            }
        };
        info!(from, "attached");
        let mut output = Vec::new();
        let mut session = C::begin(self.now(), device, &mut output);
        match self.carry(&mut session, &socket, tasks, output) {
            Ok(()) => info!("detached"),
            Err(error) => warn!(%error, "the connection ends"),
        }
        (session.end(self.now()), Ok(()))
    }

    /// Serves one peer until the peer disconnects or violates the protocol, or until the port is stopped.
    fn carry<C: Carrier>(
        &self,
        session: &mut C,
        socket: &OwnedFd,
        tasks: &TaskQueue<C::Device>,
        mut output: Vec<u8>,
    ) -> io::Result<()> {
        let mut input = vec![0; INPUT];
        loop {
            session.advance(self.now(), &mut output);
            send(socket, &mut output)?;
            if session.is_over() {
                return Ok(());
            }
            let mut interest = PollFlags::empty();
            interest.set(PollFlags::IN, output.len() < OUTPUT_MAX);
            interest.set(PollFlags::OUT, !output.is_empty());
            let due = session.next_due();
            let timeout = due.map(|due| self.pace.left(due));
            let mut fds = [
                PollFd::new(&self.stop, PollFlags::IN),
                PollFd::new(tasks, PollFlags::IN),
                PollFd::new(socket, interest),
            ];
            if wait_for(&mut fds, timeout)? == 0 {
                // No other event precedes `due`, so time may advance to it.
                due.inspect(|due| self.pace.reach(*due));
                continue;
            }
            if !fds[0].revents().is_empty() {
                return Ok(());
            }
            if !fds[1].revents().is_empty() {
                tasks.run(session.device_mut(), self.now());
            }
            if !fds[2].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                continue;
            }
            match rustix::net::recv(socket, &mut input[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Ok(()),
                Ok((_, count)) => {
                    let received = session.receive(self.now(), &input[..count], &mut output);
                    if let Err(error) = received {
                        // The output that precedes the error may tell the peer the reason.
                        let _ = send(socket, &mut output);
                        return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Sends the bytes that the socket accepts without waiting.
fn send(socket: &OwnedFd, output: &mut Vec<u8>) -> io::Result<()> {
    let mut sent = 0;
    while sent < output.len() {
        match rustix::net::send(socket, &output[sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    output.drain(..sent);
    Ok(())
}
