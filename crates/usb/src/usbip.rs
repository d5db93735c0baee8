//! USB/IP, the exporting side: carries a device's transfers to the kernel of any Linux host. The host uses the module
//! `vhci-hcd` and the command `usbip attach -r HOST -b 1-1`.
//!
//! The protocol is `Documentation/usb/usbip_protocol.rst` of Linux, version 1.1.1. All integers are big-endian. The
//! session supports the list of devices, import, submit and unlink. It does not support isochronous transfers or the
//! daemon's own encryption.
//!
//! A connection either requests the list, or imports the single device and then carries its transfers. A message
//! outside the protocol ends the connection, because the start of the next message is unknown.
//!
//! An import turns on the power of the device's port. The answer to the import waits until the device appears
//! on the bus. When the device leaves the bus, the connection ends, and Linux removes the device. Another
//! `usbip attach` brings the device back. Linux's `vhci-hcd` resets only its own ports, so no reset reaches
//! the device.

use crate::descriptor::control;
use crate::device::{Completed, Device, Direction, Outcome, Payload, Setup, Transfer};
use crate::read::Reader;
use crate::{Carrier, IN_FLIGHT_MAX, TRANSFER_MAX};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use flashlab_sim::Instant;

/// TCP port to which `usbip` connects.
pub const PORT: u16 = 3240;
/// Bus ID of the single device: bus 1, port 1. Its device number is 2.
pub const BUS_ID: &str = "1-1";

const VERSION: u16 = 0x0111;
const OP_REQ_DEVLIST: u16 = 0x8005;
const OP_REP_DEVLIST: u16 = 0x0005;
const OP_REQ_IMPORT: u16 = 0x8003;
const OP_REP_IMPORT: u16 = 0x0003;
const CMD_SUBMIT: u32 = 1;
const CMD_UNLINK: u32 = 2;
const RET_SUBMIT: u32 = 3;
const RET_UNLINK: u32 = 4;

/// Length in bytes of a message without its data.
const MESSAGE: usize = 48;
/// Length in bytes of the field for a bus ID; the field for a path follows.
const BUS_ID_BYTES: usize = 32;
const PATH_BYTES: usize = 256;
const BUS: u32 = 1;
const NUMBER: u32 = 2;
/// High speed, in Linux's numbering.
const SPEED_HIGH: u32 = 3;
/// Status codes in Linux's numbering: success, a stall, an unlinked transfer, too many transfers.
const OK: i32 = 0;
const EPIPE: i32 = -32;
const ECONNRESET: i32 = -104;
const ENOMEM: i32 = -12;

/// The reason why a session ends: the peer does not speak USB/IP, or uses an unsupported part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionError {
    /// A version or code other than a request for the list of devices or an import.
    InvalidRequest {
        /// The version.
        version: u16,
        /// The code.
        code: u16,
    },
    /// A message with an unknown command.
    Unexpected(u32),
    /// A transfer above the largest accepted length, in bytes.
    TooLong(u32),
    /// Isochronous packets.
    Isochronous,
    /// Bytes that the peer sends after a request for an import and before its answer.
    BeforeImport,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::InvalidRequest { version, code } => write!(
                f,
                "the peer sent request {code:#06x} in version {version:#06x} instead of one for the list of devices or \
                 an import: is the peer usbip?"
            ),
            SessionError::Unexpected(command) => {
                write!(f, "the peer sent message {command}, which does not exist")
            }
            SessionError::TooLong(length) => {
                write!(f, "the peer sent a transfer of {length} bytes; the limit is {TRANSFER_MAX}")
            }
            SessionError::Isochronous => {
                f.write_str("the peer sent isochronous packets, which no device here supports")
            }
            SessionError::BeforeImport => {
                f.write_str("the peer sent a message before its import of the device was answered")
            }
        }
    }
}

impl core::error::Error for SessionError {}

/// A session over one connection.
#[derive(Debug)]
pub struct Session<D> {
    device: D,
    input: Vec<u8>,
    import: Import,
    configuration: u8,
    /// Sequence numbers of outstanding transfers.
    waiting: BTreeSet<u64>,
}

/// State of the import of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Import {
    /// The peer has not requested an import.
    None,
    /// The device has power, but is not yet on the bus.
    Requested,
    /// The peer has imported the device. The number is that of the device's connection to the bus.
    Done(u32),
}

/// Common header of the messages after an import.
#[derive(Clone, Copy, Debug)]
struct MessageHeader {
    command: u32,
    sequence: u32,
    direction: Direction,
    endpoint: u32,
}

impl<D: Device> Carrier for Session<D> {
    type Device = D;
    type Error = SessionError;

    fn begin(_: Instant, device: D, _: &mut Vec<u8>) -> Session<D> {
        Session {
            device,
            input: Vec::new(),
            import: Import::None,
            configuration: 0,
            waiting: BTreeSet::new(),
        }
    }

    fn receive(&mut self, now: Instant, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), SessionError> {
        let mut input = core::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut reader = Reader(&input);
        loop {
            let mut ahead = reader;
            let consumed = match self.import {
                Import::None => self.request(now, &mut ahead, output)?,
                Import::Requested if ahead.0.is_empty() => None,
                Import::Requested => return Err(SessionError::BeforeImport),
                Import::Done(_) => self.message(now, &mut ahead, output)?,
            };
            if consumed.is_none() {
                break;
            }
            reader = ahead;
        }
        let left = reader.0.len();
        input.drain(..input.len() - left);
        self.input = input;
        Ok(())
    }

    fn next_due(&self) -> Option<Instant> {
        self.device.next_due()
    }

    fn advance(&mut self, now: Instant, output: &mut Vec<u8>) {
        while let Some(Completed { id, outcome, .. }) = self.device.complete(now) {
            if !self.waiting.remove(&id) {
                continue;
            }
            match outcome {
                Outcome::In(bytes) => write_submit_reply(id as u32, OK, bytes.len() as u32, &bytes, output),
                Outcome::Out(length) => write_submit_reply(id as u32, OK, length, &[], output),
                Outcome::Stalled => write_submit_reply(id as u32, EPIPE, 0, &[], output),
            }
        }
        self.answer_import(output);
    }

    fn is_over(&self) -> bool {
        matches!(self.import, Import::Done(number) if self.device.connection() != Some(number))
    }

    fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    fn end(mut self, now: Instant) -> D {
        self.device.attach(now, false);
        self.device
    }
}

impl<D: Device> Session<D> {
    /// Handles a request before an import. Returns `None` while bytes are missing.
    fn request(
        &mut self,
        now: Instant,
        reader: &mut Reader<'_>,
        output: &mut Vec<u8>,
    ) -> Result<Option<()>, SessionError> {
        let (Some(version), Some(code), Some(_status)) = (reader.u16_be(), reader.u16_be(), reader.u32_be())
        else {
            return Ok(None);
        };
        match (version, code) {
            (VERSION, OP_REQ_DEVLIST) => {
                write_reply(OP_REP_DEVLIST, 0, output);
                output.extend(1u32.to_be_bytes());
                self.describe(output);
                // The interface: class, subclass, protocol, padding.
                let device = self.device.descriptors();
                output.extend([device.interface_class, device.interface_subclass]);
                output.extend([device.interface_protocol, 0]);
            }
            (VERSION, OP_REQ_IMPORT) => {
                let Some(name) = reader.array::<BUS_ID_BYTES>() else { return Ok(None) };
                if name == padded::<BUS_ID_BYTES>(BUS_ID) {
                    self.import = Import::Requested;
                    self.device.attach(now, true);
                    self.answer_import(output);
                } else {
                    write_reply(OP_REP_IMPORT, 1, output);
                }
            }
            _ => return Err(SessionError::InvalidRequest { version, code }),
        }
        Ok(Some(()))
    }

    /// Answers a request for an import once the device is on the bus, or once it is certain that the device
    /// will not appear there.
    fn answer_import(&mut self, output: &mut Vec<u8>) {
        if self.import != Import::Requested {
            return;
        }
        match (self.device.connection(), self.device.appears_at()) {
            (Some(number), _) => {
                write_reply(OP_REP_IMPORT, 0, output);
                self.describe(output);
                self.import = Import::Done(number);
            }
            (None, Some(_)) => {}
            (None, None) => {
                write_reply(OP_REP_IMPORT, 1, output);
                self.import = Import::None;
            }
        }
    }

    fn describe(&self, output: &mut Vec<u8>) {
        let device = self.device.descriptors();
        output.extend(padded::<PATH_BYTES>("/sys/devices/platform/flashlab/usb1/1-1"));
        output.extend(padded::<BUS_ID_BYTES>(BUS_ID));
        for word in [BUS, NUMBER, SPEED_HIGH] {
            output.extend(word.to_be_bytes());
        }
        for half in [device.vendor, device.product, device.release] {
            output.extend(half.to_be_bytes());
        }
        // Class, subclass, protocol, active configuration, number of configurations, number of interfaces.
        output.extend([0, 0, 0, self.configuration, 1, 1]);
    }

    /// Handles a message to the imported device. Returns `None` while bytes are missing.
    fn message(
        &mut self,
        now: Instant,
        reader: &mut Reader<'_>,
        output: &mut Vec<u8>,
    ) -> Result<Option<()>, SessionError> {
        let Some(bytes) = reader.bytes(MESSAGE) else { return Ok(None) };
        let word = |n: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| bytes[4 * n + byte]));
        let direction = if word(3) == 0 { Direction::Out } else { Direction::In };
        let message = MessageHeader { command: word(0), sequence: word(1), direction, endpoint: word(4) };
        match message.command {
            CMD_SUBMIT => {
                let (length, packets) = (word(6), word(8));
                if length as usize > TRANSFER_MAX {
                    return Err(SessionError::TooLong(length));
                }
                if !matches!(packets, 0 | u32::MAX) {
                    return Err(SessionError::Isochronous);
                }
                let outgoing = if direction == Direction::Out { length as usize } else { 0 };
                let Some(data) = reader.bytes(outgoing) else { return Ok(None) };
                let setup = Setup::from_bytes(core::array::from_fn(|n| bytes[40 + n]));
                self.submit(now, message, setup, length, data, output);
            }
            CMD_UNLINK => {
                let id = word(5).into();
                let was_outstanding = self.waiting.remove(&id) && self.device.cancel(id);
                write_header(RET_UNLINK, message.sequence, output);
                output.extend((if was_outstanding { ECONNRESET } else { OK }).to_be_bytes());
                output.extend([0; 24]);
            }
            command => return Err(SessionError::Unexpected(command)),
        }
        Ok(Some(()))
    }

    fn submit(
        &mut self,
        now: Instant,
        message: MessageHeader,
        setup: Setup,
        length: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) {
        if message.endpoint == 0 {
            let result = control(&mut self.device, &mut self.configuration, now, setup, data);
            return match (result, message.direction) {
                (Ok(mut answer), Direction::In) => {
                    answer.truncate(length as usize);
                    write_submit_reply(message.sequence, OK, answer.len() as u32, &answer, output);
                }
                (Ok(_), Direction::Out) => write_submit_reply(message.sequence, OK, length, &[], output),
                (Err(_), _) => write_submit_reply(message.sequence, EPIPE, 0, &[], output),
            };
        }
        let id = message.sequence.into();
        if message.endpoint > 15 {
            return write_submit_reply(message.sequence, EPIPE, 0, &[], output);
        }
        // A second transfer with the identifier of an outstanding one fails at once, since their completions
        // could not be told apart.
        if self.waiting.len() >= IN_FLIGHT_MAX || !self.waiting.insert(id) {
            return write_submit_reply(message.sequence, ENOMEM, 0, &[], output);
        }
        let payload = match message.direction {
            Direction::In => Payload::In(length),
            Direction::Out => Payload::Out(data.to_vec()),
        };
        self.device.submit(now, Transfer { id, endpoint: message.endpoint as u8, payload });
    }
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    core::array::from_fn(|n| text.as_bytes().get(n).copied().unwrap_or(0))
}

fn write_reply(code: u16, status: u32, output: &mut Vec<u8>) {
    output.extend(VERSION.to_be_bytes());
    output.extend(code.to_be_bytes());
    output.extend(status.to_be_bytes());
}

/// Writes the header of an answer: command and sequence number. Device, direction and endpoint are zero in answers.
fn write_header(command: u32, sequence: u32, output: &mut Vec<u8>) {
    output.extend(command.to_be_bytes());
    output.extend(sequence.to_be_bytes());
    output.extend([0; 12]);
}

fn write_submit_reply(sequence: u32, status: i32, length: u32, data: &[u8], output: &mut Vec<u8>) {
    write_header(RET_SUBMIT, sequence, output);
    output.extend(status.to_be_bytes());
    output.extend(length.to_be_bytes());
    // Start frame, packets, errors, padding.
    output.extend([0; 20]);
    output.extend_from_slice(data);
}
