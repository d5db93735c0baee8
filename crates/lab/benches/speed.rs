//! How fast simulation is: requests per CPU second, beside fio's own request generator, and the memory it takes.
//!
//! `cargo bench -p flashlab-lab`. Figures are medians of several runs in one process; the ratio beside the peer is taken
//! in the same run, since machines differ and are shared. Nothing here is a test: it prints.

use cpu_time::ProcessTime;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Direction;
use flashlab_fio::loader::Nothing;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::Bench;
use flashlab_lab::device::Device;
use flashlab_lab::experiment::Experiment;
use flashlab_lab::library::Library;
use std::process::Command;

const REPEATS: usize = 5;
const MILLION: f64 = 1e6;

fn main() {
    let library = Library::built_in().expect("the repository's own library");
    println!(
        "machine: {}, {} threads",
        processor(),
        std::thread::available_parallelism().map_or(1, usize::from)
    );

    let seconds = median(|| {
        let start = ProcessTime::now();
        let experiment = Experiment::open("sd-cards", &library).expect("it exists");
        experiment.run(&library, 1, &()).expect("it runs");
        start.elapsed().as_secs_f64()
    });
    println!("run sd-cards: {seconds:.2} CPU seconds for the 480 runs and their layouts");

    let ours = median(|| random_reads("sd/kingston", false, &library));
    let used = median(|| random_reads("sd/kingston", true, &library));
    println!(
        "4 KiB random reads, depth 1, card model, full statistics: {:.1} million a CPU second on a fresh card, {:.1} on \
         one of which 16 GiB were written at random",
        ours / MILLION,
        used / MILLION
    );
    match fio_null() {
        Some(theirs) => println!(
            "fio's null engine, the same job: {:.1} million a CPU second; ratio {:.2}",
            theirs / MILLION,
            ours / theirs
        ),
        None => println!("fio is not installed: no peer to compare with"),
    }
    println!("peak memory: {}", peak_memory());
}

fn median(mut measure: impl FnMut() -> f64) -> f64 {
    let mut figures: Vec<f64> = (0..REPEATS).map(|_| measure()).collect();
    figures.sort_by(f64::total_cmp);
    figures[REPEATS / 2]
}

/// Requests per CPU second of random reads over 16 GiB, on a fresh card or on one that was written there at random.
fn random_reads(device: &str, used: bool, library: &Library) -> f64 {
    let jobs = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Invocation::parse(&words, &Nothing).expect("a job").jobs
    };
    let mut bench = Bench::new(Device::open(device, library).expect("a card").build(1));
    if used {
        let writes =
            "--name=used --filename=x --rw=randwrite --bs=4k --filesize=16G --number_ios=500000 --direct=1";
        bench.run(&jobs(writes), &Settings::default()).expect("it runs");
    }
    let reads =
        jobs("--name=a --filename=x --rw=randread --bs=4k --filesize=16G --number_ios=4000000 --direct=1");
    let start = ProcessTime::now();
    let statistics = bench.run(&reads, &Settings::default()).expect("it runs");
    let done = statistics.job(0).direction(Direction::Read).total_ios();
    done as f64 / start.elapsed().as_secs_f64()
}

/// Requests per CPU second of fio's null engine, from fio's own account; `None` where fio is not installed.
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
