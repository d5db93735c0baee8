//! Closed loop: predicts the elapsed time of a run on a slower device from its recording on a fast one.
//!
//! `closed_loop FAST LATENCY_US SLOW LATENCY_US ...` reads traces of the same workload (text of tracefs). The device law
//! is a constant latency of each request, as `null_blk` has it with `irqmode=2 completion_nsec=N`. The latency of the
//! fast device serves to check that the replay on the recording device returns the recorded time.

use std::{env, fs};

use flashlab_recording::capture::{derive, parse};
use flashlab_recording::{Action, Cause, Event, Header, MarkKind, Recording};
use flashlab_sim::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut fast = None;
    for pair in arguments.chunks(2) {
        let [path, latency_us] = pair else { return Err("usage: closed_loop (TRACE LATENCY_US)...".into()) };
        let latency_ns = latency_us.parse::<u64>()? * 1_000;
        let recording =
            derive(Header::default(), Duration::from_ns(latency_ns), &parse(&fs::read_to_string(path)?)?)?;
        let recorded = recording.steps.iter().map(|step| step.at.as_ns()).collect::<Vec<_>>();
        let recorded = elapsed(&recording, &recorded);
        let source = fast.get_or_insert_with(|| recording.clone());
        let by_causes = elapsed(source, &replay(source, latency_ns));
        let error = (by_causes / recorded - 1.0) * 100.0;
        let (steps, base) = (recording.steps.len(), source.steps.len());
        println!(
            "{path}: {steps} steps ({base}), recorded {recorded:.4} s, by causes {by_causes:.4} s ({error:+.2} %)"
        );
    }
    Ok(())
}

/// Returns the seconds between the marks of the measured part.
fn elapsed(recording: &Recording, starts: &[u64]) -> f64 {
    let at = |kind| {
        let found = recording.steps.iter().position(|step| step.action == Action::Mark(kind));
        found.map_or(0, |step| starts[step])
    };
    (at(MarkKind::RunEnds) - at(MarkKind::RunBegins)) as f64 / 1e9
}

/// Returns the start of each step on a device with a constant latency.
fn replay(recording: &Recording, latency_ns: u64) -> Vec<u64> {
    let mut starts: Vec<u64> = Vec::new();
    for (index, step) in recording.steps.iter().enumerate() {
        let start = step.causes.iter().map(|cause| match *cause {
            Cause::Instant(at) => at.as_ns(),
            Cause::Step { back, event, think } => {
                let earlier = index - back as usize;
                let is_request = matches!(recording.steps[earlier].action, Action::Request { .. });
                let latency = if event == Event::Completed && is_request { latency_ns } else { 0 };
                starts[earlier] + latency + think.as_ns()
            }
        });
        starts.push(start.max().unwrap_or(0));
    }
    starts
}
