//! The Rust side of `python/benchmarks/overhead.py`: makes the same calls or single requests as the Python
//! side, and prints how many seconds they take.
//!
//! `python_peer calls` runs a job of 10,000 requests 1,000 times on one bench. `python_peer batches` submits 10,000 reads
//! one after the other to a model, 200 times.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::Bench;
use flashlab_lab::job_run::JobRun;
use flashlab_lab::write_first::WriteFirst;
use flashlab_sim::{FileId, Instant, Op, Request, RequestId};

const DEVICE: &str = "nvme/p32a80";
const CALLS: u32 = 1_000;
const JOB: &str = "--name=a --direct=1 --rw=randread --bs=4k --size=64m --number_ios=10000";
const BATCHES: u32 = 200;
const REQUESTS: u64 = 10_000;
const SPAN: u64 = 64 << 20;

fn main() {
    let library = Library::built_in().expect("the built-in library is valid");
    let device = Device::open(DEVICE, &library).expect("the device exists");
    let seconds = match std::env::args().nth(1).as_deref() {
        Some("batches") => batches(&device),
        // Without an argument, the example only checks that the job runs.
        None => run(&mut Bench::with(&device, 1), &parse(JOB)) as f64 * 0.0,
        Some(_) => calls(&device),
    };
    println!("{seconds}");
}

fn parse(line: &str) -> Invocation {
    let words: Vec<&str> = line.split_whitespace().collect();
    Invocation::parse(&words, &NoFiles).expect("the job is valid")
}

/// Runs the jobs and returns the number of requests.
fn run(bench: &mut Bench, invocation: &Invocation) -> u64 {
    let run = JobRun::new(bench, invocation, &Settings::default(), WriteFirst::Read).expect("the job runs");
    run.reports.iter().map(|report| report.stats.total_ios()).sum()
}

/// Returns the duration of the calls in seconds. As in Python, each call parses its job.
fn calls(device: &Device) -> f64 {
    let mut bench = Bench::with(device, 1);
    run(&mut bench, &parse(JOB));
    seconds(|| {
        for _ in 0..CALLS {
            assert_eq!(run(&mut bench, &parse(JOB)), 10_000);
        }
    })
}

/// Returns the duration of the single requests in seconds.
fn batches(device: &Device) -> f64 {
    let mut bench = Bench::with(device, 1);
    run(&mut bench, &parse("--name=a --direct=1 --rw=write --bs=1m --size=64m"));
    let mut model = bench.device().clone_box();
    let mut state: u64 = 1;
    let offsets: Vec<u64> = (0..REQUESTS)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % (SPAN / 4096) * 4096
        })
        .collect();
    let (mut now, mut total) = (bench.now(), 0);
    let seconds = seconds(|| {
        for _ in 0..BATCHES {
            for (n, offset) in offsets.iter().enumerate() {
                let id = RequestId(n as u64);
                model.submit(
                    now,
                    Request { id, op: Op::Read, file: FileId::DEVICE, offset: *offset, length: 4096 },
                );
                let completion = model.complete(Instant::MAX).expect("the request completes");
                now = completion.at;
                total += completion.spent.total().as_ns();
            }
        }
    });
    assert!(total > 0);
    seconds
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures wall-clock time")]
fn seconds(work: impl FnOnce()) -> f64 {
    let begin = std::time::Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}
