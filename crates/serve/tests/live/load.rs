//! Loads on correct servers and on a faulty one.

use crate::house::{House, alone, memory};
use flashlab_block::{BlockDevice, Context, Features, Geometry, Io, Payload, Started};
use flashlab_serve::load::{Job, JobError, LoadError, Loaded, Mix, load};
use flashlab_serve::{Limits, Stop};
use flashlab_sim::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn run(house: &House, job: &Job) -> Result<Loaded, LoadError> {
    load(&house.uri(), job, &Stop::new().expect("there are descriptors"))
}

fn mix(word: &str) -> Mix {
    Mix::parse(word, 50).expect("fio's word")
}

#[test]
fn every_pattern_moves_what_it_says_and_finds_what_it_wrote() {
    let house = House::of(memory(4 << 20));
    for word in ["write", "read", "rw", "randwrite", "randread", "randrw"] {
        for (connections, simple_replies) in [(1, true), (3, false)] {
            let job =
                Job { mix: mix(word), depth: 8, connections, verify: true, simple_replies, ..Job::default() };
            let loaded = run(&house, &job).unwrap_or_else(|error| panic!("{word}: {error}"));
            let blocks = (4 << 20) / 4096 / u64::from(connections) * u64::from(connections);
            assert_eq!(loaded.requests(), blocks, "{word}");
            assert!(loaded.verified > 0, "{word}");
            assert_eq!(job.mix.reads_only(), loaded.writes.count() == 0, "{word}");
        }
    }
}

#[test]
fn batches_take_few_system_calls_on_either_side() {
    use flashlab_serve::Count;
    let house = House::of(memory(16 << 20));
    let job = Job { mix: mix("randread"), depth: 32, ..Job::default() };
    let loaded = run(&house, &job).expect("the server serves");
    let counted = house.counters.read();
    assert!(counted.get(Count::Calls) <= 3 * counted.get(Count::Batches), "{counted:?}");
    // One send and one receive for each batch of replies; never one per request in both directions.
    assert!(loaded.calls <= 2 * loaded.requests() + 2, "{} calls", loaded.calls);
}

#[test]
fn large_blocks_both_ways_never_wait_for_each_other() {
    let house = House::of(memory(256 << 20));
    let job = Job { mix: mix("randrw"), block: 4 << 20, depth: 16, verify: true, ..Job::default() };
    run(&house, &job).expect("the server serves");
}

#[test]
fn a_rate_is_kept_and_a_runtime_ends_it() {
    let house = House::of(memory(1 << 20));
    let job = Job {
        mix: mix("randread"),
        rate_iops: Some(1_000),
        runtime: Some(Duration::from_ms(100)),
        depth: 4,
        ..Job::default()
    };
    let loaded = run(&house, &job).expect("the server serves");
    // One request per millisecond until the end of the run time; a busy machine may complete none.
    assert!(loaded.requests() <= 100, "{}", loaded.requests());
}

/// A device that loses every hundredth write.
struct Forgetful(Arc<dyn BlockDevice>, AtomicU32);

impl BlockDevice for Forgetful {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn features(&self) -> Features {
        self.0.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let forgets = matches!(io, Io::Write { .. }) && self.1.fetch_add(1, Ordering::Relaxed) % 100 == 99;
        match io {
            Io::Write { offset, durable, .. } if forgets => {
                self.0.start(cx, Io::Write { offset, data: Payload::from(Vec::new()), durable })
            }
            io => self.0.start(cx, io),
        }
    }
}

#[test]
fn a_lost_write_is_found() {
    let house = House::of(Arc::new(Forgetful(memory(4 << 20), AtomicU32::new(0))));
    for word in ["write", "randwrite", "randrw"] {
        let job = Job { mix: mix(word), depth: 8, verify: true, ..Job::default() };
        let found = run(&house, &job);
        assert!(matches!(found, Err(LoadError::Verify { .. })), "{word}: {found:?}");
    }
}

#[test]
fn what_an_export_cannot_take_is_refused_before_it_begins() {
    let mut exports = alone(memory(1 << 20));
    exports[0].read_only = true;
    let house = House::with(exports, Limits::default(), None);
    let refused = |job: Job| match run(&house, &job) {
        Err(LoadError::Job(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Job { mix: mix("write"), ..Job::default() }), JobError::ReadOnly);
    assert_eq!(refused(Job { block: 0, ..Job::default() }), JobError::Zero("bs"));
    let beyond = JobError::Beyond { end: 2 << 20, capacity: 1 << 20 };
    assert_eq!(refused(Job { size: Some(2 << 20), ..Job::default() }), beyond);
    assert!(matches!(refused(Job { offset: u64::MAX, ..Job::default() }), JobError::Beyond { .. }));
    assert!(matches!(refused(Job { connections: 1000, ..Job::default() }), JobError::TooSmall { .. }));
    assert_eq!(refused(Job { block: 16, verify: true, ..Job::default() }), JobError::TooSmallToVerify);
}

#[test]
fn the_report_says_the_same_to_people_and_to_programs() {
    let house = House::of(memory(1 << 20));
    let job = Job { mix: mix("randrw"), verify: true, ..Job::default() };
    let loaded = run(&house, &job).expect("the server serves");
    let json: serde_json::Value = serde_json::from_str(&loaded.json()).expect("it is JSON");
    assert_eq!(json["total_ios"], 256);
    assert_eq!(
        json["read"]["total_ios"].as_u64().zip(json["write"]["total_ios"].as_u64()).map(|(r, w)| r + w),
        Some(256)
    );
    assert_eq!(json["read"]["lat_ns"]["N"], json["read"]["total_ios"]);
    assert!(json["system_calls"].as_u64() > Some(0));
    let text = loaded.text();
    for word in ["read ", "write ", "IOPS", "percentiles", "system calls", "verified"] {
        assert!(text.contains(word), "{word} in {text}");
    }
}
