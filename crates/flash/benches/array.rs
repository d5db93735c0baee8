//! Benchmark of the event-exact scheduler: flash operations per CPU second.
//!
//! `cargo bench -p flashlab-flash --bench array`. A closed loop runs on 8 channels of 4 dies: as soon as an operation
//! ends, the loop submits the next one to a random block. The figures are medians of several runs. The benchmark also
//! prints the cost of the loop without an array, so that a reader can subtract it. The benchmark asserts nothing.

use cpu_time::ProcessTime;
use flashlab_flash::nand::{
    Cause, Cell, Channels, Decoder, EraseBlock, Geometry, Kind, Operation, Reliability, Scheduling, Suspend,
    Timing,
};
use flashlab_sim::{Duration, Instant, Rng};
use std::hint::black_box;

const REPEATS: usize = 7;
const OPERATIONS: u32 = 2_000_000;

const GEOMETRY: Geometry =
    Geometry { channels: 8, dies: 4, planes: 2, blocks: 512, pages: 256, page: 16_384 };
const TIMING: Timing = Timing {
    cell: Cell::Tlc,
    t_read: Duration::from_us(50),
    t_read_spread_ppm: 250_000,
    t_read_slc: Duration::from_us(25),
    t_prog: [Duration::from_us(300), Duration::from_us(600), Duration::from_us(900), Duration::ZERO],
    t_prog_slc: Duration::from_us(200),
    t_bers: Duration::from_ms(5),
    channel_rate: 1_200_000_000,
    t_command: Duration::from_ns(200),
};
const SUSPEND: Suspend = Suspend {
    t_suspend: Duration::from_us(20),
    t_resume: Duration::from_us(5),
    programs: true,
    erases: true,
};
const RELIABILITY: Reliability = Reliability {
    fresh: 1e-4,
    worn: 4e-4,
    cycles_exponent: 1.5,
    doubling: Duration::from_secs(90 * 86_400),
    age_exponent: 1.0,
    codeword_bits: 9_200,
    correctable: 72,
    codewords: 4,
    retries_max: 8,
    retry_gain: 0.9,
};
const ALL: Scheduling = Scheduling { reads_first: true, overtaken_max: 32, suspend: Some(SUSPEND) };

fn main() {
    for depth in [32, 128] {
        report("reads", depth, &Scheduling::FIRST_COME, |_| true);
        report("programs", depth, &Scheduling::FIRST_COME, |_| false);
        report("3 reads to 1 program", depth, &Scheduling::FIRST_COME, |draw| draw % 4 != 0);
        report("3 reads to 1 program, reads first, suspend", depth, &ALL, |draw| draw % 4 != 0);
    }
    let bare = median(|| {
        let (mut rng, start) = (Rng::new(1), ProcessTime::now());
        (0..OPERATIONS).for_each(|tag| {
            black_box(operation(&mut rng, tag, |_| true));
        });
        start.elapsed().as_secs_f64() / f64::from(OPERATIONS)
    });
    println!("the loop without an array: {:.1} ns", bare * 1e9);
    for (cycles, what) in [(1_000, "never fails"), (3_000, "hardly ever fails"), (5_500, "often fails")] {
        println!("bit errors of a page that {what}: {:.1} ns", median(|| decode(cycles)) * 1e9);
    }
}

fn report(what: &str, depth: u32, scheduling: &Scheduling, reads: fn(u32) -> bool) {
    let seconds = median(|| closed_loop(depth, scheduling, reads));
    println!(
        "{what}, depth {depth}: {:.1} million operations a CPU second, {:.1} ns each",
        1e-6 / seconds,
        seconds * 1e9
    );
}

fn median(mut measure: impl FnMut() -> f64) -> f64 {
    let mut figures: Vec<f64> = (0..REPEATS).map(|_| measure()).collect();
    figures.sort_by(f64::total_cmp);
    figures[REPEATS / 2]
}

fn operation(rng: &mut Rng, tag: u32, reads: fn(u32) -> bool) -> Operation {
    let draw = rng.next_u64() as u32;
    let kind = if reads(draw) { Kind::Read { bytes: 4_096 } } else { Kind::Program { bytes: 32_768 } };
    Operation {
        kind,
        block: EraseBlock::new(draw >> 16),
        page: draw & 0xff,
        slc: false,
        cause: Cause::Host,
        tag,
    }
}

/// Returns the CPU seconds per read that the decoder takes to draw the outcome for a block erased about `cycles` times.
fn decode(cycles: u32) -> f64 {
    let decoder = Decoder::new(&RELIABILITY);
    let (mut rng, age, start) = (Rng::new(1), Duration::from_secs(86_400), ProcessTime::now());
    (0..OPERATIONS).for_each(|n| {
        black_box(decoder.read(cycles + n % 16, age, &mut rng));
    });
    start.elapsed().as_secs_f64() / f64::from(OPERATIONS)
}

/// Returns the CPU seconds per operation.
fn closed_loop(depth: u32, scheduling: &Scheduling, reads: fn(u32) -> bool) -> f64 {
    let mut channels = Channels::new(&GEOMETRY, &TIMING, scheduling, 1);
    let mut rng = Rng::new(1);
    let start = ProcessTime::now();
    (0..depth).for_each(|tag| channels.submit(Instant::ZERO, &operation(&mut rng, tag, reads)));
    for tag in depth..OPERATIONS {
        let finished = channels.complete(Instant::MAX).expect("an operation is outstanding");
        channels.submit(finished.at, &operation(&mut rng, tag, reads));
    }
    while let Some(finished) = channels.complete(Instant::MAX) {
        black_box(finished);
    }
    start.elapsed().as_secs_f64() / f64::from(OPERATIONS)
}
