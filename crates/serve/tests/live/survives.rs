//! Misbehaving clients: they disconnect at any byte, send garbage or invalid requests, send slowly, connect
//! in large numbers, or never receive.

use crate::server::{TestClient, TestServer, memory};
use flashlab_nbd::client::{ClientConfig, Request};
use flashlab_nbd::wire::{
    CommandFlags, CommandType, ErrorNumber, OptionHeader, OptionType, RequestHeader, RequestLayout,
};
use flashlab_sim::Rng;
use std::io::{Read, Write};

/// Returns the bytes of a short session: it selects the export, writes, reads, flushes, trims, and disconnects.
fn session() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 3];
    OptionHeader::emit_with(OptionType::StructuredReply, b"", &mut bytes);
    OptionHeader::emit_with(OptionType::Go, &[0, 0, 0, 0, 0, 0], &mut bytes);
    let mut request = |command, length, payload: &[u8]| {
        let flags = CommandFlags::NONE;
        let header = RequestHeader { flags, command, cookie: 1, offset: 0, length };
        header.emit(RequestLayout::Compact, &mut bytes);
        bytes.extend_from_slice(payload);
    };
    request(CommandType::Write, 600, &[7; 600]);
    request(CommandType::Read, 1000, &[]);
    request(CommandType::Flush, 0, &[]);
    request(CommandType::Trim, 4096, &[]);
    request(CommandType::Disconnect, 0, &[]);
    bytes
}

/// Asserts that the server works normally.
fn assert_serves(server: &TestServer) {
    server.wait_until_empty();
    let mut client = server.client();
    client.write(1 << 19, b"still here");
    assert_eq!(client.read(1 << 19, 10), b"still here");
}

#[test]
fn a_client_that_disconnects_at_any_byte_does_not_affect_others() {
    let server = TestServer::new(memory(1 << 20));
    let session = session();
    for end in 0..=session.len() {
        let mut stream = server.connect();
        stream.write_all(&session[..end]).expect("the server reads");
        // Half of the clients wait for all replies. The others disconnect with replies unread or not sent yet.
        if end % 2 == 0 {
            stream.shutdown(std::net::Shutdown::Write).expect("the stream is open");
            let mut replies = Vec::new();
            // The server may have closed first, with bytes of this client unread.
            let _ = stream.read_to_end(&mut replies);
            assert!(replies.starts_with(b"NBDMAGIC"), "killed at byte {end}");
        }
    }
    assert_serves(&server);
}

#[test]
fn garbage_ends_only_its_own_connection() {
    let server = TestServer::new(memory(1 << 20));
    let session = session();
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut bytes = session[..rng.below(session.len() as u64 + 1) as usize].to_vec();
        let noise = rng.below(5_000) + 1;
        bytes.extend((0..noise).map(|_| rng.next_u64() as u8));
        let mut stream = server.connect();
        // The server may close the connection while the client still sends.
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_serves(&server);
}

#[test]
fn a_client_that_sends_single_bytes_is_answered_and_delays_no_other() {
    let server = TestServer::new(memory(1 << 20));
    let (mut slow, mut other) = (server.connect(), server.client());
    for byte in session() {
        slow.write_all(&[byte]).expect("the server reads");
        other.write(8192, &[byte]);
    }
    let mut replies = Vec::new();
    slow.read_to_end(&mut replies).expect("the server answers");
    // The last reply is a simple one without an error, and the written data was read back.
    assert_eq!(replies[replies.len() - 16..][..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    assert!(replies.windows(600).any(|part| part == [7; 600]));
}

#[test]
fn a_client_that_never_receives_delays_no_other_and_can_disconnect() {
    let server = TestServer::new(memory(1 << 28));
    let mut stalled = server.client();
    let mut bytes = Vec::new();
    for n in 0..64 {
        let header = RequestHeader {
            flags: CommandFlags::NONE,
            command: CommandType::Read,
            cookie: n,
            offset: 0,
            length: 1 << 20,
        };
        header.emit(RequestLayout::Extended, &mut bytes);
    }
    stalled.stream.write_all(&bytes).expect("the server reads");
    server.client().write(0, &[1; 4096]);
    drop(stalled);
    assert_serves(&server);
}

#[test]
fn a_thousand_connections_are_served_at_a_time() {
    let server = TestServer::new(memory(1 << 20));
    let mut clients: Vec<_> = (0..1000).map(|_| server.client()).collect();
    assert_eq!(server.counters.read().connections(), 1000);
    for (n, client) in clients.iter_mut().enumerate() {
        client.write(n as u64 * 512, &[n as u8; 512]);
    }
    for (n, client) in clients.iter_mut().rev().enumerate() {
        let n = 999 - n;
        assert_eq!(client.read(n as u64 * 512, 512), [n as u8; 512]);
    }
    drop(clients);
    assert_serves(&server);
}

#[test]
fn requests_of_64_mib_complete_and_larger_ones_are_rejected() {
    const LENGTH_MAX: u64 = 64 << 20;
    let server = TestServer::new(memory(1 << 30));
    for simple in [false, true] {
        let config = ClientConfig { validate_requests: false, ..ClientConfig::export("") };
        let config = if simple { config.simple() } else { config };
        let mut client = TestClient::new(server.connect(), config).expect("the server accepts the client");
        let bytes: Vec<u8> = (0..LENGTH_MAX).map(|n| (n % 251) as u8).collect();
        client.write(12345, &bytes);
        assert!(client.read(12345, LENGTH_MAX) == bytes);
        let failed = client.execute(Request::read(0, LENGTH_MAX + 1), &[]).expect("the connection is open");
        let error = if simple { ErrorNumber::Invalid } else { ErrorNumber::Overflow };
        assert_eq!(failed, Err(error));
        client.write(0, b"goes on");
    }
}

#[test]
fn invalid_requests_get_the_right_error_and_the_session_continues() {
    let mut exports = crate::server::alone(memory(1 << 20));
    exports.push(flashlab_serve::Export { name: "ro".into(), read_only: true, ..exports[0].clone() });
    let server = TestServer::with(exports, flashlab_serve::Limits::default(), None);
    let config = |name| ClientConfig { validate_requests: false, ..ClientConfig::export(name) };
    let mut client = TestClient::new(server.connect(), config("")).expect("the server accepts the client");
    let mut error_of =
        |request, payload: &[u8]| client.execute(request, payload).expect("the connection is open").err();
    let end = 1 << 20;
    assert_eq!(error_of(Request::write(end - 1, 2), &[0; 2]), Some(ErrorNumber::NoSpace));
    assert_eq!(error_of(Request::read(end, 1), &[]), Some(ErrorNumber::Invalid));
    assert_eq!(error_of(Request::write_zeroes(end, 1), &[]), Some(ErrorNumber::NoSpace));
    assert_eq!(error_of(Request::trim(u64::MAX, 1), &[]), Some(ErrorNumber::Invalid));
    assert_eq!(error_of(Request::cache(0, 1), &[]), Some(ErrorNumber::Invalid));
    assert_eq!(error_of(Request::write(end - 1, 1), &[9]), None);
    let mut reader = TestClient::new(server.connect(), config("ro")).expect("the server accepts the client");
    let failed = reader.execute(Request::write(0, 512), &[0; 512]).expect("the connection is open");
    assert_eq!(failed, Err(ErrorNumber::Permission));
    assert_eq!(reader.read(end - 1, 1), [9]);
    assert!(TestClient::new(server.connect(), config("nobody")).is_err());
}
