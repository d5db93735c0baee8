//! The descriptors of a device and its answers to standard requests: USB 2.0, chapter 9.
//!
//! Models a high-speed device of one configuration, with one interface and bulk endpoints. The model omits
//! other speeds, alternate settings and suspend.

use crate::device::{Device, Direction, Setup, Stalled};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use flashlab_sim::Instant;

/// Standard requests (table 9-4).
mod request {
    pub(super) const GET_STATUS: u8 = 0;
    pub(super) const CLEAR_FEATURE: u8 = 1;
    pub(super) const SET_FEATURE: u8 = 3;
    pub(super) const GET_DESCRIPTOR: u8 = 6;
    pub(super) const GET_CONFIGURATION: u8 = 8;
    pub(super) const SET_CONFIGURATION: u8 = 9;
    pub(super) const GET_INTERFACE: u8 = 10;
    pub(super) const SET_INTERFACE: u8 = 11;
}

/// Recipient of a request (table 9-2): an endpoint.
const RECIPIENT_ENDPOINT: u8 = 2;
/// Selector of the feature ENDPOINT_HALT (table 9-6).
const ENDPOINT_HALT: u16 = 0;

/// Types of descriptors (table 9-5).
mod kind {
    pub(super) const DEVICE: u8 = 1;
    pub(super) const CONFIGURATION: u8 = 2;
    pub(super) const STRING: u8 = 3;
    pub(super) const INTERFACE: u8 = 4;
    pub(super) const ENDPOINT: u8 = 5;
    pub(super) const QUALIFIER: u8 = 6;
}

/// Language code of English (United States) in string descriptors.
const ENGLISH: u16 = 0x0409;
/// Largest packet of a high-speed bulk endpoint in bytes (section 5.8.3).
pub(crate) const BULK_PACKET: u16 = 512;
/// Largest packet of endpoint 0 in bytes (section 5.5.3).
pub(crate) const CONTROL_PACKET: u8 = 64;

/// A bulk endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Endpoint number, 1 to 15.
    pub number: u8,
    /// Direction of its transfers.
    pub direction: Direction,
}

impl Endpoint {
    /// Returns the endpoint's address as descriptors encode it.
    pub const fn address(self) -> u8 {
        match self.direction {
            Direction::Out => self.number,
            Direction::In => self.number | 0x80,
        }
    }
}

/// The fields of the descriptors that differ between devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Descriptors {
    /// Vendor ID (idVendor).
    pub vendor: u16,
    /// Product ID (idProduct).
    pub product: u16,
    /// Release of the device in decimal digits (bcdDevice).
    pub release: u16,
    /// Class of the interface; 255 is vendor specific.
    pub interface_class: u8,
    /// Subclass of the interface.
    pub interface_subclass: u8,
    /// Protocol of the interface.
    pub interface_protocol: u8,
    /// Strings of manufacturer, product and serial number.
    pub strings: [Cow<'static, str>; 3],
    /// Endpoints, in the order of their descriptors.
    pub endpoints: &'static [Endpoint],
}

impl Descriptors {
    fn device(&self) -> Vec<u8> {
        let mut bytes = Vec::from([18, kind::DEVICE, 0x00, 0x02, 0, 0, 0, CONTROL_PACKET]);
        for word in [self.vendor, self.product, self.release] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([1, 2, 3, 1]);
        bytes
    }

    fn configuration(&self) -> Vec<u8> {
        let total = 9 + 9 + 7 * self.endpoints.len() as u16;
        let [low, high] = total.to_le_bytes();
        // The device is powered by the bus and takes up to 500 mA.
        let mut bytes = Vec::from([9, kind::CONFIGURATION, low, high, 1, 1, 0, 0x80, 250]);
        let count = self.endpoints.len() as u8;
        bytes.extend([9, kind::INTERFACE, 0, 0, count]);
        bytes.extend([self.interface_class, self.interface_subclass, self.interface_protocol, 0]);
        for endpoint in self.endpoints {
            let [low, high] = BULK_PACKET.to_le_bytes();
            bytes.extend([7, kind::ENDPOINT, endpoint.address(), 2, low, high, 0]);
        }
        bytes
    }

    /// Returns the device qualifier, which describes the device at another speed.
    fn qualifier(&self) -> Vec<u8> {
        Vec::from([10, kind::QUALIFIER, 0x00, 0x02, 0, 0, 0, CONTROL_PACKET, 1, 0])
    }

    fn string(&self, index: u8) -> Option<Vec<u8>> {
        let units: Vec<u16> = match index {
            0 => Vec::from([ENGLISH]),
            _ => self.strings.get(usize::from(index) - 1)?.encode_utf16().take(126).collect(),
        };
        let mut bytes = Vec::from([2 + 2 * units.len() as u8, kind::STRING]);
        bytes.extend(units.into_iter().flat_map(u16::to_le_bytes));
        Some(bytes)
    }

    fn get(&self, value: u16) -> Option<Vec<u8>> {
        let [index, descriptor_type] = value.to_le_bytes();
        match descriptor_type {
            kind::DEVICE => Some(self.device()),
            kind::CONFIGURATION if index == 0 => Some(self.configuration()),
            kind::STRING => self.string(index),
            kind::QUALIFIER => Some(self.qualifier()),
            _ => None,
        }
    }
}

/// Handles a control transfer. This function answers standard requests itself, and passes requests of a class
/// or vendor to the device.
pub(crate) fn control<D: Device>(
    device: &mut D,
    configuration: &mut u8,
    now: Instant,
    setup: Setup,
    data: &[u8],
) -> Result<Vec<u8>, Stalled> {
    if !device.responds(now) {
        return Err(Stalled);
    }
    if !setup.is_standard() {
        return device.control(now, setup, data);
    }
    let is_halt = setup.request_type & 0x1f == RECIPIENT_ENDPOINT && setup.value == ENDPOINT_HALT;
    let address = setup.index as u8;
    match setup.request {
        request::CLEAR_FEATURE if is_halt => device.set_halted(now, address, false),
        request::SET_FEATURE if is_halt => device.set_halted(now, address, true),
        request::GET_STATUS if is_halt => {
            let mut answer = Vec::from([u8::from(device.is_halted(address)), 0]);
            answer.truncate(usize::from(setup.length));
            return Ok(answer);
        }
        _ => {}
    }
    let answer = standard(device.descriptors(), configuration, setup)?;
    if matches!(setup.request, request::SET_CONFIGURATION | request::SET_INTERFACE) {
        end_halts(device, now);
    }
    Ok(answer)
}

/// Ends the halts of all endpoints, as a new configuration or alternate setting does (section 9.4.5).
pub(crate) fn end_halts<D: Device>(device: &mut D, now: Instant) {
    for endpoint in device.descriptors().endpoints {
        device.set_halted(now, endpoint.address(), false);
    }
}

/// Returns the device's answer to a standard request on endpoint 0. `configuration` is the active configuration, 0 or
/// 1.
pub fn standard(descriptors: &Descriptors, configuration: &mut u8, setup: Setup) -> Result<Vec<u8>, Stalled> {
    let mut answer = match setup.request {
        request::GET_STATUS => Vec::from([0, 0]),
        request::CLEAR_FEATURE | request::SET_FEATURE => Vec::new(),
        request::GET_DESCRIPTOR => descriptors.get(setup.value).ok_or(Stalled)?,
        request::GET_CONFIGURATION => Vec::from([*configuration]),
        request::SET_CONFIGURATION if setup.value <= 1 => {
            *configuration = setup.value as u8;
            Vec::new()
        }
        request::GET_INTERFACE if setup.index == 0 => Vec::from([0]),
        request::SET_INTERFACE if setup.index == 0 && setup.value == 0 => Vec::new(),
        _ => return Err(Stalled),
    };
    answer.truncate(usize::from(setup.length));
    Ok(answer)
}
