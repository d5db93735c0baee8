//! Tests of the array's scheduler against closed forms of queueing theory (Q1 to Q6) and event-exact
//! reference figures. Labels: docs/closed-forms.md.

use flashlab_flash::nand::{
    Cause, Cell, Channels, EraseBlock, Finished, Geometry, Kind, Operation, Scheduling, Timing,
};
use flashlab_sim::{Duration, Instant, Moments, Rng};

const NS: f64 = 1e9;

fn array(channels: u32, dies: u32) -> Geometry {
    Geometry { channels, dies, planes: 2, blocks: 64, pages: 256, page: 16_384 }
}
/// t_R is 50 us +-25 %; the transfer of 4 KiB takes 3.333 us.
const TLC: Timing = Timing {
    cell: Cell::Tlc,
    t_read: Duration::from_us(50),
    t_read_spread_ppm: 250_000,
    t_read_slc: Duration::from_us(25),
    t_prog: [Duration::from_us(300), Duration::from_us(600), Duration::from_us(900), Duration::ZERO],
    t_prog_slc: Duration::from_us(200),
    t_bers: Duration::from_ms(5),
    channel_rate: 1_228_800_000,
    t_command: Duration::ZERO,
};
/// Channel so fast that only the array times matter.
const WIDE: Timing = Timing { channel_rate: 1_000_000_000_000, ..TLC };

fn read(block: u32, bytes: u32) -> Operation {
    Operation {
        kind: Kind::Read { bytes },
        block: EraseBlock::new(block),
        page: 0,
        slc: false,
        cause: Cause::Host,
        tag: 0,
    }
}

/// Measurements of a closed loop.
struct Seen {
    latencies: Moments,
    /// All latencies in nanoseconds, for exact percentiles.
    each: Vec<u64>,
    from: Instant,
    to: Instant,
    /// Total busy time of the arrays in nanoseconds.
    array: u64,
    /// Total busy time of the channels in nanoseconds.
    transfer: u64,
}

impl Seen {
    fn throughput(&self) -> f64 {
        self.latencies.count() as f64 / self.to.since(self.from).as_ns() as f64 * NS
    }
}

/// Keeps `depth` operations outstanding until `count` have ended after a warm-up of `count` / 10.
fn closed_loop(
    channels: &mut Channels,
    depth: u32,
    count: u32,
    mut submit: impl FnMut(&mut Channels, Instant),
) -> Seen {
    (0..depth).for_each(|_| submit(channels, Instant::ZERO));
    let mut seen = Seen {
        latencies: Moments::default(),
        each: Vec::new(),
        from: Instant::ZERO,
        to: Instant::ZERO,
        array: 0,
        transfer: 0,
    };
    for n in 0..count + count / 10 {
        let Finished { submitted, at, array, transfer, .. } =
            channels.complete(Instant::MAX).expect("an operation is outstanding");
        if n >= count / 10 {
            seen.latencies.record(at.since(submitted));
            seen.each.push(at.since(submitted).as_ns());
            seen.array += array.as_ns();
            seen.transfer += transfer.as_ns();
            seen.to = at;
        } else {
            seen.from = at;
        }
        submit(channels, at);
    }
    seen
}

fn random_reads(depth: u32, count: u32, seed: u64) -> Seen {
    let mut channels = Channels::new(&array(8, 4), &TLC, &Scheduling::FIRST_COME, seed);
    let mut rng = Rng::for_purpose(seed, 1);
    closed_loop(&mut channels, depth, count, |channels, now| {
        channels.submit(now, &read(rng.below(32) as u32, 4_096));
    })
}

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let off = value / expected - 1.0;
    assert!(off.abs() <= tolerance, "{what}: {value:.4}, expected {expected:.4}: {:.2} % off", 100.0 * off);
}

#[test]
fn random_reads_meet_the_event_exact_reference_figures() {
    // The percentile covers several seeds: a slow die stays slow for long, so the percentile of one seed varies by 5 %.
    let rows =
        [(16, 232.0, 69.0, 175.0, 0.02), (64, 458.0, 140.0, 497.0, 0.02), (256, 559.0, 457.0, 1_890.0, 0.04)];
    for (depth, kiops, mean_us, p99_us, p99_tolerance) in rows {
        let mut each = Vec::new();
        for seed in 1..=5 {
            let seen = random_reads(depth, 600_000, seed);
            let what = format!("depth {depth}, seed {seed}");
            assert_near(&format!("{what}, kIOPS"), seen.throughput() / 1e3, kiops, 0.01);
            assert_near(&format!("{what}, mean"), seen.latencies.mean_ns() / 1e3, mean_us, 0.01);
            each.extend(seen.each);
        }
        let rank = each.len() * 99 / 100;
        let p99 = *each.select_nth_unstable(rank).1 as f64 / 1e3;
        assert_near(&format!("depth {depth}, p99"), p99, p99_us, p99_tolerance);
    }
}

#[test]
fn littles_law_holds_at_every_depth() {
    // Q1. Operations that are outstanding at an end of the measurement count on one side only, which causes
    // an error of depth / count.
    for depth in [1, 4, 32, 128] {
        let seen = random_reads(depth, 200_000, 5);
        let outstanding = seen.throughput() * seen.latencies.mean_ns() / NS;
        assert_near("depth", outstanding, f64::from(depth), 0.002);
    }
}

#[test]
fn at_depth_1_a_read_takes_the_sum_of_its_stages() {
    // Q5.
    let timing = Timing { t_read_spread_ppm: 0, ..TLC };
    let mut channels = Channels::new(&array(8, 4), &timing, &Scheduling::FIRST_COME, 1);
    let seen = closed_loop(&mut channels, 1, 100, |channels, now| channels.submit(now, &read(3, 4_096)));
    assert_eq!((seen.latencies.min_ns(), seen.latencies.max_ns()), (53_333, 53_333));
}

/// Simulates one die under Poisson arrivals of rate u / S, with array times drawn by `service`. Returns the mean
/// waiting time and its tolerance, four standard deviations of the mean over twenty batches.
fn poisson_wait(u: f64, mean_ns: f64, seed: u64, mut service: impl FnMut(&mut Rng) -> u64) -> (f64, f64) {
    let mut channels = Channels::new(&array(1, 1), &WIDE, &Scheduling::FIRST_COME, seed);
    let mut rng = Rng::for_purpose(seed, 2);
    let (mut clock, batches, batch) = (0.0, 20, 50_000);
    let mut waits = vec![0.0; batches];
    let mut ended = 0;
    let mut note = |finished: Finished| {
        waits[ended / batch] += finished.waited().as_ns() as f64 / batch as f64;
        ended += 1;
    };
    for _ in 0..batches * batch {
        clock -= (1.0 - rng.unit()).ln() * mean_ns / u;
        let now = Instant::from_ns(clock as u64);
        while let Some(finished) = channels.complete(now) {
            note(finished);
        }
        channels.submit_lasting(now, &read(0, 0), Duration::from_ns(service(&mut rng)));
    }
    while let Some(finished) = channels.complete(Instant::MAX) {
        note(finished);
    }
    let mean = waits.iter().sum::<f64>() / batches as f64;
    let variance = waits.iter().map(|w| (w - mean) * (w - mean)).sum::<f64>() / (batches - 1) as f64;
    (mean, 4.0 * (variance / batches as f64).sqrt())
}

#[test]
fn waits_for_a_die_with_constant_times_are_those_of_an_m_d_1_queue() {
    // Q2: S u / (2 (1 - u)).
    for (seed, u) in [(1, 0.3), (2, 0.6), (3, 0.8)] {
        let (wait, tolerance) = poisson_wait(u, 50_000.0, seed, |_| 50_000);
        let expected = 50_000.0 * u / (2.0 * (1.0 - u));
        assert!((wait - expected).abs() < tolerance, "u {u}: {wait}, expected {expected} +- {tolerance}");
        assert!(tolerance < 0.06 * expected, "u {u}: {tolerance} tests little");
    }
}

#[test]
fn waits_for_a_die_with_any_times_are_those_of_an_m_g_1_queue() {
    // Q3: lambda E[S^2] / (2 (1 - u)), for exponential times and for reads mixed with 10 % programs.
    let exponential = |rng: &mut Rng| (-(1.0 - rng.unit()).ln() * 50_000.0) as u64;
    let mixed = |rng: &mut Rng| if rng.below(10) == 0 { 600_000 } else { 50_000 };
    let mixed_mean = 0.1 * 600_000.0 + 0.9 * 50_000.0;
    let mixed_square = 0.1 * 600_000.0f64.powi(2) + 0.9 * 50_000.0f64.powi(2);
    for (seed, u) in [(4, 0.3), (5, 0.7)] {
        for (name, mean, square, (wait, tolerance)) in [
            (
                "exponential",
                50_000.0,
                2.0 * 50_000.0f64.powi(2),
                poisson_wait(u, 50_000.0, seed, exponential),
            ),
            ("mixed", mixed_mean, mixed_square, poisson_wait(u, mixed_mean, seed, mixed)),
        ] {
            let expected = u / mean * square / (2.0 * (1.0 - u));
            assert!(
                (wait - expected).abs() < tolerance,
                "{name}, u {u}: {wait}, expected {expected} +- {tolerance}"
            );
            assert!(tolerance < 0.15 * expected, "{name}, u {u}: {tolerance} tests little");
        }
    }
}

#[test]
fn dies_with_exponential_times_have_the_utilisation_of_the_closed_form() {
    // Q4: the utilisation is exactly Q / (Q + D - 1).
    for (dies, depth) in [(4, 1), (4, 4), (8, 16), (32, 32), (32, 128)] {
        let mut channels = Channels::new(&array(1, dies), &WIDE, &Scheduling::FIRST_COME, 1);
        let mut rng = Rng::for_purpose(u64::from(depth), 3);
        let seen = closed_loop(&mut channels, depth, 1_000_000, |channels, now| {
            let array = Duration::from_ns((-(1.0 - rng.unit()).ln() * 50_000.0) as u64);
            channels.submit_lasting(now, &read(rng.below(u64::from(dies)) as u32, 0), array);
        });
        let busy = seen.array as f64 / seen.to.since(seen.from).as_ns() as f64 / f64::from(dies);
        let expected = f64::from(depth) / f64::from(depth + dies - 1);
        assert_near(&format!("{dies} dies, depth {depth}"), busy, expected, 0.006);
    }
}

#[test]
fn read_bandwidth_is_bounded_by_channels_or_by_dies_and_comes_near_the_bound() {
    // Q6: min(channels x rate, dies x planes x page / t_R). A die is busy until the end of its transfer, so its time
    // includes the transfer.
    for (channels, dies, rate, near) in
        [(8, 4, 300_000_000, 0.9), (8, 4, 4_000_000_000, 0.9), (2, 1, 1_200_000_000, 0.95)]
    {
        let timing = Timing { channel_rate: rate, ..TLC };
        let mut array = Channels::new(&array(channels, dies), &timing, &Scheduling::FIRST_COME, 1);
        let mut next = 0;
        let seen = closed_loop(&mut array, 16 * channels * dies, 50_000, |array, now| {
            array.submit(now, &read(next % (channels * dies), 32_768));
            next += 1;
        });
        let bandwidth = seen.throughput() * 32_768.0;
        let by_channels = f64::from(channels) * rate as f64;
        let die_time = 50e-6 + timing.transfer(32_768).as_secs_f64();
        let by_dies = f64::from(channels * dies) * 32_768.0 / die_time;
        let bound = by_channels.min(by_dies);
        assert!(bandwidth <= bound * 1.001, "{channels} x {dies} at {rate}: {bandwidth} above {bound}");
        assert!(bandwidth >= bound * near, "{channels} x {dies} at {rate}: {bandwidth} far below {bound}");
    }
}

#[test]
fn write_bandwidth_is_bounded_by_channels_or_by_dies_and_comes_near_the_bound() {
    // Q6 with t_PROG: the mean over lower, middle and upper pages is 600 us.
    for (rate, near) in [(150_000_000, 0.9), (1_200_000_000, 0.95)] {
        let timing = Timing { channel_rate: rate, ..TLC };
        let mut array = Channels::new(&array(4, 4), &timing, &Scheduling::FIRST_COME, 1);
        let mut next = 0;
        let seen = closed_loop(&mut array, 64, 50_000, |array, now| {
            let operation =
                Operation { kind: Kind::Program { bytes: 32_768 }, page: next / 16, ..read(next % 16, 0) };
            array.submit(now, &operation);
            next += 1;
        });
        let bandwidth = seen.throughput() * 32_768.0;
        let die_time = timing.program_mean() + timing.transfer(32_768);
        let bound = (4.0 * rate as f64).min(16.0 * 32_768.0 / die_time.as_secs_f64());
        assert!(bandwidth <= bound * 1.001, "at {rate}: {bandwidth} above {bound}");
        assert!(bandwidth >= bound * near, "at {rate}: {bandwidth} far below {bound}");
    }
}

#[test]
fn channels_and_dies_are_never_busy_for_longer_than_the_run() {
    let seen = random_reads(256, 100_000, 9);
    let span = seen.to.since(seen.from).as_ns() as f64;
    assert!(seen.transfer as f64 <= 8.0 * span * 1.001);
    assert!((seen.array + seen.transfer) as f64 <= 32.0 * span * 1.001);
}
