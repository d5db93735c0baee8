//! Benchmark of the page-mapped translation layer: host writes and array operations per CPU second, at count
//! level (without times) and on the event-exact array.
//!
//! `cargo bench -p flashlab-flash --bench page_map [-- GIB]`. The device has 64 GiB, 8 channels of 4 dies,
//! pages of 16 KiB with four units each, and 256 pages per block. Before it measures, the benchmark writes
//! the device once in sequence, and then at random until garbage collection is steady. The random writes are
//! six drive writes. With `--quick`, they are two drive writes, after which garbage collection is not quite
//! steady. For comparison, MQSim reaches 88 to 104 thousand steady writes per CPU second.
//!
//! Accesses to the maps are scattered, so the benchmark allocates huge pages, as the program does. The benchmark
//! asserts nothing.

use cpu_time::ProcessTime;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::{Accepted, Outcome, PageMap, PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Channels, Geometry, Scheduling, Timing};
use flashlab_sim::{Duration, Histogram, Instant, Rng};

const GIB: u64 = 1 << 30;
const MILLION: f64 = 1e6;
/// Number of requests drawn ahead, so that the cache lines of their map entries can be prefetched.
const AHEAD: usize = 16;
/// Number of repetitions of each measurement, because other programs may run on the machine.
const REPEATS: usize = 3;
/// Allocator of the program.
#[global_allocator]
static ALLOCATOR: flashlab_block::HugePages = flashlab_block::HugePages;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let warm_up = if arguments.iter().any(|a| a == "--quick") { 2 } else { 6 };
    let gib = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(64);
    println!(
        "4 KiB random writes, uniform, greedy, {gib} GiB, 8 x 4 dies, 16 KiB pages, 256 pages a block, after {warm_up} drive writes"
    );
    for spare_percent in [28, 7] {
        let mut writer = Writer::new(gib * GIB, spare_percent, warm_up);
        writer.report(&format!("{spare_percent:2} % spare, count level"), |writer| writer.count(1));
        let mut exact = Exact::new(&writer.map);
        writer.report(&format!("{spare_percent:2} % spare, exact array"), |writer| exact.write(writer));
        println!("   {}", exact.summary());
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    }
}

fn parameters(capacity: u64, spare_percent: u64) -> PageMapParameters {
    let (channels, dies, pages, page) = (8, 4, 256, 16_384);
    let block = u64::from(pages) * page;
    let raw = capacity / 100 * (100 + spare_percent);
    // The spare space excludes the reserve of each die and the unwritten part of its two open blocks.
    let reserve = 3;
    let blocks = raw.div_ceil(block * u64::from(channels * dies)) as u32 + reserve + 1;
    PageMapParameters {
        geometry: Geometry { channels, dies, planes: 1, blocks, pages, page },
        cell: Cell::Tlc,
        unit: 4_096,
        capacity,
        map_pages: 0,
        victim: VictimPolicy::Greedy,
        streams: Streams::Two,
        reserve,
        idle_free: 0,
        write_buffer: 2 << 20,
        slc: None,
        leveling: LevelingPolicy::Dynamic,
        endurance: None,
    }
}

/// Device in its steady state, and the requests drawn ahead.
struct Writer {
    map: PageMap,
    rng: Rng,
    ahead: [u32; AHEAD],
    place: usize,
}

impl Writer {
    /// Creates a device and writes it once in sequence, then `warm_up` times at random.
    fn new(capacity: u64, spare_percent: u64, warm_up: u64) -> Self {
        let map = PageMap::new(&parameters(capacity, spare_percent), 1);
        let mut writer = Writer { map, rng: Rng::new(1), ahead: [0; AHEAD], place: 0 };
        for unit in 0..writer.map.units() {
            writer.write_now(unit);
        }
        writer.count(warm_up);
        writer
    }

    fn next(&mut self) -> u32 {
        let fresh = self.rng.below(u64::from(self.map.units())) as u32;
        self.map.prefetch(fresh);
        self.place = (self.place + 1) % AHEAD;
        std::mem::replace(&mut self.ahead[self.place], fresh)
    }

    fn write_now(&mut self, unit: u32) {
        while self.map.write(unit) == Accepted::Full {
            self.map.settle();
        }
        self.map.settle();
    }

    /// Does `drive_writes` drive writes at count level.
    fn count(&mut self, drive_writes: u64) {
        for _ in 0..drive_writes * u64::from(self.map.units()) {
            let unit = self.next();
            self.write_now(unit);
        }
    }

    /// Measures `drive_write` several times and prints its rates.
    fn report(&mut self, what: &str, mut drive_write: impl FnMut(&mut Writer)) {
        let before = self.map.written();
        let mut seconds: Vec<f64> = (0..REPEATS)
            .map(|_| {
                let start = ProcessTime::now();
                drive_write(self);
                start.elapsed().as_secs_f64()
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        let written = self.map.written().since(&before);
        let (requests, repeats) = (f64::from(self.map.units()), REPEATS as f64);
        // Approximation: each moved page was also read once.
        let operations =
            (written.total() + written.gc) as f64 / repeats / f64::from(self.map.units_per_page());
        let mapped = self.map.valid_units() as f64;
        let effective = self.map.effective_units() as f64 / mapped - 1.0;
        println!(
            "{what} ({:.2} % effective): best {:.2}, median {:.2} million host writes a CPU second, amplification {:.3}, \
             {:.2} million array operations a CPU second, {} requests in {:.2} s",
            100.0 * effective,
            requests / seconds[0] / MILLION,
            requests / seconds[REPEATS / 2] / MILLION,
            written.amplification(),
            operations / seconds[0] / MILLION,
            self.map.units(),
            seconds[0],
        );
    }
}

/// Array in simulated time, with a host that writes as fast as the write buffer accepts data.
struct Exact {
    channels: Channels,
    now: Instant,
    latency: Histogram,
}

impl Exact {
    fn new(map: &PageMap) -> Self {
        let us = Duration::from_us;
        let timing = Timing {
            cell: Cell::Tlc,
            t_read: us(60),
            t_read_spread_ppm: 100_000,
            t_read_slc: us(25),
            t_prog: [us(500), us(700), us(900), us(0)],
            t_prog_slc: us(200),
            t_bers: Duration::from_ms(5),
            channel_rate: 1_200_000_000,
            t_command: Duration::from_ns(300),
        };
        let channels = Channels::new(&map.parameters().geometry, &timing, &Scheduling::FIRST_COME, 1);
        Exact { channels, now: Instant::ZERO, latency: Histogram::new() }
    }

    /// Does one drive write.
    fn write(&mut self, writer: &mut Writer) {
        for _ in 0..writer.map.units() {
            let unit = writer.next();
            let asked = self.now;
            while writer.map.write(unit) == Accepted::Full {
                self.issue(&mut writer.map);
                let finished = self.channels.complete(Instant::MAX).expect("the array works");
                self.now = finished.at;
                writer.map.finished(&finished.operation, Outcome::Ok);
            }
            self.latency.record(self.now.since(asked));
        }
    }

    fn issue(&mut self, map: &mut PageMap) {
        while let Some(operation) = map.poll() {
            self.channels.submit(self.now, &operation);
        }
    }

    fn summary(&self) -> String {
        let moments = self.latency.moments();
        format!(
            "{:.1} thousand writes a simulated second, {} of them recorded, the longest waited {:.2} ms",
            moments.count() as f64 / self.now.since(Instant::ZERO).as_secs_f64() / 1e3,
            moments.count(),
            moments.max_ns() as f64 / 1e6,
        )
    }
}
