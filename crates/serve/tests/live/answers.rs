//! Devices that complete requests later, on their own threads and in any order; devices with a volatile write cache.

use crate::server::{TestServer, memory};
use flashlab_block::{
    Answer, BlockDevice, Context, Features, Geometry, Io, IoError, Memory, Outcome, Pages, Started,
};
use flashlab_nbd::client::Request;
use flashlab_nbd::wire::CommandFlags;
use flashlab_serve::Stop;
use flashlab_serve::load::{Job, Mix, load};
use flashlab_sim::Rng;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Poll, Waker};

/// A device that completes requests later, in a random order.
pub(crate) struct DelayedDevice {
    inner: Memory,
    queue: Arc<(Mutex<Queue>, Condvar)>,
}

struct Queue {
    waiting: Vec<Arc<Mutex<Slot>>>,
    rng: Rng,
    closed: bool,
}

#[derive(Default)]
struct Slot {
    outcome: Option<Outcome>,
    completed: bool,
    waker: Option<Waker>,
}

impl DelayedDevice {
    pub(crate) fn new(size: u64, seed: u64) -> DelayedDevice {
        let queue = Queue { waiting: Vec::new(), rng: Rng::new(seed), closed: false };
        let queue = Arc::new((Mutex::new(queue), Condvar::new()));
        let worker_queue = queue.clone();
        std::thread::spawn(move || {
            let (lock, changed) = &*worker_queue;
            loop {
                let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
                let mut queue = changed
                    .wait_while(lock.lock().expect("no thread panics"), idle)
                    .expect("no thread panics");
                if queue.waiting.is_empty() {
                    return;
                }
                let waiting = queue.waiting.len() as u64;
                let index = queue.rng.below(waiting) as usize;
                let slot = queue.waiting.swap_remove(index);
                drop(queue);
                let mut slot = slot.lock().expect("no thread panics");
                slot.completed = true;
                slot.waker.take().into_iter().for_each(Waker::wake);
            }
        });
        DelayedDevice {
            inner: Memory::new(size, Pages::Small).expect("a size that a device can have"),
            queue,
        }
    }
}

impl Drop for DelayedDevice {
    fn drop(&mut self) {
        self.queue.0.lock().expect("no thread panics").closed = true;
        self.queue.1.notify_all();
    }
}

impl BlockDevice for DelayedDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let Started::Done(outcome) = self.inner.start(cx, io) else { unreachable!("memory answers at once") };
        let slot = Arc::new(Mutex::new(Slot { outcome: Some(outcome), ..Slot::default() }));
        self.queue.0.lock().expect("no thread panics").waiting.push(slot.clone());
        self.queue.1.notify_all();
        Started::Pending(outcome_of(slot))
    }
}

/// Returns a future of a slot's outcome.
fn outcome_of(slot: Arc<Mutex<Slot>>) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    Box::pin(poll_fn(move |cx| {
        let mut slot = slot.lock().expect("no thread panics");
        if slot.completed {
            return Poll::Ready(slot.outcome.take().expect("it is taken once"));
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }))
}

#[test]
fn a_device_that_completes_in_random_order_keeps_every_block() {
    for seed in 0..3 {
        let server = TestServer::new(Arc::new(DelayedDevice::new(8 << 20, seed)));
        let job = Job {
            mix: Mix { random: true, reads_percent: 40 },
            depth: 32,
            connections: 2,
            verify: true,
            seed,
            ..Job::default()
        };
        let stop = Stop::new().expect("there are descriptors");
        let loaded = load(&server.uri(), &job, &stop).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(loaded.verified > 0);
    }
}

#[test]
fn large_sparse_reads_are_complete_on_immediate_and_delayed_devices() {
    let delayed: Arc<dyn BlockDevice> = Arc::new(DelayedDevice::new(8 << 20, 1));
    for device in [memory(8 << 20), delayed] {
        let server = TestServer::new(device);
        let mut client = server.client();
        let mut expected = vec![0; 1 << 20];
        for at in [0, 70_000, 300_000, (1 << 20) - 5] {
            expected[at..at + 5].copy_from_slice(b"bytes");
            client.write(at as u64, b"bytes");
        }
        assert!(client.read(0, 1 << 20) == expected);
        assert!(client.read(1 << 20, 1 << 20) == vec![0; 1 << 20]);
        // In one piece, with holes sent as zeroes.
        let whole = Request::read(0, 1 << 20).with(CommandFlags::DF);
        assert!(
            client.execute(whole, &[]).expect("the connection is open").expect("it can be read") == expected
        );
    }
}

/// A device that completes its reads and discards at the next flush, on the thread that flushes.
#[derive(Default)]
struct CompletesAtFlush(Mutex<Vec<Arc<Mutex<Slot>>>>);

impl BlockDevice for CompletesAtFlush {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: 1 << 30, block: 1, request_max: 1 << 20 }
    }
    fn features(&self) -> Features {
        Features { discard: true, ..VolatileCache::default().features() }
    }
    fn start(&self, _: &Context, io: Io) -> Started {
        let mut pending = self.0.lock().expect("no thread panics");
        let mut delay = |answer| {
            let slot = Slot { outcome: Some(Ok(answer)), ..Slot::default() };
            let slot = Arc::new(Mutex::new(slot));
            pending.push(slot.clone());
            Started::Pending(outcome_of(slot))
        };
        match io {
            Io::Read { buffer, .. } => delay(Answer::Read(buffer)),
            Io::Discard { .. } => delay(Answer::Done),
            Io::Flush => {
                for slot in pending.drain(..) {
                    let mut slot = slot.lock().expect("no thread panics");
                    slot.completed = true;
                    slot.waker.take().into_iter().for_each(Waker::wake);
                }
                Started::Done(Ok(Answer::Done))
            }
            _ => Started::Done(Err(IoError::Unsupported)),
        }
    }
}

#[test]
fn requests_completed_by_the_connection_thread_are_answered_before_a_disconnect() {
    let device = Arc::new(CompletesAtFlush::default());
    let server = TestServer::new(device.clone());
    let mut client = server.client();
    client.send(Request::read(0, 512), &[]);
    let has_waker = |slot: &Arc<Mutex<Slot>>| slot.lock().expect("no thread panics").waker.is_some();
    while !device.0.lock().expect("no thread panics").iter().any(has_waker) {
        std::thread::yield_now();
    }
    assert_eq!(client.execute_last(Request::flush()).expect("both are answered"), 2);
}

#[test]
fn a_long_discard_does_not_delay_later_requests() {
    let server = TestServer::new(Arc::new(CompletesAtFlush::default()));
    let mut client = server.client();
    client.send(Request::trim(0, 1 << 30), &[]);
    assert_eq!(client.execute_last(Request::flush()).expect("both are answered"), 2);
}

/// A device that reports extents only for the first half of a range.
struct PartialExtents(Memory);

impl BlockDevice for PartialExtents {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn features(&self) -> Features {
        self.0.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        match io {
            Io::Extents { offset, length } => self.0.start(cx, Io::Extents { offset, length: length / 2 }),
            io => self.0.start(cx, io),
        }
    }
}

#[test]
fn ranges_without_extents_are_read() {
    let memory = Memory::new(1 << 20, Pages::Small).expect("a size that a device can have");
    let server = TestServer::new(Arc::new(PartialExtents(memory)));
    let mut client = server.client();
    client.write(1_000_000, b"here");
    let found = client.read(0, 1 << 20);
    assert_eq!((&found[1_000_000..1_000_004], &found[..4]), (&b"here"[..], &[0; 4][..]));
}

/// A device with a volatile write cache, whose contents a power cut discards.
#[derive(Default)]
struct VolatileCache(Mutex<(BTreeMap<u64, u8>, BTreeMap<u64, u8>)>);

impl BlockDevice for VolatileCache {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: 1 << 20, block: 1, request_max: 1 << 20 }
    }
    fn features(&self) -> Features {
        Features {
            read_only: false,
            discard: false,
            write_zeroes: false,
            extents: false,
            cache: false,
            rotational: false,
            timed: false,
        }
    }
    fn start(&self, _: &Context, io: Io) -> Started {
        let mut state = self.0.lock().expect("no thread panics");
        let (cache, medium) = &mut *state;
        let done = match io {
            Io::Write { offset, data, durable } => {
                let to = if durable { medium } else { cache };
                to.extend((offset..).zip(data.iter().copied()));
                Answer::Done
            }
            Io::Flush => {
                medium.append(cache);
                Answer::Done
            }
            _ => return Started::Done(Err(IoError::Unsupported)),
        };
        Started::Done(Ok(done))
    }
}

#[test]
fn a_flush_covers_writes_answered_on_other_connections() {
    let device = Arc::new(VolatileCache::default());
    let server = TestServer::new(device.clone());
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    let durable = || device.0.lock().expect("no thread panics").1.clone();
    for round in 0..50u64 {
        let (writer, flusher) = ((round % 4) as usize, (round * 7 % 4 + 1) as usize % 4);
        clients[writer].write(round, &[1]);
        assert!(!durable().contains_key(&round));
        clients[flusher].flush();
        assert!(durable().contains_key(&round), "round {round}: {writer} wrote, {flusher} flushed");
    }
}

#[test]
fn a_write_with_fua_is_durable_when_it_is_answered() {
    let device = Arc::new(VolatileCache::default());
    let server = TestServer::new(device.clone());
    let write = Request::write(5, 1).with(CommandFlags::FUA);
    assert!(server.client().execute(write, &[1]).expect("the connection is open").is_ok());
    assert!(device.0.lock().expect("no thread panics").1.contains_key(&5));
}

#[test]
fn a_device_error_is_reported_and_the_session_continues() {
    let server = TestServer::new(Arc::new(VolatileCache::default()));
    let mut client = server.client();
    let failed = client.execute(Request::read(0, 512), &[]).expect("the connection is open");
    assert_eq!(failed, Err(flashlab_nbd::wire::ErrorNumber::NotSupported));
    client.flush();
}
