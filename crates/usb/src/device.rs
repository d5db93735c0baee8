//! The interface between a USB device and the session that carries its transfers.

use crate::Descriptors;
use alloc::vec::Vec;
use flashlab_sim::Instant;

/// Direction of a transfer in USB's terms, from the host's point of view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the host to the device.
    Out,
    /// From the device to the host.
    In,
}

/// The eight bytes of a setup packet (USB 2.0, section 9.3), in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// bmRequestType: direction, type, recipient.
    pub request_type: u8,
    /// bRequest: number of the request.
    pub request: u8,
    /// wValue: first parameter of the request.
    pub value: u16,
    /// wIndex: second parameter of the request, often an interface or endpoint.
    pub index: u16,
    /// wLength: bytes of data that follow, or that the host requests.
    pub length: u16,
}

impl Setup {
    /// Decodes a setup packet.
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
    /// Returns the direction of the data.
    pub const fn direction(self) -> Direction {
        if self.request_type & 0x80 == 0 { Direction::Out } else { Direction::In }
    }
    /// Returns true if the USB specification defines the request, rather than the device's vendor or class.
    pub const fn is_standard(self) -> bool {
        self.request_type & 0x60 == 0
    }
    /// Returns true if the device's vendor defines the request.
    pub const fn is_vendor(self) -> bool {
        self.request_type & 0x60 == 0x40
    }
}

/// Stall: the device does not know the request, or the endpoint is halted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stalled;

/// Data of a bulk transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// At most this many bytes to the host.
    In(u32),
    /// Bytes to the device.
    Out(Vec<u8>),
}

/// A bulk transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Identifier, unique among the outstanding transfers.
    pub id: u64,
    /// Endpoint number without the direction.
    pub endpoint: u8,
    /// Data of the transfer.
    pub payload: Payload,
}

/// Result of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Bytes from the device.
    In(Vec<u8>),
    /// Number of bytes that the device accepted.
    Out(u32),
    /// The device refused the transfer, for example because the endpoint does not exist or is halted.
    Stalled,
}

/// A transfer that has completed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    /// Identifier of the transfer.
    pub id: u64,
    /// Instant of completion.
    pub at: Instant,
    /// Result.
    pub outcome: Outcome,
}

/// A USB device. Time comes as an argument and never decreases.
pub trait Device {
    /// Returns the descriptors.
    fn descriptors(&self) -> &Descriptors;
    /// Resets the port. Outstanding transfers are dropped.
    fn reset(&mut self, now: Instant);
    /// Attaches the device or, if `attached` is false, pulls its cable, which cuts its power.
    fn attach(&mut self, now: Instant, attached: bool);
    /// Handles the arrival of a control transfer. Returns false if the device does not respond, which the host sees as a
    /// failure of the transfer.
    fn responds(&mut self, _now: Instant) -> bool {
        true
    }
    /// Returns the number of the device's connection to the bus, or `None` while it is not on the bus. The number
    /// changes when the device leaves the bus and returns. The session reports the change to the host.
    fn connection(&self) -> Option<u32> {
        Some(0)
    }
    /// Returns the earliest instant at which a device that is not on the bus can appear there by itself, or
    /// `None` if it waits for an event from outside.
    fn appears_at(&self) -> Option<Instant> {
        None
    }
    /// Halts the endpoint with this address, or ends the halt, at the host's request (feature ENDPOINT_HALT).
    fn set_halted(&mut self, _now: Instant, _address: u8, _halted: bool) {}
    /// Returns true if the endpoint with this address is halted.
    fn is_halted(&self, _address: u8) -> bool {
        false
    }
    /// Handles a control transfer whose request the class or the vendor of the device defines. `data` is
    /// the data of a transfer to the device.
    fn control(&mut self, now: Instant, setup: Setup, data: &[u8]) -> Result<Vec<u8>, Stalled>;
    /// Starts a bulk transfer.
    fn submit(&mut self, now: Instant, transfer: Transfer);
    /// Drops a transfer. Returns true if it was outstanding.
    fn cancel(&mut self, id: u64) -> bool;
    /// Returns the earliest instant at which a transfer completes or the device changes by itself.
    fn next_due(&self) -> Option<Instant>;
    /// Returns the next transfer that completes at or before `limit`.
    fn complete(&mut self, limit: Instant) -> Option<Completed>;
}
