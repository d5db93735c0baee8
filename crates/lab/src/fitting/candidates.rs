//! Measurements that could be made next: small jobs whose predicted values show which numbers the jobs would
//! determine.

use super::FittingError;
use super::forward::ReadyStep;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::{Direction, Extent, Mix};
use flashlab_fit::estimate::Candidate;
use flashlab_fit::observation::{Observation, Quantity, State, Step};

/// Expected standard deviation of a measurement, as a share of its value.
const SHARE: f64 = 0.02;

/// Candidates: name, observed direction, fio options, and the state of the area before the job.
const CANDIDATES: [(&str, Direction, &str, State); 16] = [
    (
        "512 B random reads",
        Direction::Read,
        "--rw=randread --bs=512 --number_ios=400",
        State::WrittenInSequence,
    ),
    (
        "4 KiB random reads",
        Direction::Read,
        "--rw=randread --bs=4k --number_ios=400",
        State::WrittenInSequence,
    ),
    (
        "64 KiB random reads",
        Direction::Read,
        "--rw=randread --bs=64k --number_ios=300",
        State::WrittenInSequence,
    ),
    (
        "4 KiB sequential reads",
        Direction::Read,
        "--rw=read --bs=4k --number_ios=1000",
        State::WrittenInSequence,
    ),
    (
        "4 KiB random reads at queue depth 32",
        Direction::Read,
        "--rw=randread --bs=4k --number_ios=1000 --ioengine=libaio --iodepth=32",
        State::WrittenInSequence,
    ),
    ("1 MiB sequential reads", Direction::Read, "--rw=read --bs=1m", State::WrittenInSequence),
    ("4 KiB sequential writes", Direction::Write, "--rw=write --bs=4k --number_ios=2000", State::Discarded),
    ("16 KiB sequential writes", Direction::Write, "--rw=write --bs=16k --number_ios=1000", State::Discarded),
    ("64 KiB sequential writes", Direction::Write, "--rw=write --bs=64k --number_ios=1000", State::Discarded),
    ("1 MiB sequential writes", Direction::Write, "--rw=write --bs=1m", State::Discarded),
    (
        "4 KiB random writes to a discarded area",
        Direction::Write,
        "--rw=randwrite --bs=4k --number_ios=400",
        State::Discarded,
    ),
    (
        "16 KiB random writes to a discarded area",
        Direction::Write,
        "--rw=randwrite --bs=16k --number_ios=400",
        State::Discarded,
    ),
    (
        "64 KiB random writes to a discarded area",
        Direction::Write,
        "--rw=randwrite --bs=64k --number_ios=200",
        State::Discarded,
    ),
    (
        "64 KiB writes in turn to 4 areas of 4 MiB",
        Direction::Write,
        "--rw=write --bs=64k --size=4m --offset_increment=16m --numjobs=4 --group_reporting",
        State::WrittenInSequence,
    ),
    (
        "4 KiB random overwrites of data in sequence",
        Direction::Write,
        "--rw=randwrite --bs=4k --number_ios=100",
        State::WrittenInSequence,
    ),
    (
        "64 KiB random overwrites of data in sequence",
        Direction::Write,
        "--rw=randwrite --bs=64k --number_ios=100",
        State::WrittenInSequence,
    ),
];

/// Size of the area of a candidate whose options state no other size, in bytes.
const AREA: u64 = 256 << 20;

/// Largest area of the candidate that reads over a wide range, in bytes. A map cache of 400 KiB can cover 12 GiB.
const WIDE: u64 = 16 << 30;

/// Returns the candidates that none of `measured` repeats, and the steps that predict them, each on a new device.
pub(super) fn candidates(
    measured: &[ReadyStep],
    library: &Library,
    capacity: u64,
) -> Result<(Vec<Candidate>, Vec<ReadyStep>), FittingError> {
    let area = AREA.min(capacity / 2);
    let mut steps = Vec::new();
    let mut candidates = Vec::new();
    let mut add = |name: &str, direction: Direction, options: &str, before: State, size: u64| {
        let mut job = vec!["--name=candidate".to_owned(), "--direct=1".to_owned(), format!("--size={size}")];
        job.extend(options.split(' ').map(str::to_owned));
        // The device is new; the bench writes or discards the area first.
        let fresh = Step {
            name: "new device".into(),
            job: FRESH.map(str::to_owned).to_vec(),
            before: State::New,
            ..Step::default()
        };
        let step = Step { name: name.to_owned(), job, before, ..Step::default() };
        let observation = Observation::new(direction, Quantity::LatencyMean, 1.0);
        let candidate = ReadyStep::of(&step, vec![observation], library)?.0;
        if measured.iter().any(|measured| repeats(measured, &candidate)) {
            return Ok(());
        }
        steps.push(ReadyStep::of(&fresh, Vec::new(), library)?.0);
        steps.push(candidate);
        candidates.push(Candidate { name: name.to_owned(), share: SHARE });
        Ok::<(), FittingError>(())
    };
    for (name, direction, options, before) in CANDIDATES {
        add(name, direction, options, before, area)?;
    }
    let wide = WIDE.min(capacity / 2) >> 20 << 20;
    if wide > 4 * area {
        let name = format!("4 KiB random reads over {} GiB", wide >> 30);
        let options = "--rw=randread --bs=4k --number_ios=1000";
        add(&name, Direction::Read, options, State::WrittenInSequence, wide)?;
    }
    Ok((candidates, steps))
}

/// Returns true if the observations of `measured` already show what the candidate would show: the same
/// requests in the same state.
fn repeats(measured: &ReadyStep, candidate: &ReadyStep) -> bool {
    let of = |step: &ReadyStep| {
        let job = step.jobs.first()?;
        let is_read = job.pattern.mix == Mix::Read;
        // Reads of data that was written in any way take about the same time.
        let is_fresh = !is_read && step.before != State::WrittenInSequence;
        let pattern = (job.pattern.mix, job.pattern.random, job.block_size.clone());
        Some((pattern, job.effective_depth(), step.jobs.len(), is_fresh, job.fsync))
    };
    let is_wide = |step: &ReadyStep| {
        step.jobs.first().and_then(|job| job.size).is_some_and(|size| match size {
            Extent::Bytes(bytes) => bytes > 4 * AREA,
            Extent::Percent(_) => true,
        })
    };
    !measured.observations.is_empty()
        && of(measured) == of(candidate)
        && is_wide(measured) == is_wide(candidate)
}

/// Job that begins a new history: a read that changes nothing.
const FRESH: [&str; 6] =
    ["--name=new", "--direct=1", "--rw=read", "--bs=512", "--number_ios=1", "--size=512"];
