//! A server and a client joined by bytes: the environment in which sessions are tested. The caller determines the
//! negotiated features, the pieces into which the bytes are cut, and the order of the replies.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod disk;
pub(crate) mod guest;
pub(crate) mod host;

use disk::Disk;
use flashlab_nbd::client::Wish;
use flashlab_nbd::server::Policy;
use guest::{Guest, Op};
use host::Host;

/// Decisions derived from bytes; zero once the bytes run out.
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
    pub(crate) wish: Wish,
    pub(crate) policy: Policy,
    pub(crate) disk: Disk,
    pub(crate) ops: Vec<Op>,
    /// Queue depth.
    pub(crate) depth: usize,
}

/// A server and a client, and the bytes between them.
pub(crate) struct Pair {
    pub(crate) host: Host,
    pub(crate) guest: Guest,
    /// All bytes sent.
    pub(crate) to_host: Vec<u8>,
    pub(crate) to_guest: Vec<u8>,
}

/// Runs a session to its end, and checks every guarantee of both machines on the way.
pub(crate) fn run(plan: &Plan, choices: &mut Choices) -> Pair {
    let host = Host::new(plan.policy, plan.disk.clone());
    let guest = Guest::new(plan.wish.clone(), plan.disk.clone(), plan.ops.clone(), plan.depth);
    let mut pair = Pair { host, guest, to_host: Vec::new(), to_guest: Vec::new() };
    let (mut up, mut down): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut idle = 0;
    while !(pair.host.closed.is_some() && pair.guest.is_over()) {
        let cut = |queue: &[u8], choices: &mut Choices| match choices.below(4) {
            0 => queue.len(),
            1 => queue.len().min(1 + choices.below(64)),
            _ => queue.len().min(1 + choices.below(4096)),
        };
        pair.host.answer(choices, false);
        let sent = pair.host.take_sent();
        pair.to_guest.extend_from_slice(&sent);
        down.extend_from_slice(&sent);
        let piece: Vec<u8> = down.drain(..cut(&down, choices)).collect();
        pair.guest.feed(&piece);
        let sent = pair.guest.take_sent();
        pair.to_host.extend_from_slice(&sent);
        up.extend_from_slice(&sent);
        let piece: Vec<u8> = up.drain(..cut(&up, choices)).collect();
        pair.host.feed(&piece);
        // If no bytes move for some rounds, the server has to reply. If nothing moves even then, the run ends.
        idle = if piece.is_empty() && down.is_empty() && up.is_empty() { idle + 1 } else { 0 };
        if idle > 4 {
            pair.host.answer(choices, true);
        }
        if idle > 8 && pair.host.sent_is_empty() {
            break;
        }
    }
    pair
}
