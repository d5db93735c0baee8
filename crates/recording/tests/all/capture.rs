//! A trace of a guest: two appends with `fsync` on vfat, recorded on a disk of 100 us per request.

use crate::device::Constant;
use flashlab_recording::capture::{DeriveError, derive, parse};
use flashlab_recording::{Action, Cause, Event, Header, MarkKind, Mode, Recording, Replay};
use flashlab_sim::{Duration, Instant, run};

const LATENCY: Duration = Duration::from_us(100);

fn recording() -> Recording {
    let events = parse(include_str!("../traces/vfat-logger.txt")).unwrap();
    derive(Header::default(), LATENCY, &events).unwrap()
}

fn replay(recording: &Recording, latency: Duration) -> Duration {
    let mut replay = Replay::new(recording.steps.iter(), Mode::Dependencies, Instant::ZERO);
    run(&mut Constant::parallel(latency), &mut replay, Instant::ZERO);
    replay.finish().unwrap().elapsed
}

fn recorded(recording: &Recording) -> Duration {
    let at = |kind| recording.steps.iter().find(|step| step.action == Action::Mark(kind)).unwrap().at;
    Duration::from_ns(at(MarkKind::RunEnds).as_ns() - at(MarkKind::RunBegins).as_ns())
}

#[test]
fn a_replay_on_the_recording_device_returns_the_recorded_time() {
    let recording = recording();
    let (found, expected) = (replay(&recording, LATENCY).as_ns(), recorded(&recording).as_ns());
    assert!(found.abs_diff(expected) * 100 <= expected, "{found} ns, recorded {expected} ns");
}

#[test]
fn a_completion_beyond_the_last_possible_sector_completes_no_request() {
    let trace = include_str!("../traces/vfat-logger.txt");
    let trace = trace.replacen("WS () 2088 + 1 ", "WS () 2088 + 18446744073709551615 ", 1);
    let error = derive(Header::default(), LATENCY, &parse(&trace).unwrap()).unwrap_err();
    assert!(matches!(error, DeriveError::Incomplete { sector: 2088, .. }), "{error}");
}

#[test]
fn a_slower_device_delays_the_run_by_more_than_four_and_at_most_all_requests() {
    let recording = recording();
    let requests =
        recording.steps.iter().filter(|step| matches!(step.action, Action::Request { .. })).count() as u64;
    let slower = replay(&recording, LATENCY * 11).as_ns() - replay(&recording, LATENCY).as_ns();
    // No two requests of a logger overlap, unless the filesystem writes several blocks before it waits.
    assert!(slower > LATENCY.as_ns() * 10 * 4 && slower <= LATENCY.as_ns() * 10 * requests, "{slower} ns");
}

#[test]
fn no_request_of_the_logger_starts_at_an_instant() {
    let recording = recording();
    let first =
        recording.steps.iter().position(|step| matches!(step.action, Action::Request { .. })).unwrap();
    for (number, step) in recording.steps.iter().enumerate().skip(first) {
        assert!(
            step.causes.iter().all(|cause| matches!(cause, Cause::Step { .. })),
            "step {number}: {step:?}"
        );
    }
    let waits = |step: &&flashlab_recording::Step| {
        step.causes.iter().any(|cause| matches!(cause, Cause::Step { event: Event::Completed, .. }))
    };
    assert!(recording.steps.iter().filter(waits).count() >= 4);
}
