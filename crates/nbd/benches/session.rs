//! How fast the machines are by themselves: batches of 32 requests of 4 KiB through a server's session, and their
//! answers through a client's, beside one copy of the bytes of such a batch.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flashlab_nbd::client::{self, Client, Request, Wish};
use flashlab_nbd::server::{Command, Event, Export, Policy, Session};
use std::hint::black_box;
use std::sync::Arc;

const BATCH: u64 = 32;
const BLOCK: u64 = 4096;

/// Both sides after the handshake.
fn opened(wish: Wish) -> (Session, Client) {
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    let exports = Arc::new(vec![Export::new("", 1 << 30)]);
    let mut server = Session::new(Policy::default(), exports, &mut to_client);
    let mut client = Client::new(wish);
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

/// A batch of requests, with their payloads if they write.
fn requests(client: &mut Client, write: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..BATCH {
        let request = if write { Request::write } else { Request::read }(n * BLOCK, BLOCK);
        client.request(request, &mut bytes).expect("it is in range");
        if write {
            bytes.resize(bytes.len() + BLOCK as usize, 1);
        }
    }
    bytes
}

/// Takes a batch in, and appends the headers of its answers.
fn serve(session: &mut Session, bytes: &[u8], heads: &mut Vec<u8>, payloads: bool) {
    let replies = session.replies().expect("it is open");
    let mut at = 0;
    while let received = session.receive(&bytes[at..], heads)
        && let Event::Request(request) = received.event
    {
        match request.command {
            Command::Write { here, .. } => {
                black_box(&bytes[at + here.start..at + here.end]);
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

fn sessions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch of 32 x 4 KiB");
    group.throughput(Throughput::Elements(BATCH));
    let from = vec![1u8; (BATCH * BLOCK) as usize];
    let mut to = from.clone();
    group.bench_function("one copy of its bytes", |bencher| {
        bencher.iter(|| black_box(&mut to).copy_from_slice(black_box(&from)));
    });
    let structured = Wish { extended: false, ..Wish::export("") };
    for (style, wish) in
        [("simple", Wish::export("").simple()), ("structured", structured), ("extended", Wish::export(""))]
    {
        for write in [false, true] {
            let (mut server, mut client) = opened(wish.clone());
            let bytes = requests(&mut client, write);
            let what = if write { "writes" } else { "reads" };
            let mut heads = Vec::with_capacity(1 << 16);
            group.bench_function(format!("server, {style} {what}"), |bencher| {
                bencher.iter(|| {
                    heads.clear();
                    serve(&mut server, black_box(&bytes), &mut heads, false);
                });
            });
            let mut answers = Vec::with_capacity(1 << 20);
            group.bench_function(format!("client, {style} {what}"), |bencher| {
                bencher.iter_custom(|rounds| {
                    // Requests and answers anew each time, but for the copies not counted.
                    let mut took = std::time::Duration::ZERO;
                    for _ in 0..rounds {
                        let (mut server, mut client) = opened(wish.clone());
                        let bytes = requests(&mut client, write);
                        answers.clear();
                        serve(&mut server, &bytes, &mut answers, true);
                        took += parse(&mut client, &answers);
                    }
                    took
                });
            });
        }
    }
}

/// How long a client takes for these answers.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn parse(client: &mut Client, answers: &[u8]) -> std::time::Duration {
    let (mut at, mut done) = (0, 0);
    let mut nothing = Vec::new();
    let start = std::time::Instant::now();
    while done < BATCH {
        let received = client.receive(black_box(&answers[at..]), &mut nothing);
        at += received.consumed;
        done += u64::from(matches!(received.event, client::Event::Done { .. }));
    }
    start.elapsed()
}

criterion_group!(benches, sessions);
criterion_main!(benches);
