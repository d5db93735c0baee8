//! The state machine of a USB/IP session, message by message, with a device that sends received bytes back.

use crate::common::{Echo, MS};
use flashlab_sim::Instant;
use flashlab_usb::usbip::{BUS_ID, Session, SessionError};
use flashlab_usb::{Carrier, IN_FLIGHT_MAX};
use proptest::prelude::*;

const LIST: [u8; 8] = [0x01, 0x11, 0x80, 0x05, 0, 0, 0, 0];

fn import(name: &str) -> Vec<u8> {
    let mut bytes = vec![0x01, 0x11, 0x80, 0x03, 0, 0, 0, 0];
    bytes.extend(name.bytes());
    bytes.resize(8 + 32, 0);
    bytes
}

fn message(words: [u32; 10], setup: [u8; 8], data: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    bytes.extend(setup);
    bytes.extend_from_slice(data);
    bytes
}

fn submit_in(sequence: u32, endpoint: u32, length: u32, setup: [u8; 8]) -> Vec<u8> {
    message([1, sequence, 0x10002, 1, endpoint, 0, length, 0, 0, 0], setup, &[])
}

fn submit_out(sequence: u32, endpoint: u32, data: &[u8]) -> Vec<u8> {
    message([1, sequence, 0x10002, 0, endpoint, 0, data.len() as u32, 0, 0, 0], [0; 8], data)
}

fn unlink(sequence: u32, other: u32) -> Vec<u8> {
    message([2, sequence, 0x10002, 0, 0, other, 0, 0, 0, 0], [0; 8], &[])
}

/// Returns an answer's command, sequence number, status and length.
fn answer(bytes: &[u8]) -> [i32; 4] {
    [0, 4, 20, 24].map(|at| i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
}

fn imported() -> (Session<Echo>, Vec<u8>) {
    let mut output = Vec::new();
    let mut session = Session::begin(Instant::ZERO, Echo::default(), &mut output);
    session.receive(Instant::ZERO, &import(BUS_ID), &mut output).unwrap();
    (session, output)
}

#[test]
fn the_list_has_one_device_and_its_interface() {
    let mut output = Vec::new();
    let mut session = Session::begin(Instant::ZERO, Echo::default(), &mut output);
    session.receive(Instant::ZERO, &LIST, &mut output).unwrap();
    assert_eq!(output[..12], [1, 0x11, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(output.len(), 12 + 312 + 4);
    assert_eq!(output[12 + 256..12 + 260], *b"1-1\0");
    assert_eq!(output[12 + 300..12 + 306], [0x12, 0x34, 0x56, 0x78, 0x02, 0x00]);
}

#[test]
fn only_the_existing_device_can_be_imported() {
    let mut output = Vec::new();
    let mut session = Session::begin(Instant::ZERO, Echo::default(), &mut output);
    session.receive(Instant::ZERO, &import("3-1"), &mut output).unwrap();
    assert_eq!(output, [1, 0x11, 0, 3, 0, 0, 0, 1]);
    let (_, output) = imported();
    assert_eq!(output.len(), 8 + 312);
}

#[test]
fn transfers_are_answered_when_the_device_completes_them() {
    let (mut session, mut output) = imported();
    output.clear();
    session.receive(Instant::ZERO, &submit_in(1, 0, 18, [0x80, 6, 0, 1, 0, 0, 64, 0]), &mut output).unwrap();
    assert_eq!(answer(&output), [3, 1, 0, 18]);
    assert_eq!(output[48..52], [18, 1, 0, 2]);
    output.clear();
    session.receive(Instant::ZERO, &submit_in(2, 1, 512, [0; 8]), &mut output).unwrap();
    session.receive(Instant::ZERO, &submit_out(3, 1, b"abc"), &mut output).unwrap();
    assert!(output.is_empty());
    assert_eq!(session.next_due(), Some(Instant::ZERO + MS));
    session.advance(Instant::ZERO + MS, &mut output);
    assert_eq!((answer(&output), output.len()), ([3, 3, 0, 3], 48 + 48 + 3));
    assert_eq!(answer(&output[48..]), [3, 2, 0, 3]);
    assert_eq!(output[96..], *b"abc");
}

#[test]
fn unlinking_replaces_the_answer_of_the_transfer() {
    let (mut session, mut output) = imported();
    output.clear();
    session.receive(Instant::ZERO, &submit_in(2, 1, 512, [0; 8]), &mut output).unwrap();
    for sequence in [5, 6] {
        session.receive(Instant::ZERO, &unlink(sequence, 2), &mut output).unwrap();
    }
    session.advance(Instant::ZERO + MS, &mut output);
    assert_eq!(output.len(), 96);
    assert_eq!(answer(&output)[..3], [4, 5, -104]);
    assert_eq!(answer(&output[48..])[..3], [4, 6, 0], "it was already unlinked");
}

#[test]
fn impossible_transfers_fail_and_invalid_messages_end_the_session() {
    let (mut session, mut output) = imported();
    output.clear();
    for sequence in 0..=IN_FLIGHT_MAX as u32 {
        session.receive(Instant::ZERO, &submit_in(sequence, 1, 1, [0; 8]), &mut output).unwrap();
    }
    assert_eq!(answer(&output), [3, IN_FLIGHT_MAX as i32, -12, 0]);
    let error_of = |bytes: &[u8]| imported().0.receive(Instant::ZERO, bytes, &mut Vec::new()).unwrap_err();
    assert_eq!(error_of(&message([9; 10], [0; 8], &[])), SessionError::Unexpected(9));
    assert_eq!(error_of(&submit_in(1, 1, 1 << 30, [0; 8])), SessionError::TooLong(1 << 30));
    let mut words = [0; 10];
    (words[0], words[8]) = (1, 8);
    assert_eq!(error_of(&message(words, [0; 8], &[])), SessionError::Isochronous);
    let mut new = Session::begin(Instant::ZERO, Echo::default(), &mut output);
    let rejected = new.receive(Instant::ZERO, b"GET / HTTP/1.1\r\n", &mut output);
    assert_eq!(rejected, Err(SessionError::InvalidRequest { version: 0x4745, code: 0x5420 }));
}

proptest! {
    #[test]
    fn random_messages_split_anywhere_never_panic(
        messages in prop::collection::vec(
            prop_oneof![
                (0..8u32, 0..20u32, 0..2000u32, any::<[u8; 8]>()).prop_map(|(s, e, l, setup)| submit_in(s, e, l, setup)),
                (0..8u32, 0..20u32, prop::collection::vec(any::<u8>(), 0..600)).prop_map(|(s, e, data)| submit_out(s, e, &data)),
                (0..8u32, 0..8u32).prop_map(|(s, other)| unlink(s, other)),
                prop::collection::vec(any::<u8>(), 0..60),
            ],
            0..20,
        ),
        cut in 1..500usize,
    ) {
        let (mut session, mut output) = imported();
        for piece in messages.concat().chunks(cut) {
            if session.receive(Instant::ZERO, piece, &mut output).is_err() {
                break;
            }
        }
        session.advance(Instant::ZERO + MS, &mut output);
    }
}
