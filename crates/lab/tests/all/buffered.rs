//! Buffered jobs: compares the page-cache model with recordings under a real kernel, and checks the errors for jobs
//! without a model.

pub(crate) mod compare;

use compare::{Run, first_difference, span_ms};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Direction;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::{Report, Settings};
use flashlab_lab::bench::{Bench, BenchError};
use flashlab_sim::{Mechanism, Op};

macro_rules! recordings {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_bytes!(concat!("buffered/recordings/", $name, ".rec")).as_slice())),+]
    };
}

/// Recordings by `flashlab record --fs none --fio buffered/jobs/NAME.fio --latency TIME`. The model
/// reproduces every request of these recordings.
const RECORDINGS: [(&str, &[u8]); 10] = recordings![
    "end-fsync-100us",
    "end-fsync-4ms",
    "fdatasync-log-4ms",
    "fsync-stride-100us",
    "fsync-stride-4ms",
    "loops-write-4ms",
    "o-sync-4ms",
    "read-large-4ms",
    "read-stream-4ms",
    "read-stride-100us",
];

#[test]
fn the_model_sends_the_requests_of_linux_in_its_time_within_10_percent() {
    for (name, bytes) in RECORDINGS {
        let run = Run::read(bytes);
        let (simulated, _) = run.simulate();
        assert_eq!(first_difference(&run.requests, &simulated), None, "{name}");
        let (recorded, simulated) = (span_ms(&run.requests), span_ms(&simulated));
        let error = simulated / recorded - 1.0;
        assert!(error.abs() < 0.10, "{name}: {simulated:.1} ms, recorded {recorded:.1} ms");
    }
}

#[test]
fn a_job_with_reads_and_fsync_takes_the_time_of_linux_within_10_percent() {
    let run = Run::read(include_bytes!("buffered/recordings/mixed-4ms.rec"));
    let (simulated, _) = run.simulate();
    // Random offsets differ from fio's, so the streams of requests differ too.
    let (recorded, simulated) = (span_ms(&run.requests), span_ms(&simulated));
    assert!((simulated / recorded - 1.0).abs() < 0.10, "{simulated:.1} ms, recorded {recorded:.1} ms");
}

#[test]
fn the_timers_write_the_same_pages_in_three_bursts() {
    let run = Run::read(include_bytes!("buffered/recordings/timers-stride-4ms.rec"));
    let (simulated, _) = run.simulate();
    // fio wakes late from its sleeps, so it ends with one write more than the model.
    assert_eq!(first_difference(&run.requests, &simulated), Some(840));
    assert_eq!((run.requests.len(), simulated.len()), (841, 840));
    let bursts = |requests: &[compare::Logged]| -> Vec<u64> {
        let pauses = requests.windows(2).filter(|pair| pair[1].0 - pair[0].0 > 1_000_000_000);
        requests.iter().take(1).map(|r| r.0).chain(pauses.map(|pair| pair[1].0)).collect()
    };
    let (was, is) = (bursts(&run.requests), bursts(&simulated));
    assert_eq!((was.len(), is.len()), (3, 3));
    // The start-up time of fio, and the position of the run relative to the ticks of the timers, account for
    // a difference of up to 0.5 s.
    assert!(was.iter().zip(&is).all(|(was, is)| was.abs_diff(*is) < 500_000_000), "{was:?} and {is:?}");
}

#[test]
fn a_time_based_job_reads_its_file_from_the_device_in_each_pass() {
    let run = Run::read(include_bytes!("buffered/recordings/time-based-read-4ms.rec"));
    let (simulated, _) = run.simulate();
    // The clock of the guest's fio began before its first request, so the model has time for four more.
    assert_eq!(first_difference(&run.requests, &simulated), Some(429));
    assert_eq!((run.requests.len(), simulated.len()), (429, 433));
}

#[test]
fn a_job_without_invalidation_reads_its_file_from_the_cache_from_the_second_pass_on() {
    let bytes_read = |options: &str| {
        let job = format!("--name=r --rw=read --bs=64k --size=8m {options}");
        let reports = bench("sd/kingston", &job).unwrap();
        reports[0].stats.direction(Direction::Read).bytes_per_second() as f64
    };
    let (dropped, kept) =
        (bytes_read("--time_based --runtime=4"), bytes_read("--time_based --runtime=4 --invalidate=0"));
    assert!(kept > 10.0 * dropped, "{kept} beside {dropped} bytes a second");
    // Even with this option, closing the device between two loops drops its pages from the cache.
    let loops = bytes_read("--loops=4 --invalidate=0");
    assert!((loops / dropped - 1.0).abs() < 0.1, "{loops} beside {dropped} bytes a second");
}

#[test]
fn a_recording_with_fsync_flushes_as_often_as_the_model_reports_syncs() {
    let run = Run::read(RECORDINGS[2].1);
    let flushes = run.requests.iter().filter(|r| r.1 == Op::Flush).count() as u64;
    let (_, statistics) = run.simulate();
    let text = run.job.as_bytes().to_vec();
    let jobs = Invocation::parse(&["job.fio"], &|_: &str| Ok(text.clone())).unwrap().jobs;
    let report = &statistics.reports(&jobs)[0];
    assert_eq!(report.stats.sync.count(), flushes);
    let writes = report.stats.direction(Direction::Write);
    assert!(writes.mechanism_ns(Mechanism::Host) > 0, "a write takes processor time");
}

/// Runs a job of fio on a card. Returns its reports.
fn bench(device: &str, job: &str) -> Result<Vec<Report>, BenchError> {
    let library = Library::built_in().expect("the repository's own library");
    let device = Device::open(device, &library).unwrap();
    let words: Vec<&str> = job.split_whitespace().collect();
    let jobs = Invocation::parse(&words, &NoFiles).unwrap().jobs;
    let mut bench = Bench::with(&device, 1);
    Ok(bench.run(&jobs, &Settings::default())?.reports(&jobs))
}

#[test]
fn read_ahead_gives_a_stream_of_small_reads_the_rate_of_large_direct_ones() {
    let rate = |job: &str| {
        let reports = bench("sd/kingston", job).unwrap();
        reports[0].stats.direction(Direction::Read).bytes_per_second() as f64
    };
    // Read-ahead keeps a second request waiting, which the host prepares meanwhile.
    let direct = rate("--name=r --rw=read --bs=128k --size=64m --direct=1 --ioengine=libaio --iodepth=2");
    let buffered = rate("--name=r --rw=read --bs=4k --size=64m");
    assert!((buffered / direct - 1.0).abs() < 0.1, "{buffered} beside {direct} bytes a second");
}

#[test]
fn errors_for_jobs_without_a_model_name_the_command_that_records_them() {
    let refused = |device: &str, job: &str| match bench(device, job) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{job} runs"),
    };
    let card = "sd/kingston";
    let base = "--name=a --size=1m --bs=4k";
    for (job, filesystem) in [
        ("--rw=write --ioengine=io_uring --iodepth=4", "none"),
        ("--rw=randtrim", "none"),
        ("--rw=write --sync_file_range=write:8", "none"),
        ("--rw=read --directory=/data --invalidate=0", "ext4"),
        ("--rw=read --name=b --rw=write --size=1m --direct=1", "none"),
        ("--rw=read --name=b --rw=randread --size=1m", "none"),
    ] {
        let message = refused(card, &format!("{base} {job}"));
        let command = format!("flashlab record --fs {filesystem} --fio job.fio --to run.rec");
        assert!(message.ends_with(&command), "{job}: {message}");
    }
    let message = refused("sd/qemu-sdsc", &format!("{base} --rw=write"));
    assert!(message.contains("cache.memory=1GiB"), "{message}");
}
