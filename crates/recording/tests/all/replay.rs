//! Replays against closed forms, on devices of constant latency.

use crate::device::Constant;
use flashlab_recording::{
    Action, Cause, Event, Flags, MarkKind, Mode, Outcome, ReadStep, Replay, ReplayError, Step, TaskId,
};
use flashlab_sim::{Duration, Instant, Op, run};
use proptest::prelude::*;

const THINK: Duration = Duration::from_us(30);

fn read(number: u64, causes: Vec<Cause>) -> Step {
    let action =
        Action::Request { op: Op::Read, offset: number * 4096, length: 4096, flags: Flags::default() };
    Step { task: TaskId(0), at: Duration::from_us(number * 100), action, causes }
}

fn mark(kind: MarkKind, causes: Vec<Cause>) -> Step {
    Step { task: TaskId(0), at: Duration::ZERO, action: Action::Mark(kind), causes }
}

fn after(back: u32, event: Event, think: Duration) -> Cause {
    Cause::Step { back, event, think }
}

fn completed(back: u32) -> Cause {
    after(back, Event::Completed, THINK)
}

/// Reads, each of which waits for the one before it.
fn chain(count: u64) -> impl Iterator<Item = Step> {
    (0..count).map(|n| read(n, if n == 0 { Vec::new() } else { vec![completed(1)] }))
}

/// The steps of an iterator.
struct Yielded<I>(I);

impl<I: Iterator<Item = Step>> ReadStep for Yielded<I> {
    fn read_step(&mut self, step: &mut Step) -> bool {
        self.0.next().map(|next| *step = next).is_some()
    }
}

fn replay(
    steps: impl Iterator<Item = Step>,
    mode: Mode,
    device: &mut Constant,
) -> Result<Outcome, ReplayError> {
    let mut replay = Replay::new(Yielded(steps), mode, Instant::ZERO);
    run(device, &mut replay, Instant::ZERO);
    replay.finish()
}

fn elapsed(steps: Vec<Step>, mode: Mode, mut device: Constant) -> Duration {
    replay(steps.into_iter(), mode, &mut device).unwrap().elapsed
}

#[test]
fn a_chain_takes_each_latency_and_each_think_time() {
    for us in [1, 250, 4000] {
        let latency = Duration::from_us(us);
        let elapsed = elapsed(chain(100).collect(), Mode::Dependencies, Constant::parallel(latency));
        assert_eq!(elapsed, latency * 100 + THINK * 99);
    }
}

#[test]
fn independent_tasks_overlap_on_a_parallel_device_and_queue_on_a_serial_one() {
    let latency = Duration::from_us(200);
    let steps: Vec<_> = (0..8).map(|n| read(n, Vec::new())).collect();
    assert_eq!(elapsed(steps.clone(), Mode::Dependencies, Constant::parallel(latency)), latency);
    assert_eq!(elapsed(steps, Mode::Dependencies, Constant::serial(latency)), latency * 8);
}

#[test]
fn a_request_that_follows_a_start_does_not_wait_for_the_device() {
    let latency = Duration::from_ms(5);
    let steps = vec![read(0, Vec::new()), read(1, vec![after(1, Event::Started, THINK)])];
    assert_eq!(elapsed(steps, Mode::Dependencies, Constant::parallel(latency)), THINK + latency);
}

#[test]
fn a_step_starts_at_its_latest_cause() {
    let timer = Cause::Instant(Duration::from_ms(5));
    let steps = vec![read(0, Vec::new()), read(1, vec![completed(1), timer])];
    let at = |ms| elapsed(steps.clone(), Mode::Dependencies, Constant::parallel(Duration::from_ms(ms)));
    assert_eq!(at(1), Duration::from_ms(6), "the timer is the last cause");
    assert_eq!(at(8), Duration::from_ms(16) + THINK, "the completion is the last cause");
}

#[test]
fn marks_bound_the_run_and_time_its_operations() {
    let latency = Duration::from_us(500);
    let steps = vec![
        read(0, Vec::new()),
        mark(MarkKind::RunBegins, vec![completed(1)]),
        mark(MarkKind::OperationBegins, vec![after(1, Event::Completed, THINK)]),
        read(1, vec![completed(1)]),
        read(2, vec![completed(1)]),
        mark(MarkKind::OperationEnds, vec![completed(1)]),
        mark(MarkKind::RunEnds, vec![completed(1)]),
        read(3, vec![Cause::Instant(Duration::from_secs(1))]),
    ];
    let mut device = Constant::serial(latency);
    let outcome = replay(steps.into_iter(), Mode::Dependencies, &mut device).unwrap();
    assert_eq!(outcome.operations.count(), 1);
    assert_eq!(outcome.operations.max(), latency * 2 + THINK * 3);
    assert_eq!(outcome.elapsed, latency * 2 + THINK * 5);
    assert_eq!((outcome.reads.histogram.count(), outcome.failed), (4, 0));
}

#[test]
fn timestamps_start_requests_however_late_the_device_is() {
    let mut device = Constant::serial(Duration::from_ms(1));
    let mode = Mode::Timestamps { numerator: 3, denominator: 2 };
    let outcome = replay(chain(4), mode, &mut device).unwrap();
    let starts: Vec<_> = device.starts.iter().map(|(_, at)| at.as_ns() / 1000).collect();
    assert_eq!(starts, [0, 150, 300, 450]);
    assert_eq!(outcome.elapsed, Duration::from_ms(4));
}

fn measured_part() -> Vec<Step> {
    let at = |us, step| Step { at: Duration::from_us(us), ..step };
    vec![
        at(0, read(0, Vec::new())),
        at(1000, mark(MarkKind::RunBegins, Vec::new())),
        at(1100, mark(MarkKind::OperationBegins, Vec::new())),
        at(1100, read(1, Vec::new())),
        at(1200, read(2, Vec::new())),
        at(1300, mark(MarkKind::OperationEnds, Vec::new())),
        at(1400, mark(MarkKind::RunEnds, Vec::new())),
        at(9000, read(3, Vec::new())),
    ]
}

#[test]
fn marks_bound_a_replay_by_timestamps() {
    let mode = Mode::Timestamps { numerator: 1, denominator: 1 };
    let outcome = |us| {
        let mut device = Constant::serial(Duration::from_us(us));
        replay(measured_part().into_iter(), mode, &mut device).unwrap()
    };
    let fast = outcome(10);
    assert_eq!(fast.elapsed, Duration::from_us(400), "the marks are reached at their instants");
    assert_eq!((fast.operations.count(), fast.operations.max()), (1, Duration::from_us(200)));
    let slow = outcome(500);
    assert_eq!(slow.elapsed, Duration::from_us(1100), "the run ends with its last request");
    assert_eq!(slow.operations.max(), Duration::from_us(1000));
}

#[test]
fn marks_bound_a_replay_as_fast_as_possible() {
    let outcome = |depth| {
        let mut device = Constant::serial(Duration::from_us(500));
        replay(measured_part().into_iter(), Mode::Fast { depth }, &mut device).unwrap()
    };
    let one = outcome(1);
    assert_eq!(one.elapsed, Duration::from_us(1000), "two requests lie between the marks");
    assert_eq!((one.operations.count(), one.operations.max()), (1, Duration::from_us(1000)));
    assert_eq!(
        outcome(2).elapsed,
        Duration::from_us(1500),
        "the second request waits for the first one's end"
    );
}

#[test]
fn an_operation_is_timed_after_its_first_mark_has_left_the_window() {
    let count = 3 * u64::from(Cause::FARTHEST);
    let latency = Duration::from_us(1);
    let operation = |ends: Vec<Cause>| {
        let mut steps = vec![mark(MarkKind::OperationBegins, Vec::new())];
        steps.extend((0..count).map(|n| read(n, vec![completed(1)])));
        steps.push(mark(MarkKind::OperationEnds, ends));
        replay(steps.into_iter(), Mode::Dependencies, &mut Constant::parallel(latency)).unwrap().operations
    };
    let operations = operation(vec![completed(1)]);
    assert_eq!((operations.count(), operations.max()), (1, (latency + THINK) * count + THINK));
}

#[test]
fn an_operation_that_waits_behind_a_full_window_is_timed() {
    // The mark that begins the operation leaves the window while the mark that ends it still waits for its
    // instant.
    let late = Duration::from_secs(100);
    let begin = mark(MarkKind::OperationBegins, Vec::new());
    let reads = (0..u64::from(Cause::FARTHEST)).map(|n| read(n, Vec::new()));
    let mut steps: Vec<_> = [begin, read(0, vec![Cause::Instant(late)])].into_iter().chain(reads).collect();
    let end = mark(MarkKind::OperationEnds, vec![completed(1)]);
    steps.insert(2, end);
    let latency = Duration::from_us(1);
    let operations = replay(steps.into_iter(), Mode::Dependencies, &mut Constant::parallel(latency));
    assert_eq!(operations.unwrap().operations.max(), late + latency + THINK);
}

#[test]
fn latencies_behind_a_full_queue_count_from_the_recorded_instants() {
    let count = 70_000;
    let steps = (0..count).map(|n| Step { at: Duration::ZERO, ..read(n, Vec::new()) });
    let mode = Mode::Timestamps { numerator: 1, denominator: 1 };
    let mut device = Constant::serial(Duration::from_us(1));
    let outcome = replay(steps, mode, &mut device).unwrap();
    assert_eq!(outcome.reads.histogram.max(), Duration::from_us(count));
    assert_eq!(
        device.starts[65_536].1,
        Instant::ZERO + Duration::from_us(1),
        "65,536 requests are in flight"
    );
}

#[test]
fn a_fast_replay_keeps_its_queue_depth() {
    let latency = Duration::from_us(100);
    for (depth, rounds) in [(1, 12), (4, 3), (32, 1)] {
        let elapsed = elapsed(chain(12).collect(), Mode::Fast { depth }, Constant::parallel(latency));
        assert_eq!(elapsed, latency * rounds, "depth {depth}");
    }
}

#[test]
fn an_impossible_distance_ends_the_replay_and_names_its_step() {
    for back in [0, 2, Cause::FARTHEST + 1] {
        let steps = vec![read(0, Vec::new()), read(1, vec![completed(back)])];
        let error = replay(steps.into_iter(), Mode::Dependencies, &mut Constant::serial(THINK)).unwrap_err();
        assert_eq!(error, ReplayError::Distance { step: 1, back });
        assert!(error.to_string().ends_with("expected 1 to 1"), "{error}");
    }
}

#[test]
fn a_run_of_more_than_146_years_is_refused_with_its_step() {
    let year = Duration::from_secs(365 * 24 * 3600);
    let late = |at| Step { at, ..read(1, vec![Cause::Instant(at)]) };
    let refused =
        |steps: Vec<Step>, mode| replay(steps.into_iter(), mode, &mut Constant::serial(THINK)).unwrap_err();
    let longest = Duration::from_ns(u64::MAX);
    for mode in [Mode::Dependencies, Mode::Timestamps { numerator: 3, denominator: 2 }] {
        assert_eq!(refused(vec![read(0, Vec::new()), late(longest)], mode), ReplayError::TooLate { step: 1 });
    }
    let slow = Mode::Timestamps { numerator: 100, denominator: 1 };
    assert_eq!(refused(vec![late(year * 2)], slow), ReplayError::TooLate { step: 0 });
    let sums = (0..4)
        .map(|n| read(n, if n == 0 { Vec::new() } else { vec![after(1, Event::Completed, year * 60)] }));
    assert_eq!(refused(sums.collect(), Mode::Dependencies), ReplayError::TooLate { step: 3 });
}

#[test]
fn a_cause_at_the_farthest_distance_is_followed() {
    let count = u64::from(Cause::FARTHEST) + 1;
    let mut steps: Vec<_> = chain(count - 1).collect();
    steps.insert(0, read(0, Vec::new()));
    steps.push(read(count, vec![after(Cause::FARTHEST, Event::Completed, Duration::from_secs(100))]));
    let elapsed = elapsed(steps, Mode::Dependencies, Constant::parallel(Duration::from_us(1)));
    // The second read is the first of the chain; it ends after one microsecond.
    assert_eq!(elapsed, Duration::from_us(2) + Duration::from_secs(100));
}

/// Returns the start of each step by definition: the latest of its causes, on a parallel device with a
/// constant `latency`.
fn reference(steps: &[Step], latency: Duration) -> Vec<Instant> {
    let mut starts: Vec<Instant> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let cause = |cause: &Cause| match *cause {
            Cause::Instant(after) => Instant::ZERO + after,
            Cause::Step { back, event: Event::Started, think } => starts[number - back as usize] + think,
            Cause::Step { back, event: Event::Completed, think } => {
                starts[number - back as usize] + latency + think
            }
        };
        let start = step.causes.iter().map(cause).max().unwrap_or(Instant::ZERO);
        starts.push(start);
    }
    starts
}

proptest! {
    #[test]
    fn every_request_starts_at_its_latest_cause(
        drawn in prop::collection::vec(prop::collection::vec((1u32..6, any::<bool>(), 0u64..500), 0..3), 1..80),
        latency in 1u64..400,
    ) {
        let steps: Vec<Step> = drawn.iter().enumerate().map(|(number, causes)| {
            let causes = causes.iter().map(|(back, starts, think)| {
                let event = if *starts { Event::Started } else { Event::Completed };
                let think = Duration::from_us(*think);
                if *back as usize > number { Cause::Instant(think) } else { after(*back, event, think) }
            });
            read(number as u64, causes.collect())
        }).collect();
        let latency = Duration::from_us(latency);
        let mut device = Constant::parallel(latency);
        replay(steps.clone().into_iter(), Mode::Dependencies, &mut device).unwrap();
        let mut starts = device.starts.clone();
        starts.sort_unstable();
        let starts: Vec<_> = starts.into_iter().map(|(_, at)| at).collect();
        prop_assert_eq!(starts, reference(&steps, latency));
    }
}
