//! Layers and throttled models: their data, errors, statistics and times.

use flashlab_block::conformance::{agrees_with_an_array, execute, read, rejects_requests_beyond_the_end};
use flashlab_block::layer::{Fault, Faults, KINDS, Kind, Log, Overlay, ReadOnly, Settings, Stats, Tally};
use flashlab_block::model::{Throttle, Throttled, Untimed};
use flashlab_block::{
    BlockDevice, Context, Features, Geometry, Io, IoError, Memory, Pages, Started, Timed, Workers,
};
use flashlab_sim::{Duration, FileId, Instant, Model, Op, Request, RequestId, Rng, Store, conformance};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;

fn memory(size: u64) -> Memory {
    Memory::new(size, Pages::Small).expect("a size that is possible")
}

fn write(offset: u64, data: Vec<u8>) -> Io {
    Io::Write { offset, data: data.into(), durable: false }
}

fn geometry(capacity: u64) -> Geometry {
    Geometry { capacity, block: 512, request_max: MIB }
}

fn overlaid(base: &Arc<Memory>, size: u64, changes: &Arc<Memory>) -> Timed {
    let overlay = Overlay::new(Box::new(base.clone()), size, Box::new(changes.clone()));
    let model = Untimed::new(Geometry { block: 1, ..geometry(size) });
    Timed::new(Box::new(model), Box::new(overlay.expect("memory can be read")))
}

#[test]
fn layers_report_the_power_losses_of_the_device_below() {
    let timed = Arc::new(Timed::new(Box::new(Untimed::new(geometry(MIB))), Box::new(memory(MIB))));
    let inner: Arc<dyn BlockDevice> = timed.clone();
    let layers: [Arc<dyn BlockDevice>; 5] = [
        Arc::new(Stats::new(inner.clone())),
        Arc::new(Log::new(inner.clone(), Box::new(std::io::sink())).expect("a sink takes all")),
        Arc::new(ReadOnly::new(inner.clone())),
        Arc::new(Faults::new(inner.clone(), Vec::new(), 1)),
        Arc::new(Workers::new(inner.clone(), 1).expect("there are threads")),
    ];
    for losses in 0..3 {
        let reported: Vec<u64> = layers.iter().map(|layer| layer.power_losses()).collect();
        assert_eq!(reported, [losses; 5]);
        timed.power_cut(Instant::ZERO).expect("memory does not fail");
        timed.power_up(Instant::ZERO);
    }
}

#[test]
fn a_request_whose_worker_panics_fails_and_the_next_one_is_served() {
    struct Panics(Memory);
    impl BlockDevice for Panics {
        fn geometry(&self) -> Geometry {
            self.0.geometry()
        }
        fn features(&self) -> Features {
            self.0.features()
        }
        fn start(&self, cx: &Context, io: Io) -> Started {
            assert!(!matches!(io, Io::Flush), "a panic on purpose");
            self.0.start(cx, io)
        }
    }
    let device = Workers::new(Arc::new(Panics(memory(MIB))), 1).expect("there are threads");
    std::panic::set_hook(Box::new(|_| {}));
    let failed = execute(&device, Io::Flush);
    let _ = std::panic::take_hook();
    assert_eq!(failed.err(), Some(IoError::Medium));
    assert!(execute(&device, write(0, vec![1; 4096])).is_ok());
}

#[test]
fn stats_log_and_faults_without_rules_change_no_data() {
    for seed in 0..10 {
        let device: Arc<dyn BlockDevice> = Arc::new(memory(MIB));
        let device = Arc::new(Stats::new(device));
        let device = Arc::new(Faults::new(device, Vec::new(), seed));
        let device = Log::new(device, Box::new(std::io::sink())).expect("a sink takes all");
        agrees_with_an_array(&device, seed, 100);
        rejects_requests_beyond_the_end(&Stats::new(Arc::new(memory(4096))));
    }
}

#[test]
fn an_overlay_reads_like_a_copy_and_leaves_its_base_unchanged() {
    for (seed, size) in [(1, MIB), (2, 4096), (3, 300_001), (4, 777)] {
        let (base, changes) = (Arc::new(memory(size)), Arc::new(memory(Overlay::changes_size(size))));
        agrees_with_an_array(&overlaid(&base, size, &changes), seed, 300);
        assert_eq!(base.data_in(0..size), Ok(None), "the base was written to");
    }
    let size = 5 * 4096 + 100;
    let base = Arc::new(memory(size));
    let noise: Vec<u8> = (0..size).map(|n| (n % 251) as u8 + 1).collect();
    Store::write(&base, 0, &noise).expect("there is memory");
    let changes = Arc::new(memory(Overlay::changes_size(size)));
    let (mut copy, mut rng) = (noise.clone(), Rng::new(9));
    for round in 0..200 {
        // Each round opens the overlay again, and expects the earlier changes.
        let device = overlaid(&base, size, &changes);
        let offset = rng.below(size);
        let length = 1 + rng.below((size - offset).min(6000));
        let part = offset as usize..(offset + length) as usize;
        let io = match round % 3 {
            0 => Io::Discard { offset, length, durable: false },
            1 => Io::WriteZeroes { offset, length, durable: false, allocate: true, fast: false },
            _ => write(offset, vec![round as u8; length as usize]),
        };
        copy[part].fill(if round % 3 == 2 { round as u8 } else { 0 });
        assert!(execute(&device, io).is_ok());
        assert!(read(&device, 0, size as usize) == copy, "round {round}");
    }
    assert!(read(&*base, 0, size as usize) == noise, "the base has changed");
}

#[test]
fn rules_select_the_requests_that_fail() {
    let device = Faults::new(Arc::new(memory(MIB)), Vec::new(), 1);
    let outcome = |io| execute(&device, io).err();
    let read = |offset| Io::Read { offset, buffer: vec![0; 512] };
    for (rule, expected) in [
        ("read", [Some(IoError::Medium), None, Some(IoError::Medium)]),
        ("write|flush ENOSPC", [None, Some(IoError::NoSpace), None]),
        ("at=4096+1 EPERM", [None, None, Some(IoError::ReadOnly)]),
        ("rate=0", [None; 3]),
        ("rate=1 EINVAL", [Some(IoError::Invalid); 3]),
    ] {
        device.clear();
        device.add(rule.parse().expect("a rule"));
        assert_eq!(device.rules(), [rule]);
        assert_eq!([outcome(read(0)), outcome(write(0, vec![1])), outcome(read(4000))], expected, "{rule}");
    }
    device.clear();
    device.add("at=4096+1".parse().expect("a rule"));
    assert_eq!(outcome(Io::Flush), None, "a flush has no range");
    device.clear();
    device.add("read after=2 times=3".parse().expect("a rule"));
    let failed: Vec<bool> = (0..7).map(|_| outcome(read(0)).is_some()).collect();
    assert_eq!(failed, [false, false, true, true, true, false, false]);
    for wrong in
        ["reed", "at=5", "at=1+99999999999999999999", "rate=2", "rate=x", "EIO EIO", "a=b", "read|", "after="]
    {
        assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
    }
    assert!("rate=0.0000001".parse::<Fault>().is_err() && "rate=0.000001".parse::<Fault>().is_ok());
    let error = "rate=0.5 rate=0.6".parse::<Fault>().expect_err("two rates");
    assert_eq!(error.to_string(), "\"rate=0.6\" repeats a setting; a rule has each setting only once");
}

#[test]
fn a_rule_key_rejects_values_of_another_key() {
    let open = |key, value| {
        let kind = KINDS.iter().find(|kind| kind.name == "error").expect("a layer");
        let opened = (kind.open)(Arc::new(memory(MIB)), &Settings { values: vec![(key, value)], seed: 1 });
        opened.err().map(|error| error.to_string())
    };
    assert_eq!((open("on", "read|write"), open("error", "EPERM")), (None, None));
    let wrong = [open("on", "EIO"), open("on", "read EIO"), open("error", "read")];
    assert_eq!(
        wrong.map(|error| error.expect("it is refused")),
        [
            "on: \"EIO\" is not a kind of request; for example: read|write",
            "on: \"read EIO\" is not a kind of request; for example: read|write",
            "error: \"read\" is not an error; for example: EIO",
        ]
    );
}

#[test]
fn random_rule_texts_parse_or_give_an_error() {
    let words = [
        "read",
        "|",
        "write",
        "at=",
        "+",
        "1",
        "99999999999999999999",
        "rate=",
        "0.5",
        "nan",
        " ",
        "EIO",
        "\u{e4}",
        "=",
    ];
    let mut rules = 0;
    for seed in 0..5_000 {
        let mut rng = Rng::new(seed);
        let text: String = (0..rng.below(9)).map(|_| words[rng.below(words.len() as u64) as usize]).collect();
        if let Ok(fault) = text.parse::<Fault>() {
            rules += 1;
            assert_eq!(fault.to_string().parse::<Fault>(), Ok(fault), "seed {seed}: {text:?}");
        }
    }
    assert!(rules > 100, "{rules}");
}

#[test]
fn the_same_seed_fails_the_same_requests_and_the_rate_holds() {
    let failures = |seed| -> Vec<bool> {
        let rule = "write rate=0.1".parse().expect("a rule");
        let device = Faults::new(Arc::new(memory(MIB)), vec![rule], seed);
        (0..10_000).map(|_| execute(&device, write(0, vec![1])).is_err()).collect()
    };
    let first = failures(1);
    assert_eq!(first, failures(1));
    assert_ne!(first, failures(2));
    // Binomial distribution: mean 1,000, standard deviation 30. The limits are five deviations away.
    let count = first.iter().filter(|failed| **failed).count();
    assert!((850..1150).contains(&count), "{count}");
}

#[test]
fn a_request_that_fails_by_a_rule_has_no_effect() {
    let device = Faults::new(Arc::new(memory(MIB)), vec!["write".parse().expect("a rule")], 1);
    assert!(execute(&device, write(0, vec![7; 512])).is_err());
    device.clear();
    assert_eq!(read(&device, 0, 512), [0; 512]);
}

#[test]
fn a_read_only_device_reports_so_and_rejects_writes() {
    let device = ReadOnly::new(Arc::new(memory(MIB)));
    assert!(device.features().read_only);
    for io in [
        write(0, vec![1]),
        Io::Discard { offset: 0, length: 1, durable: false },
        Io::WriteZeroes { offset: 0, length: 1, durable: false, allocate: false, fast: false },
    ] {
        assert_eq!(execute(&device, io).err(), Some(IoError::ReadOnly));
    }
    assert!(execute(&device, Io::Flush).is_ok());
    assert_eq!(read(&device, 0, 1), [0]);
}

#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no thread panics").extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_log_has_one_line_per_answered_request() {
    let lines = SharedBuffer::default();
    let device = Log::new(Arc::new(memory(4096)), Box::new(lines.clone())).expect("a buffer takes all");
    read(&device, 512, 1024);
    assert!(execute(&device, Io::Discard { offset: 0, length: 512, durable: true }).is_ok());
    assert!(execute(&device, write(4096, vec![1])).is_err());
    let text = String::from_utf8(lines.0.lock().expect("no thread panics").clone()).expect("text");
    let expected = "# time_ns request offset bytes fua result\n\
                    0 read 512 1024 - ok\n0 discard 0 512 fua ok\n0 write 4096 1 - ENOSPC\n";
    assert_eq!(text, expected);
}

/// A writer that fails while its flag is set.
struct FullDisk(SharedBuffer, Arc<AtomicBool>);

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.1.load(Ordering::Relaxed) {
            Err(std::io::ErrorKind::StorageFull.into())
        } else {
            self.0.write(bytes)
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_log_on_a_full_disk_says_how_many_lines_it_lost() {
    let (lines, full) = (SharedBuffer::default(), Arc::new(AtomicBool::new(false)));
    let to = Box::new(FullDisk(lines.clone(), full.clone()));
    let device = Log::new(Arc::new(memory(4096)), to).expect("there is room for one line");
    full.store(true, Ordering::Relaxed);
    (0..3).for_each(|_| read(&device, 0, 512).truncate(0));
    full.store(false, Ordering::Relaxed);
    read(&device, 512, 512);
    let text = String::from_utf8(lines.0.lock().expect("no thread panics").clone()).expect("text");
    assert_eq!(
        text,
        "# time_ns request offset bytes fua result\n# 3 lines lost: the log could not be written\n\
         0 read 512 512 - ok\n"
    );
    full.store(true, Ordering::Relaxed);
    assert!(Log::new(Arc::new(memory(4096)), Box::new(FullDisk(lines, full))).is_err());
}

#[test]
fn statistics_count_requests_by_kind_and_report_the_largest_number_outstanding() {
    let throttle =
        Throttle::Delay { read: Duration::from_us(10), write: Duration::ZERO, flush: Duration::ZERO };
    let throttled = Throttled::new(Box::new(Untimed::new(geometry(MIB))), throttle);
    let device = Stats::new(Arc::new(Timed::new(Box::new(throttled), Box::new(memory(MIB)))));
    let reads: Vec<Started> = (0..5)
        .map(|n| {
            device.start(&Context::new(Instant::ZERO), Io::Read { offset: n * 512, buffer: vec![0; 512] })
        })
        .collect();
    reads.into_iter().for_each(|read| drop(flashlab_block::conformance::wait_for(&device, read)));
    assert!(execute(&device, write(MIB, vec![1; 512])).is_err());
    assert_eq!(device.tally(Kind::Read), Tally { requests: 5, bytes: 2560, errors: 0 });
    assert_eq!(device.tally(Kind::Write), Tally { requests: 1, bytes: 512, errors: 1 });
    assert_eq!(device.outstanding_max(), 5);
}

fn request(id: u64, op: Op, length: u64) -> Request {
    Request { id: RequestId(id), op, file: FileId::DEVICE, offset: 0, length }
}

fn throttled(throttle: Throttle) -> Throttled {
    Throttled::new(Box::new(Untimed::new(geometry(16 * MIB))), throttle)
}

#[test]
fn throttled_models_pass_the_conformance_tests() {
    let us = Duration::from_us;
    let delay = Throttle::Delay { read: us(100), write: us(700), flush: us(3000) };
    let rate = Throttle::Rate { read: Some(50 * MIB), write: Some(20 * MIB), iops: Some(5_000) };
    for seed in 0..5 {
        conformance::check(&|| Box::new(Untimed::new(geometry(16 * MIB))), seed);
        conformance::check(&|| Box::new(throttled(delay)), seed);
        conformance::check(&|| Box::new(throttled(rate)), seed);
        conformance::check(&|| Box::new(Throttled::new(Box::new(throttled(delay)), rate)), seed);
        conformance::check(&|| Box::new(Throttled::new(Box::new(throttled(rate)), delay)), seed);
    }
}

#[test]
fn a_delay_applies_per_request_and_a_rate_to_all_requests_together() {
    let us = Duration::from_us;
    let ends = |mut model: Throttled, op, length| -> Vec<u64> {
        (0..4).for_each(|id| model.submit(Instant::ZERO, request(id, op, length)));
        std::iter::from_fn(|| model.complete(Instant::MAX)).map(|done| done.at.as_ns() / 1000).collect()
    };
    let delay = Throttle::Delay { read: us(100), write: us(700), flush: us(3000) };
    assert_eq!(ends(throttled(delay), Op::Read, 512), [100; 4]);
    assert_eq!(ends(throttled(delay), Op::WriteFua, 512), [700; 4]);
    assert_eq!(ends(throttled(delay), Op::Flush, 0), [3000; 4]);
    let rate = Throttle::Rate { read: None, write: Some(MIB), iops: Some(1000) };
    // 1 MiB takes a second; 512 B take a thousandth of a second, because the request rate is the stricter limit.
    assert_eq!(ends(throttled(rate), Op::Write, MIB), [1_000_000, 2_000_000, 3_000_000, 4_000_000]);
    assert_eq!(ends(throttled(rate), Op::Write, 512), [1000, 2000, 3000, 4000]);
    assert_eq!(ends(throttled(rate), Op::Read, MIB), [1000, 2000, 3000, 4000]);
}
