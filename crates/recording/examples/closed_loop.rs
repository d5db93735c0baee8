//! Predicts a run on slower devices from its recording on a fast device, and compares the prediction with
//! recordings on the slower devices. Prints the errors of the elapsed time and of the operations' p99 for
//! each mode: by dependencies, by timestamps, and as fast as possible at depth 1. Also prints how many
//! requests differ.
//!
//! `closed_loop SOURCE (RECORDING DEVICE)...` reads recordings of one workload by `flashlab record`. `DEVICE`
//! describes the device of a recording as `LATENCY_US[,QUEUE_DEPTH[,MIB_PER_S]]`, such as `250` or
//! `250,1,40`. These are the values of the options `--latency`, `--queue-depth` and `--bandwidth`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::{env, error::Error};

use flashlab_recording::{Action, MarkKind, Mode, Reader, Replay, Step};
use flashlab_sim::{Duration, Histogram, Instant, Op, run};

#[path = "../tests/all/null_blk.rs"]
mod null_blk;

use null_blk::NullBlk;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some((source, judges)) = arguments.split_first() else {
        return Err("usage: closed_loop SOURCE (RECORDING DEVICE)...".into());
    };
    let source = read(source)?;
    for pair in judges.chunks(2) {
        let [path, device] = pair else { return Err("each RECORDING needs a DEVICE".into()) };
        let device = device_of(device)?;
        let steps = read(path)?;
        let (recorded, operations) = (recorded(&steps), operations(&steps));
        let p99 = |operations: &Histogram| operations.percentile(99.0).as_secs_f64() * 1e3;
        let recorded_p99 = p99(&operations);
        print!("{path}: recorded {recorded:.4} s, p99 {recorded_p99:.2} ms");
        for (name, mode) in [
            ("dependencies", Mode::Dependencies),
            ("timestamps", Mode::Timestamps { numerator: 1, denominator: 1 }),
            ("fast", Mode::Fast { depth: 1 }),
        ] {
            let mut replay = Replay::new(source.iter(), mode, Instant::ZERO);
            run(&mut device.clone(), &mut replay, Instant::ZERO);
            let outcome = replay.finish()?;
            let (elapsed, p99) = (outcome.elapsed.as_secs_f64(), p99(&outcome.operations));
            let error = |predicted: f64, recorded: f64| (predicted / recorded - 1.0) * 100.0;
            print!(
                "; {name} {elapsed:.4} s ({:+.1} %), p99 {p99:.2} ms ({:+.1} %)",
                error(elapsed, recorded),
                error(p99, recorded_p99)
            );
        }
        let (predicted, actual) = (requests(&source), requests(&steps));
        let sum = |counts: &Requests| counts.values().sum::<u64>();
        let missing = |of: &Requests, from: &Requests| {
            of.iter().map(|(key, n)| n.saturating_sub(from.get(key).copied().unwrap_or(0))).sum::<u64>()
        };
        println!(
            "; {} requests recorded, {} predicted; {} not predicted, {} not recorded",
            sum(&actual),
            sum(&predicted),
            missing(&actual, &predicted),
            missing(&predicted, &actual)
        );
    }
    Ok(())
}

fn device_of(text: &str) -> Result<NullBlk, Box<dyn Error>> {
    let numbers = text.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    let (latency, depth, bandwidth) = match numbers[..] {
        [latency] => (latency, 64, None),
        [latency, depth] => (latency, depth, None),
        [latency, depth, bandwidth] => (latency, depth, Some((1 << 20) / 50 * bandwidth)),
        _ => return Err(format!("{text}: expected LATENCY_US[,QUEUE_DEPTH[,MIB_PER_S]]").into()),
    };
    Ok(NullBlk::new(Duration::from_us(latency), usize::try_from(depth)?, bandwidth))
}

fn read(path: &str) -> Result<Vec<Step>, Box<dyn Error>> {
    Ok(Reader::new(BufReader::new(File::open(path)?))?.collect::<Result<_, _>>()?)
}

/// Numbers of requests by operation, offset and length.
type Requests = BTreeMap<(Op, u64, u64), u64>;

/// Returns the requests of a run up to its last mark, or all requests of a run without marks. Later requests
/// belong to the unmount of the filesystem.
fn requests(steps: &[Step]) -> Requests {
    let end = steps.iter().rposition(|step| matches!(step.action, Action::Mark(_))).unwrap_or(steps.len());
    let mut requests = Requests::new();
    for step in &steps[..end] {
        if let Action::Request { op, offset, length, .. } = step.action {
            *requests.entry((op, offset, length)).or_default() += 1;
        }
    }
    requests
}

/// Returns the recorded latencies of the operations that the user waited for.
fn operations(steps: &[Step]) -> Histogram {
    let (mut operations, mut begins) = (Histogram::new(), BTreeMap::new());
    for step in steps {
        match step.action {
            Action::Mark(MarkKind::OperationBegins) => _ = begins.insert(step.task, step.at),
            Action::Mark(MarkKind::OperationEnds) => {
                if let Some(begin) = begins.remove(&step.task) {
                    operations.record(Duration::from_ns(step.at.as_ns() - begin.as_ns()));
                }
            }
            _ => {}
        }
    }
    operations
}

/// Returns the recorded seconds between the marks of the measured part. Without a mark, the part begins at
/// zero, or ends at the last step.
fn recorded(steps: &[Step]) -> f64 {
    let at = |kind| steps.iter().find(|step| step.action == Action::Mark(kind)).map(|step| step.at);
    let begins = at(MarkKind::RunBegins).unwrap_or_default();
    let ends = at(MarkKind::RunEnds).or(steps.last().map(|step| step.at)).unwrap_or_default();
    ends.as_secs_f64() - begins.as_secs_f64()
}
