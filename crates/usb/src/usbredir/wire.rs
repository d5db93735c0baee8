//! The packets of usbredir: types, headers and their lengths. All integers are little-endian, and there is no padding.

use crate::device::Setup;
use crate::read::Reader;
use alloc::vec::Vec;

/// Packet types of the protocol.
pub(super) mod kind {
    pub(crate) const HELLO: u32 = 0;
    pub(crate) const DEVICE_CONNECT: u32 = 1;
    pub(crate) const DEVICE_DISCONNECT: u32 = 2;
    pub(crate) const RESET: u32 = 3;
    pub(crate) const INTERFACE_INFO: u32 = 4;
    pub(crate) const EP_INFO: u32 = 5;
    pub(crate) const SET_CONFIGURATION: u32 = 6;
    pub(crate) const GET_CONFIGURATION: u32 = 7;
    pub(crate) const CONFIGURATION_STATUS: u32 = 8;
    pub(crate) const SET_ALT_SETTING: u32 = 9;
    pub(crate) const GET_ALT_SETTING: u32 = 10;
    pub(crate) const ALT_SETTING_STATUS: u32 = 11;
    pub(crate) const START_ISO_STREAM: u32 = 12;
    pub(crate) const STOP_ISO_STREAM: u32 = 13;
    pub(crate) const ISO_STREAM_STATUS: u32 = 14;
    pub(crate) const START_INTERRUPT_RECEIVING: u32 = 15;
    pub(crate) const STOP_INTERRUPT_RECEIVING: u32 = 16;
    pub(crate) const INTERRUPT_RECEIVING_STATUS: u32 = 17;
    pub(crate) const CANCEL_DATA_PACKET: u32 = 21;
    pub(crate) const FILTER_REJECT: u32 = 22;
    pub(crate) const FILTER_FILTER: u32 = 23;
    pub(crate) const DEVICE_DISCONNECT_ACK: u32 = 24;
    pub(crate) const CONTROL_PACKET: u32 = 100;
    pub(crate) const BULK_PACKET: u32 = 101;
    pub(crate) const ISO_PACKET: u32 = 102;
    pub(crate) const INTERRUPT_PACKET: u32 = 103;
}

/// Status codes of the protocol.
pub(super) mod status {
    pub(crate) const SUCCESS: u8 = 0;
    pub(crate) const CANCELLED: u8 = 1;
    pub(crate) const INVALID: u8 = 2;
    pub(crate) const IO_ERROR: u8 = 3;
    pub(crate) const STALL: u8 = 4;
}

/// Capabilities of one side, as bits. A session uses those that both sides have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Capabilities(pub(super) u32);

impl Capabilities {
    pub(super) const CONNECT_DEVICE_VERSION: u32 = 1 << 1;
    pub(super) const FILTER: u32 = 1 << 2;
    pub(super) const DEVICE_DISCONNECT_ACK: u32 = 1 << 3;
    pub(super) const EP_INFO_MAX_PACKET_SIZE: u32 = 1 << 4;
    pub(super) const IDS_OF_64_BITS: u32 = 1 << 5;
    pub(super) const BULK_LENGTH_OF_32_BITS: u32 = 1 << 6;
    /// Capabilities that this implementation offers.
    pub(super) const OURS: Capabilities = Capabilities(
        Self::CONNECT_DEVICE_VERSION
            | Self::FILTER
            | Self::DEVICE_DISCONNECT_ACK
            | Self::EP_INFO_MAX_PACKET_SIZE
            | Self::IDS_OF_64_BITS
            | Self::BULK_LENGTH_OF_32_BITS,
    );

    pub(super) const fn contains(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// Length in bytes of the version string in a hello; capabilities follow.
pub(super) const VERSION: usize = 64;

/// Header of every packet. The id has 32 or 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) kind: u32,
    pub(super) length: u32,
    pub(super) id: u64,
}

impl Header {
    pub(super) fn parse(reader: &mut Reader<'_>, wide: bool) -> Option<Header> {
        let (kind, length) = (reader.u32_le()?, reader.u32_le()?);
        let id = if wide { reader.u64_le()? } else { reader.u32_le()?.into() };
        Some(Header { kind, length, id })
    }

    pub(super) fn emit(self, wide: bool, into: &mut Vec<u8>) {
        into.extend(self.kind.to_le_bytes());
        into.extend(self.length.to_le_bytes());
        if wide {
            into.extend(self.id.to_le_bytes());
        } else {
            into.extend((self.id as u32).to_le_bytes());
        }
    }
}

/// Header of a control packet; the data follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ControlHeader {
    pub(super) endpoint: u8,
    pub(super) setup: Setup,
    pub(super) status: u8,
}

impl ControlHeader {
    pub(super) const BYTES: usize = 10;

    pub(super) fn parse(reader: &mut Reader<'_>) -> Option<ControlHeader> {
        let (endpoint, request, request_type, status) =
            (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
        let (value, index, length) = (reader.u16_le()?, reader.u16_le()?, reader.u16_le()?);
        let setup = Setup { request_type, request, value, index, length };
        Some(ControlHeader { endpoint, setup, status })
    }

    pub(super) fn emit(self, length: u16, into: &mut Vec<u8>) {
        into.extend([self.endpoint, self.setup.request, self.setup.request_type, self.status]);
        for word in [self.setup.value, self.setup.index, length] {
            into.extend(word.to_le_bytes());
        }
    }
}

/// Header of a bulk packet; the data follows. The length has 16 or 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BulkHeader {
    pub(super) endpoint: u8,
    pub(super) status: u8,
    pub(super) length: u32,
    pub(super) stream: u32,
}

impl BulkHeader {
    pub(super) fn parse(reader: &mut Reader<'_>, wide: bool) -> Option<BulkHeader> {
        let (endpoint, status, low) = (reader.u8()?, reader.u8()?, reader.u16_le()?);
        let stream = reader.u32_le()?;
        let high = if wide { reader.u16_le()? } else { 0 };
        let length = u32::from(high) << 16 | u32::from(low);
        Some(BulkHeader { endpoint, status, length, stream })
    }

    pub(super) fn emit(self, wide: bool, into: &mut Vec<u8>) {
        into.extend([self.endpoint, self.status]);
        into.extend((self.length as u16).to_le_bytes());
        into.extend(self.stream.to_le_bytes());
        if wide {
            into.extend(((self.length >> 16) as u16).to_le_bytes());
        }
    }

    pub(super) const fn bytes(wide: bool) -> usize {
        if wide { 10 } else { 8 }
    }
}

/// Header length in bytes of packets for isochronous and interrupt endpoints: endpoint, status, length.
pub(super) const STREAM_HEADER: usize = 4;
