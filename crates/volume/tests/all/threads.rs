//! A request that waits for its codec or for a member delays no other request of its thread.
//!
//! The tests poll all requests in one thread, as the connection of a server does. Codecs and members wait behind gates, so
//! no test depends on a time.

use crate::pool::{encryption, open_options, run, unlocking};
use flashlab_block::conformance::{agrees_with_an_array, execute, read};
use flashlab_block::{
    Answer, BlockDevice, Context, Features, Geometry, Io, Job, Memory, Outcome, Pages, Promise, Started,
    ThreadPool,
};
use flashlab_sim::{Instant, Rng};
use flashlab_volume::encode::Compressor;
use flashlab_volume::keys::Cipher;
use flashlab_volume::{NewMember, Options, Threads, Volume};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Waker;

const MIB: usize = 1 << 20;

/// Threads that keep their jobs until the test lets them go on.
#[derive(Default)]
struct Gate(Mutex<Vec<Job>>);

impl Threads for Gate {
    fn run(&self, job: Job) {
        self.0.lock().expect("no test panics with the lock").push(job);
    }
}

impl Gate {
    fn jobs(&self) -> usize {
        self.0.lock().expect("no test panics with the lock").len()
    }

    /// Runs the jobs, the newest ones first.
    fn open(&self) {
        let jobs = std::mem::take(&mut *self.0.lock().expect("no test panics with the lock"));
        jobs.into_iter().rev().for_each(|job| job());
    }
}

/// A request in flight.
pub(crate) struct Polled(Option<Pin<Box<dyn Future<Output = Outcome> + Send>>>, Option<Outcome>);

impl Polled {
    pub(crate) fn start(volume: &Volume, io: Io) -> Polled {
        match volume.start(&Context::new(Instant::ZERO), io) {
            Started::Done(outcome) => Polled(None, Some(outcome)),
            Started::Pending(future) => Polled(Some(future), None),
        }
    }

    /// Polls the request once, and returns true if it is complete.
    fn poll(&mut self) -> bool {
        if let Some(future) = &mut self.0
            && let std::task::Poll::Ready(outcome) =
                future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()))
        {
            *self = Polled(None, Some(outcome));
        }
        self.1.is_some()
    }

    pub(crate) fn answer(mut self) -> Answer {
        assert!(self.poll(), "the request waits");
        self.1.expect("polled").expect("members that work")
    }
}

fn memory(bytes: u64) -> Arc<dyn BlockDevice> {
    Arc::new(Memory::new(bytes, Pages::Small).expect("memory"))
}

fn volume(devices: &[Arc<dyn BlockDevice>], options: Options) -> Volume {
    let members: Vec<NewMember> = devices.iter().cloned().map(NewMember::new).collect();
    let (devices, is_encrypted) = (devices.to_vec(), options.encryption.is_some());
    run(|cx| async move {
        Volume::format(&cx, &members, &options).await.expect("devices of the right size");
        let options = if is_encrypted { unlocking() } else { open_options() };
        Volume::open(&cx, &devices, options).await.expect("a new volume")
    })
}

fn codecs() -> [Options; 4] {
    let options = Options::new([3; 16]);
    [
        Options { compression: Compressor::Lz4, ..options.clone() },
        Options { compression: Compressor::Zstd(1), ..options.clone() },
        Options { encryption: Some(encryption(Cipher::ChaCha20Poly1305)), ..options.clone() },
        Options { compression: Compressor::Lz4, encryption: Some(encryption(Cipher::Aes256Gcm)), ..options },
    ]
}

/// Returns bytes that LZ4 and Zstandard shrink to some extent.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length / 16).flat_map(|_| [rng.next_u64().to_le_bytes(), [7; 8]].concat()).collect()
}

fn write(offset: usize, data: &[u8]) -> Io {
    Io::Write { offset: offset as u64, data: data.to_vec().into(), durable: false }
}

fn read_of(offset: usize, length: usize) -> Io {
    Io::Read { offset: offset as u64, buffer: vec![0; length] }
}

/// Starts requests of each kind outside the second and third MiB, and checks that they complete at the first
/// poll.
fn others_complete(volume: &Volume, round: u64) {
    let data = bytes(round, 4096);
    let durable = Io::Write { offset: 12288, data: data.clone().into(), durable: true };
    let zeroes =
        Io::WriteZeroes { offset: 65536, length: 8192, durable: false, allocate: false, fast: false };
    for io in [
        write(8192, &data),
        durable,
        Io::Flush,
        Io::Discard { offset: 16384, length: 4096, durable: false },
        zeroes,
        Io::Extents { offset: 0, length: MIB as u64 },
    ] {
        let what = format!("round {round}: {io:?}").split(',').next().map(str::to_owned);
        assert!(Polled::start(volume, io).poll(), "{what:?} waits for the codec of another request");
    }
    let Answer::Read(read) = Polled::start(volume, read_of(8192, 4096)).answer() else { panic!("a read") };
    assert!(read == data);
}

#[test]
fn requests_complete_while_the_codec_of_another_one_is_busy() {
    for options in codecs() {
        let volume = volume(&[memory(32 << 20)], options);
        let gate = Arc::new(Gate::default());
        volume.compute_on(gate.clone());
        let data = bytes(1, MIB);
        let mut writing = Polled::start(&volume, write(MIB, &data));
        let mut rounds = 0;
        while !writing.poll() {
            assert!(gate.jobs() > 1, "a large request is divided into jobs");
            others_complete(&volume, rounds);
            assert!(!writing.poll(), "its codec has not run");
            rounds += 1;
            gate.open();
        }
        assert!(rounds > 0, "the codec ran in the thread of the request");
        let mut reading = Polled::start(&volume, read_of(MIB, MIB));
        while !reading.poll() {
            others_complete(&volume, 100 + rounds);
            rounds += 1;
            gate.open();
        }
        assert!(rounds > 1, "the codec ran in the thread of the request");
        let Answer::Read(read) = reading.answer() else { panic!("a read") };
        assert!(read == data);
        // A checkpoint encodes the whole map.
        let closing = volume.clone();
        let mut closing = Box::pin(async move { closing.close(&Context::new(Instant::ZERO)).await });
        let mut poll = || closing.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
        while poll().is_pending() {
            let small = Polled::start(&volume, read_of(8192, 4096)).answer();
            assert!(matches!(small, Answer::Read(_)), "a checkpoint delays a read");
            assert!(gate.jobs() > 0, "the checkpoint waits for its encoding");
            gate.open();
        }
    }
}

#[test]
fn overwrites_during_a_codec_end_in_the_order_of_their_answers() {
    for options in codecs() {
        let volume = volume(&[memory(32 << 20)], options);
        let gate = Arc::new(Gate::default());
        volume.compute_on(gate.clone());
        let [first, second] = [1, 2].map(|seed| bytes(seed, MIB));
        let mut early = Polled::start(&volume, write(0, &first));
        assert!(!early.poll());
        let mut late = Polled::start(&volume, write(MIB / 2, &second));
        while !late.poll() {
            gate.open();
        }
        while !early.poll() {
            gate.open();
        }
        let mut reading = Polled::start(&volume, read_of(0, 3 * MIB / 2));
        while !reading.poll() {
            gate.open();
        }
        let Answer::Read(read) = reading.answer() else { panic!("a read") };
        // The write that began first was answered last.
        assert!(read == [&first[..], &second[MIB / 2..]].concat());
    }
}

#[test]
fn a_volume_with_threads_reads_like_a_plain_array() {
    for (seed, options) in codecs().into_iter().enumerate() {
        let volume = volume(&[memory(32 << 20)], Options { size: 4 << 20, ..options });
        volume.compute_on(Arc::new(ThreadPool::new("test", 2).expect("the system starts threads")));
        agrees_with_an_array(&volume, seed as u64, 60);
        let data = bytes(9, 4 * MIB);
        let done = execute(&volume, write(0, &data));
        assert!(done.is_ok(), "{done:?}");
        assert!(read(&volume, 0, data.len()) == data);
        let report = run(|cx| async move { volume.check(&cx).await });
        assert_eq!(report.findings, [""; 0]);
    }
}

/// A member whose requests wait while it is shut.
struct Door {
    inner: Arc<dyn BlockDevice>,
    waiting: Mutex<Option<Vec<(Io, Promise)>>>,
}

impl Door {
    fn shut(&self) {
        *self.waiting.lock().expect("no test panics with the lock") = Some(Vec::new());
    }

    /// Executes the requests that wait.
    fn open(&self) {
        let waiting = self.waiting.lock().expect("no test panics with the lock").take();
        for (io, promise) in waiting.into_iter().flatten() {
            promise.resolve(execute(&*self.inner, io));
        }
    }
}

impl BlockDevice for Door {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        match &mut *self.waiting.lock().expect("no test panics with the lock") {
            None => self.inner.start(cx, io),
            Some(waiting) => {
                let promise = Promise::default();
                waiting.push((io, promise.clone()));
                Started::Pending(Box::pin(promise))
            }
        }
    }
}

#[test]
fn requests_to_other_members_complete_while_a_member_is_slow() {
    let door = Arc::new(Door { inner: memory(32 << 20), waiting: Mutex::default() });
    let options = Options::new([3; 16]);
    let volume = volume(&[memory(32 << 20), door.clone()], options);
    let data = bytes(5, 8 * MIB);
    for n in 0..8 {
        Polled::start(&volume, write(n * MIB, &data[n * MIB..][..MIB])).answer();
    }
    Polled::start(&volume, Io::Flush).answer();
    door.shut();
    let mut reads: Vec<(usize, Polled)> = (0..128)
        .map(|n| n * (64 << 10))
        .map(|offset| (offset, Polled::start(&volume, read_of(offset, 64 << 10))))
        .collect();
    let complete = reads.iter_mut().filter_map(|(_, read)| read.poll().then_some(())).count();
    assert!(
        (32..=96).contains(&complete),
        "{complete} of 128 reads complete; each member has about half of the data"
    );
    let mut writes: Vec<Polled> =
        (128..160).map(|n| Polled::start(&volume, write(n * (64 << 10), &data[..64 << 10]))).collect();
    let written = writes.iter_mut().filter_map(|write| write.poll().then_some(())).count();
    assert!((1..32).contains(&written), "{written} of 32 writes complete");
    let mut flush = Polled::start(&volume, Io::Flush);
    assert!(flush.poll(), "a flush waits for a member without data that it covers");
    assert!(reads.iter_mut().filter_map(|(_, read)| read.poll().then_some(())).count() == complete);
    door.open();
    for (offset, read) in reads {
        let Answer::Read(read) = read.answer() else { panic!("a read") };
        assert!(read == data[offset..][..64 << 10]);
    }
    writes.into_iter().for_each(|write| drop(write.answer()));
}
