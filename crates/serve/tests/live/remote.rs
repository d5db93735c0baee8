//! [`Remote`]: blocking calls of many threads over one connection. [`RemoteDevice`]: the same export as a device.

use crate::answers::DelayedDevice;
use crate::server::{TestServer, alone, memory};
use flashlab_block::conformance::{agrees_with_an_array, execute, read, rejects_requests_beyond_the_end};
use flashlab_block::{Answer, BlockDevice, Context, Features, Geometry, Io, IoError, Started};
use flashlab_serve::{Limits, Remote, RemoteDevice};
use flashlab_sim::Rng;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

const BLOCK: usize = 4096;

/// Writes and reads blocks of the thread's own area, and checks every block against the last write.
fn exercise(remote: &Remote, thread: u64, blocks: u64, requests: u32) {
    let mut rng = Rng::new(thread);
    let mut contents = vec![0_u8; blocks as usize];
    for _ in 0..requests {
        let block = rng.below(blocks);
        let offset = (thread * blocks + block) * BLOCK as u64;
        if rng.below(2) == 0 {
            let byte = rng.below(255) as u8 + 1;
            remote.write(offset, &[byte; BLOCK]).expect("it writes");
            contents[block as usize] = byte;
        } else {
            let mut read = [0xff; BLOCK];
            remote.read(offset, &mut read).expect("it reads");
            assert_eq!(read, [contents[block as usize]; BLOCK], "thread {thread}, block {block}");
        }
    }
}

#[test]
fn threads_that_share_a_connection_get_their_own_replies_in_any_order() {
    for seed in 0..3 {
        let server = TestServer::new(Arc::new(DelayedDevice::new(4 << 20, seed)));
        let remote = Remote::open(&server.uri()).expect("the server serves");
        std::thread::scope(|scope| {
            let remote = &remote;
            for thread in 0..8 {
                scope.spawn(move || exercise(remote, thread, 16, 400));
            }
        });
        assert_eq!(server.counters.read().connections(), 1, "one connection serves all threads");
    }
}

#[test]
fn requests_larger_than_the_buffers_of_the_sockets_pass_in_both_directions() {
    let server = TestServer::new(memory(64 << 20));
    let remote = Remote::open(&server.uri()).expect("the server serves");
    std::thread::scope(|scope| {
        let remote = &remote;
        for thread in 0..4_u64 {
            scope.spawn(move || {
                let data: Vec<u8> =
                    (0..8_u32 << 20).map(|n| (n as u64 * (2 * thread + 1) % 251) as u8).collect();
                let mut read = vec![0; data.len()];
                for _ in 0..3 {
                    remote.write(thread * (16 << 20), &data).expect("it writes");
                    remote.read(thread * (16 << 20), &mut read).expect("it reads");
                    assert!(read == data, "thread {thread}");
                }
            });
        }
    });
}

#[test]
fn a_discarded_range_reads_as_zeroes_and_flushes_succeed() {
    let server = TestServer::new(memory(1 << 20));
    let remote = Remote::open(&server.uri()).expect("the server serves");
    assert_eq!(remote.export().size, 1 << 20);
    let mut read = [1; BLOCK];
    remote.write(8192, &[7; BLOCK]).expect("it writes");
    remote.flush().expect("it flushes");
    remote.discard(8192, BLOCK as u64).expect("it discards");
    remote.read(8192, &mut read).expect("it reads");
    assert_eq!(read, [0; BLOCK]);
}

#[test]
fn refused_requests_are_errors_and_the_connection_stays() {
    let mut exports = alone(memory(1 << 20));
    exports[0].read_only = true;
    let server = TestServer::with(exports, Limits::default(), None);
    let remote = Remote::open(&server.uri()).expect("the server serves");
    let kind = |result: std::io::Result<()>| result.expect_err("it is refused").kind();
    assert_eq!(kind(remote.write(0, &[1; BLOCK])), ErrorKind::Unsupported);
    assert_eq!(kind(remote.discard(0, BLOCK as u64)), ErrorKind::Unsupported);
    assert_eq!(kind(remote.read(1 << 20, &mut [0; BLOCK])), ErrorKind::UnexpectedEof);
    assert_eq!(kind(remote.read(0, &mut [])), ErrorKind::InvalidInput);
    remote.read(0, &mut [0; BLOCK]).expect("the connection stays");
}

#[test]
fn a_server_that_goes_away_fails_every_request_of_every_thread() {
    let mut server = TestServer::new(Arc::new(DelayedDevice::new(4 << 20, 1)));
    let remote = Remote::open(&server.uri()).expect("the server serves");
    std::thread::scope(|scope| {
        let remote = &remote;
        let workers: Vec<_> = (0..4_u64)
            .map(|thread| {
                scope.spawn(move || {
                    loop {
                        if let Err(error) = remote.write(thread * BLOCK as u64, &[1; BLOCK]) {
                            return error;
                        }
                    }
                })
            })
            .collect();
        server.shut_down();
        for worker in workers {
            let error = worker.join().expect("no panic");
            // The server answers ESHUTDOWN while it drains its requests, and then closes the connection.
            let is_end = error.kind() == ErrorKind::ConnectionAborted || error.raw_os_error() == Some(108);
            assert!(is_end, "{error:?}");
        }
    });
    let error = loop {
        match remote.read(0, &mut [0; BLOCK]) {
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => break error,
            other => drop(other),
        }
    };
    assert!(error.to_string().contains("closed the connection"), "{error}");
}

#[test]
fn a_remote_device_passes_the_tests_of_every_device() {
    let server = TestServer::new(memory(8 << 20));
    let device = RemoteDevice::open(&server.uri(), false).expect("the server serves");
    agrees_with_an_array(&*device, 1, 2000);
    rejects_requests_beyond_the_end(&*device);
    let features = device.features();
    assert!(features.discard && features.write_zeroes && !features.read_only && !features.extents);
}

/// A device in memory that records the requests that make data durable.
struct Recorded {
    memory: Arc<dyn BlockDevice>,
    durable: Mutex<Vec<&'static str>>,
    read_only: bool,
}

impl BlockDevice for Recorded {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }
    fn features(&self) -> Features {
        Features { read_only: self.read_only, ..self.memory.features() }
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let recorded = match &io {
            Io::Write { durable: true, .. } => Some("write"),
            Io::WriteZeroes { durable: true, .. } => Some("zeroes"),
            Io::Discard { durable: true, .. } => Some("discard"),
            Io::Flush => Some("flush"),
            _ => None,
        };
        self.durable.lock().expect("no panic").extend(recorded);
        self.memory.start(cx, io)
    }
}

#[test]
fn durable_requests_and_errors_reach_a_remote_device_and_its_client() {
    let inner = Arc::new(Recorded { memory: memory(1 << 20), durable: Mutex::default(), read_only: false });
    let server = TestServer::new(inner.clone());
    let device = RemoteDevice::open(&server.uri(), false).expect("the server serves");
    let (offset, length, durable) = (0, 4096, true);
    for io in [
        Io::Write { offset, data: vec![1; 4096].into(), durable },
        Io::WriteZeroes { offset, length, durable, allocate: true, fast: false },
        Io::Discard { offset, length, durable },
        Io::Flush,
        Io::Write { offset, data: vec![2; 4096].into(), durable: false },
    ] {
        assert!(matches!(execute(&*device, io), Ok(Answer::Done)));
    }
    assert_eq!(*inner.durable.lock().expect("no panic"), ["write", "zeroes", "discard", "flush"]);
    assert_eq!(read(&*device, 0, 4096), [2; 4096]);

    let read_only = RemoteDevice::open(&server.uri(), true).expect("the server serves");
    assert!(read_only.features().read_only);
    let write = || Io::Write { offset, data: vec![3; 4096].into(), durable: false };
    assert_eq!(execute(&*read_only, write()).expect_err("it is read-only"), IoError::ReadOnly);
    let refusing = Recorded { memory: memory(1 << 20), durable: Mutex::default(), read_only: true };
    let server = TestServer::new(Arc::new(refusing));
    let device = RemoteDevice::open(&server.uri(), false).expect("the server serves");
    assert!(device.features().read_only, "the flags of the export say so");
    assert_eq!(execute(&*device, write()).expect_err("it is read-only"), IoError::ReadOnly);
}

#[test]
fn a_remote_device_whose_server_goes_away_fails_all_requests() {
    let mut server = TestServer::new(memory(1 << 20));
    let device = RemoteDevice::open(&server.uri(), false).expect("the server serves");
    assert_eq!(read(&*device, 0, 4096), [0; 4096]);
    server.shut_down();
    for _ in 0..3 {
        let failed = execute(&*device, Io::Read { offset: 0, buffer: vec![0; 4096] });
        assert!(matches!(failed, Err(IoError::Medium | IoError::ShuttingDown)), "{failed:?}");
        assert!(execute(&*device, Io::Flush).is_err());
    }
}
