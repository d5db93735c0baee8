//! Closed loop: predicts the elapsed time of a run on slower devices from its recording on a fast one, and prints the
//! errors of the replay by dependencies, by timestamps and as fast as possible.
//!
//! `closed_loop SOURCE (RECORDING LATENCY_US)...` reads recordings of one workload by `flashlab record`. The device of each
//! recording has a constant latency, as `null_blk` has (`flashlab record --latency`).

use std::fs::File;
use std::io::BufReader;
use std::{env, error::Error};

use flashlab_recording::{Action, MarkKind, Mode, Reader, Replay, Step};
use flashlab_sim::{Duration, Instant, run};

#[path = "../tests/all/device.rs"]
#[allow(dead_code)] // The tests use more of the device.
mod device;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some((source, judges)) = arguments.split_first() else {
        return Err("usage: closed_loop SOURCE (RECORDING LATENCY_US)...".into());
    };
    let source = read(source)?;
    for pair in judges.chunks(2) {
        let [path, latency_us] = pair else { return Err("each RECORDING needs a LATENCY_US".into()) };
        let latency = Duration::from_us(latency_us.parse()?);
        let steps = read(path)?;
        let recorded = recorded(&steps);
        print!("{path}: {} steps of {}, recorded {recorded:.4} s", steps.len(), source.len());
        for (name, mode) in [
            ("dependencies", Mode::Dependencies),
            ("timestamps", Mode::Timestamps { numerator: 1, denominator: 1 }),
            ("fast", Mode::Fast { depth: 1 }),
        ] {
            let mut replay = Replay::new(source.iter().cloned(), mode, Instant::ZERO);
            run(&mut device::Constant::parallel(latency), &mut replay, Instant::ZERO);
            let elapsed = replay.finish()?.elapsed.as_secs_f64();
            print!("; {name} {elapsed:.4} s ({:+.1} %)", (elapsed / recorded - 1.0) * 100.0);
        }
        println!();
    }
    Ok(())
}

fn read(path: &str) -> Result<Vec<Step>, Box<dyn Error>> {
    Ok(Reader::new(BufReader::new(File::open(path)?))?.collect::<Result<_, _>>()?)
}

/// Returns the recorded seconds between the marks of the measured part.
fn recorded(steps: &[Step]) -> f64 {
    let at = |kind| steps.iter().find(|step| step.action == Action::Mark(kind)).map(|step| step.at);
    let begins = at(MarkKind::RunBegins).unwrap_or_default();
    let ends = at(MarkKind::RunEnds).or(steps.last().map(|step| step.at)).unwrap_or_default();
    ends.as_secs_f64() - begins.as_secs_f64()
}
