//! Measures how fast a whole drive is simulated, in requests and in array operations per CPU second. The load
//! is fio jobs with full statistics.
//!
//! `cargo bench -p flashlab-nvme` runs the benchmark. The drive has 8 channels of 4 dies, pages of 16 KiB
//! with four units each, and 256 pages per block. Each die serves its operations in order of arrival. One job
//! reads at random from 256 GiB that were written in sequence. The other job writes at random to 64 GiB, with
//! 28 % and with 7 % of spare area. Before these writes, six random drive writes bring garbage collection to
//! its steady state. With `--quick`, two drive writes bring garbage collection close to that state. For
//! comparison, MQSim simulates 46 to 53 thousand reads and 88 to 104 thousand steady writes per CPU second.
//! The benchmark prints its results and checks nothing.

use cpu_time::ProcessTime;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::{Settings, Statistics};
use flashlab_fio::workload::{Jobs, Task};
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::map_cache::{HostMemoryPolicy, MapCacheParameters};
use flashlab_flash::ftl::page_map::{PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Geometry, Scheduling, Timing};
use flashlab_host::driver::hmb;
use flashlab_nvme::hmb::Limits;
use flashlab_nvme::{Controller, Generation, LinkParameters, Ssd, SsdParameters};
use flashlab_sim::{Duration, Instant, Model, Observer};

const GIB: u64 = 1 << 30;
const MILLION: f64 = 1e6;

fn main() {
    let (options, filter): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let warm_up = if options.iter().any(|option| option == "--quick") { 2 } else { 6 };
    let gib = filter.iter().find_map(|f| f.parse::<u64>().ok());
    let wanted = |name: &str| {
        let mut names = filter.iter().filter(|f| f.parse::<u64>().is_err()).peekable();
        names.peek().is_none() || names.any(|f| name.contains(f.as_str()))
    };
    if wanted("reads") {
        reads(gib.unwrap_or(256));
    }
    for spare_percent in [28, 7] {
        if wanted("writes") {
            writes(gib.unwrap_or(64), spare_percent, warm_up);
        }
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    }
}

/// Number of runs of each measurement. A single run is not enough, because the machine may be shared.
const REPEATS: usize = 7;

/// Returns millions of requests per CPU second: the best and the median of several runs of `requests`.
fn rates(requests: u64, run: impl FnMut(usize) -> f64) -> (f64, f64) {
    let mut seconds: Vec<f64> = (1..=REPEATS).map(run).collect();
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| requests as f64 / seconds / MILLION;
    (rate(seconds[0]), rate(seconds[REPEATS / 2]))
}

fn reads(gib: u64) {
    let mut drive = Drive::new(gib * GIB, 28);
    let fill = "--name=fill --filename=x --rw=write --bs=1m --ioengine=libaio --direct=1 --iodepth=4";
    let (_, seconds) = drive.run(fill);
    println!("{gib} GiB written in sequence in {seconds:.2} CPU seconds");
    let requests = (gib * GIB / 4096).min(2_000_000);
    for depth in [32, 128] {
        let job = format!(
            "--name=r --filename=x --rw=randread --bs=4k --ioengine=libaio --direct=1 --iodepth={depth} \
             --number_ios={requests}"
        );
        let (best, median) = rates(requests, |n| drive.run(&format!("{job} --randseed={n}")).1);
        println!(
            "4 KiB random reads, depth {depth}, {gib} GiB: {best:.2} million requests, with as many array \
             operations, per CPU second at best, {median:.2} in the median of {REPEATS} runs of {requests}"
        );
    }
}

fn writes(gib: u64, spare_percent: u64, warm_up: u64) {
    let mut drive = Drive::new(gib * GIB, spare_percent);
    drive.run("--name=fill --filename=x --rw=write --bs=1m --ioengine=libaio --direct=1 --iodepth=4");
    let units = gib * GIB / 4096;
    let random = |requests: u64| {
        format!(
            "--name=w --filename=x --rw=randwrite --bs=4k --ioengine=libaio --direct=1 --iodepth=128 \
             --number_ios={requests} --norandommap"
        )
    };
    drive.run(&random(warm_up * units));
    let before = drive.programmed();
    let requests = units.min(2_000_000);
    let (best, median) = rates(requests, |n| drive.run(&format!("{} --randseed={n}", random(requests))).1);
    let programs = (drive.programmed() - before) / 16_384;
    let amplification = programs as f64 * 4.0 / (requests * REPEATS as u64) as f64;
    println!(
        "4 KiB random writes, depth 128, {gib} GiB, {spare_percent} % spare, after {warm_up} drive writes, amplification {amplification:.2}: {best:.2} million \
         requests and {:.2} million programs per CPU second at best, {median:.2} and {:.2} in the median of \
         {REPEATS} runs of {requests}",
        best * amplification / 4.0,
        median * amplification / 4.0,
    );
}

struct Drive {
    model: Box<dyn Model>,
    now: Instant,
}

impl Drive {
    fn new(capacity: u64, spare_percent: u64) -> Self {
        Drive {
            model: Box::new(Ssd::new(parameters(capacity, spare_percent), hmb::linux, 1)),
            now: Instant::ZERO,
        }
    }

    /// Runs a job. Returns simulated and CPU seconds.
    fn run(&mut self, line: &str) -> (f64, f64) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let jobs = Invocation::parse(&words, &NoFiles).expect("a job").jobs;
        let start = ProcessTime::now();
        let mut statistics = Statistics::new(&jobs, &Settings::default());
        let capacity = self.model.geometry().capacity;
        let tasks = jobs.iter().zip(0..).map(|(job, n)| Task::on_device(job, n, capacity)).collect();
        let mut workload =
            Jobs::new(self.now, tasks, statistics.wave(0..jobs.len())).expect("it fits the device");
        let begin = self.now;
        self.now = flashlab_sim::run(&mut *self.model, &mut workload, begin);
        (self.now.since(begin).as_secs_f64(), start.elapsed().as_secs_f64())
    }

    fn programmed(&self) -> u64 {
        struct Find(u64);
        impl Observer for Find {
            fn count(&mut self, name: &'static str, value: u64) {
                if name == "programmed_bytes" {
                    self.0 += value;
                }
            }
        }
        let mut find = Find(0);
        self.model.observe(&mut find);
        find.0
    }
}

fn parameters(capacity: u64, spare_percent: u64) -> SsdParameters {
    let (channels, dies, pages, page) = (8, 4, 256, 16_384);
    let raw = capacity / 100 * (100 + spare_percent);
    let blocks = raw.div_ceil(u64::from(pages) * page * u64::from(channels * dies)) as u32;
    let geometry = Geometry { channels, dies, planes: 1, blocks, pages, page };
    let us = Duration::from_us;
    SsdParameters {
        block: 512,
        request_max: 2 << 20,
        controller: Controller {
            depth: 1_024,
            t_command: Duration::ZERO,
            t_command_write: Duration::ZERO,
            t_command_unmapped: Duration::ZERO,
            t_idle: us(1_000),
        },
        link: LinkParameters {
            generation: Generation::Gen4,
            lanes: 4,
            payload: 256,
            t_way: Duration::from_ns(150),
        },
        page_map: PageMapParameters {
            geometry,
            cell: Cell::Tlc,
            unit: 4_096,
            capacity,
            map_pages: 0,
            victim: VictimPolicy::Greedy,
            streams: Streams::Two,
            reserve: 3,
            idle_free: 0,
            write_buffer: 4 << 20,
            slc: None,
            leveling: LevelingPolicy::Dynamic,
            endurance: None,
        },
        timing: Timing {
            cell: Cell::Tlc,
            t_read: us(50),
            t_read_spread_ppm: 250_000,
            t_read_slc: us(25),
            t_prog: [us(300), us(600), us(900), Duration::ZERO],
            t_prog_slc: us(200),
            t_bers: us(5_000),
            channel_rate: 1_200_000_000,
            t_command: Duration::ZERO,
        },
        scheduling: Scheduling::FIRST_COME,
        reliability: None,
        map: MapCacheParameters {
            sram: None,
            page: 4_096,
            entry: 4,
            dirty: 0,
            t_look: Duration::ZERO,
            t_hmb: Duration::ZERO,
            t_load: Duration::ZERO,
            t_write_back: Duration::ZERO,
            loaders: 1,
            blocking: true,
            policy: HostMemoryPolicy::CleanMap,
        },
        hmb: Limits::default(),
        lend_max: 0,
    }
}
