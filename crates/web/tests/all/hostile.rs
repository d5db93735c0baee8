//! Tests of malformed requests, wrong tokens, foreign pages and slow clients.

use crate::client::{Running, status};
use flashlab_web::Limits;
use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn impatient() -> Limits {
    Limits { request: Duration::from_millis(300), stall: Duration::from_millis(300), ..Limits::default() }
}

#[test]
fn malformed_requests_get_an_error_or_a_closed_connection_and_the_server_continues() {
    let server = Running::start(impatient());
    let long = format!("GET /{} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "x".repeat(1 << 20));
    let many: String = (0..500).map(|n| format!("X-{n}: y\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{many}\r\n");
    let mut requests: Vec<Vec<u8>> = [
        "",
        "\r\n\r\n",
        "GET",
        "GET / HTTP/9.9\r\n\r\n",
        "GET  /  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "get / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
        "POST /api/control HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        "POST /api/control HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        "POST /api/control HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}",
        &long,
        &many,
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    requests.push((0..=255).cycle().take(100_000).collect());
    for request in requests {
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]).into_owned();
        let answer = server.exchange(&request);
        assert!(!answer.contains(" 200 "), "{shown:?} is answered by {answer}");
    }
    assert_eq!(server.command("{\"do\":\"step\"}").0, 200);
    assert_eq!(
        server.commands.lock().expect("no test panics with it").len(),
        1,
        "another request reached the subject"
    );
}

#[test]
fn a_change_without_the_token_changes_nothing() {
    let server = Running::start(Limits::default());
    let json = "Content-Type: application/json";
    let wrong = format!("Authorization: Bearer {}", "0".repeat(32));
    let short = format!("Authorization: Bearer {}", &server.token[..31]);
    let bare = format!("Authorization: {}", server.token);
    for headers in
        [&[json][..], &[json, &wrong], &[json, &short], &[json, &bare], &[json, "Authorization: Bearer"]]
    {
        let (status, why) = server.request("POST /api/control", headers, "{\"do\":\"cut\"}");
        assert_eq!(status, 401, "{headers:?}: {why}");
        assert!(why.contains("token") && !why.contains(&server.token), "{why}");
    }
    let in_query = format!("POST /api/control?token={}", server.token);
    assert_eq!(server.request(&in_query, &[json], "{\"do\":\"cut\"}").0, 401);
    assert!(server.commands.lock().expect("no test panics with it").is_empty());
}

#[test]
fn a_page_of_another_site_can_neither_change_nor_read() {
    let server = Running::start(Limits::default());
    let authorization = format!("Authorization: Bearer {}", server.token);
    let foreign = "Origin: http://evil.example";
    let headers = [authorization.as_str(), "Content-Type: application/json", foreign];
    assert_eq!(server.request("POST /api/control", &headers, "{\"do\":\"cut\"}").0, 403);
    assert_eq!(server.request("GET /api/state", &[foreign], "").0, 403);
    let own = format!("Origin: http://{}", server.address);
    let (status_of_two, why) = server.request("GET /api/state", &[&own, foreign], "");
    assert_eq!(status_of_two, 403);
    assert!(why.contains("more than one header origin"), "{why}");
    // The preflight of a cross-origin command gets no permission.
    let preflight = ["Access-Control-Request-Method: POST", foreign];
    assert_eq!(server.request("OPTIONS /api/control", &preflight, "").0, 403);
    // A name of another site that resolves to this machine.
    let rebound = "GET /api/state HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&server.exchange(rebound.as_bytes())), 403);
    // A form needs no preflight, but has another media type and no token.
    let form = ["Content-Type: text/plain", &authorization];
    assert_eq!(server.request("POST /api/control", &form, "{\"do\":\"cut\"}").0, 415);
    assert!(server.commands.lock().expect("no test panics with it").is_empty());
}

#[test]
fn a_command_that_is_too_long_or_not_json_is_refused() {
    let server = Running::start(Limits { body: 1_000, ..Limits::default() });
    let (status, why) = server.command(&format!("\"{}\"", "x".repeat(2_000)));
    assert_eq!((status, why.as_str()), (413, "a command has at most 1000 bytes\n"));
    for text in ["", "{", "\u{0}", "{\"do\":}", &"[".repeat(900)] {
        let (status, why) = server.command(text);
        assert_eq!(status, 400, "{text:?}: {why}");
    }
}

#[test]
fn a_client_that_sends_slowly_is_disconnected() {
    let server = Running::start(impatient());
    for begun in [
        "GET / HTTP/1.1\r\nHost: 127",
        &format!(
            "POST /api/control HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: 100\r\n\r\n{{",
            server.address, server.token
        ),
    ] {
        let answer = server.exchange(begun.as_bytes());
        assert!(answer.is_empty() || status(&answer) == 408, "{begun:?} is answered by {answer}");
    }
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let limits = Limits { stall: Duration::from_millis(300), streams: 1, ..Limits::default() };
    let server = Running::with(limits, 4 << 20, true);
    let request = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    let mut stalled = server.send(request.as_bytes());
    // The only place for a stream becomes free once the server has disconnected the first client.
    loop {
        let mut other = server.send(request.as_bytes());
        let mut answer = [0; 15];
        other.read_exact(&mut answer).expect("an answer");
        if &answer == b"HTTP/1.1 200 OK" {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.ticks.load(Ordering::SeqCst) > 1, "the subject stood still meanwhile");
    let mut rest = Vec::new();
    let _ = stalled.read_to_end(&mut rest);
    let _ = stalled.write_all(b"GET / HTTP/1.1\r\n\r\n");
    assert!(rest.len() < 64 << 20, "the connection did not end: {} bytes", rest.len());
}
