//! Tests of the engine on a device that records its requests.

use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::{Direction, Job};
use flashlab_fio::loader::NoFiles;
use flashlab_fit::plan::{Area, Plan, Scale};
use flashlab_measure::{Channel, Engine, Target};
use std::io;
use std::sync::{Arc, Mutex};

/// An operation of the recording device: name, first byte, length.
type Recorded = (&'static str, u64, u64);

/// A device that records every operation, and fails those that end beyond a given byte.
struct RecordingDevice {
    capacity: u64,
    fails_at: u64,
    errno: i32,
    log: Arc<Mutex<Vec<Recorded>>>,
}

impl RecordingDevice {
    fn new(capacity: u64) -> Self {
        RecordingDevice { capacity, fails_at: u64::MAX, errno: 5, log: Arc::default() }
    }

    fn recorded(&self) -> Vec<Recorded> {
        self.log.lock().expect("no panic").clone()
    }
}

struct RecordingChannel {
    fails_at: u64,
    errno: i32,
    log: Arc<Mutex<Vec<Recorded>>>,
}

impl RecordingChannel {
    fn record(&self, name: &'static str, offset: u64, length: u64) -> io::Result<()> {
        self.log.lock().expect("no panic").push((name, offset, length));
        match offset + length > self.fails_at {
            true => Err(io::Error::from_raw_os_error(self.errno)),
            false => Ok(()),
        }
    }
}

impl Channel for RecordingChannel {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.record("read", offset, buffer.len() as u64)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.record("write", offset, data.len() as u64)
    }
    fn discard(&mut self, offset: u64, length: u64) -> io::Result<()> {
        self.record("discard", offset, length)
    }
    fn flush(&mut self, _: bool) -> io::Result<()> {
        self.record("flush", 0, 0)
    }
}

impl Target for RecordingDevice {
    fn capacity(&self) -> u64 {
        self.capacity
    }
    fn block(&self) -> u32 {
        512
    }
    fn discards(&self) -> bool {
        true
    }
    fn channel(&self) -> io::Result<Box<dyn Channel>> {
        let (fails_at, errno, log) = (self.fails_at, self.errno, self.log.clone());
        Ok(Box::new(RecordingChannel { fails_at, errno, log }))
    }
}

fn jobs(text: &str) -> Vec<Job> {
    let words: Vec<&str> = text.split(' ').collect();
    Invocation::parse(&words, &NoFiles).expect("a valid job").jobs
}

const MIB: u64 = 1 << 20;

/// Runs all steps of a plan on a recording device.
fn run_plan(device: &RecordingDevice, plan: &Plan) {
    let mut engine = Engine::new(device);
    for step in &plan.steps {
        let jobs = Invocation::parse(&step.job, &NoFiles).expect("a valid job").jobs;
        engine.run(&jobs, &mut |_| true).expect("it runs");
    }
}

#[test]
fn a_plan_without_permission_to_write_only_reads() {
    for scale in [Scale::Quick, Scale::Standard] {
        let device = RecordingDevice::new(512 * MIB);
        let area = Area { capacity: device.capacity, block: 512, is_writable: false, discards: true };
        run_plan(&device, &Plan::new(scale, &area).expect("large enough"));
        let recorded = device.recorded();
        assert!(!recorded.is_empty());
        let other: Vec<&Recorded> = recorded.iter().filter(|request| request.0 != "read").collect();
        assert!(other.is_empty(), "{scale:?}: {other:?}");
    }
}

/// A plan for a target without discards, such as a file in a directory, discards nothing and stays within the
/// target.
#[test]
fn the_plan_of_a_directory_stays_within_its_own_file() {
    let device = RecordingDevice::new(65 * MIB);
    let area = Area { capacity: device.capacity, block: 4096, is_writable: true, discards: false };
    run_plan(&device, &Plan::new(Scale::Quick, &area).expect("large enough"));
    let recorded = device.recorded();
    assert!(recorded.iter().any(|request| request.0 == "write"));
    let outside = |request: &&Recorded| request.0 == "discard" || request.1 + request.2 > device.capacity;
    assert_eq!(recorded.iter().find(outside), None);
}

#[test]
fn a_job_reaches_the_device_request_by_request() {
    let device = RecordingDevice::new(64 * MIB);
    let jobs = jobs("--name=a --rw=write --bs=4k --offset=1m --size=20k --fsync=2 --direct=1");
    let statistics = Engine::new(&device).run(&jobs, &mut |_| true).expect("it runs");
    let writes: Vec<u64> = device.recorded().iter().filter(|r| r.0 == "write").map(|r| r.1).collect();
    assert_eq!(writes, [MIB, MIB + 4096, MIB + 8192, MIB + 12288, MIB + 16384]);
    assert_eq!(device.recorded().iter().filter(|r| r.0 == "flush").count(), 2);
    assert_eq!(statistics.job(0).direction(Direction::Write).total_ios(), 5);
    assert_eq!(statistics.job(0).sync.count(), 2);
}

#[test]
fn clones_and_deep_queues_cover_their_areas_without_gaps() {
    for text in [
        "--name=a --rw=randwrite --bs=4k --size=1m --ioengine=libaio --iodepth=8 --direct=1",
        "--name=a --rw=write --bs=64k --size=1m --numjobs=4 --offset_increment=8m --group_reporting --direct=1",
    ] {
        let device = RecordingDevice::new(64 * MIB);
        let jobs = jobs(text);
        let statistics = Engine::new(&device).run(&jobs, &mut |_| true).expect("it runs");
        let mut ranges: Vec<(u64, u64)> = device.recorded().iter().map(|r| (r.1, r.2)).collect();
        ranges.sort_unstable();
        ranges.dedup();
        assert_eq!(ranges.iter().map(|r| r.1).sum::<u64>(), jobs.len() as u64 * MIB, "{text}");
        assert_eq!(statistics.reports(&jobs)[0].stats.total_ios(), ranges.len() as u64, "{text}");
    }
}

#[test]
fn an_error_ends_the_job_and_names_the_failed_request() {
    let device = RecordingDevice { fails_at: 2 * MIB, ..RecordingDevice::new(64 * MIB) };
    let jobs = jobs("--name=a --rw=read --bs=1m --size=8m --direct=1");
    let mut engine = Engine::new(&device);
    let statistics = engine.run(&jobs, &mut |_| true).expect("an I/O error is part of the statistics");
    let error = engine.take_error().expect("the third request fails");
    assert_eq!((error.offset, error.length, error.is_gone()), (2 * MIB, MIB, false));
    assert_eq!(statistics.job(0).failure.expect("the job failed").io.offset, 2 * MIB);
    assert_eq!(device.recorded().len(), 3, "a request follows the failed one, or one is missing");
}

#[test]
fn a_device_that_disappears_is_recognised() {
    for errno in [6, 19] {
        let device = RecordingDevice { fails_at: 0, errno, ..RecordingDevice::new(64 * MIB) };
        let mut engine = Engine::new(&device);
        let jobs = jobs("--name=a --rw=randread --bs=4k --ioengine=libaio --iodepth=4 --direct=1");
        engine.run(&jobs, &mut |_| true).expect("an I/O error is part of the statistics");
        assert!(engine.take_error().expect("every request fails").is_gone(), "{errno}");
    }
}

#[test]
fn a_stopped_run_submits_no_more_requests_and_reports_those_that_ran() {
    for depth in [1, 4] {
        let device = RecordingDevice::new(64 * MIB);
        let jobs = jobs(&format!(
            "--name=a --rw=randread --bs=4k --time_based --runtime=3600 --ioengine=libaio --iodepth={depth} --direct=1"
        ));
        let mut asked = 0;
        let statistics = Engine::new(&device)
            .run(&jobs, &mut |_| {
                asked += 1;
                asked < 2
            })
            .expect("it runs");
        let count = device.recorded().len() as u64;
        assert_eq!(statistics.job(0).direction(Direction::Read).total_ios(), count, "depth {depth}");
        assert!(count > 0);
    }
}

/// A device that reads as zeros. It panics on a write of zeros. If `dies` is set, it also panics on a read.
struct Zeros {
    dies: bool,
}

impl Channel for Zeros {
    fn read(&mut self, _: u64, buffer: &mut [u8]) -> io::Result<()> {
        assert!(!self.dies, "the device dies");
        buffer.fill(0);
        Ok(())
    }
    fn write(&mut self, _: u64, data: &[u8]) -> io::Result<()> {
        assert!(data.iter().any(|byte| *byte != 0), "a write sends the data of a read");
        Ok(())
    }
    fn discard(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn flush(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

impl Target for Zeros {
    fn capacity(&self) -> u64 {
        64 * MIB
    }
    fn block(&self) -> u32 {
        512
    }
    fn discards(&self) -> bool {
        true
    }
    fn channel(&self) -> io::Result<Box<dyn Channel>> {
        Ok(Box::new(Zeros { dies: self.dies }))
    }
}

#[test]
fn writes_send_random_bytes_after_reads() {
    for depth in [1, 4] {
        let jobs = jobs(&format!(
            "--name=a --rw=randrw --bs=4k --size=1m --ioengine=libaio --iodepth={depth} --direct=1"
        ));
        Engine::new(&Zeros { dies: false }).run(&jobs, &mut |_| true).expect("it runs");
    }
}

#[test]
#[should_panic(expected = "a scoped thread panicked")]
fn a_thread_that_panics_ends_the_run() {
    let jobs = jobs("--name=a --rw=randread --bs=4k --size=1m --ioengine=libaio --iodepth=4 --direct=1");
    let _ = Engine::new(&Zeros { dies: true }).run(&jobs, &mut |_| true);
}
