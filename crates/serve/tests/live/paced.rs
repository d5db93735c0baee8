//! Timed devices: replies at the instants of the model, at the selected speed, and power cuts under load.

use crate::server::{TestServer, alone};
use flashlab_block::{Io, Memory, Pages, Timed, conformance};
use flashlab_nbd::client::Request;
use flashlab_serve::load::{Job, Mix, load};
use flashlab_serve::{Speed, Stop};
use flashlab_sim::{
    Completion, Duration, Fate, Geometry, Instant, Mechanism, Model, Op, PowerCut, Request as ModelRequest,
    Spent, Status,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A device that serves one request at a time. A power cut discards all writes since the last flush.
#[derive(Clone)]
struct SlowModel {
    latency: Duration,
    idle_from: Instant,
    queue: VecDeque<(Instant, Instant, ModelRequest)>,
    volatile: Vec<ModelRequest>,
}

const BYTES: u64 = 8 << 20;

impl SlowModel {
    fn device(latency: Duration) -> Arc<Timed> {
        let slow =
            SlowModel { latency, idle_from: Instant::ZERO, queue: VecDeque::new(), volatile: Vec::new() };
        let store = Memory::new(BYTES, Pages::Small).expect("a size that a device can have");
        Arc::new(Timed::new(Box::new(slow), Box::new(store)))
    }
}

impl Model for SlowModel {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: BYTES, block: 512, request_max: 64 << 10 }
    }
    fn submit(&mut self, now: Instant, request: ModelRequest) {
        self.idle_from = self.idle_from.max(now) + self.latency;
        self.queue.push_back((now, self.idle_from, request));
    }
    fn next_due(&self) -> Option<Instant> {
        self.queue.front().map(|(_, due, _)| *due)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let (arrived, at, request) = self.queue.pop_front_if(|(_, due, _)| *due <= limit)?;
        match request.op {
            Op::Flush => self.volatile.clear(),
            Op::Write => self.volatile.push(request),
            _ => {}
        }
        let mut spent = Spent::default();
        spent[Mechanism::Program] = at.since(arrived);
        Some(Completion { id: request.id, at, status: Status::Ok, spent })
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        self.queue.clear();
        let mut lost: Vec<u64> =
            self.volatile.drain(..).flat_map(|r| (r.offset..r.end()).step_by(512)).collect();
        lost.sort_unstable();
        lost.dedup();
        let mut cut = PowerCut::default();
        lost.into_iter().for_each(|at| cut.push(at..at + 512, Fate::Old));
        cut
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        self.idle_from = now;
        now
    }
}

fn job(depth: u32, connections: u32) -> Job {
    Job {
        mix: Mix { random: true, reads_percent: 40 },
        depth,
        connections,
        verify: true,
        size: Some(BYTES / 4),
        ..Job::default()
    }
}

#[test]
fn a_timed_device_keeps_every_block_at_every_speed() {
    for (speed, latency) in
        [(Speed::REAL, 20), (Speed::Millionths(100_000_000), 1_000), (Speed::Unpaced, 1_000_000)]
    {
        let device = SlowModel::device(Duration::from_us(latency));
        let server = TestServer::with_speed(alone(device.clone()), speed);
        let stop = Stop::new().expect("there are descriptors");
        for (depth, connections) in [(1, 1), (16, 1), (4, 3)] {
            let loaded = load(&server.uri(), &job(depth, connections), &stop);
            let loaded = loaded.unwrap_or_else(|error| panic!("{speed:?}, {depth} x {connections}: {error}"));
            assert!(loaded.verified > 0);
        }
        // The device's own time has passed as its model requires: at least the latency of each request.
        let served = server.counters.read().requests();
        let passed = device.model_when_idle(|| ()).1;
        assert!(passed >= Duration::from_us(latency) * served, "{passed} for {served} requests");
        let late = server.counters.lateness();
        assert_eq!(late.moments().count() > 0, speed != Speed::Unpaced);
    }
}

#[test]
fn a_client_that_disconnects_with_requests_in_flight_does_not_affect_others() {
    let server = TestServer::new(SlowModel::device(Duration::from_ms(1)));
    let mut remaining = server.client();
    for round in 0..20u8 {
        let mut leaving = server.client();
        leaving.send(Request::write(0, 4096), &[round; 4096]);
        drop(leaving);
        remaining.write(8192, &[round; 512]);
        assert_eq!(remaining.read(8192, 512), [round; 512]);
    }
}

#[test]
fn a_flush_covers_writes_answered_on_other_connections_of_a_timed_device() {
    let device = SlowModel::device(Duration::from_us(50));
    let server = TestServer::new(device.clone());
    let (mut one, mut other) = (server.client(), server.client());
    one.write(0, &[7; 4096]);
    other.flush();
    one.write(4096, &[8; 4096]);
    let cut = device.power_cut(Instant::ZERO).expect("memory does not fail");
    assert_eq!(cut.undecided, [(4096..8192, Fate::Old)]);
    assert!(
        other.execute(Request::flush(), &[]).expect("the connection is open").is_err(),
        "a flush succeeds without power"
    );
    device.power_up(Instant::ZERO);
    assert_eq!(other.read(0, 4096), [7; 4096]);
    assert_eq!(other.read(4096, 4096), [0; 4096]);
}

/// Number of power cuts under load. Each waits until one of the writers has flushed since the previous cut.
const CUTS: usize = 600;

/// One writer's block, and the results of its writes.
struct WriterResult {
    at: u64,
    flushed: u64,
    failed: u64,
}

/// Writes and flushes one block, round after round, until `done`. Counts the flushed rounds in `progress`. After an
/// error, the writer reconnects, as after a power loss.
fn write_until(server: &TestServer, at: u64, progress: &AtomicU64, done: &AtomicBool) -> WriterResult {
    let (mut client, mut written, mut round) =
        (server.client(), WriterResult { at, flushed: 0, failed: 0 }, 0u64);
    while !done.load(Ordering::SeqCst) {
        round += 1;
        let mut block = [0; 512];
        block[..8].copy_from_slice(&round.to_le_bytes());
        let mut succeeds =
            |request, bytes: &[u8]| client.execute(request, bytes).expect("the connection is open").is_ok();
        if succeeds(Request::write(at, 512), &block) && succeeds(Request::flush(), &[]) {
            written.flushed = round;
            progress.fetch_add(1, Ordering::SeqCst);
        } else {
            written.failed += 1;
            client = server.client();
        }
    }
    written
}

#[test]
fn flushed_data_survives_power_cuts_under_load() {
    let device = SlowModel::device(Duration::from_us(30));
    let server = TestServer::new(device.clone());
    let (progress, done) = ([const { AtomicU64::new(0) }; 3], AtomicBool::new(false));
    let written: Vec<WriterResult> = std::thread::scope(|scope| {
        let (server, done) = (&server, &done);
        let writers: Vec<_> = (0u64..)
            .zip(&progress)
            .map(|(n, progress)| scope.spawn(move || write_until(server, n << 20, progress, done)))
            .collect();
        for cut in 0..CUTS {
            let writer = cut % progress.len();
            let before = progress[writer].load(Ordering::SeqCst);
            while progress[writer].load(Ordering::SeqCst) == before && !writers[writer].is_finished() {
                std::thread::yield_now();
            }
            device.power_cut(Instant::ZERO).expect("memory does not fail");
            device.power_up(Instant::ZERO);
        }
        done.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().expect("it does not panic")).collect()
    });
    device.power_cut(Instant::ZERO).expect("memory does not fail");
    device.power_up(Instant::ZERO);
    for WriterResult { at, flushed, failed } in written {
        let found = conformance::read(&*device, at, 512)[..8].to_vec();
        let found = u64::from_le_bytes(found.try_into().expect("eight bytes"));
        assert!(found >= flushed, "{found} at {at}, but {flushed} was flushed");
        assert!(flushed > 0 && failed > 0, "{flushed} flushed, {failed} failed: no cut met a request");
    }
    assert!(conformance::execute(&*device, Io::Flush).is_ok());
}

#[test]
fn flushes_fail_on_connections_from_before_a_power_cut() {
    let device = SlowModel::device(Duration::from_us(50));
    let server = TestServer::new(device.clone());
    let (mut before, mut idle) = (server.client(), server.client());
    before.write(0, &[7; 4096]);
    idle.read(0, 512);
    device.power_cut(Instant::ZERO).expect("memory does not fail");
    device.power_up(Instant::ZERO);
    for _ in 0..2 {
        assert!(before.execute(Request::flush(), &[]).expect("the connection is open").is_err());
        assert!(idle.execute(Request::flush(), &[]).expect("the connection is open").is_err());
    }
    assert_eq!(before.read(0, 4096), [0; 4096]);
    server.client().flush();
}
