//! The common interface of the sessions that carry a device's transfers over one connection.

use crate::Device;
use alloc::vec::Vec;
use core::fmt;
use flashlab_sim::Instant;

/// A session over one connection. The session owns the device until its end. After each call that changes the
/// session, the caller queries `next_due` again.
pub trait Carrier: Sized {
    /// The device whose transfers the session carries.
    type Device: Device;
    /// The reason why a session ends with an error.
    type Error: fmt::Display;

    /// Starts the session of a new connection. Appends the first bytes for the peer to `output`.
    fn begin(now: Instant, device: Self::Device, output: &mut Vec<u8>) -> Self;
    /// Processes the next bytes of the connection, which may be split anywhere. Appends the answers to
    /// `output`.
    fn receive(&mut self, now: Instant, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), Self::Error>;
    /// Returns the instant at which the caller must call [`Carrier::advance`], unless bytes are received
    /// earlier.
    fn next_due(&self) -> Option<Instant>;
    /// Advances the device to `now`. Appends the answers of all transfers that complete until then, and
    /// news of the device's connection to the bus.
    fn advance(&mut self, now: Instant, output: &mut Vec<u8>);
    /// Returns true if the session must end because the device has left the bus and the protocol cannot express that.
    fn is_over(&self) -> bool {
        false
    }
    /// Returns the device, for events outside the connection.
    fn device_mut(&mut self) -> &mut Self::Device;
    /// Ends the session because the peer is gone, which also cuts the device's power. Returns the device.
    fn end(self, now: Instant) -> Self::Device;
}
