//! Tests of sticks with quirks, and of sticks that leave the bus, alone and behind both protocols.

use crate::common::stick::{BLOCK, Data, Host, OPERATION, Ram, identity, ten};
use flashlab_sim::{Duration, Instant};
use flashlab_usb::{
    Carrier, Device, MassStorage, Payload, PlannedStickQuirk, StickQuirk, Transfer, usbip, usbredir,
};

const READ: u8 = 0x28;
const WRITE: u8 = 0x2a;
const SECOND: Duration = Duration::from_secs(1);

/// Returns a stick without power that has the quirks of `texts`.
fn stick(texts: &[&str]) -> MassStorage<Ram> {
    let mut stick = MassStorage::new(Ram::new(2048), identity());
    for text in texts {
        stick.add_quirk(Instant::ZERO, text.parse::<PlannedStickQuirk>().expect("it is a quirk"));
    }
    stick
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// Handles all events and transfers at or before `now`.
fn pass(stick: &mut MassStorage<Ram>, now: Instant) {
    while stick.complete(now).is_some() {}
}

#[test]
fn a_stick_that_needs_a_reset_ignores_requests_until_a_reset_after_a_pause() {
    let mut stick = stick(&["needs-reset=3s"]);
    stick.attach(at(0), true);
    stick.reset(at(5));
    stick.reset(at(10));
    assert!(
        stick.connection().is_some() && !stick.responds(at(10)),
        "the host sees a device that does not answer"
    );
    stick.reset(at(12));
    assert!(!stick.responds(at(12)), "the pause was too short");
    stick.submit(at(14), Transfer { id: 1, endpoint: 2, payload: Payload::Out(vec![0; 31]) });
    let refused = stick.complete(at(14)).expect("it is answered at once");
    assert_eq!(refused.outcome, flashlab_usb::Outcome::Stalled);
    assert!(!stick.responds(at(20)), "a pause without a reset does not help");
    stick.reset(at(23));
    assert!(stick.responds(at(23)));
    stick.reset(at(23));
    assert!(stick.responds(at(23)), "an awake stick remains awake");
    stick.attach(at(24), false);
    stick.attach(at(25), true);
    stick.reset(at(30));
    assert!(!stick.responds(at(30)), "after a power cut, the stick needs another reset");
    stick.clear_quirks();
    assert!(stick.responds(at(30)));
}

#[test]
fn a_slow_stick_appears_late_and_is_ready_later() {
    let mut stick = stick(&["appears-after=2s", "ready-after=5s"]);
    stick.attach(at(1), true);
    assert_eq!((stick.connection(), stick.next_due()), (None, Some(at(3))));
    pass(&mut stick, at(3));
    assert!(stick.connection().is_some() && stick.responds(at(3)));
    let mut host = Host::with(stick, at(3));
    assert_eq!(host.sense(&[0; 6]), [6, 0x29, 0]);
    assert_eq!(host.sense(&[0; 6]), [2, 4, 1], "becoming ready");
    host.now = at(6);
    assert_eq!(host.command(&[0; 6], Data::None).status, 0);
}

#[test]
fn a_wrong_capacity_is_reported_and_the_blocks_beyond_the_end_fail() {
    let mut host = Host::new(Ram::new(2048));
    host.stick.add_quirk(host.now, StickQuirk::Capacity(2049 * 512));
    assert_eq!(host.fetch(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8)[..4], [0, 0, 8, 0], "one block too many");
    let mut long = [0; 16];
    (long[0], long[1], long[13]) = (0x9e, 0x10, 32);
    assert_eq!(host.fetch(&long, 32)[..8], [0, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(host.command(&ten(READ, 2047, 1), Data::In(512)).status, 0);
    assert_eq!(host.command(&ten(READ, 2048, 1), Data::In(512)).status, 1);
    assert_eq!(host.request_sense(), [5, 0x21, 0]);
    host.stick.clear_quirks();
    assert_eq!(host.fetch(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8)[..4], [0, 0, 7, 255]);
}

#[test]
fn a_stick_becomes_write_protected_after_a_number_of_blocks() {
    let mut host = Host::new(Ram::new(64));
    let planned: PlannedStickQuirk = "write-protected@block4".parse().unwrap();
    host.stick.add_quirk(host.now, planned);
    assert_eq!(host.fetch(&[0x1a, 0, 8, 0, 24, 0], 24)[2], 0x10);
    assert_eq!(host.command(&ten(WRITE, 0, 2), Data::Out(&[1; 2 * BLOCK])).status, 0);
    assert_eq!(host.fetch(&ten(READ, 0, 2), 1024), [1; 1024]);
    assert_eq!(host.command(&ten(WRITE, 0, 1), Data::Out(&[2; BLOCK])).status, 1);
    assert_eq!(host.request_sense(), [7, 0x27, 0]);
    assert_eq!(host.fetch(&[0x1a, 0, 8, 0, 24, 0], 24)[2], 0x90);
    assert_eq!(host.stick.active_quirks(), [StickQuirk::WriteProtected]);
    assert_eq!(host.fetch(&ten(READ, 0, 1), 512), [1; BLOCK]);
}

#[test]
fn a_stick_drops_off_the_bus_in_the_middle_of_a_command_and_returns() {
    let mut host = Host::new(Ram::new(4096));
    host.transfer_max = 64 << 10;
    let first = host.stick.connection();
    let planned: PlannedStickQuirk = "disconnect=2s@block300".parse().unwrap();
    host.stick.add_quirk(host.now, planned);
    let cbw = crate::common::stick::wrapper(1, 240 * 512, 0x80, &ten(READ, 0, 240));
    for (blocks, answered) in [(240, true), (240, false)] {
        host.transfer(2, Payload::Out(cbw.clone()));
        let mut left = blocks * 512;
        while left > 0 {
            match host.transfer(1, Payload::In(left.min(64 << 10))) {
                Some(flashlab_usb::Outcome::In(bytes)) => left -= bytes.len() as u32,
                _ => break,
            }
        }
        assert_eq!(left == 0, answered);
        if answered {
            host.transfer(1, Payload::In(13));
        }
    }
    assert_eq!((host.stick.connection(), host.stick.disk().powered), (None, false));
    let back = host.stick.next_due().expect("it returns");
    pass(&mut host.stick, back);
    assert!(host.stick.connection().is_some_and(|number| Some(number) != first));
    assert!(back >= host.now && back <= host.now + SECOND + SECOND, "{back:?}");
    host.now = back;
    assert_eq!(host.sense(&[0; 6]), [6, 0x29, 0]);
    assert_eq!(host.fetch(&ten(READ, 0, 1), 512).len(), 512);
}

#[test]
fn a_pulled_stick_is_gone_until_it_is_plugged_in_again() {
    let mut host = Host::new(Ram::new(64));
    host.transfer(2, Payload::Out(crate::common::stick::wrapper(1, 512, 0, &ten(WRITE, 0, 1))));
    host.transfer(2, Payload::Out(vec![5; BLOCK]));
    host.stick.set_plugged(host.now, false);
    assert!(!host.stick.is_plugged() && !host.stick.responds(host.now) && host.stick.next_due().is_none());
    assert!(!host.stick.drop_off(host.now, SECOND), "the stick is not on the bus");
    assert_eq!(host.stick.disk().bytes[..BLOCK], [0; BLOCK], "the write had not ended");
    host.stick.set_plugged(host.now + OPERATION, true);
    host.now += OPERATION;
    assert_eq!(host.sense(&[0; 6]), [6, 0x29, 0]);
    // Without power from the port, plugging in has no effect.
    host.stick.attach(host.now, false);
    host.stick.set_plugged(host.now, false);
    host.stick.set_plugged(host.now, true);
    assert_eq!(host.stick.connection(), None);
}

fn redir_hello(capabilities: u32) -> Vec<u8> {
    let mut bytes = [0u32, 68, 0].map(u32::to_le_bytes).concat();
    bytes.extend([0; 64]);
    bytes.extend(capabilities.to_le_bytes());
    bytes
}

/// Returns the types of the packets, whose ids have 64 bits.
fn kinds(mut bytes: &[u8]) -> Vec<u32> {
    let mut kinds = Vec::new();
    while !bytes.is_empty() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        kinds.push(word(0));
        bytes = &bytes[16 + word(4) as usize..];
    }
    kinds
}

const ACKNOWLEDGES: u32 = 1 << 3;
const WIDE: u32 = 1 << 5;
const ACKNOWLEDGEMENT: [u8; 16] = [24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn usbredir_announces_a_device_that_leaves_and_returns() {
    let mut output = Vec::new();
    let mut session = usbredir::Session::begin(at(0), stick(&["appears-after=1s"]), &mut output);
    output.clear();
    session.receive(at(0), &redir_hello(WIDE), &mut output).unwrap();
    assert_eq!((kinds(&output), session.next_due()), (vec![], Some(at(1))));
    session.advance(at(1), &mut output);
    assert_eq!(kinds(&output), [5, 4, 1]);
    output.clear();
    session.device_mut().set_plugged(at(2), false);
    // A packet that crosses the announcement is not answered.
    let reset = [3u32, 0, 0, 0].map(u32::to_le_bytes).concat();
    let configuration = [7u32, 0, 5, 0].map(u32::to_le_bytes).concat();
    session.receive(at(2), &[reset, configuration].concat(), &mut output).unwrap();
    assert_eq!(kinds(&output), [2]);
    session.device_mut().set_plugged(at(3), true);
    session.advance(at(4), &mut output);
    assert_eq!(kinds(&output), [2, 5, 4, 1]);
    // The device leaves and returns between two calls.
    output.clear();
    session.device_mut().set_plugged(at(5), false);
    session.device_mut().set_plugged(at(5), true);
    session.advance(at(9), &mut output);
    assert_eq!(kinds(&output), [2, 5, 4, 1]);
}

#[test]
fn usbredir_waits_for_the_acknowledgement_of_a_peer_that_sends_it() {
    let mut output = Vec::new();
    let mut session = usbredir::Session::begin(at(0), stick(&[]), &mut output);
    session.receive(at(0), &redir_hello(WIDE | ACKNOWLEDGES), &mut output).unwrap();
    output.clear();
    session.device_mut().set_plugged(at(1), false);
    session.device_mut().set_plugged(at(1), true);
    session.advance(at(2), &mut output);
    assert_eq!(kinds(&output), [2]);
    session.receive(at(2), &ACKNOWLEDGEMENT, &mut output).unwrap();
    assert_eq!(kinds(&output), [2, 5, 4, 1]);
}

#[test]
fn a_configuration_and_an_alternate_setting_end_halts() {
    let packet = |kind: u32, body: &[u8]| {
        [&kind.to_le_bytes()[..], &(body.len() as u32).to_le_bytes(), &[0; 4], body].concat()
    };
    // Each request exists as a packet of its own, and as a control transfer (SET_CONFIGURATION or
    // SET_INTERFACE).
    let control = |request: u8, value: u8| packet(100, &[0, request, 0, 0, value, 0, 0, 0, 0, 0]);
    for bytes in [packet(6, &[1]), packet(9, &[0, 0]), control(9, 1), control(11, 0)] {
        let mut output = Vec::new();
        let mut session = usbredir::Session::begin(at(0), stick(&[]), &mut output);
        session.receive(at(0), &redir_hello(0), &mut output).unwrap();
        session.device_mut().set_halted(at(0), 0x81, true);
        session.receive(at(0), &bytes, &mut output).unwrap();
        assert!(!session.device_mut().is_halted(0x81), "{bytes:?}");
    }
}

fn import() -> Vec<u8> {
    let mut bytes = vec![1, 0x11, 0x80, 3, 0, 0, 0, 0];
    bytes.extend(b"1-1");
    bytes.resize(40, 0);
    bytes
}

#[test]
fn usbip_answers_an_import_when_the_device_appears_and_ends_when_it_leaves() {
    let mut output = Vec::new();
    let mut session = usbip::Session::begin(at(0), stick(&["appears-after=1s"]), &mut output);
    session.receive(at(0), &import(), &mut output).unwrap();
    assert!(output.is_empty());
    session.advance(at(1), &mut output);
    assert_eq!(output.len(), 8 + 312);
    assert!(!session.is_over());
    session.device_mut().set_plugged(at(2), false);
    session.advance(at(2), &mut output);
    assert!(session.is_over());
    let mut device = session.end(at(2));

    // The port is empty, so an import fails.
    output.clear();
    let mut session = usbip::Session::begin(at(3), device, &mut output);
    session.receive(at(3), &import(), &mut output).unwrap();
    assert_eq!(output, [1, 0x11, 0, 3, 0, 0, 0, 1]);
    device = session.end(at(3));
    // A quirk with a later trigger does not bring a stick into the port.
    device.add_quirk(at(3), "disconnect=2s@30s".parse::<PlannedStickQuirk>().unwrap());
    output.clear();
    let mut session = usbip::Session::begin(at(3), device, &mut output);
    session.receive(at(3), &import(), &mut output).unwrap();
    assert_eq!(output, [1, 0x11, 0, 3, 0, 0, 0, 1]);
    device = session.end(at(3));
    device.set_plugged(at(4), true);
    let mut session = usbip::Session::begin(at(4), device, &mut output);
    session.receive(at(4), &import(), &mut output).unwrap();
    let early = session.receive(at(4), &[0; 48], &mut output);
    assert_eq!(early, Err(usbip::SessionError::BeforeImport));
}
