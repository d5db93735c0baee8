//! Fuzzes the adapter with a card in its slot behind usbredir and USB/IP. The session must not panic, must
//! answer all due transfers, and must bound its output by the requested bytes. It must keep the translation
//! layer consistent, even if the card is removed, inserted again or loses its power. Half of the input is raw
//! bytes; the other half supplies the fields of packets.
#![no_main]

#[path = "../small_card.rs"]
mod small_card;

use flashlab_sim::{Duration, Instant};
use flashlab_usb::{Carrier, Vub300, usbip, usbredir};
use libfuzzer_sys::fuzz_target;
use small_card::card;

/// Reads values from the input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        head
    }
    fn word(&mut self) -> u32 {
        self.bytes(4).iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
    }
}

/// Builds a command for the card as the driver packs it. The command announces the length of its data.
fn command(input: &mut Input<'_>) -> Vec<u8> {
    const LIKELY: [(u8, u8); 16] = [
        (0, 1),
        (8, 10),
        (55, 2),
        (41, 5),
        (2, 4),
        (3, 9),
        (7, 3),
        (6, 2),
        (17, 2),
        (18, 2),
        (24, 2),
        (25, 2),
        (12, 3),
        (13, 2),
        (38, 3),
        (51, 2),
    ];
    let selector = input.byte();
    let (index, kind) = LIKELY[usize::from(selector % 16)];
    let argument = match index {
        8 => 0x1aa,
        41 => 0x4030_0000,
        3 | 2 | 0 => 0,
        7 | 13 | 55 => 1 << 16,
        _ => input.word() % 2100 * 512,
    };
    let blocks = if matches!(index, 17 | 18 | 24 | 25) { u32::from(input.byte() % 20) + 1 } else { 0 };
    let size = if index == 51 { 8 } else { blocks * 512 };
    let mut packet = vec![20, 0, 0, if matches!(index, 24 | 25) { 0x80 } else { 0 }, index];
    packet.extend(size.to_be_bytes());
    packet.push(kind);
    packet.extend(argument.to_be_bytes());
    packet.extend((blocks as u16).to_be_bytes());
    packet.extend(512u16.to_be_bytes());
    packet.resize(64, 0);
    if selector & 0x80 == 0x80 {
        packet[usize::from(selector % 64)] = input.byte();
    }
    packet
}

/// A message to an endpoint.
enum HostRequest {
    In(u8, u32),
    Out(u8, Vec<u8>),
    Control(u8, u8, u16, Vec<u8>),
    Cancel,
    Other(Vec<u8>),
}

fn host_request(input: &mut Input<'_>) -> HostRequest {
    let selector = input.byte();
    match selector % 8 {
        0 | 1 => HostRequest::Out(2, command(input)),
        2 => HostRequest::In(1, 64),
        3 => HostRequest::In(3, u32::from(input.byte()) * 64),
        4 => HostRequest::Out(4, vec![selector; usize::from(input.byte()) * 32]),
        5 => match selector >> 3 & 3 {
            0 => HostRequest::Control(0x40, 4, u16::from(selector >> 5), Vec::new()),
            1 => HostRequest::Control(0x40, 11, 0, u64::from(input.word() % 60_000).to_le_bytes().to_vec()),
            _ => {
                HostRequest::Control(input.byte(), input.byte(), 0x0100 | u16::from(input.byte()), Vec::new())
            }
        },
        6 => HostRequest::Cancel,
        _ => {
            let count = usize::from(input.byte());
            HostRequest::Other(input.bytes(count).to_vec())
        }
    }
}

fn redir(request: HostRequest, id: u64) -> Vec<u8> {
    let bulk = |endpoint: u8, length: u32, data: &[u8]| {
        let [a, b, c, d] = length.to_le_bytes();
        [&[endpoint, 0, a, b, 0, 0, 0, 0, c, d], data].concat()
    };
    let (kind, body) = match request {
        HostRequest::In(endpoint, length) => (101u32, bulk(endpoint | 0x80, length, &[])),
        HostRequest::Out(endpoint, data) => (101, bulk(endpoint, data.len() as u32, &data)),
        HostRequest::Control(kind, request, value, data) => {
            let length = if kind & 0x80 == 0 { data.len() as u16 } else { 255 };
            let [v0, v1, l0, l1] = [value.to_le_bytes(), length.to_le_bytes()].concat()[..] else {
                return data;
            };
            (100, [&[kind & 0x80, request, kind, 0, v0, v1, 0, 0, l0, l1], &data[..]].concat())
        }
        HostRequest::Cancel => (21, Vec::new()),
        HostRequest::Other(bytes) => return bytes,
    };
    [&kind.to_le_bytes()[..], &(body.len() as u32).to_le_bytes(), &id.to_le_bytes(), &body].concat()
}

fn ip(request: HostRequest, id: u64) -> Vec<u8> {
    let message = |command: u32, direction: u32, endpoint: u8, fourth: u32, setup: [u8; 8], data: &[u8]| {
        let second = if command == 2 { fourth } else { 0 };
        let words = [command, id as u32, 0x10002, direction, endpoint.into(), second, fourth, 0, 0, 0];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        bytes.extend(setup);
        bytes.extend_from_slice(data);
        bytes
    };
    match request {
        HostRequest::In(endpoint, length) => message(1, 1, endpoint, length, [0; 8], &[]),
        HostRequest::Out(endpoint, data) => message(1, 0, endpoint, data.len() as u32, [0; 8], &data),
        HostRequest::Control(kind, request, value, data) => {
            let [v0, v1] = value.to_le_bytes();
            let setup = [kind, request, v0, v1, 0, 0, data.len() as u8, 0];
            message(1, u32::from(kind >> 7), 0, data.len() as u32, setup, &data)
        }
        HostRequest::Cancel => message(2, 0, 0, id as u32 / 2, [0; 8], &[]),
        HostRequest::Other(bytes) => bytes,
    }
}

fn run<C: Carrier<Device = Vub300>>(
    first: &[u8],
    mut input: Input<'_>,
    choice: u8,
    pack: fn(HostRequest, u64) -> Vec<u8>,
) {
    let (mut now, mut output, mut requested_bytes) = (Instant::ZERO, Vec::new(), 0);
    let mut session = C::begin(now, Vub300::new(Some(card(choice))), &mut output);
    let mut open = session.receive(now, first, &mut output).is_ok();
    let (mut id, mut out) = (0, None);
    while open && !input.0.is_empty() {
        id += 1;
        let request = host_request(&mut input);
        if let HostRequest::In(_, length) = request {
            requested_bytes += length as usize;
        }
        let later = input.byte();
        now = now + Duration::from_us(u64::from(later) << (later % 16));
        let adapter = session.device_mut();
        match later {
            0xf0 => drop(adapter.fail_power(now)),
            0xf1 => out = adapter.remove(now).or(out),
            0xf2 => {
                if let Some(card) = out.take() {
                    adapter.insert(now, card);
                }
            }
            _ => {}
        }
        open = session.receive(now, &pack(request, id), &mut output).is_ok();
        session.advance(now, &mut output);
        assert!(session.next_due().is_none_or(|due| due > now), "every due transfer is answered");
    }
    // Headers and descriptors add to the data.
    assert!(output.len() <= 4096 + requested_bytes + 512 * id as usize + 64 * first.len());
    let mut adapter = session.end(now);
    if let Some(card) = adapter.remove(now).or(out) {
        card.check();
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let choice = input.byte();
    if choice & 0x80 == 0 {
        let mut hello = [&0u32.to_le_bytes()[..], &68u32.to_le_bytes(), &[0; 4], &[0; 64]].concat();
        hello.extend(0x7fu32.to_le_bytes());
        run::<usbredir::Session<Vub300>>(&hello, input, choice, redir);
    } else {
        let mut import = vec![1, 0x11, 0x80, 3, 0, 0, 0, 0];
        import.extend(b"1-1");
        import.resize(40, 0);
        run::<usbip::Session<Vub300>>(&import, input, choice, ip);
    }
});
