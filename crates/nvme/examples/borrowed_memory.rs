//! Reads at random from a drive without DRAM, with and without host memory for its map.
//!
//! `cargo run -p flashlab-nvme --example borrowed_memory`

use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::map_cache::{HostMemoryPolicy, MapCacheParameters};
use flashlab_flash::ftl::page_map::{PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Geometry, Scheduling, Timing};
use flashlab_host::driver::hmb;
use flashlab_nvme::hmb::Limits;
use flashlab_nvme::{Controller, Generation, LinkParameters, Ssd, SsdParameters};
use flashlab_sim::{Duration, FileId, Instant, Model, Op, Request, RequestId, Rng};

const MIB: u64 = 1 << 20;
const READS: u64 = 20_000;

fn main() {
    println!("range MiB   without host memory   with 64 KiB   with 1 MiB      (kIOPS, depth 16)");
    for range in [4, 8, 16, 32, 48] {
        let [none, some, all] = [0, 64 << 10, MIB].map(|lent| kiops(lent, range * MIB));
        println!("{range:9}   {none:19.1}   {some:11.1}   {all:10.1}");
    }
}

fn kiops(lent: u64, range: u64) -> f64 {
    let mut drive = Ssd::new(parameters(lent), hmb::linux, 1);
    let mut now = Instant::ZERO;
    let request =
        |id, op, offset, length| Request { id: RequestId(id), op, file: FileId::DEVICE, offset, length };
    for n in 0..48 {
        drive.submit(now, request(0, Op::Write, n * MIB, MIB));
        now = drive.complete(Instant::MAX).expect("a request is outstanding").at;
    }
    // During an idle second, the drive writes its map back. The drive also loads the whole map into host
    // memory, provided that all of it fits.
    let begin = now + Duration::from_secs(1);
    let mut rng = Rng::new(1);
    now = begin;
    for n in 0..READS + 16 {
        if n >= 16 {
            now = drive.complete(Instant::MAX).expect("sixteen are outstanding").at;
        }
        if n < READS {
            drive.submit(now, request(n, Op::Read, rng.below(range / 4096) * 4096, 4096));
        }
    }
    READS as f64 / now.since(begin).as_secs_f64() / 1e3
}

fn parameters(lent: u64) -> SsdParameters {
    let us = Duration::from_us;
    SsdParameters {
        block: 512,
        request_max: MIB,
        controller: Controller {
            depth: 64,
            t_command: us(14),
            t_command_write: us(9),
            t_command_unmapped: us(9),
            t_idle: us(1_000),
        },
        link: LinkParameters {
            generation: Generation::Gen3,
            lanes: 2,
            payload: 256,
            t_way: Duration::from_ns(150),
        },
        page_map: PageMapParameters {
            geometry: Geometry { channels: 4, dies: 2, planes: 2, blocks: 24, pages: 16, page: 16 << 10 },
            cell: Cell::Tlc,
            unit: 4096,
            capacity: 48 * MIB,
            map_pages: 0,
            victim: VictimPolicy::Greedy,
            streams: Streams::Two,
            reserve: 4,
            idle_free: 6,
            write_buffer: MIB,
            slc: None,
            leveling: LevelingPolicy::Dynamic,
            endurance: None,
        },
        timing: Timing {
            cell: Cell::Tlc,
            t_read: us(60),
            t_read_spread_ppm: 250_000,
            t_read_slc: us(30),
            t_prog: [us(300), us(600), us(900), Duration::ZERO],
            t_prog_slc: us(200),
            t_bers: us(5_000),
            channel_rate: 400_000_000,
            t_command: Duration::from_ns(300),
        },
        scheduling: Scheduling::FIRST_COME,
        reliability: None,
        map: MapCacheParameters {
            sram: Some(32 << 10),
            page: 4096,
            // Entries are so large that even this small drive has 192 map pages.
            entry: 64,
            dirty: 64 << 10,
            t_look: Duration::from_ns(1_700),
            t_hmb: Duration::from_ns(4_600),
            t_load: us(91),
            t_write_back: us(4),
            loaders: 1,
            blocking: true,
            policy: HostMemoryPolicy::CleanMap,
        },
        hmb: Limits { preferred: 256, minimum: 8, ..Limits::default() },
        lend_max: lent,
    }
}
