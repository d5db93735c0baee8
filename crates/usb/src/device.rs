//! What a USB device does, for whoever carries its transfers.

use crate::Descriptors;
use alloc::vec::Vec;
use flashlab_sim::Instant;

/// Which way the bytes of a transfer go: USB's words, as the host sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the host to the device.
    Out,
    /// From the device to the host.
    In,
}

/// The eight bytes that begin a control transfer (USB 2.0, section 9.3), in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// bmRequestType: direction, type, recipient.
    pub request_type: u8,
    /// bRequest.
    pub request: u8,
    /// wValue.
    pub value: u16,
    /// wIndex.
    pub index: u16,
    /// wLength: the bytes that follow, or that are asked for.
    pub length: u16,
}

impl Setup {
    /// From the eight bytes.
    pub const fn from_bytes(bytes: [u8; 8]) -> Setup {
        let [request_type, request, v0, v1, i0, i1, l0, l1] = bytes;
        Setup {
            request_type,
            request,
            value: u16::from_le_bytes([v0, v1]),
            index: u16::from_le_bytes([i0, i1]),
            length: u16::from_le_bytes([l0, l1]),
        }
    }
    /// Which way the data goes.
    pub const fn direction(self) -> Direction {
        if self.request_type & 0x80 == 0 { Direction::Out } else { Direction::In }
    }
    /// Whether it is one that the specification of USB defines, not the device's vendor or class.
    pub const fn is_standard(self) -> bool {
        self.request_type & 0x60 == 0
    }
    /// Whether it is one of the device's vendor.
    pub const fn is_vendor(self) -> bool {
        self.request_type & 0x60 == 0x40
    }
}

/// A device that does not know a request, or an endpoint that cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stalled;

/// What a bulk transfer carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// At most so many bytes to the host.
    In(u32),
    /// These bytes to the device.
    Out(Vec<u8>),
}

/// A bulk transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// What it is called until it has completed: no two that wait have the same.
    pub id: u64,
    /// The number of the endpoint, without its direction.
    pub endpoint: u8,
    /// What it carries.
    pub payload: Payload,
}

/// How a transfer went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// These bytes came from the device.
    In(Vec<u8>),
    /// The device took so many bytes.
    Out(u32),
    /// There is no such endpoint.
    Stalled,
}

/// A transfer that has completed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    /// Which one.
    pub id: u64,
    /// When.
    pub at: Instant,
    /// How.
    pub outcome: Outcome,
}

/// A USB device. Time comes in as an argument and never goes backwards.
pub trait Device {
    /// What it says about itself.
    fn descriptors(&self) -> &Descriptors;
    /// The host resets its port: transfers that wait are forgotten.
    fn reset(&mut self, now: Instant);
    /// It is attached, or its cable is pulled: then it has no power any more.
    fn attach(&mut self, now: Instant, attached: bool);
    /// A control transfer that is not one of [`standard`](crate::standard)'s, with its data if it goes out.
    fn control(&mut self, now: Instant, setup: Setup, data: &[u8]) -> Result<Vec<u8>, Stalled>;
    /// A bulk transfer begins.
    fn submit(&mut self, now: Instant, transfer: Transfer);
    /// Forgets a transfer; says whether it still waited.
    fn cancel(&mut self, id: u64) -> bool;
    /// When the next transfer completes, if nothing else happens before.
    fn next_due(&self) -> Option<Instant>;
    /// The next transfer that has completed until `limit`.
    fn complete(&mut self, limit: Instant) -> Option<Completed>;
}
