//! fio jobs on devices with a volatile cache and a command queue.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Job;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::{Settings, Statistics};
use flashlab_lab::bench::Bench;
use flashlab_sim::{Duration, Mechanism};

/// A card of class A2 as a user would describe it: a fitted profile, with the numbers of a typical cache and queue.
const A2: &str = "sd/samsung-evo-plus-a2-256:card.cache=1MiB,card.queue=32,flash.dies=4,host=raspberry-pi-4";
const EMMC: &str = "emmc/typical-16gb";
const FILL: &str = "--direct=1 --size=64M --name=fill --rw=write --bs=1M";

fn open(argument: &str) -> Device {
    let library = Library::built_in().expect("the repository's own library");
    Device::open(argument, &library).unwrap_or_else(|error| panic!("{error}"))
}

fn run(argument: &str, line: &str) -> Statistics {
    let words: Vec<&str> = line.split_whitespace().collect();
    let jobs: Vec<Job> = Invocation::parse(&words, &NoFiles).unwrap_or_else(|error| panic!("{error}")).jobs;
    let mut bench = Bench::new(open(argument).build(1));
    bench.run(&jobs, &Settings::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns random reads a second at a queue depth.
fn reads(argument: &str, depth: u32) -> f64 {
    let line = format!(
        "{FILL} --name=read --stonewall --rw=randread --bs=4k --ioengine=libaio --iodepth={depth} --number_ios=4000"
    );
    run(argument, &line).job(1).directions[0].requests_per_second()
}

#[test]
fn random_reads_gain_with_queue_depth_on_a_host_with_a_queue() {
    for device in [format!("{A2},host.queue=32"), EMMC.to_owned()] {
        let [one, four, many] = [1, 4, 32].map(|depth| reads(&device, depth));
        assert!(four > one * 1.5 && many > four, "{device}: {one}, {four}, {many}");
        let dies = if device == EMMC { 2.0 } else { 4.0 };
        assert!(many < one * (dies + 2.0), "{device}: the dies and what overlaps with them: {one}, {many}");
    }
    let without = [1, 32].map(|depth| reads(A2, depth));
    assert!(without[1] < without[0] * 1.2, "without a queue in the host: {without:?}");
}

/// Returns the mean latency of a job's writes, and that of its flushes.
fn writes(argument: &str, options: &str) -> (Duration, Duration) {
    let line = format!("{FILL} --name=write --stonewall --rw=randwrite --bs=4k --number_ios=300 {options}");
    let statistics = run(argument, &line);
    let mean = |sum_ns: u128, count: u64| Duration::from_ns((sum_ns / u128::from(count.max(1))) as u64);
    let job = statistics.job(1);
    let writes = &job.directions[1].clat;
    (mean(writes.sum_ns(), writes.count()), mean(job.sync.sum_ns(), job.sync.count()))
}

#[test]
fn a_cache_moves_the_cost_of_a_write_to_its_flush() {
    for device in [A2, EMMC] {
        let (write, flush) = writes(device, "--fsync=1");
        assert!(flush > write * 2, "{device}: {write:?}, {flush:?}");
    }
    let (write, flush) = writes("sd/samsung-evo-plus-a2-256:host=raspberry-pi-4", "--fsync=1");
    assert!(flush == Duration::ZERO && write > Duration::ZERO, "without a cache: {write:?}, {flush:?}");
}

#[test]
fn a_full_cache_shows_as_a_mechanism() {
    let line = format!("{FILL} --name=write --stonewall --rw=randwrite --bs=16k --number_ios=4000");
    let statistics = run(EMMC, &line);
    let writes = &statistics.job(1).directions[1];
    assert!(writes.mechanism_ns(Mechanism::Cache) > writes.mechanism_ns(Mechanism::Bus));
    assert_eq!(writes.mechanism_ns(Mechanism::Program), 0, "the array works behind the cache");
}

/// Published measurements of six modules: random writes of 4 KiB reach 0.75 to 1.32 times the rate of
/// sequential writes, on a file of 100 MiB that was written in sequence before.
#[test]
fn emmc_writes_at_random_as_fast_as_in_sequence() {
    let ratio = |argument: &str| {
        let line = "--direct=1 --size=100M --name=fill --rw=write --bs=1M --name=sequence --stonewall --rw=write --bs=4k \
                    --name=random --stonewall --rw=randwrite --bs=4k";
        let statistics = run(argument, line);
        let rate = |job: usize| statistics.job(job).directions[1].requests_per_second();
        rate(2) / rate(1)
    };
    let found = ratio(EMMC);
    assert!((0.75..1.32).contains(&found), "{found}");
    let apart = ratio(&format!("{EMMC}:card.drain=none"));
    assert!(apart < 0.3, "each write has pages and a commit of its own: {apart}");
}

/// A device that is saved with data in its cache continues as if it had been idle until the cache was empty.
#[test]
fn a_saved_device_has_drained_its_cache() {
    let device = open(EMMC);
    let mut model = device.build(1);
    let write = |model: &mut Box<dyn flashlab_sim::Model>, now, n: u64| {
        let (id, op) = (flashlab_sim::RequestId(n), flashlab_sim::Op::Write);
        let file = flashlab_sim::FileId::DEVICE;
        model.submit(now, flashlab_sim::Request { id, op, file, offset: n << 20, length: 4096 });
        model.complete(flashlab_sim::Instant::MAX).expect("it completes").at
    };
    let mut now = flashlab_sim::Instant::ZERO;
    for n in 0..8 {
        now = write(&mut model, now, n);
    }
    assert!(!model.is_durable(&(7 << 20..(7 << 20) + 4096)));
    let saved = model.save().expect("eMMC has a saved form");
    let mut restored = device.build(1);
    restored.restore(&saved).expect("its own state");
    assert!(restored.is_durable(&(0..8 << 20)));
    assert_eq!(restored.save(), Some(saved), "nothing is left to drain");
}
