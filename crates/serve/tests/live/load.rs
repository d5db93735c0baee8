//! Loads on correct servers and on a faulty one.

use crate::server::{TestServer, alone, memory};
use flashlab_block::{Answer, BlockDevice, Context, Features, Geometry, Io, Payload, Started};
use flashlab_serve::load::{Job, JobError, LoadError, LoadReport, Mix, load};
use flashlab_serve::{Limits, Stop};
use flashlab_sim::{Duration, Instant};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn run(server: &TestServer, job: &Job) -> Result<LoadReport, LoadError> {
    load(&server.uri(), job, &Stop::new().expect("there are descriptors"))
}

fn mix(word: &str) -> Mix {
    Mix::parse(word, 50).expect("fio's word")
}

#[test]
fn every_pattern_sends_its_requests_and_verifies_its_writes() {
    let server = TestServer::new(memory(4 << 20));
    for word in ["write", "read", "rw", "randwrite", "randread", "randrw"] {
        for (connections, simple_replies) in [(1, true), (3, false)] {
            let job =
                Job { mix: mix(word), depth: 8, connections, verify: true, simple_replies, ..Job::default() };
            let loaded = run(&server, &job).unwrap_or_else(|error| panic!("{word}: {error}"));
            let blocks = (4 << 20) / 4096 / u64::from(connections) * u64::from(connections);
            assert_eq!(loaded.requests(), blocks, "{word}");
            assert!(loaded.verified > 0, "{word}");
            if word == "rw" {
                // Each block is read or written once. Only written blocks have known contents, and only at the end.
                assert_eq!(loaded.verified, loaded.writes.count());
            }
            assert_eq!(job.mix.reads_only(), loaded.writes.count() == 0, "{word}");
        }
    }
}

#[test]
fn data_has_the_percentage_of_zeroes_that_was_asked_for() {
    let device = memory(1 << 20);
    let server = TestServer::new(device.clone());
    for (percentage, random) in [(0, 512), (75, 128), (100, 0)] {
        let job = Job { mix: mix("write"), buffer_compress_percentage: percentage, ..Job::default() };
        run(&server, &job).expect("the server serves");
        let read = Io::Read { offset: 4096, buffer: vec![0; 512] };
        let Started::Done(Ok(Answer::Read(chunk))) = device.start(&Context::new(Instant::ZERO), read) else {
            panic!("memory answers at once");
        };
        assert!(chunk[random..].iter().all(|byte| *byte == 0), "{percentage}");
        // One of 64 random bytes differs from zero for certain.
        let parts = chunk[..random].chunks(64);
        assert!(parts.clone().all(|part| part.iter().any(|byte| *byte != 0)), "{percentage}");
    }
}

#[test]
fn batches_take_few_system_calls_on_both_sides() {
    use flashlab_serve::Count;
    let server = TestServer::new(memory(16 << 20));
    let job = Job { mix: mix("randread"), depth: 32, ..Job::default() };
    let loaded = run(&server, &job).expect("the server serves");
    let counts = server.counters.read();
    assert!(counts.get(Count::Calls) <= 3 * counts.get(Count::Batches), "{counts:?}");
    // At most one send and one receive for each request.
    assert!(loaded.calls <= 2 * loaded.requests() + 2, "{} calls", loaded.calls);
}

#[test]
fn large_reads_and_writes_do_not_block_each_other() {
    let server = TestServer::new(memory(256 << 20));
    let job = Job { mix: mix("randrw"), block: 4 << 20, depth: 16, verify: true, ..Job::default() };
    run(&server, &job).expect("the server serves");
}

#[test]
fn a_load_respects_its_rate_and_its_run_time() {
    let server = TestServer::new(memory(1 << 20));
    let job = Job {
        mix: mix("randread"),
        rate_iops: Some(1_000),
        runtime: Some(Duration::from_ms(100)),
        depth: 4,
        ..Job::default()
    };
    let loaded = run(&server, &job).expect("the server serves");
    // One request per millisecond until the end of the run time; a busy machine may complete none.
    assert!(loaded.requests() <= 100, "{}", loaded.requests());
}

/// A device that loses every hundredth write.
struct LossyDevice(Arc<dyn BlockDevice>, AtomicU32);

impl BlockDevice for LossyDevice {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn features(&self) -> Features {
        self.0.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let is_lost = matches!(io, Io::Write { .. }) && self.1.fetch_add(1, Ordering::Relaxed) % 100 == 99;
        match io {
            Io::Write { offset, durable, .. } if is_lost => {
                self.0.start(cx, Io::Write { offset, data: Payload::from(Vec::new()), durable })
            }
            io => self.0.start(cx, io),
        }
    }
}

#[test]
fn verification_finds_a_lost_write() {
    let server = TestServer::new(Arc::new(LossyDevice(memory(4 << 20), AtomicU32::new(0))));
    for word in ["write", "randwrite", "randrw"] {
        let job = Job { mix: mix(word), depth: 8, verify: true, ..Job::default() };
        let found = run(&server, &job);
        assert!(matches!(found, Err(LoadError::Verify { .. })), "{word}: {found:?}");
    }
}

#[test]
fn a_job_that_does_not_fit_the_export_is_rejected_before_it_starts() {
    let mut exports = alone(memory(1 << 20));
    exports[0].read_only = true;
    let server = TestServer::with(exports, Limits::default(), None);
    let error_of = |job: Job| match run(&server, &job) {
        Err(LoadError::Job(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(error_of(Job { mix: mix("write"), ..Job::default() }), JobError::ReadOnly);
    assert_eq!(error_of(Job { block: 0, ..Job::default() }), JobError::Zero("bs"));
    let beyond = JobError::Beyond { end: 2 << 20, capacity: 1 << 20 };
    assert_eq!(error_of(Job { size: Some(2 << 20), ..Job::default() }), beyond);
    assert!(matches!(error_of(Job { offset: u64::MAX, ..Job::default() }), JobError::Beyond { .. }));
    assert!(matches!(error_of(Job { connections: 1000, ..Job::default() }), JobError::TooSmall { .. }));
    assert_eq!(error_of(Job { block: 16, verify: true, ..Job::default() }), JobError::TooSmallToVerify);
}

#[test]
fn text_and_json_report_the_same_results() {
    let server = TestServer::new(memory(1 << 20));
    let job = Job { mix: mix("randrw"), verify: true, ..Job::default() };
    let loaded = run(&server, &job).expect("the server serves");
    let json: serde_json::Value = serde_json::from_str(&loaded.json()).expect("the output is JSON");
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
