//! Measures the speed of simulation in simulated requests and flash operations per CPU second, compared with fio's own
//! request generator, and the peak memory.
//!
//! Run `cargo bench -p flashlab-lab --bench speed`, optionally with some of `cards reads writes wear hmb`
//! after `--`. All measurements use the same parts as a user's runs: profiles, fio jobs, full statistics,
//! exact scheduling. "count only" is the translation layer alone, without time. The drive is `nvme/reference`
//! (8 channels of 4 dies, pages of 16 KiB with four 4 KiB units each, 256 pages per block). It is written
//! once sequentially before reads are measured; before writes are measured, six times its capacity is written
//! at random. The spare is (T - U) / U, as in the closed forms of write amplification: T is the number of raw
//! pages without the reserve that garbage collection keeps free, and U the number of mapped pages. CPU
//! seconds are those of the process, on one core except for experiments, which use all cores.
//!
//! The yardstick is MQSim on one core with a device of the same shape: 46 to 53 thousand 4 KiB random reads and 88 to
//! 104 thousand steady random writes per CPU second. Each row names the workload, the device and the number of
//! requests, so that MQSim can run the same. With `MQSIM=PROGRAM`, the benchmark also runs MQSim. Figures from
//! different machines are not comparable. The benchmark prints figures and asserts none.

mod mqsim;

use cpu_time::ProcessTime;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Direction;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_flash::ftl::page_map::{Accepted, PageMap};
use flashlab_lab::bench::Bench;
use flashlab_lab::experiment::Experiment;
use flashlab_lab::progress::Progress;
use flashlab_lab::statistics::Counters;
use flashlab_nvme::SsdParameters;
use flashlab_sim::Rng;
use std::path::Path;
use std::process::Command;

/// The same allocator as in the `flashlab` program.
#[global_allocator]
static ALLOCATOR: flashlab_block::HugePages = flashlab_block::HugePages;

const REPEATS: usize = 5;
const MILLION: f64 = 1e6;
const GIB: u64 = 1 << 30;
/// Number of drive writes at random addresses after which random writes are in a steady state.
const DRIVE_WRITES: u64 = 6;
/// Size in bytes of a program operation of the reference drive.
const PAGE: u64 = 16 << 10;

fn main() {
    let library = Library::built_in().expect("the repository's own library");
    println!(
        "{}, {} threads; five cycles of arithmetic take {:.2} ns (1.67 at 3 GHz)",
        processor(),
        std::thread::available_parallelism().map_or(1, usize::from),
        step_ns(),
    );
    println!(
        "yardstick: MQSim, one core: 0.046 to 0.053 M random reads, 0.088 to 0.104 M steady random writes a CPU second\n"
    );
    let asked: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    type Part = (&'static str, fn(&Library));
    let parts: [Part; 5] =
        [("cards", cards), ("reads", reads), ("writes", writes), ("wear", wear), ("hmb", hmb)];
    for (_, part) in parts.iter().filter(|(name, _)| asked.is_empty() || asked.iter().any(|a| a == name)) {
        part(&library);
        println!();
    }
    println!("peak memory: {}", peak_memory());
}

fn cards(library: &Library) {
    let seconds = median(|| experiment_seconds("sd-cards", library));
    println!("run sd-cards: {seconds:.2} CPU seconds for the 480 runs and their layouts");
    let ours = median(|| card_reads("sd/kingston", false, library));
    let used = median(|| card_reads("sd/kingston", true, library));
    println!(
        "4 KiB random reads, depth 1, card model, full statistics: {:.1} million a CPU second on a fresh card, {:.1} \
         on a card after random writes over 16 GiB",
        ours / MILLION,
        used / MILLION
    );
    let commanded = median(|| card_reads("sd/kingston:host.stack=commands", false, library));
    println!(
        "the same reads as SD commands (CMD18, eight blocks, CMD12), through the host stack, without data: {:.1} \
         million a CPU second",
        commanded / MILLION
    );
    match fio_null() {
        Some(theirs) => println!(
            "fio's null engine, the same job: {:.1} million a CPU second; ratio {:.2}",
            theirs / MILLION,
            ours / theirs
        ),
        None => println!("fio is not installed: no peer to compare with"),
    }
}

/// Prints the header of a table of rates.
fn head() {
    println!(
        "{:44} {:38} {:>10} {:>7} {:>9} {:>11} {:>6}",
        "workload", "device", "requests", "CPU s", "M req/s", "M flash op/s", "WA"
    );
}

/// The measurements of one workload.
struct Row {
    workload: String,
    device: String,
    requests: u64,
    seconds: f64,
    operations: u64,
    amplification: Option<f64>,
}

impl Row {
    /// Returns requests per CPU second.
    fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    fn print(&self) {
        let rate = |n: u64| n as f64 / self.seconds / MILLION;
        println!(
            "{:44} {:38} {:>10} {:>7.2} {:>9.3} {:>12.3} {:>6}",
            self.workload,
            self.device,
            self.requests,
            self.seconds,
            rate(self.requests),
            rate(self.operations),
            self.amplification.map_or(String::new(), |wa| format!("{wa:.2}")),
        );
    }
}

fn reads(library: &Library) {
    head();
    let device = "nvme/reference";
    let mut bench = Bench::with(&open(device, library), 1);
    run(&mut bench, FILL);
    for depth in [32, 128] {
        let job = format!(
            "--name=r --filename=x --rw=randread --bs=4k --ioengine=libaio --direct=1 --iodepth={depth} --number_ios=8000000"
        );
        let ours = measure(&mut bench, format!("4 KiB random reads, depth {depth}"), device, &job);
        ours.print();
        for (whole_map, device) in
            [(true, "8 x 4 dies, its map in memory"), (false, "8 x 4 dies, 2 MiB of its map")]
        {
            beside_mqsim(&ours, "reads", device, |program| mqsim::random_reads(program, whole_map, depth));
        }
    }
}

/// Prints the row of MQSim for the same workload, if `MQSIM` names its program.
fn beside_mqsim(ours: &Row, what: &str, device: &str, run: impl Fn(&Path) -> Result<mqsim::Done, String>) {
    let Some(program) = std::env::var_os("MQSIM") else { return };
    let done = match run(program.as_ref()) {
        Ok(done) => done,
        Err(why) => return println!("  MQSim: {why}"),
    };
    let mqsim::Done { requests, seconds, operations, programs } = done;
    let theirs = Row {
        workload: format!("the same {what} by MQSim"),
        device: device.to_owned(),
        requests,
        seconds,
        operations,
        amplification: (programs > 0).then(|| (programs * PAGE) as f64 / (requests * 4096) as f64),
    };
    theirs.print();
    println!("  ratio {:.0}", ours.rate() / theirs.rate());
}

const FILL: &str = "--name=fill --filename=x --rw=write --bs=1m --ioengine=libaio --direct=1 --iodepth=4";

fn writes(library: &Library) {
    let look_up = look_up_ns();
    head();
    // Pairs of a spare in per cent and the number of blocks per die that gives this spare. The reserve that
    // garbage collection keeps free does not count as spare.
    for (spare, blocks) in [(28, 660), (7, 552)] {
        let device = format!("nvme/reference:capacity=64GiB,blocks={blocks}");
        let opened = open(&device, library);
        let random = |requests: u64| {
            format!(
                "--name=w --filename=x --rw=randwrite --bs=4k --ioengine=libaio --direct=1 --iodepth=128 --norandommap \
                 --io_size={}",
                4096 * requests
            )
        };
        let mut bench = Bench::with(&opened, 1);
        run(&mut bench, FILL);
        run(&mut bench, &random(DRIVE_WRITES * 64 * GIB / 4096));
        let workload = format!("steady 4 KiB random writes, {spare} % spare, depth 128");
        let exact = measure(&mut bench, workload, &device, &random(4_000_000));
        exact.print();
        beside_mqsim(&exact, "writes", "8 x 4 dies, 17 GiB, a page for each", |program| {
            mqsim::random_writes(program, spare, 128)
        });
        let effective = bench.counters().get("effective_spare_ppm") as f64 / 1e4;
        drop(bench);
        count_only(&opened, spare, &device).print();
        println!("  effective spare, without the reserve of garbage collection: {effective:.2} %");
        // A write looks up the map entry of its unit when the unit is accepted and each time the unit is
        // programmed. It also looks up the valid bit of the old copy.
        let look_ups = 2.0 + exact.amplification.unwrap_or_default();
        println!(
            "  {:.0} ns a write; its {look_ups:.1} look-ups in large tables take {:.0} ns on this machine, with \
             sixteen in parallel",
            1e9 * exact.seconds / exact.requests as f64,
            look_ups * look_up,
        );
    }
}

/// Returns the nanoseconds of a random look-up in a table as large as the map of a 64 GiB drive, if sixteen look-ups
/// run in parallel.
fn look_up_ns() -> f64 {
    const TOGETHER: usize = 16;
    const ROUNDS: u64 = 500_000;
    let units = 64 * GIB / 4096;
    let table: Vec<u32> = (0..units as u32).collect();
    let mut rng = Rng::new(1);
    let mut sum = 0;
    let start = ProcessTime::now();
    for _ in 0..ROUNDS {
        // The addresses of the next sixteen look-ups depend on the values of these sixteen, so the two groups cannot
        // overlap.
        let places: [u64; TOGETHER] = std::array::from_fn(|_| rng.below(units) ^ (sum & 1));
        sum += places.iter().map(|place| u64::from(table[*place as usize])).sum::<u64>();
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!(std::hint::black_box(sum) > 0);
    seconds * 1e9 / (ROUNDS * TOGETHER as u64) as f64
}

/// Measures the writes of `writes` on the translation layer alone.
fn count_only(device: &Device, spare: u32, name: &str) -> Row {
    const AHEAD: usize = 16;
    let Some(ssd) = device.hardware::<SsdParameters>() else { panic!("{name} is an SSD") };
    let mut map = PageMap::new(&ssd.layer(), 1);
    let units = map.units();
    let write = |map: &mut PageMap, unit| {
        while map.write(unit) == Accepted::Full {
            map.settle();
        }
        map.settle();
    };
    (0..units).for_each(|unit| write(&mut map, unit));
    let mut rng = Rng::new(1);
    let mut ring: [u32; AHEAD] = std::array::from_fn(|_| rng.below(units.into()) as u32);
    let mut random = |map: &mut PageMap, requests: u64| {
        for request in 0..requests {
            let next = rng.below(units.into()) as u32;
            map.prefetch(next);
            let unit = std::mem::replace(&mut ring[request as usize % AHEAD], next);
            write(map, unit);
        }
    };
    random(&mut map, DRIVE_WRITES * u64::from(units));
    let counters = |map: &PageMap| {
        let mut counters = Counters::default();
        map.observe(&mut counters);
        counters
    };
    let before = counters(&map);
    let requests = 8_000_000;
    let start = ProcessTime::now();
    random(&mut map, requests);
    let seconds = start.elapsed().as_secs_f64();
    row(
        format!("the same writes, {spare} % spare, count only"),
        name,
        requests,
        seconds,
        0,
        (&before, &counters(&map)),
    )
}

/// Measures one run of a job. A median would need one device per repetition, each with gigabytes of memory.
fn measure(bench: &mut Bench, workload: String, device: &str, line: &str) -> Row {
    let before = bench.counters();
    let start = ProcessTime::now();
    let (reads, writes) = run(bench, line);
    let seconds = start.elapsed().as_secs_f64();
    row(workload, device, reads + writes, seconds, reads, (&before, &bench.counters()))
}

fn row(
    workload: String,
    device: &str,
    requests: u64,
    seconds: f64,
    reads: u64,
    (before, after): (&Counters, &Counters),
) -> Row {
    let since = |name| after.since(before, name);
    // Garbage collection reads the data that it moves one unit at a time.
    let moved = (since("collection_moved_bytes") + since("leveling_moved_bytes")) / 4096;
    let operations =
        reads + moved + since("map_read_count") + since("programmed_bytes") / PAGE + since("erase_count");
    let written = since("host_written_bytes");
    let amplification = (written > 0).then(|| since("programmed_bytes") as f64 / written as f64);
    Row { workload, device: device.to_owned(), requests, seconds, operations, amplification }
}

/// Runs a job from a line of fio options. Returns the numbers of read and write requests.
fn run(bench: &mut Bench, line: &str) -> (u64, u64) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let jobs = Invocation::parse(&words, &NoFiles).expect("a job").jobs;
    let statistics = bench.run(&jobs, &Settings::default()).expect("it runs");
    let count = |direction| statistics.job(0).direction(direction).total_ios();
    (count(Direction::Read), count(Direction::Write))
}

fn open(device: &str, library: &Library) -> Device {
    Device::open(device, library).unwrap_or_else(|error| panic!("{error}"))
}

/// Measures the experiment `wear`, one week of writes, column by column.
fn wear(library: &Library) {
    let folder = library.experiment("wear").expect("it is shipped");
    let text = |file: &str| String::from_utf8_lossy(folder.file(file).unwrap_or_default()).into_owned();
    let whole: toml::Table = text("experiment.toml").parse().expect("the library has parsed the file");
    let names = |key: &str| {
        whole.get(key).and_then(toml::Value::as_table).into_iter().flatten().map(|(name, _)| name.clone())
    };
    let steps = whole.get("step").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let here = std::env::temp_dir().join(format!("flashlab-speed-{}", std::process::id()));
    for step in &steps {
        let table = step.get("table").and_then(toml::Value::as_str).unwrap_or_default();
        for column in names("columns") {
            let elsewhere = |columns: &toml::Value| {
                columns.as_array().is_some_and(|c| !c.contains(&column.as_str().into()))
            };
            if step.get("columns").is_some_and(elsewhere) {
                continue;
            }
            let mut one = whole.clone();
            let device = whole["columns"][column.as_str()].clone();
            one.insert("columns".into(), toml::Table::from_iter([(column.clone(), device)]).into());
            let mut step = step.clone();
            step.as_table_mut().map(|step| step.remove("columns"));
            one.insert("step".into(), vec![step].into());
            one.remove("bound");
            one.remove("variants");
            std::fs::create_dir_all(&here).expect("a temporary folder");
            std::fs::write(here.join("experiment.toml"), one.to_string()).expect("writable");
            std::fs::write(here.join("published.toml"), "").expect("writable");
            let seconds = experiment_seconds(&here.display().to_string(), library);
            println!("run wear, {table}, {column}: {seconds:.2} CPU seconds");
        }
    }
    // An error is ignored because the folder is temporary.
    let _ = std::fs::remove_dir_all(&here);
}

fn hmb(library: &Library) {
    println!("run hmb: {:.2} CPU seconds", experiment_seconds("hmb", library));
}

/// Returns the CPU seconds of a whole experiment.
fn experiment_seconds(name: &str, library: &Library) -> f64 {
    let start = ProcessTime::now();
    let experiment = Experiment::open(name, library).unwrap_or_else(|error| panic!("{error}"));
    experiment.run(library, 1, &Progress::default()).unwrap_or_else(|error| panic!("{error}"));
    start.elapsed().as_secs_f64()
}

fn median(mut measure: impl FnMut() -> f64) -> f64 {
    let mut figures: Vec<f64> = (0..REPEATS).map(|_| measure()).collect();
    figures.sort_by(f64::total_cmp);
    figures[REPEATS / 2]
}

/// Returns requests per CPU second of random reads over 16 GiB, on a fresh card or on a card that was written at random
/// before.
fn card_reads(device: &str, used: bool, library: &Library) -> f64 {
    let mut bench = Bench::with(&open(device, library), 1);
    if used {
        run(
            &mut bench,
            "--name=used --filename=x --rw=randwrite --bs=4k --filesize=16G --number_ios=500000 --direct=1",
        );
    }
    let reads = "--name=a --filename=x --rw=randread --bs=4k --filesize=16G --number_ios=4000000 --direct=1";
    let start = ProcessTime::now();
    let (done, _) = run(&mut bench, reads);
    done as f64 / start.elapsed().as_secs_f64()
}

/// Returns requests per CPU second of fio's null engine, as fio reports them, or `None` if fio is not installed.
fn fio_null() -> Option<f64> {
    let arguments = "--name=a --ioengine=null --rw=randread --bs=4k --size=16G --number_ios=4000000 --direct=1 \
                     --output-format=json --thread";
    let output = Command::new("fio").args(arguments.split_whitespace()).output().ok()?;
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let job = json.get("jobs")?.get(0)?;
    let percent = job.get("usr_cpu")?.as_f64()? + job.get("sys_cpu")?.as_f64()?;
    let seconds = job.get("job_runtime")?.as_f64()? / 1e3 * percent / 100.0;
    Some(job.get("read")?.get("total_ios")?.as_f64()? / seconds)
}

/// Measures a chain of three dependent operations in nanoseconds. The chain takes five cycles on most processors, so
/// the result shows the effective clock of a core that may be shared.
fn step_ns() -> f64 {
    const STEPS: u64 = 100_000_000;
    let start = ProcessTime::now();
    let last = (0..STEPS).fold(1u64, |x, _| x.wrapping_mul(x | 1).wrapping_add(1));
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(last);
    seconds * 1e9 / STEPS as f64
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name));
    model.map_or_else(|| "unknown processor".into(), |name| name.trim().to_owned())
}

fn peak_memory() -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or_else(|| "unknown on this system".into(), |kib| kib.trim().to_owned())
}
