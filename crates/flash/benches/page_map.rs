//! How fast the page-mapped translation layer is at count level: host writes and array operations per CPU second.
//!
//! `cargo bench -p flashlab-flash --bench page_map`. A device of 64 GiB, 8 channels of 4 dies, pages of 16 KiB with four
//! units each, 256 pages a block; written once in sequence, then at random until collection is steady (two drive
//! writes), then measured. The yardstick is MQSim with 88 to 104 thousand steady writes a CPU second, in simulated time.
//! Nothing here is a test: it prints.

use cpu_time::ProcessTime;
use flashlab_flash::ftl::page_map::{Accepted, PageMap, PageMapParameters, Streams};
use flashlab_flash::ftl::{LevellingPolicy, Victim};
use flashlab_flash::nand::{Cell, Geometry};
use flashlab_sim::Rng;

const GIB: u64 = 1 << 30;
/// Requests drawn ahead, whose map lines are loaded meanwhile.
const AHEAD: usize = 16;

fn main() {
    let capacity = std::env::args().filter_map(|a| a.parse::<u64>().ok()).next().unwrap_or(64) * GIB;
    println!(
        "4 KiB random writes, uniform, greedy, {} GiB, 8 x 4 dies, 16 KiB pages, 256 pages a block, count level",
        capacity / GIB
    );
    for spare_percent in [28, 7] {
        let parameters = parameters(capacity, spare_percent);
        let mut map = PageMap::new(&parameters, 1);
        for unit in 0..map.units() {
            write(&mut map, unit);
        }
        let units = u64::from(map.units());
        let mut rng = Rng::new(1);
        random_writes(&mut map, &mut rng, 2 * units);
        let before = map.written();
        let requests = units.max(8_000_000);
        let start = ProcessTime::now();
        random_writes(&mut map, &mut rng, requests);
        let seconds = start.elapsed().as_secs_f64();
        let written = map.written().since(&before);
        let effective = (map.effective_units() - map.valid_units()) as f64 / map.valid_units() as f64;
        println!(
            "{spare_percent:2} % spare ({:.2} % effective): {:.2} million host writes a CPU second, amplification {:.3}, {} \
             requests in {seconds:.2} s, {:.2} million units programmed a CPU second",
            100.0 * effective,
            requests as f64 / seconds / 1e6,
            written.amplification(),
            requests,
            written.total() as f64 / seconds / 1e6,
        );
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned();
        println!("{peak}");
    }
}

fn parameters(capacity: u64, spare_percent: u64) -> PageMapParameters {
    let (channels, dies, pages, page) = (8, 4, 256, 16_384);
    let block = u64::from(pages) * page;
    let raw = capacity / 100 * (100 + spare_percent);
    let blocks = raw.div_ceil(block * u64::from(channels * dies)) as u32;
    PageMapParameters {
        geometry: Geometry { channels, dies, planes: 1, blocks, pages, page },
        cell: Cell::Tlc,
        unit: 4_096,
        capacity,
        map_pages: 0,
        victim: Victim::Greedy,
        streams: Streams::Two,
        reserve: 3,
        idle_free: 0,
        write_buffer: 1 << 20,
        slc: None,
        levelling: LevellingPolicy::Dynamic,
        endurance: None,
    }
}

fn random_writes(map: &mut PageMap, rng: &mut Rng, requests: u64) {
    let units = u64::from(map.units());
    let mut ring = [0u32; AHEAD];
    for unit in &mut ring {
        *unit = rng.below(units) as u32;
        map.prefetch(*unit);
    }
    for request in 0..requests {
        let place = request as usize % AHEAD;
        let unit = std::mem::replace(&mut ring[place], rng.below(units) as u32);
        map.prefetch(ring[place]);
        write(map, unit);
    }
}

fn write(map: &mut PageMap, unit: u32) {
    while map.write(unit) == Accepted::Full {
        map.settle();
    }
    map.settle();
}
