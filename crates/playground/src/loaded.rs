//! The latency of random writes to a used device as a function of the offered load.
//!
//! Writes of 4 KiB arrive at random (Poisson) and wait in a queue for the write buffer. A write completes
//! when the buffer accepts it, as in a drive with a volatile cache. Beyond the rate that programs and garbage
//! collection sustain, the queue grows.

use flashlab_flash::ftl::Ftl;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::{Accepted, Outcome, PageMap, PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Channels, Geometry, Scheduling, Timing};
use flashlab_sim::{Duration, Histogram, Instant, Rng};

const UNIT: u64 = 4096;
const PAGE: u64 = 4 * UNIT;
/// Number of channels, and of dies per channel.
const DIES: (u32, u32) = (2, 2);
const PAGES: u32 = 64;
/// Units that the host can address.
const UNITS: u64 = 65_536;
const RESERVE: u32 = 3;
/// Drive writes before the measurement.
const WARM_UP: u64 = 4;
/// Writes at each load.
const WRITES: u64 = 6_000;
/// Time that a command of 4 KiB takes to reach the write buffer: in the host, on the link and in the
/// controller of an NVMe drive.
const COMMAND: Duration = Duration::from_us(10);

/// Latencies at one load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latencies {
    /// Mean in microseconds.
    pub mean_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
}

/// A device in its steady state under random writes.
#[derive(Debug)]
pub struct Loaded {
    map: PageMap,
    amplification: f64,
}

impl Loaded {
    /// Returns a device after several drive writes, whose spare blocks are `spare_percent` of its capacity (5 to 100).
    pub fn new(spare_percent: f64) -> Loaded {
        let spare = if spare_percent.is_finite() { spare_percent.clamp(5.0, 100.0) } else { 5.0 };
        let (channels, dies) = DIES;
        let block_units = u64::from(PAGES) * PAGE / UNIT;
        let per_die =
            UNITS as f64 * (1.0 + spare / 100.0) / (block_units * u64::from(channels * dies)) as f64;
        let parameters = PageMapParameters {
            // Each die has two open blocks, which are half unwritten on average.
            geometry: Geometry {
                channels,
                dies,
                planes: 1,
                blocks: per_die.round() as u32 + RESERVE + 1,
                pages: PAGES,
                page: PAGE,
            },
            cell: Cell::Slc,
            unit: UNIT,
            capacity: UNITS * UNIT,
            map_pages: 0,
            victim: VictimPolicy::Greedy,
            streams: Streams::Two,
            reserve: RESERVE,
            idle_free: 0,
            write_buffer: 64 * UNIT,
            slc: None,
            leveling: LevelingPolicy::None,
            endurance: None,
        };
        let mut map = PageMap::new(&parameters, 0);
        Ftl::write(&mut map, 0, UNITS).expect("blocks neither wear out nor fail");
        let mut rng = Rng::new(2);
        let mut before = map.written();
        for drive_write in 0..WARM_UP {
            if drive_write + 1 == WARM_UP {
                before = map.written();
            }
            for _ in 0..UNITS {
                Ftl::write(&mut map, rng.below(UNITS), 1).expect("blocks neither wear out nor fail");
            }
        }
        let written = map.written().since(&before);
        let amplification = (written.host + written.gc) as f64 / written.host as f64;
        Loaded { map, amplification }
    }

    /// Returns the write amplification of the last drive write.
    pub fn amplification(&self) -> f64 {
        self.amplification
    }

    /// Returns the writes per second that the device sustains with a program time of `t_prog_us` microseconds
    /// (10 to 10,000), including garbage collection. Each write arrives when the buffer has accepted the
    /// previous write.
    pub fn rate_sustained(&self, t_prog_us: f64) -> f64 {
        let (_, time) = self.run(t_prog_us, None);
        WRITES as f64 * 1e9 / time.as_ns() as f64
    }

    /// Measures writes on a copy of the device with a program time of `t_prog_us` microseconds (10 to 10,000). On
    /// average, `per_second` writes arrive per second (100 to 10 million).
    pub fn latencies(&self, t_prog_us: f64, per_second: f64) -> Latencies {
        let rate = if per_second.is_finite() { per_second.clamp(100.0, 1e7) } else { 100.0 };
        let (latencies, _) = self.run(t_prog_us, Some(rate));
        Latencies {
            mean_us: latencies.mean_ns() / 1e3,
            p99_us: latencies.percentile(99.0).min(latencies.max()).as_ns() as f64 / 1e3,
        }
    }

    /// Runs writes on a copy of the device: at a rate, or as fast as the write buffer accepts them. Returns
    /// the latencies of the writes, and their total time.
    fn run(&self, t_prog_us: f64, rate: Option<f64>) -> (Histogram, Duration) {
        let mut map = self.map.clone();
        let mut channels = channels(&map, limited(t_prog_us));
        let mut rng = Rng::new(3);
        let (mut arrival, mut now) = (Instant::ZERO, Instant::ZERO);
        let mut latencies = Histogram::new();
        for _ in 0..WRITES {
            match rate {
                // The time to the next arrival has an exponential distribution.
                Some(rate) => arrival += Duration::from_ns((-(1.0 - rng.unit()).ln() / rate * 1e9) as u64),
                None => arrival = now,
            }
            now = now.max(arrival);
            complete_until(&mut map, &mut channels, now);
            let unit = rng.below(UNITS) as u32;
            while map.write(unit) == Accepted::Full {
                issue(&mut map, &mut channels, now);
                let finished =
                    channels.complete(Instant::MAX).expect("the array works while the buffer is full");
                now = now.max(finished.at);
                map.finished(&finished.operation, Outcome::Ok);
            }
            issue(&mut map, &mut channels, now);
            latencies.record(now.since(arrival) + COMMAND);
        }
        (latencies, now.since(Instant::ZERO))
    }
}

fn limited(t_prog_us: f64) -> f64 {
    if t_prog_us.is_finite() { t_prog_us.clamp(10.0, 10_000.0) } else { 10.0 }
}

fn channels(map: &PageMap, t_prog_us: f64) -> Channels {
    let t_prog = Duration::from_ns((t_prog_us * 1e3) as u64);
    let timing = Timing {
        cell: Cell::Slc,
        t_read: Duration::from_us(40),
        t_read_spread_ppm: 0,
        t_read_slc: Duration::from_us(40),
        t_prog: [t_prog; 4],
        t_prog_slc: t_prog,
        t_bers: Duration::from_ms(3),
        channel_rate: 800_000_000,
        t_command: Duration::from_ns(300),
    };
    Channels::new(&map.parameters().geometry, &timing, &Scheduling::FIRST_COME, 1)
}

/// Completes the operations of the array up to an instant, and starts those that follow from them.
fn complete_until(map: &mut PageMap, channels: &mut Channels, limit: Instant) {
    while let Some(finished) = channels.complete(limit) {
        map.finished(&finished.operation, Outcome::Ok);
        issue(map, channels, finished.at);
    }
}

fn issue(map: &mut PageMap, channels: &mut Channels, now: Instant) {
    while let Some(operation) = map.poll() {
        channels.submit(now, &operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_rises_at_the_sustained_rate_and_with_the_program_time() {
        let device = Loaded::new(28.0);
        let rate = device.rate_sustained(500.0);
        let (idle, busy) = (device.latencies(500.0, 0.2 * rate), device.latencies(500.0, 2.0 * rate));
        assert!(idle.mean_us < 50.0 && idle.p99_us <= 1_000.0, "{idle:?} at a fifth of {rate}");
        assert!(busy.mean_us > 20.0 * idle.mean_us.max(50.0), "{busy:?} at twice {rate}");
        // At twice the rate, the device has done half of the writes when the last write arrives. The mean
        // wait is then about a quarter of the time that the device needs for all writes.
        assert!(busy.mean_us > 0.2 * 1e6 * WRITES as f64 / rate, "{busy:?}");
        // Below the sustained rate, most writes find room in the buffer.
        assert!(idle.mean_us >= 10.0, "{idle:?}: no write is faster than its command");
        assert!(device.latencies(500.0, 0.7 * rate).mean_us < 0.1 * busy.mean_us);
        // If the dies did nothing but program, they would sustain a higher rate.
        let programs =
            f64::from(DIES.0 * DIES.1) * (PAGE / UNIT) as f64 * 1e6 / 500.0 / device.amplification();
        assert!((0.5 * programs..programs).contains(&rate), "{rate} of {programs}");
        let slower = device.latencies(1_000.0, 0.8 * rate);
        assert!(slower.mean_us > 10.0 * device.latencies(250.0, 0.8 * rate).mean_us.max(1.0), "{slower:?}");
    }

    #[test]
    fn more_spare_means_less_amplification_and_a_higher_rate() {
        let (little, much) = (Loaded::new(10.0), Loaded::new(60.0));
        assert!(little.amplification() > 1.5 * much.amplification());
        assert!(little.rate_sustained(500.0) < much.rate_sustained(500.0));
    }

    #[test]
    fn values_out_of_range_are_limited() {
        let device = Loaded::new(f64::NAN);
        let found = device.latencies(f64::INFINITY, f64::NAN);
        assert!(found.mean_us.is_finite() && found.p99_us.is_finite());
    }
}
