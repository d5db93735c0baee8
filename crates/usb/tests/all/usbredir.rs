//! The state machine of a usbredir session, packet by packet, with a device that sends received bytes back.

use crate::common::{Echo, MS};
use flashlab_sim::Instant;
use flashlab_usb::usbredir::{Session, SessionError};
use flashlab_usb::{Carrier, IN_FLIGHT_MAX, TRANSFER_MAX};
use proptest::prelude::*;

/// Capabilities of QEMU 7.2: all but the last, which other users of the protocol need.
const QEMU: u32 = 0x7f;

fn packet(kind: u32, id: u64, wide: bool, body: &[u8]) -> Vec<u8> {
    let mut bytes = [kind.to_le_bytes(), (body.len() as u32).to_le_bytes()].concat();
    bytes.extend_from_slice(&id.to_le_bytes()[..if wide { 8 } else { 4 }]);
    bytes.extend_from_slice(body);
    bytes
}

fn hello(capabilities: u32) -> Vec<u8> {
    let mut body = vec![0; 64];
    body[..4].copy_from_slice(b"test");
    body.extend(capabilities.to_le_bytes());
    packet(0, 0, false, &body)
}

fn control(request_type: u8, request: u8, value: u16, length: u16, data: &[u8]) -> Vec<u8> {
    let mut body = vec![request_type & 0x80, request, request_type, 0];
    for word in [value, 0, length] {
        body.extend(word.to_le_bytes());
    }
    body.extend_from_slice(data);
    body
}

fn bulk(endpoint: u8, length: u32, data: &[u8]) -> Vec<u8> {
    let mut body = vec![endpoint, 0];
    body.extend((length as u16).to_le_bytes());
    body.extend(0u32.to_le_bytes());
    body.extend(((length >> 16) as u16).to_le_bytes());
    body.extend_from_slice(data);
    body
}

/// Splits the output into packets: type, id, body.
fn packets(mut bytes: &[u8], wide: bool) -> Vec<(u32, u64, Vec<u8>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let id = if wide { u64::from(number(8)) | u64::from(number(12)) << 32 } else { number(8).into() };
        let header = if wide { 16 } else { 12 };
        let length = number(4) as usize;
        all.push((number(0), id, bytes[header..header + length].to_vec()));
        bytes = &bytes[header + length..];
    }
    all
}

/// Opens a session, receives the peer's hello, and drops the output so far.
fn open_session() -> Session<Echo> {
    let mut output = Vec::new();
    let mut session = Session::begin(Instant::ZERO, Echo::default(), &mut output);
    session.receive(Instant::ZERO, &hello(QEMU), &mut output).unwrap();
    session
}

#[test]
fn the_device_is_described_before_it_is_connected() {
    let mut output = Vec::new();
    let mut session = Session::begin(Instant::ZERO, Echo::default(), &mut output);
    let first = packets(&output, false);
    assert_eq!(first.len(), 1);
    assert_eq!((first[0].0, first[0].2.len()), (0, 68));
    output.clear();
    session.receive(Instant::ZERO, &hello(QEMU), &mut output).unwrap();
    let sent = packets(&output, true);
    assert_eq!(sent.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), [5, 4, 1]);
    let ep_info = &sent[0].2;
    // Types, intervals, interfaces, packet sizes: outgoing endpoints from 0 on, incoming ones from 16 on.
    assert_eq!(ep_info.len(), 32 * 5);
    assert_eq!((ep_info[0], ep_info[1], ep_info[2], ep_info[17]), (0, 2, 255, 2));
    assert_eq!(ep_info[96 + 2..96 + 4], 512u16.to_le_bytes());
    assert_eq!(sent[1].2.len(), 4 + 4 * 32);
    assert_eq!(sent[2].2, [2, 0, 0, 0, 0x34, 0x12, 0x78, 0x56, 0x00, 0x02]);
}

#[test]
fn a_peer_with_fewer_capabilities_gets_shorter_packets() {
    let mut output = Vec::new();
    let mut session = Session::begin(Instant::ZERO, Echo::default(), &mut output);
    output.clear();
    session.receive(Instant::ZERO, &hello(0), &mut output).unwrap();
    let sent = packets(&output, false);
    assert_eq!(sent.iter().map(|(.., body)| body.len()).collect::<Vec<_>>(), [96, 132, 8]);
    output.clear();
    session.receive(Instant::ZERO, &packet(101, 7, false, &bulk(0x81, 4, &[])[..8]), &mut output).unwrap();
    session
        .receive(Instant::ZERO, &packet(101, 8, false, &[1, 0, 2, 0, 0, 0, 0, 0, 9, 9]), &mut output)
        .unwrap();
    session.advance(Instant::ZERO + MS, &mut output);
    let sent = packets(&output, false);
    assert_eq!(sent[0], (101, 8, vec![1, 0, 2, 0, 0, 0, 0, 0]));
    assert_eq!(sent[1], (101, 7, vec![0x81, 0, 2, 0, 0, 0, 0, 0, 9, 9]));
}

#[test]
fn standard_requests_are_answered_and_unknown_ones_stall() {
    let mut session = open_session();
    let mut output = Vec::new();
    let mut request = |body: Vec<u8>| {
        output.clear();
        session.receive(Instant::ZERO, &packet(100, 3, true, &body), &mut output).unwrap();
        packets(&output, true)[0].2.clone()
    };
    let device = request(control(0x80, 6, 0x0100, 64, &[]));
    assert_eq!(device[3], 0);
    assert_eq!(device[8..10], [18, 0]);
    assert_eq!(device[10..14], [18, 1, 0, 2]);
    let short = request(control(0x80, 6, 0x0100, 8, &[]));
    assert_eq!(short.len(), 10 + 8);
    let configuration = request(control(0x80, 6, 0x0200, 255, &[]));
    assert_eq!(usize::from(configuration[12]), configuration.len() - 10);
    let product = request(control(0x80, 6, 0x0302, 255, &[]));
    assert_eq!(product[10..], [10, 3, b'e', 0, b'c', 0, b'h', 0, b'o', 0]);
    assert_eq!(request(control(0x80, 6, 0x0f00, 64, &[]))[3], 4);
    assert_eq!(request(control(0xc0, 99, 0, 64, &[]))[3], 4);
    // A vendor request of the device, which accepts three bytes.
    let own = request(control(0x40, 1, 0, 3, &[1, 2, 3]));
    assert_eq!((own[3], own[8], own.len()), (0, 3, 10));
}

#[test]
fn configuration_and_alternate_setting_have_their_own_packets() {
    let mut session = open_session();
    let mut output = Vec::new();
    for (kind, body) in
        [(6, vec![1]), (7, vec![]), (6, vec![2]), (9, vec![0, 0]), (9, vec![0, 1]), (10, vec![0])]
    {
        session.receive(Instant::ZERO, &packet(kind, 5, true, &body), &mut output).unwrap();
    }
    let sent: Vec<(u32, Vec<u8>)> = packets(&output, true)
        .into_iter()
        .filter(|(kind, ..)| ![4, 5].contains(kind))
        .map(|(kind, _, body)| (kind, body))
        .collect();
    let expected: [(u32, &[u8]); 6] =
        [(8, &[0, 1]), (8, &[0, 1]), (8, &[2, 1]), (11, &[0, 0, 0]), (11, &[2, 0, 0]), (11, &[0, 0, 0])];
    assert_eq!(sent, expected.map(|(kind, body)| (kind, body.to_vec())));
}

#[test]
fn a_transfer_is_answered_when_the_device_completes_it() {
    let mut session = open_session();
    let mut output = Vec::new();
    session.receive(Instant::ZERO, &packet(101, 1, true, &bulk(1, 3, b"abc")), &mut output).unwrap();
    session.receive(Instant::ZERO, &packet(101, 1 << 40, true, &bulk(0x81, 512, &[])), &mut output).unwrap();
    let due = session.next_due().expect("something is coming");
    assert_eq!(due, Instant::ZERO + MS);
    session.advance(Instant::from_ns(due.as_ns() - 1), &mut output);
    assert!(output.is_empty());
    session.advance(due, &mut output);
    let sent = packets(&output, true);
    assert_eq!(sent[0], (101, 1, bulk(1, 3, &[])));
    assert_eq!(sent[1], (101, 1 << 40, bulk(0x81, 3, b"abc")));
    assert_eq!(session.next_due(), None);
}

#[test]
fn a_cancelled_transfer_is_answered_once() {
    let mut session = open_session();
    let mut output = Vec::new();
    session.receive(Instant::ZERO, &packet(101, 9, true, &bulk(0x81, 512, &[])), &mut output).unwrap();
    for _ in 0..2 {
        session.receive(Instant::ZERO, &packet(21, 9, true, &[]), &mut output).unwrap();
    }
    session.advance(Instant::ZERO + MS, &mut output);
    let mut cancelled = bulk(0x81, 0, &[]);
    cancelled[1] = 1;
    assert_eq!(packets(&output, true), [(101, 9, cancelled)]);
}

#[test]
fn a_reset_drops_outstanding_transfers() {
    let mut session = open_session();
    let mut output = Vec::new();
    session.receive(Instant::ZERO, &packet(101, 9, true, &bulk(0x81, 512, &[])), &mut output).unwrap();
    session.receive(Instant::ZERO, &packet(3, 0, true, &[]), &mut output).unwrap();
    session.receive(Instant::ZERO, &packet(101, 1, true, &bulk(1, 3, b"abc")), &mut output).unwrap();
    session.advance(Instant::ZERO + MS, &mut output);
    assert_eq!(packets(&output, true).iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [1]);
}

#[test]
fn impossible_transfers_fail_and_invalid_packets_end_the_session() {
    let mut output = Vec::new();
    let mut session = open_session();
    // The packets are a transfer to an endpoint that stalls, an isochronous packet, and two transfers with
    // one id.
    session.receive(Instant::ZERO, &packet(101, 1, true, &bulk(0x85, 3, &[])), &mut output).unwrap();
    session.advance(Instant::ZERO, &mut output);
    session.receive(Instant::ZERO, &packet(102, 2, true, &[1, 0, 1, 0, 9]), &mut output).unwrap();
    for _ in 0..2 {
        session.receive(Instant::ZERO, &packet(101, 3, true, &bulk(0x81, 3, &[])), &mut output).unwrap();
    }
    let sent: Vec<_> =
        packets(&output, true).into_iter().map(|(kind, id, body)| (kind, id, body[1])).collect();
    assert_eq!(sent, [(101, 1, 4), (102, 2, 2), (101, 3, 3)]);

    let error_of = |bytes: &[u8]| open_session().receive(Instant::ZERO, bytes, &mut Vec::new()).unwrap_err();
    assert_eq!(error_of(&packet(18, 0, true, &[0; 8])), SessionError::Unexpected(18));
    assert_eq!(error_of(&packet(3, 0, true, &[0])), SessionError::InvalidLength { kind: 3, length: 1 });
    assert_eq!(error_of(&packet(22, 0, true, &[])), SessionError::Rejected);
    assert_eq!(
        error_of(&packet(101, 0, true, &bulk(1, 4, b"abc"))),
        SessionError::InvalidLength { kind: 101, length: 13 }
    );
    let long = TRANSFER_MAX as u32 + 11;
    let header = [101u32.to_le_bytes(), long.to_le_bytes()].concat();
    assert_eq!(
        error_of(&[header, vec![0; 8]].concat()),
        SessionError::InvalidLength { kind: 101, length: long }
    );
    let mut new = Session::begin(Instant::ZERO, Echo::default(), &mut output);
    assert_eq!(
        new.receive(Instant::ZERO, b"GET / HTTP/1.1\r\n", &mut output),
        Err(SessionError::NoHello(0x2054_4547))
    );
}

#[test]
fn transfers_above_the_limit_are_answered_with_errors() {
    let mut session = open_session();
    let mut output = Vec::new();
    for id in 0..IN_FLIGHT_MAX as u64 + 2 {
        session
            .receive(Instant::ZERO, &packet(101, id, true, &bulk(0x81, u32::MAX, &[])), &mut output)
            .unwrap();
    }
    let sent = packets(&output, true);
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|(_, _, body)| body[1] == 3));
}

/// Generates packets that a session accepts, and packets that it rejects.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (any::<u8>(), 0..70_000u32).prop_map(|(endpoint, length)| bulk(endpoint | 0x80, length, &[])),
        prop::collection::vec(any::<u8>(), 0..600).prop_map(|data| bulk(1, data.len() as u32, &data)),
        (any::<u8>(), any::<u8>(), any::<u16>(), any::<u16>())
            .prop_map(|(kind, request, value, length)| control(kind | 0x80, request, value, length, &[])),
    ];
    (prop_oneof![0..30u32, 100..105u32, Just(101)], 0..6u64, body)
        .prop_map(|(kind, id, body)| packet(kind, id, true, &body))
}

proptest! {
    #[test]
    fn answers_do_not_depend_on_how_packets_are_split(
        packets in prop::collection::vec(any_packet(), 0..30),
        cuts in prop::collection::vec(1..2000usize, 1..20),
    ) {
        let bytes = packets.concat();
        let mut whole = Vec::new();
        let mut session = open_session();
        let outcome = session.receive(Instant::ZERO, &bytes, &mut whole);
        session.advance(Instant::ZERO + MS, &mut whole);
        let (mut pieces, mut left) = (Vec::new(), bytes.as_slice());
        let mut session = open_session();
        let mut outcome_in_pieces = Ok(());
        for cut in cuts.iter().cycle() {
            if left.is_empty() || outcome_in_pieces.is_err() {
                break;
            }
            let (piece, rest) = left.split_at((*cut).min(left.len()));
            outcome_in_pieces = session.receive(Instant::ZERO, piece, &mut pieces);
            left = rest;
        }
        session.advance(Instant::ZERO + MS, &mut pieces);
        prop_assert_eq!(outcome, outcome_in_pieces);
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut output = Vec::new();
        let mut session = open_session();
        let _ = session.receive(Instant::ZERO, &bytes, &mut output);
        session.advance(Instant::ZERO + MS, &mut output);
        prop_assert!(output.len() <= 64 * bytes.len());
    }
}
