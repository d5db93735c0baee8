//! State files of used devices: a restored device continues where the saved one stopped, and invalid files are rejected
//! with an explanation.

use flashlab_catalogue::device::{Device, State, StateError};
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Job;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::Bench;
use insta::assert_snapshot;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::LazyLock;

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../catalogue/tests/profiles/library");
    Library::open(&[folder]).unwrap_or_else(|e| panic!("{e}"))
});

const CARD: &str = "test/one:capacity=64MiB,cycles=50";
const SSD: &str = "drive/ssd:cycles=50,hmb=256K";

fn open(argument: &str) -> Device {
    Device::open(argument, &LIBRARY).unwrap_or_else(|e| panic!("{e}"))
}
fn jobs(line: &str) -> Vec<Job> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Invocation::parse(&words, &NoFiles).unwrap_or_else(|e| panic!("{e}")).jobs
}
fn run(bench: &mut Bench, line: &str) -> String {
    let jobs = jobs(line);
    let statistics = bench.run(&jobs, &Settings::default()).unwrap_or_else(|e| panic!("{e}"));
    let stats = statistics.job(0);
    let one = |d: &flashlab_fio::stats::DirectionStats| {
        format!("{} {} {}", d.total_ios(), d.clat.sum_ns(), d.runtime_ms)
    };
    stats.directions.iter().map(one).collect::<Vec<_>>().join(", ")
}
fn keep(device: &Device, seed: u64, bench: &Bench) -> State {
    State::save(device, seed, bench.used(), bench.device()).unwrap_or_else(|e| panic!("{e}"))
}
/// A temporary file. Dropping it deletes the file.
struct Kept(PathBuf);
impl Kept {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, bytes).unwrap();
        Kept(path)
    }
}
impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const AGE: &str = "--name=age --filename=x --rw=randwrite --bs=4k --size=32M --io_size=64M --direct=1 --ioengine=libaio --iodepth=4";
const THEN: [&str; 2] = [
    "--name=write --filename=x --rw=randwrite --bs=16k --size=40M --number_ios=500 --direct=1",
    "--name=read --filename=x --rw=randread --bs=4k --size=48M --number_ios=500 --direct=1 --ioengine=libaio --iodepth=8",
];

#[test]
fn a_restored_device_continues_like_the_saved_one_after_an_idle_time() {
    for (name, argument) in [("card", CARD), ("ssd", SSD)] {
        let device = open(argument);
        let mut aged = Bench::with(&device, 3);
        run(&mut aged, AGE);
        let kept = keep(&device, 3, &aged);
        let file = Kept::new(&format!("goes-on-{name}"), &kept.to_bytes());
        let again = open(&format!("{argument},state={}", file.0.display()));
        // The seed has no effect because the state includes the medium.
        let mut resumed = Bench::with(&again, 99);
        assert_eq!((resumed.used(), resumed.wear()), (aged.used(), aged.wear()), "{argument}");

        let mut rested = device.build(3);
        rested.restore(&aged.device().save().unwrap()).unwrap();
        let mut rested = Bench::new(rested);
        let mut fresh = Bench::with(&device, 3);
        for line in THEN {
            let result = run(&mut resumed, line);
            assert_eq!(result, run(&mut rested, line), "{argument}: {line}");
            assert_ne!(result, run(&mut fresh, line), "{argument}: {line}: a fresh device differs");
        }
        assert_eq!(resumed.wear(), rested.wear(), "{argument}");
        // Saving the restored device again gives the same state.
        assert_eq!(keep(&again, 99, &resumed).checksum(), keep(&device, 3, &rested).checksum(), "{argument}");
    }
}

#[test]
fn a_saved_state_reads_back() {
    let device = open(SSD);
    let mut bench = Bench::with(&device, 7);
    run(&mut bench, AGE);
    let state = keep(&device, 7, &bench);
    let read = State::parse("", &state.to_bytes()).unwrap();
    assert_eq!(read, state);
    assert_eq!((read.seed, read.used, read.device.as_str()), (7, bench.used(), SSD));
    read.check_compatible(&device).unwrap();
}

fn small() -> (Device, Vec<u8>) {
    let device = open("test/one:capacity=4MiB");
    let bench = Bench::with(&device, 1);
    let bytes = keep(&device, 1, &bench).to_bytes();
    (device, bytes)
}

#[test]
fn a_file_that_was_cut_or_damaged_anywhere_is_refused() {
    let (_, bytes) = small();
    for length in (0..bytes.len()).step_by(7).chain(bytes.len() - 40..bytes.len()) {
        let error = State::parse("f", &bytes[..length]).expect_err("it was cut");
        assert!(matches!(error, StateError::Wrong { .. }), "{length} of {} bytes: {error}", bytes.len());
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(State::parse("f", &damaged).is_err(), "byte {at}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(State::parse("f", &longer).is_err());
}

#[test]
fn invalid_state_files_are_reported() {
    let (_, bytes) = small();
    let kept = |name: &str, bytes: &[u8]| Kept::new(name, bytes);
    let say = |argument: &str, file: &Kept| {
        let path = file.0.display().to_string();
        let error = Device::open(&format!("{argument}state={path}"), &LIBRARY).unwrap_err().to_string();
        error.replace(&path, "FILE")
    };
    let right = kept("wrong-right", &bytes);
    let mut other_form = bytes.clone();
    other_form[8] += 1;
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let missing = Kept(PathBuf::from("/nowhere/x"));
    let profile = include_bytes!("../../../catalogue/tests/profiles/right.toml");
    assert_snapshot!(
        [
            say("test/one:", &right),
            say("test/two:capacity=4MiB,open_units=3,map_cache=none,", &right),
            say("drive/ssd:", &right),
            say("test/one:capacity=4MiB,", &kept("wrong-form", &other_form)),
            say("test/one:capacity=4MiB,", &kept("wrong-bits", &damaged)),
            say("test/one:capacity=4MiB,", &kept("wrong-cut", &bytes[..30])),
            say("test/one:capacity=4MiB,", &kept("wrong-toml", profile)),
            say("test/one:capacity=4MiB,", &kept("wrong-empty", b"")),
            say("test/one:capacity=4MiB,", &missing),
            say("test/one:state=x,", &right),
        ]
        .join("\n\n")
    );
    // The state of a card does not depend on its host.
    let argument = format!("test/one:capacity=4MiB,host=slow-board,state={}", right.0.display());
    assert_eq!(open(&argument).host_name, "slow-board");
}

/// Returns the bytes with a valid checksum.
fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    let content = bytes.len().saturating_sub(32);
    let checksum = Sha256::digest(&bytes[..content]);
    bytes.truncate(content);
    bytes.extend(checksum);
    bytes
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), form in any::<bool>()) {
        let mut all = b"flashlab".to_vec();
        all.extend(if form { [2, 0, 0, 0] } else { [0; 4] });
        all.extend(&bytes);
        let _ = State::parse("f", &bytes).map_err(|e| e.to_string());
        let _ = State::parse("f", &signed(all)).map_err(|e| e.to_string());
    }

    /// Damaged bytes with a valid checksum give an error or another state. They never cause a panic or excessive memory
    /// use.
    #[test]
    fn no_signed_damage_panics(at in any::<prop::sample::Index>(), put in prop::collection::vec(any::<u8>(), 1..12)) {
        let (device, mut bytes) = small();
        let at = at.index(bytes.len());
        for (place, byte) in bytes[at..].iter_mut().zip(&put) {
            *place = *byte;
        }
        match State::parse("f", &signed(bytes)) {
            Ok(state) => { let _ = state.check_compatible(&device).map_err(|e| e.to_string()); }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
