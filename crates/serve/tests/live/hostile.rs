//! Clients that stall in the middle of a request or send no requests: they do not affect other clients, and the
//! server closes them in the end.

use crate::server::{TestClient, TestServer, alone, memory};
use flashlab_block::{
    Answer, BlockDevice, Context, Features, Geometry, Io, Outcome, Started, Workers, layer,
};
use flashlab_nbd::client::{ClientConfig, Request};
use flashlab_nbd::wire::{CommandFlags, CommandType, ErrorNumber, RequestHeader, RequestLayout};
use flashlab_serve::{LeastRate, Limits};
use flashlab_sim::Duration;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Waker};

/// Larger than a socket's buffers.
const SIZE: u64 = 8 << 20;
const HOUR: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_ms(20);

/// Returns limits with a budget for eight requests of [`SIZE`] bytes, of which one connection may use one.
fn limits(window: Duration) -> Limits {
    let least_rate = LeastRate { window, ..LeastRate::default() };
    Limits { bytes_in_flight: 8 * SIZE, least_rate, ..Limits::default() }
}

fn simple_client(server: &TestServer) -> TestClient<UnixStream> {
    TestClient::new(server.connect(), ClientConfig::export("").simple())
        .expect("the server accepts the client")
}

fn header(command: CommandType) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = RequestHeader { flags: CommandFlags::NONE, command, cookie: 7, offset: 0, length: SIZE };
    header.emit(RequestLayout::Compact, &mut bytes);
    bytes
}

/// Returns a client that announces a write, sends a part of its payload, and stalls.
fn stalled_writer(server: &TestServer, part: usize) -> UnixStream {
    let mut stream = simple_client(server).stream;
    stream.write_all(&header(CommandType::Write)).expect("the server reads");
    // On a busy machine, the server may have closed the connection already.
    let _ = stream.write_all(&vec![1; part]);
    stream
}

/// Returns a client that requests a long read, receives the beginning of the reply, and stalls.
fn stalled_reader(server: &TestServer) -> UnixStream {
    let mut stream = simple_client(server).stream;
    stream.write_all(&header(CommandType::Read)).expect("the server reads");
    stream.read_exact(&mut [0; 16]).expect("the server answers");
    stream
}

#[test]
fn large_requests_complete_while_sixty_four_clients_stall() {
    let server = TestServer::with(alone(memory(1 << 30)), limits(HOUR), None);
    let stalled: Vec<_> = (0..64)
        .map(|n| match n % 4 {
            0 => stalled_writer(&server, 0),
            1 => stalled_reader(&server),
            _ => stalled_writer(&server, SIZE as usize - 1),
        })
        .collect();
    let bytes: Vec<u8> = (0..64 << 20).map(|n: u32| (n % 251) as u8).collect();
    for config in [ClientConfig::export(""), ClientConfig::export("").simple()] {
        let mut client = TestClient::new(server.connect(), config).expect("the server accepts the client");
        client.write(512, &bytes);
        assert!(client.read(512, bytes.len() as u64) == bytes);
    }
    assert_eq!(server.counters.read().connections().min(64), 64, "a connection was closed meanwhile");
    drop(stalled);
    server.wait_until_empty();
}

/// A device whose flushes take turns: each holds the turn until another thread has done its part.
struct Turns {
    inner: Arc<dyn BlockDevice>,
    turn: Arc<Mutex<Turn>>,
}

#[derive(Default)]
struct Turn {
    is_taken: bool,
    waiting: Vec<Waker>,
}

impl BlockDevice for Turns {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        if !matches!(io, Io::Flush) {
            return self.inner.start(cx, io);
        }
        let turn = self.turn.clone();
        let mut flush: Pin<Box<dyn Future<Output = Outcome> + Send>> = Box::pin(async move {
            let lock = || turn.lock().expect("no test panics here");
            poll_fn(|task| {
                let mut turn = lock();
                if turn.is_taken {
                    turn.waiting.push(task.waker().clone());
                    return Poll::Pending;
                }
                turn.is_taken = true;
                Poll::Ready(())
            })
            .await;
            let done = Arc::new(Mutex::new((false, None::<Waker>)));
            let worker = done.clone();
            std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(50));
                let mut done = worker.lock().expect("no test panics here");
                done.0 = true;
                done.1.take().into_iter().for_each(Waker::wake);
            });
            poll_fn(|task| {
                let mut done = done.lock().expect("no test panics here");
                done.1 = Some(task.waker().clone());
                if done.0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            let mut turn = lock();
            turn.is_taken = false;
            turn.waiting.drain(..).for_each(Waker::wake);
            Ok(Answer::Done)
        });
        // Like a volume, the device makes as much progress as it can before it returns a future.
        match flush.as_mut().poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Started::Done(outcome),
            Poll::Pending => Started::Pending(flush),
        }
    }
}

/// A client whose flush has the turn sends its next write slowly, or receives no replies.
#[test]
fn a_client_that_stalls_does_not_keep_the_turn_from_others() {
    for command in [CommandType::Write, CommandType::Read] {
        let device = Turns { inner: memory(1 << 30), turn: Arc::default() };
        let server = TestServer::with(alone(Arc::new(device)), limits(HOUR), None);
        let mut stalled = simple_client(&server).stream;
        let mut bytes = Vec::new();
        let flush = RequestHeader {
            flags: CommandFlags::NONE,
            command: CommandType::Flush,
            cookie: 1,
            offset: 0,
            length: 0,
        };
        flush.emit(RequestLayout::Compact, &mut bytes);
        bytes.extend(header(command));
        if command == CommandType::Write {
            bytes.push(1);
        }
        stalled.write_all(&bytes).expect("the server reads");
        let mut other = server.client();
        // Only a hang takes this long.
        let limit = Some(std::time::Duration::from_secs(60));
        other.stream.set_read_timeout(limit).expect("a socket");
        for _ in 0..3 {
            other.flush();
        }
        drop(stalled);
    }
}

#[test]
fn stalled_clients_are_closed_after_the_window() {
    let server = TestServer::with(alone(memory(1 << 30)), limits(SOON), None);
    let mut exports = alone(memory(1 << 30));
    exports[0].read_only = true;
    let read_only = TestServer::with(exports, limits(SOON), None);
    let stalled = [
        stalled_writer(&server, 0),
        stalled_writer(&server, SIZE as usize - 1),
        stalled_reader(&server),
        // A rejected payload, and a request that has arrived partly.
        stalled_writer(&read_only, 1),
        {
            let mut stream = simple_client(&server).stream;
            stream.write_all(&header(CommandType::Flush)[..9]).expect("the server reads");
            stream
        },
    ];
    server.wait_until_empty();
    read_only.wait_until_empty();
    drop(stalled);
    let mut client = server.client();
    client.write(0, b"goes on");
}

#[test]
fn an_idle_client_stays_connected_unless_an_idle_limit_is_set() {
    let server = TestServer::with(alone(memory(1 << 20)), limits(SOON), None);
    let mut silent = server.client();
    // Waits for as long as the server needs to close a stalled client. The read may fail with a reset, because the
    // server leaves received bytes unread.
    let _ = stalled_writer(&server, 1).read_to_end(&mut Vec::new());
    silent.write(0, b"still here");
    let server = TestServer::with(alone(memory(1 << 20)), Limits { idle: Some(SOON), ..limits(HOUR) }, None);
    let closed = server.client().stream.read_to_end(&mut Vec::new());
    assert_eq!(closed.expect("the server closes"), 0);
}

#[test]
fn an_idle_connection_is_closed_for_a_waiting_client() {
    let idle_when_full = Some(SOON);
    let server = TestServer::with(
        alone(memory(1 << 20)),
        Limits { connections: 2, idle_when_full, ..limits(HOUR) },
        None,
    );
    let mut first = [server.client(), server.client()];
    let mut third = server.client();
    assert_eq!(third.read(0, 1), [0]);
    let left = first.iter_mut().filter_map(|client| client.execute(Request::read(0, 1), &[]).ok()).count();
    assert_eq!(left, 1, "one connection is closed for one client");
}

#[test]
fn requests_without_memory_are_served_in_pieces_on_delayed_devices_too() {
    const LENGTH: u64 = (5 << 20) + 123;
    for delayed in [false, true] {
        let mut device = memory(1 << 24);
        if delayed {
            device = Arc::new(Workers::new(device, 2).expect("the system starts a thread"));
        }
        let server =
            TestServer::with(alone(device), Limits { bytes_in_flight: 0, ..Limits::default() }, None);
        let bytes: Vec<u8> = (0..LENGTH).map(|n| (n % 253) as u8).collect();
        for config in [
            ClientConfig::export(""),
            ClientConfig { extended: false, ..ClientConfig::export("") },
            ClientConfig::export("").simple(),
        ] {
            let mut client =
                TestClient::new(server.connect(), config).expect("the server accepts the client");
            client
                .execute(Request::write(77, LENGTH).with(CommandFlags::FUA), &bytes)
                .expect("the connection is open")
                .expect("the data is written");
            client.write(0, &[9; 50]);
            assert!(client.read(77, LENGTH) == bytes);
            client.write(77, &vec![0; LENGTH as usize]);
            assert!(client.read(77, LENGTH) == vec![0; LENGTH as usize]);
        }
        let mut client = server.client();
        client.write(77, &bytes);
        let unfragmented = Request::read(77, LENGTH).with(CommandFlags::DF);
        let read = client.execute(unfragmented, &[]).expect("the connection is open");
        assert!(read.expect("it can be read") == bytes);
    }
}

#[test]
fn a_failed_piece_fails_its_request() {
    let rules = vec![
        "read at=4194304+1 EIO".parse().expect("a rule"),
        "write at=4194304+1 EIO".parse().expect("a rule"),
    ];
    let device = Arc::new(layer::Faults::new(memory(1 << 24), rules, 1));
    let server = TestServer::with(alone(device), Limits { bytes_in_flight: 0, ..Limits::default() }, None);
    let mut client = server.client();
    let failed =
        client.execute(Request::write(0, 6 << 20), &vec![3; 6 << 20]).expect("the connection is open");
    assert_eq!(failed, Err(ErrorNumber::Io));
    let failed = client.execute(Request::read(0, 6 << 20), &[]).expect("the connection is open");
    assert_eq!(failed, Err(ErrorNumber::Io));
    assert_eq!(client.read(1 << 20, 4), [3; 4]);
    // A simple reply that has begun cannot report an error.
    let mut client = simple_client(&server);
    assert!(client.execute(Request::read(0, 6 << 20), &[]).is_err());
    let mut client = simple_client(&server);
    let failed = client.execute(Request::read(4 << 20, 2 << 20), &[]).expect("the connection is open");
    assert_eq!(failed, Err(ErrorNumber::Io));
}
