//! A server and a client joined by bytes: the environment in which sessions are tested. The caller determines the
//! negotiated features, the pieces into which the bytes are cut, and the order of the replies.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod client;
pub(crate) mod disk;
pub(crate) mod server;

use client::{Op, TestClient};
use disk::Disk;
use flashlab_nbd::client::ClientConfig;
use flashlab_nbd::server::Policy;
use server::TestServer;

/// Decisions derived from bytes. Once the bytes run out, each decision is zero.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    bytes: Vec<u8>,
    at: usize,
}

impl Choices {
    pub(crate) fn new(bytes: &[u8]) -> Choices {
        Choices { bytes: bytes.to_vec(), at: 0 }
    }
    /// Returns a number below `end`, which must not be zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let mut number = 0;
        for _ in 0..if end > 256 { 2 } else { 1 } {
            number = number << 8 | usize::from(self.bytes.get(self.at).copied().unwrap_or(0));
            self.at += 1;
        }
        number % end
    }
}

/// Parameters of one session.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) config: ClientConfig,
    pub(crate) policy: Policy,
    pub(crate) disk: Disk,
    pub(crate) ops: Vec<Op>,
    /// Queue depth.
    pub(crate) depth: usize,
}

/// A server and a client, and the bytes between them.
pub(crate) struct Pair {
    pub(crate) server: TestServer,
    pub(crate) client: TestClient,
    /// All bytes sent.
    pub(crate) to_server: Vec<u8>,
    pub(crate) to_client: Vec<u8>,
}

/// Runs a session to its end. [`TestServer`] and [`TestClient`] check the guarantees of the two machines on
/// the way.
pub(crate) fn run(plan: &Plan, choices: &mut Choices) -> Pair {
    let server = TestServer::new(plan.policy, plan.disk.clone());
    let client = TestClient::new(plan.config.clone(), plan.disk.clone(), plan.ops.clone(), plan.depth);
    let mut pair = Pair { server, client, to_server: Vec::new(), to_client: Vec::new() };
    let (mut up, mut down): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut idle = 0;
    while !(pair.server.closed.is_some() && pair.client.is_over()) {
        let piece_length = |queue: &[u8], choices: &mut Choices| match choices.below(4) {
            0 => queue.len(),
            1 => queue.len().min(1 + choices.below(64)),
            _ => queue.len().min(1 + choices.below(4096)),
        };
        pair.server.send_replies(choices, false);
        let sent = pair.server.take_sent();
        pair.to_client.extend_from_slice(&sent);
        down.extend_from_slice(&sent);
        let piece: Vec<u8> = down.drain(..piece_length(&down, choices)).collect();
        pair.client.feed(&piece);
        let sent = pair.client.take_sent();
        pair.to_server.extend_from_slice(&sent);
        up.extend_from_slice(&sent);
        let piece: Vec<u8> = up.drain(..piece_length(&up, choices)).collect();
        pair.server.feed(&piece);
        // If no bytes move for some rounds, the server has to reply. If nothing moves even then, the run ends.
        idle = if piece.is_empty() && down.is_empty() && up.is_empty() { idle + 1 } else { 0 };
        if idle > 4 {
            pair.server.send_replies(choices, true);
        }
        if idle > 8 && pair.server.sent_is_empty() {
            break;
        }
    }
    pair
}
