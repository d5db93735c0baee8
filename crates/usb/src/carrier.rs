//! What carries a device's transfers over one connection, whatever the protocol.

use crate::Device;
use alloc::vec::Vec;
use core::fmt;
use flashlab_sim::Instant;

/// A session over one connection, and the device while it lasts. After whatever changes it, `next_due` is asked again.
pub trait Carrier: Sized {
    /// What it carries.
    type Device: Device;
    /// Why it cannot go on.
    type Broken: fmt::Display;

    /// A peer has connected: what is to be said first is appended to `output`.
    fn begin(now: Instant, device: Self::Device, output: &mut Vec<u8>) -> Self;
    /// Takes the next bytes of the connection, cut anywhere. Answers are appended to `output`.
    fn receive(&mut self, now: Instant, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), Self::Broken>;
    /// When there is something to say, if nothing is received before.
    fn next_due(&self) -> Option<Instant>;
    /// Appends the answers of all transfers that have completed until `now`.
    fn advance(&mut self, now: Instant, output: &mut Vec<u8>);
    /// The device, for what happens to it from outside.
    fn device_mut(&mut self) -> &mut Self::Device;
    /// The peer is gone, and the device's power with it.
    fn end(self, now: Instant) -> Self::Device;
}
