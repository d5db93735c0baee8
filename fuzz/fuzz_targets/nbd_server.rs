//! Fuzzes the NBD server against arbitrary clients: handshake and transmission. Half of the input is raw bytes; the
//! other half supplies the fields of options and requests. The server of the tests executes the session's events and
//! checks its guarantees: progress, bounds on the bytes that it waits for, and no access beyond the received bytes.
#![no_main]

#[path = "../../crates/nbd/tests/all/pair/mod.rs"]
mod pair;

use flashlab_nbd::server::{Policy, Tls};
use libfuzzer_sys::fuzz_target;
use pair::Choices;
use pair::disk::Disk;
use pair::server::TestServer;

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
    /// Returns a number that mostly has few bits set.
    fn number(&mut self) -> u64 {
        let byte = self.byte();
        let small = u64::from(self.byte());
        match byte % 4 {
            0 => small,
            1 => small << (byte >> 2),
            2 => small.wrapping_sub(256),
            _ => self.bytes(8).iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        }
    }
}

fn message(input: &mut Input<'_>, extended: bool) -> Vec<u8> {
    let kind = input.byte();
    match kind % 4 {
        0 => {
            let count = usize::from(input.byte());
            input.bytes(count).to_vec()
        }
        1 => {
            // An option with arbitrary data.
            let count = usize::from(input.byte());
            let data = input.bytes(count);
            option(u32::from(kind >> 4), data)
        }
        2 => {
            // An option with the name of an export and a list.
            let list = usize::from(input.byte() % 32);
            let list = input.bytes(list);
            let number = [6, 7, 9, 10][usize::from(kind >> 4 & 3)];
            let queries = [&b"\0\0\0\x0fbase:allocation"[..], b"\0\0\0\x05base:", b"\0\0\0\x0bx-flashlab:"];
            let data = if number < 9 {
                [b"\0\0\0\x04disk", &(list.len() as u16 / 2).to_be_bytes()[..], list].concat()
            } else {
                let chosen: Vec<u8> =
                    list.iter().flat_map(|n| queries[usize::from(n % 3)]).copied().collect();
                [b"\0\0\0\x04disk", &(list.len() as u32).to_be_bytes()[..], &chosen].concat()
            };
            option(number, &data)
        }
        _ => {
            let flags = if kind & 0x80 == 0 { 0 } else { input.byte() };
            let command = kind >> 4 & 7;
            let (offset, length) = (input.number(), input.number());
            let magic: u32 = if extended { 0x21e4_1c71 } else { 0x2560_9513 };
            let mut bytes = magic.to_be_bytes().to_vec();
            bytes.extend([0, flags, 0, command]);
            bytes.extend([0; 8]);
            bytes.extend(offset.to_be_bytes());
            let payload = command == 1 || extended && flags & 32 != 0;
            if extended {
                bytes.extend(length.to_be_bytes());
            } else {
                bytes.extend((length as u32).to_be_bytes());
            }
            if payload && length < 10_000 {
                bytes.resize(bytes.len() + length as usize, kind);
            }
            bytes
        }
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let (first, second) = (input.byte(), input.byte());
    let policy = Policy {
        tls: [Tls::Off, Tls::On, Tls::Require][usize::from(first % 3)],
        structured: second & 1 == 0,
        extended: second & 2 == 0,
        options_max: 20,
        direct_payload_min_bytes: usize::from(first) * 10,
    };
    let mut disk = Disk::new(16);
    disk.export.block_minimum = if second & 4 == 0 { 1 } else { 512 };
    disk.export.tls_required = second & 8 != 0;
    let mut server = TestServer::new(policy, disk);
    let extended = second & 16 != 0;
    let mut stream = Vec::new();
    match second >> 5 {
        0 => {}
        1 => stream.extend([0, 0, 0, 3]),
        // The handshake up to the first request.
        n => {
            stream.extend([0, 0, 0, 3]);
            stream.extend(if extended { option(11, &[]) } else { option(8, &[]) });
            if n > 3 {
                let contexts = b"\0\0\0\x04disk\0\0\0\x02\0\0\0\x0fbase:allocation\0\0\0\x0fx-flashlab:wear";
                stream.extend(option(10, contexts));
            }
            stream.extend(option(7, b"\0\0\0\x04disk\0\0"));
        }
    }
    while !input.0.is_empty() {
        stream.extend(message(&mut input, extended));
    }
    let mut choices = Choices::new(bytes);
    let (mut rest, mut sent) = (&stream[..], 0);
    while !rest.is_empty() && server.closed.is_none() {
        let (piece, behind) = rest.split_at(rest.len().min(1 + choices.below(2000)));
        rest = behind;
        server.feed(piece);
        server.send_replies(&mut choices, false);
        sent += server.take_sent().len();
    }
    // The server's output is bounded: per request the data of a read, at most the size of the disk, or a few words.
    assert!(sent <= (stream.len() / 28 + 1) * (16 * 512 * 2 + 1000) + 20 * 500 + 100);
});
