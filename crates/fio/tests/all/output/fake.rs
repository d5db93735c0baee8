//! Jobs without a device: scripts of completions.

use flashlab_fio::job::{BlockSize, Direction, Engine, Job, Mix, Pattern};
use flashlab_fio::stats::{Report, Settings, Statistics, WaveRecorder};
use flashlab_fio::workload::{Io, Record};
use flashlab_sim::{Duration, FileId, Instant, Mechanism, Spent};

/// Returns a job with default options except its name, pattern and block size.
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

/// Returns a time in microseconds.
pub(crate) fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// Returns a time in milliseconds.
pub(crate) fn ms(ms: u64) -> Instant {
    us(1_000 * ms)
}

/// Returns a request that was submitted when it was made.
pub(crate) fn io(direction: Direction, issued: Instant, length: u64) -> Io {
    Io { direction, file: FileId::DEVICE, offset: 0, length, ready: issued, issued }
}

/// Attributes all time since the submission to one mechanism.
pub(crate) fn spent(mechanism: Mechanism, io: &Io, done: Instant) -> Spent {
    spent_in(mechanism, done.since(io.issued))
}

/// Records one request from its submission to its completion.
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

/// Runs a script for `jobs` and returns the entries.
pub(crate) fn run(jobs: &[Job], script: impl FnOnce(&mut WaveRecorder<'_>)) -> Vec<Report> {
    run_with(jobs, &Settings::default(), script)
}

/// Runs a script for `jobs` with settings and returns the entries.
pub(crate) fn run_with(
    jobs: &[Job],
    settings: &Settings,
    script: impl FnOnce(&mut WaveRecorder<'_>),
) -> Vec<Report> {
    let mut statistics = Statistics::new(jobs, settings);
    script(&mut statistics.wave(0..jobs.len()));
    statistics.reports(jobs)
}

/// Attributes `time` to one mechanism.
pub(crate) fn spent_in(mechanism: Mechanism, time: Duration) -> Spent {
    let mut spent = Spent::default();
    spent[mechanism] = time;
    spent
}
