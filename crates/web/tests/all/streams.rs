//! Tests of the event streams.

use crate::client::{Running, status};
use flashlab_web::Limits;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

fn open(server: &Running) -> BufReader<TcpStream> {
    BufReader::new(
        server.send(format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", server.address).as_bytes()),
    )
}

/// Returns the tick of the next event.
fn next_tick(stream: &mut BufReader<TcpStream>) -> u64 {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).expect("an event comes in time") > 0, "the stream ended");
        if let Some(event) = line.strip_prefix("data: ") {
            let state: serde_json::Value = serde_json::from_str(event).expect("an event is JSON");
            return state["tick"].as_u64().expect("a number");
        }
    }
}

#[test]
fn a_stream_delivers_states_in_order() {
    let server = Running::start(Limits::default());
    let mut stream = open(&server);
    let ticks: Vec<u64> = (0..5).map(|_| next_tick(&mut stream)).collect();
    assert!(ticks.is_sorted_by(|a, b| a < b), "{ticks:?}");
}

#[test]
fn of_a_thousand_streams_some_are_served_and_commands_still_work() {
    let limits = Limits { streams: 16, connections: 48, ..Limits::default() };
    let server = Running::start(limits);
    let mut served = Vec::new();
    let mut busy = 0;
    for _ in 0..1_000 {
        let mut stream = open(&server);
        let mut head = String::new();
        let _ = stream.read_line(&mut head);
        match status(&head) {
            200 => served.push(stream),
            503 => busy += 1,
            // All connections are in use.
            0 => {}
            other => panic!("status {other}"),
        }
    }
    assert_eq!(served.len(), 16);
    assert!(busy > 0, "no stream was told that there are too many");
    assert_eq!(server.command("{\"do\":\"pause\"}").0, 200);
    served.iter_mut().for_each(|stream| assert!(next_tick(stream) > 0));
    drop(served);
    // The places become free when the server notices the ends of the streams.
    loop {
        let mut stream = open(&server);
        let mut head = String::new();
        let _ = stream.read_line(&mut head);
        if status(&head) == 200 {
            break;
        }
    }
}

#[test]
fn clients_whose_streams_are_refused_do_not_hold_the_connections() {
    let server = Running::start(Limits { streams: 2, connections: 8, ..Limits::default() });
    let mut served: Vec<_> = (0..2).map(|_| open(&server)).collect();
    served.iter_mut().for_each(|stream| assert!(next_tick(stream) > 0));
    let refused: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = open(&server);
            let mut answer = String::new();
            // Returns only once the server has closed the connection.
            stream.read_to_string(&mut answer).expect("an answer in text");
            assert_eq!(status(&answer), 503, "{answer}");
            assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
            stream
        })
        .collect();
    assert_eq!(server.command("{\"do\":\"pause\"}").0, 200, "beside {} clients", refused.len());
}

#[test]
fn connections_beyond_the_limit_are_closed_and_the_others_continue() {
    let server = Running::start(Limits { connections: 4, streams: 3, ..Limits::default() });
    let mut streams: Vec<_> = (0..3).map(|_| open(&server)).collect();
    streams.iter_mut().for_each(|stream| assert!(next_tick(stream) > 0));
    let _idle = server.send(b"");
    // The idle connection holds the last place, so the next one is closed without an answer.
    let mut closed = false;
    for _ in 0..1_000 {
        let mut bytes = Vec::new();
        let mut further = server.send(
            format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address)
                .as_bytes(),
        );
        let _ = further.read_to_end(&mut bytes);
        closed |= bytes.is_empty();
        if closed {
            break;
        }
    }
    assert!(closed);
    streams.iter_mut().for_each(|stream| assert!(next_tick(stream) > 0));
}
