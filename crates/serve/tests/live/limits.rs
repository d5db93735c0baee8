//! Limits on the resources of clients.

use crate::server::{TestClient, TestServer, alone, memory};
use flashlab_nbd::client::ClientConfig;
use flashlab_serve::Limits;
use flashlab_sim::Duration;
use std::io::{Read, Write};

#[test]
fn a_client_that_selects_no_export_is_disconnected() {
    let limits = Limits { handshake: Duration::from_ms(50), ..Limits::default() };
    let server = TestServer::with(alone(memory(1 << 20)), limits, None);
    let mut silent = server.connect();
    let mut sent = Vec::new();
    silent.read_to_end(&mut sent).expect("the server closes");
    assert_eq!(sent.len(), 18, "the greeting, and no more");
    // An endless sequence of options, none of which selects an export.
    let mut chatty = server.connect();
    let abort_never = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 99, 0, 0, 0, 0]].concat();
    let _ = chatty.write_all(&abort_never);
    let _ = chatty.read_to_end(&mut Vec::new());
    server.wait_until_empty();
}

#[test]
fn a_client_beyond_the_limit_waits_until_another_disconnects() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = TestServer::with(alone(memory(1 << 20)), limits, None);
    let (first, second) = (server.client(), server.client());
    std::thread::scope(|scope| {
        let third = scope.spawn(|| server.client().read(0, 1));
        while !third.is_finished() {
            assert!(server.counters.read().connections() <= 2);
            if server.counters.read().connections() == 2 {
                break;
            }
        }
        drop(first);
        assert_eq!(third.join().expect("the client is served"), [0]);
    });
    drop(second);
}

#[test]
fn large_requests_beyond_the_share_of_a_connection_all_complete() {
    let limits = Limits { bytes_in_flight: 20 << 20, ..Limits::default() };
    let server = TestServer::with(alone(memory(1 << 30)), limits, None);
    std::thread::scope(|scope| {
        for n in 0..6u8 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                // Each request exceeds a connection's share of the limit, so the server serves it in pieces.
                let (offset, bytes) =
                    (u64::from(n) * (32 << 20), vec![n + 1; (8 << 20) * (1 + usize::from(n) % 3)]);
                client.write(offset, &bytes);
                assert!(client.read(offset, bytes.len() as u64) == bytes);
            });
        }
    });
}

#[test]
fn without_structured_replies_reads_still_return_the_data() {
    let limits = Limits { structured_replies: false, ..Limits::default() };
    let server = TestServer::with(alone(memory(1 << 20)), limits, None);
    let config = ClientConfig { contexts: vec!["base:allocation".into()], ..ClientConfig::export("") };
    let mut client = TestClient::new(server.connect(), config).expect("the server accepts the client");
    client.write(100_000, b"here");
    assert_eq!(&client.read(0, 200_000)[99_998..100_006], b"\0\0here\0\0");
}
