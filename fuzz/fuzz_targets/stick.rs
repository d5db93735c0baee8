//! Fuzzes a stick behind usbredir and USB/IP: the parsers of wrappers and commands, the transport's states,
//! resets, halts and quirks. The session must not panic, must answer all due transfers, and must bound its
//! output by the requested bytes. It must never start an operation that the disk does not permit. Half of the
//! commands are valid wrappers with fields from the input.
#![no_main]

use flashlab_sim::{Duration, Geometry, Instant};
use flashlab_usb::{
    Carrier, Disk, DiskError, Done, Identity, MassStorage, Operation, PlannedStickQuirk, StickQuirk, StickTrigger, usbip,
    usbredir,
};
use libfuzzer_sys::fuzz_target;

const CAPACITY: u64 = 64 << 10;

/// A disk in memory that checks each operation.
struct Small {
    bytes: Vec<u8>,
    choice: u8,
    operations: u32,
    powered: bool,
    running: Option<(Instant, Operation)>,
}

impl Disk for Small {
    fn geometry(&self) -> Geometry {
        let request_max = if self.choice & 4 == 0 { 4096 } else { 1 << 20 };
        Geometry { capacity: CAPACITY, block: 512, request_max }
    }
    fn is_read_only(&self) -> bool {
        self.choice & 8 == 8
    }
    fn start(&mut self, now: Instant, operation: Operation) {
        assert!(self.powered && self.running.is_none());
        let (offset, length) = match &operation {
            Operation::Read { offset, length } => (*offset, u64::from(*length)),
            Operation::Write { offset, bytes, .. } => (*offset, bytes.len() as u64),
            Operation::Discard { offset, length } => (*offset, *length),
            Operation::Flush => (0, 512),
        };
        assert!(length > 0 && offset % 512 == 0 && length % 512 == 0 && offset + length <= CAPACITY);
        self.running = Some((now + Duration::from_us(100), operation));
    }
    fn next_due(&self) -> Option<Instant> {
        self.running.as_ref().map(|(due, _)| *due)
    }
    fn complete(&mut self, limit: Instant) -> Option<(Instant, Done)> {
        let (due, operation) = self.running.take_if(|(due, _)| *due <= limit)?;
        self.operations += 1;
        if self.choice & 16 == 16 && self.operations % 5 == 0 {
            return Some((due, Err(DiskError::Medium)));
        }
        let mut read = Vec::new();
        match operation {
            Operation::Read { offset, length } => {
                read.extend_from_slice(&self.bytes[offset as usize..][..length as usize]);
            }
            Operation::Write { offset, bytes, .. } => {
                self.bytes[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            Operation::Discard { .. } | Operation::Flush => {}
        }
        Some((due, Ok(read)))
    }
    fn set_power(&mut self, _: Instant, on: bool) {
        self.powered = on;
        self.running = None;
    }
}

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

/// Returns a command wrapper. Most are valid, with the length that the command needs.
fn wrapper(input: &mut Input<'_>) -> Vec<u8> {
    let selector = input.byte();
    let mut block = [0; 16];
    let mut length = u32::from(input.byte());
    let is_write = selector & 1 == 1;
    let mut flags = if is_write { 0 } else { 0x80 };
    match selector >> 1 & 7 {
        0..=2 => {
            let count = input.byte() % 20;
            block[..10].copy_from_slice(&[
                if is_write { 0x2a } else { 0x28 },
                0,
                0,
                0,
                0,
                input.byte() % 140,
                0,
                0,
                count,
                0,
            ]);
            length = u32::from(count) * 512;
        }
        3 => {
            block[..10].copy_from_slice(&[0x42, 0, 0, 0, 0, 0, 0, 0, length as u8, 0]);
            flags = 0;
        }
        4 => {
            let raw = input.bytes(16);
            block[..raw.len()].copy_from_slice(raw);
        }
        _ => {
            const OPCODES: [u8; 16] = [
                0x00, 0x03, 0x12, 0x1a, 0x1b, 0x1e, 0x23, 0x25, 0x2f, 0x35, 0x5a, 0x88, 0x8a, 0x9e, 0xa0,
                0xa8,
            ];
            block[0] = OPCODES[usize::from(input.byte() % 16)];
            let raw = input.bytes(5);
            block[1..1 + raw.len()].copy_from_slice(raw);
        }
    }
    let mut bytes = b"USBC".to_vec();
    bytes.extend(7u32.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend([flags, 0, 16]);
    bytes.extend(block);
    if selector & 0xf0 == 0xf0 {
        bytes[usize::from(input.byte()) % 31] = input.byte();
    }
    bytes
}

/// A message to the device.
enum HostRequest {
    In(u32),
    Out(Vec<u8>),
    Control(u8, u8, u16, u16),
    Cancel,
    Other(Vec<u8>),
}

fn host_request(input: &mut Input<'_>) -> HostRequest {
    let selector = input.byte();
    match selector % 12 {
        0..=3 => HostRequest::Out(wrapper(input)),
        4 | 5 => HostRequest::In(13),
        6 => HostRequest::In(u32::from(input.byte()) * 64),
        7 => HostRequest::Out(vec![selector; usize::from(input.byte()) * 64]),
        8 => {
            let count = usize::from(input.byte());
            HostRequest::Out(input.bytes(count).to_vec())
        }
        9 => match selector >> 4 & 3 {
            0 => HostRequest::Control(0x21, 0xff, 0, 0),
            1 => HostRequest::Control(2, 1, 0, 0x81),
            2 => HostRequest::Control(2, 1, 0, 2),
            _ => HostRequest::Control(input.byte(), input.byte(), input.word() as u16, input.byte().into()),
        },
        10 => HostRequest::Cancel,
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
        HostRequest::In(length) => (101u32, bulk(0x81, length, &[])),
        HostRequest::Out(data) => (101, bulk(2, data.len() as u32, &data)),
        HostRequest::Control(kind, request, value, index) => {
            let ([v0, v1], [i0, i1]) = (value.to_le_bytes(), index.to_le_bytes());
            let length = if kind & 0x80 == 0 { 0 } else { 255 };
            (100, vec![kind & 0x80, request, kind, 0, v0, v1, i0, i1, length, 0])
        }
        HostRequest::Cancel => (21, Vec::new()),
        HostRequest::Other(bytes) if bytes.len() % 7 == 0 => (3, Vec::new()),
        HostRequest::Other(bytes) => return bytes,
    };
    [&kind.to_le_bytes()[..], &(body.len() as u32).to_le_bytes(), &id.to_le_bytes(), &body].concat()
}

fn ip(request: HostRequest, id: u64) -> Vec<u8> {
    let message = |command: u32, direction: u32, endpoint: u32, fourth: u32, setup: [u8; 8], data: &[u8]| {
        let second = if command == 2 { fourth } else { 0 };
        let words = [command, id as u32, 0x10002, direction, endpoint, second, fourth, 0, 0, 0];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        bytes.extend(setup);
        bytes.extend_from_slice(data);
        bytes
    };
    match request {
        HostRequest::In(length) => message(1, 1, 1, length, [0; 8], &[]),
        HostRequest::Out(data) => message(1, 0, 2, data.len() as u32, [0; 8], &data),
        HostRequest::Control(kind, request, value, index) => {
            let ([v0, v1], [i0, i1]) = (value.to_le_bytes(), index.to_le_bytes());
            let length = kind & 0x80;
            message(
                1,
                u32::from(kind >> 7),
                0,
                length.into(),
                [kind, request, v0, v1, i0, i1, length, 0],
                &[],
            )
        }
        HostRequest::Cancel => message(2, 0, 0, id as u32 / 2, [0; 8], &[]),
        HostRequest::Other(bytes) => bytes,
    }
}

const LATER: StickTrigger = StickTrigger::Block(20);
/// Quirks, by the bit of the input's first byte that selects them.
const QUIRKS: [(u8, PlannedStickQuirk); 3] = [
    (2, PlannedStickQuirk { quirk: StickQuirk::NeedsReset(Duration::from_us(400)), trigger: StickTrigger::Always }),
    (32, PlannedStickQuirk { quirk: StickQuirk::Disconnect(Duration::from_us(300)), trigger: LATER }),
    (64, PlannedStickQuirk { quirk: StickQuirk::Capacity(CAPACITY + 512), trigger: StickTrigger::Always }),
];

fn run<C: Carrier<Device = MassStorage<Small>>>(
    first: &[u8],
    mut input: Input<'_>,
    choice: u8,
    pack: fn(HostRequest, u64) -> Vec<u8>,
) {
    let disk =
        Small { bytes: vec![0; CAPACITY as usize], choice, operations: 0, powered: false, running: None };
    let text = |text: &str| text.to_owned();
    let identity = Identity {
        vendor: text("Fuzz"),
        product: text("Stick"),
        revision: text("1"),
        serial: text("000000000001"),
    };
    let (mut now, mut output, mut requested_bytes) = (Instant::ZERO, Vec::new(), 0);
    let mut stick = MassStorage::new(disk, identity);
    for (bit, quirk) in QUIRKS {
        if choice & bit != 0 {
            stick.add_quirk(now, quirk);
        }
    }
    let mut session = C::begin(now, stick, &mut output);
    let mut open = session.receive(now, first, &mut output).is_ok();
    let mut id = 0;
    while open && !session.is_over() && !input.0.is_empty() {
        id += 1;
        if input.0[0] == 0xff {
            let plugged = input.bytes(2)[1..].first().is_some_and(|byte| byte & 1 == 1);
            session.device_mut().set_plugged(now, plugged);
            continue;
        }
        let request = host_request(&mut input);
        if let HostRequest::In(length) = request {
            requested_bytes += length as usize;
        }
        // Mostly long enough for an operation of the disk.
        now = now + Duration::from_us(u64::from(input.byte() & 0x7f) * 3);
        open = session.receive(now, &pack(request, id), &mut output).is_ok();
        session.advance(now, &mut output);
        assert!(session.next_due().is_none_or(|due| due > now), "nothing that is due is left");
    }
    assert!(output.len() <= 4096 + requested_bytes + 512 * id as usize + 64 * first.len());
    session.end(now);
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let choice = input.byte();
    if choice & 1 == 0 {
        let mut hello = [&0u32.to_le_bytes()[..], &68u32.to_le_bytes(), &[0; 4], &[0; 64]].concat();
        hello.extend(0x7fu32.to_le_bytes());
        run::<usbredir::Session<MassStorage<Small>>>(&hello, input, choice, redir);
    } else {
        let mut import = vec![1, 0x11, 0x80, 3, 0, 0, 0, 0];
        import.extend(b"1-1");
        import.resize(40, 0);
        run::<usbip::Session<MassStorage<Small>>>(&import, input, choice, ip);
    }
});
