//! Drives for the tests: a small drive with its whole map in memory, and variants of this drive, for example
//! with a demand-loaded map.
#![allow(dead_code, reason = "each test uses some")]

use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::map_cache::{HostMemoryPolicy, MapCacheParameters};
use flashlab_flash::ftl::page_map::{PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Geometry, Reliability, Scheduling, Suspend, Timing};
use flashlab_host::driver::hmb;
use flashlab_nvme::hmb::Limits;
use flashlab_nvme::{Controller, Generation, LinkParameters, Ssd, SsdParameters};
use flashlab_sim::{Completion, Duration, FileId, Instant, Model, Observer, Op, Request, RequestId, Rng};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

/// Cells with a share of `fresh` wrong bits at any age. The decoder has codewords of 1,000 bits, corrects no
/// errors, and makes a single attempt.
pub(crate) fn unreliable_cells(fresh: f64) -> Reliability {
    Reliability {
        fresh,
        worn: 0.0,
        cycles_exponent: 1.0,
        doubling: us(1_000_000),
        age_exponent: 1.0,
        codeword_bits: 1_000,
        correctable: 0,
        codewords: 1,
        retries_max: 0,
        retry_gain: 1.0,
    }
}

/// A small drive with 2 channels of 2 dies. Each die has 24 blocks of 32 pages of 2 x 16 KiB. That is 96 MiB,
/// of which 48 MiB are exported.
pub(crate) fn small() -> SsdParameters {
    let geometry = Geometry { channels: 2, dies: 2, planes: 2, blocks: 24, pages: 32, page: 16 * KIB };
    SsdParameters {
        block: 512,
        request_max: 2 * MIB,
        controller: Controller {
            depth: 64,
            t_command: us(5),
            t_command_write: us(4),
            t_command_unmapped: us(3),
            t_idle: us(1_000),
        },
        link: LinkParameters {
            generation: Generation::Gen3,
            lanes: 2,
            payload: 256,
            t_way: Duration::from_ns(150),
        },
        page_map: PageMapParameters {
            geometry,
            cell: Cell::Tlc,
            unit: 4 * KIB,
            capacity: 48 * MIB,
            map_pages: 0,
            victim: VictimPolicy::Greedy,
            streams: Streams::Two,
            reserve: 4,
            idle_free: 6,
            write_buffer: 256 * KIB,
            slc: None,
            leveling: LevelingPolicy::Dynamic,
            endurance: None,
        },
        timing: Timing {
            cell: Cell::Tlc,
            t_read: us(60),
            t_read_spread_ppm: 0,
            t_read_slc: us(30),
            t_prog: [us(400), us(700), us(1_000), Duration::ZERO],
            t_prog_slc: us(200),
            t_bers: us(4_000),
            channel_rate: 400_000_000,
            t_command: Duration::from_ns(300),
        },
        scheduling: Scheduling::FIRST_COME,
        reliability: None,
        map: MapCacheParameters {
            sram: None,
            page: 4 * KIB,
            entry: 4,
            dirty: 16 * KIB,
            t_look: Duration::from_ns(1_700),
            t_hmb: Duration::from_ns(4_600),
            t_load: us(91),
            t_write_back: us(4),
            loaders: 1,
            blocking: true,
            policy: HostMemoryPolicy::CleanMap,
        },
        hmb: Limits::default(),
        lend_max: 0,
    }
}

/// The small drive with firmware that takes no time.
pub(crate) fn without_firmware() -> SsdParameters {
    let mut parameters = small();
    let times = &mut parameters.controller;
    times.t_command = Duration::ZERO;
    times.t_command_write = Duration::ZERO;
    times.t_command_unmapped = Duration::ZERO;
    parameters
}

/// Scheduling in which reads suspend and overtake programs and erases.
pub(crate) fn suspending() -> Scheduling {
    let suspend = Suspend { t_suspend: us(20), t_resume: us(20), programs: true, erases: true };
    Scheduling { reads_first: true, overtaken_max: 16, suspend: Some(suspend) }
}

/// The small drive with a map that is loaded on demand. The map has 192 map pages of 64 entries, of which a
/// few fit into `sram`. The host memory has `lend` bytes.
pub(crate) fn loading(sram: u64, lend: u64) -> SsdParameters {
    let mut parameters = small();
    parameters.map.sram = Some(sram);
    // Entries are so large that even a small drive has many map pages: 64 entries of 64 B each.
    parameters.map.entry = 64;
    parameters.hmb = Limits { preferred: 1_024, minimum: 2, ..Limits::default() };
    parameters.lend_max = lend;
    parameters
}

pub(crate) struct Driven {
    pub(crate) ssd: Ssd,
    pub(crate) now: Instant,
    next: u64,
}

impl Driven {
    pub(crate) fn new(parameters: SsdParameters) -> Self {
        Driven { ssd: Ssd::new(parameters, hmb::linux, 1), now: Instant::ZERO, next: 0 }
    }

    pub(crate) fn submit(&mut self, op: Op, offset: u64, length: u64) {
        self.next += 1;
        let request = Request { id: RequestId(self.next), op, file: FileId::DEVICE, offset, length };
        self.ssd.submit(self.now, request);
    }

    pub(crate) fn complete(&mut self) -> Completion {
        let done = self.ssd.complete(Instant::MAX).expect("something is outstanding");
        self.now = done.at;
        done
    }

    /// Runs one request alone.
    pub(crate) fn one(&mut self, op: Op, offset: u64, length: u64) -> Completion {
        self.submit(op, offset, length);
        self.complete()
    }

    pub(crate) fn pause(&mut self, pause: Duration) {
        self.now += pause;
    }

    /// Writes `bytes` in sequence from offset 0.
    pub(crate) fn fill(&mut self, bytes: u64) {
        let mut at = 0;
        while at < bytes {
            let length = MIB.min(bytes - at);
            self.one(Op::Write, at, length);
            at += length;
        }
    }

    /// Runs `count` requests from `make` in a closed loop of depth `depth`. Returns the mean latency and the total time
    /// in nanoseconds.
    pub(crate) fn closed_loop(
        &mut self,
        depth: u64,
        count: u64,
        mut make: impl FnMut(&mut Rng) -> (Op, u64, u64),
    ) -> (f64, f64) {
        let mut rng = Rng::new(5);
        let begin = self.now;
        let mut latency = 0;
        for n in 0..count + depth {
            if n >= depth {
                latency += self.complete().spent.total().as_ns();
            }
            if n < count {
                let (op, offset, length) = make(&mut rng);
                self.submit(op, offset, length);
            }
        }
        (latency as f64 / count as f64, self.now.since(begin).as_ns() as f64)
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        struct Find<'a>(&'a str, u64);
        impl Observer for Find<'_> {
            fn count(&mut self, name: &'static str, value: u64) {
                if name == self.0 {
                    self.1 += value;
                }
            }
        }
        let mut find = Find(name, 0);
        self.ssd.observe(&mut find);
        find.1
    }
}
