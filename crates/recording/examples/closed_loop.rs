//! Closed loop: predicts the elapsed time of a run on slower devices from its recording on a fast one, and prints the
//! errors of the replay by dependencies, by timestamps and as fast as possible.
//!
//! `closed_loop TRACE LATENCY_US [TRACE LATENCY_US]...` reads traces of one workload (text of tracefs); the first is the
//! source of the predictions. The devices have a constant latency, as `null_blk` has with `irqmode=2 completion_nsec=N`.

use std::{env, fs};

use flashlab_recording::capture::{derive, parse};
use flashlab_recording::{Action, Header, MarkKind, Mode, Recording, Replay};
use flashlab_sim::{Duration, Instant, run};

#[path = "../tests/all/device.rs"]
#[allow(dead_code)] // The tests use more of the device.
mod device;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut fast = None;
    for pair in arguments.chunks(2) {
        let [path, latency_us] = pair else { return Err("usage: closed_loop (TRACE LATENCY_US)...".into()) };
        let latency = Duration::from_us(latency_us.parse()?);
        let recording = derive(Header::default(), latency, &parse(&fs::read_to_string(path)?)?)?;
        let source = fast.get_or_insert_with(|| recording.clone());
        let recorded = recorded(&recording);
        print!("{path}: {} steps, recorded {recorded:.4} s", recording.steps.len());
        for (name, mode) in [
            ("dependencies", Mode::Dependencies),
            ("timestamps", Mode::Timestamps { numerator: 1, denominator: 1 }),
            ("fast", Mode::Fast { depth: 1 }),
        ] {
            let mut replay = Replay::new(source.steps.iter().cloned(), mode, Instant::ZERO);
            run(&mut device::Constant::parallel(latency), &mut replay, Instant::ZERO);
            let elapsed = replay.finish().map_err(|fault| format!("{fault:?}"))?.elapsed.as_secs_f64();
            print!("; {name} {elapsed:.4} s ({:+.1} %)", (elapsed / recorded - 1.0) * 100.0);
        }
        println!();
    }
    Ok(())
}

/// Returns the recorded seconds between the marks of the measured part.
fn recorded(recording: &Recording) -> f64 {
    let at = |kind| recording.steps.iter().find(|step| step.action == Action::Mark(kind)).map(|step| step.at);
    let begins = at(MarkKind::RunBegins).unwrap_or_default();
    let ends = at(MarkKind::RunEnds).or(recording.steps.last().map(|step| step.at)).unwrap_or_default();
    ends.as_secs_f64() - begins.as_secs_f64()
}
