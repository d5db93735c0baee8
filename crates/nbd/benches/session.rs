//! Speed of the session machines alone. A server's session parses batches of 32 requests of 4 KiB, and a
//! client's session parses the replies. One copy of the bytes of such a batch serves as the comparison.
//!
//! Run it with `cargo bench -p flashlab-nbd --bench session`. It asserts nothing and prints the results.

use flashlab_nbd::client::{self, Client, ClientConfig, Request};
use flashlab_nbd::server::{Command, Event, Export, Policy, Session};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BATCH: u64 = 32;
const BLOCK: u64 = 4096;
const BATCHES: u32 = 2_000;
const REPEATS: usize = 7;

/// Returns a server and a client after the handshake.
fn open_session(config: ClientConfig) -> (Session, Client) {
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    let exports = Arc::new(vec![Export::new("", 1 << 30)]);
    let mut server = Session::new(Policy::default(), exports, &mut to_client);
    let mut client = Client::new(config);
    loop {
        let received = client.receive(&to_client, &mut to_server);
        to_client.drain(..received.consumed);
        if received.event == client::Event::Ready {
            return (server, client);
        }
        let received = server.receive(&to_server, &mut to_client);
        to_server.drain(..received.consumed);
    }
}

/// Returns a batch of requests, with their payloads if they are writes.
fn requests(client: &mut Client, write: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..BATCH {
        let request = if write { Request::write } else { Request::read }(n * BLOCK, BLOCK);
        client.request(request, &mut bytes).expect("the request is in range");
        if write {
            bytes.resize(bytes.len() + BLOCK as usize, 1);
        }
    }
    bytes
}

/// Processes a batch on the server, and appends the replies, those to reads with their data only if
/// `payloads` is set.
fn serve(session: &mut Session, bytes: &[u8], heads: &mut Vec<u8>, payloads: bool) {
    let replies = session.replies().expect("the handshake has opened an export");
    let mut at = 0;
    while let received = session.receive(&bytes[at..], heads)
        && let Event::Request(request) = received.event
    {
        match request.command {
            Command::Write { range, .. } => {
                black_box(&bytes[at + range.start..at + range.end]);
                replies.done(request.token, heads);
            }
            _ => {
                replies.read(request.token, request.length as u32, heads);
                if payloads {
                    heads.resize(heads.len() + request.length as usize, 1);
                }
            }
        }
        at += received.consumed;
    }
}

fn main() {
    let from = vec![1u8; (BATCH * BLOCK) as usize];
    let mut to = from.clone();
    let copy = best(|| timed(|| black_box(&mut to).copy_from_slice(black_box(&from))));
    println!("a batch of {BATCH} x 4 KiB: one copy of its bytes takes {:.0} ns\n", copy.as_nanos());
    println!("{:24} {:>20} {:>20}", "a batch of", "server, ns (copies)", "client, ns (copies)");
    let structured = ClientConfig { extended: false, ..ClientConfig::export("") };
    for (style, config) in [
        ("simple", ClientConfig::export("").simple()),
        ("structured", structured),
        ("extended", ClientConfig::export("")),
    ] {
        for write in [false, true] {
            let (mut server, mut client) = open_session(config.clone());
            let bytes = requests(&mut client, write);
            let mut heads = Vec::with_capacity(1 << 16);
            let served = best(|| {
                heads.clear();
                timed(|| serve(&mut server, black_box(&bytes), &mut heads, false))
            });
            let mut answers = Vec::with_capacity(1 << 20);
            let parsed = best(|| {
                // Requests and replies are created anew each time, outside the measurement.
                let (mut server, mut client) = open_session(config.clone());
                let bytes = requests(&mut client, write);
                answers.clear();
                serve(&mut server, &bytes, &mut answers, true);
                timed(|| parse(&mut client, &answers))
            });
            let label = format!("{style} {}", if write { "writes" } else { "reads" });
            let [served, parsed] = [served, parsed].map(|time| {
                let copies = time.as_nanos() as f64 / copy.as_nanos() as f64;
                format!("{} ({copies:.2})", time.as_nanos())
            });
            println!("{label:24} {served:>20} {parsed:>20}");
        }
    }
}

/// Returns the time for one batch. The result is the minimum of several means, because other programs may run
/// on the machine.
fn best(mut batch: impl FnMut() -> Duration) -> Duration {
    let mean = |_| (0..BATCHES).map(|_| batch()).sum::<Duration>() / BATCHES;
    (0..REPEATS).map(mean).min().unwrap_or_default()
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Parses the replies on the client.
fn parse(client: &mut Client, answers: &[u8]) {
    let (mut at, mut done) = (0, 0);
    let mut nothing = Vec::new();
    while done < BATCH {
        let received = client.receive(black_box(&answers[at..]), &mut nothing);
        at += received.consumed;
        done += u64::from(matches!(received.event, client::Event::Done { .. }));
    }
}
