//! Performs the first exchanges of a Linux host that attaches an adapter over USB/IP: the list of devices,
//! the import, the device's descriptor, and the state of the slot. There is no socket: the session takes
//! bytes and returns bytes.

use flashlab_sim::Instant;
use flashlab_usb::usbip::{BUS_ID, Session};
use flashlab_usb::{Carrier, Vub300};

/// Builds the USB/IP message of a control transfer to the host.
fn control_in(sequence: u32, setup: [u8; 8]) -> Vec<u8> {
    let length = u32::from(u16::from_le_bytes([setup[6], setup[7]]));
    let words = [1, sequence, 0x10002, 1, 0, 0, length, 0, 0, 0];
    words.into_iter().flat_map(u32::to_be_bytes).chain(setup).collect()
}

fn main() {
    let now = Instant::ZERO;
    let mut output = Vec::new();
    let mut session = Session::begin(now, Vub300::new(None), &mut output);
    let mut exchange = |bytes: &[u8]| {
        let mut output = Vec::new();
        session.receive(now, bytes, &mut output).expect("it is USB/IP");
        output
    };
    let list = exchange(&[0x01, 0x11, 0x80, 0x05, 0, 0, 0, 0]);
    println!("list of devices: {} bytes, one device on bus {}", list.len(), &BUS_ID[..1]);
    let mut import = vec![0x01, 0x11, 0x80, 0x03, 0, 0, 0, 0];
    import.extend(BUS_ID.bytes());
    import.resize(40, 0);
    println!("import of {BUS_ID}: {} bytes", exchange(&import).len());
    let device = exchange(&control_in(1, [0x80, 6, 0, 1, 0, 0, 18, 0]));
    println!("device descriptor: {:02x?}", &device[48..]);
    let status = exchange(&control_in(2, [0xc0, 0, 0, 0, 0, 0, 15, 0]));
    println!("state of the slot: {:02x?}: no card", &status[48..]);
}
