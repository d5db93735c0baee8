//! Jobs without a device: a script of completions.

use flashlab_fio::job::{BlockSize, Direction, Engine, Job, Mix, Pattern};
use flashlab_fio::stats::{Report, Settings, Statistics, WaveRecorder};
use flashlab_fio::workload::{Io, Record};
use flashlab_sim::{Duration, FileId, Instant, Mechanism, Spent};

/// A job that nothing was said of but its name, pattern and block.
pub(crate) fn job(name: &str, mix: Mix, random: bool, bytes: u64) -> Job {
    Job {
        name: name.to_owned(),
        pattern: Pattern { random, mix, sequence: 1, sequence_skip: 0 },
        block_size: [0, 1, 2].map(|_| BlockSize::Fixed(bytes)),
        engine: Engine::Synchronous,
        engine_name: "psync".to_owned(),
        depth: 1,
        ..Job::default()
    }
}

/// A time in microseconds.
pub(crate) fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// A time in milliseconds.
pub(crate) fn ms(ms: u64) -> Instant {
    us(1_000 * ms)
}

/// A request that was made when it was handed over.
pub(crate) fn io(direction: Direction, issued: Instant, length: u64) -> Io {
    Io { direction, file: FileId::DEVICE, offset: 0, length, ready: issued, issued }
}

/// All the time since submission in one mechanism.
pub(crate) fn spent(mechanism: Mechanism, io: &Io, done: Instant) -> Spent {
    let mut spent = Spent::default();
    spent[mechanism] = done.since(io.issued);
    spent
}

/// One request from submission to completion.
pub(crate) fn one(
    to: &mut WaveRecorder<'_>,
    job: usize,
    direction: Direction,
    issued: Instant,
    done: Instant,
    length: u64,
) {
    let io = io(direction, issued, length);
    to.submitted(job, &io, 1);
    let mechanism = if direction == Direction::Read { Mechanism::Read } else { Mechanism::Program };
    to.completed(job, &io, done, &spent(mechanism, &io, done));
}

/// Runs a script for `jobs` and gives the entries.
pub(crate) fn run(jobs: &[Job], script: impl FnOnce(&mut WaveRecorder<'_>)) -> Vec<Report> {
    run_with(jobs, &Settings::default(), script)
}

/// The same with settings.
pub(crate) fn run_with(
    jobs: &[Job],
    settings: &Settings,
    script: impl FnOnce(&mut WaveRecorder<'_>),
) -> Vec<Report> {
    let mut statistics = Statistics::new(jobs, settings);
    script(&mut statistics.wave(0..jobs.len()));
    statistics.reports(jobs)
}
