//! Clients that stall in the middle of a request or send no requests: they do not affect other clients, and the
//! server closes them in the end.

use crate::house::{Guest, House, alone, memory};
use flashlab_block::{Workers, layer};
use flashlab_nbd::client::{ClientConfig, Request};
use flashlab_nbd::wire::{CommandFlags, CommandType, ErrorNumber, RequestHeader, RequestLayout};
use flashlab_serve::{LeastRate, Limits};
use flashlab_sim::Duration;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Larger than a socket's buffers.
const SIZE: u64 = 8 << 20;
const HOUR: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_ms(20);

/// Returns limits with a budget for eight requests of [`SIZE`] bytes, of which one connection may use one.
fn limits(window: Duration) -> Limits {
    let least_rate = LeastRate { window, ..LeastRate::default() };
    Limits { bytes_in_flight: 8 * SIZE, least_rate, ..Limits::default() }
}

fn simple(house: &House) -> Guest<UnixStream> {
    Guest::new(house.connect(), ClientConfig::export("").simple()).expect("the server agrees")
}

fn header(command: CommandType) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = RequestHeader { flags: CommandFlags::NONE, command, cookie: 7, offset: 0, length: SIZE };
    header.emit(RequestLayout::Compact, &mut bytes);
    bytes
}

/// Returns a client that announces a write, sends a part of its payload, and stalls.
fn stalled_writer(house: &House, part: usize) -> UnixStream {
    let mut stream = simple(house).stream;
    stream.write_all(&header(CommandType::Write)).expect("the server reads");
    // On a busy machine, the server may have closed the connection already.
    let _ = stream.write_all(&vec![1; part]);
    stream
}

/// Returns a client that requests a long read, receives the beginning of the reply, and stalls.
fn stalled_reader(house: &House) -> UnixStream {
    let mut stream = simple(house).stream;
    stream.write_all(&header(CommandType::Read)).expect("the server reads");
    stream.read_exact(&mut [0; 16]).expect("the server answers");
    stream
}

#[test]
fn large_requests_are_done_while_sixty_four_clients_stall() {
    let house = House::with(alone(memory(1 << 30)), limits(HOUR), None);
    let stalled: Vec<_> = (0..64)
        .map(|n| match n % 4 {
            0 => stalled_writer(&house, 0),
            1 => stalled_reader(&house),
            _ => stalled_writer(&house, SIZE as usize - 1),
        })
        .collect();
    let bytes: Vec<u8> = (0..64 << 20).map(|n: u32| (n % 251) as u8).collect();
    for config in [ClientConfig::export(""), ClientConfig::export("").simple()] {
        let mut client = Guest::new(house.connect(), config).expect("the server agrees");
        client.write(512, &bytes);
        assert!(client.read(512, bytes.len() as u64) == bytes);
    }
    assert_eq!(house.counters.read().connections().min(64), 64, "nobody was closed meanwhile");
    drop(stalled);
    house.empty();
}

#[test]
fn clients_that_stall_are_closed_when_the_window_is_over() {
    let house = House::with(alone(memory(1 << 30)), limits(SOON), None);
    let mut exports = alone(memory(1 << 30));
    exports[0].read_only = true;
    let read_only = House::with(exports, limits(SOON), None);
    let stalled = [
        stalled_writer(&house, 0),
        stalled_writer(&house, SIZE as usize - 1),
        stalled_reader(&house),
        // A rejected payload, and a request that has arrived partly.
        stalled_writer(&read_only, 1),
        {
            let mut stream = simple(&house).stream;
            stream.write_all(&header(CommandType::Flush)[..9]).expect("the server reads");
            stream
        },
    ];
    house.empty();
    read_only.empty();
    drop(stalled);
    let mut client = house.client();
    client.write(0, b"goes on");
}

#[test]
fn a_silent_client_that_owes_nothing_stays_unless_it_is_asked_to_go() {
    let house = House::with(alone(memory(1 << 20)), limits(SOON), None);
    let mut silent = house.client();
    // Waits for as long as the server needs to close a stalled client. The read may fail with a reset, because the
    // server leaves received bytes unread.
    let _ = stalled_writer(&house, 1).read_to_end(&mut Vec::new());
    silent.write(0, b"still here");
    let house = House::with(alone(memory(1 << 20)), Limits { idle: Some(SOON), ..limits(HOUR) }, None);
    let closed = house.client().stream.read_to_end(&mut Vec::new());
    assert_eq!(closed.expect("the server closes"), 0);
}

#[test]
fn an_idle_connection_gives_way_to_a_client_that_waits() {
    let idle_when_full = Some(SOON);
    let house =
        House::with(alone(memory(1 << 20)), Limits { connections: 2, idle_when_full, ..limits(HOUR) }, None);
    let mut first = [house.client(), house.client()];
    let mut third = house.client();
    assert_eq!(third.read(0, 1), [0]);
    let left = first.iter_mut().filter_map(|guest| guest.ask(Request::read(0, 1), &[]).ok()).count();
    assert_eq!(left, 1, "one gives way to one");
}

#[test]
fn requests_without_memory_are_served_in_pieces_over_devices_that_answer_later() {
    const LENGTH: u64 = (5 << 20) + 123;
    for later in [false, true] {
        let mut device = memory(1 << 24);
        if later {
            device = Arc::new(Workers::new(device, 2).expect("threads are to be had"));
        }
        let house = House::with(alone(device), Limits { bytes_in_flight: 0, ..Limits::default() }, None);
        let bytes: Vec<u8> = (0..LENGTH).map(|n| (n % 253) as u8).collect();
        for config in [
            ClientConfig::export(""),
            ClientConfig { extended: false, ..ClientConfig::export("") },
            ClientConfig::export("").simple(),
        ] {
            let mut client = Guest::new(house.connect(), config).expect("the server agrees");
            client
                .ask(Request::write(77, LENGTH).with(CommandFlags::FUA), &bytes)
                .expect("it holds")
                .expect("done");
            client.write(0, &[9; 50]);
            assert!(client.read(77, LENGTH) == bytes);
            client.write(77, &vec![0; LENGTH as usize]);
            assert!(client.read(77, LENGTH) == vec![0; LENGTH as usize]);
        }
        let mut client = house.client();
        client.write(77, &bytes);
        let unfragmented = Request::read(77, LENGTH).with(CommandFlags::DF);
        assert!(client.ask(unfragmented, &[]).expect("it holds").expect("it is read") == bytes);
    }
}

#[test]
fn a_piece_that_fails_fails_its_request() {
    let rules = vec![
        "read at=4194304+1 EIO".parse().expect("a rule"),
        "write at=4194304+1 EIO".parse().expect("a rule"),
    ];
    let device = Arc::new(layer::Faults::new(memory(1 << 24), rules, 1));
    let house = House::with(alone(device), Limits { bytes_in_flight: 0, ..Limits::default() }, None);
    let mut client = house.client();
    let refused = client.ask(Request::write(0, 6 << 20), &vec![3; 6 << 20]).expect("the connection holds");
    assert_eq!(refused, Err(ErrorNumber::Io));
    let refused = client.ask(Request::read(0, 6 << 20), &[]).expect("the connection holds");
    assert_eq!(refused, Err(ErrorNumber::Io));
    assert_eq!(client.read(1 << 20, 4), [3; 4]);
    // A simple reply that has begun cannot report an error.
    let mut client = simple(&house);
    assert!(client.ask(Request::read(0, 6 << 20), &[]).is_err());
    let mut client = simple(&house);
    let refused = client.ask(Request::read(4 << 20, 2 << 20), &[]).expect("the connection holds");
    assert_eq!(refused, Err(ErrorNumber::Io));
}
