//! Fuzzes the NBD client against arbitrary servers, and in complete sessions with our server. The reference
//! model of the tests checks the complete sessions.
#![no_main]

#[path = "../../crates/nbd/tests/all/pair/mod.rs"]
mod pair;

use flashlab_nbd::client::{Client, ClientConfig, Event, Goal, Request, Tls as ClientTls};
use flashlab_nbd::server::{Closed, Policy, Tls};
use flashlab_nbd::wire::{CommandFlags, CommandType};
use libfuzzer_sys::fuzz_target;
use pair::client::Op;
use pair::disk::{CONTEXTS, Disk};
use pair::{Choices, Plan, run};

fn config(choices: &mut Choices) -> ClientConfig {
    let bits = choices.below(256);
    ClientConfig {
        structured: bits & 1 == 0,
        extended: bits & 2 == 0,
        export_name: bits & 12 == 12,
        no_zeroes: bits & 16 == 0,
        validate_requests: bits & 32 == 0,
        tls: [ClientTls::Off, ClientTls::Off, ClientTls::Try, ClientTls::Require][bits >> 6],
        contexts: CONTEXTS[..choices.below(4)].iter().map(|name| name.to_string()).collect(),
        ..ClientConfig::export("disk")
    }
}

fn request(choices: &mut Choices) -> Request {
    let command = CommandType::from_wire(choices.below(9) as u16);
    let command = if command == CommandType::Disconnect { CommandType::Read } else { command };
    let flags = CommandFlags(choices.below(64) as u16).without(CommandFlags::PAYLOAD_LEN);
    let flags = if choices.below(2) == 0 { CommandFlags::NONE } else { flags };
    let scale = [1, 512, 512, 4096][choices.below(4)];
    let (offset, length) = (choices.below(64) as u64 * scale, choices.below(64) as u64 * scale);
    let (offset, length) = if command == CommandType::Flush { (0, 0) } else { (offset, length) };
    Request { command, flags, offset, length }
}

/// Runs a complete session with our server.
fn complete_session(choices: &mut Choices) {
    let mut config = config(choices);
    let bits = choices.below(256);
    let tls = match config.tls {
        ClientTls::Off => [Tls::Off, Tls::On][bits & 1],
        ClientTls::Try => [Tls::Off, Tls::On, Tls::Require][bits % 3],
        ClientTls::Require => [Tls::On, Tls::Require][bits & 1],
    };
    config.export_name &= tls != Tls::Off || config.tls != ClientTls::Require;
    let policy = Policy {
        tls,
        structured: bits & 8 == 0,
        extended: bits & 16 == 0,
        direct_payload_min_bytes: choices.below(3000),
        ..Policy::default()
    };
    let mut disk = Disk::new(32);
    disk.export.block_minimum = if bits & 32 == 0 { 1 } else { 512 };
    let ops = (0..choices.below(40)).map(|_| {
        let (request, fill) = (request(choices), choices.below(256) as u8);
        let contexts = (0..3).filter(|_| choices.below(4) == 3).collect();
        Op { request, fill, contexts }
    });
    let plan = Plan { config, policy, disk, ops: ops.collect(), depth: 0 };
    let plan = Plan { depth: 1 + choices.below(30), ..plan };
    let pair = run(&plan, choices);
    assert_eq!(pair.server.closed, Some(Closed::Disconnect));
    assert!(pair.client.is_over() && pair.client.closed.is_none(), "{:?}", pair.client.closed);
    assert_eq!(pair.server.disk.bytes, pair.client.disk.bytes);
}

/// Returns the reply to an option of the handshake.
fn option_reply(option: u8, kind: u8, data: &[u8]) -> Vec<u8> {
    [&b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0"[..], &[option, 0, 0, 0, kind, 0, 0, 0, data.len() as u8], data]
        .concat()
}

/// A server that answers a client with bytes that few or no real servers would send.
struct HostileServer<'a> {
    client: Client,
    /// True if the server grants the client's requests, so that the client can reach transmission.
    grants_requests: bool,
    /// Bytes for the client, which has consumed those before `at`.
    stream: Vec<u8>,
    at: usize,
    /// Bytes of the input that are not in the stream yet.
    rest: &'a [u8],
    /// Bytes that the client sent.
    sent: Vec<u8>,
    is_ready: bool,
    /// Cookies of the client's requests.
    cookies: Vec<[u8; 8]>,
}

impl<'a> HostileServer<'a> {
    fn new(choices: &mut Choices, bytes: &'a [u8]) -> HostileServer<'a> {
        let mut config = config(choices);
        config.goal = [Goal::Transmission, Goal::Transmission, Goal::Info, Goal::List][choices.below(4)];
        let (structured, extended) = (config.structured, config.extended);
        let grants_requests = choices.below(4) > 0;
        let mut stream = Vec::new();
        if grants_requests {
            (config.export_name, config.tls, config.goal) = (false, ClientTls::Off, Goal::Transmission);
            stream.extend(b"NBDMAGICIHAVEOPT\0\x03");
            if extended {
                stream.extend(option_reply(11, 1, &[]));
            } else if structured {
                stream.extend(option_reply(8, 1, &[]));
            }
        }
        HostileServer {
            client: Client::new(config),
            grants_requests,
            stream,
            at: 0,
            rest: bytes,
            sent: Vec::new(),
            is_ready: false,
            cookies: Vec::new(),
        }
    }

    /// Runs until the client closes the session or the input ends.
    fn run(mut self, choices: &mut Choices) {
        let mut quiet = 0;
        loop {
            let received = self.client.receive(&self.stream[self.at..], &mut self.sent);
            self.at += received.consumed;
            quiet = if received.consumed == 0 { quiet + 1 } else { 0 };
            assert!(quiet < 5, "the client makes no progress");
            match received.event {
                Event::Need(need) => {
                    assert!(need > self.stream.len() - self.at && need <= Client::NEED_MAX);
                    quiet = 0;
                    if self.rest.is_empty() {
                        break;
                    }
                    if self.grants_requests && !self.is_ready {
                        self.grant_transmission();
                    } else {
                        self.send_piece(choices);
                    }
                }
                Event::Ready => self.make_requests(choices),
                Event::StartTls => self.client.tls_started(&mut self.sent),
                Event::Data { range, .. } => assert!(range.end <= self.stream.len() && !range.is_empty()),
                Event::Closed(why) => {
                    assert!(!why.to_string().is_empty());
                    break;
                }
                _ => {}
            }
            if self.at > 1 << 16 {
                self.stream.drain(..self.at);
                self.at = 0;
            }
        }
    }

    /// Ends the handshake: grants metadata contexts if the client asked for them, and describes the export.
    fn grant_transmission(&mut self) {
        if self.sent.windows(12).any(|option| option == b"IHAVEOPT\0\0\0\x0a") {
            self.stream.extend(option_reply(10, 4, b"\0\0\0\x07base:allocation"));
            self.stream.extend(option_reply(10, 1, &[]));
        }
        self.stream.extend(option_reply(7, 3, b"\0\0\0\0\0\0\x01\0\0\0\x1d\xfd"));
        self.stream.extend(option_reply(7, 1, &[]));
        self.sent.clear();
        self.is_ready = true;
    }

    /// Sends a piece of the input, unchanged or after the header of a reply.
    fn send_piece(&mut self, choices: &mut Choices) {
        let shape = choices.below(8);
        let cookie: [u8; 8] = self.cookies.get(choices.below(8)).copied().unwrap_or([0; 8]);
        let count = self.rest.len().min(1 + choices.below(64));
        let (piece, behind) = self.rest.split_at(count);
        self.rest = behind;
        let kind = [0u16, 1, 2, 5, 6, 0x8001, 0x8002, 3][choices.below(8)].to_be_bytes();
        let last = [0, choices.below(2) as u8];
        let header = match shape {
            0 => [b"\x67\x44\x66\x98\0\0\0\0", &cookie[..]].concat(),
            1..3 => {
                let length = (count as u32).to_be_bytes();
                [b"\x66\x8e\x33\xef", &last[..], &kind, &cookie, &length].concat()
            }
            3..6 => {
                let (offset, length) = ([0; 8], (count as u64).to_be_bytes());
                [b"\x6e\x8a\x27\x8c", &last[..], &kind, &cookie, &offset, &length].concat()
            }
            6 => {
                let option = [3, 6, 7, 10, 9, 5, 8, 11][choices.below(8)];
                self.stream.extend(option_reply(option, 1 + choices.below(4) as u8, piece));
                return;
            }
            _ => Vec::new(),
        };
        self.stream.extend(header);
        self.stream.extend(piece);
    }

    /// Lets the client make some requests.
    fn make_requests(&mut self, choices: &mut Choices) {
        self.is_ready = true;
        for _ in 0..1 + choices.below(8) {
            self.sent.clear();
            let request = Request { offset: 0, ..request(choices) };
            if self.client.request(request, &mut self.sent).is_ok() {
                self.cookies.push(self.sent[8..16].try_into().expect("a request has a cookie"));
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let mut choices = Choices::new(rest);
    if first % 2 == 0 {
        complete_session(&mut choices);
    } else {
        HostileServer::new(&mut choices, rest).run(&mut choices);
    }
});
