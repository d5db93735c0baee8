//! usbredir, the host's side: carries a device's transfers to QEMU (`-chardev socket,path=S,id=c -device
//! usb-redir,chardev=c`).
//!
//! The protocol is `usb-redirection-protocol`, version 0.7 of 2014, of the SPICE project. Comments cite its
//! sections by the names of packets. The protocol calls the side with the device usb-host, and the side that
//! uses the device usb-guest.
//!
//! The session supports hello with capabilities, ep_info and interface_info followed by device_connect, and
//! device_disconnect with its acknowledgement. It also supports set and get of configuration and alternate
//! setting, reset, cancel, filters, control packets and bulk packets. It does not offer streams or buffered
//! bulk reception. A packet for an isochronous or interrupt endpoint is answered with "invalid", since no
//! device here has such endpoints.
//!
//! A packet of an unknown type, or of a length that its type does not permit, ends the session, because the peer does
//! not follow the protocol. A well-formed packet that cannot be served (a missing endpoint, too many transfers) is
//! answered with an error.

mod link;
mod wire;

use crate::device::{Completed, Device, Direction, Outcome, Payload, Transfer};
use crate::read::Reader;
use crate::{Carrier, IN_FLIGHT_MAX, TRANSFER_MAX, descriptor};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use flashlab_sim::Instant;
use link::{Announcement, Link};
use wire::{BulkHeader, Capabilities, ControlHeader, Header, STREAM_HEADER, VERSION, kind, status};

/// Version string of this implementation, in a hello.
const OUR_VERSION: &[u8] = b"flashlab";
/// High speed, in device_connect.
const SPEED_HIGH: u8 = 2;
/// Number of entries in interface_info and ep_info.
const SLOTS: usize = 32;
/// Endpoint types in ep_info: control, bulk, and no endpoint.
const TYPE_CONTROL: u8 = 0;
const TYPE_BULK: u8 = 2;
const TYPE_INVALID: u8 = 255;
/// Greatest accepted length in bytes of a hello or a filter.
const PACKET_MAX: usize = 4 << 10;

/// The reason why a session ends: the peer does not speak usbredir, or rejects the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionError {
    /// The first packet was not a hello, but had this type.
    NoHello(u32),
    /// A packet of this type does not exist, does not go in this direction, or was not offered.
    Unexpected(u32),
    /// A packet whose length its type does not permit, or that exceeds the accepted length.
    InvalidLength {
        /// Type of the packet.
        kind: u32,
        /// Length in the header, in bytes.
        length: u32,
    },
    /// The peer's filter rejects the device.
    Rejected,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::NoHello(kind) => {
                write!(
                    f,
                    "the peer began with packet type {kind} instead of a hello: is the peer QEMU's usb-redir?"
                )
            }
            SessionError::Unexpected(kind) => {
                write!(f, "the peer sent a packet of type {kind}, which this side did not offer")
            }
            SessionError::InvalidLength { kind, length } => {
                write!(f, "the peer sent a packet of type {kind} with an invalid length of {length} bytes")
            }
            SessionError::Rejected => {
                f.write_str("the peer's filter (usb-redir's option filter=) rejects the device")
            }
        }
    }
}

impl core::error::Error for SessionError {}

/// An outstanding transfer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    endpoint: u8,
    stream: u32,
}

/// A session over one connection.
#[derive(Debug)]
pub struct Session<D> {
    device: D,
    /// Bytes of an incomplete packet.
    input: Vec<u8>,
    /// Capabilities that both sides have; `None` before the peer's hello.
    common: Option<Capabilities>,
    link: Link,
    configuration: u8,
    waiting: BTreeMap<u64, Waiting>,
}

impl<D: Device> Carrier for Session<D> {
    type Device = D;
    type Error = SessionError;

    fn begin(now: Instant, mut device: D, output: &mut Vec<u8>) -> Session<D> {
        let length = (VERSION + 4) as u32;
        Header { kind: kind::HELLO, length, id: 0 }.emit(false, output);
        let mut version = [0; VERSION];
        version[..OUR_VERSION.len()].copy_from_slice(OUR_VERSION);
        output.extend(version);
        output.extend(Capabilities::OURS.0.to_le_bytes());
        device.attach(now, true);
        Session {
            device,
            input: Vec::new(),
            common: None,
            link: Link::default(),
            configuration: 0,
            waiting: BTreeMap::new(),
        }
    }

    fn receive(&mut self, now: Instant, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), SessionError> {
        let mut input = core::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut reader = Reader(&input);
        while let Some((header, body)) = self.packet(&mut reader)? {
            self.announce(output);
            self.handle(now, header, body, output)?;
        }
        self.announce(output);
        let left = reader.0.len();
        input.drain(..input.len() - left);
        self.input = input;
        Ok(())
    }

    fn next_due(&self) -> Option<Instant> {
        self.device.next_due()
    }

    fn advance(&mut self, now: Instant, output: &mut Vec<u8>) {
        while let Some(completed) = self.device.complete(now) {
            self.answer_bulk(completed, output);
        }
        self.announce(output);
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
    fn supports(&self, capability: u32) -> bool {
        self.common.is_some_and(|common| common.contains(capability))
    }

    /// Takes the next complete packet. Returns `None` while bytes are missing.
    fn packet<'a>(&self, reader: &mut Reader<'a>) -> Result<Option<(Header, &'a [u8])>, SessionError> {
        let mut ahead = *reader;
        let Some(header) = Header::parse(&mut ahead, self.supports(Capabilities::IDS_OF_64_BITS)) else {
            return Ok(None);
        };
        if self.common.is_none() && header.kind != kind::HELLO {
            return Err(SessionError::NoHello(header.kind));
        }
        let length = header.length as usize;
        if !self.admits(header.kind, length)? {
            return Err(SessionError::InvalidLength { kind: header.kind, length: header.length });
        }
        let Some(body) = ahead.bytes(length) else { return Ok(None) };
        *reader = ahead;
        Ok(Some((header, body)))
    }

    /// Returns true if a packet of this type can have this length.
    fn admits(&self, packet_type: u32, length: usize) -> Result<bool, SessionError> {
        let with_data = |header: usize| (header..=header + TRANSFER_MAX).contains(&length);
        Ok(match packet_type {
            kind::HELLO => (VERSION..=PACKET_MAX).contains(&length) && length.is_multiple_of(4),
            kind::RESET
            | kind::GET_CONFIGURATION
            | kind::CANCEL_DATA_PACKET
            | kind::FILTER_REJECT
            | kind::DEVICE_DISCONNECT_ACK => length == 0,
            kind::SET_CONFIGURATION
            | kind::GET_ALT_SETTING
            | kind::STOP_ISO_STREAM
            | kind::START_INTERRUPT_RECEIVING
            | kind::STOP_INTERRUPT_RECEIVING => length == 1,
            kind::SET_ALT_SETTING => length == 2,
            kind::START_ISO_STREAM => length == 3,
            kind::FILTER_FILTER => length <= PACKET_MAX,
            kind::CONTROL_PACKET => with_data(ControlHeader::BYTES),
            kind::BULK_PACKET => {
                with_data(BulkHeader::bytes(self.supports(Capabilities::BULK_LENGTH_OF_32_BITS)))
            }
            kind::ISO_PACKET | kind::INTERRUPT_PACKET => with_data(STREAM_HEADER),
            _ => return Err(SessionError::Unexpected(packet_type)),
        })
    }

    fn handle(
        &mut self,
        now: Instant,
        header: Header,
        body: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        // `admits` has checked the lengths of fixed parts.
        let byte = |index: usize| body.get(index).copied().unwrap_or_default();
        let id = header.id;
        match header.kind {
            kind::HELLO => return self.hello(body, output),
            kind::DEVICE_DISCONNECT_ACK => self.link.acknowledge(),
            kind::FILTER_REJECT => return Err(SessionError::Rejected),
            // The peer applies its filter itself when it sees the device.
            kind::FILTER_FILTER => {}
            // The peer sent the packet before it learnt that the device is gone, and expects no answer.
            _ if !self.link.is_connected() => {}
            kind::RESET => {
                self.device.reset(now);
                self.waiting.clear();
            }
            kind::SET_CONFIGURATION => {
                let known = byte(0) <= 1;
                if known {
                    self.configuration = byte(0);
                    descriptor::end_halts(&mut self.device, now);
                    self.describe(output);
                }
                let result = if known { status::SUCCESS } else { status::INVALID };
                self.send_packet(kind::CONFIGURATION_STATUS, id, &[result, self.configuration], output);
            }
            kind::GET_CONFIGURATION => {
                self.send_packet(
                    kind::CONFIGURATION_STATUS,
                    id,
                    &[status::SUCCESS, self.configuration],
                    output,
                );
            }
            kind::SET_ALT_SETTING => {
                let known = byte(0) == 0 && byte(1) == 0;
                if known {
                    descriptor::end_halts(&mut self.device, now);
                    self.describe(output);
                }
                let result = if known { status::SUCCESS } else { status::INVALID };
                self.send_packet(kind::ALT_SETTING_STATUS, id, &[result, byte(0), 0], output);
            }
            kind::GET_ALT_SETTING => {
                let result = if byte(0) == 0 { status::SUCCESS } else { status::INVALID };
                self.send_packet(kind::ALT_SETTING_STATUS, id, &[result, byte(0), 0], output);
            }
            kind::START_ISO_STREAM | kind::STOP_ISO_STREAM => {
                self.send_packet(kind::ISO_STREAM_STATUS, id, &[status::INVALID, byte(0)], output);
            }
            kind::START_INTERRUPT_RECEIVING | kind::STOP_INTERRUPT_RECEIVING => {
                self.send_packet(kind::INTERRUPT_RECEIVING_STATUS, id, &[status::INVALID, byte(0)], output);
            }
            kind::CANCEL_DATA_PACKET => self.cancel(id, output),
            kind::CONTROL_PACKET => self.control(now, header, body, output)?,
            kind::BULK_PACKET => self.bulk(now, header, body, output)?,
            // A packet for an isochronous or interrupt endpoint, which the device does not have. The packet
            // contains endpoint, status and length, as `admits` has checked.
            _ => self.send_packet(header.kind, id, &[byte(0), status::INVALID, 0, 0], output),
        }
        Ok(())
    }

    fn send_packet(&self, packet_type: u32, id: u64, body: &[u8], output: &mut Vec<u8>) {
        let wide = self.supports(Capabilities::IDS_OF_64_BITS);
        Header { kind: packet_type, length: body.len() as u32, id }.emit(wide, output);
        output.extend_from_slice(body);
    }

    /// Handles the peer's hello. The capabilities of both sides are now known, so a device on the bus is announced.
    fn hello(&mut self, body: &[u8], output: &mut Vec<u8>) -> Result<(), SessionError> {
        if self.common.is_some() {
            return Err(SessionError::Unexpected(kind::HELLO));
        }
        let theirs = Reader(&body[VERSION..]).u32_le().unwrap_or(0);
        self.common = Some(Capabilities(theirs & Capabilities::OURS.0));
        self.announce(output);
        Ok(())
    }

    /// Tells the peer if the device has appeared on the bus or left it.
    fn announce(&mut self, output: &mut Vec<u8>) {
        if self.common.is_none() {
            return;
        }
        let is_acknowledged = self.supports(Capabilities::DEVICE_DISCONNECT_ACK);
        while let Some(announcement) = self.link.update(self.device.connection(), is_acknowledged) {
            match announcement {
                Announcement::Connect => self.connect(output),
                Announcement::Disconnect => {
                    self.waiting.clear();
                    self.configuration = 0;
                    self.send_packet(kind::DEVICE_DISCONNECT, 0, &[], output);
                }
            }
        }
    }

    fn connect(&self, output: &mut Vec<u8>) {
        self.describe(output);
        let device = self.device.descriptors();
        // Class, subclass and protocol are those of the interface, so they are zero here.
        let mut connect = Vec::from([SPEED_HIGH, 0, 0, 0]);
        connect.extend(device.vendor.to_le_bytes());
        connect.extend(device.product.to_le_bytes());
        if self.supports(Capabilities::CONNECT_DEVICE_VERSION) {
            connect.extend(device.release.to_le_bytes());
        }
        self.send_packet(kind::DEVICE_CONNECT, 0, &connect, output);
    }

    /// Sends ep_info, then interface_info.
    fn describe(&self, output: &mut Vec<u8>) {
        let device = self.device.descriptors();
        let mut types = [TYPE_INVALID; SLOTS];
        let mut packets = [0u16; SLOTS];
        // Entries 0 to 15 are outgoing endpoints, entries 16 to 31 incoming ones. Endpoint 0 is in both halves.
        for slot in [0, SLOTS / 2] {
            types[slot] = TYPE_CONTROL;
            packets[slot] = descriptor::CONTROL_PACKET.into();
        }
        for endpoint in device.endpoints {
            let slot = usize::from(endpoint.number & 15)
                + if endpoint.direction == Direction::In { SLOTS / 2 } else { 0 };
            types[slot] = TYPE_BULK;
            packets[slot] = descriptor::BULK_PACKET;
        }
        let mut ep_info = Vec::from(types);
        // Intervals, then the interface of each endpoint.
        ep_info.extend([0; 2 * SLOTS]);
        if self.supports(Capabilities::EP_INFO_MAX_PACKET_SIZE) {
            ep_info.extend(packets.into_iter().flat_map(u16::to_le_bytes));
        }
        self.send_packet(kind::EP_INFO, 0, &ep_info, output);

        let mut interface_info = Vec::from(1u32.to_le_bytes());
        // Numbers, classes, subclasses, protocols.
        interface_info.extend([0; 4 * SLOTS]);
        interface_info[4 + SLOTS] = device.interface_class;
        interface_info[4 + 2 * SLOTS] = device.interface_subclass;
        interface_info[4 + 3 * SLOTS] = device.interface_protocol;
        self.send_packet(kind::INTERFACE_INFO, 0, &interface_info, output);
    }

    fn control(
        &mut self,
        now: Instant,
        header: Header,
        body: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let mut reader = Reader(body);
        let wrong = SessionError::InvalidLength { kind: header.kind, length: header.length };
        let mut control = ControlHeader::parse(&mut reader).ok_or(wrong)?;
        let setup = control.setup;
        let expected = if control.endpoint & 0x80 == 0 { usize::from(setup.length) } else { 0 };
        if reader.0.len() != expected {
            return Err(wrong);
        }
        let result = descriptor::control(&mut self.device, &mut self.configuration, now, setup, reader.0);
        let (code, length, data) = match &result {
            Ok(data) if control.endpoint & 0x80 != 0 => (status::SUCCESS, data.len() as u16, data.as_slice()),
            Ok(_) => (status::SUCCESS, setup.length, [].as_slice()),
            Err(_) => (status::STALL, 0, [].as_slice()),
        };
        control.status = code;
        let mut answer = Vec::new();
        control.emit(length, &mut answer);
        answer.extend_from_slice(data);
        self.send_packet(kind::CONTROL_PACKET, header.id, &answer, output);
        Ok(())
    }

    fn bulk(
        &mut self,
        now: Instant,
        header: Header,
        body: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let mut reader = Reader(body);
        let wrong = SessionError::InvalidLength { kind: header.kind, length: header.length };
        let wide = self.supports(Capabilities::BULK_LENGTH_OF_32_BITS);
        let bulk = BulkHeader::parse(&mut reader, wide).ok_or(wrong)?;
        let incoming = bulk.endpoint & 0x80 != 0;
        let expected = if incoming { 0 } else { bulk.length as usize };
        if reader.0.len() != expected {
            return Err(wrong);
        }
        let waiting = Waiting { endpoint: bulk.endpoint, stream: bulk.stream };
        // A second transfer with the identifier of an outstanding one fails at once, since their completions
        // could not be told apart.
        if self.waiting.len() >= IN_FLIGHT_MAX || self.waiting.contains_key(&header.id) {
            self.finish_bulk(header.id, waiting, status::IO_ERROR, 0, &[], output);
            return Ok(());
        }
        self.waiting.insert(header.id, waiting);
        let payload = if incoming { Payload::In(bulk.length) } else { Payload::Out(reader.0.to_vec()) };
        self.device.submit(now, Transfer { id: header.id, endpoint: bulk.endpoint & 15, payload });
        Ok(())
    }

    fn answer_bulk(&mut self, completed: Completed, output: &mut Vec<u8>) {
        let Some(waiting) = self.waiting.remove(&completed.id) else { return };
        let (code, length, data) = match &completed.outcome {
            Outcome::In(bytes) => (status::SUCCESS, bytes.len() as u32, bytes.as_slice()),
            Outcome::Out(length) => (status::SUCCESS, *length, [].as_slice()),
            Outcome::Stalled => (status::STALL, 0, [].as_slice()),
        };
        self.finish_bulk(completed.id, waiting, code, length, data, output);
    }

    fn finish_bulk(
        &self,
        id: u64,
        Waiting { endpoint, stream }: Waiting,
        status: u8,
        length: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) {
        let mut answer = Vec::new();
        let wide = self.supports(Capabilities::BULK_LENGTH_OF_32_BITS);
        BulkHeader { endpoint, status, length, stream }.emit(wide, &mut answer);
        answer.extend_from_slice(data);
        self.send_packet(kind::BULK_PACKET, id, &answer, output);
    }

    /// Cancels a transfer. A completed transfer has already been answered and needs no further answer.
    fn cancel(&mut self, id: u64, output: &mut Vec<u8>) {
        let Some(waiting) = self.waiting.remove(&id) else { return };
        self.device.cancel(id);
        self.finish_bulk(id, waiting, status::CANCELLED, 0, &[], output);
    }
}
